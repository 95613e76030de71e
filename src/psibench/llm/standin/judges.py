"""How the stand-in judges a text: three rules, chosen by the model's name, one scale for all.

Each gives a share in [0, 1] of the query that the text covers; `grade_relevance` and
`judge_segment` cut it at the same points. They disagree where real judges do:

- ``stand-in/rules``: the share of the query's words that the text has, wherever they stand.
- ``stand-in/sentence``: that of the best single sentence; words scattered over a text answer less.
- ``stand-in/rare``: as rules, but a word counts by how rare it is in English: a text that has the
  query's common words and lacks its one rare word is about something else.

Words are stems of content words, each once. Any other name judges as ``stand-in/rules``.
"""

from collections.abc import Callable
from functools import cache
from math import log1p
from pathlib import Path

from psibench.config.llms import STAND_IN_PREFIX
from psibench.llm.standin.prompt import content_stems, sentences
from psibench.models.checkpoints import resolve_checkpoint
from psibench.text.words import stemmer

Judge = Callable[[str, str], float]
"""(query, text) -> share of the query that the text covers; 0 for a query without words."""

VOCABULARY = "embedded:all-MiniLM-L6-v2"
COMMON_WORDS = 100
"""Words up to about this rank by frequency count next to nothing for ``rare``."""


def by_words(query: str, text: str) -> float:
    """Give the share of the query's words that the text has."""
    wanted = content_stems(query)
    return _n_found(wanted, text) / len(wanted) if wanted else 0.0


def by_sentence(query: str, text: str) -> float:
    """Give the share of the query's words in the sentence that has most of them."""
    wanted = content_stems(query)
    best = max((_n_found(wanted, text[slice(*span)]) for span in sentences(text)), default=0)
    return best / len(wanted) if wanted else 0.0


def by_rarity(query: str, text: str) -> float:
    """Give the share of the query's words that the text has, each weighed by its `rarity`."""
    found = set(content_stems(text))
    weights = {stem: rarity(stem) for stem in content_stems(query)}
    total = sum(weights.values())
    return sum(w for stem, w in weights.items() if stem in found) / total if total else 0.0


def rarity(stem: str) -> float:
    """Weigh a stem by its rank r among those of English: log(1 + r / 100).

    Ranked are the stems of the whole words of a WordPiece vocabulary, which is ordered by
    frequency, each at its most frequent word. A stem that is not listed has the rank after the
    last: most words of other languages, which so count about the same.
    """
    ranks = _ranks()
    return log1p(ranks.get(stem, len(ranks) + 1) / COMMON_WORDS)


def _n_found(wanted: list[str], text: str) -> int:
    found = set(content_stems(text))
    return sum(stem in found for stem in wanted)


@cache
def _ranks() -> dict[str, int]:
    path = Path(resolve_checkpoint(VOCABULARY)) / "vocab.txt"
    lines = path.read_text(encoding="utf-8").split("\n")
    words = [line for line in lines if line.isalpha() and len(line) > 1]
    stems = dict.fromkeys(stemmer().stemWords(words))
    return {stem: rank for rank, stem in enumerate(stems, start=1)}


JUDGES: dict[str, Judge] = {"rules": by_words, "sentence": by_sentence, "rare": by_rarity}
"""Name of the model after ``stand-in/`` -> its judge."""


def judge_of(model: str) -> Judge:
    """Return the judge of a model by its name, with or without ``stand-in/``."""
    return JUDGES.get(model.removeprefix(STAND_IN_PREFIX), by_words)
