"""Rehearse a run of thousands of SLURM jobs: planning, the head's memory, calls to the controller.

    python rehearse.py DIR --jobs 10000 --plan                       dry run
    python rehearse.py DIR --jobs 10000                              submit everything
    python rehearse.py DIR --jobs 1000 --profile '{"jobs": 400}'     with changes of the profile

Writes a project to DIR whose encodings have --jobs shards, and runs Snakemake on it with the
repository's SLURM profile and a fake SLURM: its `sbatch` makes the job's output files (empty) and
reports the job as completed, and each of its commands counts its calls. So the times are those of
the head process, not of jobs or of a controller. Prints one JSON line.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
N_MODELS = 10
FILES = {
    "data": [
        *(
            f"results/{{benchmark}}/data/{{lang}}/{name}.parquet"
            for name in ("corpus", "queries", "qrels")
        ),
        *(
            f"results/{{benchmark}}/build/{{lang}}/data.{name}.parquet"
            for name in ("dropped", "flow")
        ),
        "benchmarks/{benchmark}/data/{lang}.tsv",
    ],
    "encode": [
        "results/{benchmark}/encodings/{model}/{lang}{portion}.parquet",
        "benchmarks/{benchmark}/encode/{model}/{lang}{portion}.tsv",
    ],
    "search_vectors": [
        "results/{benchmark}/runs/{model}/{query_lang}-{corpus_lang}.parquet",
        "benchmarks/{benchmark}/search_vectors/{model}/{query_lang}/{corpus_lang}.tsv",
    ],
}
"""Files that each rule makes."""
COMMANDS = ("sbatch", "squeue", "sacct", "scontrol", "sinfo", "sacctmgr", "scancel", "srun")
FAKE = """\
#!{python} -SE
import os, re, sys
root, name, given = "{root}", os.path.basename(sys.argv[0]), " ".join(sys.argv[1:])
with open(root + "/calls", "a") as calls:
    print(name, file=calls)
if name == "sbatch":
    jobs = re.search("--target-jobs (.*?) --allowed-rules", given)[1]
    for rule, labels in re.findall(r"(\\w+):((?:\\w+=[^\\s,'\\"]*,?)+)", jobs):
        labels = dict(label.split("=") for label in labels.split(","))
        for path in {files}[rule]:
            path = root + "/../" + path.format(**labels)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            open(path, "w").close()
    with open(root + "/submitted", "a") as submitted:
        print(given.partition(" --wrap")[0], file=submitted, flush=True)
        number = submitted.tell()
    first, last = (re.search(r"--array=(\\d+)-(\\d+)", given) or [0, 1, 1])[1:]
    with open(root + "/states", "a") as states:
        for task in range(int(first), int(last) + 1):
            task = "_%d" % task if "--array=" in given else ""
            print("%d%s|COMPLETED" % (number, task), file=states)
    print(number)
elif name == "squeue" and "%T" in given:
    with open(root + "/states") as states:
        print(states.read(), end="")
elif name == "scontrol":
    print("MaxArraySize = 1001\\nMinJobAge = 300 sec")
"""


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=10_000, help="encoding shards")
    parser.add_argument("--plan", action="store_true", help="measure the dry run")
    parser.add_argument("--profile", type=json.loads, default={}, help="keys of the profile, JSON")
    given = parser.parse_args()
    print(json.dumps(rehearse(given.folder.resolve(), given.jobs, given.profile, given.plan)))


def rehearse(
    folder: Path, n_shards: int, profile: dict[str, Any], plan_only: bool = False
) -> dict[str, Any]:
    """Submit (or only plan) a run with ``n_shards`` encoding jobs; return its measurements.

    Parameters
    ----------
    profile
        Keys that replace those of profiles/slurm/config.yaml.
    plan_only
        Measure the dry run.
    """
    targets = write_project(folder, n_shards)
    if plan_only:
        output, planning = measured(
            [*snakemake(folder), "-n", "-q", "rules", "--", *targets], folder
        )
        return {"jobs": int(re.findall(r"^total +(\d+)", output, re.MULTILINE)[-1])} | planning
    path = write_fake_slurm(folder)
    settings = yaml.safe_load((REPOSITORY / "profiles/slurm/config.yaml").read_text())
    settings |= {"latency-wait": 5, "slurm-init-seconds-before-status-checks": 1} | profile
    (folder / "profile").mkdir(exist_ok=True)
    (folder / "profile" / "config.yaml").write_text(yaml.safe_dump(settings))
    command = [*snakemake(folder), "--profile", str(folder / "profile"), "--", *targets]
    _, run = measured(command, folder, PATH=f"{path}{os.pathsep}{os.environ['PATH']}")
    return run | {"calls": Counter((folder / "slurm" / "calls").read_text().split())}


def write_project(folder: Path, n_shards: int) -> list[str]:
    """Write a config of ten models, at most 100 shards each; return the files to make."""
    n_benchmarks = max(1, n_shards // 1000)
    shards = max(1, n_shards // (N_MODELS * n_benchmarks))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "squad.json").write_text('{"data": []}')
    benchmark = {
        "recipe": "squad_posq",
        "source": {"kind": "squad", "paths": ["squad.json"]},
        "buckets": ["squad"],
    }
    encoder = {"backend": "sentence-transformers", "checkpoint": "embedded:all-MiniLM-L6-v2"}
    config = {
        "benchmarks": {f"b{n}": benchmark for n in range(n_benchmarks)},
        "models": [f"m{n}" for n in range(N_MODELS)],
        "registry": {f"m{n}": encoder | {"max_tokens": 32 + n} for n in range(N_MODELS)},
        "length_tokenizer": "words",
        "encoding": {"shards": shards},
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    return [
        f"results/b{n}/runs/m{model}/eng-Latn-eng-Latn.parquet"
        for n in range(n_benchmarks)
        for model in range(N_MODELS)
    ]


def write_fake_slurm(folder: Path) -> Path:
    """Write SLURM's commands; return their folder."""
    root = folder / "slurm"
    (root / "bin").mkdir(parents=True, exist_ok=True)
    text = FAKE.replace("{python}", sys.executable).replace("{root}", str(root))
    text = text.replace("{files}", repr(FILES))
    for name in COMMANDS:
        command = root / "bin" / name
        command.write_text(text)
        command.chmod(0o755)
    for name in ("calls", "states", "submitted"):
        (root / name).write_text("")
    return root / "bin"


def snakemake(folder: Path) -> list[str]:
    """Return the command line of Snakemake in the project."""
    return [
        *(sys.executable, "-m", "snakemake", "-s", str(REPOSITORY / "Snakefile")),
        *("--directory", str(folder), "--configfile", str(folder / "config.yaml")),
    ]


def measured(command: list[str], folder: Path, **variables: str) -> tuple[str, dict[str, float]]:
    """Run a command; return its output, and its seconds, CPU seconds and largest memory in MiB."""
    began = time.monotonic()
    log = folder / "head.log"
    with log.open("w") as output:
        head = subprocess.Popen(
            command, cwd=folder, env=os.environ | variables, stdout=output, stderr=output
        )
        _, status, used = os.wait4(head.pid, 0)
    if status:
        raise SystemExit(log.read_text()[-3000:])
    return log.read_text(), {
        "seconds": round(time.monotonic() - began, 1),
        "cpu_s": round(used.ru_utime + used.ru_stime, 1),
        "max_mib": used.ru_maxrss // 1024,
    }


if __name__ == "__main__":
    main()
