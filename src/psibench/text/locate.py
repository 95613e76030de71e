"""Where a quoted passage stands in a text, if it stands there exactly once.

Language models copy with small changes around the words: line breaks become spaces, quotation
marks and ellipses are put around. A quote is therefore looked for in four forms, from the strict
to the tolerant; the first form that is found at all decides. PosIR (section 2.2) locates its
reference spans likewise and drops what is not found, or found more than once.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from unicodedata import normalize

import regex

QUOTE_NOT_FOUND = "quote_not_found"
QUOTE_AMBIGUOUS = "quote_ambiguous"
EMPTY_QUOTE = "empty_quote"

_SPACE = re.compile(r"\s+")
# Chinese and Japanese, which write no space at all, their punctuation, and full-width forms.
_UNSPACED = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}ー・\u3001-\u303f\uff00-\uffef]")
_MARKS = "\"'`´\u2018-\u201f\u2039\u203a«»「」『』\u301d-\u301f＂＇"
# A dot run of three or more is an ellipsis; fewer end a sentence. No alternative can match what
# another one matches, so both patterns take linear time.
_BEFORE = re.compile(rf"(?:[\s…{_MARKS}]|\.{{3,}}|\[(?:\.{{3,}}|…)\])*")
_AFTER_REVERSED = re.compile(rf"(?:[\s…{_MARKS}]|\.{{3,}}|\](?:\.{{3,}}|…)\[)*")


@dataclass(frozen=True)
class Located:
    """Where a quote stands: [start, end) in characters, without white space at its ends.

    Without a span ``reason`` is ``empty_quote``, ``quote_not_found`` or ``quote_ambiguous``, else
    "".
    """

    span: tuple[int, int] | None
    reason: str = ""


def locate_quote(text: str, quote: str) -> Located:
    """Find the one place of a text at which a quote stands, or say why there is none.

    Looked for in turn, until a form is found: the quote; the quote with any run of white space
    for any other; both again without the quotation marks and ellipses (``...``, ``…``, ``[...]``)
    at its ends. White space around the quote never counts. Between words, white space is needed
    where the quote has it and allowed nowhere else; beside a character of a script written
    without spaces (Chinese, Japanese, full-width forms), it is ignored altogether. Case,
    spelling and marks inside the quote are compared exactly. A quote of nothing but white space,
    quotation marks and ellipses is empty.

    Two matches that overlap are two. The time is linear in the lengths of text and quote.
    """
    plain = quote.strip()
    bare = _without_marks(plain)
    if not bare:
        return Located(None, EMPTY_QUOTE)
    folded: tuple[str, list[int]] | None = None
    for form in dict.fromkeys((plain, bare)):
        starts = _two_places(text, form)
        if starts:
            return _only([(start, start + len(form)) for start in starts])
        evened, sources = folded = folded or _fold(text)
        wanted, _ = _fold(form)
        starts = _two_places(evened, wanted)
        if starts:
            ends = [sources[start + len(wanted) - 1] + 1 for start in starts]
            return _only([(sources[start], end) for start, end in zip(starts, ends, strict=True)])
    return Located(None, QUOTE_NOT_FOUND)


def _only(spans: list[tuple[int, int]]) -> Located:
    return Located(spans[0]) if len(spans) == 1 else Located(None, QUOTE_AMBIGUOUS)


def _two_places(text: str, wanted: str) -> list[int]:
    """Return the starts of the first two matches, which may overlap; fewer if there are fewer."""
    first = text.find(wanted)
    second = text.find(wanted, first + 1) if first >= 0 else -1
    return [start for start in (first, second) if start >= 0]


def _fold(text: str) -> tuple[str, list[int]]:
    """Turn each run of white space into one space, or into nothing beside an unspaced script.

    What stands between two characters depends on these two alone, so a quote that was folded is
    found in a text that was folded wherever they agree up to white space. Also returned is the
    place that each character came from.
    """
    pieces: list[str] = []
    sources: list[int] = []
    start = 0
    for run in _SPACE.finditer(text):
        if run.start() > start:
            pieces.append(text[start : run.start()])
            pieces.append(_space_between(text, run.start(), run.end()))
            sources += range(start, run.start() + len(pieces[-1]))
        start = run.end()
    sources += range(start, len(text))
    return "".join([*pieces, text[start:]]), sources


def _space_between(text: str, start: int, end: int) -> str:
    if end == len(text):
        return ""
    return "" if _UNSPACED.match(text, start - 1) or _UNSPACED.match(text, end) else " "


def _without_marks(quote: str) -> str:
    """Cut quotation marks, ellipses and white space off both ends."""
    before = _BEFORE.match(quote)
    after = _AFTER_REVERSED.match(quote[::-1])
    assert before
    assert after  # both match the empty text, too
    return quote[before.end() : max(before.end(), len(quote) - after.end())]


# --- Sentences of a document in another edition of it


PENN_BRACKETS = {
    **{"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"},
    "-COLON-": ":",
}
"""How FEVER's pages and titles write brackets and colons."""
_ESCAPED = re.compile("|".join(map(re.escape, PENN_BRACKETS)))


def unescape_brackets(text: str) -> str:
    """Write brackets and colons as they are."""
    return _ESCAPED.sub(lambda found: PENN_BRACKETS[found[0]], text)


def locate_sentences(text: str, sentences: Sequence[str]) -> list[tuple[int, int] | None]:
    """Find the sentences of a document, one after the other, in another edition of its text.

    Editions differ in white space, in marks and how they are written (``-LRB-`` for a bracket), in
    case and in how accents are encoded: letters and digits are compared alone, without these. Each
    sentence is looked for behind the one before it, so that one that is there twice is found where
    it belongs.

    Returns [start, end) in characters of ``text`` of each sentence, with the marks that its last
    word carries; None for one that is not there or has neither letter nor digit.
    """
    bare, sources = _letters(text)
    found: list[tuple[int, int] | None] = []
    behind = 0
    for sentence in sentences:
        wanted, _ = _letters(unescape_brackets(sentence))
        at = bare.find(wanted, behind) if wanted else -1
        while at >= 0 and not (
            _is_word_edge(text, sources[at])
            and _is_word_edge(text, sources[at + len(wanted) - 1] + 1)
        ):
            at = bare.find(wanted, at + 1)
        if at < 0:
            found.append(None)
            continue
        behind = at + len(wanted)
        end = sources[behind - 1] + 1
        while end < len(text) and not (text[end].isspace() or text[end].isalnum()):
            end += 1
        found.append((sources[at], end))
    return found


def _is_word_edge(text: str, place: int) -> bool:
    """Say whether no word goes on across a place; in a script without spaces each does end."""
    if not 0 < place < len(text):
        return True
    before, after = text[place - 1], text[place]
    is_inside = before.isalnum() and after.isalnum()
    return not is_inside or any(map(_UNSPACED.match, (before, after)))


def _letters(text: str) -> tuple[str, list[int]]:
    """Return the letters and digits of a text, folded, and the place each one came from."""
    letters: list[str] = []
    sources: list[int] = []
    for place, char in enumerate(text):
        for folded in normalize("NFKD", char.casefold()):
            if folded.isalnum():
                letters.append(folded)
                sources.append(place)
    return "".join(letters), sources
