"""nDCG, recall and reciprocal rank of one query, as definitions to read and to test against.

The definitions are the usual trec ones (linear gain, discount log2(1 + rank), ideal ranking over
all positives), see Järvelin and Kekäläinen, "Cumulated gain-based evaluation of IR techniques",
2002. Grades of 0 or less are no gain and no positive. `psibench.metrics.ranking` computes the same
for whole tables.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log2

from psibench.errors import InputError


def ndcg_of_query(grades: Sequence[int], positives: Sequence[int], k: int) -> float:
    """nDCG@k: discounted gain of the first k documents over that of the ideal ranking.

    Parameters
    ----------
    grades : grades of the ranked documents from rank 1 on, 0 for a document not in the qrels.
    positives : all grades above 0 of the query, found or not; none gives 0.
    k : documents that count.
    """
    gain = sum(max(grade, 0) / log2(1 + rank) for rank, grade in enumerate(grades[:k], 1))
    best = sorted(positives, reverse=True)[:k]
    ideal = sum(grade / log2(1 + rank) for rank, grade in enumerate(best, 1))
    return gain / ideal if ideal > 0 else 0.0


def recall_of_query(grades: Sequence[int], positives: Sequence[int], k: int) -> float:
    """Recall@k: share of the query's positives among the first k documents; 0 without positives."""
    found = sum(grade > 0 for grade in grades[:k])
    return found / len(positives) if positives else 0.0


def mrr_of_query(grades: Sequence[int], positives: Sequence[int], k: int) -> float:
    """MRR@k: 1 / rank of the first positive among the first k documents; 0 if there is none."""
    ranks = [rank for rank, grade in enumerate(grades[:k], 1) if grade > 0]
    return 1 / ranks[0] if ranks and positives else 0.0


def tie_averaged_ndcg_of_query(
    grades: Sequence[int], positives: Sequence[int], k: int, scores: Sequence[float]
) -> float:
    """nDCG@k, the mean over all orders of documents of equal score.

    McSherry and Najork, "Computing Information Retrieval Performance Measures Efficiently in the
    Presence of Tied Scores", ECIR 2008: every document gets the mean discount of the ranks that
    documents of its score have. So scikit-learn's ``ndcg_score`` does it, and with it the published
    figures of SQuAD-PosQ and FineWeb-PosQ.

    Parameters
    ----------
    scores : of the ranked documents, from rank 1 on.
    grades, positives, k : as of `ndcg_of_query`; ``grades`` of all documents, also beyond k.
    """
    gain = 0.0
    for grade, score in zip(grades, scores, strict=True):
        ranks = [rank for rank, other in enumerate(scores, 1) if other == score]
        discounts = sum(1 / log2(1 + rank) for rank in ranks if rank <= k)
        gain += max(grade, 0) * discounts / len(ranks)
    best = sorted(positives, reverse=True)[:k]
    ideal = sum(grade / log2(1 + rank) for rank, grade in enumerate(best, 1))
    return gain / ideal if ideal > 0 else 0.0


DEFINITIONS: dict[str, Callable[[Sequence[int], Sequence[int], int], float]] = {
    "ndcg": ndcg_of_query,
    "recall": recall_of_query,
    "mrr": mrr_of_query,
}

TIE_AVERAGED = "ndcg-tie-averaged"
KINDS = (*DEFINITIONS, TIE_AVERAGED)

DEFAULT_METRICS = (
    "ndcg@10",
    "recall@5",
    "recall@10",
    "recall@20",
    "recall@30",
    "recall@50",
    "recall@100",
    "mrr@10",
)
HEADLINE_METRICS = ("ndcg@10", "recall@10", "mrr@10")


@dataclass(frozen=True)
class Metric:
    """A metric with its cut-off: kind is one of `KINDS`, k the documents that count."""

    kind: str
    k: int

    @property
    def name(self) -> str:
        """The column name, e.g. ``ndcg@10``."""
        return f"{self.kind}@{self.k}"


def parse_metric(name: str, *, also: Sequence[str] = ()) -> Metric:
    """Read a metric name such as ``ndcg@10``; InputError if it names none.

    ``also``: kinds that are allowed beside `KINDS`.
    """
    match = re.fullmatch(r"([a-z-]+)@([1-9][0-9]*)", name)
    if match is None or match[1] not in (*KINDS, *also):
        allowed = ", ".join(f"{kind}@K" for kind in (*KINDS, *also))
        raise InputError(f"unknown metric {name!r}; allowed: {allowed} with K from 1")
    return Metric(match[1], int(match[2]))


def parse_metrics(names: Sequence[str], *, also: Sequence[str] = ()) -> tuple[Metric, ...]:
    """Read metric names; InputError if there is none, an unknown one or one given twice.

    ``also``: as of `parse_metric`.
    """
    if not names:
        raise InputError("no metric asked for; name at least one, e.g. ndcg@10")
    repeated = sorted({name for name in names if list(names).count(name) > 1})
    if repeated:
        raise InputError(f"metrics given twice: {', '.join(repeated)}; name each once")
    return tuple(parse_metric(name, also=also) for name in names)
