"""Run PosIR on SLURM while things happen to it, and compare its tables with an undisturbed run.

    python REPOSITORY/tools/slurm_node.py run python faults.py DIR --like UNDISTURBED [--seed 1]

DIR holds a config made by `build.py make`, UNDISTURBED the same made and run without SLURM. While
the workflow runs through profiles/slurm, at random: a running job is cancelled (`scancel`), its
processes are killed (`kill -9`), it is requeued; the node is drained and taken up again; the head
process is killed, its orphans are cancelled, and it is started anew. What happened, and whether all
tables are equal row by row, goes to DIR/faults.json and to the terminal.
"""

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import polars as pl
import yaml

from psibench.tables import read_any_table

REPOSITORY = Path(__file__).parents[2]
TARGETS = ("results/psi_table.csv", "results/bucket_scores.csv", "results/report.html")
FAULTS = {"scancel": 5, "kill -9": 5, "requeue": 3, "drain": 1}
"""What happens to jobs and the node, and how often beside each other."""
PAUSE_S = (15, 45)
DRAINED_S = 30
HEAD_DIES_AFTER_S = (240, 300)


def slurm(*command: str) -> str:
    """Run a SLURM command; ignore a refusal (e.g. because the job has just ended)."""
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout


def running_jobs() -> list[str]:
    """Return the ids of the jobs that run."""
    return slurm("squeue", "--noheader", "--states=RUNNING", "--format=%i").split()


def what_is(job: str) -> str:
    """Return rule and wildcards of a job: its comment."""
    found = re.search(r"Comment=(\S+)", slurm("scontrol", "--oneliner", "show", "job", job))
    return found[1] if found else "?"


def payloads(job: str) -> list[int]:
    """Return the processes of a job that run a stage."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes().split(b"\0")
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if f"SLURM_JOB_ID={job}".encode() in environment and b".stage.py" in command:
            found.append(int(folder.name))
    return found


def strike(kind: str, rng: random.Random) -> str | None:
    """Do one thing to a running job or to the node; None where there is nothing to do it to."""
    if kind == "drain":
        node = slurm("sinfo", "--noheader", "--format=%n").split()[0]
        slurm("scontrol", "update", f"nodename={node}", "state=drain", "reason=rehearsal")
        time.sleep(DRAINED_S)
        slurm("scontrol", "update", f"nodename={node}", "state=resume")
        return f"{DRAINED_S} s"
    jobs = running_jobs()
    if not jobs:
        return None
    job = rng.choice(jobs)
    about = what_is(job)
    if kind == "scancel":
        slurm("scancel", job)
    elif kind == "requeue":
        slurm("scontrol", "requeue", job)
    else:
        found = payloads(job)
        for process in found:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                return None
        if not found:
            return None
    return about


def write_profile(folder: Path) -> Path:
    """Copy the shipped profile for a small node: two looks at the queue in ten seconds."""
    profile = yaml.safe_load((REPOSITORY / "profiles/slurm/config.yaml").read_text())
    profile |= {
        "slurm-init-seconds-before-status-checks": 3,
        "max-threads": 1,
        "jobs": 8,
        "latency-wait": 10,
        "slurm-logdir": str((folder / "logs/slurm").absolute()),
    }
    (folder / "profile").mkdir(exist_ok=True)
    (folder / "profile/config.yaml").write_text(yaml.safe_dump(profile))
    return folder / "profile"


def start(folder: Path) -> subprocess.Popen[bytes]:
    """Start a head."""
    profile = write_profile(folder)
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(REPOSITORY / "Snakefile")]
    command += ["--profile", str(profile.absolute()), "--configfile", "config.yaml", "--", *TARGETS]
    with open(folder / "head.log", "ab") as log:
        return subprocess.Popen(
            command, cwd=folder, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )


def take_up(folder: Path) -> None:
    """Recover from the death of the head as docs/slurm.md describes."""
    subprocess.run(["scancel", "--me"], cwd=folder, check=True)
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(REPOSITORY / "Snakefile")]
    unlock = [*command, "--unlock", "--configfile", "config.yaml", "--", *TARGETS]
    subprocess.run(unlock, cwd=folder, check=True, capture_output=True)


def rehearse(folder: Path, *, seed: int, limit_s: float) -> list[dict[str, object]]:
    """Run to the end through everything; return what happened."""
    rng, begun, log = random.Random(seed), time.monotonic(), []
    head = start(folder)
    dies = begun + rng.uniform(*HEAD_DIES_AFTER_S)
    while True:
        strikes = time.monotonic() + rng.uniform(*PAUSE_S)
        while head.poll() is None and time.monotonic() < strikes:
            time.sleep(0.5)
        if head.poll() is not None:
            break
        if time.monotonic() - begun > limit_s:
            raise TimeoutError(f"not done in {limit_s:.0f} s; see {folder}/head.log")
        moment = time.monotonic() - begun
        if dies is not None and time.monotonic() > dies:
            jobs = running_jobs()
            os.kill(head.pid, signal.SIGKILL)
            head.wait()
            take_up(folder)
            log.append({"at_s": round(moment), "kind": "head killed", "what": len(jobs)})
            print(log[-1], flush=True)
            head, dies = start(folder), None
            continue
        kind = rng.choices(list(FAULTS), list(FAULTS.values()))[0]
        about = strike(kind, rng)
        if about is not None:
            log.append({"at_s": round(moment), "kind": kind, "what": about})
            print(log[-1], flush=True)
    log.append({"at_s": round(time.monotonic() - begun), "kind": "ended", "what": head.returncode})
    return log


def compare(folder: Path, undisturbed: Path) -> dict[str, object]:
    """Compare every table of results/ row by row, except tables of usage and times."""
    differ, n = [], 0
    for path in sorted((undisturbed / "results").rglob("*.parquet")):
        place = path.relative_to(undisturbed)
        if any(part in place.name for part in ("usage", "outcomes")):
            continue  # a request in progress when its job was killed is sent again
        n += 1
        other = folder / place
        if not other.exists():
            differ.append(f"{place}: missing")
        elif not same(read_any_table(path), read_any_table(other)):
            differ.append(str(place))
    csv = TARGETS[0]
    return {
        "tables": n,
        "differ": differ,
        "psi_table.csv": (folder / csv).read_text() == (undisturbed / csv).read_text(),
    }


def same(one: pl.DataFrame, other: pl.DataFrame) -> bool:
    """Say whether two tables have the same rows in the same order."""
    return one.columns == other.columns and one.rows() == other.rows()


def main() -> int:
    """Inject the faults and compare; exit with 1 if a table differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--like", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hours", type=float, default=1.5)
    args = parser.parse_args()
    log = rehearse(args.folder, seed=args.seed, limit_s=args.hours * 3600)
    found = compare(args.folder, args.like) if log[-1]["what"] == 0 else {"differ": ["it failed"]}
    counts = Counter(str(one["kind"]) for one in log)
    told = {"faults": counts, "compared": found, "log": log}
    (args.folder / "faults.json").write_text(json.dumps(told, indent=1))
    print(json.dumps({"faults": counts, "compared": found}, indent=1))
    return 1 if found["differ"] else 0


if __name__ == "__main__":
    sys.exit(main())
