"""The small project on SLURM: head processes, their jobs, and the processes in the jobs."""

import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import yaml
from closeness import assert_psi_tables_close
from slurm_jobs import FINAL, Head, Job, slurm_command, wait_until
from workflow_project import REPOSITORY, Project, write_squad

from psibench.tables import read_table
from psibench.tables.schemas import PSI_TABLE

MODEL = "all-minilm-l6-v2"
ENCODINGS = f"results/tiny/encodings/{MODEL}/eng-Latn.parquet"
TABLE = "results/psi_table.csv"
N_CONTEXTS = 60
N_TEXTS = 3 * N_CONTEXTS  # two questions each
ON_CPU = {"slurm_partition": "cpu", "gpu": 0}  # leaves the only GPU to other tests


def make_project(folder: Path) -> "SlurmProject":
    """Write the small project: BM25 and the embedded MiniLM on generated contexts."""
    write_squad(folder / "squad.json", n_contexts=N_CONTEXTS, n_words=60)
    source = {"kind": "squad", "paths": ["squad.json"]}
    config = {
        "benchmarks": {"tiny": {"recipe": "squad_posq", "source": source, "buckets": ["squad"]}},
        "models": ["bm25", MODEL],
        "length_tokenizer": "words",
        "uncertainty": {"min_bucket_size": 5},
        "encoding": {
            "seconds_per_part": 0,
            "tokens_per_part": 512,
            "tokens_per_batch": 512,
            "dtype": "float32",
        },
    }
    project = SlurmProject(folder)
    project.write_config(config)
    return project


class SlurmProject(Project):
    """A working directory whose jobs run on SLURM with the repository's profile."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.heads: list[Head] = []

    def start(self, *arguments: str, **changes: Any) -> Head:
        """Start a head process for ``arguments``; ``changes`` override the profile."""
        profile = yaml.safe_load((REPOSITORY / "profiles/slurm/config.yaml").read_text())
        profile |= {
            "slurm-init-seconds-before-status-checks": 3,
            "slurm-logdir": str(self.folder / "logs" / "slurm"),
            "slurm-keep-successful-logs": True,
            "max-threads": 2,
        }
        encode = profile["set-resources"]["encode"] | changes.pop("encode", {})
        profile["set-resources"] |= {"encode": encode}
        folder = self.folder / "profile"
        folder.mkdir(exist_ok=True)
        (folder / "config.yaml").write_text(yaml.safe_dump(profile | changes))
        return self.run_head(self.snakemake("--profile", str(folder), *arguments), self.folder)

    def run_head(self, command: list[str], cwd: Path) -> Head:
        """Start a snakemake of this project."""
        self.heads.append(Head(self.folder, command, cwd))
        return self.heads[-1]

    def end_heads(self) -> None:
        """End the heads and jobs that a failed test left running."""
        for head in self.heads:
            if head.process.poll() is None:
                head.kill()
            for job in head.jobs():
                if job.state not in FINAL:
                    slurm_command("scancel", job.number)

    def payload(self) -> int:
        """Wait for the encoding process, which has its log open, and return its id."""
        logs = str(self.folder.resolve() / "logs" / "tiny" / "encode" / MODEL)

        def running() -> int | None:
            for process in psutil.process_iter():
                with suppress(psutil.Error):
                    if any(file.path.startswith(logs) for file in process.open_files()):
                        return process.pid
            return None

        return int(wait_until(running, "a job that encodes"))

    @contextmanager
    def stopped(self, n_parts: int = 0) -> Iterator[int]:
        """Pause the encoding process during the block after ``n_parts`` parts; yields its id."""
        payload = self.payload()
        stored = self.folder / "store" / "embeddings"
        wait_until(
            lambda: len(list(stored.rglob("part-*.parquet"))) >= n_parts,
            f"{n_parts} stored parts",
            every=0.002,  # the whole encoding takes a second or two
        )
        os.kill(payload, signal.SIGSTOP)
        try:
            yield payload
        finally:
            with suppress(ProcessLookupError):
                os.kill(payload, signal.SIGCONT)

    def job_log(self, job: Job) -> str:
        """The output of a SLURM job."""
        return Path(job.facts()["StdOut"]).read_text()

    def resumed(self) -> None:
        """Check that the last encoding job encoded some texts, but not all."""
        log = (self.folder / f"logs/tiny/encode/{MODEL}/eng-Latn.log").read_text()
        n_new, n_texts = map(int, re.findall(r"encoded (\d+) of (\d+) texts", log)[-1])
        assert n_texts == N_TEXTS, log
        assert 0 < n_new < n_texts, log

    def ends_in(self, reference: Path) -> None:
        """Finish the run on this machine, and compare its table with the reference."""
        planned = self.planned(TABLE)
        assert "encode" not in planned, planned
        assert {"search_vectors", "score", "summaries"} <= planned.keys(), planned
        self.run(TABLE)
        see_same_table(self.folder, reference)


def see_same_table(folder: Path, reference: Path) -> None:
    """Compare PSI tables to the printed decimals, because the batches of a resumed job differ."""
    found, expected = (
        read_table((root / TABLE).with_suffix(".parquet"), PSI_TABLE)
        for root in (folder, reference)
    )
    assert_psi_tables_close(found, expected)


def as_users_do(project: SlurmProject, *arguments: str) -> list[str]:
    """The command line of a user in the repository, with another working directory."""
    return [
        *(sys.executable, "-m", "snakemake", "--profile", "slurm"),
        *("--directory", str(project.folder), "--max-threads", str(os.cpu_count())),
        *("--slurm-logdir", str(project.folder / "logs/slurm"), "--slurm-keep-successful-logs"),
        *arguments,
    ]
