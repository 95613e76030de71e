from pathlib import Path

import polars as pl
import pytest
import yaml
from language_tables import write_domains

from psibench.cli import main
from psibench.tables import Provenance, write_table
from psibench.tables.build_schemas import PAIRS, PROPOSED, REFUSAL_SUSPECTS, TEXT_PARTS
from psibench.tables.build_schemas import TRANSLATED as TRANSLATED_SPEC
from psibench.tables.schemas import CORPUS, DOCUMENTS, QUERIES

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
    assert "propose_questions.parquet: not made yet" in message
    assert f"`psibench run {path} {table} " in message


def test_a_task_that_no_benchmark_has_is_refused_with_the_tasks_there_are(folder, capsys):
    message = refusal(capsys, "render", "summarise", "--row", "d1", "--config", config(folder))
    assert "no benchmark in the config has a task 'summarise'; tasks: " in message
    assert "propose_questions, locate_span" in message


@pytest.mark.parametrize(
    ("task", "tag"),
    [
        ("grade_rest", "passage"),
        ("audit", "segment"),
        ("judge_2", "passage"),
    ],
)
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


TRANSLATED = {
    "recipe": "squad_posq",
    "source": {"kind": "squad", "paths": ["a.json"]},
    "translate": {
        "llm": "stand-in",
        "to": ["deu-Latn", "spa-Latn"],
        "clean": {"refusals": {"llm": "stand-in"}},
        "quality": {"llm": "stand-in"},
    },
}
TEXT = "Salt was dear. Then the railway came."
MADE = Provenance("translate", 1)


def translated_tables(domain="general", doc_id="d1"):
    """Write what the tasks of a translation to Spanish read."""
    results = Path("results/mine")
    source = f"eng-Latn/{domain}"
    document = {"_id": [doc_id], "text": [TEXT], "char_length": [37], "word_count": [7]}
    corpus = pl.DataFrame(document | {"token_length": [9]}).with_columns(
        pl.col("char_length", "word_count", "token_length").cast(pl.Int32)
    )
    write_table(corpus, results / "data" / source / "corpus.parquet", CORPUS, provenance=MADE)
    query = [("q1", "What came?", doc_id, [15, 37], 37, 9, None)]
    queries = frame_of(QUERIES, query)
    write_table(queries, results / "data" / source / "queries.parquet", QUERIES, provenance=MADE)
    part = [(f"d:{doc_id}:0", doc_id, doc_id, "document", 0, 1, TEXT, "")]
    path = results / "build" / "eng-Latn" / "text_parts.parquet"
    write_domains({domain: frame_of(TEXT_PARTS, part)}, path, TEXT_PARTS, provenance=MADE)
    there = results / "build" / "spa-Latn"
    rows = [
        (doc_id, "document", doc_id, "La sal era cara. Vino el tren.", None, 1, [], None),
        ("q1", "query", doc_id, "¿Qué vino?", None, 1, [], None),
    ]
    path = there / "translated.parquet"
    translated = frame_of(TRANSLATED_SPEC, rows)
    write_domains({domain: translated}, path, TRANSLATED_SPEC, provenance=MADE)
    suspect = [("q:q1", doc_id, "q1", "query", "Lo siento.")]
    path = there / "refusal_suspects.parquet"
    suspects = frame_of(REFUSAL_SUSPECTS, suspect)
    write_domains({domain: suspects}, path, REFUSAL_SUSPECTS, provenance=MADE)


def frame_of(spec, rows):
    empty = pl.DataFrame(pl.from_arrow(spec.schema.empty_table()))
    return pl.DataFrame(rows, schema=empty.schema, orient="row")


@pytest.mark.parametrize(
    ("task", "row", "words"),
    [
        ("translate", "d:d1:0", ["<target_language>Spanish</target_language>", f"\n{TEXT}\n"]),
        ("judge_refusals", "q:q1", ["<target_language>Spanish</target_language>", "Lo siento."]),
    ],
)
def test_render_shows_what_a_task_of_a_translation_asks(task, row, words, folder, capsys):
    translated_tables()
    asked = ["render", task, "--row", row, "--config", config(folder, mine=TRANSLATED)]
    assert main(["prompts", *asked]) == 0
    printed = capsys.readouterr().out
    assert [word for word in words if word not in printed] == []


def test_an_item_is_found_in_whichever_domain_has_it(folder, capsys):
    texts = {"kind": "squad", "paths": ["a.json"]}
    corpora = [{"domain": name, "source": texts} for name in ("law", "art", "sea")]
    many = TRANSLATED | {"source": None, "corpora": corpora}
    translated_tables("art", "d2")
    path = config(folder, mine=many)
    asked = ["render", "translate", "--config", path, "--row"]
    assert main(["prompts", *asked, "d:d2:0"]) == 0
    assert "<target_language>German</target_language>" in capsys.readouterr().out
    message = refusal(capsys, *asked, "d:d9:0")
    # Two languages read the same table; two more domains of each have none.
    assert "no item 'd:d9:0' among 2; some ids: d:d2:0, d:d2:0; the tables of 4 more" in message
