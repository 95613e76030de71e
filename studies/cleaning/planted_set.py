"""A translated domain with known faults: XQuAD's human translations, changed."""

import random
from dataclasses import dataclass
from pathlib import Path

import yaml
from xquad_texts import Paragraph, read_paragraphs

from psibench.text.languages import english_name

TEXTS = Path(__file__).with_name("planted.yaml")

DOCUMENTS = {
    "prefix, seen": 15,
    "prefix, unseen": 24,
    "refusal": 16,
    "refusal in English": 8,
    "refusal after a sentence": 8,
    "left in the source language": 8,
    "repeated": 24,
    "concatenated": 12,
    "truncated": 25,
    "honest, on translation": 18,
    "honest, below a title": 16,
}
"""Number of documents by class; the other documents are honest and plain."""

QUERIES = {
    "query prefix, seen": 10,
    "query prefix, unseen": 12,
    "query refusal": 16,
    "query left in the source language": 8,
}
TIMES = (2, 3, 4, 5)
SHARES = (0.75, 0.5, 0.25, 0.1, 0.05)


@dataclass(frozen=True)
class Planted:
    """One reply of a translator: its class, and the result that a cleaner should return.

    ``size`` is the number of repetitions of a text, or the share that is left; ``text`` the reply,
    ``wanted`` the text without its prefix.
    """

    item_id: str
    label: str
    text: str
    wanted: str
    size: float | None = None
    is_document: bool = True


@dataclass(frozen=True)
class PlantedSet:
    """The originals, and the replies for their documents and queries."""

    source: list[Paragraph]
    documents: list[Planted]
    queries: list[Planted]


def plant(folder: Path, *, source: str, target: str, seed: int) -> PlantedSet:
    """Plant faults into the translations from one language to another."""
    said = yaml.safe_load(TEXTS.read_text(encoding="utf-8"))
    rng = random.Random(f"{seed} {target}")
    originals, translations = read_paragraphs(folder, source), read_paragraphs(folder, target)
    planter = _Planter(said, rng, source=originals, target=translations, language=target)
    documents = [planter.document(*row) for row in enumerate(_labels(DOCUMENTS, 240, rng))]
    asked = [
        (question, original)
        for paragraph, other in zip(translations, originals, strict=True)
        for question, original in zip(paragraph.questions, other.questions, strict=True)
    ]
    labels = _labels(QUERIES, len(asked), rng)
    queries = [
        planter.query(number, question.id, question.text, original.text, label)
        for number, ((question, original), label) in enumerate(zip(asked, labels, strict=True))
    ]
    return PlantedSet(originals, documents, queries)


def _labels(counts: dict[str, int], n: int, rng: random.Random) -> list[str]:
    labels = [label for label, count in counts.items() for _ in range(count)]
    labels += ["honest"] * (n - len(labels))
    rng.shuffle(labels)
    return labels


@dataclass
class _Planter:
    said: dict[str, dict[str, list[str]]]
    rng: random.Random
    source: list[Paragraph]
    target: list[Paragraph]
    language: str

    def __post_init__(self) -> None:
        self.n_labelled: dict[str, int] = {}

    def document(self, number: int, label: str) -> Planted:
        """Make the reply for one document."""
        honest = self.target[number].text
        if label.startswith("prefix"):
            text = self._said_before(label.replace(",", "es"), number, honest)
            return Planted(f"p{number:03d}", label, text, honest)
        text, size = self._spoilt(number, label, honest)
        return Planted(f"p{number:03d}", label, text, text, size)

    def _spoilt(self, number: int, label: str, honest: str) -> tuple[str, float | None]:
        """Return the reply of a class that has no prefix, and its size."""
        own, english = self.said["refusals"][self.language], self.said["refusals"]["eng-Latn"]
        if label == "repeated":
            size = self._cycle(label, TIMES)
            return "\n\n".join([honest] * int(size)), size
        if label == "truncated":
            size = self._cycle(label, SHARES)
            return honest[: max(int(len(honest) * size), 1)].strip(), size
        following = self.target[(number + 1) % len(self.target)].text
        made = {
            "honest": lambda: honest,
            "refusal": lambda: self._next(label, own),
            "refusal in English": lambda: self._next(label, english),
            "refusal after a sentence": lambda: f"{honest[:80]} … {self._next(label, own)}",
            "left in the source language": lambda: self.source[number].text,
            "concatenated": lambda: f"{honest}\n\n{following}",
            "honest, on translation": lambda: (
                f"{self._next(label, self.said['honest'][self.language])}\n{honest}"
            ),
            "honest, below a title": lambda: self._next(label, self.said["headings"]) + honest,
        }
        return made[label](), None

    def query(self, number: int, query_id: str, text: str, original: str, label: str) -> Planted:
        """Make the reply for one query."""
        made, wanted = text, text
        if label.startswith("query prefix"):
            made = self._said_before(label.replace(",", "es"), number, text)
        elif label == "query refusal":
            made = wanted = self._next(label, self.said["refusals"][self.language])
        elif label == "query left in the source language":
            made = wanted = original
        return Planted(query_id, label, made, wanted, is_document=False)

    def _said_before(self, name: str, number: int, text: str) -> str:
        prefix = self._next(name, self.said[name])
        source = self.source[number % len(self.source)].text[:300].strip()
        return prefix.format(language=english_name(self.language), source=source) + text

    def _next(self, label: str, texts: list[str]) -> str:
        """Take the texts in turn."""
        place = self.n_labelled.get(label, 0)
        self.n_labelled[label] = place + 1
        return texts[place % len(texts)]

    def _cycle(self, label: str, sizes: tuple[float, ...]) -> float:
        place = self.n_labelled.get(label, 0)
        self.n_labelled[label] = place + 1
        return sizes[place % len(sizes)]
