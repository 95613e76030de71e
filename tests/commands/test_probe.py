"""`psibench probe`: one probe without a workflow."""

import json
from pathlib import Path

import polars as pl
import pytest

from psibench.cli import main
from psibench.probes.cosines import PROBE_COSINES
from psibench.probes.retrieval import REVERSAL_SCORES
from psibench.probes.tables import PROBE_TABLE
from psibench.tables import read_provenance, read_table

NOUNS = "river stone engine market winter letter garden copper window bridge".split()


def sentences(number: int) -> str:
    words = NOUNS[number % 10 :] + NOUNS[: number % 10]
    return " ".join(f"The {word} number {number} is here." for word in words)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for number in range(6):
        (corpus / f"d{number}.txt").write_text(sentences(number))
    with (tmp_path / "queries.jsonl").open("w") as file:
        for number in range(6):
            row = {
                "_id": f"q{number}",
                "text": f"what of the {NOUNS[number]}",
                "pos_corpus_id": f"d{number}",
                "pos_char_span": [0, 10],
                "pos_char_length": len(sentences(number)),
            }
            file.write(json.dumps(row) + "\n")
    return tmp_path


def probe(folder: Path, name: str, *options: str, model: str = "minilm-static") -> int:
    return main(["probe", name, model, str(folder / "corpus"), *options])


def test_a_folder_of_texts_gives_a_summary_and_tables(folder, capsys):
    out, name = folder / "found.parquet", "removal"
    assert probe(folder, name, "--n", "4", "--out", str(out)) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[1].split()[3] == name
    assert "minilm-static" in printed
    assert main(["show", str(out)]) == 0
    assert capsys.readouterr().out == printed
    found = read_table(out, PROBE_TABLE)
    assert set(found["probe"]) == {name}
    assert found["n_documents"].max() == 4
    rows = read_table(folder / "found.rows.parquet", PROBE_COSINES)
    assert rows["document_id"].n_unique() == 4
    record = read_provenance(out)
    assert "model:minilm-static" in record["revisions"]
    assert probe(folder, name, "--n", "4", "--out", str(folder / "found.csv")) == 0
    assert pl.read_csv(folder / "found.csv")["measure"].to_list() == found["measure"].to_list()


def test_every_document_is_reversed_and_the_queries_asked_again(folder, capsys):
    out = folder / "found.parquet"
    options = ("--queries", str(folder / "queries.jsonl"), "--out", str(out))
    assert probe(folder, "reversal", *options) == 0
    assert "F->B less front" in capsys.readouterr().out
    rows = read_table(folder / "found.rows.parquet", REVERSAL_SCORES)
    assert rows["before"].to_list() == rows["after"].to_list()  # the position-blind encoder


def test_lengths_of_documents_come_from_the_corpus(folder, capsys):
    path = folder / "queries.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        del row["pos_char_length"]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert probe(folder, "moving", "--queries", str(path)) == 0
    assert "moving" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("moving",), "needs --queries"),
        (("insertion", "--queries", "queries.jsonl"), "uses no queries"),
        (("insertion", "--out", "found.txt"), ".parquet or .csv"),
        (("insertion", "--max-tokens", "64"), "has it in the registry"),
    ],
)
def test_options_that_do_not_fit_are_refused_in_words(folder, options, said, capsys):
    assert probe(folder, *options) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "model", "said"),
    [
        ("insertion", "bm25", "no vectors"),
        ("insertion", "minilm-maxsim", "late interaction"),
        ("insertion", "nope", "lists the ids; or give the folder of a checkpoint"),
        ("saliency", "minilm-static", "gradients of a transformer"),
    ],
)
def test_models_that_cannot_be_probed_are_refused_in_words(folder, name, model, said, capsys):
    queries = ("--queries", str(folder / "queries.jsonl")) if name == "saliency" else ()
    assert probe(folder, name, *queries, model=model) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"pos_corpus_id": "d9"}, "is not there (1 such queries)"),
        ({"pos_char_span": [5, 9999]}, "the span belongs to another version (1 such queries)"),
        ({"pos_char_length": 11}, "the span belongs to another version (1 such queries)"),
        ({"pos_char_span": None}, "the query needs pos_char_span"),
    ],
)
def test_evidence_that_does_not_fit_the_corpus_is_refused(folder, change, said, capsys):
    path = folder / "queries.jsonl"
    first, *rest = path.read_text().splitlines()
    path.write_text("\n".join([json.dumps(json.loads(first) | change), *rest]))
    assert probe(folder, "moving", "--queries", str(path)) == 2
    assert said in capsys.readouterr().err
