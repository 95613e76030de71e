"""All filters in one pipeline, with real snakemake, lexical rerankers and the stand-in."""

import shutil
import time
from pathlib import Path

import polars as pl
import pytest
from filter_project import (
    ABOVE,
    CONTROLLED,
    JUDGED,
    LEXICAL,
    N_DOCUMENTS,
    N_SHORT,
    asked,
    make_filter_project,
    read,
    table,
    write_doubled_corpus,
)
from workflow_project import Project, once_per_session

from psibench.formats.built import find_runs
from psibench.tables import read_provenance, read_table
from psibench.tables.ledger import check_balance
from psibench.tables.schemas import PSI_TABLE

BUILD = f"results/{JUDGED}/build/eng-Latn"
TARGETS = [
    "results/psi_table.csv",
    f"results/{JUDGED}/attrition.parquet",
    f"results/{ABOVE}/attrition.parquet",
    f"results/{CONTROLLED}/attrition.parquet",
    f"{BUILD}/audit_table.parquet",
]
PAIR = "eng-Latn-eng-Latn"
AFTER_REMOVAL = {
    **{"data": 1, "tiny": 1, "ledger": 1},
    "summaries": 1,
}


@pytest.fixture(scope="session")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The project after a run; use ``judged_copy`` to change it."""

    def make(folder: Path) -> None:
        make_filter_project(folder).run(*TARGETS)

    return Project(once_per_session(tmp_path_factory, "judged", make))


@pytest.fixture
def judged_copy(judged: Project, tmp_path: Path) -> Project:
    copy = tmp_path / "project"
    shutil.copytree(judged.folder, copy, symlinks=True)
    return Project(copy)


def ids(project: Project, benchmark: str, name: str = "queries") -> list[str]:
    return table(project, benchmark, name)["_id"].to_list()


@pytest.mark.parametrize("benchmark", [JUDGED, ABOVE, CONTROLLED])
def test_dropped_rows_balance_and_queries_have_their_evidence(
    judged: Project, benchmark: str
) -> None:
    flow = read(judged, benchmark, "flow", "flow")
    dropped = read(judged, benchmark, "dropped", "attrition")
    check_balance(dropped, flow)
    assert flow["dropped"].sum() == dropped.height
    assert flow["step"].is_sorted()
    for column in ("doc_id", "unit", "length_bin"):
        assert dropped[column].null_count() == 0, column
    texts = dict(table(judged, benchmark, "corpus").select("_id", "text").iter_rows())
    queries = table(judged, benchmark, "queries")
    assert queries.height > 0
    for doc_id, span, answer in queries.select(
        "pos_corpus_id", "pos_char_span", "answer"
    ).iter_rows():
        assert answer in texts[doc_id][span[0] : span[1]]


def test_tables_record_that_a_stand_in_wrote_the_queries(judged: Project) -> None:
    results = judged.folder / "results"
    assert set(read_table(results / "psi_table.parquet", PSI_TABLE)["queries_by"]) == {
        "llm:stand-in/rules"
    }
    for path in results.rglob("*.parquet"):
        record = read_provenance(path) or {}
        if record["stage"] not in ("sample", "personas"):
            assert record["llm_backend"] == "stand-in", path


@pytest.mark.parametrize(
    ("benchmark", "stages"),
    [
        (JUDGED, ["generate_questions", "margin", "segment_grades", "false_negatives"]),
        (ABOVE, ["propose_questions", "locate_span", "false_negatives"]),
    ],
)
def test_each_filter_reads_the_rows_kept_by_the_one_before(
    judged: Project, benchmark: str, stages: list[str]
) -> None:
    questions = read(judged, benchmark, "flow", "flow").filter(unit="questions")
    assert questions["stage"].to_list() == stages
    assert questions["entered"].to_list()[1:] == questions["kept"].to_list()[:-1]
    assert questions["kept"][-1] == len(ids(judged, benchmark)) > 0
    filters = questions.filter(pl.col("stage").is_in(["margin", "segment_grades"]))
    assert (filters["dropped"] > 0).all()


def test_documents_above_the_positive_are_removed_from_all_tables(
    judged: Project,
) -> None:
    removed = read(judged, ABOVE, "dropped", "attrition").filter(unit="documents")["item_id"]
    # Only the shortened copies share words with another document.
    assert sorted(removed) == [f"short{n:03d}" for n in range(N_SHORT)]
    columns = {"corpus": "_id", "queries": "pos_corpus_id", "qrels": "corpus-id"}
    for name, column in columns.items():
        assert set(removed) <= set(table(judged, f"{ABOVE}-raw", name)[column]), name
        assert not set(table(judged, ABOVE, name)[column]) & set(removed), name
    run = f"runs/bm25/{PAIR}.parquet"
    for benchmark, found in ((ABOVE, set()), (f"{ABOVE}-raw", set(removed))):
        documents = pl.read_parquet(judged.folder / "results" / benchmark / run)["doc_id"]
        assert set(documents) & set(removed) == found, benchmark


def test_views_have_separate_rows_with_their_number_of_queries(judged: Project) -> None:
    rows = read_table(judged.folder / "results" / "psi_table.parquet", PSI_TABLE)
    counts = dict(rows.filter(evidence="all").select("benchmark", "n_queries").iter_rows())
    evaluated = [JUDGED, f"{JUDGED}-raw", f"{JUDGED}-tiny", ABOVE, f"{ABOVE}-raw", CONTROLLED]
    assert counts == {name: len(ids(judged, name)) for name in evaluated}
    assert counts[f"{JUDGED}-raw"] > counts[JUDGED] > counts[f"{JUDGED}-tiny"]
    assert rows["benchmark"].unique(maintain_order=True).to_list() == evaluated


def test_a_benchmark_and_its_tiny_subset_reuse_raw_runs(judged: Project) -> None:
    results = judged.folder / "results"
    for name in (JUDGED, f"{JUDGED}-tiny"):
        (run,) = (one for one in find_runs(results / name, ["eng-Latn"]) if one.model == "bm25")
        assert run.path == results / f"{JUDGED}-raw/runs/bm25/{PAIR}.parquet"
        scored = pl.read_parquet(results / name / f"scores/{PAIR}.parquet")["query_id"]
        assert set(scored) == set(ids(judged, name))
        assert scored.n_unique() < pl.read_parquet(run.path)["query_id"].n_unique()


def test_another_margin_rewrites_nothing_and_rescores_no_pair(judged_copy: Project) -> None:
    config = judged_copy.read_config()
    config["benchmarks"][JUDGED]["verify"]["threshold"] = 0.68
    judged_copy.write_config(config)
    assert judged_copy.planned(*TARGETS) == AFTER_REMOVAL | {
        **{"verify_margin": 1, "grade_pairs": 2, "grade": 1, "audit_pairs": 1, "audit_table": 1},
        "ask": 6,  # grades, audit and judges, but no writing tasks
        **{"assemble_raw": 1, "score_pairs": 2, "negatives": 1},
        # The run of the raw view is shared by its recall, the benchmark and the tiny subset.
        **{"judge_pairs": 3, "search_lexical": 1, "score": 3},
    }
    before, started = ids(judged_copy, f"{JUDGED}-raw"), time.time()
    judged_copy.run(f"{BUILD}/pair_scores/{LEXICAL[0]}.parquet")
    after = ids(judged_copy, f"{JUDGED}-raw")
    assert set(after) < set(before)
    assert asked(judged_copy, since=started) == {}  # all grades are stored
    log = judged_copy.folder / f"logs/{JUDGED}/score_pairs/eng-Latn/{LEXICAL[0]}.log"
    assert log.stat().st_mtime > started
    assert f"scoring {LEXICAL[0]}: 0 pairs scored now" in log.read_text()


def test_an_edited_judge_template_reruns_judges_and_later_steps(judged_copy: Project) -> None:
    prompt = judged_copy.folder / "prompts" / "judges.md"
    text = prompt.read_text()
    header, body = text.rsplit("---\n", 1)
    assert "You judge" in body
    prompt.write_text(f"{header}---\n{body.replace('You judge', 'Now you judge', 1)}")
    evaluated = {"score": 2}  # the benchmark and the tiny subset; they use the raw run
    judges = {"ask": 3, "judge_pairs": 2}  # the pairs of the first judge are unchanged
    assert judged_copy.planned(*TARGETS) == AFTER_REMOVAL | judges | evaluated
    started = time.time()
    judged_copy.run(f"{BUILD}/judge_1.parquet")
    n_pairs = read(judged_copy, JUDGED, "judge_1_pairs", "pairs").height
    assert asked(judged_copy, since=started) == {"judge_1": n_pairs}


def test_request_settings_and_template_comments_rerun_nothing(judged_copy: Project) -> None:
    for path in (judged_copy.folder / "prompts").glob("*.md"):
        path.write_text(path.read_text().replace("---\n", "---\n# a thought\n", 1))
    stand_in = {
        "backend": "stand-in",
        "model": "stand-in/rules",
        "sampling": {"seed": 42},
        "asking": {"concurrency": 2, "timeout_s": 7.0},
    }
    prices = {"stand-in/rules": {"input_usd": 1, "output_usd": 1, "as_of": "2026-01-01"}}
    config = judged_copy.read_config() | {"llms": {"stand-in": stand_in}, "prices": prices}
    judged_copy.write_config(config)
    assert judged_copy.planned(*TARGETS) == {}
    stand_in["sampling"]["seed"] = 7
    judged_copy.write_config(config)
    # The texts that the stand-in writes, and their judgements.
    assert judged_copy.planned(*TARGETS)["ask"] == 12


def test_only_new_documents_cause_requests(judged_copy: Project) -> None:
    write_doubled_corpus(judged_copy.folder / "corpus.jsonl", n_documents=N_DOCUMENTS + 3)
    started = time.time()
    judged_copy.run(f"results/{CONTROLLED}/data/eng-Latn/queries.parquet")
    counts = asked(judged_copy, since=started)
    assert counts == {"choose_configuration": 3, "generate_positional_query": 9}
