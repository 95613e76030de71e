"""Location of a quote in a text, if the text contains it exactly once.

Language models copy text with small changes: line breaks become spaces, and they add quotation
marks and ellipses around a quote. Any run of white space is therefore compared as one space, and
marks around a quote are removed if it is not found with them. PosIR (section 2.2) locates its
reference spans in the same way and drops quotes that are not found or ambiguous.

Every search for a quote uses `locate_quote` or, for the numbered sentences of a document,
`locate_sentences`. Neither returns the first of several matches.
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
# Chinese and Japanese, which use no spaces, their punctuation, and full-width forms.
_UNSPACED = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}ー・\u3001-\u303f\uff00-\uffef]")
_MARKS = "\"'`´\u2018-\u201f\u2039\u203a«»「」『』\u301d-\u301f＂＇"
# Three or more dots are an ellipsis; fewer end a sentence. The alternatives are disjoint, so both
# patterns take linear time.
_BEFORE = re.compile(rf"(?:[\s…{_MARKS}]|\.{{3,}}|\[(?:\.{{3,}}|…)\])*")
_AFTER_REVERSED = re.compile(rf"(?:[\s…{_MARKS}]|\.{{3,}}|\](?:\.{{3,}}|…)\[)*")


@dataclass(frozen=True)
class Located:
    """Position of a quote: [start, end) in characters, without white space at its ends.

    If the span is None, ``reason`` is ``empty_quote``, ``quote_not_found`` or ``quote_ambiguous``;
    else it is "".
    """

    span: tuple[int, int] | None
    reason: str = ""


def locate_quote(text: str, quote: str, *, letters_only: bool = False) -> Located:
    """Return the span of a quote in a text, or the reason why it has no unique span.

    The search uses the quote; if it finds nothing, it uses the quote without quotation marks and
    ellipses (``...``, ``…``, ``[...]``) at its ends. All runs of white space are equal: a second
    match that differs only by a line break makes the quote ambiguous. White space around the quote
    is ignored. Between words, white space must match; next to a character of a script without
    spaces (Chinese, Japanese, full-width forms) it is ignored. Case, spelling and marks inside the
    quote are compared exactly. A quote with only white space, quotation marks and ellipses is
    empty.

    With ``letters_only`` the quote comes from another edition of the text, and is compared as in
    `locate_sentences`.

    Two overlapping matches count as two. The time is linear in the lengths of text and quote.
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
        starts = _two_matches(evened, wanted)
        if starts:
            ends = [sources[start + len(wanted) - 1] + 1 for start in starts]
            return _only([(sources[start], end) for start, end in zip(starts, ends, strict=True)])
    return Located(None, QUOTE_NOT_FOUND)


def _only(spans: list[tuple[int, int]]) -> Located:
    return Located(spans[0]) if len(spans) == 1 else Located(None, QUOTE_AMBIGUOUS)


def _two_matches(text: str, wanted: str) -> list[int]:
    """Return the starts of the first two matches, which may overlap; fewer if there are fewer."""
    first = text.find(wanted)
    second = text.find(wanted, first + 1) if first >= 0 else -1
    return [start for start in (first, second) if start >= 0]


def _fold(text: str) -> tuple[str, list[int]]:
    """Replace each run of white space by one space, or by nothing next to an unspaced script.

    The replacement depends only on the two characters around it, so a folded quote occurs in a
    folded text wherever they agree up to white space. Also returns each character's original
    offset.
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
    """Remove quotation marks, ellipses and white space from both ends."""
    before = _BEFORE.match(quote)
    after = _AFTER_REVERSED.match(quote[::-1])
    assert before
    assert after  # both patterns match the empty text
    return quote[before.end() : max(before.end(), len(quote) - after.end())]


# --- Sentences in another edition of a document


PENN_BRACKETS = {
    **{"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"},
    "-COLON-": ":",
}
"""Escapes of brackets and colons in FEVER's pages and titles."""
_ESCAPED = re.compile("|".join(map(re.escape, PENN_BRACKETS)))


def unescape_brackets(text: str) -> str:
    """Replace FEVER's escapes by brackets and colons."""
    return _ESCAPED.sub(lambda found: PENN_BRACKETS[found[0]], text)


def locate_sentences(text: str, sentences: Sequence[str]) -> list[Located]:
    """Return the spans of a document's sentences, in order, in another edition of its text.

    Editions differ in white space, in marks and their spelling (``-LRB-`` for a bracket), in case
    and in the encoding of accents. Only letters and digits are therefore compared, without case and
    accents. Each sentence is searched after the previous one. A match is certain if no letters are
    between it and the previous sentence (for the first: the start of the text), or if the rest of
    the text has no more matches than the document has such sentences. Otherwise the sentence is
    ambiguous.

    A span is [start, end) in characters of ``text``, including the marks after its last word.
    """
    letters = _Letters(text)
    wanted = [_letters(unescape_brackets(sentence))[0] for sentence in sentences]
    remaining = Counter(wanted)
    located: list[Located] = []
    behind = 0
    for one in wanted:
        n_same = remaining[one]
        remaining[one] -= 1
        matches = letters.matches(one, behind)
        at = next(matches, None)
        if at is None:
            located.append(Located(None, QUOTE_NOT_FOUND if one else EMPTY_QUOTE))
        elif at != behind and 1 + len(list(islice(matches, n_same))) > n_same:
            located.append(Located(None, QUOTE_AMBIGUOUS))
        else:
            located.append(Located(letters.span(at, len(one))))
            behind = at + len(one)
    return located


class _Letters:
    """The letters and digits of a text, for a search of whole words."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.bare, self.sources = _letters(text)

    def locate(self, quote: str) -> Located:
        """Return the only span of a quote, or why it has none."""
        wanted, _ = _letters(unescape_brackets(quote))
        starts = list(islice(self.matches(wanted, 0), 2))
        if not starts:
            return Located(None, QUOTE_NOT_FOUND if wanted else EMPTY_QUOTE)
        return _only([self.span(start, len(wanted)) for start in starts])

    def matches(self, wanted: str, behind: int) -> Iterator[int]:
        """Yield the letter offsets of ``wanted`` as whole words, from offset ``behind`` on."""
        at = self.bare.find(wanted, behind) if wanted else -1
        while at >= 0:
            if _is_word_edge(self.text, self.sources[at]) and _is_word_edge(
                self.text, self.sources[at + len(wanted) - 1] + 1
            ):
                yield at
            at = self.bare.find(wanted, at + 1)

    def span(self, at: int, length: int) -> tuple[int, int]:
        """Return the characters of some letters, including the marks after them."""
        end = self.sources[at + length - 1] + 1
        while end < len(self.text) and not (self.text[end].isspace() or self.text[end].isalnum()):
            end += 1
        return self.sources[at], end


def _is_word_edge(text: str, offset: int) -> bool:
    """Return whether no word continues across an offset; always true in unspaced scripts."""
    if not 0 < offset < len(text):
        return True
    before, after = text[offset - 1], text[offset]
    is_inside = before.isalnum() and after.isalnum()
    return not is_inside or any(map(_UNSPACED.match, (before, after)))


def _letters(text: str) -> tuple[str, list[int]]:
    """Return the folded letters and digits of a text, and the original offset of each."""
    letters: list[str] = []
    sources: list[int] = []
    for offset, char in enumerate(text):
        for folded in normalize("NFKD", char.casefold()):
            if folded.isalnum():
                letters.append(folded)
                sources.append(offset)
    return "".join(letters), sources
