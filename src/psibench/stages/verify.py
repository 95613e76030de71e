"""Stage ``verify``: what the rerankers' scores leave of the candidates, and what they drop."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from psibench.build.rules.drops import kept_items
from psibench.build.rules.layouts import segment_layout
from psibench.build.rules.margin import MARGIN_THRESHOLDS
from psibench.build.rules.margin_tables import cell_table, margin_table
from psibench.build.rules.savings import count_savings
from psibench.build.rules.targets import targets_of
from psibench.build.verification import decide_all, find_verification, margins_of
from psibench.config.verification import VerifyMargin, VerifySection
from psibench.generate.sampling import OUTSIDE
from psibench.stages.decided import candidate_facts, write_decided
from psibench.stages.tables import derived, read_all
from psibench.tables import Provenance, read_table, write_table
from psibench.tables.build_schemas import CANDIDATES, SAMPLING
from psibench.tables.schemas import DOCUMENTS
from psibench.tables.verify_report_schemas import CELL_TABLE, MARGIN_TABLE, SCORING_SAVINGS
from psibench.tables.verify_schemas import DECISIONS, MARGINS, SEGMENT_SCORES


@dataclass(frozen=True)
class VerifyOutputs:
    """Paths of what the stage writes; the last three for a margin rule only."""

    rows: str | Path
    decisions: str | Path
    savings: str | Path
    dropped: str | Path
    flow: str | Path
    margins: str | Path | None = None
    margin_table: str | Path | None = None
    cell_table: str | Path | None = None


def run_verify(
    section: VerifySection,
    *,
    unit: str,
    step: int,
    language: str,
    domain: str,
    documents: str | Path,
    sampling: str | Path,
    candidates: str | Path,
    scores: Sequence[str | Path],
    outputs: VerifyOutputs,
) -> None:
    """Decide on every candidate and write those kept, the decisions, the dropped, the counts.

    Parameters
    ----------
    unit
        What a candidate is called in FLOW.
    step
        Place of the first rule in the recipe, for FLOW; balancing has the next one.
    scores
        Score tables of the rerankers, in their order.

    Raises
    ------
    InputError
        If a score that a decision needs is missing, or balancing would leave nothing.
    """
    found = find_verification(section.rule)
    asked = read_table(candidates, CANDIDATES)
    scored = read_all(scores, SEGMENT_SCORES)
    items = found.items(asked)
    decided = list(decide_all(scored, asked, section))
    source = derived(
        "verify",
        [candidates, documents, sampling, *scores],
        params=section.model_dump(mode="json"),
    )
    facts = candidate_facts(asked, read_table(documents, DOCUMENTS))
    write_decided(
        decided,
        facts,
        unit=unit,
        step=step,
        language=language,
        domain=domain,
        dropped=outputs.dropped,
        flow=outputs.flow,
        source=source,
    )
    every = pl.concat(decisions for _, decisions in decided)
    write_table(every, outputs.decisions, DECISIONS, provenance=source)
    savings = count_savings(
        found.rule,
        scored,
        items.select("query_id"),
        segment_layout("score"),
        scorers=section.rerankers,
        parts=found.parts,
    )
    write_table(savings, outputs.savings, SCORING_SAVINGS, provenance=source)
    if isinstance(section, VerifyMargin):
        margins = margins_of(scored, items, section)
        _write_margins(margins, items, facts, section, sampling, outputs, source)
        known = margins.select(_id="query_id", margin="margin")
        asked = asked.join(known, on="_id", how="left", maintain_order="left")
    for _, decisions in decided:
        asked = kept_items(asked, decisions)
    write_table(asked, outputs.rows, CANDIDATES, provenance=source)


def _write_margins(
    margins: pl.DataFrame,
    targets: pl.DataFrame,
    facts: pl.DataFrame,
    section: VerifyMargin,
    sampling: str | Path,
    outputs: VerifyOutputs,
    source: Provenance,
) -> None:
    """Write margins, their counts by threshold, and by length bin (Controlled, tables 6 and 8).

    A query with two targets (Myopic) counts at both of them in the first table, and in the cell of
    its single-tag position in the second.
    """
    assert outputs.margins is not None
    assert outputs.margin_table is not None
    assert outputs.cell_table is not None
    thresholds = sorted({*MARGIN_THRESHOLDS, section.threshold})
    bins = read_table(sampling, SAMPLING).filter(pl.col("bin") != OUTSIDE).get_column("bin")
    by_position = margin_table(margins, targets, thresholds=thresholds)
    by_cell = cell_table(
        margins, targets_of(facts), length_bins=bins.to_list(), thresholds=thresholds
    )
    write_table(margins, outputs.margins, MARGINS, provenance=source)
    write_table(by_position, outputs.margin_table, MARGIN_TABLE, provenance=source)
    write_table(by_cell, outputs.cell_table, CELL_TABLE, provenance=source)
