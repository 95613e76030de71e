"""Filter studies: what another threshold, or a panel less one reranker, would have kept.

Nothing is scored: it takes every candidate's scores under every reranker. Balancing is left out: it
would make the positions equal, whatever the filter does to them. PSI is that of the PSI table over
thirds: a query counts once, in its ``target_position``.

`position_shift` asks of a whole benchmark whether its filters shift where the evidence is.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from psibench.config.sections import Uncertainty
from psibench.filters.decide import (
    LOCATE,
    PROPOSE,
    Outputs,
    as_table,
    evidence_targets,
    single_positions,
    target_parts,
)
from psibench.filters.margin_counts import (
    COUNTS,
    CountCondition,
    count_by_position,
    margin_conditions,
)
from psibench.filters.verify import (
    SEGMENT_SCORES,
    Verify,
    VerifyMargin,
    VerifySection,
    consensus_margins,
    decide_verify,
    deciding_leads,
)
from psibench.metrics.aggregate import Evaluated, RowLabels, result_tables
from psibench.tables import read_table, write_table
from psibench.tables.build_schemas import CANDIDATES
from psibench.tables.derived import derived, read_all
from psibench.tables.domains import TablePath
from psibench.tables.schemas import QUERY_SCORES
from psibench.tables.spec import BOOL, FLOAT64, INT64, STRING, Column, TableSpec
from psibench.tables.stage import stage
from psibench.text.segments import POSITIONS

GRID = tuple(round(0.05 * step, 2) for step in range(11))
"""Thresholds of the margin that are studied besides the configured one: 0 to 0.5."""
WHOLE_PANEL = "none"

# Tables.

_CONDITION = (
    Column("condition", STRING, "all, kept; by margin: all, no_margin, failed or m>=threshold"),
    Column("threshold", FLOAT64, "threshold of the condition; null where it has none", True),
    Column("is_configured", BOOL, "whether this is the filter as the config has it"),
)
_SCORED = (
    Column("model", STRING, "model id"),
    Column("metric", STRING, "metric name, e.g. ndcg@10"),
    Column("n_queries", INT64, "queries kept"),
    Column("n_buckets", INT64, "thirds that hold a query"),
    Column("mean", FLOAT64, "mean of the metric; null without a query", True),
    Column("psi", FLOAT64, "plain PSI over thirds; null if undefined", True),
    Column("psi_low", FLOAT64, "lower end of the interval of the true PSI", True),
    Column("psi_high", FLOAT64, "upper end of the interval of the true PSI", True),
    Column("psi_same", FLOAT64, "PSI at equal documents", True),
    Column("p_position", FLOAT64, "p of the PSI table's headline test", True),
)
SCORED_NAMES = tuple(column.name for column in _SCORED)
_LEFT_OUT = Column("left_out", STRING, "reranker left out; none: the whole panel")

FILTER_COUNTS = TableSpec("filter_counts", (*_CONDITION, *COUNTS), key=("condition",))

FILTER_PSI = TableSpec("filter_psi", (*_CONDITION, *_SCORED), key=("condition", "model", "metric"))

LEAVE_ONE_OUT_PSI = TableSpec(
    "leave_one_out_psi",
    (
        _LEFT_OUT,
        *_SCORED,
        Column("mean_change", FLOAT64, "mean less the one under the whole panel", True),
        Column("psi_change", FLOAT64, "psi less the one under the whole panel", True),
    ),
    key=("left_out", "model", "metric"),
)

POSITION_SHIFT = TableSpec(
    "position_shift",
    (
        Column("stage", STRING, "stage that filters"),
        Column("step", INT64, "place of the stage among the others; rows are in this order"),
        Column("unit", STRING, "what is counted: questions or queries"),
        Column("target_position", STRING, "all (with or without a target), beginning, middle, end"),
        Column("n_entered", INT64, "items that entered"),
        Column("n_kept", INT64, "items kept"),
        Column("share_kept", FLOAT64, "n_kept / n_entered", True),
        Column(
            "share_of_entered", FLOAT64, "share of all targets that entered; null for all", True
        ),
        Column("share_of_kept", FLOAT64, "share of all targets kept; null for all", True),
        Column("shift", FLOAT64, "of the stage: half the sum of absolute share differences", True),
        Column("p_value", FLOAT64, "of the stage: chi-square test that all are kept alike", True),
        Column("min_expected", FLOAT64, "its smallest expected count; below 5 it is rough", True),
    ),
    key=("stage", "unit", "target_position"),
)

# Other thresholds.


def study_conditions(
    section: VerifySection, scores: pl.DataFrame, candidates: pl.DataFrame
) -> tuple[pl.DataFrame, list[CountCondition]]:
    """Decide on every candidate, by margin at every threshold of the grid and the section's own.

    Returns the `evidence_targets` of the candidates, in their order, with what the conditions read;
    and the conditions, all and kept; by margin those of Controlled's table 6: all, no_margin,
    failed, m>=threshold.
    """
    queries = evidence_targets(candidates)
    if isinstance(section, VerifyMargin):
        cuts = {f"{cut:g}": cut for cut in (*GRID, section.threshold + 0.0)}  # one row per label
        margins = consensus_margins(section, deciding_leads(section, scores, queries))
        pools = margin_conditions(sorted(cuts.values()))
        return queries.with_columns(margins.get_column("margin")), list(pools)
    leads = deciding_leads(section, scores, target_parts(candidates, section.parts))
    kept = decide_verify(section, leads).get_column("kept")
    conditions: list[CountCondition] = [("all", None, pl.lit(True)), ("kept", None, pl.col("kept"))]
    return queries.with_columns(kept), conditions


def _estimates(
    sets: Iterable[tuple[dict[str, Any], pl.Series]],
    known: Mapping[str, pl.DataFrame],
    metric: str,
    settings: Uncertainty,
) -> Iterator[dict[str, Any]]:
    """Yield mean and PSI of every model on every set of queries, behind the set's labels."""
    for labels, members in sets:
        tables = result_tables(
            [
                Evaluated(model, "", scores.filter(members), reading_known=False)
                for model, scores in known.items()
            ],
            labels=RowLabels("", "", ""),
            metrics=[metric],
            schemes=["thirds"],
            length_buckets=False,
            settings=settings,
        )
        rows = tables.psi.filter(evidence="all").select(*SCORED_NAMES)
        yield from (labels | row for row in rows.iter_rows(named=True))


def panels_less_one(
    section: VerifySection, scores: pl.DataFrame, candidates: pl.DataFrame
) -> Iterator[tuple[str, pl.Series]]:
    """Yield what the whole panel keeps (none), then what it keeps without each of its rerankers."""
    targets = target_parts(candidates, section.parts)
    for left_out in (WHOLE_PANEL, *section.rerankers):
        if rest := [name for name in section.rerankers if name != left_out]:
            panel = section.model_copy(update={"rerankers": rest})
            decided = decide_verify(panel, deciding_leads(panel, scores, targets))
            yield left_out, decided.get_column("kept")


# The stage.


@stage("filter_study", version=8, each="domains")
def run_filter_study(
    section: Verify,
    *,
    candidates: TablePath,
    scores: Sequence[TablePath],
    query_scores: str | Path,
    models: Sequence[str],
    metric: str,
    uncertainty: Uncertainty,
    outputs: Outputs,
) -> None:
    """Study the filter of a benchmark: other thresholds, its rerankers, and every model's PSI.

    Parameters
    ----------
    candidates
        CANDIDATES before the filter.
    scores
        SEGMENT_SCORES of the section's rerankers, of every candidate under each of them.
    query_scores
        QUERY_SCORES of all candidates, of all ``models``; ``metric`` is the one to average.
    outputs
        thresholds, threshold_psi: what each threshold keeps, and every model's PSI on it.
        leave_one_out_psi: the same of the panel without each of its rerankers.
    """
    asked, scored = read_table(candidates, CANDIDATES), read_all(scores, SEGMENT_SCORES)
    queries, conditions = study_conditions(section, scored, asked)
    label = f"m>={section.threshold + 0.0:g}" if isinstance(section, VerifyMargin) else "kept"
    counts = [
        row | {"is_configured": row["condition"] == label}
        for row in count_by_position(queries, conditions)
    ]
    every = read_table(query_scores, QUERY_SCORES).with_columns(pl.col(metric).cast(pl.Float64))
    ids = asked.select(query_id="_id")
    known = {
        model: ids.join(every.filter(model=model), on="query_id", how="left", maintain_order="left")
        for model in models
    }
    by_threshold = [
        (
            {"condition": name, "threshold": threshold, "is_configured": name == label},
            queries.with_columns(members=members.fill_null(False)).get_column("members"),
        )
        for name, threshold, members in conditions
        if name not in ("no_margin", "failed")
    ]
    panels = panels_less_one(section, scored, asked)
    by_panel = [({"left_out": name}, members) for name, members in panels]
    rows = _estimates(by_panel, known, metric, uncertainty)
    without_one = pl.DataFrame(rows, LEAVE_ONE_OUT_PSI.empty().schema)
    whole = pl.col("mean", "psi").filter(pl.col("left_out") == WHOLE_PANEL).first().over("model")
    changes = (pl.col("mean", "psi") - whole).name.suffix("_change")
    source = derived(
        "filter_study",
        [candidates, *scores, query_scores],
        params={
            "section": section.model_dump(mode="json"),
            "metric": metric,
            "settings": uncertainty.model_dump(),
        },
    )
    by_condition = _estimates(by_threshold, known, metric, uncertainty)
    for name, spec, table in (
        ("thresholds", FILTER_COUNTS, as_table(FILTER_COUNTS, counts)),
        ("threshold_psi", FILTER_PSI, as_table(FILTER_PSI, by_condition)),
        ("leave_one_out_psi", LEAVE_ONE_OUT_PSI, without_one.with_columns(changes)),
    ):
        write_table(table, outputs[name], spec, provenance=source)


# Where the evidence is before and after every filter.

QUERY_UNITS = ("questions", "queries")
"""What queries and candidates for them are called in FLOW."""
UNPLACED_STAGES = (PROPOSE, LOCATE)
"""PosIR's: what they drop has the third that was asked for, what they keep the one located."""

Filtered = tuple[str, str, Sequence[int], Sequence[int]]
"""One filter: stage, unit, what entered it and what it kept, each in all, then by position."""


def position_shift(
    flow: pl.DataFrame, attrition: pl.DataFrame, queries: pl.DataFrame
) -> pl.DataFrame:
    """Rebuild the positions before and after every filter from what is left and what was dropped.

    It goes backwards from the final queries: what entered a filter is what it kept and what it
    dropped. The ledger has one position per item, so a query of two thirds (Myopic) counts in one,
    that of the single-tag rule. An item without a target position is counted in the row ``all``
    alone. Stages that drop questions before their evidence is located have no place of it to
    compare, and are left out.

    Takes the FLOW, ATTRITION and QUERIES rows of a benchmark, of one domain or of all; counts of
    documents, chunks and pairs are left out. Returns POSITION_SHIFT rows by stage, in order of
    the steps.
    """
    is_placed = ~pl.col("stage").is_in(UNPLACED_STAGES)
    filters = flow.filter(pl.col("unit").is_in(QUERY_UNITS) & is_placed)
    filters = filters.sort("step", maintain_order=True).unique(
        ["stage", "unit"], keep="first", maintain_order=True
    )
    kept = _sizes(single_positions(queries, "pos_char_length"))
    found: list[Filtered] = []
    for name, unit in filters.select("stage", "unit").reverse().iter_rows():
        dropped = _sizes(attrition.filter(stage=name, unit=unit).get_column("target_position"))
        entered = [left + gone for left, gone in zip(kept, dropped, strict=True)]
        found.append((name, unit, entered, kept))
        kept = entered
    return shift_table(reversed(found))


def _sizes(positions: pl.Series) -> list[int]:
    return [len(positions), *(int((positions == name).sum()) for name in POSITIONS)]


def shift_table(filters: Iterable[Filtered]) -> pl.DataFrame:
    """Make POSITION_SHIFT rows of filters, in their order."""
    rows = []
    for step, (filtered_by, unit, entered, kept) in enumerate(filters):
        before, after = _shares(entered), _shares(kept)
        p_value, min_expected = _chi_square(entered, kept)
        pairs = zip(before, after, strict=True)
        changes = [abs(b - a) for a, b in pairs if a is not None and b is not None]
        of_stage = {
            "stage": filtered_by,
            "step": step,
            "unit": unit,
            "shift": sum(changes) / 2 if changes else None,
            "p_value": p_value,
            "min_expected": min_expected,
        }
        for place, name in enumerate(("all", *POSITIONS)):
            rows.append(
                of_stage
                | {
                    "target_position": name,
                    "n_entered": entered[place],
                    "n_kept": kept[place],
                    "share_kept": kept[place] / entered[place] if entered[place] else None,
                    "share_of_entered": before[place],
                    "share_of_kept": after[place],
                }
            )
    return as_table(POSITION_SHIFT, rows)


def _shares(sizes: Sequence[int]) -> list[float | None]:
    """Divide by the items that have a position; null for all items, and where none has one."""
    total = sum(sizes[1:])
    return [None, *(size / total if total else None for size in sizes[1:])]


def _chi_square(entered: Sequence[int], kept: Sequence[int]) -> tuple[float | None, float | None]:
    """Test that the share kept is the same at every position: p and the smallest expected count.

    There is no test if nothing was kept, nothing dropped, or only one position has items.
    """
    from scipy.stats import chi2_contingency

    observed = np.array([kept[1:], np.subtract(entered[1:], kept[1:])])
    observed = observed[:, observed.sum(axis=0) > 0]
    if observed.shape[1] < 2 or not observed.sum(axis=1).all():
        return None, None
    test = chi2_contingency(observed, correction=False)
    return float(test.pvalue), float(test.expected_freq.min())
