"""The pages of the running interpreter's documentation: its topics and its modules.

Docstrings of source files are read from the syntax tree: nothing is imported or run.
"""

import ast
import importlib
import sysconfig
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from types import BuiltinFunctionType

from psibench.errors import InputError
from psibench.text.paragraphs import prose_paragraphs

# Compiled modules of every CPython: importing them has no side effect and needs no other library.
COMPILED_MODULES = (
    "builtins _io itertools math cmath time posix nt sys _functools _collections _operator _struct "
    "_socket select _thread _json _random _datetime array zlib _bisect _heapq _pickle gc marshal "
    "_codecs _contextvars _asyncio _signal faulthandler mmap unicodedata _csv _sre atexit binascii"
).split()
# Folders that are no library: third-party packages, test suites, an editor, demonstrations.
SKIPPED_FOLDERS = frozenset(
    {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__", "turtledemo"}
)


@dataclass(frozen=True)
class Page:
    """One topic or module: its name, where it was read, its prose paragraphs in order."""

    name: str
    origin: str
    paragraphs: list[str]


@dataclass(frozen=True)
class Docstring:
    """One docstring: what it documents (``module:Class.method``, or the module) and its text."""

    name: str
    text: str


def python_pages() -> Iterator[Page]:
    """Yield all pages: topics, public modules, compiled modules, private modules.

    Raises
    ------
    InputError
        If the interpreter ships without its topics or without its library's source files.
    """
    yield from _topic_pages()
    root = Path(sysconfig.get_path("stdlib"))
    files = [(module_name(path, root), path) for path in source_files(root)]
    if not files:
        raise InputError(
            f"no standard-library source files under {root}; use a Python that ships with them, "
            "or another source of documents"
        )
    private = [item for item in files if item[0].startswith("_")]
    for name, path in [item for item in files if not item[0].startswith("_")]:
        yield _module_page(name, read_docstrings(path, name))
    yield from _compiled_pages()
    for name, path in private:
        yield _module_page(name, read_docstrings(path, name))


def _topic_pages() -> Iterator[Page]:
    """Yield the language topics, longest first: short ones are mostly sections of long ones."""
    try:
        topics: dict[str, str] = importlib.import_module("pydoc_data.topics").topics
    except ImportError as error:
        raise InputError(
            "this Python ships without pydoc_data, its documentation topics; install the "
            "distribution's full standard library, or use another source of documents"
        ) from error
    for name, text in sorted(topics.items(), key=lambda item: (-len(item[1]), item[0])):
        slug = f"topic.{name.replace(' ', '_')}"
        yield Page(slug, f"pydoc_data.topics:{name}", prose_paragraphs(text))


def _compiled_pages() -> Iterator[Page]:
    for name in COMPILED_MODULES:
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue  # posix and nt exclude each other; a build may leave others out
        yield _module_page(name, list(_object_docstrings(module, name)))


def _object_docstrings(module: object, name: str) -> Iterator[Docstring]:
    """Yield the docstrings of a module object, its functions, classes and their own methods."""
    yield Docstring(name, _doc(module))
    for key, value in sorted(vars(module).items()):
        if isinstance(value, type | BuiltinFunctionType) and not key.startswith("__"):
            yield Docstring(f"{name}:{key}", _doc(value))
        if isinstance(value, type):
            for inner, member in sorted(vars(value).items()):
                if not inner.startswith("__"):
                    yield Docstring(f"{name}:{key}.{inner}", _doc(member))


def _doc(thing: object) -> str:
    text = getattr(thing, "__doc__", None)
    return text if isinstance(text, str) else ""


def _module_page(module: str, docstrings: list[Docstring]) -> Page:
    """Make one page of a module's docstrings; each one's first paragraph starts with its name."""
    paragraphs: list[str] = []
    for name, group in groupby(docstrings, key=lambda doc: doc.name):
        prose = [p for doc in group for p in prose_paragraphs(doc.text)]
        if prose:
            prose[0] = f"{name.rpartition(':')[2]}: {prose[0]}"
        paragraphs += prose
    return Page(module, f"{module} (docstrings)", paragraphs)


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
