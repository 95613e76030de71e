"""Texts that copy other texts, by shared runs of words (of characters in scripts without spaces).

The limits come from 9,951 real questions: SQuAD v2 (10 training articles), XQuAD in English,
Spanish, Arabic and Chinese, and Chroma's questions. In none of them are all runs of eight words in
the passage, although 446 share some run with it, up to 95 % of their runs. None shares a run of
five words with a shipped prompt.
"""

from collections.abc import Set as AbstractSet
from functools import lru_cache

from psibench.text.near_duplicates import TOKEN, normalise

Runs = AbstractSet[tuple[str, ...]]

COPIED_WORDS = 8
INSTRUCTION_WORDS = 5
COPIED_SHARE, PERSONA_SHARE = 0.8, 0.5
"""Share of the runs from which a text without a question mark at its end is a copy; the same for a
persona in a query."""
_QUESTION_MARKS = ("?", "？", "؟", ";", "՞")


def word_runs(text: str, n: int) -> Runs:
    """Return the runs of ``n`` words of a text; empty if it has fewer."""
    words = TOKEN.findall(normalise(text))
    return {tuple(words[start : start + n]) for start in range(len(words) - n + 1)}


@lru_cache(8)  # the queries of a document follow each other
def _runs_of_source(source: str) -> Runs:
    return word_runs(source, COPIED_WORDS)


def is_copied(text: str, source: str) -> bool:
    """Return whether a text of eight words or more is a copy of a part of ``source``.

    All of its runs of eight words have to be in the source, or 80 % if it does not end with a
    question mark.
    """
    runs = word_runs(text, COPIED_WORDS)
    if not runs:
        return False
    share = len(runs & _runs_of_source(source)) / len(runs)
    is_question = text.rstrip("\"'”’»)」』 \n").endswith(_QUESTION_MARKS)
    return share >= (1.0 if is_question else COPIED_SHARE)


def has_most_of(text: str, source: str) -> bool:
    """Return whether a text has half of the source's runs of eight words, or equals the source.

    Words are compared without case, punctuation and white space.
    """
    runs = _runs_of_source(source)
    if runs:
        return len(runs & word_runs(text, COPIED_WORDS)) >= PERSONA_SHARE * len(runs)
    words = TOKEN.findall(normalise(source))
    return bool(words) and TOKEN.findall(normalise(text)) == words
