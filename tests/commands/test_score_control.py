"""`psibench score` with the built-in position-blind control."""

import json
from pathlib import Path

import polars as pl
import pytest

from psibench.cli import main
from psibench.publish.control import search_blind
from psibench.tables import read_provenance

N_DOCUMENTS = 60
FILLER = "and the grey river runs to the sea " * 8


def write_lines(path: Path, records: list[dict]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """60 documents with a number at both ends, asked for early and for late evidence.

    The run finds all documents for early evidence, and a third of them for late evidence.
    """
    documents, queries, qrels, run = [], [], ["query-id\tcorpus-id\tscore"], []
    for i in range(N_DOCUMENTS):
        text = f"number {1000 + 37 * i} {FILLER} number {1000 + 37 * i}"
        documents.append({"_id": f"d{i}", "text": text})
        for name, start in (("early", 0), ("late", len(text) - 11)):
            query = f"{name}{i}"
            span = {"pos_char_span": [start, start + 11], "pos_char_length": len(text)}
            queries.append({"_id": query, "text": text[start : start + 11], **span})
            qrels.append(f"{query}\td{i}\t1")
            is_found = name == "early" or i % 3 == 0
            other = f"d{(i + 1) % N_DOCUMENTS}"
            ranked = [f"d{i}", other] if is_found else [other, f"d{i}"]
            run += [f"{query} Q0 {doc} {n} {1 / n} r" for n, doc in enumerate(ranked, 1)]
    write_lines(tmp_path / "corpus.jsonl", documents)
    write_lines(tmp_path / "queries.jsonl", queries)
    (tmp_path / "qrels.tsv").write_text("\n".join(qrels) + "\n")
    (tmp_path / "mine.trec").write_text("\n".join(run) + "\n")
    return tmp_path


def score(files: Path, *options: object) -> int:
    given = {"run": "mine.trec", "queries": "queries.jsonl", "qrels": "qrels.tsv", "out": "out"}
    words = [part for name, file in given.items() for part in (f"--{name}", str(files / file))]
    return main(["score", *words, "--buckets", "thirds", "--metrics", "mrr@10", *map(str, options)])


def psi(files: Path) -> dict[str, dict]:
    rows = pl.read_parquet(files / "out" / "psi_table.parquet").filter(evidence="all")
    return {row["model"]: row for row in rows.filter(length_bucket="all").to_dicts()}


def test_a_corpus_gives_the_runs_a_control(files, capsys):
    page = files / "out" / "page.html"
    assert score(files, "--corpus", files / "corpus.jsonl", "--report", page) == 0
    printed = capsys.readouterr().out
    assert "It searched 60 documents" in page.read_text()
    assert "An effect may come from text that the model did not read" in page.read_text()
    assert f"It searched 60 documents of {files / 'corpus.jsonl'}." in printed
    assert "sensitive to position" in printed
    rows = psi(files)
    assert rows["mine"]["control"] == "minilm-static"
    assert "position_blind" in rows["minilm-static"]["flags"]
    assert (rows["mine"]["seen"], rows["minilm-static"]["seen"]) == (None, 1.0)
    # a document has the same words for its early and its late query
    assert rows["minilm-static"]["psi_same"] == pytest.approx(0, abs=1e-9)
    record = read_provenance(files / "out" / "psi_table.parquet")
    assert record["params"]["control"] == "minilm-static"
    assert "corpus" in record["inputs"]


def test_without_a_corpus_there_is_no_verdict_on_the_model(files, capsys):
    assert score(files) == 0
    assert "varies with position; no control" in capsys.readouterr().out
    assert score(files, "--control", "builtin") == 2
    assert "--control builtin needs --corpus" in capsys.readouterr().err


def test_json_says_what_the_control_searched(files, capsys):
    assert score(files, "--corpus", files / "corpus.jsonl", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert "searched 60 documents" in found["control_searched"]


def test_the_control_needs_the_documents_of_the_runs(files, capsys):
    lines = (files / "corpus.jsonl").read_text().splitlines()
    (files / "part.jsonl").write_text("\n".join(lines[:50]) + "\n")
    assert score(files, "--corpus", files / "part.jsonl") == 2
    assert "lacks 10 of 60 documents that the runs or the qrels have" in capsys.readouterr().err


def test_the_control_needs_texts_and_one_text_per_id(files, capsys):
    lines = (files / "corpus.jsonl").read_text().splitlines()
    twice = [*lines, json.dumps({"_id": "d3", "text": "another"})]
    (files / "twice.jsonl").write_text("\n".join(twice) + "\n")
    assert score(files, "--corpus", files / "twice.jsonl") == 2
    assert "documents with two texts: 'd3'" in capsys.readouterr().err
    queries = pl.read_ndjson(files / "queries.jsonl").drop("text")
    queries.write_ndjson(files / "queries.jsonl")
    assert score(files, "--corpus", files / "corpus.jsonl") == 2
    assert "--control builtin searches with the texts of the queries" in capsys.readouterr().err


def test_spans_in_another_text_are_reported(files, capsys):
    assert score(files, "--corpus", files / "corpus.jsonl") == 0
    assert "pos_char_length of" not in capsys.readouterr().err
    queries = pl.read_ndjson(files / "queries.jsonl")
    longer = pl.when(pl.col("_id").is_in(["early3", "late3"])).then(2).otherwise(0)
    longer = queries.with_columns(pl.col("pos_char_length") + longer)  # two letters in UTF-16
    longer.write_ndjson(files / "queries.jsonl")
    assert score(files, "--corpus", files / "corpus.jsonl") == 0
    assert "document 'd3' has" in (told := capsys.readouterr().err)
    assert "(2 of 120 queries): their spans refer to another text" in told


def test_queries_search_their_domain_if_the_runs_do(files, capsys):
    for name in ("queries", "corpus"):
        frame = pl.read_ndjson(files / f"{name}.jsonl")
        number = pl.col("_id").str.extract(r"(\d+)").cast(pl.Int64)
        half = pl.when(number < N_DOCUMENTS // 2).then(pl.lit("a")).otherwise(pl.lit("b"))
        frame.with_columns(domain=half).write_ndjson(files / f"{name}.jsonl")
    assert score(files, "--corpus", files / "corpus.jsonl") == 0
    assert "It searched 60 documents of" in (printed := capsys.readouterr().out)
    assert "domains" not in printed.split("It searched")[1]  # d29 and d30 are found together
    run = (files / "mine.trec").read_text().splitlines()
    crossing = {"early29 Q0 d30", "late29 Q0 d30", "early59 Q0 d0", "late59 Q0 d0"}
    kept = [line for line in run if not any(line.startswith(f"{one} ") for one in crossing)]
    (files / "mine.trec").write_text("\n".join(kept) + "\n")
    assert score(files, "--corpus", files / "corpus.jsonl") == 0
    assert "in 2 domains, each query only its domain" in capsys.readouterr().out


def test_chunks_are_compared_with_whole_documents(files):
    run = pl.DataFrame(
        [line.split() for line in (files / "mine.trec").read_text().splitlines()],
        schema=["query_id", "q0", "doc_id", "rank", "score", "name"],
        orient="row",
    )
    chunks = run.select("query_id", "doc_id", pl.col("score").cast(pl.Float64))
    chunks.with_columns(start=pl.lit(0), end=pl.lit(300)).write_parquet(files / "mine.parquet")
    options = ["--run", str(files / "mine.parquet"), "--queries", str(files / "queries.jsonl")]
    options += ["--qrels", str(files / "qrels.tsv"), "--corpus", str(files / "corpus.jsonl")]
    options += ["--out", str(files / "out"), "--metrics", "span-whole@10", "--buckets", "thirds"]
    assert main(["score", *options]) == 0
    rows = psi(files)
    assert rows["minilm-static"]["mean"] > 0.9  # every document is one chunk with its evidence
    assert rows["mine"]["control"] == "minilm-static"


def test_equal_texts_keep_the_order_of_ids():
    documents = pl.DataFrame({"_id": ["b", "c", "a"], "text": ["red fox"] * 3})
    queries = pl.DataFrame({"_id": ["q"], "text": ["red"]})
    found = search_blind(queries, documents, k=2)
    assert found["doc_id"].to_list() == ["c", "b"]
