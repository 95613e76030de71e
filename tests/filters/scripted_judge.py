"""A judge that says what a test wants: raw replies, read and gathered as the engine's are."""

import json

import polars as pl

from psibench.config.paths import PROMPTS
from psibench.generate.ask import gather
from psibench.llm.answer import Answer, interpret
from psibench.llm.prompts import load_prompt
from psibench.llm.tasks import LlmTaskSection
from psibench.llm.usage import Usage
from psibench.tables import read_table, write_table
from psibench.tables.build_schemas import OUTCOMES, PAIRS
from psibench.tables.provenance import Provenance
from psibench.tables.schemas import DOCUMENTS

SECTION = LlmTaskSection(llm="judge")
JUDGED = Provenance("gather", 1, queries_by="llm:the-judge", llm_backend="stand-in")
UNUSABLE = "3.5"


def say(key, value) -> str:
    """Reply as asked for; None: something that is no judgement."""
    return UNUSABLE if value is None else json.dumps({key: value})


def judge(task, reply, *, documents, pairs, output) -> list[str]:
    """Ask ``reply`` (pair id -> raw text) about every pair; write the table, list the ids asked."""
    tables = {
        "documents": read_table(documents, DOCUMENTS),
        f"{task.name}_pairs": read_table(pairs, PAIRS),
    }
    schema = load_prompt(PROMPTS / f"{task.template}.md").response
    asked, rows = [], []
    for item in task.items(tables, SECTION):
        answer = Answer(
            "key", task.name, "m", reply(item.id), "stop", None, Usage(1, 1), 1, 0.1, "2026-01-01"
        )
        read = interpret(answer, schema, item_id=item.id)
        asked.append(item.id)
        rows.append(
            {
                "item_id": item.id,
                "doc_id": item.doc_id,
                "target_position": None,
                "status": read.status,
                "reason": read.reason,
                "value": json.dumps(read.value) if read.status == "ok" else None,
                "reply": read.text,
                "key": read.key,
                "model": read.model,
                "n_replies": 1,
                "input_tokens": 1,
                "cached_input_tokens": 0,
                "output_tokens": 1,
            }
        )
    empty = pl.DataFrame(pl.from_arrow(OUTCOMES.schema.empty_table()))
    gathered = gather(task, SECTION, tables, pl.DataFrame(rows, schema=empty.schema))
    write_table(gathered.rows, output, task.spec, provenance=JUDGED)
    return asked
