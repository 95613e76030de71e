"""The GitHub action: its step, run like on a runner."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from psibench.cli import build_parser
from psibench.commands.score_example import EXAMPLE_FOLDER

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.processes


@pytest.fixture
def act(tmp_path):
    """Run the action's last step with arguments; return exit code and job summary."""
    (step,) = [
        one
        for one in yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
        if one.get("name") == "run"
    ]
    summary = tmp_path / "summary.md"

    def run(arguments):
        here = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PSIBENCH_ARGUMENTS": arguments,
            "GITHUB_STEP_SUMMARY": str(summary),
            "RUNNER_TEMP": str(tmp_path / "runner"),
        }
        (tmp_path / "runner").mkdir(exist_ok=True)
        done = subprocess.run(
            ["bash", "-e", "-c", step["run"]],
            cwd=tmp_path,
            env=os.environ | here,
            check=False,
            capture_output=True,
            text=True,
        )
        assert list((tmp_path / "runner").iterdir()) == []
        (tmp_path / "printed").write_text(done.stdout)
        return done.returncode, summary.read_text()

    return run


def compare(first, second, loss):
    runs, judged = (
        EXAMPLE_FOLDER / "runs",
        [EXAMPLE_FOLDER / f"{name}.parquet" for name in ("queries", "qrels")],
    )
    files = [str(runs / f"{name}.parquet") for name in (first, second)]
    options = ["--queries", str(judged[0]), "--qrels", str(judged[1]), "--fail-if-worse", loss]
    return shlex.join(["compare", *files]) + "\n" + shlex.join(options)


def test_a_worse_run_fails_the_build_and_its_table_is_the_summary(act):
    code, said = act(compare("all-minilm-l6-v2", "bm25", "0.02"))
    assert code == 1
    assert said.startswith("### psibench: fails (exit code 1)\n")
    assert "all-minilm-l6-v2 fails --fail-if-worse 0.02 in ndcg@10: mean −0.258" in said
    (row,) = (line for line in said.splitlines() if line.startswith("thirds: end"))
    assert row.endswith("fails")


def test_a_gate_that_cannot_tell_fails_the_build_unless_told_otherwise(act):
    gate = compare("minilm-static", "minilm-static", "0.02").replace("--fail-if-worse", "--within")
    code, said = act(gate)
    assert code == 3
    assert said.startswith("### psibench: cannot tell (exit code 3)\n")
    code, said = act(f"{gate} --if-unclear pass")
    assert code == 0
    assert said.split("\n### ")[-1].startswith("psibench: passes\n")


def test_bad_input_is_told_apart_and_nothing_of_it_is_run(act, tmp_path):
    code, said = act("compare 'a $(touch owned)' `touch owned` ; touch owned")
    assert code == 2
    assert "psibench" in said
    assert not (tmp_path / "owned").exists()


def test_an_unclosed_quote_is_bad_input_not_a_worse_run(act):
    code, said = act("compare 'new.trec old.trec")
    assert code == 2
    assert "close every quote" in said


@pytest.mark.parametrize("name", ["shlex", "psibench", "runpy", "secrets", "polars", "yaml"])
def test_no_module_of_the_checkout_is_imported(act, tmp_path, name):
    (tmp_path / f"{name}.py").write_text("open('owned', 'w').close()\n")
    code, _ = act("show nothing.parquet")
    assert code == 2
    assert not (tmp_path / "owned").exists()


def test_every_python_of_the_action_is_isolated():
    steps = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    called = re.findall(r"\bpython3?\b(.{3})", "".join(one.get("run", "") for one in steps))
    assert called
    assert set(called) == {" -I"}


def test_a_link_in_the_checkout_is_not_written_through(act, tmp_path):
    (tmp_path / "kept.txt").write_text("mine")
    (tmp_path / "psibench.txt").symlink_to(tmp_path / "kept.txt")
    act("show nothing.parquet")
    assert (tmp_path / "kept.txt").read_text() == "mine"


def test_printed_texts_are_no_commands_to_the_runner_and_no_markup(act, tmp_path):
    code, said = act("show '::error::x\n::add-mask::y' '</pre><b>'")
    assert code == 2
    begin, *_, end = (tmp_path / "printed").read_text().splitlines()
    token = begin.removeprefix("::stop-commands::")
    assert len(token) == 32
    assert end == f"::{token}::"
    assert "<b>" not in said


def test_the_example_calls_what_the_action_takes():
    known = yaml.safe_load((ROOT / "action.yml").read_text())["inputs"]
    jobs = yaml.safe_load((ROOT / "examples/ci/retrieval.yaml").read_text())["jobs"]
    steps = [step for job in jobs.values() for step in job["steps"]]
    called = [step["with"] for step in steps if "psibench/" in step.get("uses", "")]
    assert called
    assert all(set(given) <= set(known) for given in called)
    for words in (shlex.split(given["arguments"]) for given in called):
        assert build_parser(words[0]).parse_args(words).command == words[0]
