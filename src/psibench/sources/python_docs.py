"""The documentation of the running Python interpreter, as passages of prose.

It has three parts: the language topics of ``pydoc_data``, the docstrings of the standard library's
source files (parsed, not imported), and the docstrings of a fixed list of compiled modules. A page
is one topic or one module; it is cut between paragraphs into passages of varied length.
"""

import ast
import importlib
import sysconfig
import warnings
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from types import BuiltinFunctionType
from typing import Literal

import numpy as np
import polars as pl

from psibench.errors import InputError
from psibench.sources.batches import DOCUMENT_SCHEMA, SourceDocuments
from psibench.tables.dropped import Dropped, dropped_frame, flow_of
from psibench.text.near_duplicates import SeenText
from psibench.text.paragraphs import prose_paragraphs
from psibench.text.passages import EXCERPT_CHARS, cut_passages

_STAGE = "read_python_docs"
MAX_SEEN = 0.5
"""Largest share of a kept paragraph that occurred before."""
DocsPart = Literal["all", "language", "network", "library"]

TOPIC = "topic"
"""First component of the names of topic pages; no module has this name."""
NETWORK_PACKAGES = frozenset(
    """
    _socket _ssl asynchat asyncio asyncore base64 cgi cgitb email ftplib html http imaplib imghdr
    ipaddress json mailbox mailcap mimetypes netrc nntplib poplib quopri select selectors smtpd
    smtplib socket socketserver ssl telnetlib urllib uu uuid webbrowser wsgiref xdrlib xml xmlrpc
    """.split()
)
"""Modules and packages for networks, mail and the web, with their formats."""

# Compiled modules of every CPython; importing them has no side effects.
COMPILED_MODULES = (
    "builtins _io itertools math cmath time posix nt sys _functools _collections _operator _struct "
    "_socket select _thread _json _random _datetime array zlib _bisect _heapq _pickle gc marshal "
    "_codecs _contextvars _asyncio _signal faulthandler mmap unicodedata _csv _sre atexit binascii"
).split()
# Folders outside the library: third-party packages, test suites, an editor, demonstrations.
SKIPPED_FOLDERS = frozenset(
    {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__", "turtledemo"}
)


@dataclass(frozen=True)
class Page:
    """One topic or module: its name, its origin, and its prose paragraphs in order."""

    name: str
    origin: str
    paragraphs: list[str]


Docstring = tuple[str, str]
"""The documented object (``module:Class.method``, or the module), and the text."""


def read_python_docs(
    *, min_words: int = 60, max_words: int = 700, seed: int, part: DocsPart = "all"
) -> SourceDocuments:
    """Read the interpreter's documentation as passages of ``min_words`` to ``max_words`` words.

    The target lengths are squares of uniform draws between the square roots of the bounds, so that
    both short and long passages are common. The rows depend only on the interpreter, the bounds and
    the seed.

    Raises InputError if the interpreter ships without its documentation.

    Parameters
    ----------
    min_words, max_words
        Bounds of a passage, words split at white space, ``1 <= min_words <= max_words``.
    seed
        Seed of the drawn lengths, at least 0.
    part
        Part whose pages are read. A paragraph that repeats another part's text is left out in any
        case, so parts share no text.

    Returns
    -------
    Passages in the order of the documentation, and dropped rows. Reasons: ``duplicate`` (an exact
    repetition of earlier text), ``near_duplicate`` (score: the share of its 5-word shingles that
    occurred before), ``passage_too_short`` and ``passage_too_long`` (score: words). The document of
    an item is its page; ``char_length`` is the length of the item.
    """
    every_page, repeated = _distinct_pages()
    pages = [page for page in every_page if part in ("all", part_of(page.name))]
    dropped = [row for row in repeated if part in ("all", part_of(row.doc_id or ""))]
    documents = []
    for page in pages:
        rng = np.random.default_rng([seed, zlib.crc32(page.name.encode())])
        passages, unfit = (
            ["\n\n".join(page.paragraphs[part.start : part.stop]) for part in parts]
            for parts in cut_passages(page.paragraphs, min_words, max_words, rng)
        )
        slug = page.name.lower()
        documents += [
            {"_id": f"{slug}-{k:03d}", "text": text, "origin": page.origin}
            for k, text in enumerate(passages, start=1)
        ]
        for number, text in enumerate(unfit, start=1):
            n_words = len(text.split())
            reason = "passage_too_short" if n_words < min_words else "passage_too_long"
            dropped.append(_drop(page, "passages", f"unfit-{number:03d}", reason, text, n_words))
    frame = pl.DataFrame(documents, DOCUMENT_SCHEMA)
    left_out = dropped_frame(dropped)
    n_paragraphs = sum(len(page.paragraphs) for page in pages)
    flow = (
        (_STAGE, flow_of("paragraphs", n_paragraphs, left_out)),
        (_STAGE, flow_of("passages", len(documents), left_out)),
    )
    return SourceDocuments(iter([frame]), left_out, flow)


def drop_seen_paragraphs(pages: Iterable[Page]) -> tuple[list[Page], list[Dropped]]:
    """Drop every paragraph of which more than ``MAX_SEEN`` occurred before.

    Pages are read in order, so the first occurrence of an inherited or copied docstring is kept.

    Returns
    -------
    pages, dropped
        Pages with the remaining paragraphs, without empty pages, and one row per dropped paragraph.
    """
    seen, kept = SeenText(), []
    dropped: list[Dropped] = []
    for page in pages:
        paragraphs = []
        for number, paragraph in enumerate(page.paragraphs, start=1):
            body = paragraph.partition(": ")[2] or paragraph
            share = seen.share(body)
            if share > MAX_SEEN:
                reason = "duplicate" if share == 1 else "near_duplicate"
                suffix = f"p{number:03d}"
                dropped.append(_drop(page, "paragraphs", suffix, reason, paragraph, share))
            else:
                seen.remember(body)
                paragraphs.append(paragraph)
        if paragraphs:
            kept.append(Page(page.name, page.origin, paragraphs))
    return kept, dropped


@cache
def _distinct_pages() -> tuple[list[Page], list[Dropped]]:
    """Return all pages without repeated paragraphs; cached for the other parts of a job."""
    return drop_seen_paragraphs(python_pages())


def _drop(page: Page, unit: str, suffix: str, reason: str, text: str, score: float) -> Dropped:
    slug = page.name.lower()
    facts = (f"{slug}-{suffix}", slug, reason, text[:EXCERPT_CHARS], float(score))
    return Dropped(_STAGE, unit, *facts, char_length=len(text))


def part_of(name: str) -> DocsPart:
    """Return the part that a page belongs to, by its name, ignoring case."""
    package = name.lower().partition(".")[0]
    if package == TOPIC:
        return "language"
    return "network" if package in NETWORK_PACKAGES else "library"


# --- The pages: topics and modules


def python_pages() -> Iterator[Page]:
    """Yield all pages: topics, public modules, compiled modules, private modules.

    Raises InputError if the interpreter ships without its topics or without its library's source
    files.
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
    for name, path in (item for item in files if not item[0].startswith("_")):
        yield _module_page(name, read_docstrings(path, name))
    import asyncio  # noqa: F401 - importing _asyncio first would give two current tasks

    for name in COMPILED_MODULES:
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue  # a system has either posix or nt; a build may lack other modules
        yield _module_page(name, _object_docstrings(module, name))
    for name, path in private:
        yield _module_page(name, read_docstrings(path, name))


def _topic_pages() -> Iterator[Page]:
    """Yield the language topics, longest first: short ones are mostly sections of long ones."""
    try:
        topics: dict[str, str] = importlib.import_module("pydoc_data.topics").topics
    except ImportError as error:
        raise InputError(
            "this Python ships without its documentation topics (pydoc_data); install the "
            "distribution's full standard library, or use another source of documents"
        ) from error
    for name, text in sorted(topics.items(), key=lambda item: (-len(item[1]), item[0])):
        slug = f"{TOPIC}.{name.replace(' ', '_')}"
        yield Page(slug, f"pydoc_data.topics:{name}", prose_paragraphs(text))


def _object_docstrings(module: object, name: str) -> Iterator[Docstring]:
    """Yield the docstrings of a module object, its functions, classes and their own methods."""
    yield name, _doc(module)
    for key, value in sorted(vars(module).items()):
        if isinstance(value, type | BuiltinFunctionType) and not key.startswith("__"):
            yield f"{name}:{key}", _doc(value)
        if isinstance(value, type):
            for inner, member in sorted(vars(value).items()):
                if not inner.startswith("__"):
                    yield f"{name}:{key}.{inner}", _doc(member)


def _doc(thing: object) -> str:
    text = getattr(thing, "__doc__", None)
    return text if isinstance(text, str) else ""


def _module_page(module: str, docstrings: Iterable[Docstring]) -> Page:
    """Return a page of a module's docstrings; the first paragraph of each begins with its name."""
    paragraphs: list[str] = []
    for name, group in groupby(docstrings, key=lambda named: named[0]):
        prose = [p for _, text in group for p in prose_paragraphs(text)]
        if prose:
            prose[0] = f"{name.rpartition(':')[2]}: {prose[0]}"
        paragraphs += prose
    return Page(module, f"{module} (docstrings)", paragraphs)


def source_files(root: Path) -> list[Path]:
    """List the library's ``.py`` files under ``root``, sorted by path; empty if it is not a folder.

    Folders in `SKIPPED_FOLDERS`, or with a hyphen in their name (they cannot be imported as a
    package), are left out.
    """
    files = sorted((path.relative_to(root).parts, path) for path in root.rglob("*.py"))
    skipped = (any(one in SKIPPED_FOLDERS or "-" in one for one in way[:-1]) for way, _ in files)
    return [path for (_, path), is_skipped in zip(files, skipped, strict=True) if not is_skipped]


def module_name(path: Path, root: Path) -> str:
    """Return the dotted name of the module in ``path`` (the package for ``__init__.py``)."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def read_docstrings(path: Path, module: str) -> list[Docstring]:
    """Return a source file's docstrings: the module's, then those of classes and functions.

    Definitions inside functions are left out. A file that cannot be decoded or parsed has no
    docstrings.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # e.g. invalid escapes in the parsed source
            tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return []
    of_module = ast.get_docstring(tree)
    return ([(module, of_module)] if of_module else []) + list(_definitions(tree, f"{module}:"))


def _definitions(node: ast.AST, prefix: str) -> Iterator[Docstring]:
    """Yield the docstrings of the definitions below ``node``, ``prefix`` before their names."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            name = f"{prefix}{child.name}"
            if text := ast.get_docstring(child):
                yield name, text
            if isinstance(child, ast.ClassDef):
                yield from _definitions(child, f"{name}.")
        elif isinstance(child, ast.If | ast.Try | ast.With | ast.ExceptHandler):
            yield from _definitions(child, prefix)
