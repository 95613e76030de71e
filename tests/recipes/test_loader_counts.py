"""Items that recipes drop while loading are counted, so that the ledger balances."""

import json

import jobs
import polars as pl
import pytest
from built_benchmark import write_release

from psibench.generate.recipes import run_build
from psibench.tables import read_table
from psibench.tables.build_schemas import FLOW, LLM_USAGE
from psibench.tables.domains import by_place
from psibench.tables.ledger import run_ledger
from psibench.tables.schemas import ATTRITION

OUTPUTS = ("corpus", "queries", "qrels", "dropped", "flow")


def write_lines(path, *records):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return {"kind": "files", "paths": [str(path)]}


def posir_release(folder):
    """One of four queries has evidence beyond its text, one no positive, one a missing one."""
    asked = [("q1", [3, 7]), ("q2", [9, 9]), ("q3", [0, 2]), ("q4", [0, 2])]
    write_release(
        folder / "eng-Latn" / "game",
        corpus=pl.DataFrame({"_id": ["d1"], "text": ["go has stones"]}),
        queries=pl.DataFrame(asked, schema=["_id", "pos_char_span"], orient="row").with_columns(
            text=pl.lit("?"), pos_char_length=13, pos_token_length=3
        ),
        qrels=pl.DataFrame(
            [("q1", "d1", 1), ("q2", "d1", 1), ("q4", "x", 1)],
            schema=["query-id", "corpus-id", "score"],
            orient="row",
        ),
    )
    return {"source": {"path": str(folder)}, "domain": "game"}


def beir(folder):
    """The positive of one of two queries is not in the corpus."""
    write_lines(folder / "corpus.jsonl", {"_id": "d1", "title": "", "text": "zinc lowers fever"})
    write_lines(
        folder / "queries.jsonl", {"_id": "q1", "text": "zinc?"}, {"_id": "q2", "text": "iron?"}
    )
    (folder / "qrels").mkdir()
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td2\t1\n")
    quotes = {"query_id": "q1", "document_id": "d1", "quotes": ["zinc lowers"]}
    source = write_lines(folder / "quotes.jsonl", quotes)
    return {
        "source": {"path": str(folder)},
        "evidence": {"layout": "quotes", "source": source},
    }


def colder(folder):
    """The documents of one of two pairs are the same."""
    pairs = [
        {"query": "Who?", "document_1": "She made it .", "document_2": "It was made ."},
        {"query": "When?", "document_1": "Then .", "document_2": "Then ."},
    ]
    return {"source": write_lines(folder / "pairs.jsonl", *pairs), "subset": "brevity_bias"}


def documents(folder):
    """One of two pieces is a passage; one of the other document's two passages is drawn."""
    source = write_lines(
        folder / "texts.jsonl",
        {"_id": "a", "text": "one two three\n\n" + "four"},
        {"_id": "b", "text": "five six seven"},
    )
    passages = {"min_words": 2, "max_words": 3}
    return {"source": source, "passages": passages, "n_documents": 2, "part": [0, 0.5]}


def fineweb_posq_release(folder):
    """Tiny takes each text once, so it drops one of two questions with the same text."""
    record = {"question": "who?", "content": "zeta A x", "span_class": ["beginning"]}
    return {"source": write_lines(folder / "train.jsonl", record, record), "subset": "tiny"}


def known_item(folder):
    """Paragraphs, passages and queries are each dropped by a separate stage."""
    source = {"kind": "python_docs", "part": "language", "min_words": 60, "max_words": 90}
    return {"source": source | {"seed": 1}}


def squad_posq(folder):
    """One of two questions has no answer."""
    answered = {"id": "q1", "question": "who?", "answers": [{"text": "A", "answer_start": 5}]}
    other = {"id": "q2", "question": "why?", "answers": [], "is_impossible": True}
    paragraph = {"context": "zeta A x", "qas": [answered, other]}
    path = folder / "dev.json"
    path.write_text(json.dumps({"data": [{"title": "t", "paragraphs": [paragraph]}]}))
    return {"source": {"kind": "squad", "paths": [str(path)]}}


def bad_beir(folder):
    """Like `beir`; another query has no text, and a pair is judged twice with one grade."""
    section = beir(folder)
    with (folder / "queries.jsonl").open("a") as file:
        file.write('{"_id": "q3", "text": ""}\n')
    with (folder / "qrels" / "test.tsv").open("a") as file:
        file.write("q3\td1\t1\nq1\td1\t1\n")
    section["source"]["max_bad_share"] = 0.5
    return section


def bad_squad_posq(folder):
    """Like `squad_posq`; the answer of a third question is not at its offset."""
    section = squad_posq(folder)
    path = folder / "dev.json"
    data = json.loads(path.read_text())
    wrong = {"id": "q3", "question": "who?", "answers": [{"text": "A", "answer_start": 0}]}
    data["data"][0]["paragraphs"][0]["qas"].append(wrong)
    path.write_text(json.dumps(data))
    return section


def bad_documents(folder):
    """One of three files is not a PDF."""
    for name in ("a", "b"):
        (folder / f"{name}.txt").write_text(f"text {name}")
    (folder / "c.pdf").write_bytes(b"%PDF-1.4 nothing")
    return {"source": {"kind": "files", "paths": [str(folder)]}, "n_documents": 2}


@pytest.mark.parametrize(
    ("recipe", "counts"),
    [
        (posir_release, {("posir_release", "queries"): (4, 1, 3)}),
        (beir, {("beir", "queries"): (2, 1, 1)}),
        (colder, {("colder", "pairs"): (2, 1, 1)}),
        (
            documents,
            {("cut_documents", "passages"): (3, 2, 1), ("documents", "documents"): (2, 1, 1)},
        ),
        (fineweb_posq_release, {("fineweb_posq_release", "questions"): (2, 1, 1)}),
        (known_item, None),
        (squad_posq, {("squad_posq", "questions"): (2, 1, 1)}),
        (bad_beir, {("beir", "queries"): (3, 1, 2), ("beir", "qrels"): (4, 3, 1)}),
        (
            bad_squad_posq,
            {("squad", "questions"): (3, 2, 1), ("squad_posq", "questions"): (2, 1, 1)},
        ),
        (
            bad_documents,
            {("files", "documents"): (3, 2, 1), ("documents", "documents"): (2, 2, 0)},
        ),
    ],
)
def test_rows_dropped_while_loading_are_counted(tmp_path, recipe, counts):
    given = {
        "recipe": recipe.__name__.removeprefix("bad_"),
        "length_tokenizer": "words",
        **recipe(tmp_path),
    }
    paths = {name: tmp_path / f"{name}.parquet" for name in OUTPUTS}
    jobs.run(run_build, {}, paths, domains={"general": given}, on_empty="drop")
    left_out = read_table(paths["dropped"], ATTRITION)
    flow = read_table(paths["flow"], FLOW)
    found = {
        (row["stage"], row["unit"]): (row["entered"], row["kept"], row["dropped"])
        for row in flow.iter_rows(named=True)
    }
    assert left_out.height == sum(dropped for *_, dropped in found.values()) > 0
    assert all(entered == kept + dropped for entered, kept, dropped in found.values())
    if counts is not None:
        assert found == counts
    place = {name: [str(paths[name])] for name in ("dropped", "flow")}
    place |= {"lang": "eng-Latn", "domains": ["general"]}
    place |= {name: [] for name in ("documents", "usage", "queries")}
    specs = {"attrition": ATTRITION, "flow": by_place(FLOW), "usage": by_place(LLM_USAGE)}
    made = {name: tmp_path / f"all-{name}.parquet" for name in specs}
    inputs = {key: [] for key in ("documents", "dropped", "flows", "usages")}
    jobs.run(run_ledger, inputs, made, places=[place])  # refuses rows that no stage counted
    assert read_table(made["flow"], specs["flow"]).height == len(found)
