"""Chi-square test that a filter keeps the same share of every position (K. Pearson, 1900)."""

import math
from dataclasses import dataclass

import numpy as np

from psibench.build.rules.frames import IntArray


@dataclass(frozen=True)
class ChiSquare:
    """Outcome of the test.

    Attributes
    ----------
    statistic
        Sum of (observed - expected)^2 / expected over kept and dropped items of every position.
    p_value
        Chance of as large a statistic where no position is favoured.
    min_expected
        Smallest expected count; below 5 the p-value is rough.
    """

    statistic: float
    p_value: float
    min_expected: float


def chi_square(kept: IntArray, dropped: IntArray) -> ChiSquare | None:
    """Test whether the share kept is the same at every position, without a correction.

    Parameters
    ----------
    kept, dropped
        Counts by position, int64 ``(3,)``; a position without items is left out.

    Returns
    -------
    None if nothing was kept, nothing dropped, or only one position has items.
    """
    observed = np.stack([kept, dropped]).astype(np.float64)
    observed = observed[:, observed.sum(axis=0) > 0]
    by_outcome, by_position = observed.sum(axis=1), observed.sum(axis=0)
    if len(by_position) < 2 or not by_outcome.all():
        return None
    expected = np.outer(by_outcome, by_position) / observed.sum()
    statistic = float(((observed - expected) ** 2 / expected).sum())
    # The tail of chi-square in closed form: with two degrees of freedom, and with one.
    p_value = (
        math.exp(-statistic / 2) if len(by_position) == 3 else math.erfc(math.sqrt(statistic / 2))
    )
    return ChiSquare(statistic, p_value, float(expected.min()))
