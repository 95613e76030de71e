"""The stand-in's rules: one handler per task, chosen by the name of the response schema.

A handler reads the texts between the prompt's tags and returns a value of the schema. Its random
numbers depend on the request only. In `grade_relevance` and `judge_segment`, the model's name
selects a judge, too. A judge returns a share in [0, 1] of the query that the text covers, which
both tasks cut at the same points. Judges disagree where real ones do:

- ``stand-in/rules``: the share of the query's words that occur anywhere in the text.
- ``stand-in/sentence``: the share for the best single sentence; words scattered over a text count
  less.
- ``stand-in/rare``: as rules, but words are weighted by their rarity in English: a text with the
  query's common words, but without its one rare word, is about something else.

Words are stems of content words, each once. Any other name judges as ``stand-in/rules``.

Texts are translated into a pseudo-locale. A small share is faulty in the way of real translations,
so that cleaning has something to find: a sentence before the text, a refusal, the text twice, or
the untranslated text. The hash of text and language selects the fault.
"""

import hashlib
import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import log1p
from pathlib import Path
from typing import Any

import numpy as np

from psibench.llm.sections import STAND_IN_PREFIX
from psibench.llm.standin.locales import LOCALES, locale_of
from psibench.models.checkpoints import resolve_checkpoint
from psibench.text.segments import POSITIONS, inner_thirds
from psibench.text.words import is_content_word, stemmer, tokenise

_SENTENCE = re.compile(r"\S(?:.*?)(?:[.!?…][\"')\]]*(?=\s|$)|(?=\n\s*\n)|$)", re.DOTALL)
_CJK_SENTENCE = re.compile(r"\S[^。！？]*[。！？]?", re.DOTALL)
_TOKEN = re.compile(r"\w+|[^\w\s]")


def tagged(prompt: str, tag: str) -> str:
    """Return the text between ``<tag>`` and the last ``</tag>``, without outer line feeds."""
    opener, closer = f"<{tag}>", f"</{tag}>"
    start = prompt.find(opener)
    end = prompt.rfind(closer)
    return "" if start < 0 or end < start else prompt[start + len(opener) : end].strip("\n")


def sentences(text: str) -> list[tuple[int, int]]:
    """Return the [start, end) of sentences in characters; a paragraph's end ends a sentence."""
    pattern = _CJK_SENTENCE if "。" in text else _SENTENCE
    return [match.span() for match in pattern.finditer(text)]


def count_tokens(text: str) -> int:
    """Count tokens as the stand-in bills them: words and single marks."""
    return len(_TOKEN.findall(text))


def word_vector(text: str, dim: int) -> np.ndarray:
    """Return the sum over a text's word stems of vectors drawn from their hash.

    (dim,) float64, not normalised; not zero, even for a text without words.
    """
    return sum((_direction(stem, dim) for stem in tokenise(text).stems), _direction("", dim))


def _direction(word: str, dim: int) -> np.ndarray:
    seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big")
    return np.random.default_rng(seed).standard_normal(dim)


def content_stems(text: str) -> list[str]:
    """Return the stems of content words, each once, in order."""
    words = tokenise(text)
    spans = zip(words.starts, words.ends, words.stems, strict=True)
    return list(dict.fromkeys(s for a, b, s in spans if is_content_word(text[a:b])))


def key_terms(sentence: str, elsewhere: str, *, most: int) -> list[str]:
    """Return up to ``most`` content words of a sentence; words not ``elsewhere`` come first.

    The result is in the order of the sentence.
    """
    other = set(tokenise(elsewhere).stems)
    words = tokenise(sentence)
    candidates: dict[str, tuple[bool, int, str]] = {}
    for number, stem in enumerate(words.stems):
        surface = sentence[words.starts[number] : words.ends[number]]
        if stem not in candidates and is_content_word(surface):
            candidates[stem] = (stem in other, number, surface)
    chosen = sorted(candidates.values())[:most]
    return [surface for _, _, surface in sorted(chosen, key=lambda entry: entry[1])]


Judge = Callable[[str, str], float]
"""(query, text) -> share of the query that the text covers; 0 for a query without words."""

VOCABULARY = "embedded:all-MiniLM-L6-v2"
COMMON_WORDS = 100
"""Words up to about this frequency rank have almost no weight for ``rare``."""


def by_words(query: str, text: str) -> float:
    """Return the share of the query's words that the text has."""
    return _covered_share(query, text, lambda _: 1.0)


def by_sentence(query: str, text: str) -> float:
    """Return the largest share of the query's words in a single sentence."""
    return max((by_words(query, text[slice(*span)]) for span in sentences(text)), default=0.0)


def by_rarity(query: str, text: str) -> float:
    """Return the share of the query's words that the text has, weighted by `rarity`."""
    return _covered_share(query, text, rarity)


def _covered_share(query: str, text: str, weigh: Callable[[str], float]) -> float:
    covered = set(content_stems(text))
    weights = {stem: weigh(stem) for stem in content_stems(query)}
    total = sum(weights.values())
    return sum(w for stem, w in weights.items() if stem in covered) / total if total else 0.0


def rarity(stem: str) -> float:
    """Return the weight of a stem with rank r in English: log(1 + r / 100).

    The ranks come from the whole words in a WordPiece vocabulary, which is ordered by frequency; a
    stem has the rank of its most frequent word. Other stems, such as most words of other languages,
    have the next rank after the last.
    """
    ranks = _ranks()
    return log1p(ranks.get(stem, len(ranks) + 1) / COMMON_WORDS)


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


@dataclass(frozen=True)
class Task:
    """Input of a handler: the joined messages, random numbers, the judge."""

    prompt: str
    rng: random.Random
    judge: Judge = by_words

    def text(self, tag: str) -> str:
        """Return the text inside a tag of the prompt."""
        return tagged(self.prompt, tag)

    def number(self, tag: str, default: int) -> int:
        """Return the number inside a tag of the prompt."""
        text = self.text(tag).strip()
        return int(text) if text.isdigit() else default


_MIN_CONTENT_WORDS = 4
QUERY_WORDS = 6


def summarise(task: Task) -> dict[str, Any]:
    """Return the first sentence of each paragraph, within the allowed words."""
    document = task.text("document")
    most = task.number("max_words", 400)
    words: list[str] = []
    for paragraph in document.split("\n\n"):
        spans = sentences(paragraph)
        first = paragraph[slice(*spans[0])].split() if spans else []
        if words and len(words) + len(first) > most:
            break
        words += first
    return {"summary": " ".join(words[:most]) or document[:200]}


def generate_questions(task: Task) -> dict[str, Any]:
    """Ask about sentences of the chunk with their words; one in four questions is simple."""
    chunk = task.text("chunk")
    wanted = task.number("n_questions", 3)
    questions = []
    for number, (start, end) in enumerate(_chosen(_usable(chunk), wanted, task.rng)):
        terms = key_terms(chunk[start:end], chunk[:start] + chunk[end:], most=QUERY_WORDS)
        kind = "simple" if number % 4 == 3 else "complicated"
        question = _question(terms, task.rng)
        questions.append({"question": question, "answer": chunk[start:end], "type": kind})
    return {"questions": questions}


def propose_questions(task: Task) -> dict[str, Any]:
    """Ask about sentences of the third that the prompt names."""
    document = task.text("document")
    position = task.text("position").strip()
    wanted = task.number("n_questions", 2)
    questions = []
    for start, end in _chosen(_of_third(document, position), wanted, task.rng):
        terms = key_terms(document[start:end], document[:start] + document[end:], most=QUERY_WORDS)
        questions.append({"question": _question(terms, task.rng), "answer": document[start:end]})
    return {"questions": questions}


def locate_span(task: Task) -> dict[str, Any]:
    """Quote the sentence with the most words of question and answer; nothing if it has none."""
    document = task.text("document")
    answer = task.text("answer")
    if answer and answer in document:
        return {"quote": answer}
    wanted = set(content_stems(task.text("question") + " " + answer))
    texts = [document[start:end] for start, end in sentences(document)]
    shared = [len(wanted & set(content_stems(text))) for text in texts]
    if not texts or max(shared) == 0:
        return {"quote": ""}
    return {"quote": texts[shared.index(max(shared))]}


def choose_configuration(task: Task) -> dict[str, Any]:
    """Choose the persona with the most words of the document; the rest at random."""
    wanted = set(content_stems(task.text("document")))
    lines = filter(None, map(str.strip, task.text("personas").splitlines()))
    names = [line.split(". ", 1)[-1] if line[0].isdigit() else line for line in lines]
    shared = [len(wanted & set(content_stems(name))) for name in names]
    best = shared.index(max(shared)) if shared else 0
    return {
        "persona": names[best] if names else "",
        "difficulty": task.rng.choice(["easy", "medium", "hard"]),
        "query_length": task.rng.choice(["short", "medium", "long"]),
    }


def generate_positional_query(task: Task) -> dict[str, Any]:
    """Ask about one sentence of the segment with words that the rest of the document lacks."""
    document, segment = task.text("document"), task.text("segment")
    rest = document.replace(segment, " ", 1)
    words = {"short": 4, "medium": 6, "long": 9}.get(task.text("query_length").strip(), 6)
    usable = _usable(segment) or [(0, len(segment))]
    start, end = task.rng.choice(usable)
    answer = segment[start:end]
    return {"query": " ".join(key_terms(answer, rest, most=words)), "answer": answer}


def grade_relevance(task: Task) -> dict[str, Any]:
    """Grade by the share of the query that the passage covers: all 4, then 75, 50, 25 %."""
    share = _share(task, "passage")
    return {"grade": 4 if share >= 0.999 else min(3, int(share * 4))}


def judge_segment(task: Task) -> dict[str, Any]:
    """Answer yes if the segment covers two thirds of the query."""
    return {"verdict": "yes" if _share(task, "segment") >= 2 / 3 else "no"}


def _share(task: Task, tag: str) -> float:
    return task.judge(task.text("query"), task.text(tag))


def _usable(text: str) -> list[tuple[int, int]]:
    """Return the sentences that occur once and have enough words for a question."""
    return [
        (start, end)
        for start, end in sentences(text)
        if len(content_stems(text[start:end])) >= _MIN_CONTENT_WORDS
        and text.count(text[start:end]) == 1
    ]


def _of_third(text: str, position: str) -> list[tuple[int, int]]:
    """Return the usable sentences of a third of a text, or of the whole text for another name.

    Prefers sentences entirely inside; then sentences whose middle is inside; if all are too short,
    any sentence there that occurs once.
    """
    usable = _usable(text)
    thirds = {str(name): span for name, span in inner_thirds(len(text)).items()}
    if position not in thirds:
        return usable
    low, high = thirds[position]
    inside = [(start, end) for start, end in usable if low <= start and end <= high]
    if inside:
        return inside
    centred = [
        (start, end)
        for start, end in sentences(text)
        if POSITIONS[(3 * (start + end) - 1) // (2 * len(text))] == position
    ]
    once = [(a, b) for a, b in centred if content_stems(text[a:b]) and text.count(text[a:b]) == 1]
    return [span for span in once if span in usable] or once


def _chosen(spans: list[tuple[int, int]], most: int, rng: random.Random) -> list[tuple[int, int]]:
    return sorted(rng.sample(spans, min(most, len(spans))))


def _question(terms: list[str], rng: random.Random) -> str:
    opening = rng.choice(["What is said about", "How do these go together:", "What links"])
    *first, last = terms or [""]
    return f"{opening} {', '.join(first)} and {last}?" if first else f"{opening} {last}?"


FAULT_SHARES = {"prefix": 0.02, "refusal": 0.01, "repeated": 0.01, "untranslated": 0.01}
"""Fault -> share of the texts that have it."""
_FAULTY_PREFIXES = (
    "Here is the translation:\n\n",
    "Here is the {kind} translated into {language}:\n\n",
    "Sure! Below is the translation into {language}:\n\n",
    "Translation:\n",
)
REFUSAL_TEXTS = (
    "I'm sorry, but I cannot translate this {kind}.",
    "I cannot assist with translating this {kind} into {language}.",
    "As an AI language model, I am unable to translate this {kind}.",
)
REFUSING = (
    *("i'm sorry", "i am sorry", "i cannot", "i can't", "as an ai", "i am unable", "i'm unable"),
)
BEGINNING = 200
"""Characters of a text that are searched for the words of a refusal."""

_WORD = re.compile(r"\w+")


def translate(task: Task) -> dict[str, Any]:
    """Translate into the language's pseudo-locale; a few translations are faulty."""
    text, kind = task.text("text"), task.text("kind")
    language = task.text("target_language")
    number, fault = fault_of(text, language)
    made = locale_of(language).translate(text)
    if fault == "prefix":
        prefix = _FAULTY_PREFIXES[number % len(_FAULTY_PREFIXES)]
        made = prefix.format(kind=kind, language=language) + made
    elif fault == "refusal":
        refusal = REFUSAL_TEXTS[number % len(REFUSAL_TEXTS)]
        made = refusal.format(kind=kind, language=language)
    elif fault == "repeated":
        made = f"{made}\n\n{made}"
    elif fault == "untranslated":
        made = text
    return {"translation": made}


def fault_of(text: str, language: str) -> tuple[int, str | None]:
    """Return a number derived from text and language, and the fault of the translation, if any."""
    digest = hashlib.sha256(f"{language}\0{text}".encode()).digest()
    draw = int.from_bytes(digest[:8]) / 2**64
    for fault, share in FAULT_SHARES.items():
        draw -= share
        if draw < 0:
            return digest[8], fault
    return digest[8], None


def judge_refusal(task: Task) -> dict[str, Any]:
    """Classify a text by its beginning; a text in the language's locale is a translation.

    Another text is a refusal if it has the words of one, otherwise untranslated.
    """
    beginning = task.text("text")[:BEGINNING]
    if locale_of(task.text("target_language")).share(beginning) >= 0.5:
        return {"verdict": "translation"}
    plain = beginning.lower().replace("’", "'")
    is_refusal = any(phrase in plain for phrase in REFUSING)
    return {"verdict": "refusal" if is_refusal else "untranslated"}


def judge_translation(task: Task) -> dict[str, Any]:
    """Compare a translation with the locale's version of the source: 1 + 4 times each share.

    fluency: the locale's letters among all letters. accuracy: the translation's words that are also
    in the locale's version. completeness: sentences of that version that are in the translation.
    style: the worse ratio of both texts' lengths or numbers of lines.
    """
    source, translation = task.text("source"), task.text("translation")
    around = task.prompt.partition("<source>")[0] + task.prompt.rpartition("</translation>")[2]
    locale = locale_of(next((name for name in LOCALES if name in around), ""))
    wanted = locale.translate(source)
    words, right = (Counter(_WORD.findall(text)) for text in (translation, wanted))
    pieces = [wanted[start:end] for start, end in sentences(wanted)]
    shares = {
        "fluency": locale.share(translation) if translation else 0.0,
        "accuracy": _ratio((words & right).total(), words.total()),
        "completeness": _ratio(sum(piece in translation for piece in pieces), len(pieces)),
        "style": min(
            _alike(len(translation), len(wanted)), _alike(_lines(translation), _lines(wanted))
        ),
    }
    return {name: 1 + round(4 * share) for name, share in shares.items()}


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _alike(one: int, other: int) -> float:
    return _ratio(min(one, other), max(one, other))


def _lines(text: str) -> int:
    return sum(bool(line.strip()) for line in text.split("\n"))


HANDLERS: dict[str, Callable[[Task], dict[str, Any]]] = {
    handler.__name__: handler
    for handler in (
        *(summarise, generate_questions, propose_questions, locate_span, choose_configuration),
        *(generate_positional_query, grade_relevance, judge_segment, translate, judge_refusal),
        judge_translation,
    )
}
