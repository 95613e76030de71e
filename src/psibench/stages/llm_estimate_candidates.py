"""The candidates that some documents will have, for estimates of the tasks that judge them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import polars as pl

from psibench.recipes.controlled import GENERATE_POSITIONAL_QUERY
from psibench.recipes.fineweb_posq import GENERATE_QUESTIONS
from psibench.recipes.llm_tasks import LlmTask, Replied, Tables
from psibench.recipes.posir import LOCATE_SPAN, PROPOSE_QUESTIONS
from psibench.recipes.reply_fields import reply_field
from psibench.stages.llm_walk import Walked

Queries = Iterator[tuple[str, str, Replied]]
"""Query id, text, and the reply it is from."""

SCHEMA: dict[str, Any] = {
    "_id": pl.String,
    "text": pl.String,
    "pos_corpus_id": pl.String,
    "pos_char_span": pl.Array(pl.Int32, 2),
    "target_position": pl.String,
}
NO_SPAN = [0, 0]


def expected_candidates(
    task: LlmTask, tables: Tables, walked: Walked, rows: pl.DataFrame
) -> pl.DataFrame:
    """Return the candidates to come, or as many as there can be.

    Parameters
    ----------
    task
        The last task that writes.
    tables
        What it read.
    walked
        Its replies.
    rows
        What it made of them.

    Returns
    -------
    ``rows`` where every reply is known. Where replies are examples, which fit no document and are
    all alike, every query in a reply: SCHEMA rows, with an empty span, so that the document
    without its evidence is as long as the document.
    """
    if walked.basis in ("answered", "stand-in"):
        return rows
    found = (
        (query_id, text, reply.doc_id, NO_SPAN, reply.target_position)
        for query_id, text, reply in QUERIES[task.name](walked.replies, tables)
    )
    return pl.DataFrame(list(found), schema=SCHEMA, orient="row")


def _of_chunks(replies: Iterable[Replied], _: Tables) -> Queries:
    for reply in replies:
        for number, entry in enumerate(reply_field(reply, "questions", list)):
            text = reply_field(reply, "question", str, inside=entry)
            yield f"{reply.item_id}-q{number}", text, reply


def _of_thirds(replies: Iterable[Replied], _: Tables) -> Queries:
    for reply in replies:
        yield reply.item_id, reply_field(reply, "query", str), reply


def _proposed(replies: Iterable[Replied], tables: Tables) -> Queries:
    texts = dict(tables[PROPOSE_QUESTIONS.name].select("_id", "text").iter_rows())
    for reply in replies:
        yield reply.item_id, texts[reply.item_id], reply


QUERIES: Mapping[str, Callable[[Iterable[Replied], Tables], Queries]] = {
    GENERATE_QUESTIONS.name: _of_chunks,
    LOCATE_SPAN.name: _proposed,
    GENERATE_POSITIONAL_QUERY.name: _of_thirds,
}
"""Last writing task of a recipe -> the queries that its replies are about."""
