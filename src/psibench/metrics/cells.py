"""What a row of the result tables is computed from: labels, scores, memberships and a seed."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import polars as pl

from psibench.errors import InputError
from psibench.metrics.buckets import BucketScheme, Memberships, assign, bucket_scheme
from psibench.metrics.resampled import N_BOOTSTRAP, N_PERMUTATIONS
from psibench.metrics.slices import Slice, evidence_views, row_seed
from psibench.metrics.uncertainty import MIN_BUCKET_SIZE


@dataclass(frozen=True)
class RowLabels:
    """What all rows of one evaluation share; `kind`, the model's, is in the PSI table only.

    Who wrote the queries decides no figure: two evaluations that differ in it alone are equal.
    """

    benchmark: str
    query_lang: str
    corpus_lang: str
    model: str
    kind: str
    queries_by: str = "not recorded"


@dataclass(frozen=True)
class UncertaintySettings:
    """How intervals, null and correction are computed; see `psibench.metrics.uncertainty`."""

    n_bootstrap: int = N_BOOTSTRAP
    n_permutations: int = N_PERMUTATIONS
    level: float = 0.95
    min_bucket_size: int = MIN_BUCKET_SIZE
    seed: int = 42


@dataclass(frozen=True)
class Cell:
    """One row of the PSI table to be: its labels and the scores (n_queries,) it is made of."""

    labels: dict[str, str]
    scheme: BucketScheme
    scores: np.ndarray
    members: Memberships
    seed: int

    def has_figures_of(self, other: "Cell") -> bool:
        """Whether all figures are those of the other: same scores, buckets and seed."""
        return (
            (self.scheme, self.seed) == (other.scheme, other.seed)
            and np.array_equal(self.scores, other.scores)
            and np.array_equal(self.members.query_index, other.members.query_index)
            and np.array_equal(self.members.bucket_index, other.members.bucket_index)
        )


def cells(
    query_scores: pl.DataFrame,
    pieces: Iterable[Slice],
    *,
    labels: RowLabels,
    metrics: Sequence[str],
    schemes: Sequence[str],
    seed: int,
) -> Iterator[list[Cell]]:
    """Yield, per slice, scheme and metric, one cell per evidence view.

    The seed leaves the evidence view out: views of the same queries get the same figures.
    """
    missing = [name for name in metrics if name not in query_scores.columns]
    if missing:
        raise InputError(f"no scores for the metrics {missing}; found {query_scores.columns}")
    for piece in pieces:
        views = evidence_views(piece.frame)
        for scheme in map(bucket_scheme, schemes):
            members = {name: assign(frame, scheme) for name, frame in views.items()}
            for metric in metrics:
                row = asdict(labels) | {
                    "domain": piece.domain,
                    "length_bucket": piece.length_bucket,
                    "metric": metric,
                    "buckets": scheme.name,
                }
                named = sorted(row.keys() - {"queries_by"})
                own_seed = row_seed(seed, *(row[key] for key in named))
                yield [
                    Cell(
                        row | {"evidence": view},
                        scheme,
                        frame.get_column(metric).to_numpy(),
                        members[view],
                        own_seed,
                    )
                    for view, frame in views.items()
                ]
