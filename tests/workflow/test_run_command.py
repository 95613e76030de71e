"""`psibench run`, the workflow as a module of another one, and Snakemake's report."""

import logging
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from workflow_project import ENVIRONMENT, REPOSITORY, Project, tiny_config, write_squad

from psibench.cli import main

OUTER = """
from psibench.config.paths import SNAKEFILE


module psibench:
    snakefile: str(SNAKEFILE)
    config: config["psibench"]
    {more}


use rule * from psibench as psibench_*


onstart:
    psibench.check_start()


rule mine:
    input: "results/psi_table.csv"
    output: "mine.csv"
    shell: "cp {{input}} {{output}}"
"""


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *command],
        capture_output=True,
        text=True,
        cwd=folder,
        env=ENVIRONMENT | {"PYTHONPATH": str(REPOSITORY / "src")},
    )


def test_an_up_to_date_run_prints_the_table(project: Project) -> None:
    done = run(project.folder, "psibench.cli", "run", "--cores", "1", "config.yaml")
    assert done.returncode == 0, done.stderr
    assert "Nothing to be done" in done.stdout + done.stderr
    assert re.search(r"(?m)^tiny: ndcg@10 by ", done.stdout)
    files = (
        "results/psi_table.csv results/bucket_scores.csv results/report.html results/published.html"
    )
    assert done.stdout.endswith(f"Written: {files}\n")


def test_only_force_replaces_tables_of_another_config(project: Project) -> None:
    table, other = project.folder / "results/psi_table.csv", project.folder / "other.yaml"
    (benchmark,) = project.read_config()["benchmarks"].values()
    config = tiny_config() | {"benchmarks": {"other": benchmark}, "models": ["bm25"]}
    other.write_text(yaml.safe_dump(config))
    before, command = table.read_text(), ("psibench.cli", "run", "--cores", "1", "other.yaml")
    refused = run(project.folder, *command)
    assert refused.returncode == 2, refused.stderr
    last = refused.stderr.strip().splitlines()[-1]
    assert last.startswith(
        "psibench run: tables of another config: results/psi_table.parquet was made by"
    )
    assert table.read_text() == before
    plain = project.snakemake("--cores", "1")
    plain[plain.index("--configfile") + 1] = str(other)
    assert "tables of another config" in run(project.folder, *plain[2:]).stderr
    forced = run(project.folder, *command[:2], "--force", *command[2:])
    assert forced.returncode == 0, forced.stderr
    assert table.read_text() != before


def test_tables_are_refused_if_an_edited_config_would_not_remake_them(project: Project) -> None:
    command = ("psibench.cli", "run", "--cores", "1", "config.yaml")
    options = run(project.folder, *command, "--", "--rerun-triggers", "mtime")
    assert (options.returncode, "Written:" in options.stdout) == (2, False)
    assert "an edited config would keep the tables" in options.stderr
    shutil.rmtree(project.folder / ".snakemake/metadata")
    refused = run(project.folder, *command)
    assert (refused.returncode, "Written:" in refused.stdout) == (2, False)
    last = refused.stderr.strip().splitlines()[-1]
    assert last.startswith("psibench run: tables without records: results/")


def test_a_partial_run_prints_no_table(project: Project) -> None:
    until = ("--", "--until", "data")
    done = run(project.folder, "psibench.cli", "run", "--cores", "1", "config.yaml", *until)
    assert done.returncode == 0, done.stderr
    assert "Written:" not in done.stdout


def test_snakemakes_report_contains_the_psi_table_and_the_page(project: Project) -> None:
    done = project.run("--report", "report.zip")
    assert done.returncode == 0
    names = {Path(name).name for name in zipfile.ZipFile(project.folder / "report.zip").namelist()}
    assert {"psi_table.csv", "bucket_scores.csv", "report.html"} <= names


def outer_workflow(folder: Path, more: str = "") -> None:
    (folder / "Snakefile").write_text(OUTER.format(more=more))
    (folder / "outer.yaml").write_text(yaml.safe_dump({"psibench": tiny_config()}))
    write_squad(folder / "squad.json", n_contexts=2)


def test_another_workflow_can_import_the_workflow_as_a_module(tmp_path: Path) -> None:
    outer_workflow(tmp_path)
    snakemake = ("snakemake", "--configfile", "outer.yaml", "--cores", "1")
    planned = run(tmp_path, *snakemake, "--dry-run", "mine.csv")
    output = planned.stdout + planned.stderr
    assert planned.returncode == 0, output
    for job in ("mine", "psibench_data", "psibench_score", "psibench_summaries"):
        assert re.search(rf"(?m)^{job} +1$", output), job
    corpus = "results/tiny/data/eng-Latn/corpus.parquet"
    done = run(tmp_path, *snakemake, corpus)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / corpus).exists()
    assert (tmp_path / "store" / "head.lock").exists(), "one run at a time"


def test_a_prefix_of_a_module_is_refused_with_the_reason(tmp_path: Path) -> None:
    outer_workflow(tmp_path, more='prefix: "inner"')
    done = run(tmp_path, "snakemake", "--configfile", "outer.yaml", "--dry-run", "mine.csv")
    assert done.returncode == 1
    assert "psibench as a module takes no `prefix`" in done.stdout + done.stderr


def test_bad_input_ends_with_code_2_and_its_message_last(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    source = {"kind": "files", "paths": ["texts"]}
    config = {"benchmarks": {"own": {"recipe": "known_item", "source": source}}, "models": ["bm25"]}
    (tmp_path / "my.yaml").write_text(yaml.safe_dump(config))
    missing = run(tmp_path, "psibench.cli", "run", "my.yaml")
    assert missing.returncode == 2
    assert "texts: no document in this folder" in missing.stderr
    assert "paths in a config are relative to the folder that psibench runs in" in missing.stderr
    (tmp_path / "texts" / "a.txt").write_text("too short")
    failed = run(tmp_path, "psibench.cli", "run", "--cores", "1", "my.yaml")
    assert failed.returncode == 2, failed.stderr
    last = failed.stderr.strip().splitlines()[-1]
    assert last.startswith("psibench run: no known-item query from 1 documents;")
    log = "logs/own/data/eng-Latn.log"
    assert last.endswith(f"(log: {log})")
    assert "Traceback" not in (tmp_path / log).read_text()
    assert not list((tmp_path / "results").rglob("*.parquet"))
    refused = run(tmp_path, "psibench.cli", "run", "--cores", "1", "results/psi_table.csv", "texts")
    assert refused.returncode == 2
    last = refused.stderr.strip().splitlines()[-1]
    assert last.startswith("psibench run: texts: neither a config nor a target. A config ends in")
    profile = run(tmp_path, "psibench.cli", "run", "--profile", "nope")
    assert profile.returncode == 2
    assert "--profile nope: no such folder with a config.yaml" in profile.stderr


@pytest.mark.parametrize("is_of_this_run", [True, False])
def test_bad_input_of_slurm_jobs_is_read_from_logs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    is_of_this_run: bool,
) -> None:
    log, around = tmp_path / "own.log", tmp_path / "slurm.log"
    around.write_text("srun: error: node1: task 0: Exited with exit code 1\n")

    def snakemake(arguments: list[str], failed: logging.Handler) -> int:
        logs = [str(log), str(around)]  # the job's, then the executor's
        log.write_text("2026-11-27 21:11:01,592 ERROR bad.jsonl, line 3: no text\n")
        written = time.time() + 1 if is_of_this_run else 0  # 0: SLURM rejected the job
        os.utime(log, (written, written))
        failed.handle(logging.makeLogRecord({"msg": "Error in rule build:", "log": logs}))
        return 1

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("psibench.commands.run.run_snakemake", snakemake)
    with suppress(SystemExit):  # with Snakemake's own code
        assert main(["run", "--profile", "slurm"]) == 2
    message = f"psibench run: bad.jsonl, line 3: no text (log: {log})\n"
    assert (message in capsys.readouterr().err) == is_of_this_run
