"""Phrases with alternatives, as the lists of prefixes and refusals have them.

``[a|b|]`` is a choice, of which one may be nothing, and may hold further choices; ``{name}`` stands
for a phrase given under that name, or for a built-in one: ``{gap}``, up to 40 characters of one
sentence, ``{quoted}``, a title in quotation marks, and ``{words}``, one to four words. Everything
else stands for itself, compared as `fold` has it.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping

from psibench.errors import InputError
from psibench.text.words import without_invisible

BUILT_IN = {
    "gap": r"[^.!?。؟\n]{0,40}?",
    "quoted": r"\"[^\"\n]{1,150}\"",
    "words": r"\(?[^\W\d_][\w-]*\)?(?:\s\(?[^\W\d_][\w-]*\)?){0,3}",
}
WHOLE_WORDS = ("Latn", "Cyrl")
"""Scripts in which a phrase begins and ends with a whole word."""

MOST_NESTED = 8

_QUOTES = str.maketrans("’‘`´ʼ“”„«»‟", '\'\'\'\'\'""""""')
# Alef, yeh and teh marbuta in one form each; vowel signs and the stretching line go.
_ARABIC = str.maketrans("أإآٱىة", "اااايه", "ًٌٍَُِّْٰـ")
_SPACE = re.compile(r"\s+")
_PIECE = re.compile(r"\{(\w+)\}|([\[\]|])|(\s+)|([^\[\]|{}\s]+)|([{}])")
_REGEX = {"[": "(?:", "]": ")", "|": "|"}


def fold(text: str) -> str:
    """Bring a text to the form in which phrases are compared.

    Compatible characters as one (NFKC), no case, no soft hyphens and other invisible characters,
    straight quotation marks, Arabic without vowel signs and with one form of alef, yeh and teh
    marbuta, runs of white space as one space.
    """
    plain = unicodedata.normalize("NFKC", without_invisible(text))
    plain = plain.translate(_QUOTES).casefold().translate(_ARABIC)
    return _SPACE.sub(" ", plain).strip()


def phrase_regex(phrase: str, slots: Mapping[str, str]) -> str:
    """Turn a phrase into a regular expression on folded text; ``slots`` are what names stand for.

    Raises
    ------
    InputError
        If brackets do not match, or a name is unknown.
    """
    return _regex(phrase, slots, phrase, 0)


def any_of(phrases: Iterable[str], slots: Mapping[str, str], *, script: str) -> re.Pattern[str]:
    """Compile phrases of a script into one pattern that finds any of them in folded text."""
    joined = "|".join(phrase_regex(phrase, slots) for phrase in phrases)
    if script in WHOLE_WORDS:
        return re.compile(rf"(?<!\w)(?:{joined})(?!\w)")
    return re.compile(f"(?:{joined})")


def _regex(phrase: str, slots: Mapping[str, str], whole: str, depth: int) -> str:
    pieces, n_open = [], 0
    for name, mark, space, literal, stray in _PIECE.findall(phrase):
        n_open += {"[": 1, "]": -1}.get(mark, 0)
        if stray or n_open < 0 or (mark == "|" and not n_open):
            raise InputError(f"phrase {whole!r}: {stray or mark!r} stands where it cannot")
        if name:
            pieces.append(_slot(name, slots, whole, depth))
        elif mark:
            pieces.append(_REGEX[mark])
        else:
            pieces.append(r"\s" if space else re.escape(fold(literal)))
    if n_open:
        raise InputError(f"phrase {whole!r}: a bracket is not closed")
    return "".join(pieces)


def _slot(name: str, slots: Mapping[str, str], whole: str, depth: int) -> str:
    if name in BUILT_IN:
        return BUILT_IN[name]
    if name not in slots or depth == MOST_NESTED:
        known = ", ".join([*slots, *BUILT_IN])
        raise InputError(f"phrase {whole!r}: {{{name}}} is unknown or refers to itself: {known}")
    return f"(?:{_regex(slots[name], slots, whole, depth + 1)})"
