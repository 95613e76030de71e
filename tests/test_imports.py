"""Which module may import which: one way, and never in a circle, of modules or of packages."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
LAYERS: tuple[tuple[str, ...], ...] = (
    (
        *("errors", "importing", "reading", "lines", "plain_yaml", "prefetch", "progress"),
        "stopping",
    ),
    ("text", "tables", "store"),
    # Sections and registries of a config that belong to no other package.
    ("config",),
    ("sources", "formats", "llm", "vllm", "models", "rerankers", "encode", "search", "metrics"),
    ("generate", "filters", "translate", "train", "probes"),
    ("all_tables", "report", "publish"),
    ("papers",),
    # The whole config, and the plan derived from it.
    ("plan",),
    ("cluster", "commands", "cli"),
)
"""Lowest first. A module imports only from its layer and lower layers."""
PAGES = ("report", "publish", "papers")
"""Packages that the plan does not need: how results are shown decides nothing about jobs."""


def modules() -> dict[str, Path]:
    """Files of the package by module, less ``psibench.``."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts[1:]
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


def package(module: str) -> str:
    """A module's package."""
    return module.split(".")[0]


def layer(module: str) -> int:
    found = [number for number, names in enumerate(LAYERS) if package(module) in names]
    assert found, f"{module} is in no layer: put its package into LAYERS"
    return found[0]


def assert_no_circle(graph: dict[str, set[str]]) -> None:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(error.args[1]))


def test_no_module_imports_itself_by_a_detour(graph):
    assert_no_circle(graph)


def test_no_package_imports_itself_by_a_detour(graph):
    packages: dict[str, set[str]] = {}
    for name, others in graph.items():
        packages.setdefault(package(name), set()).update(package(other) for other in others)
    assert_no_circle({name: others - {name} for name, others in packages.items()})


def test_no_module_imports_from_a_layer_above(graph):
    up = {(name, o) for name, others in graph.items() for o in others if layer(o) > layer(name)}
    assert up == set()


def test_only_the_command_show_imports_papers(graph):
    users = {name for name, others in graph.items() if "papers" in map(package, others)}
    assert {name for name in users if package(name) != "papers"} == {"commands.show"}


def test_the_plan_imports_no_pages(graph):
    found = {(n, o) for n, others in graph.items() for o in others if package(n) == "plan"}
    assert {(name, other) for name, other in found if package(other) in PAGES} == set()
