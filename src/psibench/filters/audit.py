"""Audit of the margin by a language model (Controlled, appendix B.3, table 7).

The audit draws queries from each stratum of the margin. A judge who does not know the target
answers yes or no for each third of their documents separately; nothing is dropped. The rates per
stratum are: TargetYes, the share of queries whose target got a yes; DistractorNo, the mean over
queries of the share of other thirds that got a no; Exclusive, the share of queries with a yes on
the target and a no on every other third.

Intervals are Wilson's. The two DistractorNo judgements on a query are not independent, so the
interval counts queries, not judgements: it is wide enough whatever their correlation.
"""

from collections.abc import Iterator
from itertools import pairwise
from statistics import NormalDist
from typing import Any

import numpy as np
import polars as pl
from pydantic import Field

from psibench.filters.decide import all_parts, as_table, evidence_targets
from psibench.filters.grade import part_pairs
from psibench.filters.mixtures import draw_order
from psibench.filters.verify import MARGIN_THRESHOLDS, MARGINS
from psibench.llm.tasks import LlmTaskSection
from psibench.metrics.psi import wilson_ends
from psibench.tables.build_schemas import CANDIDATES, PAIRS, VERDICTS
from psibench.tables.job import Job
from psibench.tables.schemas import DOCUMENTS
from psibench.tables.spec import FLOAT64, INT64, STRING, Column, TableSpec, with_interval
from psibench.tables.stage import stage
from psibench.text.segments import POSITIONS

RATES = ("target_yes", "distractor_no", "exclusive")

# Config.


class Audit(LlmTaskSection):
    """A language model judges whether each third answers the query; nothing is dropped.

    It sees each third separately. The result is a table by strata of the margin (Controlled,
    appendix B.3, table 7).
    """

    per_stratum: int = Field(default=500, ge=1)
    """Queries drawn from each stratum of the margin."""
    seed: int = Field(default=42, ge=0)
    """Seed of the draw."""


# Tables.


def _rate(name: str, text: str) -> tuple[Column, ...]:
    shown = f"{text}; null without a usable query"
    return with_interval(name, shown, low="lower end of its Wilson interval")


AUDIT_TABLE = TableSpec(
    "audit_table",
    (
        Column("stratum", STRING, "no_margin, m<low, low<=m<high or m>=high"),
        Column("low", FLOAT64, "lowest margin of the stratum", True),
        Column("high", FLOAT64, "margin the stratum stays below", True),
        Column("n", INT64, "audited queries with a usable verdict on every segment"),
        Column("n_unusable", INT64, "audited queries without: a verdict or the target is missing"),
        *_rate("target_yes", "share of queries whose target is judged to answer"),
        *_rate("distractor_no", "mean share of other segments judged not to answer"),
        *_rate("exclusive", "share of queries only whose target is judged to answer"),
    ),
    key=("stratum",),
)

# The rule.

Stratum = tuple[str, float | None, float | None]
"""Label, lowest margin, and the margin it stays below; None: no bound."""


def margin_strata() -> Iterator[Stratum]:
    """Yield the strata between the thresholds: no_margin, m<0 (failed), 0<=m<0.1, ..., m>=0.3."""
    yield "no_margin", None, None
    yield f"m<{MARGIN_THRESHOLDS[0]:g}", None, MARGIN_THRESHOLDS[0]
    for low, high in pairwise(MARGIN_THRESHOLDS):
        yield f"{low:g}<=m<{high:g}", low, high
    yield f"m>={MARGIN_THRESHOLDS[-1]:g}", MARGIN_THRESHOLDS[-1], None


def stratum_numbers() -> pl.Expr:
    """Return the index of each ``margin`` in `margin_strata`; 0 without a margin."""
    reached = pl.sum_horizontal(pl.col("margin") >= cut for cut in MARGIN_THRESHOLDS)
    return pl.when(pl.col("margin").is_null()).then(0).otherwise(1 + reached).alias("stratum")


def audit_sample(margins: pl.DataFrame, *, per_stratum: int, seed: int) -> pl.DataFrame:
    """Draw the queries to audit: the same number per stratum, none without a margin.

    Returns the drawn rows of ``margins`` in their order. A stratum with fewer queries is used
    whole.
    """
    order = draw_order(margins.get_column("query_id"), seed)
    rank = pl.col("order").rank("ordinal").over("stratum")
    ordered = margins.with_columns(stratum_numbers(), order=order)
    return ordered.filter((pl.col("stratum") > 0) & (rank <= per_stratum)).select(margins.columns)


def audit_rates(
    verdicts: pl.DataFrame, targets: pl.DataFrame, margins: pl.DataFrame
) -> pl.DataFrame:
    """Return the rates of yes and no by stratum of the margin, as in Controlled's Table 7.

    ``verdicts`` are VERDICTS, one document per query. ``targets`` and ``margins`` have at least the
    audited queries.

    Returns AUDIT_TABLE rows, no_margin first, then the strata from low to high. A query counts only
    in ``n_unusable`` if a segment has no verdict, or if it has no target or no other segment. If a
    query has several targets, TargetYes needs a yes on at least one.
    """
    yes, is_target = pl.col("is_yes"), pl.col("targets").list.contains(pl.col("part"))
    judged = (
        verdicts.join(targets, on="query_id")
        .group_by("query_id")
        .agg(
            is_usable=(yes.count() == len(POSITIONS)) & is_target.any() & ~is_target.all(),
            target_yes=yes.filter(is_target).any(),
            distractor_no=(~yes).filter(~is_target).mean(),
        )
        .with_columns(exclusive=pl.col("target_yes") & (pl.col("distractor_no") == 1))
        .join(margins.select("query_id", stratum_numbers()), on="query_id")
    )
    rows = []
    for number, (label, low, high) in enumerate(margin_strata()):
        of_stratum = judged.filter(stratum=number)
        usable = of_stratum.filter("is_usable")
        n, n_unusable = usable.height, of_stratum.height - usable.height
        row = {"stratum": label, "low": low, "high": high, "n": n, "n_unusable": n_unusable}
        for rate in RATES:
            share: Any = usable.get_column(rate).mean()
            ends = wilson_interval(share, n) if n else (None, None)
            row |= {rate: share, f"{rate}_low": ends[0], f"{rate}_high": ends[1]}
        rows.append(row)
    return as_table(AUDIT_TABLE, rows)


def wilson_interval(share: float, n: int) -> tuple[float, float]:
    """Return Wilson's 95 % score interval of a share observed on ``n`` trials.

    scipy's ``binomtest`` supports only whole numbers of successes, but DistractorNo counts halves.
    """
    r = np.full(2, NormalDist().inv_cdf(0.975) ** 2 / n)
    # 1 - the lower end of the complement is the upper end, and exactly 1 if the share is 1.
    low, rest = wilson_ends(np.array([share, 1 - share]), r, 1.0)[0].tolist()
    return low, 1 - rest


# The stages.


@stage("audit_pairs", version=1)
def run_audit_pairs(job: Job) -> None:
    """Draw the queries to audit and write the PAIRS of each with the thirds of its document.

    Inputs: ``candidates`` before the margin dropped any, their ``margins`` and ``documents``.
    """
    section = job.section(Audit)
    drawing = section.model_dump(mode="json", include={"per_stratum", "seed"})
    for domain in job.domains():
        margins = domain.read("margins", MARGINS)
        drawn = audit_sample(margins, per_stratum=section.per_stratum, seed=section.seed)
        pairs = part_pairs(
            domain.read("candidates", CANDIDATES),
            domain.read("documents", DOCUMENTS),
            all_parts(drawn, POSITIONS),
        )
        domain.write("pairs", pairs, PAIRS, params=drawing)


@stage("audit_table", version=2)
def run_audit_table(job: Job) -> None:
    """Write AUDIT_TABLE: the rates of the VERDICTS by stratum of the margin.

    Inputs: ``candidates``, ``margins``, ``verdicts``.
    """
    for domain in job.domains():
        table = audit_rates(
            domain.read("verdicts", VERDICTS),
            evidence_targets(domain.read("candidates", CANDIDATES)),
            domain.read("margins", MARGINS),
        )
        domain.write("table", table, AUDIT_TABLE)
