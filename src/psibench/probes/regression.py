"""Regression of a document's vector on its sentences' vectors (Needles, section 4).

Fits the unit vector of a document by ordinary least squares on the unit vectors of its sentences;
the dimensions are the observations. The coefficients divided by their L2 norm are the sentences'
importance. A sentence may weigh more because of its content. The control is the same document with
shuffled sentences: a slope that remains there comes from the model.
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
        Column("shuffled", BOOL, "whether the sentences are in random order"),
        Column("n_sentences", INT32, "sentences of the document"),
        Column("place", INT32, "position of the sentence, from 1; null: left out", True),
        Column("sentence", INT32, "position in the original document, from 1", True),
        Column("coefficient", FLOAT64, "coefficient of the sentence's vector", True),
        Column(
            "importance",
            FLOAT64,
            "coefficient divided by the L2 norm of the document's coefficients",
            True,
        ),
        Column("part_read", FLOAT64, "share of the sentence that the model read", True),
        Column("read", FLOAT64, "share of the document that the model read", True),
        Column("r2", FLOAT64, "explained share of the vector's variance over dimensions", True),
        Column("mae", FLOAT64, "mean absolute error of the fit over dimensions", True),
        Column("left_out", STRING, "reason why there is no regression; null: there is one", True),
    ),
    key=("benchmark", "language", "domain", "model", "document_id", "shuffled", "place"),
)
FIRST_PLACES = 10
"""Number of leading positions with a row in the summary."""


@dataclass(frozen=True)
class Decomposition:
    """Fit of a vector as a weighted sum of others, with (n_sentences,) float64 coefficients.

    ``r2`` is the explained share of the variance over dimensions, ``mae`` the mean absolute error.
    """

    coefficients: np.ndarray
    r2: float
    mae: float

    @property
    def importance(self) -> np.ndarray:
        """Coefficients divided by their L2 norm, (n_sentences,); NaN if all are 0."""
        norm = float(np.linalg.norm(self.coefficients))
        found: np.ndarray = self.coefficients / norm if norm > 0 else self.coefficients * np.nan
        return found


def decompose(document: np.ndarray, sentences: np.ndarray) -> Decomposition:
    """Fit a document's vector, (dim,), on its sentences' vectors, (n_sentences, dim).

    Least squares with a constant; needs fewer than dim - 1 sentences. If the vectors are linearly
    dependent (e.g. a repeated sentence), returns the coefficients of least norm: equal sentences
    share their weight equally.
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
    """Decompose the vectors of sampled documents, original and with shuffled sentences."""
    seed = job.section(Probes, "probes").seed
    return pl.concat(
        measure_regression(part.documents, encoder, seed=seed) for part in read_sample(job).parts()
    )


def measure_regression(
    documents: pl.DataFrame, encoder: ProbeEncoder, *, seed: int
) -> pl.DataFrame:
    """Return the columns of SENTENCE_WEIGHTS less `LABELS`.

    ``documents`` has domain, document_id, text. ``seed`` and the document's id decide its shuffled
    order. A document is left out if it has fewer than two sentences, too many for the vector's
    dimensions, or a sentence without a token.
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
    """Yield the rows of original documents, then the rows of shuffled documents."""
    for is_shuffled in (False, True):
        yield {}, rows.filter(shuffled=is_shuffled)


def regression_summary(kept: pl.DataFrame, *, level: float) -> Iterator[Row]:
    """Yield summary rows of one group of `by_order`.

    ``r2`` and ``mae`` are means over documents.
    ``importance`` at position k is the mean of importance times the root of the number of
    sentences, over documents with at least k sentences. It is 1 if all sentences weigh the same and
    below 1 on average otherwise, because the squares of a document's importances sum to 1.
    ``importance excess`` therefore subtracts the document's mean, for its first and its last
    sentence, and has a p.

    ``correlation`` is Pearson's correlation of importance with position. The mean of the
    correlations within documents (three sentences or more) measures an effect of position. The
    pooled correlation over all sentences is the paper's. It is below 0 even for a model that
    ignores position, because long documents have later positions and less importance for each.
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
    """Return Pearson's correlation of position and importance over all sentences.

    The influence of one of n sentences is (z_x z_y - r (z_x^2 + z_y^2) / 2) / n; a document's
    influence is the sum over its sentences.
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
