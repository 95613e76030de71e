"""Choosing, among draws for the three thirds of a document, those of equal difficulty."""

from dataclasses import dataclass

import numpy as np

from psibench.recipes.known_item_draws import Draw

# What one unit of spread is for each matched quantity: idf summed over the terms (natural
# logarithm), occurrences of the terms, and the natural logarithm of the span's characters.
SCALES = np.array([1.0, 1.0, 0.25])


@dataclass(frozen=True)
class Match:
    """One draw per third, and how far apart they are (0: alike in all that is matched)."""

    draws: tuple[Draw, Draw, Draw]
    spread: float


def match_thirds(thirds: list[list[Draw]], n_matches: int) -> list[Match]:
    """Choose triples of draws, one per third, that are close to one another.

    The spread of a triple is the largest, over the matched quantities, of (largest - smallest) in
    units of `SCALES`. Considered are, for every draw, the triple it makes with the draw of each
    other third that is nearest to it. Triples are chosen greedily, using a draw once.

    Parameters
    ----------
    thirds
        The draws of each of the three thirds.
    n_matches
        Triples wanted.

    Returns
    -------
    list of Match
        At most ``n_matches``, fewer where the draws run out; none if a third has no draws.
    """
    matches: list[Match] = []
    features = [_features(draws) for draws in thirds]
    free = [list(range(len(draws))) for draws in thirds]
    while len(matches) < n_matches and all(free):
        left = [rows[numbers] for rows, numbers in zip(features, free, strict=True)]
        triple, spread = _closest_triple(left)
        numbers = [free[third].pop(triple[third]) for third in range(3)]
        first, second, last = (thirds[third][numbers[third]] for third in range(3))
        matches.append(Match((first, second, last), spread))
    return matches


def _features(draws: list[Draw]) -> np.ndarray:
    """Give the matched quantities in units of their scales, shape (n_draws, 3), float64."""
    rows = [(draw.idf_sum, draw.frequency, np.log(draw.end - draw.start)) for draw in draws]
    return np.array(rows, dtype=np.float64).reshape(-1, 3) / SCALES


def _closest_triple(features: list[np.ndarray]) -> tuple[tuple[int, int, int], float]:
    """Give the closest of the triples made by nearest neighbours, and its spread.

    The spread is the largest of the three pairwise distances in the maximum norm. Ties go to the
    earlier third as the anchor, then to the earlier draw.
    """
    best, best_spread = (0, 0, 0), np.inf
    for anchor in range(3):
        one, two = (third for third in range(3) if third != anchor)
        to_one = _distances(features[anchor], features[one])
        to_two = _distances(features[anchor], features[two])
        near_one, near_two = to_one.argmin(axis=1), to_two.argmin(axis=1)
        apart = np.abs(features[one][near_one] - features[two][near_two]).max(axis=1)
        spread = np.maximum(np.maximum(to_one.min(axis=1), to_two.min(axis=1)), apart)
        number = int(spread.argmin())
        if spread[number] < best_spread:
            members = {anchor: number, one: int(near_one[number]), two: int(near_two[number])}
            best, best_spread = (members[0], members[1], members[2]), float(spread[number])
    return best, float(best_spread)


def _distances(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Give all distances in the maximum norm, shape (n_left, n_right), float64."""
    distances: np.ndarray = np.abs(left[:, None] - right[None]).max(axis=-1)
    return distances
