"""Position-aware retrieval benchmarks and the Position Sensitivity Index."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from psibench.publish.retriever import Corpus, Evaluation, Search, evaluate

__version__ = "0.1.0"
__all__ = ["Corpus", "Evaluation", "Search", "__version__", "evaluate"]


def __getattr__(name: str) -> Any:
    """Import the Python API on first use, because commands do not need it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from psibench.publish import retriever

    return getattr(retriever, name)
