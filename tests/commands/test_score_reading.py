"""`psibench score` with a foreign model's input length and a control."""

import json
from pathlib import Path

import polars as pl
import pytest

from psibench.cli import main
from psibench.tables import read_provenance

MINILM = "embedded:all-MiniLM-L6-v2"
N_DOCUMENTS = 40
TEXT = "river " * 200
"""A token every six characters; 126 of 128 tokens are text: 755 characters are read."""


@pytest.fixture
def files(tmp_path):
    """40 documents, asked about their first words and about what begins at 900; BEIR's layout.

    The run finds first the documents of questions on the beginning, and of every tenth of the
    others, the control every document alike.
    """
    queries, qrels, run, blind = [], ["query-id\tcorpus-id\tscore"], [], []
    for i in range(N_DOCUMENTS):
        for name, start in (("early", 6), ("late", 900)):
            query = f"{name}{i}"
            metadata = {"pos_char_span": [start, start + 5], "pos_char_length": len(TEXT)}
            queries.append({"_id": query, "text": "?", "metadata": metadata})
            qrels.append(f"{query}\td{i}\t1")
            is_found = name == "early" or i % 10 == 0
            run += [f"{query} Q0 d{i} 1 {0.9 if is_found else 0.2} r", f"{query} Q0 x 2 0.5 r"]
            blind += [f"{query} Q0 d{i} 1 {0.9 if i % 3 else 0.2} r", f"{query} Q0 x 2 0.5 r"]
    corpus = [{"_id": f"d{i}", "title": "A river", "text": TEXT} for i in range(N_DOCUMENTS)]
    write_lines(tmp_path / "queries.jsonl", queries)
    write_lines(tmp_path / "corpus.jsonl", [*corpus, {"_id": "x", "text": "other"}])
    (tmp_path / "qrels.tsv").write_text("\n".join(qrels) + "\n")
    (tmp_path / "model.trec").write_text("\n".join(run) + "\n")
    (tmp_path / "blind.trec").write_text("\n".join(blind) + "\n")
    return tmp_path


def write_lines(path: Path, records: list[dict]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


def score(files, *options, runs=("model.trec",)) -> int:
    given = [part for run in runs for part in ("--run", str(files / run))]
    common = ["--buckets", "thirds", "--metrics", "mrr@10"]
    return main([
        "score", *given, *common,
        "--queries", str(files / "queries.jsonl"), "--qrels", str(files / "qrels.tsv"),
        "--out", str(files / "out"), *(str(option) for option in options),
    ])  # fmt: skip


def reading(files, tokens="128", *, tokenizer=MINILM, corpus="corpus.jsonl") -> list:
    return ["--max-tokens", tokens, "--tokenizer", tokenizer, "--corpus", files / corpus]


def psi(files, **labels) -> dict:
    table = pl.read_parquet(files / "out" / "psi_table.parquet")
    return table.filter(**labels).row(0, named=True)


def test_what_lies_beyond_the_tokens_is_not_visible(files, capsys):
    assert score(files, *reading(files)) == 0
    assert "40 positives have a title, which is ignored here" in capsys.readouterr().err
    everything, visible = psi(files, evidence="all"), psi(files, evidence="visible")
    assert (everything["n_queries"], everything["seen"]) == (80, 0.5)
    assert (visible["n_queries"], visible["mean"]) == (40, 1.0)
    assert psi(files, evidence="whole")["n_queries"] == 0
    scores = pl.read_parquet(files / "out" / "query_scores.parquet")
    assert scores["pos_visible"].unique().to_list() == [pytest.approx(755 / 1200)]
    record = read_provenance(files / "out" / "psi_table.parquet")
    assert record["params"]["tokenizer"].startswith("sha256:")
    assert sorted(record["inputs"]) == ["corpus", "qrels", "queries", "run:model.trec"]
    assert str(files) not in json.dumps(record)


@pytest.mark.parametrize(("tokens", "share"), [(152, 0.0), (153, 4 / 6), (154, 1.0)])
def test_evidence_is_visible_up_to_the_last_token(files, tokens, share):
    """Of [CLS], [SEP] and 150 words the last ends at 899; of 151 at 905, of 152 at 911."""
    queries = [json.loads(line) for line in (files / "queries.jsonl").read_text().splitlines()]
    for query in queries:
        if query["_id"].startswith("late"):
            query["metadata"]["pos_char_span"] = [901, 907]
    write_lines(files / "queries.jsonl", queries)
    assert score(files, *reading(files, tokens)) == 0
    scores = pl.read_parquet(files / "out" / "query_scores.parquet")
    late = scores.filter(pl.col("query_id").str.starts_with("late"))
    assert late["visible"].unique().to_list() == [pytest.approx(share)]


def test_each_run_may_have_read_another_part(files):
    options = ["--max-tokens", "128", "all", *reading(files)[2:]]
    assert score(files, *options, runs=("model.trec", "blind.trec")) == 0
    assert psi(files, model="model", evidence="all")["seen"] == 0.5
    assert psi(files, model="blind", evidence="all")["seen"] == 1.0


@pytest.mark.parametrize(
    ("document", "seen"),
    [
        ({"words": 126, "tokens": 128, "cut": "end"}, 0.5),
        ({"words": None, "tokens": None, "cut": "none"}, 1.0),
    ],
)
def test_measured_limit_is_used(files, tmp_path, document, seen):
    path = tmp_path / "measured.json"
    path.write_text(json.dumps({"document": document}))
    assert score(files, *reading(files, str(path))) == 0
    assert psi(files, evidence="all")["seen"] == seen


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{}", "not written by `psibench audit --measure"),
        ('{"document": {"cut": "start", "tokens": 9}}', "found cut 'start' and 9 tokens"),
        ('{"document": {"cut": "end", "tokens": null}}', "found cut 'end' and None tokens"),
    ],
)
def test_measured_limit_that_shows_no_evidence_is_refused(
    files, tmp_path, content, message, capsys
):
    (tmp_path / "measured.json").write_text(content)
    assert score(files, *reading(files, str(tmp_path / "measured.json"))) == 2
    assert message in capsys.readouterr().err


BAD_OPTIONS = {
    "no corpus": (["--max-tokens", "9", "--tokenizer", MINILM], "give all three or none"),
    "no tokens": (["--tokenizer", MINILM], "--corpus: give all three or none"),
    "no number": (["--max-tokens", "many"], "--max-tokens 'many'; give a number of tokens"),
    "too many": (["--max-tokens", "9", "9"], "2 values of --max-tokens for 1 --run"),
}


@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_options_that_do_not_go_together_are_refused(files, capsys, name):
    options, message = BAD_OPTIONS[name]
    assert score(files, *options) == 2
    assert message in capsys.readouterr().err
    assert not (files / "out").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda records: records[1:], "no text of the positives 'd0' (1 in all)"),
        (lambda records: [*records, records[0] | {"text": "?"}], "documents with two texts: 'd0'"),
        (
            lambda records: [{"_id": "d0"}, *records[1:]],
            "corpus.jsonl, line 1: missing columns text",
        ),
        (
            lambda records: [records[0] | {"text": TEXT[:-1]}, *records[1:]],
            "document 'd0' has 1199 characters, but pos_char_length of query 'early0' is 1200 "
            "(2 such queries)",
        ),
    ],
)
def test_a_corpus_that_does_not_fit_the_queries_is_refused(files, capsys, change, message):
    records = [json.loads(line) for line in (files / "corpus.jsonl").read_text().splitlines()]
    write_lines(files / "corpus.jsonl", change(records))
    assert score(files, *reading(files)) == 2
    assert message in capsys.readouterr().err
    assert not (files / "out").exists()


@pytest.mark.parametrize(
    ("tokenizer", "tokens", "said"),
    [
        ("./nowhere", "9", "--tokenizer './nowhere': cannot be loaded"),
        (MINILM, "2", "the tokenizer's 2 special tokens leave no token for text"),
    ],
)
def test_a_tokenizer_that_is_none_or_leaves_none_is_refused(files, capsys, tokenizer, tokens, said):
    assert score(files, *reading(files, tokens, tokenizer=tokenizer)) == 2
    assert said in capsys.readouterr().err


def test_a_model_is_compared_with_the_control_among_the_runs(files):
    runs = ("model.trec", "blind.trec")
    assert score(files, "--control", "blind", runs=runs) == 0
    row = psi(files, model="model", evidence="all")
    # The model finds only early evidence, so the profiles differ.
    assert row["control"] == "blind"
    assert row["p_control"] == max(row["p_control_hit"], row["p_control_miss"]) < 0.001
    control = psi(files, model="blind", evidence="all")
    assert (control["control"], control["p_control"]) == (None, None)
    record = read_provenance(files / "out" / "psi_table.parquet")
    assert record["params"]["control"] == "blind"
