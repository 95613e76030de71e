"""The pages of the running interpreter's documentation: its topics and its modules."""

import importlib
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from types import BuiltinFunctionType

from psibench.errors import InputError
from psibench.sources.docstrings import Docstring, module_name, read_docstrings, source_files
from psibench.text.paragraphs import prose_paragraphs

# Compiled modules of every CPython: importing them has no side effect and needs no other library.
COMPILED_MODULES = (
    "builtins _io itertools math cmath time posix nt sys _functools _collections _operator _struct "
    "_socket select _thread _json _random _datetime array zlib _bisect _heapq _pickle gc marshal "
    "_codecs _contextvars _asyncio _signal faulthandler mmap unicodedata _csv _sre atexit binascii"
).split()


@dataclass(frozen=True)
class Page:
    """One topic or module: its name, where it was read, its prose paragraphs in order."""

    name: str
    origin: str
    paragraphs: list[str]


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
