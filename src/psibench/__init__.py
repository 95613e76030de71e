"""Position-aware retrieval benchmarks and the Position Sensitivity Index."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from psibench.publish.frameworks import haystack_search, langchain_search, llamaindex_search
    from psibench.publish.retriever import Corpus, Evaluation, Search, evaluate

__version__ = "0.1.0"
__all__ = [
    "Corpus",
    "Evaluation",
    "Search",
    "__version__",
    "evaluate",
    "haystack_search",
    "langchain_search",
    "llamaindex_search",
]


def __getattr__(name: str) -> Any:
    """Import the Python API on first use, because commands do not need it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "frameworks" if name.endswith("_search") else "retriever"
    return getattr(import_module(f"psibench.publish.{module}"), name)
