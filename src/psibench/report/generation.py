"""How a benchmark's queries came about: what each stage kept, and what the language model used."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from psibench.report.plain import Table
from psibench.report.wording import MISSING, count


@dataclass(frozen=True)
class GenerationFacts:
    """One language of one benchmark whose texts a language model wrote; domain `all`: pooled.

    Attributes
    ----------
    flow
        FLOW rows.
    usage
        LLM_USAGE rows with ``usd`` and ``estimated_usd`` (float64, null without a price) and
        ``price_as_of`` (text, empty without one).
    dropped
        Reasons by stage: ``stage, unit, reason, n_items``.
    """

    benchmark: str
    language: str
    domain: str
    flow: pl.DataFrame
    usage: pl.DataFrame
    dropped: pl.DataFrame


def generation_tables(facts: Sequence[GenerationFacts], benchmark: str) -> list[Table]:
    """Return a benchmark's tables: items by stage; if any were made, requests and their cost."""
    mine = [fact for fact in facts if fact.benchmark == benchmark]
    if not mine:
        return []
    tables = [Table("From documents to queries", FLOW_HEADER, tuple(_flow_rows(mine)))]
    if any(fact.usage.height for fact in mine):
        tables += [
            Table("Requests to the language model", USAGE_HEADER, tuple(_usage_rows(mine))),
            Table("Tokens and money: estimate and actual", COST_HEADER, tuple(_cost_rows(mine))),
        ]
    return tables


FLOW_HEADER = ("language", "domain", "stage", "items", "entered", "kept", "dropped", "reasons")
USAGE_HEADER = (
    "language",
    "domain",
    "stage",
    "model",
    "backend",
    "items",
    "with a value",
    "requests",
)
COST_HEADER = (
    "language",
    "domain",
    "stage",
    "input tokens, estimate",
    "input tokens, actual",
    "output tokens, estimate",
    "output tokens, actual",
    "USD, estimate",
    "USD, actual",
    "prices of",
)


def _flow_rows(facts: Sequence[GenerationFacts]) -> list[tuple[str, ...]]:
    rows = []
    for fact in facts:
        for row in fact.flow.sort("step", maintain_order=True).iter_rows(named=True):
            reasons = fact.dropped.filter(stage=row["stage"], unit=row["unit"])
            named = ", ".join(
                f"{reason} {count(n)}"
                for reason, n in reasons.select("reason", "n_items").iter_rows()
            )
            numbers = (count(row[name]) for name in ("entered", "kept", "dropped"))
            shown = named if row["dropped"] else MISSING
            rows.append((fact.language, fact.domain, row["stage"], row["unit"], *numbers, shown))
    return rows


def _usage_rows(facts: Sequence[GenerationFacts]) -> list[tuple[str, ...]]:
    return [
        (
            fact.language,
            fact.domain,
            row["stage"],
            row["model"],
            row["backend"],
            *(count(row[name]) for name in ("n_items", "n_ok", "n_requests")),
        )
        for fact in facts
        for row in fact.usage.iter_rows(named=True)
    ]


def _cost_rows(facts: Sequence[GenerationFacts]) -> list[tuple[str, ...]]:
    names = ("estimated_input_tokens", "input_tokens", "estimated_output_tokens", "output_tokens")
    return [
        (
            fact.language,
            fact.domain,
            row["stage"],
            *(count(row[name]) for name in names),
            _money(row["estimated_usd"]),
            _money(row["usd"]),
            row["price_as_of"] or "no price",
        )
        for fact in facts
        for row in fact.usage.iter_rows(named=True)
    ]


def _money(value: float | None) -> str:
    if value is None:
        return MISSING
    return f"{value:,.2f}" if value >= 1 or value == 0 else f"{value:.4f}"
