"""Studies are run by hand: what they import of psibench is there, and takes what they give it."""

import ast
from collections.abc import Iterator
from importlib import import_module
from inspect import signature
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parents[2] / "studies").rglob("*.py"))
each_script = pytest.mark.parametrize(
    "script", SCRIPTS, ids=lambda path: f"{path.parent.name}/{path.name}"
)


def imported(tree: ast.Module) -> Iterator[tuple[ast.alias, object]]:
    """Yield the names imported from modules of psibench, each with its module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("psibench"):
            module = import_module(node.module)
            yield from ((one, module) for one in node.names)


@each_script
def test_names_that_a_study_imports_are_there(script):
    names = imported(ast.parse(script.read_text(encoding="utf-8")))
    assert [one.name for one, module in names if not hasattr(module, one.name)] == []


@each_script
def test_keywords_that_a_study_gives_are_taken(script):
    tree = ast.parse(script.read_text(encoding="utf-8"))
    there = {one.asname or one.name: getattr(module, one.name) for one, module in imported(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and callable(
            called := there.get(getattr(node.func, "id", ""))
        ):
            given = {one.arg: None for one in node.keywords if one.arg}
            signature(called).bind_partial(**given)
