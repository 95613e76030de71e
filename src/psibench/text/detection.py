"""Detection of a text's language: a translation, or a reply in another language.

py3langid detects the languages that it knows. For all others, such as pseudo-locales, the module
only detects whether a text is English, by the share of English function words.
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
"""Characters of a text that the detection uses."""

MIN_LETTERS = 20
"""Letters that a detection needs; with fewer, it is unreliable."""

FOREIGN_BELOW = 0.05
"""A text is foreign if its expected language has a lower probability.

The test used 1,430 XQuAD texts in each of English, Spanish, Arabic and Chinese. 2 of them are
wrongly foreign, both English questions of four words. Of 6,480 texts compared with another one of
the four languages, 1 is not detected as foreign."""

ENGLISH_WORDS = 0.2
"""Share of English function words from which a text counts as English."""

FEW_WORDS = 6

# Varieties that the detector distinguishes but that a translation may mix.
_VARIETIES = (
    {"ar", "ary", "arz"},
    {"zh", "wuu", "yue"},
    {"no", "nb", "nn"},
    {"ms", "id"},
    {"bs", "hr", "sr"},
)
# In these scripts a letter is about a syllable or a word.
_DENSE = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}ー\p{Hangul}]")
# Addresses, code and numbers do not depend on the language around them.
_CODE = re.compile(r"[!-~]*[\d_/\\@(){}<>=|$#][!-~]*")
_ENGLISH_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")


CERTAINLY_FOREIGN_BELOW = 0.001
"""Limit for queries that are dropped without a judge. The lowest probability of 9,951 questions in
four languages is 0.013, that of 1,208 lists of keywords about Python is 0.012. Of 14,280 questions
compared with another of the four languages, 96 % are below the limit."""


def is_foreign(text: str, language: str, *, below: float = FOREIGN_BELOW) -> bool:
    """Return whether a text is clearly not in a language, e.g. ``rus-Cyrl``; False if too short.

    Only the first 1,500 characters count, without addresses, code and numbers. If the detector does
    not know the language, only English texts are foreign.
    """
    beginning = _CODE.sub(" ", text[:DETECTED_CHARS])
    if _n_letters(beginning) < MIN_LETTERS:
        return False
    labels = _labels(language)
    if not labels:
        return english_share(beginning) >= ENGLISH_WORDS
    ranked = dict(_identifier(None).rank(beginning))
    return sum(ranked.get(label, 0.0) for label in labels) < below


def is_english(text: str, language: str) -> bool:
    """Return whether a text is more likely English than in a language; True for an English target.

    Use it for short texts: the detector chooses between the two languages. If it does not know the
    language, a text counts as English if one word in five is an English function word, or if it has
    fewer than six words, all in ASCII.
    """
    labels = _labels(language)
    if not labels:
        is_short = text.isascii() and len(text.split()) < FEW_WORDS
        return is_short or english_share(text) >= ENGLISH_WORDS
    if "en" in labels:
        return True
    return bool(_identifier(frozenset({"en", *labels})).classify(text)[0] == "en")


def english_share(text: str) -> float:
    """Return the share of words that are English function words, in [0, 1]; 0 without words."""
    words = [word.lower() for word in _ENGLISH_WORD.findall(text)]
    return sum(word in STOP_WORDS for word in words) / len(words) if words else 0.0


def _n_letters(text: str) -> int:
    """Count letters; a letter of a dense script counts as three."""
    return sum(map(str.isalpha, text)) + 2 * len(_DENSE.findall(text))


@cache
def _labels(language: str) -> frozenset[str]:
    """Return the detector's labels for a language and its varieties; empty if unknown."""
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
    """Load the detector with probabilities, restricted to the labels if given."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    if labels:
        identifier.set_languages(labels)
    return identifier
