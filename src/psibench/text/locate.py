"""Where a quoted passage stands in a text, if it stands there exactly once.

Language models copy with small changes around the words: line breaks become spaces, quotation
marks and ellipses are put around. White space is therefore compared as if each run were one space,
and marks around a quote are cut off where it is not found with them. PosIR (section 2.2) locates
its reference spans likewise and drops what is not found, or found more than once.

Every search for a quotation goes through `locate_quote`, or, for the numbered sentences of a
document, through `locate_sentences`: no path takes the first of several places.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
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


def locate_quote(text: str, quote: str, *, letters_only: bool = False) -> Located:
    """Find the one place of a text at which a quote stands, or say why there is none.

    Looked for is the quote; if it is not there, the quote without the quotation marks and ellipses
    (``...``, ``…``, ``[...]``) at its ends. Any run of white space stands for any other: a second
    match that differs by a line break is a second place. White space around the quote never counts.
    Between words, white space is needed where the quote has it and allowed nowhere else; beside a
    character of a script written without spaces (Chinese, Japanese, full-width forms), it is
    ignored altogether. Case, spelling and marks inside the quote are compared exactly. A quote of
    nothing but white space, quotation marks and ellipses is empty.

    With ``letters_only`` the quote is of another edition of the text, and is compared as by
    `locate_sentences`.

    Two matches that overlap are two. The time is linear in the lengths of text and quote.
    """
    if letters_only:
        return _Letters(text).locate(quote)
    plain = quote.strip()
    bare = _without_marks(plain)
    if not bare:
        return Located(None, EMPTY_QUOTE)
    evened, sources = _fold(text)
    for form in dict.fromkeys((plain, bare)):
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


def locate_sentences(text: str, sentences: Sequence[str]) -> list[Located]:
    """Find the sentences of a document, one after the other, in another edition of its text.

    Editions differ in white space, in marks and how they are written (``-LRB-`` for a bracket), in
    case and in how accents are encoded: letters and digits are compared alone, without these. Each
    sentence is looked for behind the one before it. A place is certain where it follows the
    sentence before without a letter between (the first: at the start of the text), or where the
    text has no more such places from there on than the document has such sentences; else it is
    ambiguous.

    A span is [start, end) in characters of ``text``, with the marks that its last word carries.
    """
    letters = _Letters(text)
    wanted = [_letters(unescape_brackets(sentence))[0] for sentence in sentences]
    left = Counter(wanted)
    found: list[Located] = []
    behind = 0
    for one in wanted:
        n_same = left[one]
        left[one] -= 1
        places = letters.places(one, behind)
        at = next(places, None)
        if at is None:
            found.append(Located(None, QUOTE_NOT_FOUND if one else EMPTY_QUOTE))
        elif at != behind and 1 + len(list(islice(places, n_same))) > n_same:
            found.append(Located(None, QUOTE_AMBIGUOUS))
        else:
            found.append(Located(letters.span(at, len(one))))
            behind = at + len(one)
    return found


class _Letters:
    """The letters and digits of a text, and whole words found in them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.bare, self.sources = _letters(text)

    def locate(self, quote: str) -> Located:
        """Find the one place of a quote."""
        wanted, _ = _letters(unescape_brackets(quote))
        starts = list(islice(self.places(wanted, 0), 2))
        if not starts:
            return Located(None, QUOTE_NOT_FOUND if wanted else EMPTY_QUOTE)
        return _only([self.span(start, len(wanted)) for start in starts])

    def places(self, wanted: str, behind: int) -> Iterator[int]:
        """Yield where letters stand as whole words, from ``behind`` on; both in letters."""
        at = self.bare.find(wanted, behind) if wanted else -1
        while at >= 0:
            if _is_word_edge(self.text, self.sources[at]) and _is_word_edge(
                self.text, self.sources[at + len(wanted) - 1] + 1
            ):
                yield at
            at = self.bare.find(wanted, at + 1)

    def span(self, at: int, length: int) -> tuple[int, int]:
        """Return the characters of some letters, with the marks behind them."""
        end = self.sources[at + length - 1] + 1
        while end < len(self.text) and not (self.text[end].isspace() or self.text[end].isalnum()):
            end += 1
        return self.sources[at], end


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
