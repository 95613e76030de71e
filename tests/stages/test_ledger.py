"""The ledger compares the items that a domain's steps dropped with their counts."""

from pathlib import Path

import jobs
import polars as pl
import pytest

from psibench.errors import InputError
from psibench.tables import Provenance, read_provenance, read_table, write_table
from psibench.tables.build_schemas import FLOW, LLM_USAGE
from psibench.tables.domains import by_place
from psibench.tables.dropped import (
    DROPPED_SCHEMA,
    Dropped,
    Flow,
    as_attrition,
    dropped_frame,
    flow_frame,
)
from psibench.tables.ledger import (
    check_balance,
    most_lost,
    run_ledger,
    uneven_cells,
    write_unfinished,
)
from psibench.tables.schemas import ATTRITION, DOCUMENTS, QUERIES, STATISTICS

SOURCE = Provenance("gather", 1, queries_by="llm:stand-in/rules", llm_backend="stand-in")


class Domain:
    """A folder with the tables of a domain's steps; makes the ledger."""

    def __init__(self, folder) -> None:
        self.folder, self.dropped, self.flow = folder, [], []
        documents = pl.DataFrame({"_id": ["d0", "d1"], "text": ["a", "b"], "origin": ["o", "o"]})
        documents = documents.with_columns(length_bin=pl.Series(["0-5", "5-10"]))
        self.documents = self._write("documents", documents, DOCUMENTS)

    def _write(self, name, frame, spec):
        path = self.folder / f"{name}.parquet"
        write_table(frame, path, spec, provenance=SOURCE)
        return path

    def step(self, name, rows, counts=None, *, place=0):
        """Write a step's tables; without counts, the tables of a source."""
        frame = as_attrition(dropped_frame(rows), language="eng-Latn", domain="law")
        self.dropped.append(self._write(f"{name}.dropped", frame, ATTRITION))
        if counts is not None:
            self.flow.append(self._write(f"{name}.flow", flow_frame(name, place, counts), FLOW))

    def ledger(self):
        names = ("attrition", "flow", "usage")
        outputs = {name: self.folder / f"{name}.parquet" for name in names}
        tables = {"documents": [self.documents], "dropped": self.dropped, "flow": self.flow}
        place = {name: [*map(str, paths)] for name, paths in tables.items()}
        more = {"usage": [], "queries": [], "lang": "eng-Latn", "domains": ["law"]}
        tables |= {"flows": tables.pop("flow"), "usages": []}
        jobs.run(run_ledger, tables, outputs, places=[place | more])
        specs = (ATTRITION, by_place(FLOW), by_place(LLM_USAGE))
        return [read_table(path, spec) for path, spec in zip(outputs.values(), specs, strict=True)]


SOURCE_ROW = Dropped("cut_documents", "passages", "x-unfit-001", "x", "passage_too_short")
BLANK = Dropped("summarise", "documents", "d1", "d1", "blank_summary")
REFUSED = Dropped("generate", "questions", "d0-q1", "d0", "blank_question", "?", 0.5, "end", 1)


def test_the_ledger_has_all_steps_and_length_bins(tmp_path):
    domain = Domain(tmp_path)
    domain.step("documents", [SOURCE_ROW])
    # Two steps in the wrong order; two units, one without losses.
    domain.step("generate", [REFUSED], [Flow("chunks", 3, 3), Flow("questions", 2, 1)], place=2)
    domain.step("summarise", [BLANK], [Flow("documents", 2, 1)], place=1)
    dropped, flow, usage = domain.ledger()
    columns = ("stage", "unit", "item_id", "doc_id", "length_bin")
    assert dropped.select(columns).rows() == [
        ("cut_documents", "passages", "x-unfit-001", "x", None),  # x is not in the sample
        ("generate", "questions", "d0-q1", "d0", "0-5"),
        ("summarise", "documents", "d1", "d1", "5-10"),
    ]
    assert dropped.row(1)[: len(DROPPED_SCHEMA)] == tuple(REFUSED)
    assert flow.select("step", "stage", "unit", "dropped").rows() == [
        (1, "summarise", "documents", 1),
        (2, "generate", "chunks", 0),
        (2, "generate", "questions", 1),
    ]
    assert usage.is_empty()
    record = read_provenance(tmp_path / "attrition.parquet")
    assert (record["stage"], record["queries_by"]) == ("ledger", "llm:stand-in/rules")
    assert set(record["inputs"]) == {str(path) for path in [domain.documents, *domain.dropped]}


def test_a_step_with_inconsistent_counts_is_refused(tmp_path):
    domain = Domain(tmp_path)
    domain.step("step", [], [Flow("questions", 5, 4)])
    with pytest.raises(AssertionError, match="step, questions: 1 counted as dropped, but 0 rows"):
        domain.ledger()
    assert not (tmp_path / "attrition.parquet").exists()


def test_lost_doubled_and_moved_rows_are_found():
    row = Dropped("one", "questions", "q1", "d0", "r")
    counts = [("one", Flow("questions", 2, 1)), ("two", Flow("questions", 1, 1))]
    flow = pl.concat(flow_frame(stage, place, [n]) for place, (stage, n) in enumerate(counts))
    check_balance(dropped_frame([row]), flow)
    wrong = {
        "lost": [],
        "doubled": [row, row],
        "another item": [row, row._replace(item_id="new")],
        "another stage": [row._replace(stage="two")],
        "another unit": [row, row._replace(unit="pairs")],
    }
    for rows in wrong.values():
        with pytest.raises(AssertionError):
            check_balance(dropped_frame(rows), flow)
    unsound = flow.with_columns(entered=pl.col("entered") + 1)
    with pytest.raises(AssertionError, match="3 entered, but 1 kept and 1 dropped make 2"):
        check_balance(dropped_frame([row]), unsound)


def write_cells(folder, n_queries):
    """Tables of two domains of a language, with the given numbers of queries."""
    place = {"lang": "eng-Latn", "domains": list(n_queries), "documents": [], "usage": []}
    place |= {"dropped": [], "flow": [], "queries": []}
    for domain, n in n_queries.items():
        rows = [
            Dropped("load", "queries", f"{domain}{i}", None, "no_positive") for i in range(2 - n)
        ]
        asked = [(f"q{i}", "?", "d", [0, 1], 2, 1, None) for i in range(n)]
        frames = {
            "dropped": (
                as_attrition(dropped_frame(rows), language="eng-Latn", domain=domain),
                ATTRITION,
            ),
            "flow": (flow_frame("load", 0, [Flow("queries", 2, n)]), FLOW),
            "queries": (pl.DataFrame(asked, QUERIES.empty().schema, orient="row"), QUERIES),
        }
        for name, (frame, spec) in frames.items():
            path = folder / f"{domain}.{name}.parquet"
            write_table(frame, path, spec, provenance=SOURCE)
            place[name].append(str(path))
    outputs = {name: folder / f"{name}.parquet" for name in ("attrition", "flow", "usage")}
    tables = {"documents": [], "usages": []}
    tables |= {"dropped": place["dropped"], "flows": place["flow"]}
    return tables, [place], outputs


@pytest.mark.parametrize(
    ("n_queries", "on_empty", "message"),
    [
        ({"law": 0, "art": 0}, "drop", "no query is left in any domain; .*"),
        ({"law": 0, "art": 1}, "fail", r"no query is left in some domains \(on_empty: fail\); .*"),
    ],
)
def test_an_empty_result_is_refused_with_each_steps_counts(tmp_path, n_queries, on_empty, message):
    tables, places, outputs = write_cells(tmp_path, n_queries)
    said = r"\n  eng-Latn, law: load 2 -> 0 queries \(no_positive 2\)"
    with pytest.raises(InputError, match=message + said):
        jobs.run(run_ledger, tables, outputs, places=places, on_empty=on_empty)


def test_a_failed_run_leaves_a_ledger_if_nothing_is_left(tmp_path):
    _, (place,), outputs = write_cells(tmp_path, {"law": 0, "art": 0})
    missing = {
        kind: [*place[kind], str(tmp_path / "later.parquet")] for kind in ("dropped", "flow")
    }
    assert write_unfinished(tmp_path, [place | missing])
    flow = read_table(outputs["flow"], by_place(FLOW))
    assert flow.select("domain", "entered", "kept").rows() == [("law", 2, 0), ("art", 2, 0)]
    assert read_table(outputs["attrition"], ATTRITION).height == 4
    inputs = [Path(path) for path in [*place["dropped"], *place["flow"]]]
    assert outputs["flow"].stat().st_mtime < min(path.stat().st_mtime for path in inputs)
    assert write_unfinished(tmp_path, [place])  # replaces that of an earlier failed run


@pytest.mark.parametrize("n_queries", [{"law": 1, "art": 0}, {"law": 1, "art": 1}])
def test_a_failed_run_with_queries_left_writes_no_ledger(tmp_path, n_queries):
    _, (place,), outputs = write_cells(tmp_path, n_queries)
    assert not write_unfinished(tmp_path, [place])
    assert not outputs["flow"].exists()


def test_the_steps_that_lost_most_have_reasons_and_a_remedy():
    counts = [("write", Flow("queries", 2010, 2008)), ("verify", Flow("queries", 2008, 2))]
    counts += [("grade", Flow("queries", 2, 1)), ("audit", Flow("pairs", 9, 0))]
    rows = [Dropped("write", "queries", f"a{i}", None, "blank_query") for i in range(2)]
    rows += [Dropped("verify", "queries", f"b{i}", None, "target_not_first") for i in range(2006)]
    rows += [Dropped("grade", "queries", "c", None, "unknown")]
    flow = pl.concat(flow_frame(name, n, [one]) for n, (name, one) in enumerate(counts))
    flow = flow.select(
        pl.lit("eng-Latn").alias("language"), pl.lit("law").alias("domain"), pl.all()
    )
    dropped = as_attrition(dropped_frame(rows), language="eng-Latn", domain="law")
    assert most_lost(flow, dropped, language="eng-Latn") == [
        "verify dropped 2,006 of 2,008 queries (target_not_first 2,006). To keep more: rerankers "
        "for the documents' language, or a lower `verify.threshold`",
        "grade dropped 1 of 2 queries (unknown 1)",
    ]


def test_empty_cells_are_listed_with_their_step(tmp_path):
    tables, places, outputs = write_cells(tmp_path, {"law": 0, "art": 1})
    jobs.run(run_ledger, tables, outputs, places=places)
    counts = [("eng-Latn", "law", 0), ("eng-Latn", "art", 1), ("eng-Latn", "all", 1)]
    counts += [("ara-Arab", "law", 3)]
    rows = [("b", lang, domain, "n_queries", float(n)) for lang, domain, n in counts]
    flow, dropped = (
        read_table(outputs[name], spec)
        for name, spec in (("flow", by_place(FLOW)), ("attrition", ATTRITION))
    )
    statistics = pl.DataFrame(rows, STATISTICS.empty().schema, orient="row")
    assert uneven_cells(statistics, flow, dropped).rows() == [
        ("eng-Latn", "law", "load 2 -> 0 queries (no_positive 2)"),
        ("ara-Arab", "art", "not in this language"),
    ]
    even = statistics.filter(domain="law", language="ara-Arab")
    assert uneven_cells(even, flow, dropped).is_empty()
