"""Probes of retrieval: nDCG@10 with moved evidence, and with all documents reversed.

Moved evidence (Controlled, section 6.2) replaces one document of the corpus; mirror reversal
(Controlled, appendix E.1) replaces every document. Both search with the same queries before and
after, so only the position of the evidence changes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from psibench.formats.built import identical_ids_of
from psibench.formats.checks import identical_ids_removed
from psibench.metrics.ranking import ranking_metrics
from psibench.models.dtypes import pick_device
from psibench.probes.encoding import ProbeEncoder
from psibench.probes.settings import Probes
from psibench.probes.tables import (
    ABOUT,
    Row,
    effect_row,
    influence_of_documents,
    read_queries,
    rows_frame,
)
from psibench.probes.variants import (
    Permuted,
    Span,
    UnfitError,
    moved_pieces,
    reversed_segments,
)
from psibench.search.exact import SEARCH_BLOCK_BYTES, search_vectors
from psibench.tables.job import Job
from psibench.tables.ranking import rank_documents
from psibench.tables.schemas import CORPUS, QRELS
from psibench.tables.spec import FLOAT64, INT32, STRING, Column, TableSpec

DEPTH = 10
METRIC = f"ndcg@{DEPTH}"
N_SEGMENTS = 5
"""Segments of a reversed document; evidence in 1 and 2 has origin front, in 4 and 5 back."""


@dataclass(frozen=True)
class Collection:
    """Corpora of all domains with their qrels.

    ``documents`` has domain, document_id, text, in each domain by descending id, the order of tied
    scores; ``qrels`` has domain, query-id, corpus-id, score. With ``remove_identical_ids`` results
    of a query exclude the document with the query's id.
    """

    domains: tuple[str, ...]
    documents: pl.DataFrame
    qrels: pl.DataFrame
    remove_identical_ids: bool = False

    @classmethod
    def read(cls, job: Job) -> "Collection":
        """Read the inputs ``corpora`` and ``qrels``; keeps all documents' texts in memory."""
        documents = pl.concat(
            domain.columns("corpora", CORPUS, ["_id", "text"])
            .sort("_id", descending=True)  # the order of tied scores
            .select(pl.lit(domain.name).alias("domain"), pl.col("_id").alias("document_id"), "text")
            for domain in job.domains()
        )
        judged = pl.concat(
            domain.read("qrels", QRELS).select(
                pl.lit(domain.name).alias("domain"), *QRELS.column_names
            )
            for domain in job.domains()
        )
        recorded = {identical_ids_of(Path(path)) for path in job.paths("queries")}
        is_removed = any(identical_ids_removed(setting, judged) for setting in recorded)
        return cls(tuple(job.domain_names), documents, judged, is_removed)

    def search(
        self, asked: pl.DataFrame, documents: np.ndarray, encoder: ProbeEncoder, k: int
    ) -> pl.DataFrame:
        """Return the k best documents of each query within its domain.

        ``asked`` has domain, query_id and text; ``documents`` are the (n_documents,) store keys of
        the vectors. Returns query_id (row number in ``asked``), doc_id and score.
        """
        vectors = encoder.vectors(encoder.encode(asked["text"].to_list(), "query"))
        corpus = encoder.store.documents(documents, block_bytes=SEARCH_BLOCK_BYTES // 2)
        numbers = pl.int_range(asked.height, dtype=pl.UInt32, eager=True)
        found = []
        for domain in self.domains:
            mine, inside = (
                (frame["domain"] == domain).arg_true() for frame in (asked, self.documents)
            )
            best = search_vectors(
                vectors[mine.to_numpy()],
                corpus.take(inside.to_numpy()),
                k=k + self.remove_identical_ids,
                device=pick_device("auto"),
            )
            ids = self.documents["document_id"].gather(inside)
            found.append(best.frame(numbers.gather(mine), ids))
        results = pl.concat(found)
        if self.remove_identical_ids:
            own = asked["query_id"].gather(results["query_id"])
            results = results.filter(results["doc_id"] != own)
        return results

    def ndcg(self, found: pl.DataFrame, asked: pl.DataFrame) -> pl.Series:
        """Return nDCG@10 of each query, (n_queries,) Float64; null without a positive.

        ``found`` comes from `search`; ``asked`` has domain and query_id.
        """
        numbered = asked.select("domain", "query_id").with_row_index("number")
        qrels = numbered.join(
            self.qrels, left_on=["domain", "query_id"], right_on=["domain", "query-id"]
        ).select(pl.col("number").cast(pl.String).alias("query-id"), "corpus-id", "score")
        scores = ranking_metrics(rank_documents(found), qrels, metrics=[METRIC])
        return numbered.join(
            scores.cast({"query_id": pl.UInt32}),
            left_on="number",
            right_on="query_id",
            how="left",
            maintain_order="left",
        )[METRIC]


def ndcg_with_variants(
    rows: pl.DataFrame, queries: pl.DataFrame, collection: Collection, encoder: ProbeEncoder
) -> pl.Series:
    """Return nDCG@10 with each row's variant instead of its document, (n_rows,) Float64.

    ``rows`` come from `cosines.measure`; left-out rows get null. ``queries`` has domain, query_id
    and text.
    """
    documents = encoder.encode(collection.documents["text"].to_list(), "document")
    best = collection.search(queries, documents.keys, encoder, DEPTH + 1)
    numbers = queries.select("domain", "query_id").with_row_index("query")
    variants = rows.with_row_index("row").filter(pl.col("cosine").is_not_null())
    others = (
        variants.select("row", "domain", "query_id", "document_id")
        .join(numbers, on=["domain", "query_id"])
        .join(best, left_on="query", right_on="query_id")
        .filter(pl.col("doc_id") != pl.col("document_id"))
    )
    moved = variants.select(
        query_id="row", doc_id="document_id", score=pl.col("score").cast(pl.Float32)
    )
    found = pl.concat([others.select(query_id="row", doc_id="doc_id", score="score"), moved])
    ndcg = collection.ndcg(found, rows).fill_null(0.0)
    return rows.select(pl.when(pl.col("cosine").is_not_null()).then(ndcg)).to_series()


# --- Mirror reversal ---

REVERSAL_SCORES = TableSpec(
    "reversal_scores",
    (
        *ABOUT,
        Column("document_id", STRING, "positive document with the evidence"),
        Column("query_id", STRING, "query id"),
        Column(
            "origin",
            STRING,
            "front: evidence in segments 1 and 2 of 5; back: in 4 and 5; middle: elsewhere or "
            "across; null: left out",
            True,
        ),
        Column("n_pieces", INT32, "pieces of the evidence after reversal", True),
        Column("before", FLOAT64, "nDCG@10 with the original documents", True),
        Column("after", FLOAT64, "nDCG@10 with all documents reversed", True),
        Column("visible_before", FLOAT64, "share of the evidence that the model read", True),
        Column("visible_after", FLOAT64, "the same share in the reversed document", True),
        Column(
            "read",
            FLOAT64,
            "share that the model read, of the original or reversed document, the lower",
            True,
        ),
        Column("left_out", STRING, "reason why the query does not count; null: it counts", True),
    ),
    key=("benchmark", "language", "domain", "model", "query_id"),
)


def probe_reversal(job: Job, encoder: ProbeEncoder) -> pl.DataFrame:
    """Search with all queries before and after reversing every document of a benchmark."""
    asked = pl.concat(map(read_queries, job.domains()))
    is_exact = job.section(Probes, "probes").reversal_cuts == "exact"
    return measure_reversal(Collection.read(job), asked, encoder, is_exact=is_exact)


def measure_reversal(
    collection: Collection,
    asked: pl.DataFrame,
    encoder: ProbeEncoder,
    *,
    is_exact: bool = False,
) -> pl.DataFrame:
    """Score every query before and after; returns the columns of REVERSAL_SCORES less `LABELS`.

    ``asked`` has domain, query_id, document_id, text, span. A document that is too short to reverse
    remains unchanged, and its queries do not count. ``is_exact``: see `reversed_segments`.
    """
    texts = collection.documents["text"].to_list()
    turned = [_reversed(text, is_exact=is_exact) for text in texts]
    after = [
        text if isinstance(made, str) else made[1].text
        for text, made in zip(texts, turned, strict=True)
    ]
    read = [encoder.encode(side, "document") for side in (texts, after)]
    scores = [
        collection.ndcg(collection.search(asked, side.keys, encoder, DEPTH), asked) for side in read
    ]
    ids = collection.documents.select("domain", "document_id").rows()
    number = {one: place for place, one in enumerate(ids)}
    rows = []
    columns = ("domain", "document_id", "query_id", "span")
    for row, *ndcg in zip(asked.select(columns).iter_rows(named=True), *scores, strict=True):
        span, place = row.pop("span"), number.get((row["domain"], row["document_id"]))
        made = "its document is not in the corpus" if place is None else turned[place]
        if span is None:
            made = "no one evidence span"
        elif None in ndcg:
            made = "no positive in the qrels"
        if isinstance(made, str):
            rows.append(row | {"left_out": made})
            continue
        assert place is not None
        segments, order = made
        pieces = moved_pieces(segments, order, (span[0], span[1]))
        touched = [
            k for k, (start, end) in enumerate(segments, 1) if start < span[1] and span[0] < end
        ]
        limits = [int(side.visible_chars[place]) for side in read]
        rows.append(
            row
            | {
                "origin": _origin(touched),
                "n_pieces": len(pieces),
                "before": ndcg[0],
                "after": ndcg[1],
                "visible_before": _visible([(span[0], span[1])], limits[0]),
                "visible_after": _visible(pieces, limits[1]),
                "read": min(limits) / len(texts[place]),
            }
        )
    return rows_frame(REVERSAL_SCORES, rows)


def _reversed(text: str, *, is_exact: bool) -> tuple[tuple[Span, ...], Permuted] | str:
    """Reverse a text, or return the reason why it cannot be reversed."""
    try:
        return reversed_segments(text, N_SEGMENTS, is_exact=is_exact)
    except UnfitError as error:
        return str(error)


def _origin(touched: Sequence[int]) -> str:
    if touched and touched[-1] <= 2:
        return "front"
    return "back" if touched and touched[0] >= 4 else "middle"


def _visible(pieces: Sequence[tuple[int, int]], limit: int) -> float:
    n_chars = sum(end - start for start, end in pieces)
    seen = sum(max(min(end, limit) - start, 0) for start, end in pieces)
    return seen / n_chars if n_chars else 0.0


ARROWS = {"front": "F->B", "middle": "M->M", "back": "B->F"}


def reversal_summary(kept: pl.DataFrame, *, level: float) -> Iterator[Row]:
    """Yield mean nDCG@10 by origin, its changes, and Delta_rev.

    ``delta_rev`` = nDCG(B->F) - nDCG(F->B) is nDCG@10 of queries with origin back minus origin
    front, after reversal; ``delta`` is the same difference before. Both compare different queries.
    ``delta_change`` = delta_rev - delta is the effect of the position on the same queries. All
    intervals treat the queries of a document as one unit.
    """
    kept = kept.with_columns(change=pl.col("after") - pl.col("before"))
    for origin, arrow in ARROWS.items():
        mine = {origin: 1}
        names = {"before": origin, "after": arrow, "change": f"{arrow} less {origin}"}
        for column, condition in names.items():
            measure = f"{METRIC} change" if column == "change" else METRIC
            effect = _contrast(kept, column, mine, level=level, is_tested=column == "change")
            if effect is not None:
                visible = {"before": "visible_before", "after": "visible_after"}.get(column)
                shown = kept.filter(origin=origin)[visible].mean() if visible else None
                yield {"measure": measure, "condition": condition, **effect, "read_share": shown}
    contrast = {"back": 1, "front": -1}
    for measure, column, condition in (
        ("delta", "before", "back less front"),
        ("delta_rev", "after", "B->F less F->B"),
        ("delta_change", "change", "delta_rev less delta"),
    ):
        effect = _contrast(kept, column, contrast, level=level, is_tested=True)
        if effect is not None:
            yield {"measure": measure, "condition": condition, **effect}


def _contrast(
    kept: pl.DataFrame, column: str, weights: dict[str, int], *, level: float, is_tested: bool
) -> Row | None:
    """Return the weighted sum of the origins' means, with its interval over documents.

    A document's influence is the sum over its queries of weight * (score - mean) / n, with the
    origin's mean and n. None if an origin has no query.
    """
    groups = kept.group_by("origin").agg(pl.col(column).mean().alias("mean"), pl.len().alias("n"))
    known = {origin: (mean, n) for origin, mean, n in groups.iter_rows()}
    if not set(weights) <= set(known):
        return None
    value = sum(weight * known[origin][0] for origin, weight in weights.items())
    compared = kept.filter(pl.col("origin").is_in(list(weights)))
    parts = [
        weights[origin] * (score - known[origin][0]) / known[origin][1]
        for origin, score in compared.select("origin", column).iter_rows()
    ]
    influence = influence_of_documents(compared, parts)
    return effect_row(value, influence, level=level, is_tested=is_tested)
