"""Dry runs of all shipped configs and of the SLURM profile; stops at the first failure.

To save imports, all processes are forked from one that has already imported the libraries. Uses
all cores.
"""

import multiprocessing
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
CONFIGS = ["config/config.yaml"] + [
    path.relative_to(HERE).as_posix()
    for folder in ("presets", "examples")
    for path in sorted((HERE / "config" / folder).glob("*.yaml"))
]
LOCAL = ["--profile", "profiles/local", "--configfile"]
RUNS = {config: [*LOCAL, config] for config in CONFIGS} | {
    "--profile slurm": ["results/psi_table.csv", "--profile", "slurm"]
}


def snakemake(arguments: list[str]) -> None:
    """Run Snakemake in this process and exit with its code."""
    from snakemake.cli import main

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    main(arguments)


def main() -> None:
    """Run all dry runs in the repository's folder and print the results, sorted by name."""
    os.chdir(HERE)
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(["snakemake.cli", "psibench.plan.jobs", "psibench.plan.summaries"])

    def exit_code(arguments: list[str]) -> int | None:
        run = forks.Process(
            target=snakemake, args=([*arguments, "--nolock", "--dry-run", "--quiet", "all"],)
        )
        run.start()
        run.join()
        return run.exitcode

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, code in zip(RUNS, pool.map(exit_code, RUNS.values()), strict=True):
            if code:
                pool.shutdown(cancel_futures=True)
                sys.exit(f"dry run failed: {name}")
            print(f"dry run: {name}", flush=True)


if __name__ == "__main__":
    main()
