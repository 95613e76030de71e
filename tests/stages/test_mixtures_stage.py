import logging
from collections import Counter

import polars as pl
import pytest

from psibench.config.judging import Mixtures
from psibench.errors import InputError
from psibench.stages.mixtures import run_mixtures
from psibench.tables import Provenance, read_provenance, read_table, write_table
from psibench.tables.build_schemas import CANDIDATES, SAMPLING
from psibench.tables.schemas import DOCUMENTS, QUERIES
from psibench.tables.study_schemas import MIXTURE_CELLS
from psibench.tables.verify_report_schemas import MIXTURES
from psibench.text.segments import POSITIONS

SOURCE = Provenance(stage="verify", stage_version=1, queries_by="llm:stand-in/rules")
BINS = ("short", "long")  # in this order by length, not by name

# Retained queries per cell; the smallest has 3.
POOL = {
    ("short", "beginning"): 3,
    ("short", "middle"): 4,
    ("short", "end"): 5,
    ("long", "beginning"): 6,
    ("long", "middle"): 3,
    ("long", "end"): 4,
}


def candidates_of(pool) -> list[dict]:
    return [
        {
            "_id": f"{name}-{position}-{i}",
            "text": "?",
            "pos_corpus_id": f"d-{name}",
            "pos_char_span": [0, 1],
            "target_position": position,
            "answer": "a",
            "length_bin": name,
        }
        for (name, position), n in pool.items()
        for i in range(n)
    ]


class Case:
    """A folder with the tables of one benchmark."""

    def __init__(self, folder, pool=POOL, *, documents=("short", "long")) -> None:
        self.folder = folder
        self.write("candidates", CANDIDATES, candidates_of(pool))
        rows = [{"_id": f"d-{name}", "text": "x", "origin": "f:0"} for name in documents]
        self.write("documents", DOCUMENTS, [row | {"length_bin": row["_id"][2:]} for row in rows])
        limits = {
            "unit": "chars",
            "low": 0,
            "high": 9,
            "n_seen": 9,
            "n_wanted": 9,
            "n_duplicates": 0,
        }
        named = [{"bin": name, **limits, "n_sampled": 9} for name in (*BINS, "outside")]
        self.write("sampling", SAMPLING, named)

    def path(self, name):
        return self.folder / f"{name}.parquet"

    def write(self, name, spec, rows) -> None:
        write_table(
            pl.DataFrame(rows, infer_schema_length=None), self.path(name), spec, provenance=SOURCE
        )

    def change(self, name, spec, *expressions) -> None:
        frame = read_table(self.path(name), spec).with_columns(*expressions)
        write_table(frame, self.path(name), spec, provenance=SOURCE)

    def run(self, **section) -> pl.DataFrame:
        read = {name: self.path(name) for name in ("documents", "candidates", "sampling")}
        made = {"output": self.path("mixtures"), "table": self.path("cells")}
        run_mixtures(Mixtures(**section), **read, **made)
        return read_table(self.path("mixtures"), MIXTURES)

    def cells(self) -> pl.DataFrame:
        return read_table(self.path("cells"), MIXTURE_CELLS)


def test_configurations_have_the_budget_in_every_length_bin(tmp_path):
    # Budget 3: begin, middle and end take 3 of one position per bin; uniform 3 // 3 = 1 of each.
    drawn = Case(tmp_path).run()
    columns = ("configuration", "length_bin", "target_position")
    counts = Counter(drawn.select(columns).iter_rows())
    single = {"begin": "beginning", "middle": "middle", "end": "end"}
    wanted = {(name, size, place): 3 for name, place in single.items() for size in BINS}
    wanted |= {("uniform", size, place): 1 for size in BINS for place in POSITIONS}
    assert counts == wanted
    assert drawn["length_bin"].unique(maintain_order=True).to_list() == list(BINS)


def test_the_table_says_what_each_configuration_has_of_each_cell(tmp_path):
    case = Case(tmp_path)
    case.run(configurations={"early": [2, 1, 0]})
    # Budget 3, parts 2:1:0: 2 of the beginning and 1 of the middle.
    assert case.cells().rows() == [
        ("early", "short", "beginning", 3, 2, 3),
        ("early", "short", "middle", 4, 1, 3),
        ("early", "short", "end", 5, 0, 3),
        ("early", "long", "beginning", 6, 2, 3),
        ("early", "long", "middle", 3, 1, 3),
        ("early", "long", "end", 4, 0, 3),
    ]


def test_drawn_counts_agree_with_the_drawn_queries(tmp_path):
    case = Case(tmp_path)
    drawn = case.run()
    cell = ["configuration", "length_bin", "target_position"]
    counted = {row[:3]: row[3] for row in drawn.group_by(cell).len().rows()}
    for row in case.cells().iter_rows(named=True):
        assert row["n_drawn"] == counted.get(tuple(row[name] for name in cell), 0)
        assert row["n_retained"] == POOL[row["length_bin"], row["target_position"]]


def test_length_bins_come_from_the_documents_where_candidates_have_none(tmp_path):
    case = Case(tmp_path)
    own = case.run()
    frame = read_table(case.path("candidates"), CANDIDATES).drop("length_bin")
    write_table(frame, case.path("candidates"), CANDIDATES, provenance=SOURCE)
    assert case.run().equals(own)


def test_the_final_queries_of_a_benchmark_may_be_the_pool(tmp_path):
    case = Case(tmp_path)
    own = case.run()
    rows = [
        row | {"pos_char_length": 9, "pos_token_length": 2, "positions": [row["target_position"]]}
        for row in candidates_of(POOL)
    ]
    case.write("candidates", QUERIES, rows)
    assert case.run().equals(own)


def test_a_budget_too_small_to_divide_is_warned_of(tmp_path, caplog):
    case = Case(tmp_path, POOL | {("long", "middle"): 2})
    with caplog.at_level(logging.WARNING, logger="psibench"):
        drawn = case.run()
    assert set(drawn["configuration"]) == {"begin", "middle", "end"}
    (record,) = caplog.records
    assert "configuration uniform is empty" in record.getMessage()
    assert "has 2 queries" in record.getMessage()
    of_uniform = case.cells().filter(configuration="uniform")
    assert of_uniform["n_drawn"].to_list() == [0] * 6


def test_an_empty_cell_leaves_nothing_to_draw_and_is_warned_of(tmp_path, caplog):
    case = Case(tmp_path, {key: n for key, n in POOL.items() if key != ("long", "end")})
    with caplog.at_level(logging.WARNING, logger="psibench"):
        assert case.run().is_empty()
    (record,) = caplog.records
    assert "a cell of length bin and position is empty" in record.getMessage()
    assert case.cells()["n_drawn"].sum() == 0
    assert case.cells()["n_retained"].sum() > 0


def test_a_candidate_of_an_unknown_document_is_refused(tmp_path):
    case = Case(tmp_path, documents=("short",))
    frame = read_table(case.path("candidates"), CANDIDATES).drop("length_bin")
    write_table(frame, case.path("candidates"), CANDIDATES, provenance=SOURCE)
    with pytest.raises(InputError, match=r"'long-beginning-0'.*'d-long'.*\(13 such candidates\)"):
        case.run()


def test_documents_without_length_bins_are_refused(tmp_path):
    case = Case(tmp_path)
    for name, spec in (("candidates", CANDIDATES), ("documents", DOCUMENTS)):
        frame = read_table(case.path(name), spec).drop("length_bin")
        write_table(frame, case.path(name), spec, provenance=SOURCE)
    with pytest.raises(InputError, match="missing columns: length_bin"):
        case.run()


def test_a_candidate_of_two_thirds_is_refused(tmp_path):
    case = Case(tmp_path)
    both = pl.lit(["beginning", "middle"], pl.List(pl.String))
    case.change("candidates", CANDIDATES, both.alias("positions"))
    with pytest.raises(InputError, match="cells of length and position need one target per query"):
        case.run()


def test_a_length_bin_that_was_not_sampled_is_refused(tmp_path):
    case = Case(tmp_path)
    case.change("candidates", CANDIDATES, length_bin_of("huge"))
    with pytest.raises(InputError, match="has the length bin 'huge'; listed: short, long"):
        case.run()


def length_bin_of(name) -> pl.Expr:
    return pl.lit(name).alias("length_bin")


def test_another_seed_draws_others_and_provenance_has_it(tmp_path):
    case = Case(tmp_path)
    first, again, other = case.run(seed=1), case.run(seed=1), case.run(seed=2)
    assert first.equals(again)
    assert not first.equals(other)
    record = read_provenance(case.path("mixtures"))
    assert (record["stage"], record["queries_by"]) == ("mixtures", "llm:stand-in/rules")
    assert record["params"]["seed"] == 2
    assert str(case.path("sampling")) in record["inputs"]
