"""Parts of the tests' SLURM: packages, the machine's resources, munge, processes."""

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from slurm_files import NodeShape

PACKAGES = ("slurm-wlm", "munge")
PROGRAMS = ("munged", "slurmctld", "slurmd", "sinfo", "sbatch")


class NodeError(Exception):
    """SLURM cannot run here; the message has the reason and the remedy."""


def install_packages() -> None:
    """Install SLURM and munge with apt if a program is missing; NodeError if that fails."""
    if all(shutil.which(name) for name in PROGRAMS):
        return
    apt = shutil.which("apt-get")
    if not apt:
        raise NodeError(f"SLURM is not installed, and there is no apt-get to install {PACKAGES}")
    install = [apt, "install", "-y", "-qq", "--no-install-recommends", *PACKAGES]
    for command in ([apt, "update", "-qq"], install):
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise NodeError(f"`{' '.join(install)}` failed: {done.stderr.strip()[-500:]}")


def shape_of_machine() -> NodeShape:
    """Return the machine's memory and four times its CPUs."""
    mib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    cpus = 4 * (os.cpu_count() or 1)
    ports = free_ports(2)
    return NodeShape(socket.gethostname().split(".")[0], cpus, mib * 9 // 10, *ports)


def free_ports(n: int) -> list[int]:
    """Return ``n`` free TCP ports."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [opened.getsockname()[1] for opened in sockets]
    for opened in sockets:
        opened.close()
    return ports


def start_munge(folder: Path) -> None:
    """Start a separate munge as the user munge, because munge must own its key."""
    user = pwd.getpwnam("munge")
    folder.mkdir(mode=0o755)
    key = folder / "key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(128))
    for path in (folder, key):
        os.chown(path, user.pw_uid, user.pw_gid)
    names = {"key": "key-file", "socket": "socket", "munged.pid": "pid-file"}
    names |= {"munged.log": "log-file", "seed": "seed-file"}
    options = [f"--{option}={folder / name}" for name, option in names.items()]
    run(["munged", *options], user="munge", group="munge", extra_groups=[])


def run(command: list[str], **options: Any) -> str:
    """Run a command and return its output; NodeError with its output if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, **options)
    if done.returncode:
        said = (done.stderr or done.stdout).strip()[-800:]
        raise NodeError(f"`{command[0]}` ended with {done.returncode}: {said}")
    return done.stdout


def end_daemon(pid_file: Path) -> None:
    """End the daemon whose process id is in ``pid_file`` and wait for it."""
    try:
        pid = int(pid_file.read_text())
        os.kill(pid, signal.SIGTERM)
    except (FileNotFoundError, ValueError, ProcessLookupError):
        return
    for _ in range(100):
        if not is_running(pid):
            return
        time.sleep(0.1)
    os.kill(pid, signal.SIGKILL)


def is_running(pid: int) -> bool:
    """Return whether a process is running; a zombie is not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"
