"""Position and length buckets, and the assignment of queries to buckets.

Four schemes: ``squad`` (SQuAD-PosQ's ranges of the start of the evidence, in characters),
``thirds`` (beginning, middle, end: one per query), ``thirds-every-tag`` (the same, but a query
counts in each third of its tags, like Myopic's Table 1) and ``relative-N`` (N equal bins of the
relative position of the evidence's middle; PosIR uses relative-20).

Evidence in several thirds is ``mixed``: in no bucket of ``thirds``, and in several buckets of
``thirds-every-tag``. ``squad`` and ``relative-N`` need a single span; a query with several spans,
or with only a class, is in none of their buckets.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import polars as pl

from psibench.errors import InputError
from psibench.text.lengths import MOST_TEXT_CHARS

THIRDS = ("beginning", "middle", "end")
MIXED = "mixed"
"""Class of evidence in several thirds."""
UNKNOWN = "unknown"
"""Class of evidence that was not found in its document; in means, but in no bucket."""
EVERY_TAG = "thirds-every-tag"
SQUAD_EDGES = (0, 100, 200, 300, 400, 500, 3120)
LENGTH_EDGES = (0, 512, 1024, 1536)
LENGTH_BUCKETS = ("Q1", "Q2", "Q3", "Q4")
MOST_LENGTH_EDGES = 8
DEFAULT_SCHEMES = ("thirds", "squad", "relative-20")
MAX_RELATIVE_BINS = 1000


@dataclass(frozen=True)
class Bucket:
    """One bucket; ``low`` and ``high`` are in characters or shares of length, by scheme."""

    label: str
    low: float
    high: float


@dataclass(frozen=True)
class BucketScheme:
    """A named list of buckets; ``rule`` is the key of its membership rule."""

    name: str
    rule: str
    buckets: tuple[Bucket, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """Bucket labels in order."""
        return tuple(bucket.label for bucket in self.buckets)

    @property
    def needs_span(self) -> bool:
        """Whether buckets depend on a query's single span, not on its class of evidence."""
        return self.rule in ("start_char", "relative")


@dataclass(frozen=True)
class Memberships:
    """Query ``query_index[i]`` is in bucket ``bucket_index[i]``; int64 ``(n_memberships,)`` each.

    Ordered by query, then bucket. A query may occur several times or not at all.
    """

    query_index: np.ndarray
    bucket_index: np.ndarray

    def among(self, chosen: np.ndarray) -> "Memberships":
        """Return the memberships of chosen queries, bool ``(n_queries,)``, renumbered from 0."""
        held = chosen[self.query_index]
        number = np.cumsum(chosen) - 1
        return Memberships(number[self.query_index[held]], self.bucket_index[held])


def bucket_scheme(name: str) -> BucketScheme:
    """Return the scheme ``squad``, ``thirds``, ``thirds-every-tag`` or ``relative-N`` by name."""
    if name == "squad":
        pairs = zip(SQUAD_EDGES[:-1], SQUAD_EDGES[1:], strict=True)
        return BucketScheme(
            name, "start_char", tuple(Bucket(f"{low}-{high}", low, high) for low, high in pairs)
        )
    if name in ("thirds", EVERY_TAG):
        thirds = (Bucket(label, i / 3, (i + 1) / 3) for i, label in enumerate(THIRDS))
        rule = "target_position" if name == "thirds" else "target_positions"
        return BucketScheme(name, rule, tuple(thirds))
    match = re.fullmatch(r"relative-([1-9][0-9]{0,3})", name)
    if match is None or int(match[1]) > MAX_RELATIVE_BINS:
        raise InputError(
            f"unknown bucket scheme {name!r}; allowed: squad, thirds, {EVERY_TAG}, "
            f"relative-N with N from 1 to {MAX_RELATIVE_BINS}"
        )
    return BucketScheme(name, "relative", _relative_buckets(int(match[1])))


def fitting_schemes(spans: pl.Series) -> tuple[str, ...]:
    """Return the default schemes; if all spans are null, only schemes by class of evidence."""
    by_span = spans.count() > 0
    return tuple(name for name in DEFAULT_SCHEMES if by_span or not bucket_scheme(name).needs_span)


def _relative_buckets(n_bins: int) -> tuple[Bucket, ...]:
    digits = max(2, len(str(n_bins)))
    edges = [i / n_bins for i in range(n_bins + 1)]
    return tuple(
        Bucket(f"{low:.{digits}f}-{high:.{digits}f}", low, high)
        for low, high in zip(edges[:-1], edges[1:], strict=True)
    )


def assign(frame: pl.DataFrame, scheme: BucketScheme) -> Memberships:
    """Assign queries to the buckets of a scheme.

    Parameters
    ----------
    frame : (n_queries, ...) frame
        Columns of the query-scores table: ``span_start_char`` for squad, ``target_position`` for
        thirds, ``target_positions`` for thirds-every-tag, ``span_mid_char`` and
        ``pos_char_length`` for relative-N.
    scheme : the buckets.

    Returns
    -------
    Memberships
        squad: both ends are inclusive, so a start of exactly 100 is in two buckets, and a start
        beyond 3120 in none. thirds-every-tag: a query with two tags is in two buckets. thirds and
        relative-N: one bucket per query; none for ``mixed``, ``unknown`` or a null span.
        relative-N: right-closed bins, the first includes 0, computed with integers, so that
        rounding never moves a middle across an edge.
    """
    inside = _RULES[scheme.rule](frame, scheme)
    query_index, bucket_index = np.nonzero(inside)
    return Memberships(query_index.astype(np.int64), bucket_index.astype(np.int64))


def _by_start(frame: pl.DataFrame, scheme: BucketScheme) -> np.ndarray:
    start = frame.get_column("span_start_char").to_numpy()[:, None]
    low = np.array([bucket.low for bucket in scheme.buckets])
    high = np.array([bucket.high for bucket in scheme.buckets])
    return (start >= low) & (start <= high)


def _by_target(frame: pl.DataFrame, scheme: BucketScheme) -> np.ndarray:
    target = frame.get_column("target_position").to_numpy()[:, None]
    return target == np.array(scheme.labels, dtype=object)


def _by_every_target(frame: pl.DataFrame, scheme: BucketScheme) -> np.ndarray:
    tags = frame.get_column("target_positions").str.split(", ")
    return np.column_stack([tags.list.contains(label).to_numpy() for label in scheme.labels])


def _by_relative_position(frame: pl.DataFrame, scheme: BucketScheme) -> np.ndarray:
    middle = frame.get_column("span_mid_char")
    twice_mid = np.rint(2 * middle.fill_null(0).to_numpy()).astype(np.int64)
    length = frame.get_column("pos_char_length").fill_null(1).to_numpy().astype(np.int64)
    index = relative_bin(twice_mid, length, n_bins=len(scheme.buckets))
    inside: np.ndarray = index[:, None] == np.arange(len(scheme.buckets))
    return inside & middle.is_not_null().to_numpy()[:, None]


_RULES: dict[str, Callable[[pl.DataFrame, BucketScheme], np.ndarray]] = {
    "start_char": _by_start,
    "target_position": _by_target,
    "target_positions": _by_every_target,
    "relative": _by_relative_position,
}


def relative_bin(twice_mid: np.ndarray, length: np.ndarray, *, n_bins: int) -> np.ndarray:
    """Right-closed bin of min(mid, length) / length among n equal bins; the first includes 0.

    ``twice_mid`` (span start + end) and ``length`` are int64 ``(n,)``, in characters. Returns
    int64 ``(n,)`` in 0..n_bins - 1.
    """
    clipped = np.minimum(twice_mid, 2 * length)
    return np.maximum(-(-n_bins * clipped // (2 * length)) - 1, 0)


def class_of(positions: pl.Expr) -> pl.Expr:
    """Return the class of a list of thirds: the only third, or mixed; null if empty."""
    held = positions.list.unique().list.len()
    return pl.when(held == 1).then(positions.list.first()).when(held > 1).then(pl.lit(MIXED))


def third_of_span(start: pl.Expr, end: pl.Expr, length: pl.Expr) -> pl.Expr:
    """Return the third of a span's middle: beginning, middle or end; keeps null."""
    return pl.struct(twice_mid=start + end, length=length).map_batches(
        _thirds_of, return_dtype=pl.String
    )


def _thirds_of(spans: pl.Series) -> pl.Series:
    known = spans.struct.unnest()
    filled = known.fill_null(1)
    twice_mid, length = (filled.get_column(name).to_numpy() for name in known.columns)
    names = np.array(THIRDS, dtype=object)[relative_bin(twice_mid, length, n_bins=3)]
    thirds = pl.Series(names, dtype=pl.String)
    lacking = known.select(pl.any_horizontal(pl.all().is_null())).to_series()
    return thirds.set(lacking, None)


def length_bucket(tokens: pl.Expr, edges: Sequence[int] = LENGTH_EDGES[1:]) -> pl.Expr:
    """Return the right-closed bucket of a token count between edges; keeps null.

    With PosIR's edges the buckets are Q1..Q4: (0, 512], (512, 1024], (1024, 1536], above. Other
    buckets have their tokens in the name, e.g. ``L2 2049-8192``, to differ from PosIR's.
    """
    labels: Sequence[str] = LENGTH_BUCKETS
    if tuple(edges) != LENGTH_EDGES[1:]:
        ends = [f"{low + 1}-{high}" for low, high in pairwise((0, *edges))]
        labels = [f"L{i} {end}" for i, end in enumerate([*ends, f"above {edges[-1]}"], 1)]
    return tokens.cut(edges, labels=labels, left_closed=False).cast(pl.String)


def refuse_odd_edges(edges: Sequence[int]) -> Sequence[int]:
    """Return the edges of length buckets; raise InputError unless they increase and are few."""
    rising = all(low < high for low, high in pairwise((0, *edges)))
    if not rising or not 1 <= len(edges) <= MOST_LENGTH_EDGES or edges[-1] > MOST_TEXT_CHARS:
        raise InputError(
            f"edges of length buckets {list(edges)}; allowed: 1 to {MOST_LENGTH_EDGES} increasing "
            "numbers of tokens, e.g. 2048 8192 16384"
        )
    return edges


def edges_of(length_buckets: bool | Sequence[int]) -> Sequence[int]:
    """Return the edges of a length-bucket setting, by default PosIR's."""
    return (
        LENGTH_EDGES[1:] if isinstance(length_buckets, bool) else refuse_odd_edges(length_buckets)
    )
