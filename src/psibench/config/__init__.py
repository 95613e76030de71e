"""Typed config: sections, loading, JSON schema.

A name is imported when it is asked for. A section stands beside the code that reads it, so that
whoever imports one section need not import them all.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from psibench.config.benchmarks import Benchmark, KnownItem, SquadPosq, parse_benchmark
    from psibench.config.load import load_config, merge, validate
    from psibench.config.models import Bm25Model, Model, SentenceTransformerModel, StaticModel
    from psibench.config.registry import load_registry, parse_model, read_yaml
    from psibench.config.schema import schema_text, write_schema
    from psibench.config.sections import Encoding, Search, Uncertainty
    from psibench.config.settings import Config
    from psibench.config.sources import FilesSource, HubSource, PythonDocsSource, SquadSource

_MODULES = {
    "benchmarks": "Benchmark KnownItem SquadPosq parse_benchmark",
    "load": "load_config merge validate",
    "models": "Bm25Model Model SentenceTransformerModel StaticModel",
    "registry": "load_registry parse_model read_yaml",
    "schema": "schema_text write_schema",
    "sections": "Encoding Search Uncertainty",
    "settings": "Config",
    "sources": "FilesSource HubSource PythonDocsSource SquadSource",
}
_PLACES = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = [
    "Benchmark",
    "Bm25Model",
    "Config",
    "Encoding",
    "FilesSource",
    "HubSource",
    "KnownItem",
    "Model",
    "PythonDocsSource",
    "Search",
    "SentenceTransformerModel",
    "SquadPosq",
    "SquadSource",
    "StaticModel",
    "Uncertainty",
    "load_config",
    "load_registry",
    "merge",
    "parse_benchmark",
    "parse_model",
    "read_yaml",
    "schema_text",
    "validate",
    "write_schema",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
