"""Tasks that have pairs of query and text judged; any recipe may use them, under names of its own.

`grading_task` grades from 0 to 4: PosQ (section 3.2) grades a question against each segment,
PosIR (section 2.3, appendix C.3) against the document with and without its evidence.
`verdict_task` asks yes or no about one segment, without telling which is the target:
Controlled (appendix B).
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import polars as pl

from psibench.errors import InputError
from psibench.llm.tasks import (
    ADVICE,
    DOCUMENTS_TABLE,
    Gathered,
    LlmTask,
    Replied,
    Tables,
    TaskItem,
    reply_field,
)
from psibench.recipes.judged_rows import refuse_unknown_documents, with_judgements
from psibench.tables.build_schemas import GRADES, VERDICTS
from psibench.tables.spec import TableSpec

UNIT = "pairs"
PAIR_COLUMNS = ("_id", "query_id", "doc_id", "part")


def pairs_table(task: str) -> str:
    """Name the PAIRS table that a judging task reads."""
    return f"{task}_pairs"


def grading_task(name: str) -> LlmTask:
    """Make a task that grades every pair of ``{name}_pairs`` from 0 to 4: GRADES rows."""
    return _judging_task(
        name,
        template="grade_relevance",
        text_variable="passage",
        spec=GRADES,
        judged="grade",
        kind=pl.Int32,
        read=_grade,
    )


def verdict_task(name: str) -> LlmTask:
    """Make a task that says yes or no to every pair of ``{name}_pairs``: VERDICTS rows."""
    return _judging_task(
        name,
        template="judge_segment",
        text_variable="segment",
        spec=VERDICTS,
        judged="is_yes",
        kind=pl.Boolean,
        read=_is_yes,
    )


def _judging_task(
    name: str,
    *,
    template: str,
    text_variable: str,
    spec: TableSpec,
    judged: str,
    kind: type[pl.DataType],
    read: Callable[[Replied], int | bool],
) -> LlmTask:
    source = pairs_table(name)

    def items(tables: Tables, _section: Any) -> Iterator[TaskItem]:
        """Ask about the pairs of the documents given; those of other shards are left out."""
        pairs = _in_document_order(tables, source, "query", "text")
        for pair_id, _, doc_id, _, query, text in pairs.iter_rows():
            yield TaskItem(pair_id, doc_id, {"query": query, text_variable: text})

    def gather(tables: Tables, _section: Any, replies: Iterable[Replied]) -> Gathered:
        """Make a row of every pair; the judgement is null without a usable reply."""
        refuse_unknown_documents(tables, source)
        found = [(reply.item_id, read(reply)) for reply in replies]
        judgements = pl.DataFrame(found, schema={"_id": pl.String, judged: kind}, orient="row")
        pairs = _in_document_order(tables, source)
        rows = with_judgements(pairs, judgements, table=source)
        return Gathered(rows.select(spec.column_names))

    reads = (DOCUMENTS_TABLE, source)
    return LlmTask(name, UNIT, reads, spec, items, gather, prompt=template)


def _in_document_order(tables: Tables, source: str, *more: str) -> pl.DataFrame:
    """Return the pairs of the documents given, by document; within one, in their own order."""
    documents = tables[DOCUMENTS_TABLE].select(doc_id="_id")
    pairs = tables[source].select(*PAIR_COLUMNS, *more)
    joined = documents.join(pairs, on="doc_id", maintain_order="left_right")
    return joined.select(*PAIR_COLUMNS, *more)


def _grade(reply: Replied) -> int:
    grade = reply_field(reply, "grade", int)
    if not 0 <= grade <= 4:
        raise InputError(f"reply about {reply.item_id}: grade {grade}; allowed: 0 to 4. {ADVICE}")
    return grade


def _is_yes(reply: Replied) -> bool:
    verdict = reply_field(reply, "verdict", str)
    if verdict not in ("yes", "no"):
        raise InputError(
            f"reply about {reply.item_id}: verdict {verdict!r}; allowed: yes, no. {ADVICE}"
        )
    return verdict == "yes"
