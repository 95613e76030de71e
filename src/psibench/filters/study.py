"""Filter studies: what another threshold, or a panel less one reranker, would have kept.

Everything is decided from the scores that are there; nothing is scored. It takes every candidate's
scores under every reranker. Balancing is left aside: it would make the positions equal, whatever
the filter does to them. PSI is that of the PSI table over thirds: a query counts once, in its
``target_position``.

`position_shift` asks of a whole benchmark whether its filters shift where the evidence lies.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from psibench.errors import InputError
from psibench.filters.decide import (
    Outputs,
    as_table,
    evidence_targets,
    first_failure,
    single_positions,
    target_leads,
)
from psibench.filters.mixtures import read_length_bins, with_length_bins
from psibench.filters.verify import (
    CELL_TABLE,
    MARGIN_TABLE,
    SEGMENT_SCORES,
    Condition,
    Verify,
    VerifyMargin,
    VerifySection,
    consensus_margins,
    count_by_cell,
    count_by_position,
    margin_pools,
    reaches,
)
from psibench.generate.posir import LOCATE, PROPOSE
from psibench.metrics.aggregate import UncertaintySettings
from psibench.metrics.buckets import assign, bucket_scheme
from psibench.metrics.psi import RowData, estimate_row
from psibench.metrics.query_scores import document_numbers
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
    Column("p_shape", FLOAT64, "p against a slope or a bend, as in the PSI table", True),
)
_LEFT_OUT = Column("left_out", STRING, "reranker left out; none for the whole panel")

FILTER_COUNTS = TableSpec(
    "filter_counts", (*_CONDITION, *MARGIN_TABLE.columns[2:]), key=("condition",)
)

FILTER_PSI = TableSpec("filter_psi", (*_CONDITION, *_SCORED), key=("condition", "model", "metric"))

RERANKER_AGREEMENT = TableSpec(
    "reranker_agreement",
    (
        Column("reranker", STRING, "reranker id"),
        Column("other", STRING, "reranker id"),
        Column("n", INT64, "queries on which both votes are known"),
        Column("n_both_pass", INT64, "queries that pass under both"),
        Column("n_both_fail", INT64, "queries that fail under both"),
        Column("agreement", FLOAT64, "share of equal votes; null if n is 0", True),
        Column("kappa", FLOAT64, "Cohen's kappa; null if chance alone gives full agreement", True),
    ),
    key=("reranker", "other"),
)

LEAVE_ONE_OUT = TableSpec(
    "leave_one_out",
    (
        _LEFT_OUT,
        Column("target_position", STRING, "all, beginning, middle or end"),
        Column("n_entered", INT64, "queries"),
        Column("n_kept", INT64, "queries kept by the rest of the panel"),
        Column("n_gained", INT64, "of them, not kept by the whole panel"),
        Column("n_lost", INT64, "queries kept by the whole panel and not by the rest"),
        Column("share_kept", FLOAT64, "n_kept / n_entered", True),
        Column("share_of_kept", FLOAT64, "n_kept / n_kept of all positions", True),
    ),
    key=("left_out", "target_position"),
)

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


def configured_label(section: VerifySection) -> str:
    """Name the condition that is the section's own rule."""
    return f"m>={section.threshold + 0.0:g}" if isinstance(section, VerifyMargin) else "kept"


def study_conditions(
    section: VerifySection, scores: pl.DataFrame, candidates: pl.DataFrame
) -> tuple[pl.DataFrame, list[Condition]]:
    """Decide on every candidate, by margin at every threshold of the grid and the section's own.

    Returns the `evidence_targets` of the candidates, in their order, with what the conditions read;
    and the conditions, all and kept; by margin those of Controlled's table 6: all, no_margin,
    failed, m>=threshold.
    """
    queries, panel = evidence_targets(candidates), section.rerankers
    if isinstance(section, VerifyMargin):
        cuts = {f"{cut:g}": cut for cut in (*GRID, section.threshold + 0.0)}  # one row per label
        margins = consensus_margins(scores, section.items(candidates), rerankers=panel)
        pools = margin_pools(sorted(cuts.values()))
        return queries.with_columns(margins.get_column("margin")), list(pools)
    leads = target_leads(scores, section.items(candidates), rerankers=panel, parts=section.parts)
    kept = first_failure(leads, section.passes).get_column("fails").not_()
    conditions: list[Condition] = [("all", None, pl.lit(True)), ("kept", None, pl.col("kept"))]
    return queries.with_columns(kept=kept), conditions


def _estimate(
    scores: pl.DataFrame, members: pl.Series, model: str, metric: str, settings: UncertaintySettings
) -> dict[str, Any]:
    """Estimate mean and PSI of some of the queries; equal sets have equal figures."""
    kept = scores.filter(members)
    scheme = bucket_scheme("thirds")
    placed = assign(kept, scheme)
    found, _ = estimate_row(
        RowData(
            scores=kept.get_column(metric).to_numpy(),
            documents=document_numbers(kept),
            lengths=kept.get_column("pos_char_length").to_numpy().astype(np.float64),
            positions=kept.get_column("span_mid_char").to_numpy(),
        ),
        placed.query_index,
        placed.bucket_index,
        n_buckets=len(scheme.buckets),
        level=settings.level,
        min_bucket_size=settings.min_bucket_size,
    )
    fields = ("psi", "psi_low", "psi_high", "psi_same", "p_shape")
    return {
        "model": model,
        "metric": metric,
        "n_queries": kept.height,
        "n_buckets": found["n_buckets"],
        "mean": kept.get_column(metric).sort().mean(),
        **{name: found[name] for name in fields},
    }


# Other panels.


def panel_votes(
    section: VerifySection, scores: pl.DataFrame, candidates: pl.DataFrame
) -> dict[str, pl.Series]:
    """Say how every candidate fares under each reranker alone: bools, null without a known lead.

    Raises
    ------
    InputError
        If the panel has fewer than two rerankers.
    """
    if len(section.rerankers) < 2:
        raise InputError(f"rerankers: {section.rerankers}; a study of a panel needs two or more")
    leads = target_leads(
        scores, section.items(candidates), rerankers=section.rerankers, parts=section.parts
    )
    passes = reaches(section.threshold) if isinstance(section, VerifyMargin) else section.passes
    votes = leads.with_columns(passes=pl.when(pl.col("unknown").is_null()).then(passes))
    return {name: votes.filter(reranker=name).get_column("passes") for name in section.rerankers}


def reranker_agreement(votes: Mapping[str, pl.Series]) -> Iterator[dict[str, Any]]:
    """Compare the votes of every two rerankers, over the queries on which both are known.

    kappa = (observed - expected) / (1 - expected) agreement (J. Cohen, 1960); scikit-learn has it
    without the null where chance alone gives full agreement, and takes a second to import.
    """
    for (reranker, left), (other, right) in combinations(votes.items(), 2):
        known = left.is_not_null() & right.is_not_null()
        n, both = int(known.sum()), int((left & right).sum())
        neither = int((~left & ~right).sum())
        n_left, n_right = int(left.filter(known).sum()), int(right.filter(known).sum())
        observed = (both + neither) / n if n else None
        by_chance = n_left * n_right + (n - n_left) * (n - n_right)
        expected = by_chance / (n * n) if n else 1.0
        yield {
            "reranker": reranker,
            "other": other,
            "n": n,
            "n_both_pass": both,
            "n_both_fail": neither,
            "agreement": observed,
            "kappa": None
            if observed is None or by_chance == n * n
            else (observed - expected) / (1 - expected),
        }


def kept_without(votes: Mapping[str, pl.Series]) -> dict[str, pl.Series]:
    """Decide on every query with the whole panel (none) and with each reranker left out.

    All rerankers that are left have to vote for a query; an unknown vote is none.
    """
    frame = pl.DataFrame({name: passes.fill_null(False) for name, passes in votes.items()})
    return {
        left_out: frame.select(
            pl.all_horizontal(pl.col(name) for name in votes if name != left_out)
        ).to_series()
        for left_out in (WHOLE_PANEL, *votes)
    }


def leave_one_out(kept: Mapping[str, pl.Series], queries: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """Count what the panel keeps without each of its rerankers, by target position.

    Parameters
    ----------
    kept
        Of `kept_without`.
    queries
        ``targets``; a query with several of them counts at each.
    """
    whole, targets = kept[WHOLE_PANEL], queries.get_column("targets")
    groups = {"all": targets.is_not_null()}
    groups |= {name: targets.list.contains(name) for name in POSITIONS}
    for left_out, rest in kept.items():
        n_all = int(rest.sum())
        for position, members in groups.items():
            n, n_kept = int(members.sum()), int((rest & members).sum())
            yield {
                "left_out": left_out,
                "target_position": position,
                "n_entered": n,
                "n_kept": n_kept,
                "n_gained": int((rest & ~whole & members).sum()),
                "n_lost": int((whole & ~rest & members).sum()),
                "share_kept": n_kept / n if n else None,
                "share_of_kept": n_kept / n_all if n_all else None,
            }


# The stage.


@stage("filter_study", version=2, each="domains")
def run_filter_study(
    section: Verify,
    *,
    documents: TablePath,
    candidates: TablePath,
    sampling: TablePath,
    scores: Sequence[TablePath],
    query_scores: str | Path,
    models: Sequence[str],
    metric: str,
    uncertainty: UncertaintySettings,
    outputs: Outputs,
) -> None:
    """Study the filter of a benchmark: other thresholds, its rerankers, and every model's PSI.

    Parameters
    ----------
    documents
        DOCUMENTS with ``length_bin``; read where the candidates have no bin.
    candidates
        CANDIDATES before the filter.
    scores
        SEGMENT_SCORES of the section's rerankers, of every candidate under each of them.
    query_scores
        QUERY_SCORES of all candidates, of all ``models``; ``metric`` is the one to average.
    outputs
        thresholds, threshold_psi: what each threshold keeps, and every model's PSI on it.
        agreement: how often two rerankers agree. leave_one_out, leave_one_out_psi: the panel
        without each of its rerankers. cells: what each threshold keeps by length bin.

    Raises
    ------
    InputError
        If the panel has fewer than two rerankers, or a score is missing that decides.
    """
    asked = with_length_bins(read_table(candidates, CANDIDATES), documents)
    scored = read_all(scores, SEGMENT_SCORES)
    votes = panel_votes(section, scored, asked)
    queries, conditions = study_conditions(section, scored, asked)
    kept = kept_without(votes)
    configured = {label: label == configured_label(section) for label, _, _ in conditions}
    counts = count_by_position(queries, conditions)
    counts = (row | {"is_configured": configured[row["condition"]]} for row in counts)
    bins = read_length_bins(sampling)
    read = [candidates, *scores, documents, sampling]
    said: dict[str, Any] = {"section": section.model_dump(mode="json")}
    source = derived("filter_study", read, params=said)
    for name, spec, rows in (
        ("thresholds", FILTER_COUNTS, counts),
        ("agreement", RERANKER_AGREEMENT, reranker_agreement(votes)),
        ("leave_one_out", LEAVE_ONE_OUT, leave_one_out(kept, queries)),
        ("cells", CELL_TABLE, count_by_cell(queries, conditions, length_bins=bins)),
    ):
        write_table(as_table(spec, rows), outputs[name], spec, provenance=source)
    every = read_table(query_scores, QUERY_SCORES).with_columns(pl.col(metric).cast(pl.Float64))
    ids = asked.select(query_id="_id")
    known = {
        model: ids.join(every.filter(model=model), on="query_id", how="left", maintain_order="left")
        for model in models
    }

    def estimates(labels: Mapping[str, Any], members: pl.Series) -> Iterator[dict[str, Any]]:
        for model, frame in known.items():
            yield {**labels, **_estimate(frame, members, model, metric, uncertainty)}

    by_threshold = [
        row
        for label, threshold, members in _kept_sets(conditions, queries)
        for row in estimates(
            {"condition": label, "threshold": threshold, "is_configured": configured[label]},
            queries.select(members).to_series(),
        )
    ]
    by_panel = [
        row for name, members in kept.items() for row in estimates({"left_out": name}, members)
    ]
    said |= {"metric": metric, "settings": asdict(uncertainty)}
    source = derived("filter_study", [*read, query_scores], params=said)
    for name, spec, made in (
        ("threshold_psi", FILTER_PSI, by_threshold),
        ("leave_one_out_psi", LEAVE_ONE_OUT_PSI, _with_changes(by_panel)),
    ):
        write_table(as_table(spec, made), outputs[name], spec, provenance=source)


def _with_changes(by_panel: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Add what each row's mean and PSI changed from those under the whole panel."""
    whole = {row["model"]: row for row in by_panel if row["left_out"] == WHOLE_PANEL}
    for row in by_panel:
        base, changes = whole[row["model"]], {}
        for name in ("mean", "psi"):
            is_known = row[name] is not None and base[name] is not None
            changes[f"{name}_change"] = row[name] - base[name] if is_known else None
        yield row | changes


def _kept_sets(conditions: Sequence[Condition], queries: pl.DataFrame) -> Iterator[Condition]:
    """Yield the conditions that are kept sets, as columns of every query, true or false."""
    for label, threshold, members in conditions:
        if label not in ("no_margin", "failed"):
            every = pl.repeat(True, queries.height)
            yield label, threshold, (every & members).fill_null(False)


# Where the evidence lies before and after every filter.

QUERY_UNITS = ("questions", "queries")
"""What queries and candidates for them are called in FLOW."""
UNPLACED_STAGES = (PROPOSE, LOCATE)
"""PosIR's: what they drop has the third that was asked for, what they keep the one located."""


class Filtered(NamedTuple):
    """One filter, with what entered it and what it kept: all of it, then by position."""

    stage: str
    unit: str
    entered: Sequence[int]
    kept: Sequence[int]


def position_shift(
    flow: pl.DataFrame, attrition: pl.DataFrame, queries: pl.DataFrame
) -> pl.DataFrame:
    """Rebuild the positions before and after every filter from what is left and what was dropped.

    It goes backwards from the final queries: what entered a filter is what it kept and what it
    dropped. The ledger has one position per item, so a query of two thirds (Myopic) counts in one,
    that of the single-tag rule. An item without a target position is counted in the row ``all``
    alone. Stages that drop questions before their evidence is located have no place of it to
    compare, and are left aside.

    Takes the FLOW, ATTRITION and QUERIES rows of a benchmark, of one domain or of all; counts of
    documents, chunks and pairs are left aside. Returns POSITION_SHIFT rows by stage, in order of
    the steps.

    Raises
    ------
    InputError
        If the counts, the dropped items and the queries do not add up.
    """
    is_placed = ~pl.col("stage").is_in(UNPLACED_STAGES)
    steps = (
        flow.filter(pl.col("unit").is_in(QUERY_UNITS) & is_placed)
        .group_by("stage", "unit", maintain_order=True)
        .agg(pl.col("step").min(), pl.col("entered", "kept", "dropped").sum())
        .sort("step", maintain_order=True)
    )
    kept = _sizes(single_positions(queries, "pos_char_length"))
    found: list[Filtered] = []
    for row in reversed(steps.rows(named=True)):
        own = attrition.filter(stage=row["stage"], unit=row["unit"])
        dropped = _sizes(own.get_column("target_position"))
        for outcome, n, where in (
            ("kept", kept[0], "came after it"),
            ("dropped", dropped[0], "are in the ledger"),
        ):
            if row[outcome] != n:
                raise InputError(
                    f"stage {row['stage']}: {row[outcome]} {row['unit']} {outcome} by its counts, "
                    f"but {n} {where}; give the counts, the ledger and the queries of the same run "
                    "and domains"
                )
        entered = [before + after for before, after in zip(kept, dropped, strict=True)]
        found.append(Filtered(row["stage"], row["unit"], entered, kept))
        kept = entered
    return shift_table(reversed(found))


def _sizes(positions: pl.Series) -> list[int]:
    return [len(positions), *(int((positions == name).sum()) for name in POSITIONS)]


def shift_table(filters: Iterable[Filtered]) -> pl.DataFrame:
    """Make POSITION_SHIFT rows of filters, in their order."""
    rows = []
    for step, (filtered_by, unit, entered, kept) in enumerate(filters):
        before, after = (_shares(side[1:]) for side in (entered, kept))
        is_known = before is not None and after is not None
        of_stage = {"stage": filtered_by, "step": step, "unit": unit}
        of_stage["shift"] = float(np.abs(after - before).sum() / 2) if is_known else None
        of_stage |= dict(zip(("p_value", "min_expected"), _chi_square(entered, kept), strict=True))
        for place, name in enumerate(("all", *POSITIONS)):
            shares = [None if place == 0 or of is None else of[place - 1] for of in (before, after)]
            rows.append(
                of_stage
                | {
                    "target_position": name,
                    "n_entered": entered[place],
                    "n_kept": kept[place],
                    "share_kept": kept[place] / entered[place] if entered[place] else None,
                    "share_of_entered": shares[0],
                    "share_of_kept": shares[1],
                }
            )
    return as_table(POSITION_SHIFT, rows)


def _shares(by_position: Sequence[int]) -> Any:
    total = sum(by_position)
    return np.array(by_position) / total if total else None


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
