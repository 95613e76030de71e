"""Which module may import which: one way, and never in a circle."""

import ast
from fnmatch import fnmatchcase
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"

LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "reading", "plain_yaml", "progress", "stopping"),
    # Locks of heads: no job may begin without them.
    ("text", "tables", "store", "cluster.head_lock"),
    # What a config file says of one thing, as far as no room has it: sections, registries, paths.
    ("config",),
    ("sources", "formats", "llm", "models", "rerankers", "encode", "search", "metrics"),
    ("generate", "filters", "translate", "train", "probes"),
    ("all_tables", "report", "publish"),
    # The whole config, and what follows from it.
    ("plan",),
    ("cluster", "commands", "cli"),
)
"""Lowest first. A module belongs to the layer of its own name, or else of the folder it is in, and
imports from its own layer and those below."""

UP = {
    # A backend that is one module has its section of the registry beside its encoder.
    ("config.models", "models.backends"),
    ("config.models", "models.backends.static"),
}
"""Imports from a layer above that are still there, and why. No new ones."""

AROUND = {
    # Tables of all domains are written by the writer of tables, which takes their parts.
    ("tables.domains", "tables.io"),
}
"""Imports inside a function that close a circle, and why. No new ones."""


def modules(source: Path = SOURCE) -> dict[str, Path]:
    """Files of the package by module, less ``psibench.``."""
    found = {}
    for path in source.rglob("*.py"):
        parts = path.relative_to(source).with_suffix("").parts[1:]
        found[".".join(part for part in parts if part != "__init__")] = path
    return found


def imported(path: Path, known: dict[str, Path]) -> set[str]:
    """The package's modules that a module imports, at the top or inside a function."""
    found = set()
    waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting += node.orelse
            continue
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "psibench":
            of = node.module.removeprefix("psibench").removeprefix(".")
            names = (f"{of}.{alias.name}".removeprefix(".") for alias in node.names)
            found |= {name if name in known else of for name in names}
        elif isinstance(node, ast.Import):
            names = (alias.name for alias in node.names)
            found |= {n.removeprefix("psibench.") for n in names if n.startswith("psibench.")}
        waiting += ast.iter_child_nodes(node)
    return found - {"", next(name for name, one in known.items() if one == path)}


@pytest.fixture(scope="module")
def graph() -> dict[str, set[str]]:
    known = modules()
    return {name: imported(path, known) for name, path in known.items() if name}


def layer(module: str) -> int:
    """The number of a module's layer: of the longest name there that is its own or a folder's."""
    found = [
        (len(name), number)
        for number, names in enumerate(LAYERS)
        for name in names
        if fnmatchcase(module, name) or module.startswith(f"{name}.")
    ]
    assert found, f"{module} is in no layer: put its folder into LAYERS"
    return max(found)[1]


def test_no_module_imports_itself_by_a_detour(graph):
    try:
        TopologicalSorter(
            {name: {o for o in others if (name, o) not in AROUND} for name, others in graph.items()}
        ).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(error.args[1]))


def test_no_module_imports_from_a_layer_above(graph):
    up = {
        (name, other)
        for name, others in graph.items()
        for other in others
        if layer(other) > layer(name)
    }
    assert sorted(up - UP) == []
    assert sorted(UP - up) == [], "these are gone: take them out of UP"


def test_the_exceptions_are_still_there(graph):
    assert {(name, other) for name, other in AROUND if other not in graph[name]} == set()
