"""Seconds until a command or a job starts its work: imports, reading the config, planning.

Each command runs in a fresh process in an empty folder. The start of a stage is the time until its
job reads a table, on one thread, without torch. Values are minima of the repeats.

    python bench/cold_start.py [--repeats 3]
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from support.goals import tell_goal

from psibench.tables.stage import read_stages

ROOT = Path(__file__).resolve().parents[1]
PSIBENCH = str(Path(sys.executable).with_name("psibench"))
PRESETS = ROOT / "config" / "presets"
# Command, goal in wall seconds, and whether it is repeated.
COMMANDS: tuple[tuple[tuple[str, ...], float, bool], ...] = (
    (("--help",), 0.5, True),
    (("score", "--example"), 2.0, True),
    (("run", "--dry-run"), 3.0, True),
    (("run", str(PRESETS / "posir.yaml"), "--dry-run"), 60.0, False),
)
STAGE_GOAL = 0.6
IMPORTS = "from psibench.importing import importing\nwith importing():\n"
"""As in workflow/scripts/stage.py."""
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def time_process(
    arguments: Sequence[str], folder: str, settings: Mapping[str, str]
) -> tuple[float, float]:
    """Run a process; return its wall and CPU seconds, including its children."""
    before, began = os.times(), time.perf_counter()
    subprocess.run(
        arguments,
        cwd=folder,
        env=os.environ | settings,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    took, after = time.perf_counter() - began, os.times()
    used = after.children_user + after.children_system
    return took, used - before.children_user - before.children_system


def least(
    arguments: Sequence[str], repeats: int, settings: Mapping[str, str] | None = None
) -> tuple[float, float]:
    """Return the least wall and CPU seconds of several runs, each in an empty folder."""
    runs = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            runs.append(time_process(arguments, folder, settings or {}))
    return min(wall for wall, _ in runs), min(cpu for _, cpu in runs)


def main() -> None:
    """Print a row per command and a row per module of stages."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    print(f"{'command':44}{'wall s':>8}{'CPU s':>8}")
    for words, goal, is_repeated in COMMANDS:
        told = " ".join(["psibench", *(Path(word).name for word in words)])
        wall, cpu = least([PSIBENCH, *words], args.repeats if is_repeated else 1)
        print(f"{told:44}{wall:8.2f}{cpu:8.2f}", flush=True)
        tell_goal(f"`{told}`: seconds", wall, goal, at_most=True)
    modules: dict[str, list[str]] = {}
    for name, stage in read_stages().items():
        modules.setdefault(stage.module, []).append(name)
    print(f"\n{'start of a stage':44}{'wall s':>8}{'CPU s':>8}")
    most = 0.0
    for module, names in sorted(modules.items()):
        start = IMPORTS + f"    import psibench.cluster.job, {module}"
        wall, cpu = least([sys.executable, "-c", start], args.repeats, ONE_THREAD)
        most = max(most, cpu)
        print(f"{', '.join(names)[:43]:44}{wall:8.2f}{cpu:8.2f}", flush=True)
    tell_goal("start of a stage, the slowest: CPU seconds", most, STAGE_GOAL, at_most=True)


if __name__ == "__main__":
    main()
