"""Compare rules for "more than the control" if difficulty affects the control less.

    python studies/inference/control.py [--out DIR] [--cells REGEX] [--replicates N] [--seed S]

Draws hits on the probit scale. A question has a difficulty that may depend on the position of its
evidence. It affects the model with loading 1, the position-blind control with a loading of .4 to 1.
A rule holds its size if it claims an effect of the model in at most .07 of the sets without such an
effect. Writes DIR/control.csv and DIR/control.md.
"""

from __future__ import annotations

import argparse
import csv
import re
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from checks import share
from scipy.special import ndtr, ndtri
from scipy.stats import f
from worlds import Queries, World, draw_queries

from psibench.metrics.comparison import compare_profiles
from psibench.metrics.inference import (
    BucketTest,
    DocumentTable,
    FloatArray,
    IntArray,
    document_table,
    same_document_profile,
    slope_and_bend,
    within_documents,
)

REPLICATES = 200
MOST_SIZE = 0.07
LEAST_LOADING = 0.4
STRETCHES = tuple(np.linspace(1.0, 1 / LEAST_LOADING, 5))
DOCUMENT_SD, QUESTION_SD = 0.6, 0.8


LOADINGS = tuple(k / 20 for k in range(20, 1, -1))
"""Loadings that `least_loading` tries, from 1 to .1."""


def least_loading(
    first: FloatArray,
    control: FloatArray,
    documents: IntArray,
    query_index: IntArray,
    bucket_index: IntArray,
    *,
    alpha: float = 0.05,
    units: IntArray | None = None,
) -> float | None:
    """Return the least loading of the control at which p stays <= alpha.

    `compare_profiles` assumes that the difficulty of the questions affects the control as much as
    the first system. If it affects the control less, by a factor (its loading), the first system's
    profile may be the control's, stretched by 1 / loading. Both scales are tested within documents
    with the control's profile stretched so. The result is the last of `LOADINGS`, from 1 down, at
    which both reject, in the direction that they have at 1. As a rule, "the result is at most L"
    has the size alpha for loadings from L to 1 (`studies/inference/control.py`).

    Parameters
    ----------
    first, control, documents, query_index, bucket_index, units
        As in `compare_profiles`.
    alpha : float
        Level of each test.

    Returns
    -------
    float or None
        None if there is no significant difference at a loading of 1, or no test.
    """
    if not len(query_index):
        return None
    a, b = first[query_index].mean(), control[query_index].mean()
    if not 0 < min(a, b) <= max(a, b) < 1:
        return None
    n_buckets = int(bucket_index.max(initial=-1)) + 1
    one, other = (
        document_table(
            scores, documents, query_index, bucket_index, n_buckets=n_buckets, units=units
        )
        for scores in (first, control)
    )

    def tests(loading: float) -> list[BucketTest]:
        sums = (
            one.sums / of_one - other.sums / (loading * of_other)
            for of_one, of_other in ((a, b), (1 - a, 1 - b))  # hits, and misses with signs reversed
        )
        return [within_documents(replace(one, sums=s), of_differences=True) for s in sums]

    at_one = tests(1.0)
    if float(at_one[0].statistic @ at_one[1].statistic) <= 0:
        return None

    def is_shown(loading: float) -> bool:
        return all(
            test.p is not None
            and test.p <= alpha
            and float(test.statistic @ unstretched.statistic) > 0
            for test, unstretched in zip(tests(loading), at_one, strict=True)
        )

    if not is_shown(LOADINGS[0]):
        return None
    n_shown = bisect_left(LOADINGS, True, lo=1, key=lambda loading: not is_shown(loading))
    return LOADINGS[n_shown - 1]


@dataclass(frozen=True)
class Difficulty:
    """Questions' difficulty, and how it affects the systems.

    Attributes
    ----------
    loading, second : float
        Loadings of the control and of a second control.
    trend : float
        Difficulty of a question about the last position minus the difficulty of one about the
        first. Documents and questions add difficulty with standard deviations `DOCUMENT_SD` and
        `QUESTION_SD`.
    extra : float
        The model's fall from the first position to the last, on the scale of scores.
    apart : bool
        The loading applies to the trend only; the rest of the difficulty affects both controls as
        much as the model.
    kin : str
        The third system errs on the same questions as the "model" or the "control"; "" neither.
    """

    loading: float = 1.0
    second: float = 0.8
    trend: float = 0.6
    extra: float = 0.0
    layout: str = "fineweb"
    n_queries: int = 1200
    means: tuple[float, float] = (0.8, 0.6)
    apart: bool = False
    kin: str = ""


@dataclass(frozen=True)
class Scores:
    """Hits (0 or 1) of the four systems, (n_queries,) each."""

    queries: Queries
    n_buckets: int
    model: FloatArray
    control: FloatArray
    second: FloatArray
    third: FloatArray


def draw(world: Difficulty, rng: np.random.Generator) -> Scores:
    """Draw a query set and the systems' hits."""
    design = World(world.layout, world.n_queries)
    q = draw_queries(design, rng)
    n, n_documents = len(q.documents), int(q.documents.max()) + 1
    along = q.buckets / (design.n_buckets - 1)
    centred = along - along.mean()
    rest = DOCUMENT_SD * rng.standard_normal(n_documents)[q.documents]
    rest = rest + QUESTION_SD * rng.standard_normal(n)
    kinship = {name: rng.standard_normal(n) for name in ("model", "control")}
    variance = DOCUMENT_SD**2 + QUESTION_SD**2

    def hits(mean: float, loading: float, own: str = "") -> FloatArray:
        of_rest = 1.0 if world.apart else loading
        noise = rng.standard_normal(n)
        if own and world.kin == own:
            noise = 0.6 * noise + 0.8 * kinship[own]
        scale = np.sqrt(1 + of_rest**2 * variance)
        latent = ndtri(mean) * scale - loading * world.trend * centred - of_rest * rest + noise
        if own == "model" and world.extra:  # the share `extra` fewer hits at the last position
            found = ndtr(ndtri(mean) - loading * world.trend * centred / scale)
            lost = 1 - world.extra * along / found
            return ((latent > 0) & (rng.random(n) < lost)).astype(np.float64)
        return (latent > 0).astype(np.float64)

    model = hits(world.means[0], 1.0, "model")
    control = hits(world.means[1], world.loading, "control")
    second = hits(0.7, world.second)
    third = hits(0.75, 0.8, world.kin)
    return Scores(q, design.n_buckets, model, control, second, third)


# --- The rules: p of the null hypothesis that only the questions cause the effect --------------

Rule = Callable[[Scores], float]


def _test(scores: FloatArray, of: Scores, documents: IntArray | None = None) -> BucketTest:
    q, index = of.queries, np.arange(len(scores))
    owner, units = (q.documents, None) if documents is None else (documents, q.documents)
    table = document_table(scores, owner, index, q.buckets, n_buckets=of.n_buckets, units=units)
    return within_documents(table, of_differences=True)


def _number(p: float | None) -> float:
    return 1.0 if p is None else p


def position(of: Scores) -> float:
    """Return the headline p of the model, without a control."""
    return _number(_test(of.model, of).p)


def _two_scales(of: Scores, control: FloatArray) -> float:
    q, index = of.queries, np.arange(len(control))
    placed = (q.documents, index, q.buckets, q.lengths, q.positions)
    return _number(compare_profiles(of.model, control, *placed).p)


def two_scales(of: Scores) -> float:
    """Rule a: today's."""
    return _two_scales(of, of.control)


def _at_probit(scores: FloatArray) -> FloatArray:
    """Scores in units of the probit scale, to first order at their mean."""
    density: FloatArray = np.exp(-(ndtri(np.clip(scores.mean(), 1e-3, 1 - 1e-3)) ** 2) / 2)
    return scores / (density / np.sqrt(2 * np.pi))


def probit(of: Scores) -> float:
    """Rule b: difference of the probits of the profiles at equal documents."""
    difference, rows = 0.0, 0.0
    for sign, scores in ((1, of.model), (-1, of.control)):
        found = same_document_profile(_table(scores, of))
        if found is None or not (found.means > 0).all() or not (found.means < 1).all():
            return 1.0
        z = ndtri(found.means)
        difference = difference + sign * z
        rows = rows + sign * found.influence / (np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi))
    along = slope_and_bend(len(difference))
    return _hotelling(difference @ along, rows @ along)


def _table(scores: FloatArray, of: Scores) -> DocumentTable:
    q, index = of.queries, np.arange(len(scores))
    return document_table(scores, q.documents, index, q.buckets, n_buckets=of.n_buckets)


def _hotelling(total: FloatArray, rows: FloatArray) -> float:
    """Return p of T^2 of a total whose error is the sum of rows (n, m), each of mean 0."""
    n, m = rows.shape
    rows = rows - rows.mean(axis=0)
    t2 = float(total @ np.linalg.solve(rows.T @ rows * n / (n - 1), total))
    return float(f.sf(t2 * (n - m) / ((n - 1) * m), m, n - m))


def two_controls(of: Scores) -> float:
    """Rule c: both controls must be exceeded, each by today's rule."""
    return max(two_scales(of), _two_scales(of, of.second))


def matched(of: Scores) -> float:
    """Rule d: only questions of one document that the control answers alike are compared."""
    strata = of.queries.documents * 2 + (of.control > 0.5)
    return _number(_test(of.model, of, strata).p)


def stretched(of: Scores) -> float:
    """Rule d: the difference on the probit scale persists if the control's profile is stretched.

    By 1 to 1 / `LEAST_LOADING`, and has one direction throughout.
    """
    model, control = _at_probit(of.model), _at_probit(of.control)
    tests = [_test(model - s * control, of) for s in STRETCHES]
    if any(float(tests[0].statistic @ one.statistic) <= 0 for one in tests):
        return 1.0
    return max(_number(one.p) for one in tests)


def stretched_two_scales(of: Scores) -> float:
    """Rule d on both scales: today's holds down to a loading of `LEAST_LOADING`; 0 or 1, no p."""
    loading = shown_down_to(of)
    return 0.0 if loading is not None and loading <= LEAST_LOADING else 1.0


def shown_down_to(of: Scores) -> float | None:
    """Return the least loading of the control at which today's rule claims an effect."""
    q, index = of.queries, np.arange(len(of.model))
    return least_loading(of.model, of.control, q.documents, index, q.buckets)


def instrument(of: Scores) -> float:
    """Rule d: the control's loading is measured with a third system.

    ``yA = document + bucket + b yB + error`` by two stages, the third system's scores being the
    instrument of yB: b is the ratio of their covariances with yA and yB beyond document and
    bucket. It tests the buckets (slope and bend), the error of b included.
    """
    q = of.queries
    sizes = np.bincount(q.documents)

    def within(x: FloatArray) -> FloatArray:
        return x - (np.bincount(q.documents, x) / sizes)[q.documents]

    labels = np.eye(of.n_buckets)[q.buckets][:, 1:]
    buckets = np.column_stack([within(one) for one in labels.T])
    a, b, c = (within(one) for one in (of.model, of.control, of.third))

    def beyond(x: FloatArray) -> FloatArray:
        return x - buckets @ np.linalg.lstsq(buckets, x, rcond=None)[0]

    c = beyond(c)
    below = float(c @ b)
    ratio = float(c @ a) / below
    rest = a - ratio * b
    error = np.bincount(q.documents, c * beyond(rest)) / below

    def sums(x: FloatArray) -> FloatArray:
        cell = q.documents * of.n_buckets + q.buckets
        return np.bincount(cell, x, len(sizes) * of.n_buckets).reshape(-1, of.n_buckets)

    along = slope_and_bend(of.n_buckets)
    rows = sums(rest) @ along
    return _hotelling(rows.sum(axis=0), rows - np.outer(error, (sums(b) @ along).sum(axis=0)))


RULES: dict[str, Rule] = {
    "p_position": position,
    "a. two scales (today)": two_scales,
    "b. probit scale": probit,
    "c. two controls, two scales": two_controls,
    "d. matched by the control's score": matched,
    "d. probit, stretched to 2.5": stretched,
    "d. two scales, stretched to 2.5": stretched_two_scales,
    "d. loading by a third system": instrument,
}


# --- Cells -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """A world, and whether the model has no effect beyond the questions' there."""

    name: str
    world: Difficulty
    is_null: bool = True


def _cells() -> Iterator[Cell]:
    for n in (1200, 6000):
        base = Difficulty(n_queries=n)
        for loading in (0.4, 0.6, 0.8, 1.0):
            yield Cell(f"loading {loading:g}, n {n}", replace(base, loading=loading))
        for loading in (0.4, 0.6, 0.8):
            world = replace(base, loading=loading, apart=True)
            yield Cell(f"loading {loading:g} of the trend alone, n {n}", world)
        low = replace(base, loading=0.4, apart=True)
        yield Cell(f"the same, .4, both controls, n {n}", replace(low, second=0.4))
        yield Cell(f"the same, .4, means .7 and .7, n {n}", replace(low, means=(0.7, 0.7)))
        yield Cell(f"the same, .4, SQuAD-like, n {n}", replace(low, layout="squad"))
        yield Cell(f"loading 1, SQuAD-like, n {n}", replace(base, layout="squad"))
        for kin in ("model", "control"):
            world = replace(base, loading=0.4, kin=kin)
            yield Cell(f"loading .4, third system like the {kin}, n {n}", world)
        none = replace(base, trend=0.0)
        yield Cell(f"no trend, n {n}", none)
        for extra in (0.1, 0.2):
            falls = f"falls by {extra:g} of its own"
            yield Cell(f"no trend, {falls}, n {n}", replace(none, extra=extra), is_null=False)
            for name, world in (("loading 1", base), ("loading .4 of the trend alone", low)):
                yield Cell(f"{name}, {falls}, n {n}", replace(world, extra=extra), is_null=False)


CELLS = list(_cells())
LEAST = "least loading, median where a. claims an effect"
COLUMNS = ("cell", "rule", "target", "found", "se", "holds", "replicates", "seconds")


def run(cell: Cell, replicates: int, seed: int) -> Iterator[dict[str, object]]:
    """Yield a line per rule: the share of sets in which it rejects at .05."""
    rng = np.random.default_rng([seed, *cell.name.encode()])
    start = time.process_time()
    p, loadings = [], []
    for _ in range(replicates):
        scores = draw(cell.world, rng)
        p.append([rule(scores) for rule in RULES.values()])
        if p[-1][1] <= 0.05 and (loading := shown_down_to(scores)) is not None:
            loadings.append(loading)
    seconds = round(time.process_time() - start, 1)
    for name, column in zip(RULES, np.array(p).T, strict=True):
        judged = cell.is_null and name != "p_position"
        found = share(name, column <= 0.05, None, MOST_SIZE if judged else None)
        yield {
            "cell": cell.name, "rule": name, "target": found.target, "found": round(found.found, 4),
            "se": round(found.se, 4), "holds": found.holds, "replicates": replicates,
            "seconds": seconds,
        }  # fmt: skip
    yield {
        "cell": cell.name, "rule": LEAST, "target": "", "se": 0.0, "holds": "",
        "found": float(np.median(loadings)) if loadings else "", "replicates": len(loadings),
        "seconds": seconds,
    }  # fmt: skip


def page(rows: list[dict[str, object]]) -> Iterator[str]:
    """Yield the lines of the page: sizes, then powers."""
    yield "# Rules for an effect larger than the control's"
    yield ""
    yield (
        "`python studies/inference/control.py`: share of query sets in which a rule rejects at "
        f".05. A size above {MOST_SIZE:g} is in bold. Two queries per third of a document, or "
        "SQuAD-like; means .8 (model) and .6 (control). With a trend, questions about the last "
        "position are .6 of the latent scale harder than questions about the first. It affects "
        "the control with the stated loading, the model with 1, a second control with .8. "
        "*Of the trend alone*: the rest of the difficulty affects all systems equally. *Falls by "
        "... of its own*: the model's hits fall from the first position to the last. The last "
        "column is the median of `least_loading` over the sets in which rule a claims an effect."
    )
    found = {(row["cell"], row["rule"]): float(str(row["found"] or "nan")) for row in rows}
    held = {row["cell"] for row in rows}
    for title, is_null in (("Size: only the questions cause an effect", True),
                           ("Power: the model falls by itself", False)):  # fmt: skip
        yield ""
        yield f"## {title}"
        yield ""
        yield f"| cell | {' | '.join(RULES)} | least loading |"
        yield "|---" + "|--:" * (len(RULES) + 1) + "|"
        for cell in CELLS:
            if cell.is_null == is_null and cell.name in held:
                shown = []
                for rule in RULES:
                    value = found[cell.name, rule]
                    bold = is_null and rule != "p_position" and value > MOST_SIZE
                    shown.append(f"**{value:.3f}**" if bold else f"{value:.3f}")
                least = found[cell.name, LEAST]
                shown.append("–" if np.isnan(least) else f"{least:.2f}")
                yield f"| {cell.name} | " + " | ".join(shown) + " |"


def main() -> None:
    """Run the chosen cells and write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--cells", default="", help="regular expression on the cell's name")
    parser.add_argument("--replicates", type=int, default=REPLICATES)
    parser.add_argument("--seed", type=int, default=20260)
    options = parser.parse_args()
    rows: list[dict[str, object]] = []
    for cell in CELLS:
        if re.search(options.cells, cell.name):
            new = list(run(cell, options.replicates, options.seed))
            rows.extend(new)
            shown = ", ".join(f"{row['rule']} {row['found']}" for row in new)
            print(f"{cell.name} ({new[0]['seconds']} s): {shown}", flush=True)
    with (options.out / "control.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    (options.out / "control.md").write_text("\n".join(page(rows)) + "\n")


if __name__ == "__main__":
    main()
