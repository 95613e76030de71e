"""Scripts that are run by hand import existing names and pass known keywords."""

import ast
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from psibench.config.base import Section

ROOT = Path(__file__).parents[1]
SCRIPTS = [
    str(path.relative_to(ROOT))
    for folder in ("studies", "bench", "examples", "tools")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
each_script = pytest.mark.parametrize("script", SCRIPTS)


def imported(tree: ast.Module) -> Iterator[tuple[ast.alias, ModuleType]]:
    """Yield the names imported from modules of psibench, each with its module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("psibench"):
            module = import_module(node.module)
            yield from ((one, module) for one in node.names)


def is_there(name: str, module: ModuleType) -> bool:
    return hasattr(module, name) or find_spec(f"{module.__name__}.{name}") is not None


@each_script
def test_names_that_a_script_imports_are_there(script):
    names = imported(ast.parse((ROOT / script).read_text(encoding="utf-8")))
    assert [one.name for one, module in names if not is_there(one.name, module)] == []


@each_script
def test_keywords_that_a_script_gives_are_taken(script):
    tree = ast.parse((ROOT / script).read_text(encoding="utf-8"))
    there = {
        one.asname or one.name: getattr(module, one.name, None) for one, module in imported(tree)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and callable(
            called := there.get(getattr(node.func, "id", ""))
        ):
            if isinstance(called, type) and issubclass(called, Section):
                called.model_rebuild()  # until it is built it has the signature of its base
            given = {one.arg: None for one in node.keywords if one.arg}
            signature(called).bind_partial(**given)


def test_the_study_of_statements_reads_the_verdicts(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "studies" / "inference"))
    statements = import_module("statements")
    (page,) = (one for one in statements.PAGES if "0.3" in one.name)
    rows = statements.draw_rows(page, np.random.default_rng(0))
    assert statements.contradictions(rows) == []
    model = rows[0] | {"p_adjusted": 0.5, "psi_same_low": 0.1, "psi_same_high": 0.3}
    monkeypatch.setattr(statements, "shown_interval", lambda row, name: (0.1, 0.3))
    assert statements.contradictions([model]) == ["interval and p"]
