"""Verification in the report, and the stage that writes the page."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jobs
import polars as pl
import pytest
from report_tables import frame
from verification_tables import MARGIN_FACTS, MODELS, POSQ_FACTS, audit, verified_input

from psibench.filters.audit import AUDIT_TABLE
from psibench.filters.margin_counts import CELL_TABLE, MARGIN_TABLE
from psibench.filters.negatives import JUDGEMENTS
from psibench.generate.benchmarks import parse_benchmark
from psibench.plan.config import load_config
from psibench.plan.plan import make_plan
from psibench.plan.summaries import verification_files
from psibench.report.filters import FILTER_TABLES, read_verification
from psibench.report.page import benchmark_info, run_report
from psibench.tables import Provenance, write_table
from psibench.tables.build_schemas import FLOW, LLM_USAGE, TRANSLATION_QUALITY
from psibench.tables.domains import by_place
from psibench.tables.schemas import (
    ATTRITION,
    BUCKET_SCORES,
    CORPUS,
    POSITION_HISTOGRAM,
    PSI_TABLE,
    QUERIES,
    STATISTICS,
)
from psibench.tables.spec import TableSpec

LABELS = {"benchmark": "controlled", "lang": "eng-Latn", "domains": ["wikipedia"]}
SOURCE = Provenance("verify", 1)
ASKED = {"llm": "stand-in"}


Write = Callable[[str, pl.DataFrame, TableSpec], str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a table of a name; return where it is."""

    def written(name: str, rows: pl.DataFrame, spec: TableSpec) -> str:
        path = tmp_path / f"{name}.parquet"
        write_table(rows, path, spec, provenance=SOURCE)
        return str(path)

    return written


def query(name: str, position: str) -> dict[str, Any]:
    asked = {"_id": name, "text": "t", "pos_corpus_id": "d", "pos_char_span": [0, 1]}
    return asked | {"pos_char_length": 9, "pos_token_length": 2, "target_position": position}


def dropped(name: str, position: str) -> dict[str, Any]:
    gone = {"stage": "margin", "unit": "queries", "item_id": name, "reason": "r"}
    return gone | {"target_position": position, "language": "eng-Latn", "domain": "wikipedia"}


def read(write: Write, **tables: Any) -> dict[str, Any]:
    """Inputs of five queries, a stage that keeps two queries, and tables."""
    place = {"benchmark": "controlled", "language": "eng-Latn", "domain": "wikipedia"}
    step = {"stage": "margin", "step": 1, "unit": "queries", "entered": 5, "kept": 2, "dropped": 3}
    items = [("c", "middle"), ("d", "end"), ("e", "end")]
    gone = write("gone", frame(ATTRITION, [dropped(*item) for item in items]), ATTRITION)
    left = frame(QUERIES, [query("a", "beginning"), query("b", "end")])
    files = {**LABELS, "queries": [write("queries", left, QUERIES)], **tables}
    (found,) = read_verification(
        [files, LABELS | {"benchmark": "other"}],
        flow=pl.DataFrame([place | step]),
        attrition={"controlled": gone},
    )
    return dict(found)


def test_counts_of_several_tables_are_added_up(write: Write) -> None:
    facts = MARGIN_FACTS
    parts = [audit((0.3, None, n, share)) for n, share in ((100, 0.5), (300, 0.9))]
    audits = zip(("law", "news"), parts, strict=True)
    found = read(
        write,
        margin_table=[write("margin_table", facts["margin_table"], MARGIN_TABLE)],
        cell_table=[write("cell_table", facts["cell_table"], CELL_TABLE)],
        audit_table=[write(name, rows, AUDIT_TABLE) for name, rows in audits],
        judgements=[write("judgements", POSQ_FACTS["judgements"], JUDGEMENTS)],
    )
    assert (found["benchmark"], found["language"]) == ("controlled", "eng-Latn")
    assert found["domain"] == "wikipedia"
    for name in ("margin_table", "cell_table"):
        counts = pl.col("^(condition|length_bin|n|n_.*)$")
        assert found[name].select(counts).equals(facts[name].select(counts))
    row = found["audit_table"].row(0, named=True)
    # (100 x 0.5 + 300 x 0.9) / 400, and Wilson's interval of that
    assert (row["n"], row["n_unusable"], row["exclusive"]) == (400, 4, pytest.approx(0.8))
    ends = (row["exclusive_low"], row["exclusive_high"])
    assert ends == pytest.approx((0.758, 0.836), abs=5e-4)


def test_positions_by_stage_come_from_ledger_and_queries(write: Write) -> None:
    sizes = read(write)["shift"].select("target_position", "n_entered", "n_kept").rows()
    assert sizes == [("all", 5, 2), ("beginning", 1, 1), ("middle", 1, 0), ("end", 3, 1)]


def test_workflow_gives_files_under_the_names_that_are_read() -> None:
    plain = {name: one.model_dump(mode="json") for name, one in sections().items()}
    plain["controlled"] |= {"audit": ASKED}
    plan = make_plan(*load_config({"benchmarks": plain}))
    found = verification_files(plan)
    assert {"margin_table", "audit_table"} <= set(found[0])
    known = {"benchmark", "lang", "domains", *FILTER_TABLES, "queries"}
    assert {name for files in found for name in files} <= known


def sections() -> dict[str, Any]:
    verify = {"rerankers": ["embedded-bm25"]}
    controlled = {"recipe": "controlled", "source": {"kind": "python_docs"}}
    controlled |= {"choose_configuration": ASKED, "generate_positional_query": ASKED}
    fineweb = {"recipe": "fineweb_posq", "source": {"kind": "python_docs"}, "summarise": ASKED}
    fineweb |= {"generate_questions": ASKED, "verify": verify}
    return {
        "controlled": parse_benchmark(controlled | {"verify": verify | {"threshold": 0.2}}),
        "fineweb": parse_benchmark(fineweb),
    }


def test_threshold_and_unit_come_from_the_section() -> None:
    found = [benchmark_info(*item, queries_by="people") for item in sections().items()]
    known = [(info.margin_threshold, info.length_unit) for info in found]
    assert known == [(0.2, "chars"), (None, "words")]


def graded(language: str) -> pl.DataFrame:
    row = {"language": language, "domain": "all", "length_bin": "all", "n": 1, "n_unjudged": 0}
    dimensions = ("fluency", "accuracy", "completeness", "style", "overall")
    return frame(
        TRANSLATION_QUALITY, [row | {"dimension": name, "mean": 4.0} for name in dimensions]
    )


def test_stage_writes_a_page_of_all_parts(write: Write, tmp_path: Path) -> None:
    inputs = verified_input()
    grades = [write(name, graded(name), TRANSLATION_QUALITY) for name in ("deu", "ara")]
    asked = query("q", "middle") | {"pos_char_span": [4, 7]}
    document = {"_id": "d", "text": "The box!!", "char_length": 9, "token_length": 2}
    document["word_count"] = 2
    place = {"benchmark": "fineweb", "lang": "eng-Latn", "domain": "law"}
    ledger = {"flow": by_place(FLOW), "usage": by_place(LLM_USAGE), "attrition": ATTRITION}
    margins = write("margins", MARGIN_FACTS["margin_table"], MARGIN_TABLE)
    queries = write("none", QUERIES.empty(), QUERIES)
    tables = {
        "psi_table": write("psi_table", inputs.psi_table, PSI_TABLE),
        "bucket_scores": write("bucket_scores", inputs.bucket_scores, BUCKET_SCORES),
        "statistics": [write("statistics", inputs.statistics, STATISTICS)],
        "histograms": [write("histogram", inputs.position_histogram, POSITION_HISTOGRAM)],
        **{
            name: [write(name, spec.empty(), spec)] * len(sections())
            for name, spec in ledger.items()
        },
        "published": [],
        "training": [],
    }
    jobs.run(
        run_report,
        tables,
        {"page": tmp_path / "report.html"},
        verification=[LABELS | {"margin_table": [margins], "queries": [queries]}],
        benchmarks={name: one.model_dump(mode="json") for name, one in sections().items()},
        models={model.id: {"backend": "bm25s", "description": "d"} for model in MODELS},
        languages=[{"benchmark": "fineweb", "quality": grades}],
        examples=[
            place
            | {"queries": write("asked", frame(QUERIES, [asked]), QUERIES)}
            | {"corpus": write("corpus", frame(CORPUS, [document]), CORPUS)}
        ],
        references=[],
        links={"published.html": "Beside others", "probes.html": "Probes"},
        title="Page",
    )
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    titles = [re.sub("<.*?>", "", title) for title in re.findall(r"<h4.*?</h4>", page)]
    curves = ["third of the passage"] * 2
    controlled = ["Sizes", "Margin: queries kept by threshold"]
    fineweb = ["Sizes", "Quality of the translations"]
    assert titles == [*curves, *controlled, *fineweb, "English"]
    assert re.findall(r'href="([^"#]+)"', page) == [
        "published.html",
        "probes.html",
        "psi_table.csv",
    ]
    assert page.count("<mark>box</mark>") == 1
    assert page.count("<bdi>ara</bdi>") == 1  # of two tables stacked
