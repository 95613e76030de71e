"""Typed config: sections, loading, JSON schema."""

from psibench.config.benchmarks import Benchmark, KnownItem, SquadPosq
from psibench.config.load import (
    load_config,
    load_registry,
    merge,
    parse_benchmark,
    parse_model,
    read_yaml,
    validate,
)
from psibench.config.models import Bm25Model, Model, SentenceTransformerModel, StaticModel
from psibench.config.schema import schema_text, write_schema
from psibench.config.settings import Config, Encoding, Search, Uncertainty
from psibench.config.sources import FilesSource, HubSource, PythonDocsSource, SquadSource

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
