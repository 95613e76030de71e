"""Studies are run by hand: what they import of psibench has to be there."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parents[2] / "studies").rglob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_names_that_a_study_imports_are_there(script):
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("psibench"):
            module = import_module(node.module)
            assert [one.name for one in node.names if not hasattr(module, one.name)] == []
