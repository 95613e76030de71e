"""Phrases with alternatives, for the lists of prefixes and refusals.

``[a|b|]`` is a choice; an alternative may be empty and may contain further choices. ``{name}``
inserts the phrase of that name, or a built-in one: ``{gap}``, up to 40 characters of one sentence;
``{quoted}``, a title in quotation marks; ``{words}``, one to four words. All other text is literal,
compared after `fold`.
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
# One form each of alef, yeh and teh marbuta; no vowel signs and no tatweel.
_ARABIC = str.maketrans("أإآٱىة", "اااايه", "ًٌٍَُِّْٰـ")
_SPACE = re.compile(r"\s+")
_PIECE = re.compile(r"\{(\w+)\}|([\[\]|])|(\s+)|([^\[\]|{}\s]+)|([{}])")
_REGEX = {"[": "(?:", "]": ")", "|": "|"}


def fold(text: str) -> str:
    """Return the form of a text in which phrases are compared.

    It has compatible characters in one form (NFKC), lower case, no soft hyphens and other invisible
    characters, straight quotation marks, Arabic without vowel signs and with one form of alef, yeh
    and teh marbuta, and runs of white space as one space.
    """
    plain = unicodedata.normalize("NFKC", without_invisible(text))
    plain = plain.translate(_QUOTES).casefold().translate(_ARABIC)
    return _SPACE.sub(" ", plain).strip()


def phrase_regex(phrase: str, slots: Mapping[str, str]) -> str:
    """Return a phrase as a regular expression on folded text; ``slots`` maps names to phrases.

    Raises
    ------
    InputError
        If brackets do not match, or a name is unknown.
    """
    return _regex(phrase, slots, phrase, 0)


def any_phrase(phrases: Iterable[str], slots: Mapping[str, str], *, script: str) -> re.Pattern[str]:
    """Return a pattern that finds any of the phrases of a script in folded text."""
    joined = "|".join(phrase_regex(phrase, slots) for phrase in phrases)
    if script in WHOLE_WORDS:
        return re.compile(rf"(?<!\w)(?:{joined})(?!\w)")
    return re.compile(f"(?:{joined})")


def _regex(phrase: str, slots: Mapping[str, str], whole: str, depth: int) -> str:
    pieces, n_open = [], 0
    for name, mark, space, literal, stray in _PIECE.findall(phrase):
        n_open += {"[": 1, "]": -1}.get(mark, 0)
        if stray or n_open < 0 or (mark == "|" and not n_open):
            raise InputError(f"phrase {whole!r}: unexpected {stray or mark!r}")
        if name:
            pieces.append(_slot(name, slots, whole, depth))
        elif mark:
            pieces.append(_REGEX[mark])
        else:
            pieces.append(r"\s" if space else re.escape(fold(literal)))
    if n_open:
        raise InputError(f"phrase {whole!r}: missing closing bracket")
    return "".join(pieces)


def _slot(name: str, slots: Mapping[str, str], whole: str, depth: int) -> str:
    if name in BUILT_IN:
        return BUILT_IN[name]
    if name not in slots or depth == MOST_NESTED:
        known = ", ".join([*slots, *BUILT_IN])
        raise InputError(
            f"phrase {whole!r}: {{{name}}} is unknown or contains itself; known names: {known}"
        )
    return f"(?:{_regex(slots[name], slots, whole, depth + 1)})"
