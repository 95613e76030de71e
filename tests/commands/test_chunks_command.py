"""`psibench chunks` with static embeddings, which need no network."""

import json

import numpy as np
import polars as pl
import pytest

from psibench.cli import main
from psibench.commands.chunks import known_items
from psibench.metrics.chunks import GAP

MODEL = "minilm-static"
TOPICS = ("copper mines", "river ferries", "night trains", "wild geese")
TEXTS = {
    f"d{n}": "\n\n".join(
        f"Item {k}{n} of report {n} is about {topic} by {topic[::-1]}. It has {n}{k} words more."
        for k, topic in enumerate(TOPICS[n:] + TOPICS[:n])
    )
    for n in range(3)
}
QUERIES = [
    (f"{topic} in report {n}", doc_id, text.index(topic), text.index(topic) + len(topic))
    for n, (doc_id, text) in enumerate(TEXTS.items())
    for topic in TOPICS
]


@pytest.fixture
def files(tmp_path):
    rows = [json.dumps({"_id": i, "text": t, "title": f"Report {i}"}) for i, t in TEXTS.items()]
    (tmp_path / "corpus.jsonl").write_text("\n".join(rows))
    rows = [
        {"_id": f"q{k}", "text": text, "pos_corpus_id": doc_id, "pos_char_span": [start, end]}
        | {"pos_char_length": len(TEXTS[doc_id])}
        for k, (text, doc_id, start, end) in enumerate(QUERIES)
    ]
    (tmp_path / "queries.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return tmp_path


def chunks(files, *options):
    queries = ["--queries", files / "queries.jsonl"]
    words = [files / "corpus.jsonl", "--model", MODEL, *queries, *options]
    return main(["chunks", *map(str, words)])


def test_a_grid_has_a_table_runs_and_a_picture(files, capsys):
    grid = ["--splitters", "sentence,tokens", "--sizes", "12,30", "--overlaps", "0,4"]
    assert chunks(files, *grid, "--tokens", 20, "--out", files / "out") == 0
    printed = capsys.readouterr()
    table = pl.read_csv(files / "out" / "grid.csv")
    assert table.height == 8
    assert table.filter(mark="1").height == 1
    assert "8 settings, 3 documents, 12 queries of" in printed.out
    assert "No intervals: fewer than 30 documents" in printed.out
    assert (files / "out" / "chunks.png").stat().st_size > 10_000
    curves = pl.read_csv(files / "out" / "curves.csv")
    assert curves["tokens"].unique().sort().to_list() == [5, 10, 20, 40, 80]
    run = pl.read_ndjson(files / "out" / "runs" / "tokens-12-0.jsonl")
    assert run.columns == ["query_id", "doc_id", "start", "end", "score", "tokens"]
    # Equal chunks are encoded once: sentences of 12 tokens are the same with an overlap of 4.
    assert "sentence 12/4: 24 chunks, 0 encoded" in printed.err


def scored(files):
    """Score the run of `tokens 12/0` by `psibench score`; return its per-query scores."""
    out = files / "out"
    words = ["--run", out / "runs" / "tokens-12-0.jsonl", "--queries", out / "queries.jsonl"]
    words += ["--qrels", out / "qrels.tsv", "--buckets", "thirds", "--out", files / "scores"]
    assert main(["score", *map(str, words)]) == 0
    return pl.read_parquet(files / "scores" / "query_scores.parquet")


def test_recall_of_a_run_is_that_of_a_plain_count(files):
    assert chunks(files, "--setting", "tokens,12,0", "--out", files / "out") == 0
    run = pl.read_ndjson(files / "out" / "runs" / "tokens-12-0.jsonl")
    expected = {}
    for k, (_, doc_id, start, end) in enumerate(QUERIES):
        own = run.filter(query_id=f"q{k}").sort("score", descending=True)
        if own["score"][4] == own["score"][5]:
            continue  # the order of ties is another test's
        held = set()
        for doc, low, high in own.head(5).select("doc_id", "start", "end").iter_rows():
            held |= set(range(low, high)) if doc == doc_id else set()
        expected[f"q{k}"] = len(held & set(range(start, end))) / (end - start)
    found = dict(scored(files).select("query_id", "span-recall@5").iter_rows())
    assert len(expected) > 6
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    mean = pl.read_csv(files / "out" / "grid.csv")["span-recall@5"][0]
    assert mean == pytest.approx(sum(found.values()) / len(found))


def test_windows_cut_evidence_in_its_last_characters(files):
    """Windows of 50 characters strip nothing, so that no gap of theirs is white space."""
    options = ["--unit", "characters", "--setting", "characters,50,0", "--out", files / "out"]
    assert chunks(files, *options) == 0
    n_cut = sum(start // 50 != (end - 1) // 50 for *_, start, end in QUERIES)
    last = [end % 50 for *_, start, end in QUERIES if start // 50 != (end - 1) // 50]
    assert min(last) <= GAP  # the case in question
    found = pl.read_csv(files / "out" / "grid.csv")["cut"][0]
    assert found == pytest.approx(n_cut / len(QUERIES))


def test_white_space_around_evidence_is_no_evidence(files):
    text = TEXTS["d1"]
    start = text.index("\n\n") + 2  # the second paragraph, which is a chunk
    spans = [[start, text.index("\n\n", start)], [start - 2, text.index("\n\n", start) + 2]]
    rows = [
        {"_id": f"q{k}", "text": "river ferries", "pos_corpus_id": "d1", "pos_char_span": span}
        for k, span in enumerate(spans)
    ]
    (files / "queries.jsonl").write_text("\n".join(map(json.dumps, rows)))
    options = ["--setting", "recursive,30,0", "--out", files / "out"]
    assert chunks(files, *options) == 0
    assert pl.read_csv(files / "out" / "grid.csv")["cut"].to_list() == [0.0]
    found = pl.read_ndjson(files / "out" / "queries.jsonl")["pos_char_span"].to_list()
    assert found == [spans[0]] * 2


def test_its_run_is_scored_with_span_metrics_first(files, capsys):
    assert chunks(files, "--setting", "tokens,12,0", "--out", files / "out") == 0
    capsys.readouterr()
    scores = scored(files)
    printed = capsys.readouterr()
    assert "span-recall@1000tokens by thirds" in printed.out
    assert "have fewer than 1000 tokens in all" in printed.err
    assert scores.columns.index("span-recall@1000tokens") < scores.columns.index("ndcg@10")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sizes", "12", "--overlaps", "12"], "overlap 12 leaves no step in size 12"),
        (["--setting", "page,12,0"], "Input should be 'recursive'"),
        (["--setting", "tokens,12"], "give SPLITTER,SIZE,OVERLAP"),
        (["--setting", "tokens,x,0"], "must be whole numbers"),
        (["--setting", "tokens,12,0,late"], "context: late needs token vectors"),
        (["--model", "bm25"], "does not encode texts"),
        (["--tokens", "0"], "--tokens 0; allowed: 1 or more"),
    ],
)
def test_odd_settings_are_refused(files, capsys, options, message):
    assert chunks(files, *options) == 2
    assert message in capsys.readouterr().err


def test_spans_count_from_the_first_character_of_a_text(files):
    """Also if that is white space, which readers of documents strip."""
    text = "  \n Copper mines are here. Ferries cross the river there.\n"
    start = text.index("Ferries")
    (files / "corpus.jsonl").write_text(json.dumps({"_id": "a", "text": text}))
    row = {"_id": "q", "text": "river ferries", "pos_corpus_id": "a", "pos_char_length": len(text)}
    row |= {"pos_char_span": [start, start + 7]}
    (files / "queries.jsonl").write_text(json.dumps(row))
    assert chunks(files, "--setting", "sentence,9,0", "--out", files / "out") == 0
    run = pl.read_ndjson(files / "out" / "runs" / "sentence-9-0.jsonl")
    pieces = [text[a:b] for a, b in run.select("start", "end").iter_rows()]
    assert sorted(pieces) == ["Copper mines are here.", "Ferries cross the river there."]


def test_another_length_than_the_corpus_has_is_refused(files, capsys):
    lines = (files / "queries.jsonl").read_text().splitlines()
    row = json.loads(lines[0])
    lines[0] = json.dumps(row | {"pos_char_length": row["pos_char_length"] + 1})
    (files / "queries.jsonl").write_text("\n".join(lines))
    assert chunks(files, "--setting", "tokens,12,0") == 2
    assert "the span belongs to another version" in capsys.readouterr().err


def test_spans_outside_the_corpus_are_refused(files, capsys):
    row = {"_id": "q", "text": "x", "pos_corpus_id": "d9", "pos_char_span": [0, 9]}
    (files / "queries.jsonl").write_text(json.dumps(row | {"pos_char_length": 99}))
    assert chunks(files, "--setting", "tokens,12,0") == 2
    printed = capsys.readouterr().err
    assert "in the document 'd9' of 99 characters, which in" in printed


def test_known_items_have_exact_spans_in_few_long_documents():
    rng = np.random.default_rng(0)
    letters = np.array([*"bcdfghjklmnprstvz"])
    words = ["".join(row) for row in rng.choice(letters, (3000, 7))]
    texts = [" ".join(rng.choice(words, 1500)) for _ in range(3)]
    documents = pl.DataFrame({"_id": ["a", "b", "c"], "text": texts})
    queries = known_items(documents, seed=1, most=60)
    assert 20 < queries.height <= 60
    assert queries["pos_corpus_id"].unique().sort().to_list() == ["a", "b", "c"]
    for text, doc_id, (start, end) in queries.select(
        "text", "pos_corpus_id", "pos_char_span"
    ).iter_rows():
        span = dict(documents.iter_rows())[doc_id][start:end]
        assert all(word in span.split() for word in text.split())
