"""Tables about filters and stages of several domains, added up into one of each."""

from collections.abc import Sequence

import polars as pl

from psibench.filters.audit import AUDIT_TABLE, RATES, wilson_interval
from psibench.filters.decide import SCORING_SAVINGS
from psibench.filters.mixtures import MIXTURE_CELLS
from psibench.filters.verify import CELL_TABLE, MARGIN_TABLE
from psibench.tables.build_schemas import FLOW, LLM_USAGE
from psibench.text.segments import POSITIONS

POSITION_COUNTS = [f"n_{position}" for position in POSITIONS]
EVERY_BIN = "all"


def pool_flow(tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Add up FLOW rows of the same stage and unit."""
    counts = pl.col("step").min(), pl.col("entered", "kept", "dropped").sum()
    pooled = pl.concat(tables).group_by("stage", "unit", maintain_order=True).agg(*counts)
    return pooled.select(FLOW.column_names).sort("step", maintain_order=True)


def pool_usage(tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Add up LLM_USAGE rows of the same stage and language model."""
    keys = ["stage", "llm", "model", "backend", "prompt_hash"]
    pooled = pl.concat(tables).group_by(keys, maintain_order=True).agg(pl.exclude(keys).sum())
    return pooled.select(LLM_USAGE.column_names)


def pool_margins(tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Add up MARGIN_TABLE rows of the same condition; shares are those of the sums."""
    pooled = _summed(tables, ["condition", "threshold"], ["n", *POSITION_COUNTS])
    total = pooled.filter(condition="all").get_column("n").sum()
    shares = {f"share_{position}": pl.col(f"n_{position}") / pl.col("n") for position in POSITIONS}
    shared = pooled.with_columns(share=pl.col("n") / total, **shares)
    return shared.select(MARGIN_TABLE.column_names)


def pool_cells(tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Add up CELL_TABLE rows of the same condition and length bin; budgets are of the sums."""
    pooled = _summed(tables, ["condition", "threshold", "length_bin"], POSITION_COUNTS)
    cells = pooled.filter(pl.col("length_bin") != EVERY_BIN)
    smallest = cells.group_by("condition").agg(
        pl.min_horizontal(pl.col(POSITION_COUNTS).min()).alias("budget"), pl.len().alias("n_bins")
    )
    times = pl.when(pl.col("length_bin") == EVERY_BIN).then("n_bins").otherwise(1)
    joined = pooled.join(smallest, on="condition", how="left", maintain_order="left")
    return joined.with_columns(pl.col("budget") * times).select(CELL_TABLE.column_names)


def pool_audits(tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Add up AUDIT_TABLE rows of the same stratum; rates are weighted by their queries."""
    yes = [(pl.col(rate) * pl.col("n")).sum().alias(rate) for rate in RATES]
    grouped = pl.concat(tables).group_by("stratum", "low", "high", maintain_order=True)
    rows = []
    for row in grouped.agg(pl.col("n", "n_unusable").sum(), *yes).iter_rows(named=True):
        for rate in RATES:
            share = row[rate] / row["n"] if row["n"] else None
            low, high = (None, None) if share is None else wilson_interval(share, row["n"])
            row |= {rate: share, f"{rate}_low": low, f"{rate}_high": high}
        rows.append(row)
    audits = pl.DataFrame(rows, schema_overrides=AUDIT_TABLE.empty().schema)
    return audits.select(AUDIT_TABLE.column_names)


def pool_savings(tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Add up SCORING_SAVINGS rows of the same rule and scorer."""
    pooled = _summed(tables, ["rule", "scorer"], ["n_complete", "n_scored", "n_saved"])
    share = pl.when(pl.col("n_complete") > 0).then(pl.col("n_saved") / pl.col("n_complete"))
    return pooled.with_columns(share_saved=share).select(SCORING_SAVINGS.column_names)


def pool_mixtures(tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Add up MIXTURE_CELLS rows of the same configuration, length bin and position."""
    keys = ["configuration", "length_bin", "target_position"]
    counts = ["n_retained", "n_drawn", "budget"]
    return _summed(tables, keys, counts).select(MIXTURE_CELLS.column_names)


def _summed(
    tables: Sequence[pl.DataFrame], keys: Sequence[str], counts: Sequence[str]
) -> pl.DataFrame:
    return pl.concat(tables).group_by(keys, maintain_order=True).agg(pl.col(counts).sum())
