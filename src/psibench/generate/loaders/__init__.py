"""Recipes that ask no language model: from a source to a benchmark's tables in one step.

A module here has one subclass of ``Loader``, the benchmark's config section, which
`psibench.generate.benchmarks` names.
"""

import random

from psibench.errors import InputError
from psibench.generate.base import BenchmarkBase, Build
from psibench.text.lengths import TokenCounter


class NothingLeftError(InputError):
    """No query is left in one language and domain, or no document where a recipe has no queries.

    ``build`` has the tables without them, and what was dropped.
    """

    def __init__(self, problem: str, build: Build) -> None:
        super().__init__(problem)
        self.build = build

    def under(self, where: str) -> "NothingLeftError":
        """Return the same error with the place it was found at in front."""
        return NothingLeftError(f"{where}: {self}", self.build)


class Loader(BenchmarkBase):
    """What such a recipe's section has beside its keys.

    ``recipe``, ``source`` and ``buckets`` (schemes of evidence positions) are among these, and
    ``queries_by``, who wrote the queries, where one may ask.
    """

    def build(self, count_tokens: TokenCounter) -> Build:
        """Make the tables of one place: one language and domain.

        Raises
        ------
        InputError
            If the source cannot be read.
        NothingLeftError
            If no query is left.
        """
        raise NotImplementedError


def shuffled(n: int, *, seed: int) -> list[int]:
    """Return the numbers below ``n`` shuffled by Python's `random`, as the authors draw."""
    order = list(range(n))
    random.Random(seed).shuffle(order)
    return order
