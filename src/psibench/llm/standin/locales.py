"""Pseudo-locales: the stand-in's translations.

A text is changed letter by letter. It then looks like another language, but keeps the structure
that a benchmark needs: a word always becomes the same word; digits, marks and white space, and
therefore sentences and paragraphs, are unchanged. So are letters other than a to z.

- ``pseudo-locale (Latin)``: each letter gets a dot or another mark (q has none), and the vowels of
  words of four or more letters are doubled: the text becomes about a quarter longer.
- ``pseudo-locale (Arabic)``: each letter, in lower case, becomes a letter of the Arabic script.

Any other language is translated like the first one.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from string import ascii_letters

LONG_WORD = 4
"""Least number of letters of a word whose vowels are doubled, if the locale doubles vowels."""

_WORD = re.compile(r"[^\W\d_]+")
_VOWEL = re.compile(r"[AEIOUaeiou]")


@dataclass(frozen=True)
class Locale:
    """The letters for a to z and A to Z, and whether vowels of long words are doubled."""

    lower: str
    upper: str
    doubles: bool

    def translate(self, text: str) -> str:
        """Translate a text into the locale."""
        return _WORD.sub(lambda match: self._double(match[0]).translate(self._there), text)

    def share(self, text: str) -> float:
        """Return the share of the locale's letters among them and letters left to translate.

        1 for a text that has neither, because nothing is left to translate.
        """
        letters = sum(letter in self._letters for letter in text)
        foreign = sum(letter in self._foreign for letter in text)
        return letters / (letters + foreign) if letters + foreign else 1.0

    def _double(self, word: str) -> str:
        if not self.doubles or len(word) < LONG_WORD:
            return word
        return _VOWEL.sub(lambda match: match[0] + match[0].lower(), word)

    @cached_property
    def _there(self) -> dict[int, int]:
        return str.maketrans(ascii_letters, self.lower + self.upper)

    @cached_property
    def _letters(self) -> frozenset[str]:
        return frozenset(self.lower + self.upper) - set(ascii_letters)

    @cached_property
    def _foreign(self) -> frozenset[str]:
        return frozenset(ascii_letters) - set(self.lower + self.upper)


_DOTTED = "ạḅċḍẹḟġḥịĵḳḷṃṇọṗqṛṣṭụṿẉẋỵẓ"
_ARABIC = "ابخدعفغهيجكلمنوثقرستحذشصطز"
ACCENTED = Locale(_DOTTED, _DOTTED.upper(), doubles=True)
ARABIC = Locale(_ARABIC, _ARABIC, doubles=False)
LOCALES = {"pseudo-locale (Latin)": ACCENTED, "pseudo-locale (Arabic)": ARABIC}
"""English name of a language, as in a prompt -> its locale."""


def locale_of(name: str) -> Locale:
    """Return the locale of a language, by its English name."""
    return LOCALES.get(name.strip(), ACCENTED)
