"""Candidates checked by rerankers, with the real snakemake and two embedded rerankers."""

import shutil
from pathlib import Path

import polars as pl
import pytest
from generated_project import PROMPTS, generated_config, read, write_corpus
from workflow_project import Project, once_per_session

from psibench.tables.ledger import check_balance

PANEL = ["embedded-bm25", "embedded-minilm-cosine"]
LEXICAL = ["embedded-bm25", "flat-bm25"]  # starts faster; the second one is the config's own
FLAT = {"backend": "bm25", "b": 0.0, "calibration": {"midpoint": 0.3, "slope": 10.0}}
BENCHMARKS = ("controlled", "posir")
# The verified benchmark's tables, and all that was dropped on the way; retrieval is not needed.
TARGETS = [f"results/{name}/data/eng-Latn/general/queries.parquet" for name in BENCHMARKS]
LEDGERS = [f"results/{name}/flow.parquet" for name in BENCHMARKS]


def make(folder: Path) -> None:
    write_corpus(folder / "corpus.jsonl", n_documents=8)
    shutil.copytree(PROMPTS, folder / "prompts")
    config = generated_config(BENCHMARKS)
    config["benchmarks"]["controlled"]["personas"]["model"] = "minilm-static"
    config["benchmarks"]["controlled"]["verify"] = {"rerankers": PANEL, "threshold": 0.05}
    config["benchmarks"]["posir"]["verify"] = {"rerankers": LEXICAL}
    config["rerankers"] = {"flat-bm25": FLAT}
    project = Project(folder)
    project.write_config(config)
    project.run(*TARGETS, *LEDGERS)


@pytest.fixture(scope="session")
def verified(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The project after one run. Do not change it: take ``verified_copy``."""
    return Project(once_per_session(tmp_path_factory, "verified", make))


@pytest.fixture
def verified_copy(verified: Project, tmp_path: Path) -> Project:
    copy = tmp_path / "project"
    shutil.copytree(verified.folder, copy, symlinks=True)
    return Project(copy)


def queries(project: Project, benchmark: str) -> pl.DataFrame:
    data = project.folder / "results" / benchmark / "data" / "eng-Latn" / "general"
    return pl.read_parquet(data / "queries.parquet")


@pytest.mark.parametrize(
    ("benchmark", "task", "rule"),
    [
        ("controlled", "generate_positional_query", "margin"),
        ("posir", "locate_span", "span_necessity"),
    ],
)
def test_what_entered_is_kept_or_dropped_and_the_kept_are_the_queries(
    verified: Project, benchmark: str, task: str, rule: str
) -> None:
    flow = read(verified, benchmark, "flow", "flow")
    dropped = read(verified, benchmark, "dropped", "attrition")
    check_balance(dropped, flow)
    assert flow["dropped"].sum() == dropped.height
    assert dropped["doc_id"].null_count() == dropped["length_bin"].null_count() == 0
    candidates = read(verified, benchmark, task, "candidates")
    last = flow.row(-1, named=True)
    assert (last["stage"], last["step"], last["entered"]) == (rule, 10, candidates.height)
    assert last["dropped"] == dropped.filter(stage=rule).height
    kept = queries(verified, benchmark)
    assert kept.height == last["kept"] > 0
    decisions = read(verified, benchmark, "decisions", "decisions")
    assert kept["_id"].to_list() == decisions.filter("kept")["item_id"].to_list()


def test_a_second_run_of_verified_benchmarks_does_nothing(verified: Project) -> None:
    assert verified.planned(*TARGETS, *LEDGERS) == {}


def test_another_threshold_reruns_the_decision_and_scores_nothing(verified_copy: Project) -> None:
    config = verified_copy.read_config()
    config["benchmarks"]["controlled"]["verify"]["threshold"] = 0.1
    verified_copy.write_config(config)
    assert verified_copy.planned(*TARGETS) == {"verify_margin": 1, "assemble": 1}
    before = queries(verified_copy, "controlled")
    store = {p: p.stat().st_mtime_ns for p in (verified_copy.folder / "store").rglob("*.parquet")}
    verified_copy.run(*TARGETS)
    after = queries(verified_copy, "controlled")
    assert after.equals(before.filter(pl.col("margin") >= 0.1))
    assert after.height < before.height
    assert {p: p.stat().st_mtime_ns for p in store} == store


def test_batches_rerun_nothing_and_a_further_reranker_scores_alone(verified_copy: Project) -> None:
    config = verified_copy.read_config()
    config["encoding"] = {"tokens_per_batch": 128}
    verified_copy.write_config(config)
    assert verified_copy.planned(*TARGETS) == {}
    config["benchmarks"]["posir"]["verify"]["rerankers"] = [*LEXICAL, "embedded-minilm-maxsim"]
    verified_copy.write_config(config)
    assert verified_copy.planned(*TARGETS) == {"score_parts": 1, "verify": 1, "assemble": 1}


def test_without_the_section_candidates_become_queries(verified_copy: Project) -> None:
    config = verified_copy.read_config()
    del config["benchmarks"]["posir"]["verify"]
    verified_copy.write_config(config)
    assert verified_copy.planned(TARGETS[1]) == {"assemble": 1}
    verified_copy.run(TARGETS[1])
    candidates = read(verified_copy, "posir", "locate_span", "candidates")
    assert queries(verified_copy, "posir")["_id"].equals(candidates["_id"])
