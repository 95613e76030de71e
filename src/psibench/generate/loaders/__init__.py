"""Recipes that need no language model: they make a benchmark's tables from a source in one step.

Each module has one subclass of ``Loader``, the benchmark's config section;
`psibench.generate.benchmarks` lists them.
"""

import random

from psibench.errors import InputError
from psibench.generate.base import BenchmarkBase, Build
from psibench.text.lengths import TokenCounter


class NothingLeftError(InputError):
    """No query is left in one language and domain, or no document if the recipe has no queries.

    ``build`` has the empty tables and the dropped rows.
    """

    def __init__(self, problem: str, build: Build) -> None:
        super().__init__(problem)
        self.build = build

    def under(self, where: str) -> "NothingLeftError":
        """Return the same error with a location in front of its message."""
        return NothingLeftError(f"{where}: {self}", self.build)


class Loader(BenchmarkBase):
    """Base of the config sections of loading recipes.

    Each section has the keys ``recipe``, ``source`` and ``buckets`` (schemes of evidence
    positions), and ``queries_by`` (who wrote the queries) unless the recipe decides that.
    """

    def build(self, count_tokens: TokenCounter) -> Build:
        """Make the tables of one place, i.e. one language and domain.

        Raises
        ------
        InputError
            If the source cannot be read.
        NothingLeftError
            If no query is left.
        """
        raise NotImplementedError


def shuffled(n: int, *, seed: int) -> list[int]:
    """Return the numbers below ``n``, shuffled by Python's `random` as the authors do."""
    order = list(range(n))
    random.Random(seed).shuffle(order)
    return order
