"""Simulated benchmarks whose position effect is known.

Each document d has a score level m_d. A query in its bucket k has the expected score ``m_d r_k``,
where ``r`` is the profile (best bucket 1), so the PSI at equal documents is ``1 - min r`` by
construction. Scores are values of nDCG@10 with one positive: a miss, or one of ten ranks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

import numpy as np

from psibench.metrics.inference import (
    BoolArray,
    DocumentTable,
    FloatArray,
    IntArray,
    document_table,
)
from psibench.metrics.psi import RowData

# The values of nDCG@10 with one positive document: a miss, then ranks 10 to 1.
LEVELS = np.concatenate([[0.0], 1 / np.log2(1 + np.arange(10, 0, -1))])
# Shares at a mean of about .45; other means come from tilting these exponentially.
SHARES = np.concatenate([[0.45], 0.09 / np.arange(10, 1, -1) / 0.429, [0.34]])
GRID = 400
QUINTILES = 5


@dataclass(frozen=True)
class World:
    """One kind of benchmark, and one retriever's scores on it.

    Attributes
    ----------
    layout : str
        Where queries are; see `LAYOUTS`.
    n_queries : int
        Queries on average; the number of documents is fixed.
    mean : float
        Mean score at the best position.
    psi, profile : float and str
        PSI at equal documents, and how the loss runs over buckets: linear, one_bad, middle.
    correlation : float
        Correlation of two queries of one document, for scores of 0 and 1.
    chunk : float
        Correlation of two neighbouring queries (pairs in order of position), beyond the document's.
    length_effect : float
        Mean score of the shortest document minus the mean score of the longest.
    length_steps : bool
        Mean score and position of the evidence change from one length quintile to the next, not
        inside.
    late_in_long : float
        One third a document only: how much likelier the last third is in the longest documents,
        from 0 to 1.
    clusters : int
        Clusters (articles, sites) of as many documents each; 0: none.
    cluster_slopes : float
        Each cluster has a slope over positions, uniform between plus and minus this, as a share of
        the score: 0 on average.
    heavy_tailed : bool
        Few documents have most queries (1 + a Lomax variable of shape 1.5, at most a tenth of all;
        layouts of varying numbers), and levels are lognormal (sigma 1, at most 1): most documents
        are hard and a few easy, in place of `correlation`.
    last : int
        Number of queries of the last bucket, if it is fixed.
    hits : bool
        Scores are 0 or 1 instead of values of nDCG@10.
    """

    layout: str = "squad"
    n_queries: int = 1200
    mean: float = 0.5
    psi: float = 0.0
    profile: str = "linear"
    correlation: float = 0.2
    chunk: float = 0.0
    length_effect: float = 0.0
    length_steps: bool = False
    late_in_long: float = 0.0
    clusters: int = 0
    cluster_slopes: float = 0.0
    heavy_tailed: bool = field(default=False, repr=False)  # not in the seed of the true means
    last: int = field(default=0, repr=False)
    hits: bool = field(default=False, repr=False)

    @property
    def n_buckets(self) -> int:
        """Buckets of the layout's scheme."""
        return LAYOUTS[self.layout][1]

    @property
    def relative(self) -> FloatArray:
        """Expected score by bucket as a share of the best bucket's, (n_buckets,)."""
        k = np.arange(self.n_buckets)
        loss = {
            "linear": k / k[-1],
            "one_bad": (k == k[-1]) * 1.0,
            "middle": (k == len(k) // 2) * 1.0,
        }[self.profile]
        return 1 - self.psi * loss


# name: (queries per document on average, buckets)
LAYOUTS = {
    "squad": (5, 6),  # starts at 0, 100, ... 500+ characters; only long paragraphs reach the last
    "characters": (5, 20),  # the same in 20 buckets of 100: few documents hold the last ones
    "free-3": (6, 3),  # anywhere in the document
    "free-6": (6, 6),
    "free-20": (6, 20),
    "nine": (9, 3),  # 9 queries a document, anywhere
    "controlled": (3, 3),  # one query per third
    "fineweb": (6, 3),  # two per third
    "one-third": (9, 3),  # 9 queries, all in one third of the document
    "one-query": (1, 3),  # one query a document
}


@dataclass(frozen=True)
class Queries:
    """The queries: arrays of shape (n_queries,), each document's queries in order of position."""

    documents: IntArray
    buckets: IntArray
    lengths: FloatArray
    positions: FloatArray


def draw_queries(world: World, rng: np.random.Generator) -> Queries:
    """Documents, their lengths (characters), and the positions and buckets of their queries."""
    per_document, n_buckets = LAYOUTS[world.layout]
    n_documents = max(2, round(world.n_queries / per_document))
    by_characters = world.layout in ("squad", "characters")
    if by_characters:
        length = np.clip(rng.lognormal(6.5, 0.45, n_documents), 150, 3120)
    else:
        length = rng.lognormal(9.0, 0.6, n_documents)
    varies = by_characters or world.layout.startswith("free")
    sizes = (
        1 + rng.poisson(per_document - 1, n_documents)
        if varies
        else np.full(n_documents, per_document)
    )
    if world.heavy_tailed and varies:
        tail = rng.pareto(1.5, n_documents) * (per_document - 1) / 2  # of mean per_document - 1
        sizes = 1 + np.minimum(tail, world.n_queries / 10).astype(np.int64)
    documents = np.repeat(np.arange(n_documents), sizes)
    within = rng.random(len(documents))
    if world.layout in ("one-third", "one-query"):
        late = world.late_in_long * 2 * (_length_rank(world, length) - 0.5)
        third = (rng.random(n_documents)[:, None] > _edges_of_thirds(late)).sum(axis=1)
        within = (third[documents] + within) / 3
    elif world.layout in ("controlled", "fineweb"):
        within = (np.tile(np.repeat(np.arange(3), per_document // 3), n_documents) + within) / 3
    order = np.lexsort((within, documents))
    within = within[order]
    positions = within * length[documents]
    buckets = (
        np.minimum(positions // 100, n_buckets - 1) if by_characters else within * n_buckets
    ).astype(np.int64)
    lengths = length[documents]
    if world.last:
        last = rng.permutation(np.flatnonzero(buckets == n_buckets - 1))
        kept = np.delete(np.arange(len(buckets)), last[world.last :])
        documents = np.unique(documents[kept], return_inverse=True)[1]
        buckets, positions, lengths = buckets[kept], positions[kept], lengths[kept]
    return Queries(documents, buckets, lengths, positions)


def _edges_of_thirds(late: FloatArray) -> FloatArray:
    """Chances of the first third, and of the first or second: (n_documents, 2)."""
    return np.column_stack([(1 - late) / 3, (2 - late) / 3])


def _length_rank(world: World, length: FloatArray) -> FloatArray:
    """Rank of the length in (0, 1); with `length_steps`, the rank of its quintile."""
    rank = (np.argsort(np.argsort(length)) + 0.5) / len(length)
    return (np.floor(QUINTILES * rank) + 0.5) / QUINTILES if world.length_steps else rank


def expected_scores(world: World, queries: Queries, rng: np.random.Generator) -> FloatArray:
    """Expected score of each query, (n_queries,): document, chunk and position."""
    documents = queries.documents
    first = np.unique(documents, return_index=True)[1]
    length = queries.lengths[first]
    rank = _length_rank(world, length)
    mean = world.mean + world.length_effect * (0.5 - rank)
    level = (
        np.minimum(mean * rng.lognormal(-0.5, 1.0, len(mean)), 1.0)
        if world.heavy_tailed
        else _beta(mean, world.correlation, rng)
    )
    means = level[documents]
    if world.chunk:
        number = np.arange(len(documents)) - first[documents]
        _, chunk = np.unique(documents * 10_000 + number // 2, return_inverse=True)
        start = np.unique(chunk, return_index=True)[1]
        means = _beta(means[start], world.chunk, rng)[chunk.ravel()]
    relative = world.relative[queries.buckets]
    if world.clusters:
        slopes = world.cluster_slopes * rng.uniform(-1, 1, world.clusters)
        along = queries.buckets / (world.n_buckets - 1) - 0.5
        relative = relative * (1 + slopes[documents % world.clusters] * along)
    return np.minimum(means * relative, 1.0)


def _beta(means: FloatArray, correlation: float, rng: np.random.Generator) -> FloatArray:
    """Levels with these means; two 0-1 draws of one level have this correlation."""
    if not correlation:
        return means
    means = np.clip(means, 1e-3, 1 - 1e-3)
    weight = 1 / correlation - 1
    return rng.beta(means * weight, (1 - means) * weight)


@cache
def _cumulative_shares() -> FloatArray:
    """Chances of at most each score for means 0, 1/GRID, ... 1: (GRID + 1, n_levels)."""
    slopes = np.linspace(-80, 80, 20_001)
    shares = np.log(SHARES) + slopes[:, None] * (LEVELS - 0.5)
    shares = np.exp(shares - shares.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    means, wanted = shares @ LEVELS, np.arange(1, GRID) / GRID
    above = np.searchsorted(means, wanted)
    part = ((wanted - means[above - 1]) / (means[above] - means[above - 1]))[:, None]
    mixed = shares[above - 1] * (1 - part) + shares[above] * part  # of exactly the wanted mean
    ends = np.eye(len(LEVELS))
    return np.cumsum(np.vstack([ends[0], mixed, ends[-1]]), axis=1)


def draw_scores(means: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Scores of nDCG@10 with these expected values."""
    low = np.minimum(np.floor(means * GRID), GRID - 1)
    number = (low + (rng.random(len(means)) < means * GRID - low)).astype(np.int64)
    chosen = (rng.random(len(means))[:, None] > _cumulative_shares()[number]).sum(axis=1)
    return LEVELS[np.minimum(chosen, len(LEVELS) - 1)]


def draw_hits(means: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Scores of 0 or 1 with these expected values."""
    return (rng.random(len(means)) < means).astype(np.float64)


@dataclass(frozen=True)
class Sample:
    """One simulated benchmark with its scores."""

    queries: Queries
    scores: FloatArray
    n_buckets: int
    clusters: IntArray | None = None

    @property
    def table(self) -> DocumentTable:
        """Queries and scores by document and bucket."""
        return self.table_of(self.scores)

    def table_of(self, scores: FloatArray) -> DocumentTable:
        """The same of other scores."""
        index = np.arange(len(scores))
        return document_table(
            scores,
            self.queries.documents,
            index,
            self.queries.buckets,
            n_buckets=self.n_buckets,
            units=self.clusters,
        )

    def row(self, *, seen: BoolArray | None = None) -> RowData:
        """What `estimate_row` takes."""
        q = self.queries
        return RowData(
            self.scores, q.documents, q.lengths, q.positions, seen=seen, clusters=self.clusters
        )


def draw(world: World, rng: np.random.Generator) -> Sample:
    """One benchmark of this world."""
    queries = draw_queries(world, rng)
    means = expected_scores(world, queries, rng)
    scores = draw_hits(means, rng) if world.hits else draw_scores(means, rng)
    clusters = queries.documents % world.clusters if world.clusters else None
    return Sample(queries, scores, world.n_buckets, clusters)


@cache
def true_bucket_means(world: World, n_queries: int = 2_000_000) -> tuple[float, ...]:
    """Bucket means of the whole population, from expected scores of a very large sample.

    The standard error is below .001 in every bucket used for a target.
    """
    rng = np.random.default_rng([7, *repr(world).encode()])
    sums = np.zeros((2, world.n_buckets))
    for _ in range(4):
        part = World(**{**vars(world), "n_queries": n_queries // 4})
        queries = draw_queries(part, rng)
        expected = expected_scores(part, queries, rng)
        sums += [
            np.bincount(queries.buckets, weights=expected, minlength=world.n_buckets),
            np.bincount(queries.buckets, minlength=world.n_buckets),
        ]
    return tuple(sums[0] / sums[1])


def true_raw_psi(world: World) -> float:
    """PSI of the population's bucket means, which the published PSI estimates."""
    if not world.length_effect:
        return 1 - float(world.relative.min())  # documents in all buckets are alike
    means = true_bucket_means(world)
    return 1 - min(means) / max(means)


# --- Two systems on the same queries -----------------------------------------------------------


@dataclass(frozen=True)
class Pair:
    """Two systems' scores on the queries of a layout.

    Attributes
    ----------
    scale : str
        Where the difficulty that both share lives: "hit" (each finds a constant share of what can
        be found), "miss" (each misses a constant share), "logit" (each has a constant added to
        the log odds), "none" (noise of each query's own).
    means : (float, float)
        Mean scores, about.
    psi : (float, float)
        Position effect of each; for a comparison's null equal. On the hit scale it is the PSI, on
        the miss scale the same of misses, on the logit scale the fall of the log odds.
    """

    scale: str
    layout: str = "squad"
    n_queries: int = 1200
    means: tuple[float, float] = (0.8, 0.4)
    psi: tuple[float, float] = (0.0, 0.0)
    correlation: float = 0.2


def draw_pair(pair: Pair, rng: np.random.Generator) -> tuple[Queries, FloatArray, FloatArray]:
    """Queries, and 0-1 scores of both systems."""
    world = World(layout=pair.layout, n_queries=pair.n_queries)
    queries = draw_queries(world, rng)
    n_documents = int(queries.documents.max()) + 1
    along = queries.buckets / (world.n_buckets - 1)
    shared = rng.standard_normal(n_documents)[queries.documents]
    own = rng.standard_normal(len(along))
    level = _beta(np.full(n_documents, 0.8), pair.correlation, rng)[queries.documents]
    scores = []
    for mean, psi in zip(pair.means, pair.psi, strict=True):
        if pair.scale == "logit":
            centre = np.log(mean / (1 - mean)) * 1.35  # the effects below pull means to .5
            chance = 1 / (1 + np.exp(-(centre + shared + own - psi * (along - 0.35))))
        elif pair.scale == "hit":
            chance = mean / 0.8 * level * (1 - psi * along)
        elif pair.scale == "miss":
            chance = 1 - (1 - mean) / 0.8 * level * (1 - psi * along)
        else:
            alone = _beta(np.full(n_documents, mean), pair.correlation, rng)[queries.documents]
            chance = alone * (1 - psi * along)
        scores.append((rng.random(len(chance)) < chance).astype(np.float64))
    return queries, scores[0], scores[1]
