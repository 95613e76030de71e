"""The documentation that ships with the running Python interpreter, as passages of prose.

Three parts: the language topics of ``pydoc_data``, the docstrings of the standard library's
source files (read from the syntax tree, nothing is imported), and the docstrings of a fixed list
of modules compiled into the interpreter. One topic or one module is one page; a page is cut
between paragraphs into passages of varied length.
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
from psibench.text.passages import cut_passages

STAGE = "read_python_docs"
DETAIL_CHARS = 80
MAX_SEEN = 0.5
"""A paragraph of which a larger share was met before is left out."""
Part = Literal["all", "language", "network", "library"]

TOPIC = "topic"
"""How the names of the language's own pages begin: no module is called so."""
NETWORK_PACKAGES = frozenset(
    """
    _socket _ssl asynchat asyncio asyncore base64 cgi cgitb email ftplib html http imaplib imghdr
    ipaddress json mailbox mailcap mimetypes netrc nntplib poplib quopri select selectors smtpd
    smtplib socket socketserver ssl telnetlib urllib uu uuid webbrowser wsgiref xdrlib xml xmlrpc
    """.split()
)
"""Modules and packages about networks, mail and the web, with their formats."""

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


Docstring = tuple[str, str]
"""What is documented (``module:Class.method``, or the module), and the text."""


def read_python_docs(
    *, min_words: int = 60, max_words: int = 700, seed: int, part: Part = "all"
) -> SourceDocuments:
    """Read the interpreter's documentation as passages of ``min_words`` to ``max_words`` words.

    The lengths aimed at are squares of uniform draws between the roots of the bounds, so that
    short and long passages are both common. The rows depend on the interpreter, the two bounds and
    the seed alone.

    Raises InputError if the interpreter ships without its documentation.

    Parameters
    ----------
    min_words, max_words
        Bounds of a passage, words split at white space, ``1 <= min_words <= max_words``.
    seed
        Seed of the drawn lengths, at least 0.
    part
        Takes the pages of one part alone; what repeats another part's text is left out there, too,
        so parts share no text.

    Returns
    -------
    Passages in the order of the documentation, and what was left out. Reasons: ``duplicate`` (a
    paragraph met before, word for word), ``near_duplicate`` (score: the share of its 5-word
    shingles met before), ``passage_too_short`` and ``passage_too_long`` (score: words). An item's
    document is its page; ``char_length`` is the item's own.
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
        (STAGE, flow_of("paragraphs", n_paragraphs, left_out)),
        (STAGE, flow_of("passages", len(documents), left_out)),
    )
    return SourceDocuments(iter([frame]), left_out, flow)


def drop_seen_paragraphs(pages: Iterable[Page]) -> tuple[list[Page], list[Dropped]]:
    """Leave out every paragraph of which more than ``MAX_SEEN`` was met before.

    Pages are read in order, so an inherited or copied docstring stays where it comes first.

    Returns
    -------
    pages, dropped
        Pages with what is left of them (a page with nothing left is gone), and one row per
        paragraph left out.
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
                place = f"p{number:03d}"
                dropped.append(_drop(page, "paragraphs", place, reason, paragraph, share))
            else:
                seen.remember(body)
                paragraphs.append(paragraph)
        if paragraphs:
            kept.append(Page(page.name, page.origin, paragraphs))
    return kept, dropped


@cache
def _distinct_pages() -> tuple[list[Page], list[Dropped]]:
    """Read all pages, and leave out what was met before: once for all parts that a job reads."""
    return drop_seen_paragraphs(python_pages())


def _drop(page: Page, unit: str, place: str, reason: str, text: str, score: float) -> Dropped:
    slug = page.name.lower()
    facts = (f"{slug}-{place}", slug, reason, text[:DETAIL_CHARS], float(score))
    return Dropped(STAGE, unit, *facts, char_length=len(text))


def part_of(name: str) -> Part:
    """Return the part that a page belongs to, by its name in any case."""
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
    import asyncio  # noqa: F401 - first: _asyncio before it leaves two notions of the current task

    for name in COMPILED_MODULES:
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue  # posix and nt exclude each other; a build may leave others out
        yield _module_page(name, _object_docstrings(module, name))
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
    """Make one page of a module's docstrings; each one's first paragraph starts with its name."""
    paragraphs: list[str] = []
    for name, group in groupby(docstrings, key=lambda named: named[0]):
        prose = [p for _, text in group for p in prose_paragraphs(text)]
        if prose:
            prose[0] = f"{name.rpartition(':')[2]}: {prose[0]}"
        paragraphs += prose
    return Page(module, f"{module} (docstrings)", paragraphs)


def source_files(root: Path) -> list[Path]:
    """List the library's ``.py`` files under ``root``, sorted by path; none if it is no folder.

    Folders named in `SKIPPED_FOLDERS` or with a hyphen in their name (they cannot be imported as
    a package) are left out.
    """
    files = sorted((path.relative_to(root).parts, path) for path in root.rglob("*.py"))
    skipped = (any(one in SKIPPED_FOLDERS or "-" in one for one in way[:-1]) for way, _ in files)
    return [path for (_, path), is_skipped in zip(files, skipped, strict=True) if not is_skipped]


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
