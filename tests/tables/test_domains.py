"""Tables of all domains of a language: written and read one domain at a time."""

from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

from psibench.commands.check import check_table
from psibench.errors import InputError
from psibench.tables import Provenance, content_hash, read_provenance, read_table, write_table
from psibench.tables.build_schemas import FLOW, SUMMARIES, TRANSLATION_GRADES
from psibench.tables.domains import OfDomain, by_place, domain_params
from psibench.tables.io import DomainWriter
from psibench.tables.schemas import ATTRITION, DOCUMENTS

LAW = pl.DataFrame({"_id": ["a", "b"], "summary": ["x", "y"]})
ART = pl.DataFrame({"_id": ["a"], "summary": ["z"]})
MADE = Provenance("gather", 1, params={"seed": 1}, inputs={"in.parquet": "rows:1"})


def write(path: Path, frames: dict[str, pl.DataFrame], spec=SUMMARIES, made=MADE) -> None:
    write_parts(path, {name: (frame, made) for name, frame in frames.items()}, spec)


def write_parts(path: Path, parts, spec=SUMMARIES) -> None:
    """Write a table of {domain: (rows, provenance)}, as a job does."""
    writer = DomainWriter(path, "eng-Latn")
    *_, last = parts
    try:
        for domain, (frame, made) in parts.items():
            writer.add(domain, frame, spec, made, last=domain == last)
        writer.write()
    finally:
        writer.discard()


def rows(path: Path, domain: str, spec=SUMMARIES) -> pl.DataFrame:
    return read_table(OfDomain(str(path), domain), spec)


def test_every_domain_reads_back_its_own_rows_and_the_file_verifies(tmp_path):
    path = tmp_path / "t.parquet"
    write(path, {"law": LAW, "none": LAW.clear(), "art": ART})
    assert rows(path, "law").equals(LAW)
    assert rows(path, "art").equals(ART)
    assert rows(path, "none").equals(LAW.clear())
    assert rows(path, "absent").is_empty()
    assert pl.read_parquet(path)["domain"].to_list() == ["law", "law", "art"]
    assert "summaries, 3 rows, unchanged since written" in str(check_table(path))
    assert content_hash(OfDomain(str(path), "law")) == content_hash(path)
    write_table(LAW, path, SUMMARIES, provenance=MADE)
    with pytest.raises(InputError, match=r"no column 'domain'; found _id, summary.*make it again"):
        rows(path, "law")


def test_an_id_may_occur_once_in_a_domain(tmp_path):
    twice = pl.concat([ART, ART])
    with pytest.raises(InputError, match=r"domain art: 2 rows of 'summaries' share a key"):
        write(tmp_path / "t.parquet", {"law": LAW, "art": twice})
    assert not list(tmp_path.iterdir())


def test_nothing_is_written_before_all_domains_are_through(tmp_path):
    path = tmp_path / "t.parquet"
    write(path, {"law": LAW})
    before = path.read_bytes()
    with pytest.raises(InputError, match="missing columns: summary"):
        write(path, {"law": ART, "art": ART.drop("summary")})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_the_record_has_what_differs_by_domain(tmp_path):
    path = tmp_path / "t.parquet"
    write(path, {"law": LAW, "art": ART})
    record = read_provenance(path)
    assert record["params"] == {"seed": 1, "domains": ["law", "art"]}
    assert domain_params(record, "art")["seed"] == 1
    assert domain_params(record, "sea") is None
    made = [
        Provenance("sample", 1, params={"seed": n}, inputs={f"{n}.txt": "sha256:0"}) for n in (0, 1)
    ]
    write_parts(path, {"law": (LAW, made[0]), "art": (LAW, made[1])})
    record = read_provenance(path)
    assert [domain_params(record, name) for name in ("law", "art", "sea")] == [
        {"seed": 0},
        {"seed": 1},
        None,
    ]
    assert set(record["inputs"]) == {"0.txt", "1.txt"}


def test_further_columns_of_one_domain_are_not_those_of_another(tmp_path):
    path = tmp_path / "t.parquet"
    texts = pl.DataFrame({"_id": ["a"], "text": ["t"], "origin": ["o"]})
    frames = {"law": texts.with_columns(year=1999, domain=pl.lit("mine")), "art": texts}
    write(path, frames, DOCUMENTS)
    assert rows(path, "law", DOCUMENTS).columns == ["_id", "text", "origin", "year"]
    assert rows(path, "art", DOCUMENTS).equals(texts)


def test_a_table_that_names_domains_itself_is_left_as_it_is(tmp_path):
    path = tmp_path / "t.parquet"
    dropped = ATTRITION.empty()
    one = {name: "x" for name in ATTRITION.column_names if dropped[name].dtype == pl.String}
    frame = pl.DataFrame([one | {"domain": "law", "score": 1.0}], schema=dropped.schema)
    write(path, {"law": frame, "art": dropped}, ATTRITION)
    assert rows(path, "law", ATTRITION).equals(frame)
    assert read_table(path, ATTRITION).equals(frame)


def test_a_table_of_several_languages_is_read_by_both(tmp_path):
    path = tmp_path / "t.parquet"
    count = {"stage": "s", "step": 0, "unit": "documents", "entered": 1, "kept": 1, "dropped": 0}
    places = [("eng-Latn", "law"), ("deu-Latn", "law"), ("deu-Latn", "art")]
    frame = pl.DataFrame(
        [{"language": la, "domain": at} | count | {"step": n} for n, (la, at) in enumerate(places)],
        schema=by_place(FLOW).empty().schema,
    )
    write_table(frame, path, by_place(FLOW), provenance=MADE)
    assert "flow, 3 rows" in str(check_table(path))
    found = read_table(OfDomain(str(path), "law", "deu-Latn"), FLOW)
    assert found.rows() == [("s", 1, "documents", 1, 1, 0)]


def test_only_the_row_groups_of_a_domain_are_read(tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    write(path, {f"d{n}": LAW for n in range(5)})
    read = []
    whole = pq.ParquetFile.read_row_groups
    monkeypatch.setattr(
        pq.ParquetFile,
        "read_row_groups",
        lambda file, groups: read.extend(groups) or whole(file, groups),
    )
    assert rows(path, "d3").equals(LAW)
    assert read == [3]


@pytest.mark.parametrize("spec", [ATTRITION, TRANSLATION_GRADES], ids=lambda spec: spec.name)
def test_a_table_that_names_places_itself_verifies(tmp_path, spec):
    path, empty = tmp_path / "t.parquet", spec.empty()
    texts = [name for name, kind in empty.schema.items() if kind == pl.String]
    parts = {}
    for number, domain in enumerate(("law", "art")):
        rows = [dict.fromkeys(texts, f"{number}{n}") | {"domain": "abb"[n]} for n in range(3)]
        rows = [row | {"language": "eng-Latn"} if "language" in texts else row for row in rows]
        parts[domain] = pl.DataFrame(rows, schema=empty.schema)
    write(path, parts, spec)
    assert "6 rows, unchanged since written" in str(check_table(path))
