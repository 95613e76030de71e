"""Config of benchmarks: the sections of all recipes, each beside its recipe."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from psibench.generate.base import PAIR_PATTERN, BenchmarkBase, GeneratedBenchmark
from psibench.generate.controlled import Controlled
from psibench.generate.fineweb_posq import FinewebPosq
from psibench.generate.fineweb_posq_release import FinewebPosqRelease
from psibench.generate.known_item import KnownItem
from psibench.generate.posir import Posir
from psibench.generate.posir_release import PosirRelease
from psibench.generate.squad_posq import SquadPosq

__all__ = [
    "GENERATED_RECIPES",
    "PAIR_PATTERN",
    "Benchmark",
    "BenchmarkBase",
    "Controlled",
    "FinewebPosq",
    "FinewebPosqRelease",
    "GeneratedBenchmark",
    "KnownItem",
    "Posir",
    "PosirRelease",
    "SquadPosq",
    "parse_benchmark",
]

GENERATED_RECIPES: dict[str, type[GeneratedBenchmark]] = {
    "fineweb_posq": FinewebPosq,
    "posir": Posir,
    "controlled": Controlled,
}
Benchmark = Annotated[
    SquadPosq | FinewebPosqRelease | PosirRelease | KnownItem | FinewebPosq | Posir | Controlled,
    Field(discriminator="recipe"),
]


def parse_benchmark(section: Mapping[str, Any]) -> Benchmark:
    """Make a benchmark section from plain data, as a job receives it."""
    parsed: Benchmark = TypeAdapter(Benchmark).validate_python(section)
    return parsed
