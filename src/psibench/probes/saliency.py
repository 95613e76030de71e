"""Stage ``probe_saliency``: which tokens a query's cosine hangs on (PosIR, section 4.3).

The gradient of cosine(query, document) by the document's input embeddings, its L2 norm per token,
special tokens and the prompt left out. A document's norms are divided by their 99th percentile and
cut at 1 (the paper says their maximum, its code has the percentile), then interpolated to 100
points. Evidence is in the middle of the documents taken: a curve that is high at the front shows a
model that looks there whatever is asked.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from psibench.config.models import SentenceTransformerModel
from psibench.config.sections import Encoding
from psibench.probes.encoding import ProbeEncoder
from psibench.probes.settings import ProbeName, Probes
from psibench.probes.tables import (
    ABOUT,
    Inputs,
    Row,
    Texts,
    by_domain,
    log_left_out,
    mean_row,
    n_of_documents,
    profile_rows,
    read_sample,
    write_probe,
)
from psibench.tables.spec import FLOAT64, INT32, STRING, Column, TableSpec
from psibench.tables.stage import stage

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
            "saliency", FLOAT64, "norm of the gradient over its 99th percentile, at most 1", True
        ),
        Column("left_out", STRING, "why there is none; null: there is", True),
    ),
    key=("benchmark", "language", "domain", "model", "document_id", "query_id", "point"),
)
N_POINTS = 100
N_TENTHS = 10


def normalised(norms: np.ndarray) -> np.ndarray:
    """Divide norms by their 99th percentile, cut at 1 and interpolate linearly to 100 points.

    Parameters
    ----------
    norms
        (n_tokens,), at least two, not all 0.
    """
    top = float(np.percentile(norms, 99)) or float(norms.max())
    scaled = np.clip(norms.astype(np.float64) / top, 0.0, 1.0)
    at = np.linspace(0, 1, N_POINTS)
    found: np.ndarray = np.interp(at, np.linspace(0, 1, len(scaled)), scaled)
    return found


@stage("probe_saliency", version=1, offline=True)
def run_probe_saliency(
    entry: SentenceTransformerModel,
    *,
    probe: ProbeName,
    model: str,
    benchmark: str,
    language: str,
    domains: Sequence[str],
    corpora: Sequence[str | Path],
    queries: Sequence[str | Path],
    probes: Probes,
    level: float,
    store: str | Path,
    settings: Encoding,
    rows: str | Path,
    table: str | Path,
) -> None:
    """Take a query of each document whose evidence is in the middle, and its gradients.

    Raises
    ------
    InputError
        If the model cannot be probed or loaded, or a table does not fit its schema.
    """
    texts = read_sample(
        domains,
        corpora,
        queries,
        n_documents=probes.n_documents,
        seed=probes.seed,
        with_queries=True,
        positions=probes.saliency_positions,
        min_tokens=probes.saliency_min_tokens,
    )
    encoder = ProbeEncoder(entry, model=model, store=store, settings=settings)
    found = measure_saliency(texts, encoder)
    log_left_out(found["left_out"])
    labels = {"benchmark": benchmark, "language": language, "model": model}
    named = found.with_columns(pl.lit(value).alias(name) for name, value in labels.items())
    write_probe(
        named.select(SALIENCY.column_names),
        SALIENCY,
        summarise_saliency(found, level=level),
        labels=labels | {"probe": probe},
        about=Inputs("probe_saliency", entry, model, [*corpora, *queries], encoder.dtype),
        params=probes.of(probe) | {"probe": probe, "level": level},
        rows=rows,
        table=table,
    )


def measure_saliency(texts: Texts, encoder: ProbeEncoder) -> pl.DataFrame:
    """Return SALIENCY rows less what is the same in all.

    Left out are documents of fewer than two tokens and gradients of 0.
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
    for row, (norms, visible) in zip(
        given.select(columns).iter_rows(named=True),
        encoder.gradient_norms(documents, asked),
        strict=True,
    ):
        span, text = row.pop("span"), row.pop("document")
        about = row | {
            "n_tokens": len(norms),
            "read": min(visible / max(len(text), 1), 1.0),
            "relative_position": sum(span) / 2 / len(text),
        }
        if len(norms) < 2 or not norms.any():
            rows.append(about | {"left_out": "no gradient"})
            continue
        rows += [
            about | {"point": point, "saliency": float(value)}
            for point, value in enumerate(normalised(norms), 1)
        ]
    empty = SALIENCY.empty().drop("benchmark", "language", "model")
    filled = [[one.get(name) for name in empty.columns] for one in rows]
    return pl.DataFrame(filled, schema=empty.schema, orient="row")


def summarise_saliency(rows: pl.DataFrame, *, level: float) -> list[Row]:
    """Return the rows of PROBE_TABLE: mean and ``saliency sd`` of 100 points, profile of tenths."""
    found: list[Row] = []
    for domain, own in by_domain(rows):
        for read in ("all", "whole"):
            kept = own.filter(pl.col("left_out").is_null())
            if read == "whole":
                kept = kept.filter(pl.col("read") >= 1)
            if kept.is_empty():
                continue
            about = {
                "domain": domain,
                "read": read,
                "probe": "saliency",
                "n_left_out": n_of_documents(own) - n_of_documents(kept),
            }
            matrix = (
                kept.sort("domain", "document_id", "query_id", "point")["saliency"]
                .to_numpy()
                .reshape(-1, N_POINTS)
            )
            tenths = matrix.reshape(len(matrix), N_TENTHS, -1).mean(axis=2)
            names = [f"{place} of {N_TENTHS}" for place in range(1, N_TENTHS + 1)]
            for row in profile_rows(tenths, "saliency", names, level=level):
                found.append(about | {"n_places": N_TENTHS} | row)
            for point in range(N_POINTS):
                place = {"n_places": N_POINTS, "place": point + 1}
                condition = {"condition": f"{point + 1} of {N_POINTS}"}
                value = mean_row(matrix[:, point], level=level)
                found.append(about | place | condition | {"measure": "saliency"} | value)
                spread = {"value": float(matrix[:, point].std()), "n_documents": len(matrix)}
                found.append(about | place | condition | {"measure": "saliency sd"} | spread)
    return found
