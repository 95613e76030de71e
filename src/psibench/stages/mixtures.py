"""Stage ``mixtures``: training sets that differ in where the evidence lies (Controlled)."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from psibench.build.rules.frames import as_table, require_columns
from psibench.build.rules.mixtures import cell_budget, draw_mixtures
from psibench.build.rules.targets import single_targets
from psibench.build.verification import evidence_targets
from psibench.config.judging import Mixtures
from psibench.errors import InputError
from psibench.generate.sampling import OUTSIDE
from psibench.stages.tables import derived
from psibench.tables import read_table, write_table
from psibench.tables.build_schemas import CANDIDATES, SAMPLING
from psibench.tables.schemas import DOCUMENTS
from psibench.tables.study_schemas import MIXTURE_CELLS
from psibench.tables.verify_report_schemas import MIXTURES
from psibench.text.segments import POSITIONS

logger = logging.getLogger("psibench")

NOTHING_DRAWN = (
    "mixtures: configuration %s is empty: the smallest cell of length and position has %d queries, "
    "too few to be divided"
)

EMPTY_CELL = (
    "mixtures: a cell of length bin and position is empty, and the smallest cell is the budget: "
    "nothing is drawn. Lower the margin's threshold, sample more documents or use fewer length bins"
)


def run_mixtures(
    section: Mixtures,
    *,
    documents: str | Path,
    candidates: str | Path,
    sampling: str | Path,
    output: str | Path,
    table: str | Path | None = None,
) -> None:
    """Draw the training sets from the candidates that all filters kept.

    A cell of length bin and position without a candidate leaves nothing to draw: the table is
    empty then, and a warning says so.

    Parameters
    ----------
    documents
        DOCUMENTS with ``length_bin``; read where the candidates lack that column.
    candidates
        The retained pool, one target each.
    sampling
        Names the length bins in order; documents outside of all of them are in none.
    table
        Where to write MIXTURE_CELLS, what each configuration has of each cell; None: nowhere.

    Raises
    ------
    InputError
        If a candidate has no target or several, or its document is unknown.
    """
    pool = evidence_targets(with_bins(read_table(candidates, CANDIDATES), documents))
    bins = length_bins(sampling)
    configurations = {
        name: (begin, middle, end) for name, (begin, middle, end) in section.configurations.items()
    }
    if cell_budget(pool, bins):
        drawn = draw_mixtures(
            pool, length_bins=bins, configurations=configurations, seed=section.seed
        )
    else:  # a table beside the benchmark: no reason to lose the benchmark
        logger.warning(EMPTY_CELL)
        drawn = pl.DataFrame(pl.from_arrow(MIXTURES.schema.empty_table()))
    cells = count_cells(pool, drawn, length_bins=bins, configurations=configurations)
    totals = dict(cells.group_by("configuration").agg(pl.col("n_drawn").sum()).iter_rows())
    for name in configurations if drawn.height else ():
        if not totals[name]:
            logger.warning(NOTHING_DRAWN, name, cells.get_column("budget")[0])
    source = derived(
        "mixtures", [candidates, documents, sampling], params=section.model_dump(mode="json")
    )
    write_table(drawn, output, MIXTURES, provenance=source)
    if table is not None:
        write_table(cells, table, MIXTURE_CELLS, provenance=source)


def length_bins(sampling: str | Path) -> list[str]:
    """Read the names of the length bins, in order."""
    return read_table(sampling, SAMPLING).filter(pl.col("bin") != OUTSIDE)["bin"].to_list()


def count_cells(
    pool: pl.DataFrame,
    drawn: pl.DataFrame,
    *,
    length_bins: Sequence[str],
    configurations: Mapping[str, tuple[int, int, int]],
) -> pl.DataFrame:
    """Count what each configuration has of each cell of length bin and position.

    Parameters
    ----------
    pool
        TARGETS rows of the retained pool, one target each, with ``length_bin``.
    drawn
        MIXTURES rows drawn from it.

    Returns
    -------
    MIXTURE_CELLS rows by configuration, length bin and position, empty cells too.
    """
    cell = ["length_bin", "target_position"]
    placed = pool.select(pl.col("length_bin").cast(pl.String), single_targets(pool))
    retained = placed.group_by(cell).len("n_retained")
    taken = drawn.group_by("configuration", *cell).len("n_drawn")
    names = pl.DataFrame({"configuration": list(configurations)})
    places = names.join(pl.DataFrame({"length_bin": list(length_bins)}), how="cross")
    cells = places.join(pl.DataFrame({"target_position": list(POSITIONS)}), how="cross")
    counted = cells.join(retained, on=cell, how="left", maintain_order="left").join(
        taken, on=["configuration", *cell], how="left", maintain_order="left"
    )
    counted = counted.with_columns(
        pl.col("n_retained", "n_drawn").fill_null(0), budget=cell_budget(pool, length_bins)
    )
    return as_table(MIXTURE_CELLS, counted.to_dict())


def with_bins(candidates: pl.DataFrame, documents: str | Path) -> pl.DataFrame:
    """Give candidates their document's length bin, where they have no such column themselves.

    Raises
    ------
    InputError
        If a candidate's document is unknown, or documents have no bins either.
    """
    if "length_bin" in candidates.columns:
        return candidates
    known = read_table(documents, DOCUMENTS)
    require_columns(known, ("_id", "length_bin"), str(documents))
    known = known.select(pos_corpus_id="_id", length_bin="length_bin")
    odd = candidates.join(known, on="pos_corpus_id", how="anti", maintain_order="left")
    if odd.height:
        query_id, doc_id = odd.select("_id", "pos_corpus_id").row(0)
        raise InputError(
            f"candidate {query_id!r} is about document {doc_id!r}, which is not in {documents} "
            f"({odd.height} such candidates); give the documents the candidates were made of"
        )
    return candidates.join(known, on="pos_corpus_id", how="left", maintain_order="left")
