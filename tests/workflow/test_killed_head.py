"""If only the head is killed with SIGKILL, its job ends too, and the next run requests the rest."""

import os
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import psutil
from embedding_standin import EmbeddingServer, EmbeddingStandIn
from workflow_project import ENVIRONMENT, Project, tiny_config, write_squad

N_CONTEXTS = 20
N_TEXTS = 3 * N_CONTEXTS
"""Each context is a document with two questions."""
AT_ONCE = 2
ARGUMENTS = ("--nolock", "--rerun-incomplete")


def test_a_killed_head_ends_its_job_and_repeats_no_requests(tmp_path: Path) -> None:
    service = EmbeddingStandIn(delay_s=0.1)
    with EmbeddingServer(service) as server:
        write_squad(tmp_path / "squad.json", n_contexts=N_CONTEXTS)
        entry = {
            "backend": "embedding-api",
            "url": server.url("openai"),
            "model": "embed-1",
            "max_tokens": 256,
            "tokenizer": "embedded:all-MiniLM-L6-v2",
            "texts_per_request": 1,
            "concurrency": AT_ONCE,
        }
        project = Project(tmp_path)
        project.write_config(
            tiny_config() | {"models": ["service"], "registry": {"service": entry}}
        )
        with subprocess.Popen(
            project.command(*ARGUMENTS),
            env=ENVIRONMENT,
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as head:
            deadline = time.monotonic() + 300
            while service.n_answered < N_TEXTS / 4:
                assert head.poll() is None, "the run ended before it could be killed"
                assert time.monotonic() < deadline
                time.sleep(0.01)
            jobs = psutil.Process(head.pid).children(recursive=True)
            os.kill(head.pid, signal.SIGKILL)
        _, alive = psutil.wait_procs(jobs, timeout=60)
        assert not alive
        assert len(service.asked) < N_TEXTS, "the job did not stop early"

        project.run(*ARGUMENTS)
        texts = Counter(body["input"][0] for _, body, _ in service.asked)
    assert len(texts) == N_TEXTS
    assert texts.total() - N_TEXTS <= AT_ONCE, "finished requests were repeated"
