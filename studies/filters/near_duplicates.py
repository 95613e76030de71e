"""Planted documents: passages that carry a query's answer, and passages that do not."""

import random
from collections.abc import Iterator, Sequence

import polars as pl

from psibench.llm.standin.rules import content_stems, sentences
from psibench.text.locate import locate_quote
from psibench.text.segments import POSITIONS, equal_segments

SHORT_FRAME, LONG_FRAME = "copy in short frame", "copy in long frame"
WORDS_LEFT, WORDS_GONE = "answer cut; words left", "answer cut; words gone"
DUPLICATES = (SHORT_FRAME, LONG_FRAME)
OTHERS = (WORDS_LEFT, WORDS_GONE)
KINDS = (*DUPLICATES, *OTHERS)
ENOUGH_WORDS = 0.75  # of the query's: a judge that compares only words grades the text 3
LEFT_OUT_OF = 20  # one word in so many is left out of a copied passage
PLANTS_SCHEMA = dict.fromkeys(("_id", "text", "query_id", "kind"), pl.String)


def one_query_per_document(candidates: pl.DataFrame) -> pl.DataFrame:
    """Choose a query per document, the thirds in turn, with the whole answer in its third."""
    usable = candidates.filter(pl.col("answer_position") == pl.col("target_position"))
    chosen = [
        group.with_columns(
            turn=(pl.col("target_position").replace_strict(POSITIONS, range(3)) - number) % 3
        )
        .sort("turn", "_id")
        .head(1)
        for number, (_, group) in enumerate(usable.group_by("pos_corpus_id", maintain_order=True))
    ]
    return pl.concat(chosen).drop("turn")


def plant(
    queries: pl.DataFrame, documents: pl.DataFrame, frames: Sequence[str], *, seed: int
) -> pl.DataFrame:
    """Make one document per query: for half of the queries with the answer, in alternating frames.

    For the other half, the positive without the answer's sentences. The rest may still contain the
    query's words; ``kind`` has whether it does.

    Returns
    -------
    frame of ``_id``, ``text``, ``query_id``, ``kind``.
    """
    texts = dict(documents.select("_id", "text").iter_rows())
    return pl.DataFrame(
        list(_plants(queries, texts, frames, seed)), schema=PLANTS_SCHEMA, orient="row"
    )


def _plants(
    queries: pl.DataFrame, texts: dict[str, str], frames: Sequence[str], seed: int
) -> Iterator[tuple[str, str, str, str]]:
    columns = ("_id", "text", "pos_corpus_id", "target_position", "answer")
    for number, row in enumerate(queries.select(columns).iter_rows()):
        query_id, query, doc_id, position, answer = row
        text, kind = texts[doc_id], (*DUPLICATES, None, None)[number // 3 % 4]
        if kind is None:
            made = without_answer(text, answer)
            kind = WORDS_LEFT if share_of_words(query, made) >= ENOUGH_WORDS else WORDS_GONE
        else:
            start, end = equal_segments(len(text))[POSITIONS.index(position)]
            passage = reworded(text[start:end], rng=random.Random(f"{seed}:{query_id}"))
            made = framed(passage, frames[number % len(frames)], is_long=kind == LONG_FRAME)
        yield f"planted-{query_id}", made, query_id, kind


def share_of_words(query: str, text: str) -> float:
    """Return the share of a query's content words that are in a text; 0 without any."""
    wanted, found = content_stems(query), set(content_stems(text))
    return sum(stem in found for stem in wanted) / len(wanted) if wanted else 0.0


def reworded(text: str, *, rng: random.Random) -> str:
    """Leave one word in twenty out, at random, and even out the white space."""
    words = text.split()
    gone = set(rng.sample(range(len(words)), len(words) // LEFT_OUT_OF))
    return " ".join(word for place, word in enumerate(words) if place not in gone)


def framed(passage: str, frame: str, *, is_long: bool) -> str:
    """Put a passage into another document: between its outer thirds, or its outer sentences."""
    if is_long:
        (_, first), (last, _) = equal_segments(len(frame))[0], equal_segments(len(frame))[2]
        before, after = frame[:first], frame[last:]
    else:
        spans = sentences(frame)
        before, after = frame[slice(*spans[0])], frame[slice(*spans[-1])]
    return f"{before.strip()}\n\n{passage}\n\n{after.strip()}"


def without_answer(text: str, answer: str) -> str:
    """Cut every sentence out that shares a character with the answer's only place.

    Raises
    ------
    ValueError
        If the answer has no place, or nothing is left.
    """
    found = locate_quote(text, answer).span
    if found is None:
        raise ValueError(f"answer {answer[:80]!r} has no single place; choose another query")
    start, end = found
    kept, at = [], 0
    for low, high in sentences(text):
        if low < end and start < high:
            kept.append(text[at:low].rstrip())
            at = high
    left = "".join([*kept, text[at:]]).strip()
    if not left:
        raise ValueError(f"without {answer[:80]!r} nothing is left; choose another query")
    return left
