"""Documents, queries and judgements of the filter studies: the default config's, asked in process.

The stand-in is called without its server; a request gets the same reply as through it.
"""

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import polars as pl

from psibench.config.paths import prompt_path
from psibench.config.sources import PythonDocsSource
from psibench.filters.grade import grading_task, pairs_table, verdict_task
from psibench.generate.benchmarks import Controlled
from psibench.generate.controlled import CHOOSE_CONFIGURATION, GENERATE_POSITIONAL_QUERY
from psibench.generate.personas import read_personas
from psibench.generate.sampling import draw, length_measure, read_candidates
from psibench.llm.prompts import load_prompt, task_requests
from psibench.llm.replies import parse_reply
from psibench.llm.sections import load_llms
from psibench.llm.standin.completion import complete
from psibench.llm.tasks import LlmTask, LlmTaskSection, Replied, Tables
from psibench.plan.config import load_config
from psibench.sources.documents import read_documents
from psibench.text.locate import locate_quote
from psibench.text.segments import POSITIONS, equal_segments

BENCHMARK = "python-docs"
JUDGES = ("stand-in", "stand-in-sentence", "stand-in-rare")
PAIRS_SCHEMA = dict.fromkeys(("_id", "query_id", "doc_id", "part", "query", "text"), pl.String)


@dataclass(frozen=True)
class Written:
    """Documents and the queries written about their thirds.

    Attributes
    ----------
    documents
        ``_id, text, origin, length, length_bin``.
    candidates
        Rows of the controlled recipe with two more columns: ``is_planted``, whether the query was
        written with the fault; ``answer_position``, the third that really contains its answer (null
        if no third contains it whole, or several places do).
    n_asked, n_planted
        Numbers of queries and of planted queries, before the recipe drops queries that have one
        text for two thirds.
    """

    documents: pl.DataFrame
    candidates: pl.DataFrame
    n_asked: int
    n_planted: int


@cache
def default_section() -> Controlled:
    """Return the default config's benchmark."""
    config, _ = load_config()
    section = config.benchmarks[BENCHMARK]
    assert isinstance(section, Controlled)
    return section


def draw_documents(n_documents: int, *, seed: int) -> pl.DataFrame:
    """Draw documents of the default config's lengths, whatever their length bin."""
    section = default_section()
    edges = [section.sample.edges[0], section.sample.edges[-1]]
    sample = section.sample.model_copy(
        update={"edges": edges, "shares": None, "n_documents": n_documents, "seed": seed}
    )
    read = read_documents(PythonDocsSource(kind="python_docs"))
    measure = length_measure(sample.unit)
    return draw(read_candidates(read.batches, sample, measure), where="sample").documents


def write_queries(documents: pl.DataFrame, *, wrong_position: float, seed: int) -> Written:
    """Write one query per third with the stand-in; planted queries are about another third.

    All documents have the same persona candidates, because the stand-in's queries do not depend on
    the persona. All queries of a share of the documents, drawn by ``seed``, are planted.
    """
    section = default_section()
    personas = read_personas(section.personas)[: section.personas.n_candidates]
    tables: dict[str, pl.DataFrame] = {
        "documents": documents,
        "persona_candidates": documents.select("_id", personas=pl.lit(personas)),
    }
    choose = section.choose_configuration
    generate = section.generate_positional_query.model_copy(update={"queries_per_position": 1})
    chosen = CHOOSE_CONFIGURATION.gather(tables, choose, ask(CHOOSE_CONFIGURATION, choose, tables))
    tables[CHOOSE_CONFIGURATION.name] = chosen.rows
    task = GENERATE_POSITIONAL_QUERY
    right = ask(task, generate, tables)
    given = with_wrong_thirds(right, wrong_position, seed)
    planted = [
        reply.item_id for reply, good in zip(given, right, strict=True) if reply.value != good.value
    ]
    candidates = task.gather(tables, generate, given).rows
    texts = dict(documents.select("_id", "text").iter_rows())
    positions = [
        answer_position(texts[doc_id], answer)
        for doc_id, answer in candidates.select("pos_corpus_id", "answer").iter_rows()
    ]
    found = candidates.with_columns(
        is_planted=pl.col("_id").is_in(planted),
        answer_position=pl.Series(positions, dtype=pl.String),
    )
    return Written(documents, found, len(given), len(planted))


def with_wrong_thirds(replies: Sequence[Replied], share: float, seed: int) -> list[Replied]:
    """Return the replies, exchanged between the thirds of a share of the documents."""
    values: dict[str, list[Any]] = {}
    for reply in replies:
        values.setdefault(reply.doc_id, []).append(reply.value)
    for doc_id, of_document in values.items():
        if random.Random(f"{seed}:{doc_id}").random() < share:
            values[doc_id] = [*of_document[1:], of_document[0]]
    left = {doc_id: iter(of_document) for doc_id, of_document in values.items()}
    return [replace(reply, value=next(left[reply.doc_id])) for reply in replies]


def ask(task: LlmTask, section: LlmTaskSection, tables: Tables) -> list[Replied]:
    """Ask the stand-in once about each item of a task, as through its server."""
    llm = load_llms()[section.llm]
    prompt = load_prompt(prompt_path(task.template, section.prompt))
    replies = []
    for item, request in task_requests(task, section, prompt, llm, tables):
        body = request.body(output_limit_key=llm.output_limit_key)
        name = hashlib.sha256(json.dumps(body).encode()).hexdigest()
        reply = complete(body, random.Random(name))
        message: Mapping[str, Any] = reply["choices"][0]["message"]
        value = parse_reply(message["content"], prompt.response.schema)
        replies.append(Replied(item.id, item.doc_id, item.target_position, value))
    return replies


def grades_of(pairs: pl.DataFrame) -> pl.DataFrame:
    """Return the grades of the stand-in's three judges on PAIRS rows: GRADES with ``judge``."""
    frames = []
    for judge in JUDGES:
        grades = _judged(grading_task("grade"), judge, pairs)
        columns = ("query_id", "doc_id", "judge", "part", "grade")
        frames.append(grades.with_columns(judge=pl.lit(judge)).select(columns))
    return pl.concat(frames)


def verdicts_of(pairs: pl.DataFrame, *, judge: str) -> pl.DataFrame:
    """Return one judge's yes or no to PAIRS rows, as VERDICTS rows."""
    return _judged(verdict_task("audit"), judge, pairs)


def answer_position(text: str, answer: str) -> str | None:
    """Return the third of a text with the whole answer, or with most of it; None without one."""
    found = locate_quote(text, answer).span
    if found is None:
        return None
    start, end = found
    shared = [min(end, high) - max(start, low) for low, high in equal_segments(len(text))]
    return str(POSITIONS[shared.index(max(shared))])


def _judged(task: LlmTask, judge: str, pairs: pl.DataFrame) -> pl.DataFrame:
    documents = pairs.select(_id="doc_id").unique(maintain_order=True)
    tables = {"documents": documents, pairs_table(task.name): pairs}
    section = LlmTaskSection(llm=judge)
    return task.gather(tables, section, ask(task, section, tables)).rows
