"""Texts in place of a translation that a program can detect: replies of weak models.

Measured on XQuAD in English, Spanish, Arabic and Chinese, each as a translation of each other
(2,880 pairs of passages, 14,234 of questions): no translation is removed. Of untranslated texts,
all passages but one and 97 % of the questions are removed; of translations that end after 40 % of
their characters, 70 % of the passages.
"""

from collections.abc import Sequence

import regex

from psibench.text.detection import CERTAINLY_FOREIGN_BELOW, is_foreign

NO_LETTERS, ABSURD_LENGTH = "no_letters", "absurd_length"
IN_SOURCE_LANGUAGE = "in_source_language"

LONG_TEXT, SHORT_TEXT = 100, 10
"""Size of a source from which the bounds for passages, and for other texts, hold."""
PASSAGE_RATIO, SHORT_RATIO = (0.45, 2.5), (1 / 6, 6.0)
"""Bounds of a translation's size over its source's. XQuAD's passages have 0.56 to 1.78, its
questions 0.33 to 3.0."""

_LETTER = regex.compile(r"[\p{L}\p{M}]")
_DENSE = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}ー\p{Hangul}]")
_SYLLABIC = regex.compile(r"[\p{Ethiopic}\p{Yi}\p{Cherokee}\p{Canadian_Aboriginal}]")


def text_size(text: str) -> float:
    """Count letters and marks, comparable between scripts.

    A Chinese, Japanese or Korean letter counts as three, a letter of another syllabary as 1.5.
    """
    n_dense, n_syllabic = len(_DENSE.findall(text)), len(_SYLLABIC.findall(text))
    return len(_LETTER.findall(text)) + 2 * n_dense + 0.5 * n_syllabic


def find_unusable(
    translations: Sequence[str],
    sources: Sequence[str],
    *,
    is_passage: bool,
    source_language: str,
    target_language: str,
    check_language: bool,
) -> tuple[str, str] | None:
    """Return why a translated text is unusable, with a detail; None if it is usable.

    ``translations`` and ``sources`` are its parts. The first fault of a part counts: no letters
    although its source has some, an absurd length, or with ``check_language`` the source's language
    (not detected in texts with fewer than 20 letters).
    """
    for translation, source in zip(translations, sources, strict=True):
        size, source_size = text_size(translation), text_size(source)
        if source_size and not size:
            return NO_LETTERS, translation.strip()
        is_long = is_passage and source_size >= LONG_TEXT
        low, high = PASSAGE_RATIO if is_long else SHORT_RATIO
        if source_size >= SHORT_TEXT and not low <= size / source_size <= high:
            ratio = f"{size / source_size:.2f} of the source's letters"
            return ABSURD_LENGTH, f"{ratio}, outside [{low:.2f}, {high:.2f}]"
        if (
            check_language
            and is_foreign(translation, target_language, below=CERTAINLY_FOREIGN_BELOW)
            and not is_foreign(translation, source_language)
        ):
            return IN_SOURCE_LANGUAGE, f"{source_language}, not {target_language}"
    return None
