"""`psibench estimate`: what the models of a config that are paid will be asked, use and cost."""

import argparse
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from psibench.commands.base import Command, add_config, read_config
from psibench.commands.plan import number
from psibench.commands.text_table import aligned
from psibench.errors import InputError
from psibench.plan.config import load_config

if TYPE_CHECKING:
    import polars as pl

    from psibench.plan.measured import Measured

RESULTS = Path("results")
NONE = "No benchmark of this config asks a language model."
HEAD = ("task", "language", "llm", "requests", "answered", "input tokens", "output tokens", "USD")
API_HEAD = ("benchmark", "language", "by", "texts", "stored", "tokens", "USD")
BASIS = {
    "tables": "tables of an earlier run",
    "source": "the source",
    "plan": "what the config plans; queries at most",
    "unknown": "not counted: build it first, with its data tables as targets",
}
OUTPUT = {
    "tables": "the mean of what the same task used in a run, thoughts and re-asks included",
    "stored answers": "the mean of stored answers to the same task, thoughts included",
    "example": "the example in the prompt's header, for want of 20 stored answers",
    "example, thoughts": "the example in the prompt's header alone at least, and max_output_tokens "
    "with thoughts at most, for want of 20 stored answers",
    "expansion": "what is translated, times the mean tokens of the same documents in PosIR, table "
    "4 (1.40 to 1.67), 1.40 for other languages",
    "nothing": "not known at least, max_output_tokens at most: the prompt's header has no "
    "reply_example",
}
OUTPUT["expansion, thoughts"] = f"{OUTPUT['expansion']}; max_output_tokens with thoughts at most"
OUTPUT["nothing, thoughts"] = OUTPUT["nothing"]
FILTERED = (
    "requests after a filter: it leaves a tenth of the candidates at least (FineWeb-PosQ: 26,356 "
    "of 265,865), all at most, and two tenths are left after all of them; after a run what its "
    "filters left counts"
)
JUDGED = (
    "requests of judges of false negatives: 854 candidates for 26,356 questions (FineWeb-PosQ), "
    "those of judges after the first ones needed at most"
)
SUSPECT = (
    "requests of judge_refusals: as if 1% of the translations were suspect, a guess on the high "
    "side: PosIR found 2,249 refusals among 14 million texts"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add config, choice of a benchmark, and form of the output."""
    add_config(parser)
    parser.add_argument("--benchmark", metavar="ID", help="this benchmark of the config alone")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run_estimate(args: argparse.Namespace) -> None:
    """Estimate what language models and embedding APIs will be asked, and print it."""
    from psibench.plan.measured import Measured
    from psibench.plan.plan import make_plan
    from psibench.plan.work import work_table

    config, models = load_config(read_config(args))
    if args.benchmark not in (None, *config.benchmarks):
        raise InputError(
            f"benchmark {args.benchmark!r}: the config's benchmarks are "
            f"{', '.join(config.benchmarks)}"
        )
    measured = Measured(make_plan(config, models, missing=[]), RESULTS)
    found = _plain(measured, work_table(measured, only=args.benchmark))
    if args.json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return
    lines = [line for row in found["benchmarks"] for line in (*_benchmark(row), "")] or [NONE]
    if found["benchmarks"]:
        lines += ["language models", *(f"  {line}" for row in found["llms"] for line in _llm(row))]
        lines += ["", "assumed", *(f"  - {line}" for line in _assumptions(found["benchmarks"]))]
    if apis := found["embedding_apis"]:
        lines += ["", "embedding APIs", *(f"  {line}" for row in apis for line in _api(row))]
    print("\n".join(lines))


def money(usd: float | None) -> str:
    """Write US dollars: cents up to a hundred, whole dollars above."""
    if usd is None:
        return "no price"
    if 0 < usd < 0.01:
        return "<0.01"
    return f"{usd:,.2f}" if usd < 100 else f"{usd:,.0f}"


def _plain(measured: "Measured", table: "pl.DataFrame") -> dict[str, Any]:
    """Return everything as plain data, unrounded; no sum of money where a part has no price."""
    import polars as pl

    plan = measured.plan
    names = [task for planned in plan.benchmarks.values() for task in planned.tasks]
    tasks = table.filter(pl.col("stage").is_in(names))
    benchmarks = []
    for name in tasks["benchmark"].unique(maintain_order=True):
        own, planned = tasks.filter(benchmark=name), plan.benchmarks[name]
        counts = [measured.counts(name, language) for language in planned.native]
        documents = sum(one.texts.n_documents for one in counts if one is not None)
        found = {"id": name, "recipe": planned.section.recipe, "documents": documents}
        unknown = own.filter(basis="unknown")["language"].unique(maintain_order=True).to_list()
        benchmarks.append(found | {"tasks": own.to_dicts(), "not_counted": unknown, **_sums(own)})
    encoded = table.filter(
        (pl.col("stage") == "encode") | pl.col("stage").str.starts_with("probe_")
    )
    by_api = encoded.filter([plan.is_api(model) for model in encoded["by"]])
    return {
        **_sums(tasks),
        "benchmarks": benchmarks,
        "llms": [
            _llm_data(measured, llm, tasks.filter(by=llm))
            for llm in tasks["by"].unique(maintain_order=True)
        ],
        "embedding_apis": [
            _api_data(measured, model, by_api.filter(by=model))
            for model in by_api["by"].unique(maintain_order=True)
        ],
    }


SUMS = ("items", "tokens_in", "tokens_out", "usd", "gpu_minutes")


def _sums(rows: "pl.DataFrame") -> dict[str, Any]:
    """Add up rows; None of money or GPU minutes where a row that asks something has none."""
    import polars as pl

    known = rows.filter(pl.col("basis") != "unknown")
    asking = known.filter(pl.col("tokens_in_high") > 0)
    sums: dict[str, Any] = {"answered": known["answered"].sum()}
    for name in (f"{one}_{end}" for one in SUMS for end in ("low", "high")):
        sums[name] = None if asking[name].null_count() else known[name].sum()
    return sums


def _llm_data(measured: "Measured", llm: str, rows: "pl.DataFrame") -> dict[str, Any]:
    from psibench.llm.sections import price_of
    from psibench.plan.asked import tokenizer_of

    settings, price, spent = measured.plan.llms[llm], None, None
    _, retired = settings.retirement() or (False, None)
    with suppress(InputError):
        price = price_of(settings.model, measured.plan.prices)
    if settings.budget_usd is not None and price is not None:
        spent = price.cost(measured.spent(llm), is_batch=settings.backend == "openai-batch")
    return {
        "id": llm,
        "model": settings.model,
        "backend": settings.backend,
        "retired": retired,
        "price": None if price is None else price.model_dump(mode="json"),
        "on_cpu": settings.backend == "vllm" and settings.vllm.gpus == 0,
        "tokenizer": {"used": tokenizer_of(settings), "wanted": settings.tokenizer},
        **(sums := _sums(rows)),
        **_budget(settings.budget_usd, spent, sums),
    }


def _api_data(measured: "Measured", model: str, rows: "pl.DataFrame") -> dict[str, Any]:
    entry: Any = measured.plan.models[model]
    spent, sums = measured.spent_on_vectors(model, entry.price), _sums(rows)
    return {
        "id": model,
        "model": entry.model,
        "price": entry.price,
        **sums,
        **_budget(entry.budget_usd, spent, sums),
        "benchmarks": rows.to_dicts(),
    }


def _budget(budget: float | None, spent: float | None, sums: dict[str, Any]) -> dict[str, Any]:
    """Return a budget, and what is left of it after what is asked at most, and at least."""
    left: dict[str, Any] = {"left_usd_low": None, "left_usd_high": None}
    if budget is not None and spent is not None and sums["usd_high"] is not None:
        left["left_usd_low"] = budget - spent - sums["usd_high"]
        left["left_usd_high"] = budget - spent - sums["usd_low"]
    return {"budget_usd": budget, "spent_usd": spent, **left}


def _ends(row: dict[str, Any], name: str, write: Any = "{:,}".format) -> str:
    low, high = (
        None if row[f"{name}_{end}"] is None else write(row[f"{name}_{end}"])
        for end in ("low", "high")
    )
    if high is None:
        return "no price" if name == "usd" else "?"
    return str(low) if low == high else f"{low} to {high}"


def _benchmark(row: dict[str, Any]) -> Iterator[str]:
    yield f"{row['id']} ({row['recipe']}): {row['documents']:,} documents"
    counted = [task for task in row["tasks"] if task["basis"] != "unknown"]
    if counted:
        cells = [_cells(task["stage"], task["language"], task["by"], task) for task in counted]
        rows = [HEAD, *cells, _cells("total", "", "", row)]
        yield from (f"  {line}" for line in aligned(rows, n_text=3))
    if row["not_counted"]:
        yield (
            f"  not counted: {', '.join(row['not_counted'])}: nobody can tell how many texts there "
            "are before it is built; build it first, with its data tables as targets"
        )


def _cells(name: str, language: str, by: str, row: dict[str, Any]) -> tuple[str, ...]:
    counts = (_ends(row, "items"), f"{row['answered'] or 0:,}", _ends(row, "tokens_in"))
    return (name, language, by, *counts, _ends(row, "tokens_out"), _ends(row, "usd", money))


def _llm(row: dict[str, Any]) -> Iterator[str]:
    used, wanted = row["tokenizer"]["used"], row["tokenizer"]["wanted"]
    with_ = used if used == wanted else f"{used} ({wanted} cannot be loaded here)"
    yield f"{row['id']}: {row['model']}, backend {row['backend']}"
    if row["retired"] is not None:
        yield f"  {row['retired']}"
    yield f"  tokens of its prompts counted with {with_}"
    hours = _ends(row, "gpu_minutes", lambda minutes: number(minutes / 60))
    if row["gpu_minutes_high"] is not None and row["tokens_in_high"]:
        place = "here" if row["backend"] == "vllm" else "elsewhere"
        yield f"  served {place}: {hours} GPU hours (`psibench plan`)"
    elif row["backend"] == "vllm" and row["on_cpu"]:
        yield "  served here, on CPUs: `psibench plan` counts its hours by `vllm.tokens_per_s`"
    elif row["backend"] == "vllm":
        yield "  served here: its GPU hours are not counted; give `vllm: {parameters_b: ...}`"
    elif row["price"] is None:
        yield "  served elsewhere: its GPU hours are not counted (docs/vllm.md says how they are)"
    price = row["price"]
    if price is None:
        yield (
            f"  no price: add `prices: {{{row['model']}: {{input_usd: ..., output_usd: ..., "
            "as_of: ...}}` to your config to see money"
        )
        return
    is_batch = row["backend"] == "openai-batch" and price["batch_share"] != 1
    half = f", of which batches cost {price['batch_share']:.0%}" if is_batch else ""
    yield (
        f"  {price['input_usd']:g} USD per million input tokens, {price['output_usd']:g} output"
        f"{half}; as of {price['as_of']} ({price['source'] or 'no source given'})"
    )
    n_requests = f"{_ends(row, 'items')} requests, {row['answered']:,} of them answered"
    yield f"  {_ends(row, 'usd', money)} USD for {n_requests}"
    yield from _left(row)


def _left(row: dict[str, Any]) -> Iterator[str]:
    if row["left_usd_low"] is None:
        return
    lack = ""
    if row["left_usd_low"] < 0:
        lack = f": it {'will' if row['left_usd_high'] < 0 else 'may'} stop before the end"
    left = _ends(row, "left_usd", "{:,.2f}".format)
    spent = money(row["spent_usd"])
    yield f"  budget {row['budget_usd']:g} USD, spent {spent}, left after this {left}{lack}"


def _assumptions(benchmarks: list[dict[str, Any]]) -> Iterator[str]:
    """Yield what is assumed, a sentence each."""
    tasks = [task for row in benchmarks for task in row["tasks"] if task["basis"] != "unknown"]
    guessed = [task for task in tasks if task["basis"] != "tables"]
    names = {task["stage"] for task in guessed}
    if any(task["items_low"] != task["items_high"] for task in guessed):
        yield FILTERED
    if any(name.startswith("judge_") and name[6:].isdigit() for name in names):
        yield JUDGED
    if "judge_refusals" in names:
        yield SUSPECT
    told: dict[str, dict[str, None]] = {}
    for task in tasks:
        told.setdefault(OUTPUT[task["output_basis"]], {})[task["stage"]] = None
    yield from (f"output tokens of {', '.join(own)}: {words}" for words, own in told.items())
    yield "documents, before they are built, as long as the sample's length bins are on average"
    yield "answered: requests of jobs that are done, with the template and the documents of today"
    yield "input read from a server's cache is priced as if it were not"


def _api(row: dict[str, Any]) -> Iterator[str]:
    yield f"{row['id']}: {row['model']}"
    cells = [
        _api_cells(_read(one), one["language"], BASIS[one["basis"]], one)
        for one in row["benchmarks"]
    ]
    rows = [API_HEAD, *cells, _api_cells("total", "", "", row)]
    yield from (f"  {line}" for line in aligned(rows, n_text=3))
    yield "  tokens by the documents' lengths; a service may add prompts of its own"
    if row["price"] is None:
        yield "  no price: set price in its entry, US dollars per million tokens, to see money"
        return
    yield f"  {row['price']:g} USD per million tokens; spent so far {money(row['spent_usd'])} USD"
    yield from _left(row)


def _read(row: dict[str, Any]) -> str:
    """Name a benchmark, and the probe that a service's texts are for."""
    stage = "" if row["stage"] == "encode" else f", {row['stage'].removeprefix('probe_')}"
    return f"{row['benchmark']}{stage}"


def _api_cells(name: str, language: str, basis: str, row: dict[str, Any]) -> tuple[str, ...]:
    if row.get("basis") == "unknown":
        return (name, language, basis, *"????")
    counts = (_ends(row, "items"), f"{row['answered'] or 0:,}", _ends(row, "tokens_in"))
    return (name, language, basis, *counts, _ends(row, "usd", money))


COMMAND = Command(
    description="Print requests, those already answered, tokens and money per task, benchmark and "
    "language model, of translations per language, and of embedding APIs the texts that have no "
    "vector yet: the part of `psibench plan` that is paid. What nobody can tell is a range, from "
    "the papers' figures or from a reply without thoughts to one of max_output_tokens; what a run "
    "has measured takes its place. Run it where you run the workflow: it uses the tables, answers "
    "and vectors made so far.",
    add_arguments=add_arguments,
    run=run_estimate,
)
