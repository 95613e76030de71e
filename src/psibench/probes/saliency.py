"""Saliency: which tokens a query's cosine hangs on (PosIR, section 4.3).

The gradient of cosine(query, document) by the document's input embeddings, its L2 norm per token,
special tokens and the prompt left out. A document's norms are divided by their 99th percentile and
cut at 1 (the paper says their maximum, its code has the percentile), then interpolated to 100
points. Evidence is in the middle of the documents taken: a curve that is high at the front shows a
model that looks there whatever is asked.

A gradient says where a small change would move the cosine, not what the cosine is made of.
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
            "n_tokens", INT32, "tokens of the document that the model read, without special", True
        ),
        Column("read", FLOAT64, "share of the document that the model read", True),
        Column("relative_position", FLOAT64, "middle of the evidence over the length", True),
        Column("point", INT32, "from 1, evenly spaced over what was read; null: left out", True),
        Column(
            "saliency",
            FLOAT64,
            "norm of the gradient over its 99th percentile, at most 1",
            True,
        ),
        Column("left_out", STRING, "why there is none; null: there is", True),
    ),
    key=("benchmark", "language", "domain", "model", "document_id", "query_id", "point"),
)
N_POINTS = 100
N_TENTHS = 10


def normalised(norms: np.ndarray) -> np.ndarray:
    """Divide norms by their 99th percentile, cut at 1 and interpolate linearly to 100 points.

    ``norms`` are (n_tokens,), at least two, not all 0. Of a percentile of 0 the maximum.
    """
    top = float(np.percentile(norms, 99)) or float(norms.max())
    scaled = np.clip(norms.astype(np.float64) / top, 0.0, 1.0)
    at = np.linspace(0, 1, N_POINTS)
    found: np.ndarray = np.interp(at, np.linspace(0, 1, len(scaled)), scaled)
    return found


def probe_saliency(job: Job, encoder: ProbeEncoder) -> pl.DataFrame:
    """Take queries of the documents whose evidence is in the middle, and their gradients."""
    return measure_saliency(read_sample(job), encoder)


def measure_saliency(texts: Texts, encoder: ProbeEncoder) -> pl.DataFrame:
    """Return SALIENCY rows less what is the same in all.

    Left out are documents of fewer than two tokens, and gradients of 0.
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


def saliency_figures(kept: pl.DataFrame, *, level: float) -> Iterator[Row]:
    """Yield mean and ``saliency sd`` of 100 points, and the profile of tenths.

    Means and standard deviations are over pairs of a query and a document, as PosIR's figure 5 has
    them; intervals and tests have documents as units.
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
