"""What the two stages that clean translations write of what they dropped, and how they say it."""

import polars as pl

from psibench.build.translation.cascade import Left
from psibench.tables.dropped import DROPPED_SCHEMA, Flow, flow_frame

DOCUMENTS, QUERIES = "documents", "queries"


def ledger_rows(
    left: Left, corpus: pl.DataFrame, queries: pl.DataFrame, *, stage: str
) -> pl.DataFrame:
    """Make dropped rows (`DROPPED_SCHEMA`) of the documents and queries that left.

    Parameters
    ----------
    corpus, queries
        CORPUS and QUERIES rows of the language translated from: ``char_length`` is that of the
        original document, as in the rest of a ledger.
    """
    sizes = corpus.select(doc_id="_id", char_length="char_length")
    asked = queries.select(item_id="_id", doc_id="pos_corpus_id", target_position="target_position")
    documents = left.documents_out.with_columns(
        doc_id=pl.col("item_id"), target_position=pl.lit(None, pl.String)
    )
    with_positives = left.queries_out.join(asked, on="item_id", how="left", maintain_order="left")
    stacked = [
        frame.join(sizes, on="doc_id", how="left", maintain_order="left")
        .with_columns(stage=pl.lit(stage), unit=pl.lit(unit))
        .select(pl.col(name).cast(kind) for name, kind in DROPPED_SCHEMA.items())
        for unit, frame in ((DOCUMENTS, documents), (QUERIES, with_positives))
    ]
    return pl.concat(stacked)


def flow_rows(left: Left, *, stage: str, step: int) -> pl.DataFrame:
    """Make FLOW rows: documents and queries that entered, were kept and dropped."""
    counts = [
        Flow(unit, len(kept) + gone.height, len(kept))
        for unit, kept, gone in (
            (DOCUMENTS, left.documents, left.documents_out),
            (QUERIES, left.queries, left.queries_out),
        )
    ]
    return flow_frame(stage, step, counts)


def told(left: Left) -> str:
    """Say how many documents and queries left for which reason."""
    parts = []
    for unit, gone in ((DOCUMENTS, left.documents_out), (QUERIES, left.queries_out)):
        counts = gone.group_by("reason", maintain_order=True).len("n").iter_rows()
        reasons = ", ".join(f"{n} {reason}" for reason, n in counts) or "none"
        parts.append(f"{unit} dropped: {reasons}")
    return "; ".join(parts)
