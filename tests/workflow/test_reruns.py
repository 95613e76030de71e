"""Edits that rerun jobs of the workflow, and edits that do not, in real snakemake runs."""

import math
import os
import time
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import polars as pl
import pytest
from workflow_project import Project, planned_jobs, save_checkpoint, tiny_config, write_squad

from psibench.tables import read_provenance, read_table
from psibench.tables.schemas import PSI_TABLE
from psibench.tables.stage import read_stages

MODEL_JOBS = {"encode": 1, "search_vectors": 1, "score": 1}
COLLECTED = {"summaries": 1, "published": 1, "report": 1}


def touch(path: Path) -> None:
    later = time.time() + 5
    os.utime(path, (later, later))


def test_comments_and_touched_files_rerun_nothing(
    own_repository: Callable[[], Project],
) -> None:
    project = own_repository()
    files = project.repository.glob("workflow/*/*.*"), project.repository.glob("src/**/*.py")
    snakefiles = project.repository / "Snakefile", project.repository / "workflow" / "Snakefile"
    for path in (*chain(*files), *snakefiles):
        if path.is_symlink():
            continue
        path.write_text(path.read_text() + "\n# a thought\n")
    for path in project.repository.rglob("*"):
        if not path.is_symlink():
            touch(path)
    assert project.planned() == {}


def test_editing_one_models_entry_reruns_that_model_only(project: Project) -> None:
    config = project.read_config()
    config["registry"]["two"]["max_tokens"] = 20
    project.write_config(config)
    output = project.dry_run()
    assert planned_jobs(output) == MODEL_JOBS | COLLECTED
    assert "encodings/two/" in output
    assert "encodings/one/" not in output
    assert "runs/bm25/" not in output


def test_other_weights_in_a_local_checkpoint_rerun_its_models_only(project: Project) -> None:
    save_checkpoint(project.folder / "checkpoint", hidden=64)
    encoders = dict.fromkeys(MODEL_JOBS, 2) | {"score": 1}  # both encoders use this checkpoint
    output = project.dry_run()
    assert planned_jobs(output) == encoders | COLLECTED
    assert "runs/bm25/" not in output


LONG_AGO_S = 1_546_300_800
"""A date in 2019: `cp -p`, `rsync -a`, `tar` and `git checkout` may set old dates."""


@pytest.mark.parametrize("name", ["squad.json", "checkpoint/model.safetensors"])
def test_a_changed_file_with_an_older_date_reruns_its_readers(project: Project, name: str) -> None:
    path = project.folder / name
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    os.utime(path, (LONG_AGO_S, LONG_AGO_S))
    planned = project.planned()
    readers = {"squad.json": ("data", 1), "checkpoint/model.safetensors": ("encode", 2)}
    rule, n_jobs = readers[name]
    assert planned[rule] == n_jobs


def test_another_local_tokenizer_reruns_token_counts(tmp_path: Path) -> None:
    project = Project(tmp_path)
    write_squad(tmp_path / "squad.json")
    save_checkpoint(tmp_path / "checkpoint")
    named = {"length_tokenizer": "checkpoint/tokenizer.json", "models": ["bm25"], "registry": {}}
    project.write_config(tiny_config() | named)
    corpus = "results/tiny/data/eng-Latn/corpus.parquet"
    project.run(corpus)
    assert project.planned(corpus) == {}
    path = tmp_path / "checkpoint" / "tokenizer.json"
    path.write_text(path.read_text() + " ")
    os.utime(path, (LONG_AGO_S, LONG_AGO_S))
    assert project.planned(corpus)["data"] == 1


def test_a_file_above_the_checksum_limit_counts_by_content(project: Project) -> None:
    touch(project.folder / "squad.json")
    assert project.planned("--max-checksum-file-size", "1kB") == {}


def test_a_dry_run_of_a_new_config_hashes_no_source(tmp_path: Path) -> None:
    project = Project(tmp_path)
    # Files that are old enough for their hashes to be recorded.
    source = {"kind": "files", "paths": [str(project.repository / "docs")]}
    own = {"recipe": "known_item", "source": source}
    project.write_config(tiny_config() | {"benchmarks": {"own": own}, "models": ["bm25"]})
    assert project.planned()["data"] == 1
    assert not (tmp_path / "store" / "inputs.json").exists()


def test_replaced_run_files_change_the_table(project: Project) -> None:
    config = project.read_config()
    config["models"] = ["bm25", "mine"]
    config["registry"] = {"mine": {"backend": "runs", "path": "mine.run"}}
    project.write_config(config)
    qrels = pl.read_parquet(project.folder / "results/tiny/data/eng-Latn/qrels.parquet")
    pairs = qrels.select("query-id", "corpus-id").rows()
    means = []
    for above in ([], ["p00028", "p00029"]):
        ranking = project.folder / "mine.run"
        ranking.write_text(
            "".join(
                f"{query} Q0 {document} 0 {score} mine\n"
                for query, positive in pairs
                for document, score in {**dict.fromkeys(above, 3), positive: 2}.items()
            )
        )
        os.utime(ranking, (LONG_AGO_S, LONG_AGO_S))
        project.run("results/psi_table.csv")
        table = read_table(project.folder / "results/psi_table.parquet", PSI_TABLE)
        means.append(table.filter(pl.col("model") == "mine").get_column("mean")[0])
    # Each of 30 documents has two queries. Two documents are ranked above all others, which become
    # third; for their own queries, these two are second.
    assert means == pytest.approx([1, (56 / math.log2(4) + 4 / math.log2(3)) / 60], abs=1e-9)


def test_the_psi_table_records_its_provenance(finished: Project) -> None:
    results = finished.folder / "results"
    record = read_provenance(results / "psi_table.parquet")
    assert record["queries_by"] == "people"
    assert set(record["revisions"]) == {"model:bm25", "model:one", "model:two"}
    part = read_provenance(next((results / "tiny/tables").glob("*.psi.parquet")))
    assert part["params"]["uncertainty"]["min_bucket_size"] == 5


def test_cutting_the_work_differently_reruns_nothing(project: Project) -> None:
    config = project.read_config()
    config["encoding"]["tokens_per_part"] = 512
    config["search"] = {"block_mib": 64}
    project.write_config(config)
    assert project.planned() == {}


def test_an_edited_source_encodes_only_new_texts(
    project: Project,
) -> None:
    source = project.folder / "squad.json"
    source.write_text(source.read_text().replace("name3 ", "name3 what "))
    assert project.planned()["data"] == 1
    # An edited text would move its answers, so the file is written again with one more context.
    write_squad(source, n_contexts=31)
    project.run("results/psi_table.csv")
    log = (project.folder / "logs/tiny/encode/one/eng-Latn.log").read_text()
    assert "encoded 3 of 93 texts" in log  # one new context and its two queries


def test_a_higher_stage_version_reruns_the_stage_and_later_ones(
    own_repository: Callable[[], Project],
) -> None:
    project, stage = own_repository(), "score"
    version = read_stages()[stage]
    module = project.repository / "src" / Path(*version.module.split(".")).with_suffix(".py")
    text = module.read_text()
    raised = text.replace(f'@stage("{stage}", version={version}', f'@stage("{stage}", version=99')
    assert raised != text
    module.write_text(raised)
    assert project.planned() == {"score": 1} | COLLECTED
