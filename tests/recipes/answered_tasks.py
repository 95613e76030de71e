"""Tasks of recipes answered by the stand-in's rules in process, and documents for them."""

import hashlib
import json
import random

import polars as pl

from psibench.config.paths import PROMPTS
from psibench.generate import ask as ask_stage
from psibench.llm.prompts import load_prompt
from psibench.llm.replies import parse_reply
from psibench.llm.standin.completion import complete
from psibench.llm.tasks import Gathered, Replied
from psibench.tables import conform
from psibench.tables.build_schemas import OUTCOMES
from psibench.tables.dropped import DROPPED_SCHEMA, flow_frame
from psibench.tables.ledger import check_balance


def documents(texts) -> pl.DataFrame:
    """Make a table of sampled documents from texts by id, or from texts with ids d0, d1, ..."""
    named = texts if isinstance(texts, dict) else {f"d{i}": t for i, t in enumerate(texts)}
    schema = dict.fromkeys(("_id", "text", "origin"), pl.String)
    rows = [(doc_id, text, "test") for doc_id, text in named.items()]
    return pl.DataFrame(rows, schema=schema, orient="row").with_columns(
        length=pl.col("text").str.len_chars().cast(pl.Int32), length_bin=pl.lit("0-8192")
    )


def ask(task, section, tables) -> list[Replied]:
    """Ask every item of a task; only the prompt decides the reply, in any order."""
    prompt = load_prompt(PROMPTS / f"{task.template}.md")
    replies = []
    for item in task.items(tables, section):
        messages = prompt.render(item.values)
        body = {
            "model": "stand-in/rules",
            "messages": [{"role": m.role, "content": m.content} for m in messages],
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": task.template, "schema": prompt.response.schema},
            },
        }
        seed = hashlib.sha256(f"{item.sample}{messages[-1].content}".encode()).hexdigest()
        message = complete(body, random.Random(seed))["choices"][0]["message"]
        value = parse_reply(message["content"], prompt.response.schema)
        replies.append(Replied(item.id, item.doc_id, item.target_position, value))
    return replies


def gather(task, section, tables, replies, **context) -> Gathered:
    """Gather replies and check the rows and counts that every task guarantees."""
    outcomes = [
        {
            "item_id": one.item_id,
            "doc_id": one.doc_id,
            "target_position": one.target_position,
            "status": "ok",
            "value": json.dumps(one.value),
        }
        for one in replies
    ]
    rows = pl.DataFrame(outcomes, schema=OUTCOMES.empty().schema)
    gathered = ask_stage.gather(task, section, tables, rows, **context)
    conform(gathered.rows, task.spec, where=task.name)
    assert dict(gathered.dropped.schema) == DROPPED_SCHEMA
    assert set(gathered.dropped["stage"]) <= {task.name}
    check_balance(gathered.dropped, flow_frame(task.name, 0, gathered.flow))
    assert set(gathered.dropped["unit"]) <= {flow.unit for flow in gathered.flow}
    for unit, item_id, doc_id in gathered.dropped.select("unit", "item_id", "doc_id").iter_rows():
        assert item_id == doc_id if unit == "documents" else item_id.startswith(f"{doc_id}-")
    lengths = dict(tables["documents"].select("_id", pl.col("text").str.len_chars()).iter_rows())
    assert set(gathered.dropped["char_length"]) <= set(lengths.values())
    return gathered


def reasons(gathered) -> dict[str, str]:
    """Return id of a dropped item -> reason."""
    return dict(gathered.dropped.select("item_id", "reason").iter_rows())
