"""Stage ``filter_study``: what the rerankers' filter does, and what it might do.

It reads what is there, tables of scores; no reranker is loaded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polars as pl

from psibench.build.filter_psi import aligned_scores, filter_psi, leave_one_out_psi
from psibench.build.filter_study import (
    filter_cells,
    filter_counts,
    panel_votes,
    study_conditions,
)
from psibench.build.rules.panel import leave_one_out, reranker_agreement
from psibench.build.rules.strata import Condition
from psibench.build.verification import evidence_targets
from psibench.config.verification import VerifySection
from psibench.errors import InputError
from psibench.metrics.aggregate import UncertaintySettings
from psibench.stages.mixtures import length_bins, with_bins
from psibench.stages.tables import derived, read_all
from psibench.tables import Provenance, read_table, write_table
from psibench.tables.build_schemas import CANDIDATES
from psibench.tables.schemas import QUERY_SCORES
from psibench.tables.spec import TableSpec
from psibench.tables.study_schemas import (
    FILTER_COUNTS,
    FILTER_PSI,
    LEAVE_ONE_OUT_PSI,
)
from psibench.tables.verify_report_schemas import CELL_TABLE, LEAVE_ONE_OUT, RERANKER_AGREEMENT
from psibench.tables.verify_schemas import SEGMENT_SCORES

_Table = tuple[str | Path, TableSpec, pl.DataFrame]


@dataclass(frozen=True)
class StudyOutputs:
    """Paths of what a filter study writes.

    Attributes
    ----------
    thresholds, threshold_psi
        FILTER_COUNTS and FILTER_PSI: what each threshold keeps, and every model's PSI on it.
    agreement
        RERANKER_AGREEMENT: how often two rerankers agree.
    leave_one_out, leave_one_out_psi
        LEAVE_ONE_OUT and LEAVE_ONE_OUT_PSI: the panel without each of its rerankers.
    cells
        CELL_TABLE: what each threshold keeps by length bin; needs ``sampling``. None: not made.
    """

    thresholds: str | Path
    threshold_psi: str | Path
    agreement: str | Path
    leave_one_out: str | Path
    leave_one_out_psi: str | Path
    cells: str | Path | None = None


def run_filter_study(
    verify_section: VerifySection,
    *,
    candidates: str | Path,
    sampling: str | Path | None,
    scores: Sequence[str | Path],
    query_scores: Mapping[str, str | Path],
    metric: str,
    outputs: StudyOutputs,
    documents: str | Path | None = None,
    settings: UncertaintySettings | None = None,
) -> None:
    """Study the filter of a benchmark: other thresholds, its rerankers, and every model's PSI.

    Parameters
    ----------
    candidates
        CANDIDATES before the filter.
    sampling
        Names the length bins; needed for ``outputs.cells`` alone.
    scores
        SEGMENT_SCORES of the section's rerankers, of every candidate under each of them.
    query_scores
        Model id -> QUERY_SCORES with its scores of all candidates.
    metric
        The one to average and to take the PSI of.
    documents
        DOCUMENTS with ``length_bin``, for ``outputs.cells`` where the candidates have no bin.
    settings
        How PSI gets its interval and its null; the defaults when None.

    Raises
    ------
    InputError
        If the panel has fewer than two rerankers, or scores of a candidate are missing.
    """
    asked = read_table(candidates, CANDIDATES)
    read = [candidates, *scores]
    if documents is not None:
        asked = with_bins(asked, documents)
        read.append(documents)
    targets = evidence_targets(asked)
    scored = read_all(scores, SEGMENT_SCORES)
    found = study_conditions(scored, targets, verify_section)
    votes = panel_votes(scored, targets, verify_section)
    tables = _counts(verify_section, found, votes, targets, outputs)
    if outputs.cells is not None:
        if sampling is None:
            raise InputError(f"{outputs.cells}: its length bins are unknown; give sampling too")
        read.append(sampling)
        cells = filter_cells(found, targets, length_bins=length_bins(sampling))
        tables.append((outputs.cells, CELL_TABLE, cells))
    ids = targets.get_column("query_id")
    known = {
        model: aligned_scores(
            read_table(path, QUERY_SCORES).filter(pl.col("model") == model),
            ids,
            metric=metric,
            where=f"{path}, {model}",
        )
        for model, path in query_scores.items()
    }
    chosen = settings or UncertaintySettings()
    of_models = _psi(verify_section, found, votes, known, outputs, metric=metric, settings=chosen)
    params: dict[str, Any] = {"section": verify_section.model_dump(mode="json")}
    _write(tables, derived("filter_study", read, params=params))
    params |= {"metric": metric, "settings": asdict(chosen)}
    _write(of_models, derived("filter_study", [*read, *{*query_scores.values()}], params=params))


def _counts(
    section: VerifySection,
    found: Sequence[Condition],
    votes: pl.DataFrame,
    targets: pl.DataFrame,
    outputs: StudyOutputs,
) -> list[_Table]:
    """Make the tables that need no model's scores."""
    panel = section.rerankers
    return [
        (outputs.thresholds, FILTER_COUNTS, filter_counts(found, targets, section)),
        (outputs.agreement, RERANKER_AGREEMENT, reranker_agreement(votes, rerankers=panel)),
        (outputs.leave_one_out, LEAVE_ONE_OUT, leave_one_out(votes, targets, rerankers=panel)),
    ]


def _psi(
    section: VerifySection,
    found: Sequence[Condition],
    votes: pl.DataFrame,
    known: Mapping[str, pl.DataFrame],
    outputs: StudyOutputs,
    *,
    metric: str,
    settings: UncertaintySettings,
) -> list[_Table]:
    """Make the tables of every model's mean and PSI."""
    by_threshold = filter_psi(found, known, section, metric=metric, settings=settings)
    by_panel = leave_one_out_psi(
        votes, known, rerankers=section.rerankers, metric=metric, settings=settings
    )
    return [
        (outputs.threshold_psi, FILTER_PSI, by_threshold),
        (outputs.leave_one_out_psi, LEAVE_ONE_OUT_PSI, by_panel),
    ]


def _write(tables: Sequence[_Table], source: Provenance) -> None:
    for path, spec, frame in tables:
        write_table(frame, path, spec, provenance=source)
