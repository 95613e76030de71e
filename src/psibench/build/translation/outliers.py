"""Translated documents of unusual length (PosIR, appendix B.5.3): bounds by quartiles.

PosIR compares lengths. A length in proportion to the source document's is compared here, too: what
is cut short or said twice shows in it, however much the documents differ among themselves.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

TOO_LONG, TOO_SHORT = "too_long", "too_short"

Measure = Literal["length", "ratio"]
"""length: tokens of a translation. ratio: these over the tokens of its source document."""
UNITS: dict[Measure, str] = {"length": "tokens", "ratio": "of the source's tokens"}


@dataclass(frozen=True)
class Bounds:
    """What is usual, in tokens or as a ratio: from ``low`` to ``high``, both included."""

    low: float
    high: float


def length_bounds(lengths: np.ndarray, *, low: float, high: float) -> Bounds:
    """Compute [Q1 - low * IQR, Q3 + high * IQR] of one language and domain.

    Quartiles interpolate linearly between the two nearest lengths; IQR = Q3 - Q1. Where half of
    the documents have one length, IQR is 0 and every other length is unusual. Repetitions and
    documents run together are long, so the bound above is the stricter one; PosIR's own factors
    are lost in the paper's text.

    Parameters
    ----------
    lengths
        (n_documents,) token counts, or ratios; of none, every one is usual.
    """
    if not len(lengths):
        return Bounds(-np.inf, np.inf)
    first, third = np.quantile(lengths, [0.25, 0.75])
    spread = third - first
    return Bounds(float(first - low * spread), float(third + high * spread))


def measured(corpus: pl.DataFrame, source: pl.DataFrame, *, of: Measure) -> pl.DataFrame:
    """Give what bounds are set on: ``_id, value`` of every document, in order.

    Parameters
    ----------
    corpus, source
        ``_id, token_length`` of the translations, and of the documents they were made from: one for
        each. A source document without tokens counts as one token.
    """
    value = pl.col("token_length").cast(pl.Float64)
    if of == "length":
        return corpus.select("_id", value=value)
    sizes = source.select("_id", source_length=pl.col("token_length").clip(lower_bound=1))
    joined = corpus.join(sizes, on="_id", how="left", maintain_order="left")
    return joined.select("_id", value=value / pl.col("source_length"))


def outliers(found: pl.DataFrame, bounds: Bounds, *, of: Measure = "length") -> pl.DataFrame:
    """List the documents whose ``value`` (see `measured`) lies outside the bounds.

    Returns
    -------
    frame of ``item_id, reason, detail, score`` in the documents' order: the score is the value,
    the detail the bounds.
    """
    value = pl.col("value")
    is_long = value > bounds.high
    return found.filter(is_long | (value < bounds.low)).select(
        item_id="_id",
        reason=pl.when(is_long).then(pl.lit(TOO_LONG)).otherwise(pl.lit(TOO_SHORT)),
        detail=pl.lit(f"outside [{bounds.low:g}, {bounds.high:g}] {UNITS[of]}"),
        score=value,
    )
