"""Which language a text is in: a translation, or something that a model said instead.

Languages that py3langid knows are told by it. For the others, pseudo-locales among them, only one
thing is told: whether a text is English, by the share of its words that are English function words.
"""

import re
from functools import cache
from typing import TYPE_CHECKING

import regex

from psibench.text.languages import PSEUDO, iso639_1, split_code
from psibench.text.words import STOP_WORDS

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

DETECTED_CHARS = 1500
"""Characters of a text that are looked at."""

MIN_LETTERS = 20
"""Letters that a detection needs; below that it is noise."""

FOREIGN_BELOW = 0.05
"""A text is in another language if its own language is less probable than this.

Of 1,430 XQuAD texts in each of English, Spanish, Arabic and Chinese, 2 fall below, both of them
English questions of four words; of 6,480 texts looked at as if in another one of the four, 1 does
not.
"""

ENGLISH_WORDS = 0.2
"""Share of English function words from which a text counts as English."""

FEW_WORDS = 6

# Varieties that the detector tells apart and a translation may well mix.
_VARIETIES = (
    {"ar", "ary", "arz"},
    {"zh", "wuu", "yue"},
    {"no", "nb", "nn"},
    {"ms", "id"},
    {"bs", "hr", "sr"},
)
# One letter of these scripts is about a syllable or a word.
_DENSE = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}ー\p{Hangul}]")
# Addresses, code and numbers say nothing about the language around them.
_CODE = re.compile(r"[!-~]*[\d_/\\@(){}<>=|$#][!-~]*")
_ENGLISH_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")


def is_foreign(text: str, language: str) -> bool:
    """Say whether a text is clearly not in a language, ``rus-Cyrl``; False if too short to tell.

    Looked at are the first 1,500 characters, without addresses, code and numbers. Of a language
    that the detector does not know, only English texts are foreign.
    """
    beginning = _CODE.sub(" ", text[:DETECTED_CHARS])
    if _n_letters(beginning) < MIN_LETTERS:
        return False
    labels = _labels(language)
    if not labels:
        return english_share(beginning) >= ENGLISH_WORDS
    ranked = dict(_identifier(None).rank(beginning))
    return sum(ranked.get(label, 0.0) for label in labels) < FOREIGN_BELOW


def is_english(text: str, language: str) -> bool:
    """Say whether a text is rather English than in a language; of an English target, always.

    Meant for short texts: the detector chooses between the two. For a language that it does not
    know, one English function word in five is enough, or that a text of fewer than six words is
    written in ASCII.
    """
    labels = _labels(language)
    if not labels:
        is_short = text.isascii() and len(text.split()) < FEW_WORDS
        return is_short or english_share(text) >= ENGLISH_WORDS
    if "en" in labels:
        return True
    return bool(_identifier(frozenset({"en", *labels})).classify(text)[0] == "en")


def english_share(text: str) -> float:
    """Give the share of a text's words that are English function words, in [0, 1]; 0 of none."""
    words = [word.lower() for word in _ENGLISH_WORD.findall(text)]
    return sum(word in STOP_WORDS for word in words) / len(words) if words else 0.0


def _n_letters(text: str) -> int:
    """Count letters; one of a dense script as three."""
    return sum(map(str.isalpha, text)) + 2 * len(_DENSE.findall(text))


@cache
def _labels(language: str) -> frozenset[str]:
    """Return the detector's labels for a language and its varieties; none if it knows none."""
    code, _ = split_code(language)
    if code == PSEUDO:
        return frozenset()
    labels = {label for label in (iso639_1(language), code) if label}
    for varieties in _VARIETIES:
        if labels & varieties:
            labels |= varieties
    return frozenset(labels & set(_identifier(None).labels))


@cache
def _identifier(labels: frozenset[str] | None) -> "LanguageIdentifier":
    """Load the detector with probabilities, restricted to some labels."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    if labels:
        identifier.set_languages(labels)
    return identifier
