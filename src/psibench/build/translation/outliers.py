"""Translated documents of unusual length (PosIR, appendix B.5.3): bounds by quartiles."""

from dataclasses import dataclass

import numpy as np
import polars as pl

TOO_LONG, TOO_SHORT = "too_long", "too_short"


@dataclass(frozen=True)
class Bounds:
    """Lengths that are usual, tokens: those from ``low`` to ``high``, both included."""

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
        (n_documents,) token counts; of none, every length is usual.
    """
    if not len(lengths):
        return Bounds(-np.inf, np.inf)
    first, third = np.quantile(lengths, [0.25, 0.75])
    spread = third - first
    return Bounds(float(first - low * spread), float(third + high * spread))


def outliers(corpus: pl.DataFrame, bounds: Bounds) -> pl.DataFrame:
    """List the documents whose ``token_length`` lies outside the bounds.

    Returns
    -------
    frame of ``item_id, reason, detail, score`` in order of the corpus: the score is the length,
    the detail the bounds.
    """
    length = pl.col("token_length")
    is_long = length > bounds.high
    return corpus.filter(is_long | (length < bounds.low)).select(
        item_id="_id",
        reason=pl.when(is_long).then(pl.lit(TOO_LONG)).otherwise(pl.lit(TOO_SHORT)),
        detail=pl.lit(f"outside [{bounds.low:g}, {bounds.high:g}] tokens"),
        score=length.cast(pl.Float64),
    )
