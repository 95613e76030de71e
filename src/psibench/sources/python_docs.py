"""The documentation that ships with the running Python interpreter, as passages of prose.

Three parts: the language topics of ``pydoc_data``, the docstrings of the standard library's
source files (read from the syntax tree, nothing is imported), and the docstrings of a fixed list
of modules compiled into the interpreter. One topic or one module is one page; a page is cut
between paragraphs into passages of varied length.
"""

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
import polars as pl

from psibench.errors import InputError
from psibench.sources.python_pages import Page, python_pages
from psibench.tables.dropped import Dropped, dropped_frame
from psibench.text.near_duplicates import SeenText
from psibench.text.passages import cut_passages

STAGE = "read_python_docs"
DETAIL_CHARS = 80
MAX_SEEN = 0.5
"""A paragraph of which a larger share was met before is left out."""
Part = Literal["all", "language", "network", "library"]

LANGUAGE_PREFIX = "pydoc_data.topics:"
"""How the origins of the language's own topics begin."""
NETWORK_PACKAGES = frozenset(
    """
    _socket _ssl asynchat asyncio asyncore base64 cgi cgitb email ftplib html http imaplib imghdr
    ipaddress json mailbox mailcap mimetypes netrc nntplib poplib quopri select selectors smtpd
    smtplib socket socketserver ssl telnetlib urllib uu uuid webbrowser wsgiref xdrlib xml xmlrpc
    """.split()
)
"""Modules and packages about networks, mail and the web, with their formats."""


@dataclass(frozen=True)
class PythonDocs:
    """Passages (``_id, text, origin``) and what was left out, with the reason.

    Reasons: ``duplicate`` (a paragraph met before, word for word), ``near_duplicate`` (score: the
    share of its 5-word shingles met before), ``passage_too_short`` and ``passage_too_long`` (score:
    words). An item's document is its page; ``char_length`` is the item's own.
    """

    documents: pl.DataFrame
    dropped: pl.DataFrame


def read_python_docs(
    *, min_words: int = 60, max_words: int = 700, seed: int, part: Part = "all"
) -> PythonDocs:
    """Read the interpreter's documentation as passages of ``min_words`` to ``max_words`` words.

    The lengths aimed at are squares of uniform draws between the roots of the bounds, so that
    short and long passages are both common. The rows depend on the interpreter, the two bounds and
    the seed alone.

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
    PythonDocs
        The DOCUMENTS columns, in the order of the documentation, and what was left out.

    Raises
    ------
    InputError
        If the interpreter ships without its documentation, or a bound is not allowed.
    """
    if min_words < 1 or max_words < min_words or seed < 0:
        raise InputError(
            f"min_words={min_words}, max_words={max_words}, seed={seed}; "
            "allowed: min_words >= 1, max_words >= min_words, seed >= 0"
        )
    pages, dropped = _of_part(part)
    documents = []
    for page in pages:
        rng = np.random.default_rng([seed, zlib.crc32(page.name.encode())])
        passages, unfit = cut_passages(page.paragraphs, min_words, max_words, rng)
        slug = page.name.lower()
        documents += [
            {"_id": f"{slug}-{k:03d}", "text": text, "origin": page.origin}
            for k, text in enumerate(passages, start=1)
        ]
        dropped += _unfit_passages(page, unfit, min_words)
    schema = dict.fromkeys(("_id", "text", "origin"), pl.String)
    return PythonDocs(pl.DataFrame(documents, schema), dropped_frame(dropped))


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
                dropped.append(
                    _drop(page, "paragraphs", f"p{number:03d}", reason, paragraph, share)
                )
            else:
                seen.remember(body)
                paragraphs.append(paragraph)
        if paragraphs:
            kept.append(Page(page.name, page.origin, paragraphs))
    return kept, dropped


@cache
def _distinct_pages() -> tuple[tuple[Page, ...], list[Page], list[Dropped]]:
    """Read all pages, and leave out what was met before: once for all parts that a job reads."""
    every = tuple(python_pages())
    return every, *drop_seen_paragraphs(every)


def _of_part(part: Part) -> tuple[list[Page], list[Dropped]]:
    """Of what is left of all pages and of what was left out, take one part's."""
    every, kept, dropped = _distinct_pages()
    if part == "all":
        return kept, list(dropped)
    own = {page.name.lower() for page in every if part_of(page.name, page.origin) == part}
    return (
        [page for page in kept if page.name.lower() in own],
        [row for row in dropped if row.doc_id in own],
    )


def _unfit_passages(page: Page, texts: Iterable[str], min_words: int) -> Iterator[Dropped]:
    for number, text in enumerate(texts, start=1):
        n_words = len(text.split())
        reason = "passage_too_short" if n_words < min_words else "passage_too_long"
        yield _drop(page, "passages", f"unfit-{number:03d}", reason, text, n_words)


def _drop(page: Page, unit: str, place: str, reason: str, text: str, score: float) -> Dropped:
    slug = page.name.lower()
    facts = (f"{slug}-{place}", slug, reason, text[:DETAIL_CHARS], float(score))
    return Dropped(STAGE, unit, *facts, char_length=len(text))


def part_of(name: str, origin: str) -> Part:
    """Return the part that a page belongs to, by its name and origin."""
    if origin.startswith(LANGUAGE_PREFIX):
        return "language"
    package = name.lower().partition(".")[0]
    return "network" if package in NETWORK_PACKAGES else "library"
