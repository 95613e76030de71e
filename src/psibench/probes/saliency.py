"""Saliency: tokens to which a query's cosine is sensitive (PosIR, section 4.3).

Computes the gradient of cosine(query, document) by the document's input embeddings and its L2 norm
per token, without special tokens and prompt. A document's norms are divided by their 99th
percentile and cut at 1 (PosIR's code; the paper names the maximum), then interpolated to 100
points. All sampled documents have their evidence in the middle, so a curve that is high at the
front shows that the model weighs the front for any query.

A gradient shows where a small change would move the cosine, not which tokens make up the cosine.
"""

from collections.abc import Iterator

import numpy as np
import polars as pl

from psibench.probes.encoding import ProbeEncoder
from psibench.probes.tables import (
    ABOUT,
    DOCUMENT,
    Row,
    Texts,
    mean_row,
    profile_rows,
    read_sample,
    rows_frame,
)
from psibench.tables.job import Job
from psibench.tables.spec import FLOAT64, INT32, STRING, Column, TableSpec

SALIENCY = TableSpec(
    "saliency",
    (
        *ABOUT,
        Column("document_id", STRING, "document id, unique in its domain"),
        Column("query_id", STRING, "query id"),
        Column(
            "n_tokens", INT32, "document tokens that the model read, without special tokens", True
        ),
        Column("read", FLOAT64, "share of the document that the model read", True),
        Column("relative_position", FLOAT64, "middle of the evidence / document length", True),
        Column(
            "point", INT32, "point from 1, evenly spaced in the text read; null: left out", True
        ),
        Column(
            "saliency",
            FLOAT64,
            "norm of the gradient divided by its 99th percentile, at most 1",
            True,
        ),
        Column("left_out", STRING, "reason why there is no saliency; null: there is one", True),
    ),
    key=("benchmark", "language", "domain", "model", "document_id", "query_id", "point"),
)
N_POINTS = 100
N_TENTHS = 10


def normalised(norms: np.ndarray) -> np.ndarray:
    """Divide norms by their 99th percentile, cut at 1 and interpolate linearly to 100 points.

    ``norms`` are (n_tokens,), at least two, not all 0. If the percentile is 0, divides by the
    maximum.
    """
    top = float(np.percentile(norms, 99)) or float(norms.max())
    scaled = np.clip(norms.astype(np.float64) / top, 0.0, 1.0)
    at = np.linspace(0, 1, N_POINTS)
    found: np.ndarray = np.interp(at, np.linspace(0, 1, len(scaled)), scaled)
    return found


def probe_saliency(job: Job, encoder: ProbeEncoder) -> pl.DataFrame:
    """Compute the saliency of sampled documents with evidence in the middle."""
    return measure_saliency(read_sample(job), encoder)


def measure_saliency(texts: Texts, encoder: ProbeEncoder) -> pl.DataFrame:
    """Return the columns of SALIENCY less `LABELS`.

    A pair is left out if its document has fewer than two tokens or its gradient is 0.
    """
    given = texts.queries.join(
        texts.documents.rename({"text": "document"}),
        on=["domain", "document_id"],
        maintain_order="left",
    )
    asked = encoder.vectors(encoder.encode(given["text"].to_list(), "query"))
    documents = given["document"].to_list()
    rows: list[Row] = []
    columns = ("domain", "document_id", "query_id", "span", "document")
    for row, found in zip(
        given.select(columns).iter_rows(named=True),
        encoder.token_norms(documents, asked),
        strict=True,
    ):
        norms = found.norms
        span, text = row.pop("span"), row.pop("document")
        about = row | {
            "n_tokens": len(norms),
            "read": min(found.visible_chars / max(len(text), 1), 1.0),
            "relative_position": sum(span) / 2 / len(text),
        }
        if len(norms) < 2 or not norms.any():
            reason = "no gradient" if len(norms) > 1 else "fewer than two tokens"
            rows.append(about | {"left_out": reason})
            continue
        rows += [
            about | {"point": point, "saliency": float(value)}
            for point, value in enumerate(normalised(norms), 1)
        ]
    return rows_frame(SALIENCY, rows)


def saliency_summary(kept: pl.DataFrame, *, level: float) -> Iterator[Row]:
    """Yield the profile of tenths, and the mean and ``saliency sd`` of 100 points.

    Means and standard deviations are over pairs of query and document (PosIR, figure 5); intervals
    and tests use documents as units.
    """
    names = [f"{place} of {N_TENTHS}" for place in range(1, N_TENTHS + 1)]
    ordered = kept.sort(*DOCUMENT, "query_id", "point")
    matrix = ordered["saliency"].to_numpy().reshape(-1, N_POINTS)
    tenths = matrix.reshape(len(matrix), N_TENTHS, -1).mean(axis=2)
    pairs = ordered.filter(point=1).group_by(DOCUMENT, maintain_order=True)
    sizes = pairs.len()["len"].to_numpy()
    of = np.repeat(np.arange(len(sizes)), sizes)
    for row in profile_rows(tenths, "saliency", names, level=level, documents=of):
        yield row | {"n_places": N_TENTHS}
    for point, values in enumerate(matrix.T, 1):
        place = {"n_places": N_POINTS, "place": point, "condition": f"{point} of {N_POINTS}"}
        mean = mean_row(values, level=level, documents=of)
        spread = {"value": float(values.std()), "n_documents": mean["n_documents"]}
        yield place | {"measure": "saliency"} | mean
        yield place | {"measure": "saliency sd"} | spread
