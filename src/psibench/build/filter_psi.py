"""What a filter does to every model's mean score and PSI.

PSI is that of the PSI table over thirds: a query counts once, in its ``target_position``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from psibench.build.filter_study import condition_labels
from psibench.build.rules.frames import BoolArray, require_columns, require_unique
from psibench.build.rules.panel import WHOLE_PANEL, kept_without
from psibench.build.rules.strata import Condition
from psibench.build.study_rows import table_of
from psibench.config.verification import VerifySection
from psibench.errors import InputError
from psibench.metrics.aggregate import UncertaintySettings
from psibench.metrics.buckets import assign, bucket_scheme
from psibench.metrics.estimate import RowData, estimate_row
from psibench.metrics.query_scores import document_numbers
from psibench.tables.study_schemas import FILTER_PSI, LEAVE_ONE_OUT_PSI

THIRDS = "thirds"
_PSI_FIELDS = ("psi", "psi_low", "psi_high", "psi_same", "p_shape")
_EVIDENCE = ("target_position", "domain", "document_id", "span_mid_char", "pos_char_length")


def aligned_scores(
    query_scores: pl.DataFrame, query_ids: pl.Series, *, metric: str, where: str
) -> pl.DataFrame:
    """Give every candidate's third and score, in order of the candidates.

    Parameters
    ----------
    query_scores
        QUERY_SCORES rows of one model; those of other queries (other domains) are left aside.
    query_ids
        The candidates.
    where
        Names the table in messages.

    Returns
    -------
    (n_candidates, ...) frame of ``query_id``, where its evidence is, and ``metric``.

    Raises
    ------
    InputError
        If a candidate has no row, or the metric is not among the columns.
    """
    require_columns(query_scores, ("query_id", *_EVIDENCE, metric), where)
    require_unique(query_scores, ("query_id",), where)
    known = query_scores.select("query_id", *_EVIDENCE, pl.col(metric).cast(pl.Float64))
    candidates = pl.DataFrame({"query_id": query_ids})
    odd = candidates.join(known, on="query_id", how="anti", maintain_order="left")
    if odd.height:
        raise InputError(
            f"{where}: no score of candidate {odd.item(0, 'query_id')!r} ({odd.height} of "
            f"{candidates.height} candidates have none); a filter study needs scores of all "
            "candidates, those the filter dropped too: evaluate the benchmark's view of them"
        )
    return candidates.join(known, on="query_id", how="left", maintain_order="left")


def filter_psi(
    found: Sequence[Condition],
    scores: Mapping[str, pl.DataFrame],
    section: VerifySection,
    *,
    metric: str,
    settings: UncertaintySettings,
) -> pl.DataFrame:
    """Compute every model's mean and PSI on all candidates and on what each threshold keeps.

    Parameters
    ----------
    found
        Conditions of `study_conditions`; no_margin and failed are no kept sets and are left out.
    scores
        Model id -> `aligned_scores` of the same candidates.

    Returns
    -------
    FILTER_PSI rows by condition, then model.
    """
    shown = [one for one in found if one.label not in ("no_margin", "failed")]
    rows = [
        condition_labels(condition, section) | _estimate(frame, condition.members, *names)
        for condition in shown
        for model, frame in scores.items()
        for names in [(model, metric, settings)]
    ]
    return table_of(FILTER_PSI, rows)


def leave_one_out_psi(
    votes: pl.DataFrame,
    scores: Mapping[str, pl.DataFrame],
    *,
    rerankers: Sequence[str],
    metric: str,
    settings: UncertaintySettings,
) -> pl.DataFrame:
    """Compute every model's mean and PSI on what the panel keeps without each of its rerankers.

    Parameters
    ----------
    votes
        VOTES rows of every candidate.
    scores
        Model id -> `aligned_scores`, in the order in which ``votes`` has the candidates.

    Returns
    -------
    LEAVE_ONE_OUT_PSI rows: the whole panel (none), then each reranker left out; by model.

    Raises
    ------
    InputError
        If the panel has fewer than two rerankers.
    """
    kept = kept_without(votes, rerankers=rerankers)
    whole: dict[str, dict[str, Any]] = {}
    rows = []
    for label in (WHOLE_PANEL, *rerankers):
        members = kept.filter(pl.col("left_out") == label).get_column("kept").to_numpy()
        for model, frame in scores.items():
            row = _estimate(frame, members, model, metric, settings)
            base = whole.setdefault(model, row)
            changes = {f"{name}_change": _less(row[name], base[name]) for name in ("mean", "psi")}
            rows.append({"left_out": label} | row | changes)
    return table_of(LEAVE_ONE_OUT_PSI, rows)


def _estimate(
    frame: pl.DataFrame,
    members: BoolArray,
    model: str,
    metric: str,
    settings: UncertaintySettings,
) -> dict[str, Any]:
    """Estimate mean and PSI of some of the queries; equal sets have equal figures."""
    kept = frame.filter(pl.Series(members))
    scheme = bucket_scheme(THIRDS)
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
    named = {"model": model, "metric": metric, "n_queries": kept.height}
    counted = {"n_buckets": found.n_buckets, "mean": kept.get_column(metric).sort().mean()}
    return named | counted | {name: getattr(found, name) for name in _PSI_FIELDS}


def _less(value: float | None, base: float | None) -> float | None:
    return None if value is None or base is None else value - base
