"""The head alone killed with SIGKILL: its job ends with it, and the next run asks only the rest."""

import os
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

from embedding_standin import EmbeddingServer, EmbeddingStandIn
from workflow_project import ENVIRONMENT, Project, tiny_config, write_squad

N_CONTEXTS = 60
N_TEXTS = 3 * N_CONTEXTS
"""Each context has two questions."""
AT_ONCE = 2


def api_project(folder: Path, url: str) -> Project:
    """A project whose only model is a service that is asked for one text a request."""
    write_squad(folder / "squad.json", n_contexts=N_CONTEXTS)
    config = tiny_config()
    config["models"] = ["service"]
    config["registry"] = {
        "service": {
            "backend": "embedding-api",
            "url": url,
            "model": "embed-1",
            "max_tokens": 256,
            "tokenizer": "embedded:all-MiniLM-L6-v2",
            "texts_per_request": 1,
            "concurrency": AT_ONCE,
        }
    }
    project = Project(folder)
    project.write_config(config)
    return project


def test_a_killed_head_takes_its_job_along_and_nothing_is_asked_twice(tmp_path: Path) -> None:
    service = EmbeddingStandIn(delay_s=0.1)
    with EmbeddingServer(service) as server:
        project = api_project(tmp_path, server.url("openai"))
        head = subprocess.Popen(
            project.command("--nolock", "--rerun-incomplete"),
            env=ENVIRONMENT,
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 300
        while service.n_answered < 20:
            assert head.poll() is None, "the run ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.kill(head.pid, signal.SIGKILL)
        head.wait()

        # Refused as long as the job has not ended; then it goes on.
        while (again := project.run("--nolock", "--rerun-incomplete", check=False)).returncode:
            assert "a run whose head is gone" in again.stderr, again.stderr
            assert time.monotonic() < deadline
        texts = Counter(body["input"][0] for _, body, _ in service.asked)
    assert len(texts) == N_TEXTS
    twice = sum(texts.values()) - N_TEXTS
    assert twice <= AT_ONCE, f"{twice} texts were asked twice"
