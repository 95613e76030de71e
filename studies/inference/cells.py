"""The cells of the study: for each world, the checks and their targets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from worlds import Pair, World

# Claim 3 is read off the cells of claim 2.
CLAIMS = {
    1: "Sizes of the tests within documents are .03 to .07 at .05, at most .015 at .01",
    2: "The 95 % intervals of PSI cover .93 to .975, and exclude 0 where the test rejects",
    3: "The corrected PSI is biased by at most .02 from a PSI of .1 on, with up to 6 buckets",
    4: "Power within documents",
    5: "With one third per document, the row has a flag and the fallback has its size",
    6: "Two systems, and five: sizes, and coverage of the difference of PSI",
    7: "Standard errors by influence are within 2 % of the jackknife's",
    8: "Confounding and truncation",
    9: "Cost",
    10: "Other doubts: bucket intervals, drop, the equations' solution",
}
COVERED_LEAST = 0.93
SIZES, SIZES_OTHER, COVERS, POWERS = 2000, 1000, 500, 500


@dataclass(frozen=True)
class Cell:
    """A world and its checks."""

    claim: int
    name: str
    check: str
    world: World | Pair
    replicates: int
    options: tuple[tuple[str, object], ...] = ()


def _null_cells() -> Iterator[Cell]:
    def cell(name: str, world: World, replicates: int = SIZES, **options: object) -> Cell:
        return Cell(1, name, "within_size", world, replicates, tuple(options.items()))

    base = World()
    for layout in ("squad", "free-3", "free-6", "free-20", "nine", "controlled", "fineweb"):
        world = replace(base, layout=layout)
        yield cell(f"{layout}, plain", world)
        yield cell(f"{layout}, chunk effect .3", replace(world, chunk=0.3))
        yield cell(f"{layout}, mean .1", replace(world, mean=0.1))
        yield cell(f"{layout}, mean .96", replace(world, mean=0.96))
    for layout in ("squad", "free-6", "nine"):
        for rho in (0.0, 0.5):
            world = World(layout=layout, correlation=rho)
            yield cell(f"{layout}, correlation {rho:g}", world)
    for layout in ("squad", "characters"):
        confound = World(layout=layout, length_effect=0.4)
        yield cell(f"{layout}, longer is harder", confound)
        harder = replace(confound, chunk=0.3, correlation=0.5)
        yield cell(f"{layout}, longer is harder, chunk effect, correlation .5", harder)
    yield cell("characters, sparse buckets", World(layout="characters"))
    yield cell("characters, sparse buckets, mean .1", World(layout="characters", mean=0.1))
    yield cell("characters, sparse buckets, mean .96", World(layout="characters", mean=0.96))
    yield cell("characters, n 600", World(layout="characters", n_queries=600))
    yield cell("squad, n 5000, longer is harder, chunk effect",
               World(n_queries=5000, length_effect=0.4, chunk=0.3), SIZES_OTHER)  # fmt: skip
    for documents in (35, 60):
        for layout, each in (("squad", 5), ("free-6", 6), ("nine", 9), ("controlled", 3)):
            few = World(layout=layout, n_queries=documents * each)
            yield cell(f"{layout}, {documents} documents", few)
    yield cell("free-20, 40 documents", World(layout="free-20", n_queries=240))
    yield cell("characters, 60 documents", World(layout="characters", n_queries=300))


def _coverage_cells() -> Iterator[Cell]:
    def cells(name: str, world: World, **options: object) -> Iterator[Cell]:
        yield Cell(2, name, "coverage", world, COVERS, tuple(options.items()))

    for psi in (0.0, 0.1, 0.3):
        for layout in ("squad", "free-3", "free-6", "free-20", "nine", "controlled", "fineweb"):
            world = World(layout=layout, psi=psi)
            yield from cells(f"{layout}, PSI {psi:g}", world)
        yield from cells(f"squad, PSI {psi:g}, longer is harder", World(psi=psi, length_effect=0.4))
        yield from cells(f"squad, PSI {psi:g}, n 5000", World(psi=psi, n_queries=5000))
        yield from cells(f"squad, PSI {psi:g}, correlation .5, chunk effect, longer is harder",
                         World(psi=psi, correlation=0.5, chunk=0.3, length_effect=0.4),
                         bias=False)  # fmt: skip
        yield from cells(f"squad, PSI {psi:g}, mean .1", World(psi=psi, mean=0.1), bias=False)
        yield from cells(f"free-6, PSI {psi:g}, mean .1",
                         World(layout="free-6", psi=psi, mean=0.1), bias=False)  # fmt: skip
        yield from cells(f"free-6, PSI {psi:g}, mean .96",
                         World(layout="free-6", psi=psi, mean=0.96))  # fmt: skip
        yield from cells(f"squad, PSI {psi:g}, mean .96", World(psi=psi, mean=0.96))
        yield from cells(f"one-third, PSI {psi:g}",
                         World(layout="one-third", psi=psi), same=False, bias=False)  # fmt: skip
        yield from cells(f"one-third, PSI {psi:g}, correlation .5, n 5000",
                         World(layout="one-third", psi=psi, correlation=0.5, n_queries=5000),
                         same=False, bias=False)  # fmt: skip
        yield from cells(f"one-query, PSI {psi:g}",
                         World(layout="one-query", psi=psi), same=False)  # fmt: skip


def _further_coverage_cells() -> Iterator[Cell]:
    """Yield single buckets, twenty buckets, next to no misses, and few documents."""

    def cells(name: str, world: World, **options: object) -> Iterator[Cell]:
        yield Cell(2, name, "coverage", world, COVERS, tuple(options.items()))

    for psi in (0.1, 0.3):
        for profile in ("one_bad", "middle"):
            world = World(layout="free-6", psi=psi, profile=profile)
            yield from cells(f"free-6, PSI {psi:g}, {profile}", world)
            yield from cells(f"free-6, PSI {psi:g}, {profile}, mean .7", replace(world, mean=0.7))
        yield from cells(f"free-6, PSI {psi:g}, one_bad, n 5000",
                         World("free-6", 5000, psi=psi, profile="one_bad"))  # fmt: skip
        yield from cells(f"free-20, PSI {psi:g}, n 5000", World("free-20", 5000, psi=psi))
        for profile in ("one_bad", "middle"):
            world = World("free-20", 3000, psi=psi, profile=profile)
            yield from cells(f"free-20, PSI {psi:g}, n 3000, {profile}", world)
    yield from cells("free-20, PSI 0, mean .96", World("free-20", mean=0.96))
    yield from cells("free-20, PSI 0, n 6000, mean .96", World("free-20", 6000, mean=0.96))
    for psi in (0.0, 0.1):
        yield from cells(f"characters, PSI {psi:g}, n 3000", World("characters", 3000, psi=psi))
    for documents, psi in ((60, 0.02), (60, 0.05), (60, 0.1), (150, 0.01), (300, 0.005)):
        found = World("controlled", 3 * documents, 1.0, psi, correlation=0.0)
        yield from cells(f"nearly all found, PSI {psi:g}, {documents} documents", found, bias=False)
    for documents in (30, 40):
        for psi in (0.0, 0.3):
            few = World("controlled", 3 * documents, psi=psi)
            yield from cells(f"controlled, PSI {psi:g}, {documents} documents", few, bias=False)
    for documents in (35, 60):
        yield from cells(f"nine, PSI .1, {documents} documents",
                         World(layout="nine", psi=0.1, n_queries=9 * documents),
                         bias=False)  # fmt: skip


def _ceiling_cells() -> Iterator[Cell]:
    """Yield best buckets near 1, hits and graded scores, 3, 6 and 20 buckets."""
    for layout, documents in (("fineweb", 200), ("free-6", 200), ("free-20", 300)):
        for best, psi in product((0.95, 0.98, 0.99, 0.995, 1.0), (0.0, 0.03, 0.05, 0.1)):
            correlation = 0.2 if best < 1 else 0.0
            for hits in (True, False):
                world = World(layout, 6 * documents, best, psi, correlation=correlation, hits=hits)
                name = f"{layout}, best {best:g}, PSI {psi:g}, {'hits' if hits else 'graded'}"
                yield Cell(2, name, "coverage", world, COVERS,
                           (("bias", False), ("bounds", (COVERED_LEAST, None))))  # fmt: skip
    for best, psi in ((0.995, 0.03), (0.99, 0.1)):
        world = World("fineweb", 3600, best, psi, hits=True)
        yield Cell(2, f"fineweb, 600 documents, best {best:g}, PSI {psi:g}, hits", "coverage",
                   world, COVERS, (("bias", False), ("bounds", (COVERED_LEAST, None))))  # fmt: skip


def _oracle_cells() -> Iterator[Cell]:
    """Yield cells with the oracle's intervals next to ours: wide, but right by construction."""
    for layout in ("fineweb", "free-6", "free-20", "squad"):
        for mean, psi in product((0.5, 0.8, 0.99), (0.0, 0.1, 0.3)):
            name = f"{layout}, mean {mean:g}, PSI {psi:g}, beside the oracle"
            yield Cell(2, name, "beside_oracle", World(layout, 1200, mean, psi), POWERS)


def _cluster_cells() -> Iterator[Cell]:
    """Yield sizes and coverage where slopes differ from one cluster of documents to the next."""
    for clusters in (5, 9, 12, 40):
        for layout in ("squad", "controlled", "nine"):
            world = World(layout, clusters=clusters, cluster_slopes=0.8)
            name = f"{layout}, {clusters} clusters of unlike slopes"
            yield Cell(1, name, "within_size", world, SIZES_OTHER)
            if clusters in (9, 12):
                yield Cell(
                    1,
                    f"{name}, documents as units (a limit)",
                    "within_size",
                    world,
                    SIZES_OTHER,
                    (("by_documents", True), ("bounds", (None, None))),
                )
            for psi, mean in product((0.0, 0.1, 0.3), (0.5, 0.8)):
                spread = 0.8 if mean == 0.5 else 0.3  # with more, scores would end at 1
                known = replace(world, psi=psi, mean=mean, cluster_slopes=spread)
                of_mean = "" if mean == 0.5 else f", mean {mean:g}"
                yield Cell(2, f"{name}, PSI {psi:g}{of_mean}", "coverage", known, COVERS,
                           (("bias", False),))  # fmt: skip
        world = World("one-third", clusters=clusters, cluster_slopes=0.8)
        yield Cell(5, f"one-third, {clusters} clusters of unlike slopes", "between_size", world,
                   SIZES_OTHER)  # fmt: skip


def _uneven_worlds(psi: float) -> Iterator[tuple[str, World]]:
    """Yield few documents, few queries in a bucket, and few documents that have most queries."""
    for layout, documents in (("free-3", 32), ("fineweb", 32), ("free-3", 45), ("squad", 45)):
        each = 5 if layout == "squad" else 6
        yield f"{layout}, {documents} documents", World(layout, documents * each, psi=psi)
    for layout, last in (
        ("free-3", 1),
        ("free-3", 8),
        ("free-3", 40),
        ("free-6", 1),
        ("free-6", 40),
    ):
        for mean in (0.5, 0.9):
            yield (
                f"{layout}, mean {mean:g}, {last} queries in the last bucket",
                World(layout, mean=mean, psi=psi, last=last),
            )
    for layout, n in (("squad", 1200), ("free-3", 1200), ("free-3", 360), ("free-6", 1200)):
        for mean in (0.3, 0.6):
            yield (
                f"{layout}, n {n}, mean {mean:g}, heavy-tailed",
                World(layout, n, mean, psi, heavy_tailed=True),
            )


def _uneven_cells() -> Iterator[Cell]:
    for name, world in _uneven_worlds(0.0):
        yield Cell(1, name, "within_size", world, SIZES)
    for psi in (0.0, 0.1, 0.3):
        for name, world in _uneven_worlds(psi):
            yield Cell(2, f"{name}, PSI {psi:g}", "coverage", world, COVERS, (("bias", False),))


def _power_cells() -> Iterator[Cell]:
    def cell(name: str, world: World, **least: float) -> Cell:
        return Cell(4, name, "within_power", world, POWERS, tuple(least.items()))

    for mean in (0.5, 0.7):
        world = World(psi=0.1, mean=mean)
        least = {"position": 0.9, "trend": 0.93} if mean == 0.7 else {}
        yield cell(f"squad, PSI .1, n 5000, mean {mean:g}", replace(world, n_queries=5000), **least)
        for layout in ("squad", "controlled", "fineweb", "nine", "free-20"):
            yield cell(f"{layout}, PSI .1, n 1200, mean {mean:g}", replace(world, layout=layout))
    for layout, psi in (("free-3", 0.1), ("free-6", 0.2), ("free-20", 0.4)):
        for profile in ("middle", "one_bad"):
            yield cell(f"{layout}, n 1200, PSI {psi:g}, {profile}",
                       World(layout, psi=psi, profile=profile))  # fmt: skip
    for layout, n, mean in (
        ("controlled", 1200, 0.6), ("squad", 1200, 0.6), ("squad", 5000, 0.7),
        ("free-6", 1200, 0.6), ("free-20", 5000, 0.6), ("fineweb", 600, 0.5),
        ("nine", 1200, 0.7), ("free-6", 1200, 0.9),
    ):  # fmt: skip
        yield Cell(4, f"{layout}, n {n}, mean {mean:g}, the smallest PSI", "design",
                   World(layout, n, mean), POWERS)  # fmt: skip
    yield cell("fineweb, PSI .1 in the middle, n 1200, mean .7",
               World("fineweb", psi=0.1, mean=0.7, profile="middle"))  # fmt: skip


def _between_cells() -> Iterator[Cell]:
    def cell(name: str, check: str, world: World, replicates: int, **options: object) -> Cell:
        return Cell(5, name, check, world, replicates, tuple(options.items()))

    steps = {"length_effect": 0.4, "length_steps": True, "late_in_long": 0.9}
    for n in (300, 1200, 5000):
        count = SIZES_OTHER
        for layout in ("one-third", "one-query"):
            world = World(layout=layout, n_queries=n)
            yield cell(f"{layout}, n {n}", "between_size", world, count)
            yield cell(f"{layout}, n {n}, late in long documents, which are harder by quintile",
                       "between_size", replace(world, **steps), count)  # fmt: skip
        strong = World("one-third", n, correlation=0.5, chunk=0.3)
        yield cell(f"one-third, n {n}, correlation .5, chunk effect", "between_size", strong, count)
    for mean in (0.1, 0.96):
        world = World("one-third", mean=mean)
        yield cell(f"one-third, n 1200, mean {mean:g}", "between_size", world, SIZES_OTHER)
    smooth = World("one-third", length_effect=0.4, late_in_long=0.9)
    yield cell("one-third, n 1200, late in long, harder inside quintiles too (a limit)",
               "between_size", smooth, SIZES_OTHER, bounds=(None, None))  # fmt: skip
    yield cell("one-query, n 5000, late in long, harder inside quintiles too (a limit)",
               "between_size", replace(smooth, layout="one-query", n_queries=5000), SIZES_OTHER,
               bounds=(None, None))  # fmt: skip
    for n in (300, 1200, 5000):
        world = World("one-third", n, psi=0.2, mean=0.7)
        yield cell(f"one-third, n {n}, PSI .2, mean .7 (power)", "between_power", world, POWERS)
    for layout in ("one-third", "one-query"):
        yield cell(f"{layout}, n 1200, against shuffling", "between_shuffled",
                   World(layout=layout, **steps), 12)  # fmt: skip


def _pair_cells() -> Iterator[Cell]:
    def cell(
        name: str, check: str, pair: Pair, count: int = SIZES_OTHER, **options: object
    ) -> Cell:
        return Cell(6, name, check, pair, count, tuple(options.items()))

    for layout in ("squad", "fineweb"):
        for scale in ("none", "hit", "miss", "logit"):
            yield cell(f"{layout}, no effect, shared {scale}", "comparison", Pair(scale, layout))
        for scale in ("hit", "miss"):
            pair = Pair(scale, layout, psi=(0.3, 0.3))
            yield cell(f"{layout}, equal effects, {scale} scale", "comparison", pair)
        for n in (1200, 5000):
            pair = Pair("logit", layout, n, psi=(1.0, 1.0))
            yield cell(f"{layout}, n {n}, equal effects, logit scale", "comparison", pair,
                       SIZES_OTHER, bounds=(None, 0.05))  # fmt: skip
        pair = Pair("logit", layout, 5000, (0.7, 0.5), psi=(1.0, 0.0))
        yield cell(f"{layout}, n 5000, unlike effects, logit scale (power)", "comparison", pair,
                   POWERS, bounds=(None, None))  # fmt: skip
        means = Pair("none", layout, means=(0.5, 0.5))
        yield cell(f"{layout}, equal means", "difference_of_means", means)
        shared = Pair("hit", layout, means=(0.5, 0.5))
        yield cell(f"{layout}, equal means, shared difficulty", "difference_of_means", shared)
    strong = Pair("none", "one-third", means=(0.5, 0.5), correlation=0.5)
    yield cell("one-third, equal means", "difference_of_means", strong)
    for scale in ("none", "logit"):
        yield cell(f"one-third, no effect, {scale}, between documents", "comparison",
                   Pair(scale, "one-third"), within=False)  # fmt: skip
    for psi in ((0.0, 0.0), (0.1, 0.1), (0.1, 0.0), (0.0, 0.1), (0.3, 0.1), (0.3, 0.0), (0.3, 0.3)):
        for n in (1200, 5000):
            pair = Pair("none", "squad", n, means=(0.8, 0.5), psi=psi)
            yield cell(f"squad, n {n}, PSI {psi[0]:g} and {psi[1]:g}", "difference_of_psi",
                       pair, POWERS)  # fmt: skip
    for psi in ((0.1, 0.0), (0.3, 0.1)):
        pair = Pair("hit", "fineweb", means=(0.8, 0.5), psi=psi)
        yield cell(f"fineweb, PSI {psi[0]:g} and {psi[1]:g}, shared difficulty",
                   "difference_of_psi", pair, POWERS)  # fmt: skip


def _between_pair_cells() -> Iterator[Cell]:
    """Yield how often the comparison finds an effect where documents hold one third each."""
    for psi, n in product((0.1, 0.3), (1200, 5000)):
        pair = Pair("hit", "one-third", n, (0.8, 0.6), psi=(psi, 0.0))
        name = f"one-third, n {n}, PSI {psi:g} beside 0, between documents (power)"
        options = (("within", False), ("bounds", (None, None)))
        yield Cell(6, name, "comparison", pair, POWERS, options)


def _rare_miss_cells() -> Iterator[Cell]:
    for n, misses in product((30, 60, 150, 500), ((0, 0.005), (0, 0.02), (0.02, 0.04), (0, 0.05))):
        name = f"{n} documents, {misses[0]:g} and {misses[1]:g} missed"
        options = (("misses", misses),)
        yield Cell(6, name, "difference_of_rare_misses", World(n_queries=n), COVERS, options)
    costs = (0.02, 0.02, 0.02, 0.05, 0.05, 0.1, 0.1, 0.37, 0.37, 1.0)
    for n, missed in product((60, 150, 500), (0.05, 0.1)):
        name = f"{n} documents, 0 and {missed:g} missed, at unlike costs"
        options = (("misses", (0, missed)), ("costs", costs))
        yield Cell(6, name, "difference_of_rare_misses", World(n_queries=n), COVERS, options)


def _several_cells() -> Iterator[Cell]:
    def cell(name: str, world: World, *gains: float) -> Cell:
        return Cell(6, f"five systems, {name}", "several_systems", world, SIZES_OTHER,
                    (("gains", gains or (0.0,) * 5),))  # fmt: skip

    for n in (30, 60, 100):
        yield cell(f"equal, {n} documents", World("free-6", 6 * n))
    yield cell("equal, 60 documents, mean .9", World("free-6", 360, mean=0.9))
    yield cell("equal, 60 documents, correlation .5", World("free-6", 360, correlation=0.5))
    yield cell("equal, 60 documents of one query", World("one-query", 60))
    for n in (60, 100):
        gains = (0.0, 0.0, 0.0, 0.08, 0.16)
        yield cell(f"three equal, {n} documents", World("free-6", 6 * n), *gains)


def _beyond_cells() -> Iterator[Cell]:
    """Yield comparisons with a control: one with a similar mean, one far below, one that falls."""
    options = (("bounds", (None, None)), ("alone", True))
    for layout, each, weaker, shared in (
        ("fineweb", 6, 0.6, 0.0), ("squad", 5, 0.4, 0.0), ("fineweb", 6, 0.6, 0.2),
    ):  # fmt: skip
        for extra in (0.1, 0.2, 0.3, 0.4):
            for documents in (60, 300, 1200):
                own = 1 - (1 - shared) * (1 - extra)
                pair = Pair("hit", layout, each * documents, (0.8, weaker), (own, shared))
                name = f"{layout}, {documents} documents, PSI {own:g} beside {shared:g} (power)"
                yield Cell(6, name, "comparison", pair, POWERS, options)


def _jackknife_cells() -> Iterator[Cell]:
    for layout in ("squad", "free-3", "free-6", "nine", "controlled", "fineweb"):
        world = World(layout=layout, psi=0.1)
        yield Cell(7, f"{layout}, n 1200", "jackknife", world, 8)
    yield Cell(7, "free-20, n 1200", "jackknife", World("free-20", psi=0.1), 8)
    yield Cell(7, "squad, n 3000, mean .1", "jackknife", World(n_queries=3000, mean=0.1), 4)
    yield Cell(7, "squad, n 1200, mean .1", "jackknife", World(mean=0.1), 8)
    yield Cell(7, "squad, n 3000, longer is harder", "jackknife",
               World(n_queries=3000, length_effect=0.4, correlation=0.5), 4)  # fmt: skip


def _confounding_cells() -> Iterator[Cell]:
    def cell(name: str, check: str, world: World, count: int, **options: object) -> Cell:
        return Cell(8, name, check, world, count, tuple(options.items()))

    for layout in ("squad", "free-6", "free-20"):
        for psi in (0.0, 0.3):
            world = World(layout=layout, psi=psi)
            yield cell(f"{layout}, PSI {psi:g}, not confounded", "confounded", world, SIZES_OTHER)
    yield cell("squad, chunk effect, correlation .5, not confounded", "confounded",
               World(chunk=0.3, correlation=0.5), SIZES_OTHER)  # fmt: skip
    yield cell("characters, not confounded", "confounded", World("characters"), SIZES_OTHER)
    yield cell("squad, n 5000, not confounded", "confounded", World(n_queries=5000), SIZES_OTHER)
    for n in (1200, 5000):
        yield cell(f"squad, n {n}, confounded (power)", "confounded",
                   World(n_queries=n, length_effect=0.4), POWERS, bounds=(None, None))  # fmt: skip
    for psi in (0.0, 0.3):
        yield cell(f"squad, n 3000, reads everything, PSI {psi:g}", "truncation",
                   World(n_queries=3000, psi=psi, mean=0.7), SIZES_OTHER)  # fmt: skip
    yield cell("squad, n 3000, reads everything, longer is harder, chunk effect", "truncation",
               World(n_queries=3000, length_effect=0.4, chunk=0.3, mean=0.7),
               SIZES_OTHER)  # fmt: skip
    for documents in (60, 120):
        yield cell(f"nine, {documents} documents, reads everything", "truncation",
                   World("nine", 9 * documents, mean=0.7), SIZES_OTHER)  # fmt: skip
    for layout, documents, each in (("nine", 45, 9), ("squad", 120, 5), ("squad", 240, 5)):
        yield cell(f"{layout}, {documents} documents, reads everything", "truncation",
                   World(layout, each * documents, mean=0.7), SIZES_OTHER)  # fmt: skip
    yield cell("squad, n 3000, reads everything, heavy-tailed", "truncation",
               World(n_queries=3000, mean=0.5, heavy_tailed=True), SIZES_OTHER)  # fmt: skip
    yield cell("squad, n 3000, the cut takes .2", "truncation",
               World(n_queries=3000, mean=0.7, length_effect=0.2), SIZES_OTHER,
               delta=0.2)  # fmt: skip
    for psi in (0.0, 0.1):
        yield cell(f"squad, n 3000, reads everything, falls inside buckets, PSI {psi:g} (a limit)",
                   "truncation", World(n_queries=3000, psi=psi, mean=0.7), SIZES_OTHER,
                   slope_inside=True, share_bounds=(None, None))  # fmt: skip


def _other_cells() -> Iterator[Cell]:
    def cell(name: str, check: str, world: World, count: int, **options: object) -> Cell:
        return Cell(10, name, check, world, count, tuple(options.items()))

    for mean in (0.1, 0.5, 0.96):
        yield cell(f"characters, n 600, mean {mean:g}, bucket intervals", "bucket_intervals",
                   World("characters", 600, mean=mean), POWERS)  # fmt: skip
        yield cell(f"squad, n 1200, mean {mean:g}, bucket intervals", "bucket_intervals",
                   World(mean=mean), 200)  # fmt: skip
    yield cell("one-third, 60 documents, bucket intervals", "bucket_intervals",
               World("one-third", 540, correlation=0.5), POWERS)  # fmt: skip
    for n in (200, 600):
        for mean in (0.03, 0.1, 0.5, 0.96):
            yield cell(f"characters, n {n}, mean {mean:g}, equations", "newton",
                       World("characters", n, mean=mean), 400)  # fmt: skip


CELLS = [
    *_null_cells(),
    *_coverage_cells(),
    *_further_coverage_cells(),
    *_ceiling_cells(),
    *_oracle_cells(),
    *_cluster_cells(),
    *_uneven_cells(),
    *_power_cells(),
    *_between_cells(),
    *_pair_cells(),
    *_between_pair_cells(),
    *_rare_miss_cells(),
    *_several_cells(),
    *_beyond_cells(),
    *_jackknife_cells(),
    *_confounding_cells(),
    *_other_cells(),
]
