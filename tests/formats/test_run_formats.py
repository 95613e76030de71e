import gzip
import json

import polars as pl
import pytest

from psibench.errors import InputError
from psibench.formats.runs import RUN_FORMATS, read_run

ROWS = [("q1", "d1", 2.5), ("q1", "文\U0001f600", 1.0), ("q2", "d1", -0.5)]
FRAME = pl.DataFrame(ROWS, schema=["query_id", "doc_id", "score"], orient="row")
MTEB_PART = {"q1": {"d1": 2.5, "文\U0001f600": 1.0}, "q2": {"d1": -0.5}}
TREC = "q1 Q0 d1 1 2.5 run\nq1\tQ0\t文\U0001f600\t2\t1.0\trun\n\nq2  Q0  d1  1  -0.5  run\n"
META = {"model_name": "org/model", "revision": "abc"}


def write(path, content):
    data = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def jsonl() -> str:
    keys = ("query_id", "doc_id", "score")
    return "".join(json.dumps(dict(zip(keys, row, strict=True))) + "\n" for row in ROWS)


TEXTS = {
    "m.trec": TREC,
    "m.txt.gz": TREC,
    "m.run": TREC.replace("\n", "\r\n"),
    "m.csv": FRAME.write_csv(),
    "m.tsv.gz": FRAME.write_csv(separator="\t"),
    "m.jsonl": jsonl(),
    "m.jsonl.gz": jsonl(),
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


def test_mteb_file_names_its_model(tmp_path):
    content = {"mteb_model_meta": META, "default": {"test": MTEB_PART}}
    found = read_run(write(tmp_path / "Task_predictions.json", json.dumps(content)))
    assert found.model == "org/model"
    assert found.frame.rows() == ROWS


def test_mteb_file_with_several_parts_needs_one_named(tmp_path):
    content = {"mteb_model_meta": META, "en": {"test": MTEB_PART, "dev": {}}, "de": {"test": {}}}
    path = write(tmp_path / "p.json", json.dumps(content))
    with pytest.raises(InputError, match=r"3 parts \(de/test, en/dev, en/test\)"):
        read_run(path)
    assert read_run(path, part="en/test").frame.rows() == ROWS
    with pytest.raises(InputError, match="no part 'fr/test'; found de/test"):
        read_run(path, part="fr/test")


@pytest.mark.parametrize(
    "content",
    ["[]", '{"a": 1}', '{"en": {"test": [1, 2]}}', '{"q": {"d": "high"}}', '{"q": {"d": 1', "3"],
)
def test_other_json_is_refused(tmp_path, content):
    with pytest.raises(InputError, match=r"p\.json"):
        read_run(write(tmp_path / "p.json", content))


def test_the_named_format_wins_over_the_suffix(tmp_path):
    path = write(tmp_path / "run.parquet", TREC)
    assert read_run(path, run_format="trec").frame.rows() == ROWS


def test_unknown_suffix_lists_the_formats(tmp_path):
    path = write(tmp_path / "run.dat", TREC)
    with pytest.raises(InputError, match=r"set --run-format. Supported: parquet \(.parquet\)"):
        read_run(path)


def test_unknown_format_lists_the_formats(tmp_path):
    with pytest.raises(InputError, match=f"supported: {', '.join(RUN_FORMATS)}"):
        read_run(tmp_path / "x.trec", run_format="xml")


def test_a_part_is_refused_where_there_is_none(tmp_path):
    with pytest.raises(InputError, match="a trec run has no parts"):
        read_run(write(tmp_path / "run.trec", TREC), part="en/test")


def test_no_fallback_to_another_format(tmp_path):
    with pytest.raises(InputError, match=r"run\.json: not JSON"):
        read_run(write(tmp_path / "run.json", TREC))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("r.trec", "q1 Q0 d1 1 2.5 run\nq1 Q0 d2 2\n", r"r\.trec, line 2: 4 columns, expected 6"),
        ("r.trec", "q1 Q0 d1 1 high run\n", r"r\.trec, line 1: score is 'high'"),
        ("r.csv", "query_id,doc_id,score\nq,d,1\nq,d\n", r"r\.csv, line 3: 2 columns"),
        ("r.csv", "query_id,doc,score\nq,d,1\n", r"missing columns doc_id; found query_id, doc"),
        ("r.tsv", "query_id\tdoc_id\tscore\nq\td\t\n", r"r\.tsv, line 2: score is ''"),
        ("r.jsonl", '{"query_id": "q"\n', r"r\.jsonl, line 1: not JSON"),
        ("r.jsonl", "[1]\n", r"r\.jsonl, line 1: not a JSON object but list"),
        ("r.jsonl", '{"query_id": null, "doc_id": "d", "score": 1}', r"query_id is None"),
        ("r.jsonl", '{"query_id": "q", "doc_id": "d", "score": true}', r"score is True"),
        ("r.trec", b"%PDF-1.7 stream", r"r\.trec: found a PDF document, expected a text file"),
        ("r.csv", b"a\0b", r"r\.csv: found binary data"),
        ("r.trec", b"q1 Q0 d\xff 1 2.5 run\n", r"r\.trec, line 1: not UTF-8"),
        ("r.trec", b"PAR1....", r"r\.trec: found a Parquet file"),
        ("r.parquet", b"PAR1 no", r"r\.parquet: not a readable Parquet file"),
    ],
)
def test_bad_content_is_refused_with_file_and_line(tmp_path, name, content, message):
    with pytest.raises(InputError, match=message):
        read_run(write(tmp_path / name, content))


@pytest.mark.parametrize("name", ["r.trec", "r.csv", "r.json", "r.parquet", "r.jsonl"])
def test_a_missing_file_is_refused(tmp_path, name):
    with pytest.raises(InputError, match="no such file"):
        read_run(tmp_path / name)


def test_truncated_parquet_is_refused(tmp_path):
    path = tmp_path / "r.parquet"
    FRAME.write_parquet(path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match="not a readable Parquet file, maybe truncated"):
        read_run(path)


def test_parquet_with_a_damaged_page_is_refused(tmp_path):
    path = tmp_path / "r.parquet"
    FRAME.write_parquet(path)
    content = bytearray(path.read_bytes())
    content[4:60] = b"\xff" * 56
    path.write_bytes(content)
    with pytest.raises(InputError, match="not a readable Parquet file"):
        read_run(path)


def test_truncated_gzip_is_refused(tmp_path):
    path = tmp_path / "r.trec.gz"
    path.write_bytes(gzip.compress(TREC.encode() * 2000)[:-30])
    with pytest.raises(InputError, match="damaged or truncated gzip"):
        read_run(path)


def test_parquet_scores_must_be_numbers(tmp_path):
    FRAME.cast({"score": pl.String}).write_parquet(tmp_path / "r.parquet")
    with pytest.raises(InputError, match="score is String; expected numbers"):
        read_run(tmp_path / "r.parquet")


def test_whole_number_ids_become_strings(tmp_path):
    pl.DataFrame({"query_id": [1], "doc_id": [7], "score": [1]}).write_parquet(
        tmp_path / "r.parquet"
    )
    assert read_run(tmp_path / "r.parquet").frame.rows() == [("1", "7", 1)]


def test_an_empty_trec_file_has_no_rows(tmp_path):
    assert read_run(write(tmp_path / "r.trec", "")).frame.is_empty()
