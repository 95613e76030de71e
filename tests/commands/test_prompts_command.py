from pathlib import Path

import polars as pl
import pytest
import yaml
from language_tables import write_domains

from psibench.cli import main
from psibench.tables import Provenance
from psibench.tables.build_schemas import PAIRS, PROPOSED
from psibench.tables.schemas import DOCUMENTS

POSIR = {
    "recipe": "posir",
    "source": {"kind": "files", "paths": ["texts"]},
    "propose_questions": {"llm": "stand-in", "n_questions": 2},
    "locate_span": {"llm": "stand-in"},
}
JUDGED = {
    "recipe": "controlled",
    "source": {"kind": "files", "paths": ["texts"]},
    "choose_configuration": {"llm": "stand-in"},
    "generate_positional_query": {"llm": "stand-in"},
    "verify": {"rerankers": ["embedded-bm25"], "rule": "margin"},
    "grade": {"llm": "stand-in"},
    "audit": {"llm": "stand-in-rare"},
    "false_negatives": {
        "protocol": "fineweb_posq",
        "recall": {"model": "bm25"},
        "rerankers": ["embedded-bm25"],
        "judges": ["stand-in", "stand-in-rare"],
    },
}
PROMPT = """---
task: locate_span
variables: [document, question, answer]
response:
  type: object
  properties: {quote: {type: string}}
  required: [quote]
  additionalProperties: false
---
## system
Find it.

## user
{{ question }} ({{ answer }}) in: {{ document }}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def config(folder, **benchmarks):
    path = folder / "my.yaml"
    path.write_text(yaml.safe_dump({"benchmarks": benchmarks or {"mine": POSIR}}))
    return str(path)


def tables(folder, name="mine"):
    build = folder / folder_of(name)
    documents = pl.DataFrame(
        {
            "_id": [f"d{n}" for n in range(5)],
            "text": [f"Text {n}." for n in range(5)],
            "origin": "o",
            "length": 7,
            "length_bin": "0-256",
        }
    )
    made = Provenance("sample", 1)
    write_domains({"general": documents}, build / "documents.parquet", DOCUMENTS, provenance=made)
    proposed = pl.DataFrame(
        {
            "_id": ["d3-q1"],
            "text": ["Which text?"],
            "pos_corpus_id": ["d3"],
            "target_position": ["end"],
            "answer": ["Text {{ 3 }}"],
        }
    )
    path = build / "propose_questions.parquet"
    write_domains({"general": proposed}, path, PROPOSED, provenance=made)


def pairs(task, name="mine"):
    build = folder_of(name)
    row = ("d3-q1--end", "d3-q1", "d3", "end", "Which text?", "Text {{ 3 }}")
    frame = pl.DataFrame([row], schema=list(PAIRS.column_names), orient="row")
    made = Provenance("grade", 1)
    write_domains({"general": frame}, build / f"{task}_pairs.parquet", PAIRS, provenance=made)


def folder_of(name):
    return Path("results") / name / "build" / "eng-Latn"


def refusal(capsys, *argv):
    assert main(["prompts", *argv]) == 2
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err
    return printed.err


def test_render_prints_the_final_messages_under_their_roles(folder, capsys):
    tables(folder)
    (folder / "own.md").write_text(PROMPT)
    own = POSIR | {"locate_span": {"llm": "stand-in", "prompt": "own.md"}}
    path = config(folder, mine=own)
    assert main(["prompts", "render", "locate_span", "--row", "d3-q1", "--config", path]) == 0
    assert capsys.readouterr().out == (
        "# mine, eng-Latn, general\n\n## system\nFind it.\n\n"
        "## user\nWhich text? (Text {{ 3 }}) in: Text 3.\n"
    )


def test_an_unknown_id_is_refused_with_three_that_there_are(folder, capsys):
    tables(folder)
    message = refusal(
        capsys, "render", "propose_questions", "--row", "d9", "--config", config(folder)
    )
    assert "propose_questions: no item 'd9' among 5; some ids: d0, d1, d2\n" in message


def test_missing_tables_are_named_with_the_command_that_makes_them(folder, capsys):
    path = config(folder)
    message = refusal(capsys, "render", "locate_span", "--row", "d1-q1", "--config", path)
    table = "results/mine/build/eng-Latn/documents.parquet"
    assert f"{table}, " in message
    assert "propose_questions.parquet, which does not exist yet" in message
    assert f"`psibench run {path} {table} " in message


def test_an_unknown_task_is_refused_with_known_tasks(folder, capsys):
    message = refusal(capsys, "render", "summarise", "--row", "d1", "--config", config(folder))
    assert "no benchmark in the config has the task 'summarise'; tasks: " in message
    assert "propose_questions, locate_span" in message


@pytest.mark.parametrize(("task", "tag"), [("audit", "segment"), ("judge_2", "passage")])
def test_render_shows_what_a_judge_gets_for_a_pair(task, tag, folder, capsys):
    tables(folder)
    pairs(task)
    path = config(folder, mine=JUDGED)
    assert main(["prompts", "render", task, "--row", "d3-q1--end", "--config", path]) == 0
    printed = capsys.readouterr().out
    assert "<query>\nWhich text?\n</query>" in printed
    assert f"<{tag}>\nText {{{{ 3 }}}}\n</{tag}>" in printed
    message = refusal(capsys, "render", task, "--row", "d3-q1", "--config", path)
    assert f"{task}: no item 'd3-q1' among 1; some ids: d3-q1--end\n" in message
