"""Recipes that ask no language model: from a source to a benchmark's tables in one step.

A module here has one subclass of ``Loader``, the benchmark's config section. Nothing else names
it: the config takes it by what its ``recipe`` says.
"""

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from psibench.generate.base import BenchmarkBase, Build
from psibench.sources.local import dataset_revisions, local_files
from psibench.text.lengths import TokenCounter


class Loader(BenchmarkBase):
    """What such a recipe's section has beside its keys, ``recipe`` and ``source`` among them."""

    if TYPE_CHECKING:  # a key of each
        source: Any

    def build(self, count_tokens: TokenCounter) -> Build:
        """Make the tables of one place: one language and domain.

        Raises
        ------
        InputError
            If the source cannot be read, or no query is left.
        """
        raise NotImplementedError

    def files(self) -> list[str]:
        """List the local files it is read from, in order; none for a name on the hub."""
        return local_files(self.source)

    def revisions(self) -> dict[str, str]:
        """Return the pinned revision of what is read from the hub, as provenance records it."""
        return dataset_revisions(self.source)


@cache
def loaders() -> dict[str, type[Loader]]:
    """Find the sections of all modules here, by what ``recipe`` says."""
    modules = [import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__)]
    sections = [
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Loader)
        and value.__module__ == module.__name__
    ]
    names = [section.model_fields["recipe"].annotation.__args__[0] for section in sections]  # type: ignore[union-attr]
    return dict(zip(names, sections, strict=True))
