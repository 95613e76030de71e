"""Sizes of tests and coverage of intervals whose units are sections of a few long documents.

    python studies/sections/simulate.py [--draws N] [--out FILE]

A world has a few documents with queries at random places. A query's score is 0 or 1; its chance has
a level of the document and a local part, a Gaussian process along the document whose correlation
falls to 1/e over `reach` of the document. Two systems have the same chance of success, and their
scores share the local part as far as `shared` says. Checked are the mean's interval (coverage of
the expected mean of these documents), the test of a difference of means, simultaneous tests of
eight settings, and the test of position over thirds.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.stats import norm

from psibench.metrics import comparison, sections
from psibench.metrics.comparison import mean_difference, step_down_p
from psibench.metrics.inference import between_documents
from psibench.metrics.psi import mean_interval
from psibench.metrics.query_scores import document_numbers

WORLDS: dict[str, dict[str, Any]] = {
    f"{n} documents, reach {reach:g}" + ", clumped" * clumped + ", unlike" * unlike: {
        "n_documents": n,
        "reach": reach,
        "clumped": clumped,
        "unlike": unlike,
    }
    for n, reach, clumped, unlike in [
        (3, 0.005, False, False),
        (5, 0, False, False),
        (5, 0.005, False, False),
        (5, 0.02, False, False),
        (5, 0.005, True, False),
        (5, 0.005, False, True),
        (12, 0.02, False, False),
        (25, 0.05, False, False),
    ]
}
LEVEL, N_QUERIES, N_SYSTEMS = 0.05, 400, 8
FLIPS = 999
"""Sign flips of a test of all pairs; `psibench` uses 9,999."""


def draw_world(
    rng: np.random.Generator, *, n_documents: int, reach: float, clumped: bool, unlike: bool
) -> tuple[pl.DataFrame, np.ndarray, float]:
    """Return queries in QUERY_SCORES columns, (n_systems, n_queries) scores, and the true mean."""
    document = np.sort(rng.integers(0, n_documents, N_QUERIES))
    place = rng.random(N_QUERIES)
    if clumped:  # several questions on one passage
        centres = rng.random((n_documents, 30))
        place = centres[document, rng.integers(0, 30, N_QUERIES)] + rng.normal(0, 0.002, N_QUERIES)
        place = np.clip(place, 0, 1 - 1e-9)
    level = rng.normal(0, 0.8, n_documents) if unlike else np.zeros(n_documents)
    local = np.zeros((N_SYSTEMS + 1, N_QUERIES))
    for one in range(n_documents):
        at = np.flatnonzero(document == one)
        if reach and len(at):
            distance = np.abs(place[at, None] - place[at])
            root = np.linalg.cholesky(np.exp(-distance / reach) + 1e-8 * np.eye(len(at)))
            local[:, at] = rng.normal(size=(N_SYSTEMS + 1, len(at))) @ root.T
    # A part of the local difficulty is common to all systems, a part is each system's.
    latent = 0.4 + level[document] + 0.7 * local[0] + 0.5 * local[1:]
    scores = (latent + rng.normal(size=latent.shape) > 0).astype(np.float64)
    spread = np.sqrt(1 + (0.7**2 + 0.5**2) * bool(reach))
    truth = float(norm.cdf((0.4 + level[document]) / spread).mean())
    middle = (place * 100_000).astype(int)
    frame = pl.DataFrame(
        {
            "query_id": [f"q{i}" for i in range(N_QUERIES)],
            "domain": "all",
            "document_id": [f"d{one}" for one in document],
            "cluster": pl.Series([None] * N_QUERIES, dtype=pl.String),
            "_id": [f"q{i}" for i in range(N_QUERIES)],
            "pos_char_span": [[int(m), int(m) + 1] for m in middle],
        }
    )
    return frame, scores, truth


def units_of(frame: pl.DataFrame, units: str) -> np.ndarray:
    """Return unit numbers: queries, or a number of sections."""
    if units == "queries":
        return np.arange(frame.height)
    before, sections.N_SECTIONS = sections.N_SECTIONS, int(units)
    try:
        return document_numbers(sections.with_sections(frame, frame))
    finally:
        sections.N_SECTIONS = before


def check(world: dict[str, Any], units: str, *, draws: int, seed: int) -> dict[str, float]:
    """Return shares of draws: misses of the mean's interval and rejections of each test."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(draws):
        frame, scores, truth = draw_world(rng, **world)
        number = units_of(frame, units)
        low, high = mean_interval(scores[0], number)
        difference = mean_difference(scores[0], scores[1], number, level=0.95)
        place = frame["pos_char_span"].list.first().to_numpy() / 100_000
        position = between_documents(
            scores[0],
            number,
            np.minimum((place * 3).astype(int), 2),
            np.unique(frame["document_id"].to_numpy(), return_inverse=True)[1].astype(float),
            place,
        )
        found.append(
            (
                not low <= truth <= high,
                difference is not None and difference.p <= LEVEL,
                step_down_p(scores, number).min() <= LEVEL,
                position.p is not None and position.p <= LEVEL,
            )
        )
    names = ("interval misses", "difference", "any of 28 pairs", "position")
    return dict(zip(names, np.mean(found, axis=0).tolist(), strict=True))


def main() -> None:
    """Run all worlds and print, or write, one table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--units", nargs="+", default=["queries", "40"])
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    comparison.SIGN_FLIPS = FLIPS
    rows = ["| world | units | interval misses | difference | any of 28 pairs | position |"]
    rows.append("|---|---|--:|--:|--:|--:|")
    for seed, (name, world) in enumerate(WORLDS.items()):
        for units in args.units:
            found = check(world, units, draws=args.draws, seed=seed)
            named = units if units == "queries" else f"{units} sections"
            rows.append(
                f"| {name} | {named} | " + " | ".join(f"{v:.3f}" for v in found.values()) + " |"
            )
            print(rows[-1], flush=True)
    if args.out:
        args.out.write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
