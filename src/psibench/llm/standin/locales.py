"""Pseudo-locales: what the stand-in makes of a text when it is asked to translate it.

A text is changed letter by letter. It looks like another language then, and keeps what a benchmark
needs of it: the same word always becomes the same word; digits, marks, white space, and with them
sentences and paragraphs, stay as they are. So do letters other than a to z.

- ``pseudo-locale (Latin)``: each letter gets a dot or another mark (q has none), and the vowels of
  words of four or more letters are doubled: the text becomes about a quarter longer.
- ``pseudo-locale (Arabic)``: each letter, in lower case, becomes a letter of the Arabic script.

Any other language is given as the first one.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from string import ascii_letters

LONG_WORD = 4
"""Letters from which on a word's vowels are doubled, where they are at all."""

_WORD = re.compile(r"[^\W\d_]+")
_VOWEL = re.compile(r"[AEIOUaeiou]")


@dataclass(frozen=True)
class Locale:
    """What a to z and A to Z become, and whether vowels of long words are doubled."""

    lower: str
    upper: str
    doubles: bool

    def translate(self, text: str) -> str:
        """Turn a text into the locale."""
        return _WORD.sub(lambda match: self._double(match[0]).translate(self._there), text)

    def share(self, text: str) -> float:
        """Return the locale's letters as a share of them and of those it would have changed.

        1 for a text that has neither: nothing in it is left to translate.
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
    """Return the locale that stands for a language, by its English name."""
    return LOCALES.get(name.strip(), ACCENTED)
