"""Names of metrics; `psibench.metrics.ranking` computes nDCG, recall and reciprocal rank."""

from collections.abc import Sequence
from dataclasses import dataclass

from psibench.errors import InputError
from psibench.reading import shown, whole_number

TIE_AVERAGED = "ndcg-tie-averaged"
"""nDCG, the mean over all orders of documents of equal score (McSherry and Najork, ECIR 2008): as
scikit-learn's ``ndcg_score``, and so the published figures of SQuAD-PosQ and FineWeb-PosQ."""
MOST_RESULTS = 999_999
"""The deepest cut-off: arrays of so many discounts are made."""
KINDS = ("ndcg", "recall", "mrr", TIE_AVERAGED)

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
METRIC_PATTERN = rf"({'|'.join(KINDS)})@[1-9][0-9]{{0,5}}"
"""A regular expression for names of metrics of documents."""
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
    kind, _, cut_off = name.partition("@")
    k = whole_number(cut_off, least=1, most=MOST_RESULTS)
    if k is None or cut_off.startswith("0") or kind not in (*KINDS, *also):
        allowed = ", ".join(f"{kind}@K" for kind in (*KINDS, *also))
        raise InputError(
            f"unknown metric {shown(name)}; allowed: {allowed} with K from 1 to {MOST_RESULTS:,}"
        )
    return Metric(kind, k)


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
