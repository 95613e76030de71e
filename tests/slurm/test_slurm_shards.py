"""One SLURM job takes several shards in turn, with the settings that the profile shows."""

import os
import re
import signal
from pathlib import Path

from slurm_project import MODEL, N_TEXTS, ON_CPU, SlurmProject
from workflow_project import settings_for_groups

N_SHARDS = 3
SHARDS = [
    f"results/tiny/encodings/{MODEL}/eng-Latn/{number}-of-{N_SHARDS}.parquet"
    for number in range(1, N_SHARDS + 1)
]


def test_shards_of_a_job_run_in_turn_and_resume_together(
    unencoded: SlurmProject, reference: Path
) -> None:
    unencoded.write_config(
        unencoded.read_config() | {"encoding": {**unencoded.read_config()["encoding"], "shards": 3}}
    )
    encode = ON_CPU | {"in_turn": 1, "runtime": "10 * attempt", "mem_mb": 3000}
    head = unencoded.start(*SHARDS, encode=encode, **settings_for_groups(N_SHARDS))
    with unencoded.stopped(n_parts=2) as payload:
        os.kill(payload, signal.SIGKILL)
        head.job(1).wait_for("FAILED")
    head.finish()
    facts = [job.facts() for job in head.jobs()]
    assert [one["JobState"] for one in facts] == ["FAILED", "COMPLETED"]
    # The memory and threads of one shard; the time of three, more at the second attempt.
    assert {(one["MinMemoryNode"], one["CPUs/Task"]) for one in facts} == {("3000M", "2")}
    assert [one["TimeLimit"] for one in facts] == ["00:30:00", "01:00:00"]
    logs = [
        (unencoded.folder / f"logs/tiny/encode/{MODEL}/eng-Latn/{number}-of-3.log").read_text()
        for number in range(1, N_SHARDS + 1)
    ]
    encoded = [map(int, re.findall(r"encoded (\d+) of (\d+) texts", log)[-1]) for log in logs]
    n_new, n_texts = map(sum, zip(*encoded, strict=True))
    assert n_texts == N_TEXTS
    assert 0 < n_new < n_texts, "the job that was killed had stored parts"
    unencoded.ends_in(reference)
