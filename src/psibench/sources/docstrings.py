"""Docstrings of Python source files, read from the syntax tree: nothing is imported or run."""

import ast
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Folders that are no library: third-party packages, test suites, an editor, demonstrations.
SKIPPED_FOLDERS = frozenset(
    {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__", "turtledemo"}
)


@dataclass(frozen=True)
class Docstring:
    """One docstring: what it documents (``module:Class.method``, or the module) and its text."""

    name: str
    text: str


def source_files(root: Path) -> list[Path]:
    """List the library's ``.py`` files under ``root``, sorted by path; none if it is no folder.

    Folders named in `SKIPPED_FOLDERS` or with a hyphen in their name (they cannot be imported as
    a package) are left out.
    """
    files = []
    for path in root.rglob("*.py"):
        folders = path.relative_to(root).parts[:-1]
        if not any(name in SKIPPED_FOLDERS or "-" in name for name in folders):
            files.append(path)
    return sorted(files, key=lambda path: path.relative_to(root).parts)


def module_name(path: Path, root: Path) -> str:
    """Give the dotted name of the module in ``path`` (a package for ``__init__.py``)."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def read_docstrings(path: Path, module: str) -> list[Docstring]:
    """Read a source file's docstrings in source order: the module's, then of classes, functions.

    Definitions inside functions are left out. A file that cannot be decoded or parsed has none.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a source's own invalid escapes are not ours
            tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return []
    own = ast.get_docstring(tree)
    found = [Docstring(module, own)] if own else []
    return found + [Docstring(f"{module}:{name}", text) for name, text in _definitions(tree, "")]


def _definitions(node: ast.AST, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield (qualified name, docstring) of the definitions below ``node``."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            name = f"{prefix}{child.name}"
            text = ast.get_docstring(child)
            if text:
                yield name, text
            if isinstance(child, ast.ClassDef):
                yield from _definitions(child, f"{name}.")
        elif isinstance(child, ast.If | ast.Try | ast.With | ast.ExceptHandler):
            yield from _definitions(child, prefix)
