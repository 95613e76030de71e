"""Every filter in one chain, with the real snakemake, lexical rerankers and the stand-in."""

import shutil
import time
from pathlib import Path

import polars as pl
import pytest
from filter_project import (
    ABOVE,
    CHAIN,
    CONTROLLED,
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

BUILD = f"results/{CHAIN}/build/eng-Latn"
TARGETS = [
    "results/psi_table.csv",
    f"results/{CHAIN}/attrition.parquet",
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
def chain(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The project after one run. Do not change it: take ``chain_copy``."""

    def make(folder: Path) -> None:
        make_filter_project(folder).run(*TARGETS)

    return Project(once_per_session(tmp_path_factory, "chain", make))


@pytest.fixture
def chain_copy(chain: Project, tmp_path: Path) -> Project:
    copy = tmp_path / "project"
    shutil.copytree(chain.folder, copy, symlinks=True)
    return Project(copy)


def ids(project: Project, benchmark: str, name: str = "queries") -> list[str]:
    return table(project, benchmark, name)["_id"].to_list()


@pytest.mark.parametrize("benchmark", [CHAIN, ABOVE, CONTROLLED])
def test_what_every_step_dropped_is_counted_and_every_query_has_its_evidence(
    chain: Project, benchmark: str
) -> None:
    flow = read(chain, benchmark, "flow", "flow")
    dropped = read(chain, benchmark, "dropped", "attrition")
    check_balance(dropped, flow)
    assert flow["dropped"].sum() == dropped.height
    assert flow["step"].is_sorted()
    for column in ("doc_id", "unit", "length_bin"):
        assert dropped[column].null_count() == 0, column
    texts = dict(table(chain, benchmark, "corpus").select("_id", "text").iter_rows())
    queries = table(chain, benchmark, "queries")
    assert queries.height > 0
    for doc_id, span, answer in queries.select(
        "pos_corpus_id", "pos_char_span", "answer"
    ).iter_rows():
        assert answer in texts[doc_id][span[0] : span[1]]


def test_tables_say_that_a_stand_in_wrote_the_queries(chain: Project) -> None:
    results = chain.folder / "results"
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
        (CHAIN, ["generate_questions", "margin", "segment_grades", "false_negatives"]),
        (ABOVE, ["propose_questions", "locate_span", "false_negatives"]),
    ],
)
def test_each_filter_takes_what_the_one_before_it_kept_and_the_rest_are_the_queries(
    chain: Project, benchmark: str, stages: list[str]
) -> None:
    questions = read(chain, benchmark, "flow", "flow").filter(unit="questions")
    assert questions["stage"].to_list() == stages
    assert questions["entered"].to_list()[1:] == questions["kept"].to_list()[:-1]
    assert questions["kept"][-1] == len(ids(chain, benchmark)) > 0
    filters = questions.filter(pl.col("stage").is_in(["margin", "segment_grades"]))
    assert (filters["dropped"] > 0).all()


def test_documents_above_the_positive_are_in_no_table_of_the_clean_benchmark(
    chain: Project,
) -> None:
    removed = read(chain, ABOVE, "dropped", "attrition").filter(unit="documents")["item_id"]
    # Only the documents that are there twice share words with another one.
    assert sorted(removed) == [f"short{n:03d}" for n in range(N_SHORT)]
    columns = {"corpus": "_id", "queries": "pos_corpus_id", "qrels": "corpus-id"}
    for name, column in columns.items():
        assert set(removed) <= set(table(chain, f"{ABOVE}-raw", name)[column]), name
        assert not set(table(chain, ABOVE, name)[column]) & set(removed), name
    run = f"runs/bm25/{PAIR}.parquet"
    for benchmark, found in ((ABOVE, set()), (f"{ABOVE}-raw", set(removed))):
        documents = pl.read_parquet(chain.folder / "results" / benchmark / run)["doc_id"]
        assert set(documents) & set(removed) == found, benchmark


def test_views_have_rows_of_their_own_with_their_own_number_of_queries(chain: Project) -> None:
    rows = read_table(chain.folder / "results" / "psi_table.parquet", PSI_TABLE)
    counts = dict(rows.filter(evidence="all").select("benchmark", "n_queries").iter_rows())
    evaluated = [CHAIN, f"{CHAIN}-raw", f"{CHAIN}-tiny", ABOVE, f"{ABOVE}-raw", CONTROLLED]
    assert counts == {name: len(ids(chain, name)) for name in evaluated}
    assert counts[f"{CHAIN}-raw"] > counts[CHAIN] > counts[f"{CHAIN}-tiny"]
    assert rows["benchmark"].unique(maintain_order=True).to_list() == evaluated


def test_a_benchmark_and_its_tiny_subset_have_the_runs_of_the_raw_view(chain: Project) -> None:
    results = chain.folder / "results"
    for name in (CHAIN, f"{CHAIN}-tiny"):
        (run,) = (one for one in find_runs(results / name, ["eng-Latn"]) if one.model == "bm25")
        assert run.path == results / f"{CHAIN}-raw/runs/bm25/{PAIR}.parquet"
        scored = pl.read_parquet(results / name / f"scores/{PAIR}.parquet")["query_id"]
        assert set(scored) == set(ids(chain, name))
        assert scored.n_unique() < pl.read_parquet(run.path)["query_id"].n_unique()


def test_another_margin_asks_no_writing_task_and_scores_no_known_pair(chain_copy: Project) -> None:
    config = chain_copy.read_config()
    config["benchmarks"][CHAIN]["verify"]["threshold"] = 0.68
    chain_copy.write_config(config)
    assert chain_copy.planned(*TARGETS) == AFTER_REMOVAL | {
        **{"verify_margin": 1, "grade_pairs": 2, "grade": 1, "audit_pairs": 1, "audit_table": 1},
        "ask": 6,  # grades, audit and judges: none that writes
        **{"assemble_raw": 1, "score_pairs": 2, "negatives": 1},
        # One run of the raw view serves its recall, the benchmark and its tiny subset.
        **{"judge_pairs": 3, "search_lexical": 1, "score": 3},
    }
    before, started = ids(chain_copy, f"{CHAIN}-raw"), time.time()
    chain_copy.run(f"{BUILD}/pair_scores/{LEXICAL[0]}.parquet")
    after = ids(chain_copy, f"{CHAIN}-raw")
    assert set(after) < set(before)
    assert asked(chain_copy, since=started) == {}  # every grade is known
    log = chain_copy.folder / f"logs/{CHAIN}/score_pairs/eng-Latn/{LEXICAL[0]}.log"
    assert log.stat().st_mtime > started
    assert f"scoring {LEXICAL[0]}: 0 pairs scored now" in log.read_text()


def test_the_judges_template_reruns_the_judges_and_what_follows(chain_copy: Project) -> None:
    prompt = chain_copy.folder / "prompts" / "judges.md"
    text = prompt.read_text()
    header, body = text.rsplit("---\n", 1)
    assert "You judge" in body
    prompt.write_text(f"{header}---\n{body.replace('You judge', 'Now you judge', 1)}")
    evaluated = {"score": 2}  # the clean one and the tiny one, by the run of the raw one
    judges = {"ask": 3, "judge_pairs": 2}  # what the first one reads is as it was
    assert chain_copy.planned(*TARGETS) == AFTER_REMOVAL | judges | evaluated
    started = time.time()
    chain_copy.run(f"{BUILD}/judge_1.parquet")
    n_pairs = read(chain_copy, CHAIN, "judge_1_pairs", "pairs").height
    assert asked(chain_copy, since=started) == {"judge_1": n_pairs}


def test_how_a_model_is_asked_and_comments_in_templates_rerun_nothing(chain_copy: Project) -> None:
    for path in (chain_copy.folder / "prompts").glob("*.md"):
        path.write_text(path.read_text().replace("---\n", "---\n# a thought\n", 1))
    stand_in = {
        "backend": "stand-in",
        "model": "stand-in/rules",
        "sampling": {"seed": 42},
        "asking": {"concurrency": 2, "timeout_s": 7.0},
    }
    prices = {"stand-in/rules": {"input_usd": 1, "output_usd": 1, "as_of": "2026-01-01"}}
    config = chain_copy.read_config() | {"llms": {"stand-in": stand_in}, "prices": prices}
    chain_copy.write_config(config)
    assert chain_copy.planned(*TARGETS) == {}
    stand_in["sampling"]["seed"] = 7
    chain_copy.write_config(config)
    # What the stand-in writes, and what the others judge of it.
    assert chain_copy.planned(*TARGETS)["ask"] == 12


def test_new_documents_are_asked_about_alone(chain_copy: Project) -> None:
    write_doubled_corpus(chain_copy.folder / "corpus.jsonl", n_documents=N_DOCUMENTS + 3)
    started = time.time()
    chain_copy.run(f"results/{CONTROLLED}/data/eng-Latn/queries.parquet")
    counts = asked(chain_copy, since=started)
    assert counts == {"choose_configuration": 3, "generate_positional_query": 9}
