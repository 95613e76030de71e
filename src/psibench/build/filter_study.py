"""Filter studies: what another threshold, or a panel less one reranker, would have kept.

Everything is decided from the scores that are there; nothing is scored. It takes every candidate's
scores under every reranker (``complete: true``). Balancing is left aside: it would make the
positions equal, whatever the filter does to them.
"""

from collections.abc import Sequence

import numpy as np
import polars as pl

from psibench.build.rules.agreement import decide_agreement
from psibench.build.rules.cube import score_cube
from psibench.build.rules.frames import BoolArray, require_columns
from psibench.build.rules.layouts import segment_layout
from psibench.build.rules.margin import consensus_margins
from psibench.build.rules.necessity import decide_necessity
from psibench.build.rules.panel_votes import segment_votes, span_votes
from psibench.build.rules.strata import Condition, conditions
from psibench.build.rules.targets import target_mask
from psibench.build.study_rows import table_of
from psibench.build.verification import find_verification
from psibench.config.verification import VerifyMargin, VerifySection
from psibench.errors import InputError
from psibench.tables.study_schemas import FILTER_COUNTS
from psibench.tables.verify_report_schemas import CELL_TABLE
from psibench.text.segments import POSITIONS

GRID = tuple(round(0.05 * step, 2) for step in range(11))
"""Thresholds of the margin that are studied besides the configured one: 0 to 0.5."""
EVERYTHING, KEPT = "all", "kept"

_DECIDE = {"agreement": decide_agreement, "necessity": decide_necessity}


def study_conditions(
    scores: pl.DataFrame, targets: pl.DataFrame, section: VerifySection
) -> tuple[Condition, ...]:
    """Decide on every candidate, by margin at every threshold of the grid and the section's own.

    Parameters
    ----------
    scores
        SEGMENT_SCORES rows of every candidate, part and reranker of the section.
    targets
        TARGETS rows of the candidates.

    Returns
    -------
    Conditions in the order of the candidates: all and kept; by margin those of Controlled's
    table 6: all, no_margin, failed, m>=threshold.

    Raises
    ------
    InputError
        If a score is missing.
    """
    refuse_incomplete(scores, targets, section)
    panel = section.rerankers
    if isinstance(section, VerifyMargin):
        named = {f"{cut:g}": cut for cut in (*GRID, _threshold(section))}  # one row per label
        margins = consensus_margins(scores, targets, rerankers=panel)
        return conditions(margins, sorted(named.values()))
    decided = _DECIDE[section.rule](scores, targets, rerankers=panel)
    every = np.ones(targets.height, dtype=np.bool_)
    kept = decided.get_column("kept").to_numpy()
    return Condition(EVERYTHING, None, every), Condition(KEPT, None, kept)


def configured_label(section: VerifySection) -> str:
    """Name the condition that is the section's own rule."""
    return f"m>={_threshold(section):g}" if isinstance(section, VerifyMargin) else KEPT


def panel_votes(
    scores: pl.DataFrame, targets: pl.DataFrame, section: VerifySection
) -> pl.DataFrame:
    """Say how every candidate fares under each reranker alone by the section's rule: VOTES."""
    if section.rule == "necessity":
        return span_votes(scores, targets, rerankers=section.rerankers)
    threshold = section.threshold if isinstance(section, VerifyMargin) else None
    return segment_votes(scores, targets, rerankers=section.rerankers, threshold=threshold)


def condition_labels(condition: Condition, section: VerifySection) -> dict[str, object]:
    """Give what names a condition in the tables of a study."""
    return {
        "condition": condition.label,
        "threshold": condition.threshold,
        "is_configured": condition.label == configured_label(section),
    }


def filter_counts(
    found: Sequence[Condition], targets: pl.DataFrame, section: VerifySection
) -> pl.DataFrame:
    """Count the candidates that meet each condition, by target position.

    A candidate with two targets (Myopic) counts at both, so shares may add up to more than 1.

    Returns
    -------
    FILTER_COUNTS rows, in order of the conditions.
    """
    is_target = target_mask(targets)
    rows = []
    for condition in found:
        n = int(condition.members.sum())
        row = condition_labels(condition, section)
        row |= {"n": n, "share": n / targets.height if targets.height else None}
        for position, count in zip(
            POSITIONS, is_target[condition.members].sum(axis=0), strict=True
        ):
            row |= {f"n_{position}": int(count), f"share_{position}": count / n if n else None}
        rows.append(row)
    return table_of(FILTER_COUNTS, rows)


def filter_cells(
    found: Sequence[Condition], targets: pl.DataFrame, *, length_bins: Sequence[str]
) -> pl.DataFrame:
    """Count the candidates that meet each condition, by length bin and target position.

    A candidate with two targets counts at both.

    Parameters
    ----------
    targets
        TARGETS rows with ``length_bin``, one of ``length_bins``.

    Returns
    -------
    CELL_TABLE rows: per condition one row per bin, then ``all``. ``budget`` is the smallest cell
    of a filtered pool, per bin, and the sum over bins in the row all; null for the others.
    """
    in_bin = _bin_mask(targets, length_bins)
    is_target = target_mask(targets)
    rows: list[dict[str, object]] = []
    for condition in found:
        members = in_bin[condition.members].astype(np.int64)
        counts = members.T @ is_target[condition.members].astype(np.int64)
        is_pool = condition.threshold is not None or condition.label == KEPT
        smallest = int(counts.min()) if is_pool else None
        total = None if smallest is None else smallest * len(length_bins)
        labelled = zip((*length_bins, "all"), np.vstack([counts, counts.sum(axis=0)]), strict=True)
        for label, cells in labelled:
            row: dict[str, object] = {"condition": condition.label, "length_bin": label}
            row |= {f"n_{name}": int(n) for name, n in zip(POSITIONS, cells, strict=True)}
            row |= {"budget": total if label == "all" else smallest}
            rows.append(row | {"threshold": condition.threshold})
    return table_of(CELL_TABLE, rows)


def refuse_incomplete(scores: pl.DataFrame, targets: pl.DataFrame, section: VerifySection) -> None:
    """Raise InputError unless every part of every candidate has a score of every reranker."""
    parts = find_verification(section.rule).parts
    cube = score_cube(
        scores, targets, segment_layout("score"), scorers=section.rerankers, parts=parts
    )
    places = np.argwhere(~cube.present)
    if places.size:
        item, reranker, part = places[0]
        raise InputError(
            f"a filter study needs every score: no score of reranker {cube.scorers[reranker]!r} "
            f"for part {cube.parts[part]!r} of query {cube.items.item(int(item), 'query_id')!r}, "
            f"and {len(places)} of {cube.present.size} are missing; set `complete: true` in the "
            "section `verify` and let the rerankers score the rest"
        )


def _threshold(section: VerifyMargin) -> float:
    return section.threshold + 0.0  # -0 becomes 0


def _bin_mask(targets: pl.DataFrame, length_bins: Sequence[str]) -> BoolArray:
    require_columns(targets, ("query_id", "length_bin"), "candidates")
    found = targets.get_column("length_bin").cast(pl.String)
    mask = np.stack([(found == name).fill_null(False).to_numpy() for name in length_bins], axis=1)
    odd = np.flatnonzero(~mask.any(axis=1))
    if odd.size:
        query_id, name = targets.select("query_id", "length_bin").row(int(odd[0]))
        raise InputError(
            f"candidate {query_id!r} has the length bin {name!r}; listed: "
            f"{', '.join(length_bins)} ({odd.size} such candidates)"
        )
    return mask
