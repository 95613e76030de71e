"""`psibench estimate`: the paid requests of a plan, and the remaining budgets."""

import argparse
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from psibench.commands.base import add_config, read_given
from psibench.commands.plan import amount, money, print_rows, unknown_counts
from psibench.config.paths import RESULTS_FOLDER
from psibench.errors import InputError
from psibench.plan.config import load_config

if TYPE_CHECKING:
    from psibench.plan.measured import MeasuredWork
    from psibench.plan.plan import Plan

NOTHING_PAID = "This config uses no language model and no embedding API."
LABEL_COLUMNS = ("stage", "benchmark", "language", "by", "basis")
PAID_COLUMNS = {
    "requests": ("items", 1),
    "answered": ("answered", 1),
    "tokens in": ("tokens_in", 1),
    "out": ("tokens_out", 1),
    "USD": ("usd", 1),
}
"""Column of the table of work and divisor of its numbers, by heading."""


def run(args: argparse.Namespace) -> None:
    """Print the requests to language models and embedding APIs, and their cost."""
    import polars as pl

    from psibench.plan.measured import MeasuredWork
    from psibench.plan.plan import make_plan
    from psibench.plan.work import summed, work_table

    config, models = load_config(read_given(args))
    plan = make_plan(config, models, missing=[])
    measured = MeasuredWork(plan, RESULTS_FOLDER)
    tasks = {task for planned in plan.benchmarks.values() for task in planned.tasks}
    apis = [model for model in plan.models if plan.is_api(model)]
    is_read = pl.col("by").is_in(apis) & (pl.col("stage") != "search")
    paid = work_table(measured).filter(pl.col("stage").is_in(tasks) | is_read)
    if paid.is_empty():
        print(NOTHING_PAID)
        return
    payers = summed(paid, ["by"]).with_columns(stage=pl.lit("total")).to_dicts()
    print_rows([*paid.iter_rows(named=True), *payers], LABEL_COLUMNS, PAID_COLUMNS)
    for row in payers:
        print("\n".join(_payer(plan, row)))
    for line in (*_designs(measured), *unknown_counts(paid, plan)):
        print(line)


def _payer(plan: "Plan", row: dict[str, Any]) -> Iterator[str]:
    """Yield price, GPU hours and budget of a language model or an embedding API."""
    from psibench.encode.store import paid_tokens
    from psibench.generate.ask import answer_folder
    from psibench.llm.answer_store import AnswerStore
    from psibench.llm.sections import MILLION, OUTSIDE, price_of
    from psibench.plan.work import THOUGHT_TOKENS, UNCERTAINTY

    name, spent, price = row["by"], None, None
    if name in plan.llms:
        entry: Any = plan.llms[name]
        yield f"{name}: {entry.model}, backend {entry.backend}"
        if entry.backend in OUTSIDE:
            return
        if (retired := entry.retirement()) is not None:
            yield f"  {retired[1]}"
        if entry.thinks:
            yield (
                f"  thinks: assumes {THOUGHT_TOKENS:,} tokens per reply; it may be several times "
                "as many. A trial run measures them"
            )
        how = f"`prices: {{{entry.model}: {{input_usd: ..., output_usd: ..., as_of: ...}}}}`"
        with suppress(InputError):
            price = price_of(entry.model, plan.prices)
        if price is not None:
            is_batch = entry.backend == "openai-batch"
            stored = AnswerStore(answer_folder(plan.config.store, name)).usage()
            spent = price.cost(stored, is_batch=is_batch)
            share = f", in a batch {price.batch_share:.0%} of that" * (price.batch_share != 1)
            yield (
                f"  {price.input_usd:g} USD per million input tokens, {price.output_usd:g} output"
                f"{share}; as of {price.as_of} ({price.source or 'no source given'})"
            )
        if row["gpu_minutes"] is not None:
            hours = amount(row["gpu_minutes"] / 60)
            yield f"  {hours} GPU hours, if you serve it (`psibench plan`)"
    else:
        entry = plan.models[name]
        yield f"{name}: {entry.model}; tokens estimated from document lengths"
        how = "`price` in its entry, US dollars per million tokens"
        if entry.price is not None:
            folder = Path(plan.config.store) / "embeddings" / name
            spent = paid_tokens(folder) * entry.price / MILLION
            yield f"  {entry.price:g} USD per million tokens"
    if spent is None:
        yield f"  no price: set {how} to see the cost"
    elif entry.budget_usd is not None and row["usd"] is not None:
        left = entry.budget_usd - spent - row["usd"]
        at_worst = left - (UNCERTAINTY - 1) * row["usd"]
        lack = f": it {'will probably' if left < 0 else 'may'} stop before the end" * (at_worst < 0)
        budget = f"  budget {entry.budget_usd:g} USD, spent {money(spent)}, left after this"
        yield f"{budget} {left:,.2f}{lack}"


def _designs(measured: "MeasuredWork") -> Iterator[str]:
    """Yield the smallest detectable PSI of each generated benchmark."""
    from psibench.generate.benchmarks import Posir
    from psibench.metrics.design import evenly_spread, smallest_psi_text

    for planned in measured.plan.benchmarks.values():
        for language in planned.native if planned.is_generated else ():
            if (counts := measured.counts(planned.id, language)) is None:
                continue
            table = evenly_spread(
                round(counts.left),
                round(counts.texts.n_documents),
                n_candidates=round(counts.candidates),
                n_held=1 if isinstance(planned.section, Posir) else 3,  # thirds of a document
            )
            text = smallest_psi_text(table, spread=" (expected, assumed to be spread evenly)")
            yield f"{planned.id}, {language}: {text}"


add_arguments = partial(add_config, bare=True)
DESCRIPTION = (
    "Print requests, answered requests, tokens and cost per task, benchmark and language model "
    "(for translations also per language), and of embedding APIs: the paid part of `psibench plan` "
    "(--csv there writes the numbers). Measurements of a run replace assumptions. Run it in the "
    "folder of the workflow, because it uses the existing tables."
)
