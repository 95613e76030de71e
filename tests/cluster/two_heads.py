"""A workflow of one job that waits, run by the real snakemake with its head locked."""

import os
import subprocess
import sys
import time
from pathlib import Path

SNAKEFILE = """
from pathlib import Path
from snakemake.exceptions import WorkflowError
from psibench.cluster.head import start_head
from psibench.errors import InputError

onstart:
    try:
        start_head(config["store"], Path.cwd(), executor=config.get("as", "local"))
    except InputError as error:
        raise WorkflowError(str(error))

rule slow:
    output: "made.txt"
    shell: "echo $$ > started.txt; while [ ! -e go.txt ]; do sleep 0.05; done; touch {output}"
"""


class Folder:
    """A working directory with that workflow."""

    def __init__(self, path: Path, *, store: str | Path = "store") -> None:
        path.mkdir(exist_ok=True)
        (path / "Snakefile").write_text(SNAKEFILE)
        self.path, self.store = path, store

    def command(self, *options: str, store: str | Path | None = None) -> list[str]:
        """The command line of a run."""
        snakemake = [sys.executable, "-m", "snakemake", "--cores", "1", *options]
        return [*snakemake, "--config", f"store={store or self.store}"]

    def run(
        self, *options: str, store: str | Path | None = None, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run to the end."""
        return subprocess.run(
            self.command(*options, store=store),
            cwd=self.path,
            env=os.environ | (env or {}),
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    def start(self, *before: str, options: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
        """Start a run, behind another command if one is given; wait for its job."""
        process = subprocess.Popen(
            [*before, *self.command(*options)],
            cwd=self.path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + 600
        while not self.has("started.txt"):
            assert process.poll() is None, "the run ended before its job started"
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return process

    def has(self, name: str) -> bool:
        """Say whether a file is there."""
        return (self.path / name).exists()

    def let_go(self) -> None:
        """Let the job end."""
        (self.path / "go.txt").touch()
