"""`psibench estimate`: the paid part of a plan, and its share of each budget."""

import argparse
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from psibench.commands.base import add_config, read_given
from psibench.commands.plan import RESULTS, money, number, print_rows, unknown_counts
from psibench.errors import InputError
from psibench.plan.config import load_config

if TYPE_CHECKING:
    from psibench.plan.measured import Measured
    from psibench.plan.plan import Plan

NONE = "This config asks no language model and no embedding API."
LABELS = ("stage", "benchmark", "language", "by", "basis")
COLUMNS = {
    "requests": ("items", 1),
    "answered": ("answered", 1),
    "tokens in": ("tokens_in", 1),
    "out": ("tokens_out", 1),
    "USD": ("usd", 1),
}
"""Heading -> column of the table of work, and what its numbers are divided by."""


def run(args: argparse.Namespace) -> None:
    """Print what language models and embedding APIs will be asked, and what it costs."""
    import polars as pl

    from psibench.plan.measured import Measured
    from psibench.plan.plan import make_plan
    from psibench.plan.work import summed, work_table

    config, models = load_config(read_given(args))
    plan = make_plan(config, models, missing=[])
    measured = Measured(plan, RESULTS)
    tasks = {task for planned in plan.benchmarks.values() for task in planned.tasks}
    apis = [model for model in plan.models if plan.is_api(model)]
    is_read = pl.col("by").is_in(apis) & (pl.col("stage") != "search")
    paid = work_table(measured).filter(pl.col("stage").is_in(tasks) | is_read)
    if paid.is_empty():
        print(NONE)
        return
    payers = summed(paid, ["by"]).with_columns(stage=pl.lit("total")).to_dicts()
    print_rows([*paid.iter_rows(named=True), *payers], LABELS, COLUMNS)
    for row in payers:
        print("\n".join(_payer(plan, row)))
    for line in (*_designs(measured), *unknown_counts(paid, plan)):
        print(line)


def _payer(plan: "Plan", row: dict[str, Any]) -> Iterator[str]:
    """Say of a language model or an embedding API its price, its hours here and its budget."""
    from psibench.encode.store import paid_tokens
    from psibench.generate.ask import answer_folder
    from psibench.llm.answer_store import AnswerStore
    from psibench.llm.sections import MILLION, price_of
    from psibench.plan.work import THOUGHT_TOKENS, UNCERTAINTY

    name, spent, price = row["by"], None, None
    if name in plan.llms:
        entry: Any = plan.llms[name]
        yield f"{name}: {entry.model}, backend {entry.backend}"
        if (retired := entry.retirement()) is not None:
            yield f"  {retired[1]}"
        if entry.thinks:
            yield (
                f"  thinks: {THOUGHT_TOKENS:,} tokens a reply are assumed, and may be several "
                "times as many; a trial run measures them"
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
            hours = number(row["gpu_minutes"] / 60)
            yield f"  {hours} GPU hours, if you serve it (`psibench plan`)"
    else:
        entry = plan.models[name]
        yield f"{name}: {entry.model}; tokens by the documents' lengths"
        how = "`price` in its entry, US dollars per million tokens"
        if entry.price is not None:
            folder = Path(plan.config.store) / "embeddings" / name
            spent = paid_tokens(folder) * entry.price / MILLION
            yield f"  {entry.price:g} USD per million tokens"
    if spent is None:
        yield f"  no price: set {how} to see money"
    elif entry.budget_usd is not None and row["usd"] is not None:
        left = entry.budget_usd - spent - row["usd"]
        at_worst = left - (UNCERTAINTY - 1) * row["usd"]
        lack = f": it {'will probably' if left < 0 else 'may'} stop before the end" * (at_worst < 0)
        told = f"  budget {entry.budget_usd:g} USD, spent {money(spent)}, left after this"
        yield f"{told} {left:,.2f}{lack}"


def _designs(measured: "Measured") -> Iterator[str]:
    """Say of each benchmark that is written which PSI its expected queries show."""
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
                n_held=1 if isinstance(planned.section, Posir) else 3,  # of a document's thirds
            )
            said = smallest_psi_text(table, spread=" (expected, and taken to be spread evenly)")
            yield f"{planned.id}, {language}: {said}"


add_arguments = partial(add_config, bare=True)
DESCRIPTION = (
    "Print requests, those already answered, tokens and money per task, benchmark and "
    "language model, of translations per language, and of embedding APIs: the part of `psibench "
    "plan` that is paid (its --csv has the numbers). What a run has measured replaces the "
    "config's numbers. Run it where you run the workflow: it uses the tables made so far."
)
