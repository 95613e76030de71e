"""Sections of few long documents, as the independent units of tests and intervals.

With fewer than `FEWEST_DOCUMENTS` documents, documents cannot be the units. The queries of a
document are then cut into sections: consecutive queries, ordered by the middle of their evidence,
the same number in each section. Sections take the place of documents in every test and interval.
Neighbouring passages depend on each other, so a section must be longer than this dependence; the
results hold for these documents only, not for others. `studies/sections` has sizes and coverage.
"""

import polars as pl

from psibench.metrics.constants import FEWEST_DOCUMENTS
from psibench.metrics.query_scores import CLUSTER, SEVERAL_SPANS, has_sections

N_SECTIONS = 40
"""Number of sections of all documents together, about: at least `FEWEST_DOCUMENTS`."""
QUERIES_PER_SECTION = 4
"""Least number of queries of a section."""
FEWEST_QUERIES = N_SECTIONS * QUERIES_PER_SECTION
"""Least number of queries for sections."""
SECTIONS_NOTE = (
    "Fewer than {fewest} documents: tests and intervals take {n} sections of these documents as "
    "units and hold for these documents only."
)


def evidence_middles(queries: pl.DataFrame) -> pl.DataFrame:
    """Return query_id and middle: the mean of the middles of a query's spans, characters."""
    middle = pl.col("pos_char_span").cast(pl.List(pl.Float64)).list.mean()
    if SEVERAL_SPANS in queries.columns:
        of_each = pl.col(SEVERAL_SPANS).list.eval(
            pl.element().cast(pl.List(pl.Float64)).list.mean()
        )
        middle = pl.coalesce(middle, of_each.list.mean())
    return queries.select(query_id="_id", middle=middle)


def with_sections(scores: pl.DataFrame, queries: pl.DataFrame) -> pl.DataFrame:
    """Set the sections of documents as the clusters of QUERY_SCORES rows, if they are needed.

    Returns the rows unchanged if there are `FEWEST_DOCUMENTS` documents or given clusters, if the
    position of some evidence is unknown, or if the queries are too few for that many sections.

    ``queries`` has ``_id``, ``pos_char_span`` and, for several spans, ``pos_char_spans``.
    """
    n_documents = scores.select("domain", "document_id").n_unique()
    size = scores.height // N_SECTIONS
    if n_documents >= FEWEST_DOCUMENTS or scores[CLUSTER].count() or size < QUERIES_PER_SECTION:
        return scores
    placed = scores.join(
        evidence_middles(queries), on="query_id", how="left", maintain_order="left"
    )
    if placed["middle"].null_count():
        return scores
    document = ["domain", "document_id"]
    order = pl.struct("middle", "query_id").rank("ordinal").over(document).cast(pl.Int64) - 1
    # A document's queries fill whole sections; the rest is spread over them.
    n = (pl.len().over(document) / size).round().clip(1).cast(pl.Int64)
    number = order * n // pl.len().over(document) + 1
    labels = placed.select(
        pl.format("{} section {}", "document_id", number).alias(CLUSTER)
    ).to_series()
    return scores.with_columns(labels)


def section_lines(scores: pl.DataFrame) -> list[str]:
    """Return a line about the sections of QUERY_SCORES rows; none without sections."""
    if not has_sections(scores):
        return []
    n = scores.select("domain", "document_id", CLUSTER).n_unique()
    return [SECTIONS_NOTE.format(fewest=FEWEST_DOCUMENTS, n=n)]
