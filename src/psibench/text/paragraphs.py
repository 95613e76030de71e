"""Prose paragraphs of plain-text documentation, reflowed, without code, tables or rulers."""

import re
from collections.abc import Iterator

from psibench.text.words import STOP_WORDS

_MIN_WORDS = 6
SIGNATURE = re.compile(r"^[\w.]+\(.*\)?,?(\s*->.*)?:?$")
RULER = re.compile(r"^\W{3,}$")
DOCTEST = re.compile(r"^(>>>|\.\.\. |\$ )")
BULLET = re.compile(r"^(?:[*+•-]+|\d+[.)]|\([a-z0-9]\)|\.\. \w+::)\s+")
MARKUP = (
    (re.compile(r":\w+(?::\w+)?:`[~!]?([^`]+)`"), r"\1"),
    (re.compile(r"``?([^`\n]+)`?`"), r"\1"),
    (re.compile(r"(?<![\w*])\*\*?(\w[^*\n]*?)\*\*?(?![\w*])"), r"\1"),
    (re.compile(r"[ \t]*\[\d+\]"), ""),
    (re.compile(r"::(?=\s|$)"), ":"),
)
# Phrases of version notes, cross-references and licences, which recur on every page.
BOILERPLATE = re.compile(
    r"^(see also|added in|new in|changed in|deprecated since|note:?$|example|usage:|authors?\b"
    r"|written by|contributed by|copyright|warning:?$)|all rights reserved|hereby granted"
    r"|without warranty|licensed to",
    re.IGNORECASE,
)


def prose_paragraphs(text: str) -> list[str]:
    """Return the prose paragraphs of plain text or reStructuredText, each on one line.

    Blank lines separate paragraphs. Signature lines, rulers with the heading above them, doctest
    blocks, code, tables and boilerplate are left out; inline markup is removed.
    """
    cleaned = (_clean(lines) for lines in _blocks(text))
    return [p for p in cleaned if is_prose(p) and not BOILERPLATE.search(p)]


def is_prose(paragraph: str) -> bool:
    """Return whether a paragraph is English prose and not code, a table or a list of names.

    Prose has at least six words, of which at least a quarter are function words, and at least four
    fifths of its characters are letters or spaces.
    """
    words = re.findall(r"[^\W\d_]+", paragraph)
    if len(words) < _MIN_WORDS:
        return False
    n_plain = sum(char.isalpha() or char.isspace() for char in paragraph)
    n_function = sum(word.lower() in STOP_WORDS for word in words)
    return n_plain >= 0.8 * len(paragraph) and n_function >= 0.25 * len(words)


def _blocks(text: str) -> Iterator[list[str]]:
    """Yield the runs of lines between blank lines, without tables, headings and doctests."""
    for block in re.split(r"\n\s*\n", text.expandtabs()):
        lines = [line.strip() for line in block.splitlines() if line.strip()]
        rulers = [i for i, line in enumerate(lines) if RULER.match(line)]
        if len(rulers) > 1:
            continue
        if rulers:
            lines = lines[rulers[0] + 1 :]
        doctest = next((i for i, line in enumerate(lines) if DOCTEST.match(line)), len(lines))
        yield lines[:doctest]


def _clean(lines: list[str]) -> str:
    """Join the lines of a block without signatures, bullets and inline markup."""
    prose = [line for line in lines if not SIGNATURE.match(line)]
    paragraph = BULLET.sub("", " ".join(" ".join(prose).split()))
    for pattern, replacement in MARKUP:
        paragraph = pattern.sub(replacement, paragraph)
    return paragraph.strip()
