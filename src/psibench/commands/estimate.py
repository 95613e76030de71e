"""`psibench estimate`: the part of a plan that is paid, and what of each budget it takes."""

import argparse
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
    from psibench.plan.measured import Measured

RESULTS = Path("results")
NONE = "This config asks no language model and no embedding API."
LABELS = ("stage", "benchmark", "language", "by")
HEAD = (*LABELS, "from", "requests", "answered", "tokens in", "out", "USD", "replies from")
NOTE = (
    "Counts are from tables of a run, the source or the plan; replies from a run, the example in "
    "the template's header or PosIR's translations; ? is what nobody can tell before it is built. "
    "docs/running.md, `What a plan rests on`, has the sources."
)


def run_estimate(args: argparse.Namespace) -> None:
    """Print what language models and embedding APIs will be asked, and what it costs."""
    import polars as pl

    from psibench.plan.measured import Measured
    from psibench.plan.plan import make_plan
    from psibench.plan.work import summed, work_table

    config, models = load_config(read_config(args))
    plan = make_plan(config, models, missing=[])
    measured = Measured(plan, RESULTS)
    tasks = {task for planned in plan.benchmarks.values() for task in planned.tasks}
    apis = [model for model in plan.models if plan.is_api(model)]
    is_read = (pl.col("stage") == "encode") | pl.col("stage").str.starts_with("probe_")
    paid = work_table(measured).filter(
        pl.col("stage").is_in(tasks) | (is_read & pl.col("by").is_in(apis))
    )
    if paid.is_empty():
        print(NONE)
        return
    lines: list[tuple[str, ...]] = [HEAD]
    for row in paid.iter_rows(named=True):
        labels = (*(row[name] or "" for name in LABELS), row["basis"])
        lines.append((*labels, *_cells(row), row["output_basis"] or ""))
    payers = summed(paid, ["by"]).to_dicts()
    lines += [("total", "", "", row["by"], "", *_cells(row), "") for row in payers]
    print("\n".join(aligned(lines, n_text=5)))
    for row in payers:
        costs = paid.filter(pl.col("tokens_in_high") > 0, by=row["by"])
        has_price = costs["usd_high"].null_count() == 0
        print("\n".join(_payer(measured, row, has_price=has_price)))
    for line in _designs(measured):
        print(line)
    print(NOTE)


def money(usd: float) -> str:
    """Write US dollars: cents up to a hundred, whole dollars above."""
    if 0 < usd < 0.01:
        return "<0.01"
    return f"{usd:,.2f}" if usd < 100 else f"{usd:,.0f}"


def _ends(row: dict[str, Any], name: str, write: Any = "{:,}".format) -> str:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return "?" if high is None else " to ".join(dict.fromkeys((write(low), write(high))))


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    tokens = (_ends(row, "tokens_in"), _ends(row, "tokens_out"))
    return (_ends(row, "items"), f"{row['answered'] or 0:,}", *tokens, _ends(row, "usd", money))


def _payer(measured: "Measured", row: dict[str, Any], *, has_price: bool) -> Iterator[str]:
    """Say of a language model or an embedding API its price, its hours here and its budget."""
    from psibench.llm.sections import price_of

    plan, name = measured.plan, row["by"]
    spent = None
    if name in plan.llms:
        entry: Any = plan.llms[name]
        price = None
        yield f"{name}: {entry.model}, backend {entry.backend}"
        _, retired = entry.retirement() or (False, None)
        if retired is not None:
            yield f"  {retired}"
        with suppress(InputError):
            price = price_of(entry.model, plan.prices)
        how = f"`prices: {{{entry.model}: {{input_usd: ..., output_usd: ..., as_of: ...}}}}`"
        if price is not None:
            spent = price.cost(measured.spent(name), is_batch=entry.backend == "openai-batch")
            batch = (
                f", in a batch {price.batch_share:.0%} of that" if price.batch_share != 1 else ""
            )
            yield (
                f"  {price.input_usd:g} USD per million input tokens, {price.output_usd:g} output"
                f"{batch}; as of {price.as_of} ({price.source or 'no source given'})"
            )
        if row["gpu_minutes_high"] is not None:
            hours = _ends(row, "gpu_minutes", lambda minutes: number(minutes / 60))
            yield f"  {hours} GPU hours, if it is served by you (`psibench plan`)"
    else:
        entry = plan.models[name]
        how = "`price` in its entry, US dollars per million tokens"
        spent = measured.spent_on_vectors(name, entry.price)
        yield f"{name}: {entry.model}; tokens by the documents' lengths"
        if entry.price is not None:
            yield f"  {entry.price:g} USD per million tokens"
    if not has_price:
        yield f"  no price: set {how} to see money"
    elif entry.budget_usd is not None and spent is not None:
        lows = [entry.budget_usd - spent - row[f"usd_{end}"] for end in ("high", "low")]
        lack = ": it will stop before the end" if lows[1] < 0 else ""
        lack = lack or (": it may stop before the end" if lows[0] < 0 else "")
        left = " to ".join(dict.fromkeys(f"{one:,.2f}" for one in lows))
        told = f"  budget {entry.budget_usd:g} USD, spent {money(spent)}, left after this {left}"
        yield f"{told}{lack}"


def _designs(measured: "Measured") -> Iterator[str]:
    """Say of each benchmark that is written which PSI it finds, at the fewest and most queries."""
    from psibench.generate.benchmarks import Posir
    from psibench.metrics.design import evenly_spread, smallest_psi_text

    for planned in measured.plan.benchmarks.values():
        for language in planned.languages if planned.is_generated else ():
            counts = measured.counts(planned.id, language)
            if counts is None or language in planned.translated:
                continue
            n_held = 1 if isinstance(planned.section, Posir) else 3  # it draws a document's third
            for n in dict.fromkeys(map(round, counts.left)):
                table = evenly_spread(
                    n,
                    counts.texts.n_documents,
                    n_candidates=round(counts.candidates),
                    n_held=n_held,
                )
                said = smallest_psi_text(table, spread=", spread evenly but for what filters take")
                yield f"{planned.id}, {language}: {said}"


COMMAND = Command(
    description="Print requests, those already answered, tokens and money per task, benchmark and "
    "language model, of translations per language, and of embedding APIs the texts that have no "
    "vector yet: the part of `psibench plan` that is paid, as ranges (its --csv has the numbers). "
    "What a run has measured takes the place of the config's numbers. Run it where you run the "
    "workflow: it uses the tables, answers and vectors made so far.",
    add_arguments=add_config,
    run=run_estimate,
)
