"""What a probe is and reads: its documents and queries, and the table of all probes' figures."""

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
            "all documents; whole: those of which the model reads every text to its end",
        ),
        Column(
            "measure",
            STRING,
            "what value is: cosine, ndcg@10, importance, ... its mean over documents; profile: "
            "less the document's mean over places; gap: of the first place less the last; range: "
            "the highest mean less the lowest",
        ),
        Column("condition", STRING, "what was done, in words; of a range which places"),
        Column(
            "size", FLOAT64, "share put in or taken away; null: none, or the mean over all", True
        ),
        Column("n_places", INT32, "places or segments; null: none", True),
        Column("place", INT32, "place or segment or sentence, from 1; null: none", True),
        Column("value", FLOAT64, "the figure"),
        Column("low", FLOAT64, "its interval over documents; null: one document, or a range", True),
        Column("high", FLOAT64, "likewise", True),
        Column(
            "p",
            FLOAT64,
            "gap, excess: against 0; range: against a flat profile, within documents (p_position); "
            "null elsewhere and with fewer than 30 documents",
            True,
        ),
        Column(
            "relative",
            FLOAT64,
            "gap and range of a cosine, over the mean of 1 - cosine over all places: how far the "
            "vector moves at all; null elsewhere",
            True,
        ),
        Column("n_documents", INT32, "documents that value is of"),
        Column("n_left_out", INT32, "documents that do not fit the probe or the model"),
        Column("read_share", FLOAT64, "mean share of the altered part that the model read", True),
    ),
    key=(
        *("benchmark", "language", "domain", "model", "probe", "read", "measure", "condition"),
        *("size", "n_places", "place"),
    ),
)

PART_DOCUMENTS = 500
"""Documents whose variants' vectors are in memory at once."""

Row = dict[str, Any]


LABELS = ("benchmark", "language", "model", "probe")
"""Columns that are the same in all rows of a probe's tables."""


DOCUMENT = ("domain", "document_id")
"""Columns that say which document a row is of: ids are unique in a domain."""


def rows_frame(spec: TableSpec, rows: Sequence[Row]) -> pl.DataFrame:
    """Make a frame of rows without their labels; what a row lacks is null."""
    return pl.from_dicts(rows, schema=spec.empty().drop(LABELS, strict=False).schema)


# --- Documents and queries ---


@dataclass(frozen=True)
class Texts:
    """What a probe is about.

    ``documents`` has domain, document_id, text; ``queries`` domain, query_id, document_id, text and
    span (list of two, or null).
    """

    documents: pl.DataFrame
    queries: pl.DataFrame

    def parts(self) -> "Iterator[Texts]":
        """Yield ``PART_DOCUMENTS`` after the others with their queries; none once if none are."""
        for start in range(0, max(self.documents.height, 1), PART_DOCUMENTS):
            documents = self.documents.slice(start, PART_DOCUMENTS)
            asked = self.queries.join(documents, on=DOCUMENT, how="semi", maintain_order="left")
            yield Texts(documents, asked)


def read_sample(job: Job) -> Texts:
    """Read the documents of a sample over all domains, with queries of each where the probe asks.

    Only the sample's texts are read. A document is drawn by a hash of seed, domain and id, its
    queries, of those whose evidence it holds, likewise; a document without one is left out where
    the probe asks queries. Saliency takes queries of evidence in the middle of long documents.
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

    Only those of evidence whose middle is between ``positions``, shares of the length, in documents
    of ``min_tokens``; the defaults take all, also without a span.
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
    """Take ``n`` rows, or so many of each value of ``of``, by a hash of seed, domain and ``key``.

    A smaller draw is part of a larger one; None: all.
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


# --- Figures over documents ---


def mean_row(
    values: np.ndarray,
    *,
    level: float,
    against_zero: bool = False,
    documents: np.ndarray | None = None,
) -> Row:
    """Return the mean of values with Student's interval: value, low, high, p.

    One value of each document; or ``documents`` says, from 0, which one each is of.
    """
    mean = float(values.mean())
    parts = (values - mean) / len(values)
    if documents is not None:
        parts = np.bincount(documents, parts).astype(np.float64)
    return effect_row(mean, parts, level=level, is_tested=against_zero)


def effect_row(value: float, influence: np.ndarray, *, level: float, is_tested: bool) -> Row:
    """Return a figure with its interval over documents: value, low, high, p, n_documents.

    ``influence`` is what each document adds to the figure's deviation, (n_documents,).
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
    """Sum what each row adds to a figure, (n_rows,), by document: (n_documents,)."""
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
    """Yield the rows of a profile: by place the mean, and less the document's own; gap and range.

    ``matrix`` is (n_documents, n_places), every document has every place; or ``documents`` says
    which one a row is of, as in `mean_row`. ``conditions`` say what was done at each place.
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
    # Cosines that may be negative are not hits and misses.
    test = within_documents(table, of_differences=bool(sums.min() < 0))
    spread = float(means[high] - means[low])
    yield {
        "measure": f"{measure} range",
        "condition": f"{conditions[high]} less {conditions[low]}",
        "value": spread,
        "relative": relative(spread),
        "n_documents": len(sums),
        "p": test.p,  # no interval: the two were picked by their means
    }


def n_of_documents(rows: pl.DataFrame) -> int:
    """Count the distinct documents of rows; ids are unique in a domain."""
    return rows.select("domain", "document_id").unique().height


def by_domain(frame: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield all rows, then those of each domain where there are several."""
    yield ALL, frame
    parts = frame.partition_by("domain", as_dict=True, maintain_order=True)
    if len(parts) > 1:
        yield from ((str(domain), rows) for (domain,), rows in parts.items())


def by_reading(
    rows: pl.DataFrame, domain: str, *, whole_documents: bool
) -> Iterator[tuple[Row, pl.DataFrame]]:
    """Yield the rows that count: of all documents, then of those read whole; none where none are.

    Before each ``domain``, ``read`` and ``n_left_out``, the documents that do not count. A row
    counts by itself, or, with ``whole_documents``, if all of its document do.
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
