"""How many documents and records an estimate looks at."""

from pathlib import Path
from typing import TypeGuard

import polars as pl

from psibench.build.sampling import quotas
from psibench.config.benchmarks import GeneratedBenchmark, Posir
from psibench.config.generation import Sample
from psibench.config.sources import HubSource
from psibench.errors import InputError
from psibench.recipes.posir import is_drawn

RECORDS_PER_DOCUMENT = 25
"""Records of a source that is not read whole looked at per document of the estimate."""
RECORDS_WITH_CONDITIONS = 200
"""As many where conditions leave some of them out."""
MOST_TO_FIT = 20
"""Documents of one place go up to this if that suits the shares of the length bins better."""


def few_of(section: GeneratedBenchmark, most: int) -> int:
    """Return how many documents stand for those of a source that is not read whole.

    Raises
    ------
    InputError
        If neither ``most`` nor the sample has a number.
    """
    wanted = section.sample.n_documents
    if not most and not wanted:
        name = getattr(section.source, "name", "the source")
        raise InputError(
            f"{name}: all documents of a dataset on the hub, and sample.n_documents is null;"
            " give a number of documents"
        )
    return min(most or wanted or 0, wanted or most)


def share_of_place(sample: Sample, most: int, n_places: int) -> int:
    """Return how many documents each of several places gives to an estimate; 0 for all.

    At least one per length bin, and then, up to 20, the number whose rounding to the bins changes
    their shares the least.
    """
    if not most or n_places == 1:
        return most
    n_bins = len(sample.edges) - 1
    least = max(-(-most // n_places), n_bins)
    if least >= MOST_TO_FIT:
        return least
    shares = sample.shares or [1] * n_bins

    def misfit(n: int) -> float:
        parts = zip(quotas(n, shares), shares, strict=True)
        return sum(abs(part / n - share / sum(shares)) for part, share in parts)

    return min(range(least, MOST_TO_FIT + 1), key=lambda n: (round(misfit(n), 9), n))


def is_remote(source: object) -> TypeGuard[HubSource]:
    """Say whether a source lies on the hub and not on this machine."""
    return isinstance(source, HubSource) and not Path(source.name).is_dir()


def unbounded(sample: Sample) -> str:
    """Say that nobody knows how many documents there will be, where that is so."""
    known = sample.n_documents is not None
    return "" if known else "; sample.n_documents is null: counted for these alone"


def records_for(source: object, n: int) -> int:
    """Return how many records are looked at for ``n`` documents."""
    conditions = bool(getattr(source, "where", None))
    return n * (RECORDS_WITH_CONDITIONS if conditions else RECORDS_PER_DOCUMENT)


def share_asked(section: GeneratedBenchmark) -> float:
    """Return the share of its documents that a benchmark asks about."""
    return section.propose_questions.share if isinstance(section, Posir) else 1.0


def asking_all(section: GeneratedBenchmark) -> GeneratedBenchmark:
    """Return a benchmark's section that asks about every document it is given."""
    if not isinstance(section, Posir):
        return section
    proposing = section.propose_questions.model_copy(update={"share": 1.0})
    return section.model_copy(update={"propose_questions": proposing})


def documents_asked(section: GeneratedBenchmark, documents: pl.DataFrame) -> pl.DataFrame:
    """Keep the documents that a benchmark asks about."""
    if not isinstance(section, Posir):
        return documents
    share, seed = section.propose_questions.share, section.propose_questions.seed
    drawn = [is_drawn(doc_id, share=share, seed=seed) for doc_id in documents["_id"]]
    return documents.filter(pl.Series(drawn, dtype=pl.Boolean))
