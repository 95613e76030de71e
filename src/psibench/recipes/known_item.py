"""Position-controlled known-item queries, simulated without a language model.

Known-item topics can be simulated by drawing query terms from a model of the known document
(L. Azzopardi, M. de Rijke, K. Balog: Building Simulated Queries for Known-Item Topics, SIGIR
2007). Here the model is that of an evidence span inside one third of the document, and a term's
probability is their mixture of popularity and discrimination, tf x log(N / df). Three rules are
added, so that a score by position says something about the retriever and not about the queries:

- the terms of a query occur in the known document inside the evidence span and nowhere else, and
  no other document has them all;
- a document gives queries for all three thirds, or none;
- of many draws per third, those three are kept that are close to one another in discrimination
  (sum of the idf), term frequency and span length.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl

from psibench.errors import InputError
from psibench.recipes.known_item_draws import Draw, DrawRules, LexicalIndex, draw_queries
from psibench.recipes.known_item_matching import match_thirds
from psibench.tables.dropped import Dropped, dropped_frame
from psibench.text.segments import POSITIONS, Position, inner_thirds

STAGE = "simulate_known_items"

QUERIES_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "_id": pl.String,
    "text": pl.String,
    "pos_corpus_id": pl.String,
    "pos_char_span": pl.Array(pl.Int32, 2),
    "target_position": pl.String,
    "answer": pl.String,
    "idf_sum": pl.Float64,
}
QRELS_SCHEMA = {"query-id": pl.String, "corpus-id": pl.String, "score": pl.Int32}


@dataclass(frozen=True)
class KnownItems:
    """Simulated queries, their labels, and the queries that could not be made.

    ``queries`` has `_id, text, pos_corpus_id, pos_char_span, target_position`, `answer` (the
    span's text) and `idf_sum` (discrimination of its terms); ``qrels`` one row per query. A row of
    ``dropped`` is a query planned and not made. Reasons, in the order they are looked for:
    ``text_too_short``: the third has fewer words than a query;
    ``no_unambiguous_span``: no span there holds enough terms found nowhere else in the text;
    ``answerable_elsewhere``: every query drawn is matched in full by another document;
    ``unmatched``: too few triples of draws are close enough to one another (score: the largest
    spread of those found);
    ``unbalanced``: the document failed at another third.
    """

    queries: pl.DataFrame
    qrels: pl.DataFrame
    dropped: pl.DataFrame


def simulate_known_items(
    documents: pl.DataFrame,
    *,
    seed: int,
    n_terms: int = 5,
    queries_per_third: int = 1,
    max_span_words: int = 60,
    n_draws: int = 48,
    min_document_frequency: int = 2,
    max_document_share: float = 0.3,
    max_spread: float = 2.0,
    language: str = "english",
) -> KnownItems:
    """Simulate known-item queries whose evidence lies in a chosen third of a document.

    Parameters
    ----------
    documents
        DOCUMENTS table (`_id`, `text`); ids are unique.
    seed
        Seed of all draws, at least 0; every document has its own stream of random numbers.
    n_terms
        Terms of a query, at least 1.
    queries_per_third
        Queries for each third of each document, at least 1.
    max_span_words
        Most words of an evidence span, at least ``n_terms``.
    n_draws
        Draws per third and query, from which the best matched three are kept, at least 1.
    min_document_frequency
        A term occurs in at least so many documents: 2 leaves out names found in one only.
    max_document_share
        A term occurs in at most this share of the documents, in (0, 1]; one document is always
        allowed.
    max_spread
        Largest allowed spread of the three matched draws: 1 is a difference of 1.0 in the sum of
        the idf, of one occurrence, or of a quarter in span length (see `match_thirds`).
    language
        Snowball stemmer.

    Returns
    -------
    KnownItems
        In order of the documents, then of the thirds. Queries kept and dropped are together
        ``3 * queries_per_third`` per document.

    Raises
    ------
    InputError
        If there are no documents, an id occurs twice, or a setting is not allowed.
    """
    rules = DrawRules(n_terms, max_span_words, n_draws, min_document_frequency, max_document_share)
    _check(documents, rules, queries_per_third, seed)
    index = LexicalIndex.build(documents["text"].to_list(), language=language)
    kept: list[dict[str, object]] = []
    dropped: list[Dropped] = []
    for number, (doc_id, text) in enumerate(documents.select("_id", "text").iter_rows()):
        rng = np.random.default_rng([seed, *doc_id.encode()])
        good, bad = _simulate_one(index, number, rules, queries_per_third, max_spread, rng)
        kept += [_query_row(doc_id, text, position, k, draw) for position, k, draw in good]
        dropped += [_dropped_row(doc_id, text, failed) for failed in bad]
    queries = pl.DataFrame(kept, QUERIES_SCHEMA)
    qrels = queries.select(
        pl.col("_id").alias("query-id"),
        pl.col("pos_corpus_id").alias("corpus-id"),
        pl.lit(1, pl.Int32).alias("score"),
    )
    return KnownItems(queries, qrels, dropped_frame(dropped))


Kept = tuple[Position, int, Draw]
Failed = tuple[Position, int, str, float | None]


def _simulate_one(
    index: LexicalIndex,
    number: int,
    rules: DrawRules,
    queries_per_third: int,
    max_spread: float,
    rng: np.random.Generator,
) -> tuple[list[Kept], list[Failed]]:
    """Simulate one document's queries: all of its planned queries are kept, or none is."""
    plan = [(position, k) for position in POSITIONS for k in range(1, queries_per_third + 1)]
    ranges = inner_thirds(len(index.texts[number]))
    draws: dict[Position, list[Draw]] = {}
    failed: dict[Position, str] = {}
    for position in POSITIONS:
        found = draw_queries(index, number, ranges[position], rules, queries_per_third, rng)
        if isinstance(found, str):
            failed[position] = found
        else:
            draws[position] = found
    if failed:
        return [], [(pos, k, failed.get(pos, "unbalanced"), None) for pos, k in plan]
    matched = match_thirds([draws[position] for position in POSITIONS], queries_per_third)
    worst = max(match.spread for match in matched)
    if len(matched) < queries_per_third or worst > max_spread:
        return [], [(pos, k, "unmatched", worst) for pos, k in plan]
    return [
        (position, k, matched[k - 1].draws[POSITIONS.index(position)]) for position, k in plan
    ], []


def _query_row(doc_id: str, text: str, position: Position, k: int, draw: Draw) -> dict[str, object]:
    return {
        "_id": f"{doc_id}-{position}-{k}",
        "text": draw.text,
        "pos_corpus_id": doc_id,
        "pos_char_span": [draw.start, draw.end],
        "target_position": position,
        "answer": text[draw.start : draw.end],
        "idf_sum": draw.idf_sum,
    }


def _dropped_row(doc_id: str, text: str, failed: Failed) -> Dropped:
    position, k, reason, score = failed
    item = (f"{doc_id}-{position}-{k}", doc_id, reason)
    return Dropped(STAGE, "queries", *item, None, score, position, len(text))


def _check(documents: pl.DataFrame, rules: DrawRules, queries_per_third: int, seed: int) -> None:
    if documents.is_empty():
        raise InputError("no documents to simulate queries for; give a table of at least one row")
    repeated: Iterable[str] = documents.filter(pl.col("_id").is_duplicated())["_id"].head(1)
    for doc_id in repeated:
        raise InputError(f"document id {doc_id!r} occurs more than once; make the ids unique")
    if queries_per_third < 1 or seed < 0:
        raise InputError(
            f"queries_per_third={queries_per_third}, seed={seed}; "
            "allowed: queries_per_third >= 1, seed >= 0"
        )
    rules.check()
