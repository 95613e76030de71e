"""A tiny project for the real snakemake: a source, a generated checkpoint, and a config."""

import json
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import yaml
from filelock import FileLock

REPOSITORY = Path(__file__).resolve().parents[2]
ENVIRONMENT = os.environ | {
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
WORDS = [
    f"{a}{b}" for a in ("ba", "do", "fi", "gu", "ke", "lo") for b in ("rin", "sol", "tam", "vex")
]


def write_squad(path: Path, *, n_contexts: int = 30, n_words: int = 60) -> None:
    """Write SQuAD-format data with a question about an early and a late word of each context."""
    paragraphs = []
    for number in range(n_contexts):
        body = " ".join(
            WORDS[(number * 7 + k * (number % 5 + 1)) % len(WORDS)] for k in range(n_words)
        )
        context = f"name{number} {body} tail{number}"
        qas = [
            {
                "id": f"q{number}-{place}",
                "question": f"what is {word}",
                "answers": [{"text": word, "answer_start": context.index(word)}],
            }
            for place, word in (("early", f"name{number}"), ("late", f"tail{number}"))
        ]
        paragraphs.append({"context": context, "qas": qas})
    path.write_text(json.dumps({"version": "test", "data": [{"paragraphs": paragraphs}]}))


def save_checkpoint(folder: Path, *, hidden: int = 32, layers: int = 2) -> None:
    """Save a random BERT and a word-level tokenizer."""
    import torch
    from stored_networks import save_word_tokenizer
    from transformers import BertConfig, BertModel

    names = [f"{kind}{n}" for kind in ("name", "tail") for n in range(400)]
    n_words = save_word_tokenizer(
        folder,
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "what", "is", *WORDS, *names],
        pattern=r"\w+|[^\w\s]+",
        single="[CLS] $A [SEP]",
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
    )
    torch.manual_seed(0)
    size = BertConfig(
        vocab_size=n_words,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=2 * hidden,
        max_position_embeddings=128,
    )
    BertModel(size).save_pretrained(folder)


def settings_for_groups(n_shards: int) -> dict[str, list[str]]:
    """The commented keys of the SLURM profile that put ``n_shards`` shards into one job."""
    text = (REPOSITORY / "profiles/slurm/config.yaml").read_text()
    keys = r"^# ((?:groups|group-components|resources|set-resource-scopes): .*)$"
    found = yaml.safe_load("\n".join(re.findall(keys, text, re.MULTILINE)))
    assert len(found) == 4, found
    return found | {"group-components": [f"shards={n_shards}"]}


def tiny_config() -> dict[str, Any]:
    """Config of the tiny project: one benchmark, three models."""
    encoder = {"backend": "sentence-transformers", "checkpoint": "checkpoint", "max_tokens": 64}
    return {
        "benchmarks": {
            "tiny": {
                "recipe": "squad_posq",
                "source": {"kind": "squad", "paths": ["squad.json"]},
                "buckets": ["squad"],
            }
        },
        "models": ["bm25", "one", "two"],
        "registry": {"one": encoder, "two": encoder | {"max_tokens": 16}},
        "length_tokenizer": "words",
        "uncertainty": {"min_bucket_size": 5},
        "encoding": {"tokens_per_part": 256, "tokens_per_batch": 256},
    }


def once_per_session(
    factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]
) -> Path:
    """Make a folder once for all workers of a parallel test session; return it."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        folder = factory.mktemp(name)
        make(folder)
        return folder
    root = factory.getbasetemp().parent
    folder = root / name
    with FileLock(root / f"{name}.lock"):
        if not (root / f"{name}.made").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            (root / f"{name}.made").touch()
    return folder


RUN_S = 1500
"""Time limit of a run."""

HEADS = multiprocessing.get_context("forkserver")
"""Forks processes that have already imported the common modules of runs and jobs; importing takes
half the time of a dry run and most of a tiny job's."""
IMPORTED_BY_HEADS = ["snakemake.cli", "psibench.plan.jobs", "psibench.plan.summaries"]
IMPORTED_BY_JOBS = [
    "transformers.models.auto.modeling_auto",
    "transformers.models.auto.tokenization_auto",
    "transformers.models.bert.modeling_bert",
]
HEADS.set_forkserver_preload([*IMPORTED_BY_HEADS, *IMPORTED_BY_JOBS])


def snakemake_here(
    arguments: list[str], folder: Path, environment: dict[str, str], output: list[Path]
) -> None:
    """Become a process `snakemake` that was started in a folder.

    ``output`` are the files for stdout and stderr.
    """
    from forked_jobs import fork_jobs
    from snakemake.cli import main

    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for stream, path in zip((1, 2), output, strict=True):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
    sys.argv[1:] = arguments
    fork_jobs()
    main(arguments)


class Project:
    """A working directory with a config; runs snakemake in it."""

    def __init__(self, folder: Path, repository: Path = REPOSITORY) -> None:
        self.folder = folder
        self.repository = repository

    def write_config(self, config: dict[str, Any]) -> None:
        (self.folder / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))

    def read_config(self) -> dict[str, Any]:
        return yaml.safe_load((self.folder / "config.yaml").read_text())

    def snakemake(self, *arguments: str) -> list[str]:
        return [
            *(sys.executable, "-m", "snakemake", "-s", str(self.repository / "Snakefile")),
            *("--directory", str(self.folder), "--configfile", str(self.folder / "config.yaml")),
            *arguments,
        ]

    def command(self, *arguments: str) -> list[str]:
        return self.snakemake("--cores", "2", *arguments)

    def run(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        command = self.command(*arguments)
        environment = ENVIRONMENT | {"PYTHONPATH": str(self.repository / "src")}
        if self.repository == REPOSITORY:
            done = self._fork(command, environment)
        else:  # other modules, so not from the forkserver
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                env=environment,
                cwd=self.folder,
                timeout=RUN_S,
            )
        if check and done.returncode:
            raise AssertionError(done.stdout[-3000:] + done.stderr[-6000:])
        return done

    def _fork(
        self, command: list[str], environment: dict[str, str]
    ) -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryDirectory() as folder:
            output = [Path(folder, name) for name in ("out", "err")]
            arguments = command[command.index("snakemake") + 1 :]
            head = HEADS.Process(
                target=snakemake_here, args=(arguments, self.folder, environment, output)
            )
            # The first head starts the forkserver, which keeps this environment.
            with patch.dict(os.environ, ENVIRONMENT):
                head.start()
            head.join(RUN_S)
            head.kill()
            head.join()
            out, err = (path.read_text() for path in output)
        return subprocess.CompletedProcess(command, head.exitcode, out, err)

    def planned(self, *targets: str) -> dict[str, int]:
        """Rules that a run would execute now, with their numbers of jobs, without targets."""
        return planned_jobs(self.dry_run(*targets))

    def dry_run(self, *targets: str) -> str:
        """The output of a dry run."""
        done = self.run("--dry-run", *targets)
        return done.stdout + done.stderr


def planned_jobs(output: str) -> dict[str, int]:
    """Rules with their numbers of jobs in the output of a dry run, without targets."""
    if "Nothing to be done" in output:
        return {}
    table = output.split("Job stats:")[1].split("total")[0]
    counts = {name: int(n) for name, n in re.findall(r"^(\w+)\s+(\d+)$", table, re.MULTILINE)}
    return {name: n for name, n in counts.items() if name != "all"}
