"""Parallel texts of XQuAD: paragraphs, their questions and the positions of the answers."""

import json
from dataclasses import dataclass
from pathlib import Path

FILES = {"eng-Latn": "en", "spa-Latn": "es", "ara-Arab": "ar", "cmn-Hans": "zh"}


@dataclass(frozen=True)
class Question:
    """A question on a paragraph, and the span of its answer, characters."""

    id: str
    text: str
    span: tuple[int, int]


@dataclass(frozen=True)
class Paragraph:
    """A paragraph and its questions."""

    id: str
    text: str
    questions: tuple[Question, ...]


def read_paragraphs(folder: Path, language: str) -> list[Paragraph]:
    """Read the paragraphs of a language, in the order that all languages share."""
    path = folder / f"xquad.{FILES[language]}.json"
    articles = json.loads(path.read_text(encoding="utf-8"))["data"]
    entries = [entry for article in articles for entry in article["paragraphs"]]
    return [
        Paragraph(f"p{number:03d}", entry["context"].strip(), _questions(entry))
        for number, entry in enumerate(entries)
    ]


def _questions(entry: dict[str, object]) -> tuple[Question, ...]:
    shift = len(str(entry["context"])) - len(str(entry["context"]).lstrip())
    found = []
    for asked in entry["qas"]:  # type: ignore[attr-defined]
        answer = asked["answers"][0]
        start = answer["answer_start"] - shift
        span = (start, start + len(answer["text"]))
        found.append(Question(asked["id"], asked["question"].strip(), span))
    return tuple(found)
