"""Jobs with a real vLLM: every task, two jobs at once, kills, and messages of failures."""

import os
import signal
import subprocess

import pytest
from filter_project import JUDGES, make_filter_project
from llm_helpers import items, start_job, stored, wait_for
from tiny_chat import PROGRAMS
from workflow_project import Project

from psibench.errors import InputError
from psibench.generate.ask import run_ask as ask_stage
from psibench.llm.run import ask_all
from psibench.plan.config import load_config, plain_config
from psibench.plan.plan import make_plan
from psibench.tables import read_any_table
from psibench.tables.job import Job

KEY = "PSIBENCH_TEST_KEY"


@pytest.fixture(scope="session")
def project(tmp_path_factory) -> Project:
    """The three recipes and every judge, run with the stand-in."""
    made = make_filter_project(tmp_path_factory.mktemp("project"))
    made.run()
    return made


def served(project: Project, server) -> dict:
    """Return the project's config with the running server as the language model of all tasks."""
    config = project.read_config()
    llm = {
        "backend": "openai",
        "model": server.model,
        "base_url": server.base_url,
        "api_key_env": KEY,
        "sampling": {"temperature": 1.0, "max_output_tokens": 3000},
        "asking": {"concurrency": 8, "timeout_s": 300.0, "max_reasks": 5},
    }
    return config | {"llms": dict.fromkeys(JUDGES, llm)}


def test_replies_to_every_task_fit_their_schemas(project, server, monkeypatch, tmp_path):
    """Uses tables of the stand-in's replies, because replies of random weights would be dropped."""
    monkeypatch.setenv(KEY, server.secret.reveal())
    monkeypatch.chdir(project.folder)
    section, models = load_config(served(project, server))
    plan = make_plan(section, models)
    config = plain_config(section, {"llms": plan.llms})
    asked_tasks = []
    for name, planned in plan.benchmarks.items():
        for task, asked in planned.tasks.items():
            outputs = {table: str(tmp_path / f"{name}.{task}.{table}.parquet")
                       for table in ("outcomes", "usage", "rows", "dropped", "flow")}  # fmt: skip
            job = Job(
                "ask",
                0,
                inputs={**planned.task_tables(task, "eng-Latn", ""), "prompt": asked.path},
                outputs=outputs,
                values={
                    "benchmark": name,
                    "task": task,
                    "lang": "eng-Latn",
                    "domains": planned.asked_about(task, "eng-Latn", ""),
                    "step": planned.flow_step(task),
                    "store": str(tmp_path / "store"),
                },
                config=config,
            )
            ask_stage(job)
            outcomes = read_any_table(outputs["outcomes"])
            assert outcomes.height, (name, task)
            asked_tasks.append(task)
            assert set(outcomes["status"]) == {"ok"}, (name, task)
    assert len(asked_tasks) == 12


def test_killed_engine_ends_the_job_and_keeps_answers(settings, server, tmp_path):
    chosen = settings()
    others = set(processes_of(chosen.model)) | set(engines())
    job = start_job(chosen, tmp_path, 2000)
    job.stdout.readline()
    (engine,) = set(engines()) - others
    os.kill(engine, signal.SIGKILL)
    out, err = job.communicate(timeout=300)
    assert job.returncode == 2, err
    assert "All answers so far are stored" in err
    assert len(stored(tmp_path)) >= 1 + out.count(" ok")
    wait_for(lambda: set(processes_of(chosen.model)) <= others, timeout_s=60)
    assert "EngineDeadError" in err


@pytest.mark.parametrize(
    ("arguments", "changes", "words"),
    [
        (["--kv-cache-memory-bytes", str(900 << 30)], {}, "ValueError: Available memory"),
        (["--max-model-len", "999999"], {}, "999999"),
        ([], {"model": "acme/none"}, "LocalEntryNotFoundError: Cannot find"),
        (["--no-such"], {}, "unrecognized arguments: --no-such"),
    ],
    ids=["no room", "too long a context", "not in the cache", "no argument"],
)
def test_failed_start_names_the_cause(settings, tmp_path, arguments, changes, words):
    with pytest.raises(InputError, match=words) as caught:
        ask_all(items(1), settings(*arguments, **changes), store=tmp_path, on_outcome=print)
    said = str(caught.value)
    assert len(said.splitlines()) <= 16
    (log,) = (tmp_path / "logs").glob("*.log")
    assert str(log) in said


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_release_answers(settings, tmp_path, program):
    chosen, outcomes = settings(program=program), []
    wanted = items(6, model=chosen.model, sampling=chosen.sampling)
    ask_all(wanted, chosen, store=tmp_path / "store", on_outcome=outcomes.append)
    assert [o.status for o in outcomes] == ["ok"] * 6


def processes_of(model: str) -> list[int]:
    """Return the servers of a model."""
    found = subprocess.run(["pgrep", "-f", f"serve {model}"], capture_output=True, text=True)
    return [int(pid) for pid in found.stdout.split()]


def engines() -> list[int]:
    found = subprocess.run(["pgrep", "-f", "VLLM::EngineCore"], capture_output=True, text=True)
    return [int(pid) for pid in found.stdout.split()]
