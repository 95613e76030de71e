import logging

import jobs
import polars as pl
import pytest

from psibench.errors import InputError
from psibench.generate.recipes import run_subset
from psibench.tables import Provenance, read_provenance, write_table
from psibench.tables.schemas import CORPUS, QRELS, QUERIES
from psibench.text.segments import POSITIONS

SOURCE = Provenance(stage="assemble", stage_version=1, queries_by="llm:stand-in/rules")
SPANS = {"beginning": [0, 10], "middle": [10, 20], "end": [20, 30]}


def query(name, target, **more) -> dict:
    return {
        "_id": name,
        "text": f"what is {name}?",
        "pos_corpus_id": f"d-{name}",
        "pos_char_span": SPANS[target or "middle"],
        "pos_char_length": 30,
        "pos_token_length": 6,
        "target_position": target,
        **more,
    }


SPECS = {"corpus": CORPUS, "queries": QUERIES, "qrels": QRELS}


def draw(folder, queries, **section) -> dict[str, pl.DataFrame]:
    documents = [row["pos_corpus_id"] for row in queries] + ["d-of-no-query"]
    sizes = {"char_length": 30, "word_count": 6, "token_length": 6}
    rows = {
        "corpus": [{"_id": name, "text": "x" * 30, **sizes} for name in documents],
        "queries": queries,
        "qrels": [
            {"query-id": row["_id"], "corpus-id": doc, "score": score}
            for row in queries
            for doc, score in ((row["pos_corpus_id"], 2), ("d-of-no-query", 1))
        ],
    }
    paths = {name: folder / f"{name}.parquet" for name in SPECS}
    for name, path in paths.items():
        frame = pl.DataFrame(rows[name], infer_schema_length=None)
        write_table(frame, path, SPECS[name], provenance=SOURCE)
    made = {name: folder / "tiny" / f"{name}.parquet" for name in SPECS}
    jobs.run(run_subset, paths, made, section=section)
    return {name: jobs.rows(made[name], spec) for name, spec in SPECS.items()}


# Four queries of each position; the reading order cycles through the positions.
TWELVE = [query(f"q{i}", POSITIONS[i % 3]) for i in range(12)]


def test_only_the_qrels_of_drawn_queries_are_kept(tmp_path):
    tiny = draw(tmp_path, TWELVE, per_position=1)
    names = tiny["queries"]["_id"].to_list()
    assert tiny["qrels"].select("query-id", "corpus-id", "score").rows() == [
        row for name in names for row in ((name, f"d-{name}", 2), (name, "d-of-no-query", 1))
    ]
    assert tiny["corpus"].height == 13
    record = read_provenance(tmp_path / "tiny" / "queries.parquet")
    assert (record["stage"], record["queries_by"]) == ("subset", "llm:stand-in/rules")
    assert record["params"] == {"per_position": 1, "seed": 42, "domains": ["general"]}
    assert read_provenance(tmp_path / "tiny" / "corpus.parquet")["params"] == {
        "domains": ["general"]
    }


def test_a_short_position_gives_all_queries_with_a_warning(tmp_path, caplog):
    rows = [row for row in TWELVE if row["target_position"] != "end"] + [query("last", "end")]
    with caplog.at_level(logging.WARNING, logger="psibench"):
        tiny = draw(tmp_path, rows, per_position=3)
    counts = tiny["queries"]["target_position"].value_counts().rows()
    assert dict(counts) == {"beginning": 3, "middle": 3, "end": 1}
    assert [record.getMessage() for record in caplog.records] == [
        "tiny: drew only 1 of the 3 requested queries with target end"
    ]


def test_a_query_of_two_thirds_is_drawn_for_both(tmp_path, caplog):
    # Only "both" is at the end, so the draw of the end takes it; the subset has it once.
    both = query("both", None, positions=["middle", "end"])
    rows = [query(name, p, positions=[p]) for name, p in (("b", "beginning"), ("m", "middle"))]
    tiny = draw(tmp_path, [*rows, both], per_position=1)
    assert "both" in tiny["queries"]["_id"].to_list()
    assert tiny["queries"]["_id"].is_unique().all()
    assert tiny["queries"]["positions"].to_list()[-1] == ["middle", "end"]
    assert caplog.records == []


def test_queries_left_out_before_the_draw_are_reported(tmp_path, caplog):
    again = query("again", "beginning") | {"text": "what is q0?"}
    rows = [query("q0", "beginning"), again, query("untargeted", None), query("m", "middle")]
    with caplog.at_level(logging.WARNING, logger="psibench"):
        tiny = draw(tmp_path, [*rows, query("e", "end")], per_position=2)
    left = [record.getMessage() for record in caplog.records if "left out" in record.getMessage()]
    assert [line.split(": ")[-1] for line in left] == [
        "they have no target position",
        "their texts repeat the texts of other queries in the subset",
    ]
    assert all("1 queries of" in line for line in left)
    assert set(tiny["queries"]["_id"]) - {"q0", "again"} == {"m", "e"}
    assert tiny["queries"].height == 3  # one of the two with the same text


def test_queries_without_any_target_are_refused(tmp_path):
    rows = [query("a", None), query("b", None)]
    with pytest.raises(InputError, match=r"none of the 2 queries has a target position.*`tiny`"):
        draw(tmp_path, rows, per_position=1)
    assert not (tmp_path / "tiny").exists()
