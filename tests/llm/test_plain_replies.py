"""A user's own templates with plain replies, asked over HTTP and in batches, to the tables."""

import json

import polars as pl
import pytest
from batch_helpers import Server
from standin_batches import BatchStandIn, _output

from psibench.generate.ask import AskedDomain, asked_of, run_ask, run_gather
from psibench.llm.standin.server import json_response
from psibench.tables import read_provenance, read_table, write_table
from psibench.tables.build_schemas import LLM_USAGE, OUTCOMES, PAIRS
from psibench.tables.derived import provenance
from psibench.tables.schemas import ATTRITION, DOCUMENTS

GRADE = """---
task: grade_relevance
variables: [query, passage]
response: integer
---
## user
How useful is the passage to someone who asks the query, from 0 (of no use) to 4 (of all use)?
Query: {{ query }}
Passage: {{ passage }}
Answer with the number and nothing else.
"""
# The length is written out: `max_words`, which the task would fill in, is not used.
SUMMARISE = """---
task: summarise
variables: [document]
response: text
---
## user
Shorten the text to fifty words at most, and write nothing but these.

{{ document }}
"""
TEXTS = {"a": "A copper mine opened.", "b": "Sheep grazed.", "c": "Coal ran out.", "d": "Rain."}
# What the model says, by the text it is asked about: first, and asked once more.
REPLIES = {
    "grade": {
        "copper": ["3"],
        "Sheep": ["<think>Perhaps 4? It has 1 of 2 parts.</think>\n\n**Score:** 0"],
        "Coal": ["3 or 4", "4"],
        "Rain": ["7", "7"],
    },
    "summarise": {
        "copper": ["There was a mine.\n"],
        "Sheep": ["<think>Short enough.</think>\n\nSheep grazed there."],
        "Coal": ["```\nCoal ran out: {3, 4}.\n```"],
        "Rain": ["<think>Nothing to shorten.</think>", "Rain fell."],
    },
}


class PlainModel(BatchStandIn):
    """A server whose model writes what the script says; it keeps what it was sent."""

    def __init__(self, replies):
        super().__init__()
        self.replies, self.bodies = replies, []

    def _completion(self, body):
        (message,) = body["messages"]
        text = next(name for name in self.replies if name in message["content"])
        n_before = sum(text in sent["messages"][0]["content"] for sent in self.bodies)
        self.bodies.append(body)
        reply = {"role": "assistant", "content": self.replies[text][n_before]}
        return {
            "model": body["model"],
            "choices": [{"message": reply, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 20, "completion_tokens": 5},
        }

    async def chat(self, request):
        return json_response(self._completion(json.loads(await request.read())))

    def _answer(self, line, faults, words):
        return _output(line, 200, self._completion(line["body"]))


@pytest.fixture
def folder(tmp_path):
    source = provenance("sample", params={}, inputs={})
    documents = {"_id": list(TEXTS), "text": list(TEXTS.values()), "origin": ["here"] * len(TEXTS)}
    write_table(
        pl.DataFrame(documents), tmp_path / "documents.parquet", DOCUMENTS, provenance=source
    )
    pairs = [
        (f"q{one}--document", f"q{one}", one, "document", "mines", TEXTS[one]) for one in TEXTS
    ]
    frame = pl.DataFrame(pairs, schema=PAIRS.column_names, orient="row")
    write_table(frame, tmp_path / "grade_first_pairs.parquet", PAIRS, provenance=source)
    (tmp_path / "grade.md").write_text(GRADE)
    (tmp_path / "summarise.md").write_text(SUMMARISE)
    return tmp_path


def run(folder, task, prompt, backend):
    """Ask a task about all documents and gather it: (bodies sent, its rows, what it dropped)."""
    server = Server()
    server.stand_in = PlainModel(REPLIES[prompt])
    with server:
        config = {
            "benchmarks": {
                "mine": {
                    "recipe": "fineweb_posq",
                    "source": {"kind": "python_docs"},
                    "summarise": {"llm": "plain"},
                    "generate_questions": {"llm": "plain"},
                    "verify": {"rerankers": ["embedded-bm25"]},
                    "grade": {"llm": "plain"},
                }
            },
            "llms": {
                "plain": {
                    "backend": backend,
                    "model": "plain-1",
                    "base_url": server.url,
                    "reply_format": "json_schema",  # a plain reply is not asked for by a schema
                    "asking": {"max_reasks": 1, "concurrency": 1},
                    "batch": {"poll_s": 0.05},
                }
            },
        }
        path = folder / f"{prompt}.md"
        asking, prices = asked_of(
            config, benchmark="mine", task=task, language="eng-Latn", prompt=path
        )
        tables = {name: folder / f"{name}.parquet" for name in asking.task.reads}
        outcomes, usage = folder / "outcomes.parquet", folder / "usage.parquet"
        run_ask(
            asking,
            [AskedDomain(tables, outcomes=outcomes, usage=usage)],
            shard="0-of-1",
            prices=prices,
            store=folder / "store",
        )
    run_gather(
        asking.task,
        asking.section,
        step=1,
        language="eng-Latn",
        domain="general",
        tables=tables,
        outcomes=[outcomes],
        rows=folder / "rows.parquet",
        dropped=folder / "dropped.parquet",
        flow=folder / "flow.parquet",
    )
    rows = read_table(folder / "rows.parquet", asking.task.spec)
    return server.stand_in.bodies, rows, read_table(folder / "dropped.parquet", ATTRITION)


both_backends = pytest.mark.parametrize("backend", ["openai", "openai-batch"])


@both_backends
def test_bare_integers_become_grades(folder, backend):
    bodies, rows, dropped = run(folder, "grade_first", "grade", backend)
    assert rows.select("doc_id", "grade").rows() == [("a", 3), ("b", 0), ("c", 4), ("d", None)]
    # "3 or 4" was asked again; 7 is no grade, twice.
    assert dropped.select("doc_id", "reason", "detail").rows() == [
        ("d", "malformed", "grade_is_out_of_range: 7")
    ]
    assert len(bodies) == 6
    assert {frozenset(body) for body in bodies} == {frozenset(("model", "messages"))}
    outcomes = read_table(folder / "outcomes.parquet", OUTCOMES)
    assert outcomes["value"].to_list() == ['{"grade": 3}', '{"grade": 0}', '{"grade": 4}', None]
    assert outcomes["n_replies"].to_list() == [1, 1, 2, 2]
    record = read_provenance(folder / "outcomes.parquet")
    assert record["revisions"]["llm:plain"] == "plain-1"


@both_backends
def test_running_texts_become_summaries(folder, backend):
    bodies, rows, dropped = run(folder, "summarise", "summarise", backend)
    assert rows.rows() == [
        ("a", "There was a mine."),
        ("b", "Sheep grazed there."),
        ("c", "Coal ran out: {3, 4}."),
        ("d", "Rain fell."),  # after a reply of thoughts alone
    ]
    assert dropped.is_empty()
    assert {frozenset(body) for body in bodies} == {frozenset(("model", "messages"))}
    asked_about = bodies[0]["messages"][0]["content"].splitlines()
    assert asked_about[0] == "Shorten the text to fifty words at most, and write nothing but these."
    (used,) = read_table(folder / "usage.parquet", LLM_USAGE).to_dicts()
    assert (used["estimated_requests"], used["n_requests"]) == (4, 5)
    assert used["estimated_output_tokens"] > 0  # by the shipped template's example
