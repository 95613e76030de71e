"""A real SLURM with one node on this machine, for tests; needs Debian and root.

    python tools/slurm_node.py start     # prints the variable for SLURM's commands
    python tools/slurm_node.py status
    python tools/slurm_node.py stop      # ends daemons and jobs, removes the folder
    python tools/slurm_node.py run COMMAND...   # starts SLURM, runs COMMAND, stops SLURM again

``run`` uses a SLURM that is already running, and does not stop it. The daemons listen on free ports
and use a separate munge. Everything is in one folder, except the link /etc/slurm/slurm.conf:
Snakemake's job steps drop SLURM_CONF from the environment, so `srun` reads that file. If the
machine already has such a file, the tool exits with code 2 and a message, as for every reason why
SLURM cannot run.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from slurm_files import write_files
from slurm_parts import (
    NodeError,
    end_daemon,
    install_packages,
    run,
    shape_of_machine,
    start_munge,
)

FOLDER = Path(tempfile.gettempdir()) / "psibench-slurm"
SYSTEM_CONF = Path("/etc/slurm/slurm.conf")
DAEMONS = ("slurmd", "slurmctld", "munge/munged")  # in the order of stopping
START_SECONDS = 60


@contextmanager
def slurm_node(folder: Path = FOLDER) -> Iterator[dict[str, str]]:
    """Start SLURM, yield the environment variables for its commands, and stop it at the end.

    Does not stop a SLURM that was already running.

    Raises
    ------
    NodeError
        If this is not Linux with apt, the user is not root, packages are missing, or a daemon does
        not start.
    """
    found = answers({"SLURM_CONF": str(folder / "slurm.conf")})
    environment = start(folder)
    try:
        yield environment
    finally:
        if not found:
            stop(folder)


def start(folder: Path = FOLDER) -> dict[str, str]:
    """Start SLURM in ``folder`` unless it is running; wait until its node is idle.

    Returns
    -------
    dict
        The environment variables to add for its commands.
    """
    if os.geteuid() != 0:
        raise NodeError("the tests' SLURM needs root, because its daemons start jobs as any user")
    install_packages()
    environment = {"SLURM_CONF": str(folder / "slurm.conf")}
    if not answers(environment):
        stop(folder)
        if os.path.lexists(SYSTEM_CONF):
            raise NodeError(
                f"this machine already has a SLURM: this tool did not make {SYSTEM_CONF}"
            )
        folder.mkdir(mode=0o755, parents=True)
        write_files(folder, shape_of_machine())
        start_munge(folder / "munge")
        for name in ("slurmctld", "slurmd"):
            run([name, "-f", str(folder / "slurm.conf")])
        SYSTEM_CONF.parent.mkdir(exist_ok=True)
        SYSTEM_CONF.symlink_to(folder / "slurm.conf")
    wait_for_node(folder, environment)
    return environment


def stop(folder: Path = FOLDER) -> None:
    """End all jobs and daemons of ``folder`` and remove it, if it exists."""
    if not folder.exists():
        return
    environment = {"SLURM_CONF": str(folder / "slurm.conf")}
    if answers(environment):
        call: dict[str, Any] = {
            "env": os.environ | environment,
            "capture_output": True,
            "timeout": 60,
        }
        subprocess.run(["scancel", "--user", "root"], check=False, **call)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if not subprocess.run(["squeue", "--noheader"], check=False, **call).stdout.strip():
                break
            time.sleep(0.5)
    for name in DAEMONS:
        end_daemon(folder / f"{name}.pid")
    if SYSTEM_CONF.is_symlink() and SYSTEM_CONF.readlink() == folder / "slurm.conf":
        SYSTEM_CONF.unlink()
    shutil.rmtree(folder)


def answers(environment: dict[str, str]) -> bool:
    """Return whether a controller answers."""
    if not Path(environment["SLURM_CONF"]).exists():
        return False
    ping = ["scontrol", "ping"]
    done = subprocess.run(ping, capture_output=True, text=True, env=os.environ | environment)
    return " is UP" in done.stdout


def wait_for_node(folder: Path, environment: dict[str, str]) -> None:
    """Wait until the node takes jobs; NodeError with the ends of the logs if it does not."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        shown = ["sinfo", "--noheader", "--format=%T"]
        done = subprocess.run(shown, capture_output=True, text=True, env=os.environ | environment)
        if set(done.stdout.split()) & {"idle", "mixed", "allocated"}:
            return
        time.sleep(0.5)
    logs = [(folder / f"{name}.log") for name in ("slurmctld", "slurmd")]
    said = "\n".join(path.read_text()[-1000:] for path in logs if path.exists())
    raise NodeError(f"SLURM's node did not start within {START_SECONDS} s:\n{said}")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, default=FOLDER)
    actions = parser.add_subparsers(dest="action", required=True)
    for name in ("start", "status", "stop"):
        actions.add_parser(name)
    actions.add_parser("run").add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args(arguments)
    try:
        return act(given)
    except NodeError as error:
        print(f"slurm_node: error: {error}", file=sys.stderr)
        return 2


def act(given: argparse.Namespace) -> int:
    """Run the selected action; returns the exit code."""
    if given.action == "start":
        print(f"export SLURM_CONF={start(given.folder)['SLURM_CONF']}")
    elif given.action == "stop":
        stop(given.folder)
    elif given.action == "run":
        with slurm_node(given.folder) as environment:
            return subprocess.run(given.command, env=os.environ | environment).returncode
    else:
        environment = {"SLURM_CONF": str(given.folder / "slurm.conf")}
        up = answers(environment)
        print(run(["sinfo"], env=os.environ | environment) if up else "not running")
    return 0


if __name__ == "__main__":
    sys.exit(main())
