"""One paragraph per benchmark, made from its numbers: what stands out, and what does not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psibench.report.inputs import BenchmarkInfo, ModelInfo
from psibench.report.wording import (
    ALPHA,
    count,
    exceeds_chance,
    interval,
    isolate,
    listed,
    number,
    p_value,
    undefined_reason,
)

MAX_NAMED = 5
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Verdict:
    """What one benchmark says: a finding (``bias``, ``chance`` or ``empty``) in sentences."""

    benchmark: BenchmarkInfo
    scheme: str
    finding: str
    sentences: tuple[str, ...]


def holm(p_values: Sequence[float]) -> list[float]:
    """Return Holm's step-down adjusted p-values, in the given order; empty for none.

    Source: Holm (1979), Scandinavian Journal of Statistics 6, 65-70.
    """
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = largest
    return adjusted


def verdict(
    benchmark: BenchmarkInfo,
    scheme: str | None,
    rows: Sequence[Row],
    *,
    models: Mapping[str, ModelInfo],
) -> Verdict:
    """Return the verdict on one benchmark.

    ``rows`` are its leading PSI rows for one bucket scheme and all queries, one per model.
    Controls are left out of the count and get sentences of their own.
    """
    if scheme is None or not rows:
        text = "No PSI row for this benchmark: nothing to say yet."
        return Verdict(benchmark, scheme or "", "empty", (text,))
    plain = [row for row in rows if models[row["model"]].control is None]
    defined = [row for row in plain if row["psi"] is not None and row["psi_p"] is not None]
    adjusted = holm([row["psi_p"] for row in defined])
    beyond = [row for row, p in zip(defined, adjusted, strict=True) if p <= ALPHA]
    beyond.sort(key=lambda row: (-row["psi"], row["model"]))
    within = [row for row in defined if row not in beyond]
    sentences = [
        *(_beyond_sentences(beyond, len(defined)) if beyond else _chance_sentences(defined)),
        *(_within_sentence(within) if beyond and within else []),
        *_undefined_sentence([row for row in plain if row["psi"] is None]),
        *_control_sentences(rows, models),
    ]
    if not sentences:
        return Verdict(benchmark, scheme, "empty", ("No model has a PSI with a p-value here.",))
    return Verdict(benchmark, scheme, "bias" if beyond else "chance", tuple(sentences))


def _beyond_sentences(beyond: Sequence[Row], n_models: int) -> list[str]:
    top, rest = beyond[0], beyond[1:]
    verb = "depends" if len(beyond) == 1 else "depend"
    sentences = [
        f"{len(beyond)} of {n_models} models {verb} on position beyond chance "
        f"(Holm-adjusted p ≤ {ALPHA}).",
        f"Largest: {isolate(top['model'])}, PSI {number(top['psi'])} "
        f"{interval(top['psi_low'], top['psi_high'])} against {number(top['psi_null_p95'])} "
        f"for shuffled positions (95th percentile); best in {_bucket(top, 'best')}, "
        f"worst in {_bucket(top, 'worst')}.",
    ]
    if rest:
        named = [_named(row) for row in rest[:MAX_NAMED]]
        more = [f"{len(rest) - MAX_NAMED} more"] if len(rest) > MAX_NAMED else []
        sentences.append(f"Also beyond chance: {listed(named + more)}.")
        sentences.append(_common_buckets(beyond))
    return sentences


def _chance_sentences(defined: Sequence[Row]) -> list[str]:
    if not defined:
        return []
    top = max(defined, key=lambda row: row["psi"])
    n_queries = max(row["n_queries"] for row in defined)
    return [
        f"No model's PSI stands out from what shuffled positions give, over {len(defined)} "
        f"{'model' if len(defined) == 1 else 'models'} and {count(n_queries)} queries.",
        f"The largest, {isolate(top['model'])} with PSI {number(top['psi'])} "
        f"{interval(top['psi_low'], top['psi_high'])}, has p = {p_value(top['psi_p'])}"
        f"{' before the adjustment for the number of models' if len(defined) > 1 else ''} "
        f"(95th percentile by chance {number(top['psi_null_p95'])}).",
        "This does not show that there is no position bias: the interval says how large it "
        "could still be.",
    ]


def _within_sentence(within: Sequence[Row]) -> list[str]:
    ordered = sorted(within, key=lambda row: (-row["psi"], row["model"]))
    named = [f"{_named(row)[:-1]}, p = {p_value(row['psi_p'])})" for row in ordered[:MAX_NAMED]]
    more = [f"{len(within) - MAX_NAMED} more"] if len(within) > MAX_NAMED else []
    return [f"Not distinguishable from chance: {listed(named + more)}."]


def _undefined_sentence(rows: Sequence[Row]) -> list[str]:
    named = [f"{isolate(row['model'])} ({undefined_reason(row)})" for row in rows[:MAX_NAMED]]
    more = [f"{len(rows) - MAX_NAMED} more"] if len(rows) > MAX_NAMED else []
    return [f"PSI is undefined for {listed(named + more)}."] if named else []


def _control_sentences(rows: Sequence[Row], models: Mapping[str, ModelInfo]) -> list[str]:
    blind = [r for r in rows if models[r["model"]].control == "position-blind"]
    cut = [r for r in rows if models[r["model"]].control == "truncating"]
    sentences = []
    for row in blind:
        if exceeds_chance(row):
            sentences.append(
                f"The position-blind control has PSI {number(row['psi'])}, beyond chance: queries "
                "differ in difficulty by position here, so read the others against "
                f"{number(row['psi'])}, not against 0."
            )
        elif row["psi"] is not None:
            sentences.append("The position-blind control stays within chance.")
    for row in cut:
        if not exceeds_chance(row):
            sentences.append(
                "The truncating control does not stand out: either most passages fit its input, "
                "or this benchmark cannot see position bias of this size."
            )
    return sentences


def _common_buckets(rows: Sequence[Row]) -> str:
    best, worst = ([row[key] for row in rows] for key in ("best_bucket", "worst_bucket"))
    top, low = (max(sorted(set(map(str, names))), key=names.count) for names in (best, worst))
    if len(rows) == best.count(top) == worst.count(low):
        return f"All of them do best in {isolate(top)} and worst in {isolate(low)}."
    return (
        f"Of these {len(rows)}, {best.count(top)} do best in {isolate(top)} "
        f"and {worst.count(low)} worst in {isolate(low)}."
    )


def _bucket(row: Row, end: str) -> str:
    return isolate(str(row[f"{end}_bucket"] or "an unnamed bucket"))


def _named(row: Row) -> str:
    return f"{isolate(row['model'])} (PSI {number(row['psi'])})"
