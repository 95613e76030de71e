"""Write docs/reproduce.md: command, data, models, cost and differences of each published table.

python tools/reproduce_page.py            write the page from config/published/recipes.yaml
python tools/reproduce_page.py --check    check that the page is up to date and that the recipes
                                          and presets fit (tools/dry_runs.py runs the presets)

Checkpoints, data, prompts and sizes come from the presets and the registries, costs from `psibench
plan` without any downloads.
"""

import argparse
import contextlib
import csv
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import yaml

os.environ["HF_HUB_OFFLINE"] = "1"  # the page must not depend on the network

import polars as pl

from psibench.config.files import read_yaml
from psibench.config.registry import load_registry
from psibench.config.rerankers import RerankerBase, load_rerankers
from psibench.models.checkpoints import EMBEDDED_PREFIX
from psibench.plan.config import Config, load_config, resolve_rerankers
from psibench.plan.measured import MeasuredWork
from psibench.plan.plan import Plan, make_plan
from psibench.plan.texts import UNCERTAIN
from psibench.plan.work import summed, work_table

ROOT = Path(__file__).resolve().parents[1]
PUBLISHED = ROOT / "config" / "published"
PRESETS = ROOT / "config" / "presets"
PAGE = ROOT / "docs" / "reproduce.md"
MOST_ROWS = 6
"""Most rows of a published table on the page; the page links longer ones."""
MOST_NAMED = 6
"""Most datasets that are listed; of more, the first ones and the number of the others."""
LONG = 60
"""Least characters of a fact that is replaced by a reference if an earlier preset has it."""
KEYS = {"preset", "target", "tables", "what", "needs", "takes", "output", "differs"}
KEYS |= {"obtained"}
OPTIONAL = {"target", "takes", "obtained"}
TARGETS = {"", "probes"}
NOT_PINNED = "not pinned"
EMPTY: tuple[Any, ...] = (None, [], {})
SETTINGS = ("checkpoint", "revision", "max_tokens", "pooling", "dtype", "query_prompt")
SETTINGS += ("document_prompt", "backend")
PROMPTS = ("query_prompt", "document_prompt")
FORMAT = "auto, vectors kept as float32"
"""The default number format, which the page has once."""
Entry = Mapping[str, Any]


def read_recipes() -> list[dict[str, Any]]:
    """Read the recipes; exit with a list of wrong keys, files and targets."""
    recipes = yaml.safe_load((PUBLISHED / "recipes.yaml").read_text(encoding="utf-8"))
    wrong = []
    for recipe in recipes:
        name = recipe.get("preset")
        if missing := KEYS - OPTIONAL - set(recipe):
            wrong.append(f"{name}: lacks {', '.join(sorted(missing))}")
        if unknown := set(recipe) - KEYS:
            wrong.append(f"{name}: unknown keys {', '.join(sorted(unknown))}")
        if recipe.get("target", "") not in TARGETS:
            wrong.append(f"{name}: target {recipe['target']!r}; use probes, or remove it")
        for table in recipe.get("tables", []):
            if not (PUBLISHED / f"{table}.csv").is_file():
                wrong.append(f"{name}: config/published/{table}.csv does not exist")
    named = [recipe["preset"] for recipe in recipes]
    there = {path.stem for path in PRESETS.glob("*.yaml")}
    wrong += [
        f"{name}: config/presets/{name}.yaml does not exist" for name in named if name not in there
    ]
    wrong += [f"{name}: this preset has no recipe" for name in sorted(there - set(named))]
    covered = {table for recipe in recipes for table in recipe["tables"]}
    no_recipe = {path.stem for path in PUBLISHED.glob("*_table*.csv")} - covered
    wrong += [f"{table}: this table has no recipe" for table in sorted(no_recipe)]
    if wrong:
        sys.exit("config/published/recipes.yaml: " + "\n  ".join(["", *wrong]))
    return recipes


# --- data and models of a preset


def planned(preset: str) -> tuple[Config, dict[str, Any], Plan]:
    """Return a preset's config, models and plan, computed without results and downloads."""
    config, models = load_config(read_yaml(PRESETS / f"{preset}.yaml"))
    return config, models, make_plan(config, models, missing=[])


def datasets(value: Any) -> Iterator[str]:
    """Yield every dataset of the hub in plain data, with its files and revision."""
    if isinstance(value, Mapping):
        name = value.get("name") if value.get("kind") == "hub" else value.get("path")
        if isinstance(name, str) and "revision" in value:
            files = ", ".join(value.get("data_files") or ())
            part = ", ".join(filter(None, (value.get("config"), files)))
            pinned = f" at {value['revision']}" if value["revision"] else ""
            yield f"`{name}`{f' ({part})' if part else ''}{pinned}"
        for one in value.values():
            yield from datasets(one)
    elif isinstance(value, list):
        for one in value:
            yield from datasets(one)


def entry_of(model: Any) -> Entry:
    """Return the fields of an entry for the table of checkpoints."""
    dumped = model.model_dump()
    found = {name: dumped.get(name) for name in SETTINGS}
    found["checkpoint"] = found["checkpoint"] or dumped.get("model")
    if isinstance(model, RerankerBase):
        found |= {"query_prompt": dumped.get("instruction", ""), "document_prompt": ""}
    return found


def entries_of(config: Config, models: Mapping[str, Any], plan: Plan) -> dict[str, Entry]:
    """Return the checkpoints and services of a preset by id: models, rerankers, trained bases."""
    used, made = tested(config, plan), {*config.trained, *config.untrained}
    found = {name: entry_of(model) for name, model in models.items() if name not in made}
    found |= {name: entry_of(one) for name, one in resolve_rerankers(config, models).items()}
    trained = [one for name, one in config.trained.items() if name in used]
    bases = {one.base for one in trained} | {name.removesuffix("-untrained") for name in used}
    for training in config.training.values():
        for name, base in training.bases.items():
            if name in bases or not used:
                found[name] = entry_of(base) | {"backend": "trained"}
    return {name: one for name, one in found.items() if one["checkpoint"]}


def tested(config: Config, plan: Plan) -> set[str]:
    """Return the trained models that are evaluated or probed."""
    made = {*config.trained, *config.untrained}
    probed = made if config.probes.models is None else {*config.probes.models}
    asked_for = "probes" in config.model_fields_set
    return made & ({run["model"] for run in plan.runs} | (probed if asked_for else set()))


def trainings(config: Config, plan: Plan) -> str:
    """Describe the number of trained models: evaluated or probed ones, or all if none is."""
    return str(len(tested(config, plan) & set(config.trained)) or len(config.trained) or "")


def asked(plan: Plan) -> Iterator[str]:
    """Yield each language model with its tasks, and a template if its name differs."""
    for name in plan.llms:
        tasks = dict.fromkeys(
            (task.task.name, Path(task.path).stem)
            for one in plan.benchmarks.values()
            for task in one.tasks.values()
            if task.section.llm == name
        )
        shown = [task if task == file else f"{task} (`{file}.md`)" for task, file in tasks]
        yield f"{name} for {', '.join(shown)}" if shown else name


def language_model(llm: Any) -> str:
    """Return a language model's row: model, revision, sampling."""
    sampling = llm.sampling.model_dump(exclude={"seed"})
    at = ", ".join(f"{key} {value}" for key, value in sampling.items() if value not in EMPTY)
    revision = llm.revision or (NOT_PINNED if llm.backend == "vllm" else "")
    return f"`{llm.model}` | {revision} | {at}"


def work(plan: Plan, recipe: Mapping[str, Any]) -> tuple[str, str]:
    """Return the cost by the plan (GPU hours, requests, tokens, money), and the cost by hand."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        table = work_table(MeasuredWork(plan, Path("results")))
    if recipe.get("target") == "probes" and not plan.config.probes.psi:
        table = table.filter(~pl.col("stage").is_in(["encode", "search", "rerank"]))
    (total,) = summed(table.with_columns(stage=pl.lit("total")), ["stage"]).to_dicts()
    names = [task for one in plan.benchmarks.values() for task in one.tasks]
    requests = table.filter(pl.col("stage").is_in(names))
    said = []
    if total["gpu_minutes"]:
        said.append(f"GPU hours {rounded(total['gpu_minutes'] / 60)}")
    if requests.height:
        (sums,) = summed(requests.with_columns(stage=pl.lit("asked")), ["stage"]).to_dicts()
        tokens = [rounded(sums[name] / 1e6) for name in ("tokens_in", "tokens_out")]
        said.append(f"requests {rounded(sums['items'])}")
        said.append(f"million tokens in {tokens[0]}, out {tokens[1]}")
    said += [f"USD {rounded(total['usd'])}"] if total["usd"] else []
    not_counted = list(dict.fromkeys(table.filter(pl.col("items").is_null())["benchmark"]))
    rest = f"not counted before the data are there: {', '.join(not_counted)}" if not_counted else ""
    return ", ".join(said), recipe.get("takes", rest)


def rounded(value: float) -> str:
    """Format a value with two significant digits."""
    value = float(f"{value:.2g}")
    return f"{value:,.0f}" if value >= 10 else f"{value:g}"


# --- the page


def published(names: Iterable[str]) -> tuple[str, list[str]]:
    """Return links to published tables, and the short tables as Markdown."""
    links, tables = [], []
    for name in names:
        link, table = published_table(name)
        links.append(link)
        tables += [table] if table else []
    return ", ".join(links), tables


def published_table(name: str) -> tuple[str, str]:
    """Return a link to a published table, and a short table as Markdown."""
    path = PUBLISHED / f"{name}.csv"
    with path.open(encoding="utf-8", newline="") as file:
        heading, *rows = csv.reader(file)
    source = rows[0][heading.index("source")]
    link = f"[{path.name}](../config/published/{path.name})"
    if len(rows) > MOST_ROWS:
        return link, ""
    keep = [i for i, column in enumerate(heading) if column != "source"]
    lines = ["| " + " | ".join(heading[i] for i in keep) + " |", "|" + "---|" * len(keep)]
    lines += ["| " + " | ".join(row[i] for i in keep) + " |" for row in rows]
    return link, f"{source}:\n\n" + "\n".join(lines)


def command(recipe: Mapping[str, Any]) -> str:
    """Return the command of a recipe."""
    return (
        f"psibench run shipped:presets/{recipe['preset']}.yaml {recipe.get('target', '')}".rstrip()
    )


def named(texts: list[str]) -> str:
    """Join texts; of many with one prefix before "_", the first ones and the number of others."""
    alike: dict[str, list[str]] = {}
    for text in dict.fromkeys(texts):
        alike.setdefault(text.partition("_")[0], []).append(text)
    said = []
    for some in alike.values():
        more = [f"and {len(some) - MOST_NAMED} more such"] if len(some) > MOST_NAMED else []
        said += [*some[:MOST_NAMED], *more]
    return "; ".join(said)


def checkpoints(used: Mapping[str, Mapping[str, Entry]]) -> str:
    """Return the table of checkpoints; ``used``: id -> preset -> entry."""
    letters = shared_prompts(used)
    known = {name: entry_of(one) for name, one in load_registry().items()}
    known |= {name: entry_of(one) for name, one in load_rerankers().items()}
    head = ("id", "checkpoint or model", "revision", "tokens", "pooling", "format")
    head += ("before a query", "before a document")
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for name in sorted(used):
        groups: dict[str, list[str]] = {}
        rows: dict[str, Entry] = {}
        for preset, entry in used[name].items():
            groups.setdefault(repr(entry), []).append(preset)
            rows[repr(entry)] = entry
        for key, presets in groups.items():
            differs = len(groups) > 1 and rows[key] != known.get(name)
            entry = rows[key]
            cells = [f"{name} ({', '.join(presets)})" if differs else name]
            cells.append(f"`{entry['checkpoint']}`")
            is_here = "api" in entry["backend"] or entry["checkpoint"].startswith(EMBEDDED_PREFIX)
            cells.append(entry["revision"] or ("" if is_here else NOT_PINNED))
            cells += [str(entry[key] or "") for key in ("max_tokens", "pooling", "dtype")]
            texts = [prompt(entry[key]) for key in PROMPTS]
            cells += [letters.get(text, text) for text in texts]
            lines.append("| " + " | ".join(cells) + " |")
    legend = [f"- {letter}: {text}" for text, letter in letters.items()]
    return "\n".join([*legend, "", *lines])


def prompt(text: str | None) -> str:
    """Return a prompt with visible line breaks; empty if the checkpoint's prompt is used."""
    if text is None:
        return "checkpoint's"
    return f"`{text}`".replace("\n", "\\n").replace("|", "\\|") if text else ""


def once(said: dict[str, str], text: str, preset: str) -> str:
    """Return a fact, or a reference to the preset in ``said`` with the same long fact."""
    text = " ".join(text.split())
    of = said.setdefault(text, preset)
    return text if of == preset or len(text) < LONG else f"as {of}.yaml"


def data(read: dict[str, set[str]], texts: list[str], preset: str) -> str:
    """List datasets, those in ``read`` only by the earlier preset; adds the others to ``read``."""
    new, earlier = dict.fromkeys(texts), []
    for name, one in sorted(read.items(), key=lambda item: -len(item[1])):
        if one and one <= new.keys():
            earlier.append(f"as {name}.yaml")
            new = {text: None for text in new if text not in one}
    read[preset] = set(texts)
    return "; ".join([*earlier, *filter(None, [named([*new])])])


def shared_prompts(used: Mapping[str, Mapping[str, Entry]]) -> dict[str, str]:
    """Return long prompt of several checkpoints -> letter."""
    entries = [entry for presets in used.values() for entry in presets.values()]
    texts = Counter(prompt(one[key]) for one in entries for key in PROMPTS)
    shared = sorted(text for text, n in texts.items() if n > 1 and len(text) >= LONG)
    return {text: f"**{letter}**" for text, letter in zip(shared, ascii_uppercase, strict=False)}


def page(recipes: list[dict[str, Any]]) -> str:
    """Return the page as Markdown."""
    n_obtained = sum("obtained" in recipe for recipe in recipes)
    parts = [
        "# How do I reproduce a table of the papers?",
        "Each section below has one preset: the command, its data and models, its cost, and its "
        "differences from the paper. `results/published.html` and `results/probes.html` compare "
        "your numbers with the published ones. [papers.md](papers.md) lists choices that the "
        "papers leave open, and inconsistent numbers.",
        f"Presets run at the paper's size so far: {n_obtained or 'none'}. `--small` after a "
        "command runs the same pipeline on small shipped data with substitute models: this tests "
        "the pipeline and reproduces no number. psibench's authors wrote the prompts.",
        "`psibench plan` computes the cost, for GPUs of 100 TFLOPS (`encoding.gpu_tflops`) and "
        f"the prices of `config/prices.yaml`; actual values are mostly {UNCERTAIN} these "
        "values. “By hand” marks estimates of November 2026, where the plan cannot count before "
        "the data are there. Datasets without a revision are not pinned. The number format is "
        f"{FORMAT}, unless a section has another.",
        "`tools/reproduce_page.py` writes this page from "
        "[recipes.yaml](../config/published/recipes.yaml), the presets and the registries.",
    ]
    shown: set[str] = set()
    said: dict[str, str] = {}
    read: dict[str, set[str]] = {}
    used: dict[str, dict[str, Entry]] = {}
    llms: set[str] = set()
    for recipe in recipes:
        preset = recipe["preset"]
        config, models, plan = planned(preset)
        entries = entries_of(config, models, plan)
        for name, entry in entries.items():
            used.setdefault(name, {})[preset] = entry
        llms.update(f"| {name} | {language_model(llm)} |" for name, llm in plan.llms.items())
        kept = f"{config.encoding.dtype}, vectors kept as {config.encoding.storage}"
        costs = work(plan, recipe)
        links, tables = published(name for name in recipe["tables"] if name not in shown)
        sections = [one.model_dump(mode="json") for one in config.benchmarks.values()]
        facts = [
            ("data", data(read, [*datasets(sections)], preset)),
            ("models", ", ".join(entries)),
            ("trainings", trainings(config, plan)),
            ("language models", "; ".join(asked(plan))),
            ("format", "" if kept == FORMAT else kept),
            ("takes", "; ".join(once(said, text, preset) for text in costs if text)),
            ("needs", recipe["needs"]),
            ("results", recipe["output"]),
            ("published", links),
            ("differs", recipe["differs"]),
            ("obtained", recipe.get("obtained", "")),
        ]
        parts += [
            f"## {recipe['what']}",
            f"```\n{command(recipe)}\n```",
            "\n".join(
                f"- **{title}**: {once(said, text, preset)}" for title, text in facts if text
            ),
            *tables,
        ]
        shown.update(recipe["tables"])
    parts += [
        "## Checkpoints",
        "All presets use these entries; a preset in parentheses marks an entry that only it "
        "changes. Settings that a row leaves empty are the checkpoint's, except prompts: an empty "
        "cell means no prompt. Letters abbreviate these prompts:",
        checkpoints(used),
        "## Language models",
        "| id | model | revision | sampling |\n|---|---|---|---|\n" + "\n".join(sorted(llms)),
    ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Write or check the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="exit with 1 if it is not up to date")
    args = parser.parse_args()
    text = page(read_recipes())
    if not args.check:
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != text:
        sys.exit("docs/reproduce.md is out of date: run python tools/reproduce_page.py")


if __name__ == "__main__":
    main()
