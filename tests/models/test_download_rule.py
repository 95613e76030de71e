"""Snakemake downloads a checkpoint where it runs; jobs find it without network."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from fake_hub import FakeHub, running

pytestmark = pytest.mark.processes

REPOSITORY = Path(__file__).resolve().parents[2]
SNAKEFILE = """
import os
from pathlib import Path

from psibench.tables.stage import read_stages

os.environ["PSIBENCH_CHECKPOINTS"] = str(Path("store/checkpoints").resolve())

rule use:
    input: "store/checkpoints/owner--tiny@main.json"
    output: "loaded.txt"
    log: "logs/use.log"
    shell: "HF_ENDPOINT=http://127.0.0.1:9 {{config[python]}} load.py > {{output}} 2> {{log}}"

rule download:
    output: manifest="store/checkpoints/{{checkpoint}}.json"
    log: "logs/download/{{checkpoint}}.log"
    params:
        repo="owner/tiny",
        revision=None,
        part="model",
        code_revision=None,
        code=False,
        stage=read_stages()["download"],
    localrule: True
    script: "{scripts}/stage.py"
"""
LOAD = """
from pathlib import Path
from psibench.models.checkpoints import checkpoint_identity, resolve_checkpoint, run_offline
run_offline()
print(checkpoint_identity("owner/tiny", None))
print(*sorted(path.name for path in Path(resolve_checkpoint("owner/tiny")).iterdir()))
"""


def run(folder: Path, hub: FakeHub, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "snakemake", "--cores", "1", *options]
    return subprocess.run(
        [*command, "--config", f"python={sys.executable}"],
        cwd=folder,
        env=hub.env(folder / "hf"),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_a_job_finds_what_the_head_downloaded(tmp_path):
    scripts = REPOSITORY / "workflow" / "scripts"
    (tmp_path / "Snakefile").write_text(SNAKEFILE.format(scripts=scripts))
    (tmp_path / "load.py").write_text(LOAD)
    files = {"config.json": b"{}", "model.safetensors": b"12345"}
    with running(FakeHub()) as hub:
        commit = hub.push("owner/tiny", "one", files)
        done = run(tmp_path, hub)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "loaded.txt").read_text() == (
        f"owner/tiny@{commit}\nconfig.json model.safetensors\n"
    )
    manifest = tmp_path / "store" / "checkpoints" / "owner--tiny@main.json"
    assert json.loads(manifest.read_text())["commit"] == commit
    assert "Nothing to be done" in run(tmp_path, hub).stderr


def test_a_download_that_fails_says_why_once(tmp_path):
    scripts = REPOSITORY / "workflow" / "scripts"
    (tmp_path / "Snakefile").write_text(SNAKEFILE.format(scripts=scripts))
    hub = FakeHub(port=9)  # the port of discard: nobody listens
    done = run(tmp_path, hub)
    assert done.returncode == 1
    assert "psibench: error: checkpoint 'owner/tiny', revision 'main': the hub is out of reach" in (
        done.stderr
    )
    assert not (tmp_path / "loaded.txt").exists()
