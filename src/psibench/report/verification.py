"""What verification left of a benchmark's candidates: tables and a figure, from its own tables."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from psibench.build.rules.negatives import RULE_JUDGES, RULE_RERANKERS
from psibench.report.audit import audit_block
from psibench.report.count_tables import Positions, mixture_block, savings_block, stage_block
from psibench.report.filter_tables import cell_block, margin_block
from psibench.report.inputs import BenchmarkInfo
from psibench.report.panels import FigureView, slug
from psibench.report.plain import Table
from psibench.report.shift_figure import shift_figure
from psibench.report.view_tables import PsiRows, clean_block, tiny_block
from psibench.tables.build_schemas import FLOW
from psibench.text.segments import POSITIONS

Block = Table | FigureView
PAIRS_UNIT = "pairs"


@dataclass(frozen=True)
class VerificationFacts:
    """One domain of one benchmark whose candidates were verified; what it lacks is None.

    Attributes
    ----------
    flow
        FLOW rows.
    margin_table, cell_table, audit_table
        MARGIN_TABLE, CELL_TABLE and AUDIT_TABLE rows.
    savings
        SCORING_SAVINGS rows of all steps, in their order.
    shift
        POSITION_SHIFT rows.
    judgements
        JUDGEMENTS rows: the pairs that rerankers found relevant, and what became of them.
    mixture_cells
        MIXTURE_CELLS rows.
    """

    benchmark: str
    language: str
    domain: str
    flow: pl.DataFrame | None = None
    margin_table: pl.DataFrame | None = None
    cell_table: pl.DataFrame | None = None
    audit_table: pl.DataFrame | None = None
    savings: pl.DataFrame | None = None
    shift: pl.DataFrame | None = None
    judgements: pl.DataFrame | None = None
    mixture_cells: pl.DataFrame | None = None


def verification_blocks(
    facts: Sequence[VerificationFacts],
    info: BenchmarkInfo,
    *,
    psi_rows: PsiRows,
    views: Mapping[str, str],
) -> list[Block]:
    """Return a benchmark's blocks of verification, in page order; none without facts or views.

    ``views`` names the ids of its views by sort, ``raw`` and ``tiny``, those that exist.
    """
    mine = [fact for fact in facts if fact.benchmark == info.id]
    blocks: list[Block] = []
    for fact in mine:
        place = f" · {fact.language} · {fact.domain}" if len(mine) > 1 else ""
        for block in _domain_blocks(fact, info):
            if isinstance(block, Table):
                blocks.append(replace(block, name=block.name + place))
            else:
                blocks.append(replace(block, title=block.title + place))
    if "raw" in views:
        blocks.append(clean_block(psi_rows, info, views["raw"], flow=_flow_of(mine)))
    if "tiny" in views:
        blocks.append(tiny_block(psi_rows, info, views["tiny"]))
    return blocks


def _domain_blocks(fact: VerificationFacts, info: BenchmarkInfo) -> Iterator[Block]:
    if fact.flow is not None and info.recipe == "fineweb_posq":
        yield stage_block(_counts(fact), _positions(fact))
    if fact.shift is not None:
        figure = shift_figure(fact.shift, slug("shift", info.id, fact.language, fact.domain))
        if figure is not None:
            yield figure
    if fact.margin_table is not None:
        yield margin_block(fact.margin_table, threshold=info.margin_threshold)
    if fact.cell_table is not None:
        cells = cell_block(fact.cell_table, threshold=info.margin_threshold, unit=info.length_unit)
        if cells is not None:
            yield cells
    if fact.audit_table is not None:
        yield audit_block(fact.audit_table)
    if fact.mixture_cells is not None:
        yield mixture_block(fact.mixture_cells)
    if fact.savings is not None and fact.savings.height:
        yield savings_block(fact.savings)


def _counts(fact: VerificationFacts) -> dict[tuple[str, str], int]:
    """Return how many items each stage left, and how many pairs each vote found."""
    assert fact.flow is not None
    counts = {
        (row["stage"], row["unit"]): int(row["kept"]) for row in fact.flow.iter_rows(named=True)
    }
    if fact.judgements is not None:
        pairs = fact.judgements.select("query_id", "doc_id", "is_false_negative").unique()
        counts[RULE_RERANKERS, PAIRS_UNIT] = pairs.height
        counts[RULE_JUDGES, PAIRS_UNIT] = pairs.filter("is_false_negative").height
    return counts


def _positions(fact: VerificationFacts) -> Positions:
    """Return how many items of each position each stage left."""
    if fact.shift is None:
        return {}
    found: dict[str, dict[str, int]] = {}
    for row in fact.shift.iter_rows(named=True):
        found.setdefault(row["stage"], {})[row["target_position"]] = row["n_kept"]
    return {
        stage: (parts[POSITIONS[0]], parts[POSITIONS[1]], parts[POSITIONS[2]])
        for stage, parts in found.items()
    }


def _flow_of(facts: Sequence[VerificationFacts]) -> pl.DataFrame:
    empty = pl.DataFrame(pl.from_arrow(FLOW.schema.empty_table()))
    return pl.concat([empty, *(fact.flow for fact in facts if fact.flow is not None)])
