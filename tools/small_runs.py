"""Run the shipped presets at small size, each with its recipe's target: jobs, minutes, first rows.

    python tools/small_runs.py [--folder DIR] [PRESET ...]      without names: all presets

Prints a line of Markdown per preset; the logs are in DIR. Stops at the first failure with its log.
"""

import argparse
import csv
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from psibench.papers.figures import PUBLISHED
from psibench.plain_yaml import parse_yaml

TABLES = ("psi_table", "probe_table", "training_table")
SHOWN = ("benchmark", "query_lang", "model", "base", "distribution", "probe", "condition", "metric")
SHOWN += ("buckets", "bucket", "evidence", "mean", "psi", "value")
TOTAL = re.compile(r"^total +(\d+)$", re.MULTILINE)


def recipes() -> dict[str, str | None]:
    """Return preset -> target to run; None means the PSI table and the report."""
    path = PUBLISHED / "recipes.yaml"
    return {
        one["preset"]: one.get("target") for one in parse_yaml(path.read_text(), where=str(path))
    }


def run(preset: str, target: str | None, folder: Path) -> str:
    """Run a preset in its folder; return its line. Raises SystemExit with its log if it fails."""
    here = folder / preset
    here.mkdir(exist_ok=True)
    command = ["psibench", "run", "--small", f"shipped:presets/{preset}.yaml"]
    begun = time.monotonic()
    done = subprocess.run(
        [*command, *([target] if target else [])], cwd=here, capture_output=True, text=True
    )
    minutes = (time.monotonic() - begun) / 60
    (folder / f"{preset}.log").write_text(done.stdout + done.stderr)
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}\n{preset} --small ended with {done.returncode}")
    jobs = TOTAL.search(done.stdout + done.stderr)
    return f"| {preset} | {jobs[1] if jobs else '?'} | {minutes:.1f} | {first_rows(here)} |"


def first_rows(folder: Path, most: int = 2) -> str:
    """Return some columns of the first rows of a run's table."""
    for table in TABLES:
        if (path := folder / "results" / f"{table}.csv").is_file():
            with path.open(newline="") as file:
                rows = [row for row, _ in zip(csv.DictReader(file), range(most), strict=False)]
            shown = [", ".join(row[key][:24] for key in SHOWN if row.get(key)) for row in rows]
            return f"{table}: " + "; ".join(shown)
    return "no table"


def main() -> None:
    """Run the presets named, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("presets", nargs="*")
    args = parser.parse_args()
    known = recipes()
    if unknown := sorted(set(args.presets) - set(known)):
        sys.exit(f"no recipe for {', '.join(unknown)}; known: {', '.join(known)}")
    folder = args.folder or Path(tempfile.mkdtemp(prefix="psibench-small-"))
    folder.mkdir(parents=True, exist_ok=True)
    print("| preset | jobs | minutes | first rows |\n|---|---|---|---|", flush=True)
    for preset in args.presets or known:
        print(run(preset, known[preset], folder), flush=True)


if __name__ == "__main__":
    main()
