"""Documents and queries of a probe, and the table of all probes' results."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from psibench.metrics.constants import FEWEST_DOCUMENTS
from psibench.metrics.effects import clustered_effect
from psibench.metrics.inference import DocumentTable, within_documents
from psibench.probes.settings import OF_QUERIES, ProbeName, Probes, priority
from psibench.tables import write_csv
from psibench.tables.job import DomainJob, Job
from psibench.tables.schemas import CORPUS, QUERIES
from psibench.tables.spec import ALL, FLOAT64, INT32, STRING, Column, TableSpec
from psibench.tables.stage import stage

ABOUT = (
    Column("benchmark", STRING, "benchmark id, or the name of a corpus"),
    Column("language", STRING, "language of documents and queries"),
    Column("domain", STRING, "domain of the document"),
    Column("model", STRING, "model id"),
)
PROBE_TABLE = TableSpec(
    "probe_table",
    (
        *ABOUT[:2],
        Column("domain", STRING, "domain, or all"),
        ABOUT[3],
        Column(
            "probe",
            STRING,
            "insertion, removal, segments, moving, reversal, regression or saliency",
        ),
        Column(
            "read",
            STRING,
            "all: every document; whole: documents whose texts the model reads to the end",
        ),
        Column(
            "measure",
            STRING,
            "cosine, ndcg@10, importance, ...: mean over documents; profile: value minus the "
            "document's mean over positions; gap: first position minus last; range: highest mean "
            "minus lowest",
        ),
        Column("condition", STRING, "the change in words; for gap and range, the two positions"),
        Column(
            "size", FLOAT64, "share inserted or removed; null: no share, or mean over all", True
        ),
        Column("n_places", INT32, "number of positions or segments; null: none", True),
        Column("place", INT32, "position, segment or sentence, from 1; null: none", True),
        Column("value", FLOAT64, "value of the measure"),
        Column(
            "low", FLOAT64, "lower end of its interval over documents; null: one, or a range", True
        ),
        Column("high", FLOAT64, "upper end", True),
        Column(
            "p",
            FLOAT64,
            "gap, excess: test against 0; range: test against a flat profile, within documents "
            "(p_position); null for other measures and with fewer than 30 documents",
            True,
        ),
        Column(
            "relative",
            FLOAT64,
            "gap or range of a cosine, divided by the mean of 1 - cosine over all positions (how "
            "far the vector moves overall); null for other measures",
            True,
        ),
        Column("n_documents", INT32, "documents that the value covers"),
        Column("n_left_out", INT32, "documents that do not fit the probe or the model"),
        Column("read_share", FLOAT64, "mean share of the changed part that the model read", True),
    ),
    key=(
        *("benchmark", "language", "domain", "model", "probe", "read", "measure", "condition"),
        *("size", "n_places", "place"),
    ),
)

PART_DOCUMENTS = 500
"""Documents whose variants have their vectors in memory at the same time."""

Row = dict[str, Any]


LABELS = ("benchmark", "language", "model", "probe")
"""Columns with one value in all rows of a probe's tables."""


DOCUMENT = ("domain", "document_id")
"""Key of a document: ids are unique in a domain."""


def rows_frame(spec: TableSpec, rows: Sequence[Row]) -> pl.DataFrame:
    """Return a frame with the columns of ``spec`` less `LABELS`; keys that a row lacks are null."""
    return pl.from_dicts(rows, schema=spec.empty().drop(LABELS, strict=False).schema)


# --- Documents and queries ---


@dataclass(frozen=True)
class Texts:
    """Documents to probe and their queries.

    ``documents`` has domain, document_id, text; ``queries`` has domain, query_id, document_id, text
    and span ([start, end), or null).
    """

    documents: pl.DataFrame
    queries: pl.DataFrame

    def parts(self) -> "Iterator[Texts]":
        """Yield batches of `PART_DOCUMENTS` with their queries; one empty batch if none exist."""
        for start in range(0, max(self.documents.height, 1), PART_DOCUMENTS):
            documents = self.documents.slice(start, PART_DOCUMENTS)
            asked = self.queries.join(documents, on=DOCUMENT, how="semi", maintain_order="left")
            yield Texts(documents, asked)


def read_sample(job: Job) -> Texts:
    """Sample documents over all domains, with their queries if the probe needs queries.

    Reads only the texts of the sample. Documents, and queries whose evidence they hold, are drawn
    by a hash of seed, domain and id. A probe that needs queries skips documents without one.
    Saliency uses only queries with evidence in the middle of long documents.
    """
    probe, section = job.value("probe", ProbeName), job.section(Probes, "probes")
    documents = pl.concat(
        domain.columns("corpora", CORPUS, ["_id"]).select(
            domain=pl.lit(domain.name), document_id="_id"
        )
        for domain in job.domains()
    )
    asked = EMPTY_QUERIES
    if probe in OF_QUERIES:
        narrowed: dict[str, Any] = {}
        if probe == "saliency":
            narrowed = {"positions": (0.4, 0.6), "min_tokens": section.saliency_min_tokens}
        asked = pl.concat(
            first_by_hash(
                read_queries(domain, **narrowed),
                "query_id",
                seed=section.seed,
                n=section.queries_per_document,
                of=["document_id"],
            )
            for domain in job.domains()
        )
        documents = documents.join(asked, on=DOCUMENT, how="semi")
    drawn = first_by_hash(documents, "document_id", seed=section.seed, n=section.n_documents)
    texts = pl.concat(
        domain.columns("corpora", CORPUS, ["_id", "text"], ids=own["document_id"].to_list()).select(
            pl.lit(domain.name).alias("domain"), pl.col("_id").alias("document_id"), "text"
        )
        for domain in job.domains()
        for own in [drawn.filter(domain=domain.name)]
    )
    return Texts(texts, asked.join(texts, on=DOCUMENT, how="semi", maintain_order="left"))


EMPTY_QUERIES = pl.DataFrame(
    schema={
        **dict.fromkeys(("domain", "query_id", "document_id", "text"), pl.String),
        "span": pl.List(pl.Int64),
    }
)


def read_queries(
    domain: DomainJob, *, positions: Sequence[float] = (0, 1), min_tokens: int = 0
) -> pl.DataFrame:
    """Read a domain's queries: domain, query_id, document_id, text, span.

    Keeps queries with the middle of their evidence between ``positions`` (shares of the document's
    length) and a document of at least ``min_tokens``. The defaults keep all queries, even without a
    span.
    """
    columns = ("_id", "text", "pos_corpus_id", "pos_char_span", "pos_char_length")
    found = domain.columns("queries", QUERIES, [*columns, "pos_token_length"])
    span = pl.col("pos_char_span").cast(pl.List(pl.Int64))
    if min_tokens or tuple(positions) != (0, 1):
        middle = span.list.mean() / pl.col("pos_char_length")
        found = found.filter(
            middle.is_between(positions[0], positions[1])
            & (pl.col("pos_token_length") >= min_tokens)
        )
    return found.select(
        pl.lit(domain.name).alias("domain"),
        pl.col("_id").alias("query_id"),
        pl.col("pos_corpus_id").alias("document_id"),
        "text",
        span.alias("span"),
    )


def first_by_hash(
    rows: pl.DataFrame, key: str, *, seed: int, n: int | None, of: Sequence[str] = ()
) -> pl.DataFrame:
    """Draw ``n`` rows (for each value of ``of``, if given) by a hash of seed, domain and ``key``.

    A smaller draw is a subset of a larger one; None draws all.
    """
    ids = rows.select("domain", key).iter_rows()
    order = pl.Series("order", [priority(seed, *one) for one in ids], pl.UInt64)
    place = pl.int_range(pl.len())
    return (
        rows.with_columns(order)
        .sort(*of, "order", "domain", key)
        .filter((place.over(of) if of else place) < (n or pl.len()))
        .drop("order")
    )


# --- Means over documents ---


def mean_row(
    values: np.ndarray,
    *,
    level: float,
    against_zero: bool = False,
    documents: np.ndarray | None = None,
) -> Row:
    """Return the mean of values with Student's interval: value, low, high, p.

    ``values`` has one value per document, unless ``documents`` gives each value's document number,
    from 0.
    """
    mean = float(values.mean())
    parts = (values - mean) / len(values)
    if documents is not None:
        parts = np.bincount(documents, parts).astype(np.float64)
    return effect_row(mean, parts, level=level, is_tested=against_zero)


def effect_row(value: float, influence: np.ndarray, *, level: float, is_tested: bool) -> Row:
    """Return a value with its interval over documents: value, low, high, p, n_documents.

    ``influence`` is each document's contribution to the value's deviation, (n_documents,).
    """
    n = len(influence)
    effect = clustered_effect(value / n + influence, np.full(n, 1 / n), level=level)
    return {
        "value": value,
        "low": effect.low if n > 1 else None,
        "high": effect.high if n > 1 else None,
        "p": effect.p if is_tested and n >= FEWEST_DOCUMENTS else None,
        "n_documents": n,
    }


def influence_of_documents(rows: pl.DataFrame, parts: Any) -> np.ndarray:
    """Sum the influences of rows, (n_rows,), by document, (n_documents,)."""
    with_parts = rows.with_columns(pl.Series("part", parts))
    sums = with_parts.group_by("domain", "document_id", maintain_order=True).agg(
        pl.col("part").sum()
    )
    return sums["part"].to_numpy()


def profile_rows(
    matrix: np.ndarray,
    measure: str,
    conditions: Sequence[str],
    *,
    level: float,
    documents: np.ndarray | None = None,
) -> Iterator[Row]:
    """Yield for each position the mean and the mean after centring; then gap and range.

    ``matrix`` is (n_documents, n_places), without missing values. If a document has several rows,
    ``documents`` gives each row's document number. ``conditions`` name the positions. Centring
    subtracts a row's mean over positions.
    """
    n_places = len(conditions)
    of = np.arange(len(matrix)) if documents is None else documents
    moved = float((1 - matrix).mean())
    centred = matrix - matrix.mean(axis=1, keepdims=True)
    for name, values in ((measure, matrix), (f"{measure} profile", centred)):
        for place, condition in enumerate(conditions, 1):
            yield {
                "measure": name,
                "condition": condition,
                "place": place,
                **mean_row(values[:, place - 1], level=level, documents=of),
            }

    def relative(value: float) -> float | None:
        return value / moved if measure == "cosine" and moved > 0 else None

    gap = mean_row(matrix[:, 0] - matrix[:, -1], level=level, against_zero=True, documents=of)
    yield {
        "measure": f"{measure} gap",
        "condition": f"{conditions[0]} less {conditions[-1]}",
        **gap,
        "relative": relative(gap["value"]),
    }
    means = matrix.mean(axis=0)
    high, low = int(means.argmax()), int(means.argmin())
    sums = np.stack([np.bincount(of, column).astype(np.float64) for column in matrix.T], axis=1)
    counts = np.broadcast_to(np.bincount(of)[:, None], sums.shape).astype(float)
    table = DocumentTable(counts, sums, np.arange(n_places), float(matrix.var()), 1.0)
    # Sums below 0 cannot be counts of hits.
    test = within_documents(table, of_differences=bool(sums.min() < 0))
    spread = float(means[high] - means[low])
    yield {
        "measure": f"{measure} range",
        "condition": f"{conditions[high]} less {conditions[low]}",
        "value": spread,
        "relative": relative(spread),
        "n_documents": len(sums),
        "p": test.p,  # no interval, because the two positions were selected by their means
    }


def n_of_documents(rows: pl.DataFrame) -> int:
    """Count the distinct documents of rows."""
    return rows.select("domain", "document_id").unique().height


def by_domain(frame: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield all rows, then the rows of each domain if there are several domains."""
    yield ALL, frame
    parts = frame.partition_by("domain", as_dict=True, maintain_order=True)
    if len(parts) > 1:
        yield from ((str(domain), rows) for (domain,), rows in parts.items())


def by_reading(
    rows: pl.DataFrame, domain: str, *, whole_documents: bool
) -> Iterator[tuple[Row, pl.DataFrame]]:
    """Yield labels and rows of all documents that fit, then of the documents read whole.

    The labels are ``domain``, ``read`` and ``n_left_out``, the number of documents excluded. With
    ``whole_documents`` a document is excluded if one of its rows is; without, rows are excluded one
    by one. Groups without rows are skipped.
    """
    fits, is_whole = pl.col("left_out").is_null(), pl.col("read") >= 1
    for read, counts in (("all", fits), ("whole", fits & is_whole)):
        kept = rows.filter(counts.all().over(DOCUMENT) if whole_documents else counts)
        if not kept.is_empty():
            n_left_out = n_of_documents(rows) - n_of_documents(kept)
            yield {"domain": domain, "read": read, "n_left_out": n_left_out}, kept


@stage("probe_table", version=3)
def run_probe_table(job: Job) -> None:
    """Stack the PROBE_TABLE tables of all probes, models and languages."""
    found = job.read("tables", PROBE_TABLE)
    job.write("parquet", found, PROBE_TABLE)
    write_csv(found, str(job.outputs["csv"]))
