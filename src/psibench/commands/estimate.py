"""`psibench estimate`: the paid part of a plan, and its share of each budget."""

import argparse
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from psibench.commands.base import add_config, read_given
from psibench.commands.plan import RESULTS, ends, number
from psibench.commands.text_table import aligned
from psibench.errors import InputError
from psibench.plan.config import load_config

if TYPE_CHECKING:
    from psibench.plan.measured import Measured
    from psibench.plan.plan import Plan

NONE = "This config asks no language model and no embedding API."
LABELS = ("stage", "benchmark", "language", "by", "basis")
HEAD = (*LABELS[:-1], "from", "requests", "answered", "tokens in", "out", "USD")
NOTE = (
    "Requests are counted in a run's tables, else planned; tokens are a run's means, else those of "
    "docs/running.md (What a plan rests on)."
)
UNKNOWN = (
    "A dash for requests: nobody can tell how many texts there will be (no sample.n_documents); "
    "`psibench plan` says what to run first."
)


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
    lines: list[tuple[str, ...]] = [HEAD]
    for row in paid.iter_rows(named=True):
        lines.append((*(row[name] or "" for name in LABELS), *_cells(row)))
    payers = summed(paid, ["by"]).to_dicts()
    lines += [("total", "", "", row["by"], "", *_cells(row)) for row in payers]
    print("\n".join(aligned(lines, n_text=len(LABELS))))
    for row in payers:
        for line in _payer(plan, row):
            print(line)
    for line in _designs(measured):
        print(line)
    print(NOTE)
    if paid["items_high"].null_count():
        print(UNKNOWN)


def money(usd: float) -> str:
    """Write US dollars: cents up to a hundred, whole dollars above."""
    if 0 < usd < 0.01:
        return "<0.01"
    return f"{usd:,.2f}" if usd < 100 else f"{usd:,.0f}"


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    items, *tokens = (
        ends(row, name, "{:,}".format) for name in ("items", "tokens_in", "tokens_out")
    )
    return (items, f"{row['answered'] or 0:,}", *tokens, ends(row, "usd", money))


def _payer(plan: "Plan", row: dict[str, Any]) -> Iterator[str]:
    """Say of a language model or an embedding API its price, its hours here and its budget."""
    from psibench.generate.ask import answer_folder
    from psibench.llm.answer_store import AnswerStore
    from psibench.llm.ledger import Ledger
    from psibench.llm.sections import price_of

    name, spent, price = row["by"], None, None
    if name in plan.llms:
        entry: Any = plan.llms[name]
        yield f"{name}: {entry.model}, backend {entry.backend}"
        if (retired := entry.retirement()) is not None:
            yield f"  {retired[1]}"
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
        if row["gpu_minutes_high"] is not None:
            hours = ends(row, "gpu_minutes", lambda minutes: number(minutes / 60))
            yield f"  {hours} GPU hours, if it is served by you (`psibench plan`)"
    else:
        entry = plan.models[name]
        yield f"{name}: {entry.model}; tokens by the documents' lengths"
        how = "`price` in its entry, US dollars per million tokens"
        if entry.price is not None:
            folder = Path(plan.config.store) / "embeddings" / name
            spent = Ledger(folder, job="", usd_per_million=entry.price).spent_usd
            yield f"  {entry.price:g} USD per million tokens"
    if spent is None:
        yield f"  no price: set {how} to see money"
    elif entry.budget_usd is not None and row["usd_high"] is not None:
        lows = [entry.budget_usd - spent - row[f"usd_{end}"] for end in ("high", "low")]
        left = " to ".join(dict.fromkeys(f"{one:,.2f}" for one in lows))
        lack = f": it {'will' if lows[1] < 0 else 'may'} stop before the end" * (lows[0] < 0)
        told = f"  budget {entry.budget_usd:g} USD, spent {money(spent)}, left after this {left}"
        yield f"{told}{lack}"


def _designs(measured: "Measured") -> Iterator[str]:
    """Say of each benchmark that is written which PSI it finds, at the fewest and most queries."""
    from psibench.generate.benchmarks import Posir
    from psibench.metrics.design import evenly_spread, smallest_psi_text

    for planned in measured.plan.benchmarks.values():
        for language in planned.native if planned.is_generated else ():
            if (counts := measured.counts(planned.id, language)) is None:
                continue
            n_held = 1 if isinstance(planned.section, Posir) else 3  # it draws a document's third
            ends = dict(zip(map(round, counts.left), ("fewest", "most"), strict=True))
            for n, end in ends.items():
                of = f", {end} queries" if len(ends) == 2 else ""
                table = evenly_spread(
                    n,
                    round(counts.texts.n_documents),
                    n_candidates=round(counts.candidates),
                    n_held=n_held,
                )
                said = smallest_psi_text(table, spread=" (taken to be spread evenly)")
                yield f"{planned.id}, {language}{of}: {said}"


add_arguments = partial(add_config, bare=True)
DESCRIPTION = (
    "Print requests, those already answered, tokens and money per task, benchmark and "
    "language model, of translations per language, and of embedding APIs: the part of `psibench "
    "plan` that is paid, as ranges (its --csv has the numbers). What a run has measured takes the "
    "place of the config's numbers. Run it where you run the workflow: it uses the tables made so "
    "far."
)
