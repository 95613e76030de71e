"""Recipes that ask no language model: from a source to a benchmark's tables in one step.

A module here has one subclass of ``Loader``, the benchmark's config section. Nothing else names
it: the config takes it by what its ``recipe`` says.
"""

from functools import cache

from psibench.config.base import find_sections
from psibench.generate.base import BenchmarkBase, Build
from psibench.text.lengths import TokenCounter


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
            If the source cannot be read, or no query is left.
        """
        raise NotImplementedError


@cache
def loaders() -> dict[str, type[Loader]]:
    """Find the sections of all modules here, by what ``recipe`` says."""
    return find_sections(__name__, Loader, "recipe")
