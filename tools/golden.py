"""Run the shipped configs at small size and record their tables, to compare two source trees.

    python tools/golden.py run FOLDER [CONFIG ...]     run configs below FOLDER (an hour for all)
    python tools/golden.py record FOLDER [FILE]        write the record of their tables
    python tools/golden.py compare FOLDER [FILE]       compare them with a record; 1 if they differ

CONFIG is ``default``, ``generated`` or a preset's name. FILE is tools/golden.json.

For each config the record has the number of jobs per rule and a hash per table. The hash covers the
sorted rows without the columns ``language`` and ``domain`` and without measured seconds, with
numbers rounded to six significant digits, because processors differ in the last ones. Tables of
domains, parts and shards count as one table, so the record does not depend on how they are split.
"""

import argparse
import hashlib
import json
import math
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from psibench.papers.figures import PUBLISHED
from psibench.plain_yaml import parse_yaml

RECORD = Path(__file__).with_suffix(".json")
LABELS = ("language", "domain", "seconds")
SLICE = re.compile(r"/\d+-of-\d+(?=[/.])")
OF_DOMAIN = re.compile(r"/data/([^/]+)/[^/]+/(?=[^/]+$)")
LEFT_OUT = re.compile(
    r"/build/([^/]+)/[^/]+/(?=(?:dropped|flow|(?:false_negatives|clean_translations)\.[a-z]+)\.)"
)
JOBS = re.compile(r"^([a-z_]+) +(\d+)$", re.MULTILINE)


def commands() -> dict[str, list[str]]:
    """Return, for each config, the arguments of `psibench run`."""
    recipes = parse_yaml((PUBLISHED / "recipes.yaml").read_text(), where="recipes.yaml")
    found = {"default": [], "generated": ["shipped:examples/generated.yaml"]}
    for one in recipes:
        target = [one["target"]] if one.get("target") else []
        found[one["preset"]] = ["--small", f"shipped:presets/{one['preset']}.yaml", *target]
    return found


def run(folder: Path, name: str) -> None:
    """Run a config in a separate folder; SystemExit with its log if it fails."""
    here = folder / name
    here.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["psibench", "run", *commands()[name]], cwd=here, capture_output=True, text=True
    )
    (here / "run.log").write_text(done.stdout + done.stderr)
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}\n{name} ended with {done.returncode}")


def record(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the record of the configs that have run below a folder."""
    return {
        path.parent.name: {"jobs": jobs_of(path.read_text()), "tables": tables_of(path.parent)}
        for path in sorted(folder.glob("*/run.log"))
    }


def jobs_of(log: str) -> dict[str, int]:
    """Return the number of jobs of each rule from Snakemake's job list."""
    begin = log.find("Job stats:")
    return {rule: int(n) for rule, n in JOBS.findall(log[begin : log.find("\n\n", begin)])}


def tables_of(folder: Path) -> dict[str, str]:
    """Return the rows and the hash of each table below ``results``."""
    results = folder / "results"
    files = defaultdict[str, list[Path]](list)
    for path in sorted(results.rglob("*.parquet")):
        files[table_of(f"/{path.relative_to(results)}")].append(path)
    return {name: hash_of(paths) for name, paths in sorted(files.items())}


def table_of(path: str) -> str:
    """Return the name of the table that a file is a part of."""
    path = SLICE.sub("", path)
    path = OF_DOMAIN.sub(r"/data/\1/", path)
    return LEFT_OUT.sub(r"/build/\1/", path).removeprefix("/").removesuffix(".parquet")


def hash_of(paths: list[Path]) -> str:
    """Return ``N rows, HASH`` of the rows of some files."""
    rows = sorted(row for path in paths for row in rows_of(pl.read_parquet(path)))
    return f"{len(rows)} rows, {hashlib.sha256(chr(10).join(rows).encode()).hexdigest()[:16]}"


def rows_of(frame: pl.DataFrame) -> Iterator[str]:
    """Yield each row as text, without null values."""
    for row in frame.drop(name for name in LABELS if name in frame.columns).iter_rows(named=True):
        shown = {key: plain(value) for key, value in row.items() if value is not None}
        yield json.dumps(shown, sort_keys=True, default=str)


def plain(value: Any) -> Any:
    """Return a value with numbers of six significant digits."""
    if isinstance(value, float):
        return f"{value + 0.0:.6g}" if math.isfinite(value) else str(value)
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return value


def differences(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    """Yield a line for each job count and table that differs; configs in both are compared."""
    for name in sorted(before.keys() & after.keys()):
        for kind in ("jobs", "tables"):
            old, new = before[name][kind], after[name][kind]
            for key in sorted(old.keys() | new.keys()):
                if old.get(key) != new.get(key):
                    yield f"{name}: {kind}: {key}: {old.get(key)} -> {new.get(key)}"


def main() -> None:
    """Run, record or compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("run", "record", "compare"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("rest", nargs="*")
    args = parser.parse_args()
    if args.what == "run":
        for name in args.rest or commands():
            run(args.folder, name)
            print(name, flush=True)
        return
    file = Path(args.rest[0]) if args.rest else RECORD
    found = record(args.folder)
    if args.what == "record":
        file.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
        return
    lines = list(differences(json.loads(file.read_text()), found))
    print("\n".join([*lines, f"{len(found)} configs, {len(lines)} differences"]))
    sys.exit(bool(lines))


if __name__ == "__main__":
    main()
