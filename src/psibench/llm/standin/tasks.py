"""The stand-in's rules: one handler per task, chosen by the name of the response schema.

A handler's random numbers depend on the request alone. It returns what the schema asks for. Only
`grade_relevance` and `judge_segment` go by the model's name, too: it chooses their judge.
"""

import random
from typing import Any

from psibench.llm.standin.prompt import (
    content_stems,
    own_terms,
    sentences,
    tagged,
    tagged_number,
)
from psibench.llm.standin.task import Handler, Task
from psibench.llm.standin.translating import TRANSLATING
from psibench.text.segments import POSITIONS, inner_thirds

MIN_WORDS = 4
QUERY_WORDS = 6


def summarise(task: Task) -> dict[str, Any]:
    """Give the first sentence of each paragraph, within the words allowed."""
    document = tagged(task.prompt, "document")
    most = tagged_number(task.prompt, "max_words", 400)
    words: list[str] = []
    for paragraph in document.split("\n\n"):
        found = sentences(paragraph)
        first = paragraph[slice(*found[0])].split() if found else []
        if words and len(words) + len(first) > most:
            break
        words += first
    return {"summary": " ".join(words[:most]) or document[:200]}


def generate_questions(task: Task) -> dict[str, Any]:
    """Ask about sentences of the chunk in the words of each; one in four questions is simple."""
    chunk = tagged(task.prompt, "chunk")
    wanted = tagged_number(task.prompt, "n_questions", 3)
    questions = []
    for number, (start, end) in enumerate(_chosen(_usable(chunk), wanted, task.rng)):
        terms = own_terms(chunk[start:end], chunk[:start] + chunk[end:], most=QUERY_WORDS)
        kind = "simple" if number % 4 == 3 else "complicated"
        question = _question(terms, task.rng)
        questions.append({"question": question, "answer": chunk[start:end], "type": kind})
    return {"questions": questions}


def propose_questions(task: Task) -> dict[str, Any]:
    """Ask about sentences of the third that the constraint names."""
    document = tagged(task.prompt, "document")
    position = tagged(task.prompt, "position").strip()
    wanted = tagged_number(task.prompt, "n_questions", 2)
    if task.is_wrong:
        position = task.rng.choice([other for other in POSITIONS if other != position])
    questions = []
    for start, end in _chosen(_of_third(document, position), wanted, task.rng):
        terms = own_terms(document[start:end], document[:start] + document[end:], most=QUERY_WORDS)
        questions.append({"question": _question(terms, task.rng), "answer": document[start:end]})
    return {"questions": questions}


def locate_span(task: Task) -> dict[str, Any]:
    """Quote the sentence that shares most words with question and answer; none shared, nothing.

    Erring, it quotes any other sentence.
    """
    document = tagged(task.prompt, "document")
    answer = tagged(task.prompt, "answer")
    if answer and answer in document and not task.is_wrong:
        return {"quote": answer}
    wanted = set(content_stems(tagged(task.prompt, "question") + " " + answer))
    texts = [document[start:end] for start, end in sentences(document)]
    shared = [len(wanted & set(content_stems(text))) for text in texts]
    if not texts or max(shared) == 0:
        return {"quote": ""}
    best = shared.index(max(shared))
    if task.is_wrong and len(texts) > 1:
        return {"quote": task.rng.choice(texts[:best] + texts[best + 1 :])}
    return {"quote": texts[best]}


def choose_configuration(task: Task) -> dict[str, Any]:
    """Choose the persona that shares most words with the document; the rest at random."""
    wanted = set(content_stems(tagged(task.prompt, "document")))
    personas = [
        line.strip() for line in tagged(task.prompt, "personas").splitlines() if line.strip()
    ]
    names = [line.split(". ", 1)[-1] if line[0].isdigit() else line for line in personas]
    shared = [len(wanted & set(content_stems(name))) for name in names]
    best = shared.index(max(shared)) if shared else 0
    return {
        "persona": names[best] if names else "",
        "difficulty": task.rng.choice(["easy", "medium", "hard"]),
        "query_length": task.rng.choice(["short", "medium", "long"]),
    }


def generate_positional_query(task: Task) -> dict[str, Any]:
    """Ask about one sentence of the segment in words that the rest of the document lacks."""
    document, segment = tagged(task.prompt, "document"), tagged(task.prompt, "segment")
    rest = document.replace(segment, " ", 1)
    source, other = (rest, segment) if task.is_wrong else (segment, rest)
    words = {"short": 4, "medium": 6, "long": 9}.get(tagged(task.prompt, "query_length").strip(), 6)
    usable = _usable(source) or [(0, len(source))]
    start, end = task.rng.choice(usable)
    answer = source[start:end]
    return {"query": " ".join(own_terms(answer, other, most=words)), "answer": answer}


def grade_relevance(task: Task) -> dict[str, Any]:
    """Grade by the share of the query that the passage covers: all 4, then 75, 50, 25 %."""
    share = _share(task, "passage")
    return {"grade": 4 if share >= 0.999 else min(3, int(share * 4))}


def judge_segment(task: Task) -> dict[str, Any]:
    """Say yes if the segment covers two thirds of the query."""
    return {"verdict": "yes" if _share(task, "segment") >= 2 / 3 else "no"}


def _share(task: Task, tag: str) -> float:
    return task.judge(tagged(task.prompt, "query"), tagged(task.prompt, tag))


def _usable(text: str) -> list[tuple[int, int]]:
    """Return the sentences that have enough words to ask about, and occur once."""
    return [
        (start, end)
        for start, end in sentences(text)
        if len(content_stems(text[start:end])) >= MIN_WORDS and text.count(text[start:end]) == 1
    ]


def _of_third(text: str, position: str) -> list[tuple[int, int]]:
    """Return the sentences to ask about in a third of a text, or in all of it for another name.

    Those that lie wholly inside; if there are none, those whose middle lies there; if these are
    all too short, any that occurs once.
    """
    usable = _usable(text)
    thirds = {str(name): span for name, span in inner_thirds(len(text)).items()}
    if position not in thirds:
        return usable
    low, high = thirds[position]
    inside = [(start, end) for start, end in usable if low <= start and end <= high]
    if inside:
        return inside
    there = [
        (start, end)
        for start, end in sentences(text)
        if POSITIONS[(3 * (start + end) - 1) // (2 * len(text))] == position
    ]
    once = [(a, b) for a, b in there if content_stems(text[a:b]) and text.count(text[a:b]) == 1]
    return [span for span in once if span in usable] or once


def _chosen(spans: list[tuple[int, int]], most: int, rng: random.Random) -> list[tuple[int, int]]:
    return sorted(rng.sample(spans, min(most, len(spans))))


def _question(terms: list[str], rng: random.Random) -> str:
    opening = rng.choice(["What is said about", "How do these go together:", "What links"])
    return (
        f"{opening} {', '.join(terms[:-1])} and {terms[-1]}?"
        if len(terms) > 1
        else (f"{opening} {' '.join(terms)}?")
    )


HANDLERS: dict[str, Handler] = {
    handler.__name__: handler
    for handler in (
        summarise,
        generate_questions,
        propose_questions,
        locate_span,
        choose_configuration,
        generate_positional_query,
        grade_relevance,
        judge_segment,
        *TRANSLATING,
    )
}
