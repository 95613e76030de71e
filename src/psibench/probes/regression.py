"""Regression: a document's vector as a weighted sum of its sentences' (Needles, 4).

Ordinary least squares of the unit vector of a document on the unit vectors of its sentences; the
dimensions are the observations. The coefficients, divided by their L2 norm, are the sentences'
importance. A sentence may weigh much for what it says: the same sentences in another order are the
control, where what remains of a slope is the model's.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import numpy as np
import polars as pl

from psibench.probes.encoding import ProbeEncoder
from psibench.probes.settings import Probes, priority
from psibench.probes.tables import (
    ABOUT,
    Row,
    effect_row,
    influence_of_documents,
    mean_row,
    n_of_documents,
    read_sample,
    rows_frame,
)
from psibench.probes.variants import Permuted, permuted
from psibench.tables.job import Job
from psibench.tables.spec import BOOL, FLOAT64, INT32, STRING, Column, TableSpec
from psibench.text.sentences import sentence_spans

SENTENCE_WEIGHTS = TableSpec(
    "sentence_weights",
    (
        *ABOUT,
        Column("document_id", STRING, "document id, unique in its domain"),
        Column("shuffled", BOOL, "whether the sentences were put in a random order"),
        Column("n_sentences", INT32, "sentences of the document"),
        Column("place", INT32, "place of the sentence, from 1; null: left out", True),
        Column("sentence", INT32, "its number in the document as it is, from 1", True),
        Column("coefficient", FLOAT64, "of its vector in the regression", True),
        Column(
            "importance",
            FLOAT64,
            "coefficient over the L2 norm of the document's coefficients",
            True,
        ),
        Column("part_read", FLOAT64, "share of the sentence in the model's input", True),
        Column("read", FLOAT64, "share of the document in the model's input", True),
        Column(
            "r2", FLOAT64, "variance of the document's vector explained, of its row's fit", True
        ),
        Column("mae", FLOAT64, "mean absolute error over the dimensions, likewise", True),
        Column("left_out", STRING, "why there is no regression; null: there is", True),
    ),
    key=("benchmark", "language", "domain", "model", "document_id", "shuffled", "place"),
)
FIRST_PLACES = 10
"""Places from the first that have a row of the summary."""


@dataclass(frozen=True)
class Decomposition:
    """A vector as a weighted sum of others: (n_sentences,) float64 coefficients.

    ``r2`` and ``mae`` are the share of the variance over dimensions explained and the mean absolute
    error.
    """

    coefficients: np.ndarray
    r2: float
    mae: float

    @property
    def importance(self) -> np.ndarray:
        """(n_sentences,): coefficients over their L2 norm; NaN where all are 0."""
        norm = float(np.linalg.norm(self.coefficients))
        found: np.ndarray = self.coefficients / norm if norm > 0 else self.coefficients * np.nan
        return found


def decompose(document: np.ndarray, sentences: np.ndarray) -> Decomposition:
    """Fit a document's vector, (dim,), by its sentences', (n_sentences, dim), and a constant.

    By least squares; fewer sentences than dim - 1. Of sentences that are not independent (one of
    them twice, say) the coefficients of least norm: equal ones share their weight equally.
    """
    y = document.astype(np.float64) - document.mean(dtype=np.float64)
    x = sentences.astype(np.float64).T
    x = x - x.mean(axis=0)
    coefficients = np.linalg.lstsq(x, y, rcond=1e-8)[0]
    rest = y - x @ coefficients
    variance = float(y @ y)
    r2 = 1 - float(rest @ rest) / variance if variance > 0 else np.nan
    return Decomposition(coefficients, r2, float(np.abs(rest).mean()))


def probe_regression(job: Job, encoder: ProbeEncoder) -> pl.DataFrame:
    """Decompose the vectors of a sample of documents, as they are and with sentences shuffled."""
    seed = job.section(Probes, "probes").seed
    return pl.concat(
        measure_regression(part.documents, encoder, seed=seed) for part in read_sample(job).parts()
    )


def measure_regression(
    documents: pl.DataFrame, encoder: ProbeEncoder, *, seed: int
) -> pl.DataFrame:
    """Return SENTENCE_WEIGHTS less what is the same in all rows.

    ``documents`` has domain, document_id, text; ``seed`` is that of the orders, with the document's
    id. Left out are documents of fewer than two sentences, of as many as the vector has dimensions,
    and of sentences without a token.
    """
    rows: list[Row] = []
    given = list(documents.select("domain", "document_id", "text").iter_rows())
    spans = [sentence_spans(text) for _, _, text in given]
    sentences = [
        text[start:end]
        for (_, _, text), pieces in zip(given, spans, strict=True)
        for start, end in pieces
    ]
    ends = np.cumsum([0, *map(len, spans)])
    sentence_vectors = encoder.vectors(encoder.encode(sentences, "document"))
    for is_shuffled in (False, True):
        orders = [list(range(len(pieces))) for pieces in spans]
        if is_shuffled:
            for (domain, document_id, _), order in zip(given, orders, strict=True):
                Random(priority(seed, domain, document_id)).shuffle(order)
        texts = [
            permuted(text, pieces, order) if pieces else Permuted(text, ())
            for (_, _, text), pieces, order in zip(given, spans, orders, strict=True)
        ]
        seen = encoder.encode([one.text for one in texts], "document")
        vectors = encoder.vectors(seen)
        for number, (domain, document_id, _) in enumerate(given):
            about: Row = {
                "domain": domain,
                "document_id": document_id,
                "shuffled": is_shuffled,
                "n_sentences": len(spans[number]),
            }
            parts = sentence_vectors[ends[number] : ends[number + 1]]
            if (reason := _unfit(parts, vectors[number])) is not None:
                rows.append(about | {"left_out": reason})
                continue
            fitted = decompose(vectors[number], parts)
            limit = int(seen.visible_chars[number])
            about |= {"r2": fitted.r2, "mae": fitted.mae}
            about |= {"read": min(limit / len(texts[number].text), 1.0)}
            for place, sentence in enumerate(orders[number], 1):
                start, end = texts[number].moved[sentence]
                rows.append(
                    about
                    | {
                        "place": place,
                        "sentence": sentence + 1,
                        "coefficient": float(fitted.coefficients[sentence]),
                        "importance": float(fitted.importance[sentence]),
                        "part_read": min(max(limit - start, 0) / (end - start), 1.0),
                    }
                )
    return rows_frame(SENTENCE_WEIGHTS, rows)


def _unfit(sentences: np.ndarray, document: np.ndarray) -> str | None:
    if len(sentences) < 2:
        return "fewer than two sentences"
    if len(sentences) >= sentences.shape[1] - 1:
        return "as many sentences as the vector has dimensions"
    if not document.any() or not sentences.any(axis=1).all():
        return "a sentence without a token that the model reads"
    return None


# --- Summary ---


def by_order(rows: pl.DataFrame) -> Iterator[tuple[Row, pl.DataFrame]]:
    """Yield the rows of documents as they are, then those of shuffled ones."""
    for is_shuffled in (False, True):
        yield {}, rows.filter(shuffled=is_shuffled)


def regression_figures(kept: pl.DataFrame, *, level: float) -> Iterator[Row]:
    """Yield the figures of documents as they are, or of shuffled ones.

    ``r2`` and ``mae`` are means over documents.
    ``importance`` of place k is the mean, over documents that have k sentences, of importance times
    the root of their number: 1 where all sentences weigh alike, less on average where they do not,
    as the squares of a document's sum to 1. ``importance excess`` is therefore of the first and of
    the last sentence less the mean of the document's own, with its p.

    ``correlation`` is Pearson's, of importance with place. The mean of those within documents of
    three sentences or more is about places. The pooled one, over all sentences, is the paper's: it
    is below 0 for a model that knows no place, too, as long documents have later places and less
    importance for each.
    """
    order = "shuffled" if kept["shuffled"][0] else "as it is"
    for row in _weights(kept, level=level):
        yield row | {"condition": f"{row['condition']}, {order}".removeprefix(", ")}


def _weights(kept: pl.DataFrame, *, level: float) -> Iterator[Row]:
    by_document = ["domain", "document_id"]
    kept = kept.with_columns(
        relative=pl.col("importance") * pl.col("n_sentences").cast(pl.Float64).sqrt()
    )
    mean = pl.col("relative").mean().over(by_document)
    kept = kept.with_columns(excess=pl.col("relative") - mean)
    once = kept.filter(place=1)
    for measure in ("r2", "mae"):
        yield {
            "measure": measure,
            "condition": "",
            **mean_row(once[measure].to_numpy(), level=level),
        }
    for place in range(1, FIRST_PLACES + 1):
        at_place = kept.filter(place=place)
        if not at_place.is_empty():
            yield {
                "measure": "importance",
                "condition": f"sentence {place}",
                "place": place,
                **mean_row(at_place["relative"].to_numpy(), level=level),
                "read_share": at_place["part_read"].mean(),
            }
    last = kept.filter(pl.col("place") == pl.col("n_sentences"))
    for condition, sentences in (("first sentence", once), ("last sentence", last)):
        yield {
            "measure": "importance excess",
            "condition": condition,
            **mean_row(sentences["excess"].to_numpy(), level=level, against_zero=True),
            "read_share": sentences["part_read"].mean(),
        }
    within = (
        kept.filter(pl.col("n_sentences") >= 3)
        .group_by(by_document, maintain_order=True)
        .agg(pl.corr("place", "importance").alias("r"))
        .filter(pl.col("r").is_finite())
    )
    if not within.is_empty():
        yield {
            "measure": "correlation",
            "condition": "within documents",
            **mean_row(within["r"].to_numpy(), level=level, against_zero=True),
        }
    yield {"measure": "correlation", "condition": "pooled", **_pooled(kept, level=level)}


def _pooled(kept: pl.DataFrame, *, level: float) -> Row:
    """Pearson's correlation of place and importance over all sentences.

    Its influence of one sentence is z_x z_y - r (z_x^2 + z_y^2) / 2, over the number of all; a
    document's is their sum.
    """
    x, y = (kept[name].cast(pl.Float64).to_numpy() for name in ("place", "importance"))
    if np.std(x) == 0 or np.std(y) == 0:
        none = {"low": None, "high": None, "p": None}
        return {"value": 0.0, **none, "n_documents": n_of_documents(kept)}
    zx, zy = (x - x.mean()) / x.std(), (y - y.mean()) / y.std()
    r = float((zx * zy).mean())
    parts = (zx * zy - r * (zx**2 + zy**2) / 2) / len(x)
    influence = influence_of_documents(kept, parts)
    return effect_row(r, influence, level=level, is_tested=True)
