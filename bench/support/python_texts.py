"""Real texts for the benchmarks of search: Python's own documentation."""

import re

WINDOW_WORDS = 60
SENTENCE_WORDS = 6
SEED = 42


def paragraphs(n_texts: int) -> list[str]:
    """Cut the documentation into ``n_texts`` windows of words, with as much overlap as needed.

    Raises
    ------
    ValueError
        If the documentation has too few words.
    """
    words = [word for text in _passages() for word in text.split()]
    step = min(WINDOW_WORDS, (len(words) - WINDOW_WORDS) // n_texts)
    if step < 1:
        raise ValueError(f"Python's documentation has {len(words)} words, too few for {n_texts}")
    starts = range(0, step * n_texts, step)
    return [" ".join(words[start : start + WINDOW_WORDS]) for start in starts]


def sentences(n_texts: int) -> list[str]:
    """Return ``n_texts`` sentences of six words or more, evenly spread over the documentation.

    Raises
    ------
    ValueError
        If the documentation has fewer such sentences.
    """
    pieces = (piece for text in _passages() for piece in re.split(r"(?<=[.?!])\s+", text))
    found = [piece for piece in pieces if len(piece.split()) >= SENTENCE_WORDS]
    if len(found) < n_texts:
        raise ValueError(f"Python's documentation has {len(found)} sentences, not {n_texts}")
    return [found[index * len(found) // n_texts] for index in range(n_texts)]


def _passages() -> list[str]:
    from psibench.sources.python_docs import read_python_docs

    texts: list[str] = read_python_docs(seed=SEED).documents["text"].to_list()
    return texts
