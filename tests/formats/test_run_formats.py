import gzip
import json

import polars as pl
import pytest

from psibench.errors import InputError
from psibench.formats.runs import RUN_FORMATS, doubts, read_run
from psibench.tables.ranking import rank_documents

ROWS = [("q1", "d1", 2.5), ("q1", "文\U0001f600", 1.0), ("q2", "d1", -0.5)]
FRAME = pl.DataFrame(ROWS, schema=["query_id", "doc_id", "score"], orient="row")
MTEB_PART = {"q1": {"d1": 2.5, "文\U0001f600": 1.0}, "q2": {"d1": -0.5}}
TREC = "q1 Q0 d1 1 2.5 run\nq1\tQ0\t文\U0001f600\t2\t1.0\trun\n\nq2  Q0  d1  1  -0.5  run\n"


def write(path, content):
    data = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


TEXTS = {
    "m.trec": TREC,
    "m.txt.gz": TREC,
    "m.csv": FRAME.write_csv(),
    "m.tsv.gz": FRAME.write_csv(separator="\t"),
    "m.jsonl": "".join(json.dumps(row) + "\n" for row in FRAME.to_dicts()),
    "m.json": json.dumps(MTEB_PART),
    "m.json.gz": json.dumps({"default": {"test": MTEB_PART}}),
}


@pytest.mark.parametrize("name", TEXTS)
def test_every_text_format_gives_the_same_scores(tmp_path, name):
    found = read_run(write(tmp_path / name, TEXTS[name]))
    assert found.frame.select("query_id", "doc_id", "score").rows() == ROWS
    assert found.model == "m"


def test_parquet_is_read_without_its_rank(tmp_path):
    FRAME.with_columns(rank=pl.lit(1)).write_parquet(tmp_path / "bge-m3.v1.parquet")
    found = read_run(tmp_path / "bge-m3.v1.parquet")
    assert found.frame.equals(FRAME)
    assert found.model == "bge-m3.v1"


@pytest.mark.parametrize(
    ("name", "model"),
    [("org/model", "org/model"), ("no_model_name/available", "Task"), (None, "Task")],
)
def test_an_mteb_file_gives_the_model_name_if_known(tmp_path, name, model):
    meta = {"model_name": name, "revision": "abc"}
    content = {"mteb_model_meta": meta, "default": {"test": MTEB_PART}}
    found = read_run(write(tmp_path / "Task.json", json.dumps(content)))
    assert (found.model, found.frame.rows()) == (model, ROWS)


def test_a_frame_of_pyterrier_is_read_by_docno(tmp_path):
    """Its `docid` is an internal number; ranks begin at 0."""
    ids = {"qid": "query_id", "docno": "doc_id", "score": "score"}
    frame = FRAME.select(**ids, docid=pl.Series([7, 2, 7]), rank=pl.Series([0, 1, 0]))
    frame.write_csv(tmp_path / "p.csv")
    found = read_run(tmp_path / "p.csv")
    assert found.frame.rows() == ROWS
    assert found.ranks.to_list() == [0, 1, 0]


@pytest.mark.parametrize("names", [("q_id", "doc_id"), ("query-id", "corpus-id")])
def test_columns_may_have_the_names_of_other_libraries(tmp_path, names):
    frame = FRAME.rename({"query_id": names[0], "doc_id": names[1]})
    frame.write_parquet(tmp_path / "p.parq")
    write(tmp_path / "p.tsv", frame.write_csv(separator="\t"))
    for name in ("p.parq", "p.tsv"):
        assert read_run(tmp_path / name).frame.rows() == ROWS


# As MS MARCO's evaluation takes it: query, passage, rank; no header and no scores.
MSMARCO = "q1\td1\t1\nq1\t文\U0001f600\t2\nq2\td1\t1\n"


@pytest.mark.parametrize("name", ["run.dev.small.tsv", "run.dev.small.tsv.gz"])
def test_a_headerless_tsv_of_ranks_is_msmarcos(tmp_path, name):
    found = read_run(write(tmp_path / name, MSMARCO))
    pairs = [(query, document) for query, document, _ in ROWS]
    assert found.frame.select("query_id", "doc_id").rows() == pairs
    assert rank_documents(found.frame)["rank"].to_list() == [1, 2, 1]
    assert found.model == "run.dev.small"
    assert list(doubts(found)) == []


@pytest.mark.parametrize("numbers", [(3, 2, 1), (1, 1, 2), (10, 20, 30), (1, 1.5, 2)])
def test_headerless_scores_are_not_read_as_ranks(tmp_path, numbers):
    rows = [f"q{i % 2}\td{i}\t{1 + i // 2}" for i in range(4)]
    rows += [f"q2\td{i}\t{number}" for i, number in enumerate(numbers)]
    path = write(tmp_path / "r.tsv", "\n".join(rows))
    with pytest.raises(InputError, match=r"'q2', document .* if they are ranks, add --run-format"):
        read_run(path)
    assert read_run(path, run_format="msmarco").frame["score"][-1] == -numbers[-1]


def test_an_mteb_file_with_several_parts_needs_a_choice(tmp_path):
    content = {"en": {"test": MTEB_PART, "dev": {}}, "de": {"test": {}}}
    path = write(tmp_path / "p.json", json.dumps(content))
    with pytest.raises(InputError, match=r"3 parts \(de/test, en/dev, en/test\)"):
        read_run(path)
    assert read_run(path, part="en/test").frame.rows() == ROWS
    with pytest.raises(InputError, match="no part 'fr/test'; found de/test"):
        read_run(path, part="fr/test")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("run.dat", {}, r"set --run-format. Supported: parquet \(.parquet .parq\)"),
        ("run.trec", {"part": "en/test"}, "a trec run has no parts"),
        ("run.trec", {"run_format": "xml"}, f"supported: {', '.join(RUN_FORMATS)}"),
    ],
)
def test_unknown_formats_and_parts_are_refused(tmp_path, name, options, message):
    with pytest.raises(InputError, match=message):
        read_run(write(tmp_path / name, TREC), **options)


def test_comments_of_a_trec_run_are_ignored(tmp_path):
    # MS MARCO's ids contain the sign too: it is a comment only at the start of a line.
    (tmp_path / "a.trec").write_text("# tag\nq Q0 d#1 1 2.0 r\n#q Q0 d2 2 1.0 r\n")
    found = read_run(tmp_path / "a.trec").frame
    assert found.rows() == [("q", "d#1", 2.0)]
