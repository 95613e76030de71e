"""`psibench estimate`: what the models of a config that are paid will be asked, use and cost."""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from psibench.commands.base import Command, add_config, read_config
from psibench.commands.text_table import aligned
from psibench.errors import InputError
from psibench.plan.config import load_config, resolve_llms, resolve_prices

if TYPE_CHECKING:
    from psibench.estimate.tasks import BenchmarkEstimate, LlmEstimate, TaskEstimate
    from psibench.plan.encodings import ApiCount, ApiEstimate

DOCUMENTS = 200
RESULTS = Path("results")
NONE = "No benchmark of this config asks a language model."
HEAD = ("task", "llm", "requests", "answered", "to ask", "input tokens", "output tokens", "USD")
API_HEAD = ("benchmark", "language", "by", "texts", "stored", "requests", "tokens", "USD")
TOTALS = ("to_ask", "input_tokens", "output_tokens", "usd", "is_bound", "at_most_usd")
API_BASIS = {
    "tables": "tables of an earlier run",
    "source": "the source",
    "plan": "what the config plans; queries at most",
    "unknown": "not counted: build it first, with its data tables as targets",
}
OUTPUT = {
    "stand-in": "the stand-in's own rules, run here: exact",
    "stored answers": "the mean of stored answers to the same task",
    "example": "the example in the prompt's header, for want of 20 stored answers",
    "answered": "nothing is left to ask",
}
REQUESTS = {
    "documents": "",
    "earlier run": "what an earlier run found",
    "assumed share": "as if 1% of the translations were suspect, a guess on the high side: PosIR "
    "found 2,249 refusals among 14 million texts; after a first run its suspects are counted",
    "at most": "at most: every document drawn, every candidate with all its parts, every stratum "
    "of an audit full; rerankers leave fewer, and after a first run its tables are counted",
}
UNCOUNTED = (
    "not counted, and not in the totals: known once rerankers have looked for false negatives; "
    "PosQ had 854 candidates for 26,356 questions, each graded by two or three judges"
)
UNREAD = (
    "not counted, and not in the totals: nobody can tell how many texts a corpus on the hub has "
    "before it is built; build it first, with the data tables of these as targets"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add config, size of the sample, choice of a benchmark, and form of the output."""
    add_config(parser)
    parser.add_argument(
        "--documents",
        type=int,
        default=DOCUMENTS,
        metavar="N",
        help="documents of each benchmark that go through the tasks, shared out among its domains, "
        f"a few each at least; 0 for all (default {DOCUMENTS})",
    )
    parser.add_argument("--benchmark", metavar="ID", help="this benchmark of the config alone")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run_estimate(args: argparse.Namespace) -> None:
    """Estimate what language models and embedding APIs will be asked, and print it."""
    from psibench.estimate.tasks import Estimator, asks_llm, estimate_tasks
    from psibench.plan.encodings import estimate_embeddings

    if args.documents < 0:
        raise InputError(f"--documents {args.documents}; give a number from 1 up, or 0 for all")
    config, models = load_config(read_config(args))
    only, sections = args.benchmark, config.benchmarks
    apis = estimate_embeddings(
        config, models, results=RESULTS, exact=args.documents == 0, only=only
    )
    benchmarks: list[BenchmarkEstimate] = []
    llms: list[LlmEstimate] = []
    if not apis or only not in sections or asks_llm(sections[only]):
        asker = Estimator(resolve_llms(config), resolve_prices(config), Path(config.store))
        benchmarks, llms = estimate_tasks(
            sections,
            asker,
            length_tokenizer=config.length_tokenizer,
            most=args.documents,
            results=RESULTS,
            only=only,
        )
    if args.json:
        print(json.dumps(_plain(benchmarks, llms, apis), indent=2, ensure_ascii=False))
        return
    lines = [line for row in benchmarks for line in (*_benchmark(row), "")] or [NONE]
    if benchmarks:
        lines += ["language models", *(f"  {line}" for row in llms for line in _llm(row)), ""]
        lines += ["assumed", *(f"  - {line}" for line in _assumptions(benchmarks))]
    if apis:
        lines += ["", "embedding APIs", *(f"  {line}" for row in apis for line in _api(row))]
    print("\n".join(lines))


def money(usd: float | None) -> str:
    """Write US dollars: cents up to a hundred, whole dollars above."""
    if usd is None:
        return "no price"
    if 0 < usd < 0.01:
        return "<0.01"
    return f"{usd:,.2f}" if usd < 100 else f"{usd:,.0f}"


def _plain(
    benchmarks: "Sequence[BenchmarkEstimate]",
    llms: "Sequence[LlmEstimate]",
    apis: "Sequence[ApiEstimate]",
) -> dict[str, Any]:
    """Return everything as plain data, unrounded; no sum of money where a part has no price."""
    costs = [row.total.usd if row.total.to_ask else 0.0 for row in llms]
    bounds = [any(task.is_bound for task in row.tasks) for row in benchmarks]
    return {
        "usd": None if None in costs else sum(cost or 0.0 for cost in costs),
        "is_bound": any(bounds),
        "benchmarks": [
            asdict(row)
            | {"documents": row.documents, "is_bound": is_bound}
            | {"usd": _total(row.tasks).usd if row.tasks else 0.0}
            for row, is_bound in zip(benchmarks, bounds, strict=True)
        ],
        "llms": [
            {
                "id": row.id,
                "model": row.settings.model,
                "backend": row.settings.backend,
                "price": None if row.price is None else row.price.model_dump(mode="json"),
                "tokenizer": row.tokenizer,
                **{name: getattr(row.total, name) for name in TOTALS},
                **_budget(row.settings.budget_usd, row),
            }
            for row in llms
        ],
        "embedding_apis": [
            {
                "id": row.model,
                "model": row.entry.model,
                "price": row.entry.price,
                "tokenizer": row.tokenizer,
                **asdict(row.total),
                "usd": row.cost(row.total),
                **_budget(row.entry.budget_usd, row),
                "benchmarks": [
                    {"id": name, "language": language, **asdict(count), "usd": row.cost(count)}
                    for name, language, count in row.rows
                ],
            }
            for row in apis
        ],
    }


def _budget(budget: float | None, row: "LlmEstimate | ApiEstimate") -> dict[str, float | None]:
    return {"budget_usd": budget, "spent_usd": row.spent_usd, "left_usd": row.left_usd}


def _total(tasks: "Sequence[TaskEstimate]") -> "TaskEstimate":
    from psibench.estimate.tasks import merged

    return merged(tasks)


def _benchmark(row: "BenchmarkEstimate") -> Iterator[str]:
    where = ""
    if len(row.places) > 1:
        n_languages, n_domains = (
            len({place[key] for place in row.places}) for key in ("language", "domain")
        )
        where = f" in {len(row.places)} places (languages {n_languages}, domains {n_domains})"
    yield f"{row.id} ({row.recipe}): {row.documents:,} documents{where}"
    yield from (f"  estimated from {note}" for note in row.notes)
    if row.tasks:
        names = [" ".join(filter(None, (task.task, task.language))) for task in row.tasks]
        cells = (_cells(name, task.llm, task) for name, task in zip(names, row.tasks, strict=True))
        rows = [HEAD, *cells, _cells("total", "", _total(row.tasks))]
        yield from (f"  {line}" for line in aligned(rows, n_text=2))


def _cells(name: str, llm: str, task: "TaskEstimate") -> tuple[str, ...]:
    mark = "~" if task.is_scaled and task.answered else ""
    counts = (task.to_ask, task.input_tokens, task.output_tokens)
    return (
        name + (", at most" if task.is_bound else ""),
        llm,
        f"{task.requests:,}",
        f"{mark}{task.answered:,}",
        *(f"{count:,}" for count in counts),
        money(task.usd),
    )


def _llm(row: "LlmEstimate") -> Iterator[str]:
    yield f"{row.id}: {row.settings.model}, backend {row.settings.backend}"
    yield f"  tokens counted with {_tokenizer(row.tokenizer, row.settings.tokenizer)}"
    price, total = row.price, row.total
    if price is None:
        yield (
            f"  no price: add `prices: {{{row.settings.model}: {{input_usd: ..., output_usd: ..., "
            "as_of: ...}}` to your config to see money"
        )
        return
    is_batch = row.settings.backend == "openai-batch" and price.batch_share != 1
    half = f", of which batches cost {price.batch_share:.0%}" if is_batch else ""
    yield (
        f"  {price.input_usd:g} USD per million input tokens, {price.output_usd:g} output{half}; "
        f"as of {price.as_of} ({price.source or 'no source given'})"
    )
    less = " or less" if total.is_bound and total.usd else ""
    fewer = " or fewer" if total.is_bound else ""
    most, bound = "", row.settings.sampling.max_output_tokens
    if total.at_most_usd:  # a model that thinks is billed for its thoughts, too
        most = f"; at most {money(total.at_most_usd)} USD, with {bound:,} output tokens for each"
    yield f"  {money(total.usd)} USD{less} to ask {total.to_ask:,} requests{fewer}{most}"
    if row.left_usd is not None:
        yield _left(row.settings.budget_usd, row.spent_usd, row.left_usd, may=total.is_bound)


def _left(budget: float | None, spent: float | None, left: float, *, may: bool = False) -> str:
    lack = "" if left >= 0 else f": it {'may' if may else 'will'} stop before the end"
    return f"  budget {budget:g} USD, spent {money(spent)}, left after this {left:,.2f}{lack}"


def _tokenizer(used: str, wanted: str) -> str:
    return used if used == wanted else f"{used} ({wanted} cannot be loaded here)"


def _assumptions(benchmarks: "Sequence[BenchmarkEstimate]") -> Iterator[str]:
    """Yield what is assumed, a sentence each."""
    from psibench.text.languages import english_name

    tasks = [task for row in benchmarks for task in row.tasks]
    yield from _told("requests", tasks, lambda task: REQUESTS[task.requests_basis])
    for row in benchmarks:
        if row.uncounted:
            yield f"{', '.join(row.uncounted)} of {row.id}: {UNCOUNTED}"
        if row.unread:
            yield f"the translation of {', '.join(row.unread)} of {row.id}: {UNREAD}"
    factors = {task.language: task.expansion for task in tasks if task.expansion is not None}
    named = (f"{factor:.2f} for {english_name(to or '')}" for to, factor in factors.items())
    longer = (
        f"the tokens of what is translated, times {', '.join(named)}: mean tokens of the same "
        "documents in PosIR, table 4, by the Qwen3 tokenizer; 1.40 is a guess for others"
    )
    output = OUTPUT | {"expansion": longer}
    yield from _told("output tokens", tasks, lambda task: output[task.output_basis])
    yield "every reply is usable at the first go: no re-asks; thoughts of a model are not counted"
    yield "input read from a server's cache is priced as if it were not"
    if any(task.is_scaled for task in tasks):
        yield "counts are scaled from what went through to all; ~ marks answered ones"


def _told(
    what: str, tasks: "Sequence[TaskEstimate]", tell: "Callable[[TaskEstimate], str]"
) -> Iterator[str]:
    """Say something of tasks, those together of which the same is told; "" is not told."""
    names: dict[str, dict[str, None]] = {}
    for task in tasks:
        names.setdefault(tell(task), {})[task.task] = None
    yield from (f"{what} of {', '.join(own)}: {told}" for told, own in names.items() if told)


def _api(row: "ApiEstimate") -> Iterator[str]:
    yield f"{row.model}: {row.entry.model}"
    cells = [_api_cells(name, at, row, count) for name, at, count in row.rows]
    rows = [API_HEAD, *cells, _api_cells("total", "", row, row.total, is_total=True)]
    yield from (f"  {line}" for line in aligned(rows, n_text=3))
    used = _tokenizer(row.tokenizer, row.entry.tokenizer)
    yield f"  tokens counted with {used}; a service may add prompts of its own"
    if row.entry.price is None:
        yield "  no price: set price in its entry, US dollars per million tokens, to see money"
        return
    yield f"  {row.entry.price:g} USD per million tokens; spent so far {money(row.spent_usd)} USD"
    if row.left_usd is not None:
        yield _left(row.entry.budget_usd, row.spent_usd, row.left_usd)


def _api_cells(
    name: str, language: str, row: "ApiEstimate", count: "ApiCount", *, is_total: bool = False
) -> tuple[str, ...]:
    basis = "" if is_total else API_BASIS[count.basis]
    if count.basis == "unknown":
        return (name, language, basis, *"?????")
    mark = "~" if count.is_scaled else ""
    counts = (f"{count.texts:,}", f"{count.stored:,}", f"{mark}{count.requests:,}")
    tokens = f"{mark}{count.tokens:,}"
    return (name, language, basis, *counts, tokens, money(row.cost(count)))


COMMAND = Command(
    description="Send a sample of the documents through the tasks without asking anyone, and "
    "print requests, those already answered, tokens and money per task, benchmark and language "
    "model, of translations per language. Of tasks that judge candidates or translate them it "
    "gives bounds or, after a first run, counts what there is. Of embedding APIs it counts the "
    "texts that have no vector yet. Run it where you run the workflow: it uses the tables, answers "
    "and vectors made so far.",
    add_arguments=add_arguments,
    run=run_estimate,
)
