"""A run killed with SIGKILL during encoding loses at most one stored part."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

from closeness import assert_psi_tables_close
from workflow_project import ENVIRONMENT, Project, save_checkpoint, tiny_config, write_squad

from psibench.tables import read_table
from psibench.tables.schemas import PSI_TABLE

N_CONTEXTS = 80


def slow_project(folder: Path) -> Project:
    """A project whose encoding takes some seconds and stores a part every few texts."""
    folder.mkdir()
    write_squad(folder / "squad.json", n_contexts=N_CONTEXTS, n_words=110)
    save_checkpoint(folder / "checkpoint", hidden=512, layers=8)
    config = tiny_config()
    config["models"] = ["one"]
    config["registry"] = {"one": config["registry"]["one"] | {"max_tokens": 120}}
    config["encoding"] = {"tokens_per_part": 240, "tokens_per_batch": 240, "seconds_per_part": 0}
    project = Project(folder)
    project.write_config(config)
    return project


def kill_while_encoding(project: Project, *, after_parts: int) -> int:
    """Start a run and kill its processes after some parts are stored; return their number."""
    parts = project.folder / "store" / "embeddings"
    process = subprocess.Popen(
        project.command("results/psi_table.csv"),
        env=ENVIRONMENT,
        cwd=project.folder,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 300
    while len(list(parts.rglob("part-*.parquet"))) < after_parts:
        assert process.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return len(list(parts.rglob("part-*.parquet")))


def test_a_killed_run_encodes_only_missing_texts(tmp_path: Path) -> None:
    project = slow_project(tmp_path / "killed")
    stored_parts = kill_while_encoding(project, after_parts=8)
    assert not (project.folder / "results/psi_table.csv").exists()
    stored_texts = 2 * stored_parts  # 240 tokens hold two contexts of 112 words
    assert 0 < stored_texts < N_CONTEXTS

    project.run("--unlock")
    project.run("--rerun-incomplete", "results/psi_table.csv")

    log = (project.folder / "logs/tiny/encode/one/eng-Latn.log").read_text()
    match = re.search(r"encoded (\d+) of (\d+) texts", log)
    assert match is not None
    assert int(match[2]) - int(match[1]) >= stored_texts

    whole = slow_project(tmp_path / "whole")
    whole.run("results/psi_table.csv")
    found, expected = (
        read_table(each.folder / "results/psi_table.parquet", PSI_TABLE)
        for each in (project, whole)
    )
    assert_psi_tables_close(found, expected)
