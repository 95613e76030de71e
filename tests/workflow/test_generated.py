"""The recipes that ask a language model, run with the real snakemake and the stand-in."""

import shutil
import time
from pathlib import Path

import polars as pl
import pytest
from generated_project import asked, make_generated_project, read, write_corpus
from workflow_project import Project, once_per_session

from psibench.tables import read_provenance, read_table
from psibench.tables.ledger import check_balance
from psibench.tables.schemas import PSI_TABLE


@pytest.fixture(scope="session")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The project after one complete run. Do not change it: take ``generated_copy``."""
    folder = once_per_session(
        tmp_path_factory, "generated", lambda folder: make_generated_project(folder).run()
    )
    return Project(folder)


@pytest.fixture
def generated_copy(generated: Project, tmp_path: Path) -> Project:
    copy = tmp_path / "project"
    shutil.copytree(generated.folder, copy, symlinks=True)
    return Project(copy)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def data(benchmark: str) -> str:
    """Return the target that makes a benchmark's tables."""
    return f"results/{benchmark}/data/eng-Latn/general/queries.parquet"


def rerun(project: Project, *targets: str) -> dict[str, int]:
    """Run again; return the requests asked, by task."""
    started = time.time()
    project.run(*targets)
    return asked(project, since=started)


@pytest.mark.parametrize("benchmark", ["fineweb-posq", "posir", "controlled"])
def test_every_item_dropped_is_counted_and_every_query_has_its_evidence(
    generated: Project, benchmark: str
) -> None:
    flow = read(generated, benchmark, "flow", "flow")
    dropped = read(generated, benchmark, "dropped", "attrition")
    check_balance(dropped, flow)
    assert flow["dropped"].sum() == dropped.height
    assert dropped["doc_id"].null_count() == dropped["length_bin"].null_count() == 0
    data = generated.folder / "results" / benchmark / "data" / "eng-Latn" / "general"
    queries, corpus = (pl.read_parquet(data / f"{name}.parquet") for name in ("queries", "corpus"))
    assert queries.height == flow["kept"][-1] > 0
    texts = dict(corpus.select("_id", "text").iter_rows())
    for doc_id, span, answer in queries.select(
        "pos_corpus_id", "pos_char_span", "answer"
    ).iter_rows():
        assert answer in texts[doc_id][span[0] : span[1]]


def test_tables_and_page_say_that_a_stand_in_wrote_the_queries(generated: Project) -> None:
    results = generated.folder / "results"
    table = read_table(results / "psi_table.parquet", PSI_TABLE)
    assert set(table["queries_by"]) == {"llm:stand-in/rules"}
    assert "llm:stand-in/rules" in (results / "psi_table.csv").read_text().splitlines()[1]
    for path in results.rglob("*.parquet"):
        record = read_provenance(path) or {}
        if record["stage"] not in ("sample", "personas"):
            assert record["llm_backend"] == "stand-in", path
    assert "a rule-based program in a language model" in (results / "report.html").read_text()


def test_a_comment_in_a_prompt_reruns_nothing(generated_copy: Project) -> None:
    for path in (generated_copy.folder / "prompts").glob("*.md"):
        path.write_text(path.read_text().replace("---\n", "---\n# a thought\n", 1))
    assert generated_copy.planned() == {}


def test_one_sentence_of_a_prompt_reruns_its_stage_and_asks_its_requests_alone(
    generated_copy: Project,
) -> None:
    prompt = generated_copy.folder / "prompts" / "generate_questions.md"
    edit(prompt, "Name the things you ask about.", "Name the things that you ask about.")
    n_chunks = read(generated_copy, "fineweb-posq", "flow", "flow").filter(unit="chunks")["entered"]
    assert generated_copy.planned(data("fineweb-posq")) == {"ask": 1, "assemble": 1}
    assert generated_copy.planned(data("posir"), data("controlled")) == {}
    assert rerun(generated_copy, data("fineweb-posq")) == {"generate_questions": n_chunks[0]}


def test_new_documents_are_asked_about_alone(generated_copy: Project) -> None:
    write_corpus(generated_copy.folder / "corpus.jsonl", n_documents=15)
    counts = rerun(generated_copy, data("controlled"))
    assert counts == {"choose_configuration": 3, "generate_positional_query": 9}


def test_how_a_model_is_asked_is_no_reason_to_rerun(generated_copy: Project) -> None:
    config = generated_copy.read_config()
    config["llms"] = {
        "stand-in": {
            "backend": "stand-in",
            "model": "stand-in/rules",
            "sampling": {"seed": 42},
            "asking": {"concurrency": 2, "timeout_s": 7.0},
        }
    }
    config["prices"] = {"stand-in/rules": {"input_usd": 1, "output_usd": 1, "as_of": "2026-01-01"}}
    generated_copy.write_config(config)
    assert generated_copy.planned() == {}
    config["llms"]["stand-in"]["sampling"]["seed"] = 7
    generated_copy.write_config(config)
    assert generated_copy.planned()["ask"] == 6
