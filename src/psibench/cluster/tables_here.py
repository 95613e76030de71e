"""Tables of earlier runs: other configs must not replace them, and outdated ones must not stay."""

import json
import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

import polars as pl

from psibench.config.paths import RESULTS_FOLDER
from psibench.errors import InputError
from psibench.tables.atomic import write_text

TABLES = ("results/psi_table.parquet", "results/probe_table.parquet")
"""Tables over all benchmarks; the other files directly in results/ depend on them or are made with
them."""
RECORD = Path(".snakemake") / "psibench-configs.json"
"""File that maps tables to the config files of their last run; empty for the embedded default."""
FORCE_VARIABLE = "PSIBENCH_FORCE"
"""Environment variable that allows replacing tables of another config."""
STAND_INS = "stand_ins: true"
"""Recorded with the config files of a run with stand-ins."""
REFUSED, UNRECORDED = "tables of another config: ", "tables without records: "
"""Beginnings of messages."""
RECORDS = tuple(Path(".snakemake") / name for name in ("metadata", "metadata.db", "incomplete"))
"""Folder or database in which Snakemake records parameters and inputs of each table, and the folder
with its marks of unfinished jobs, whose tables it makes again."""


def refuse_unrecorded_tables(benchmarks: Collection[str]) -> None:
    """Raise InputError if benchmarks have tables, but Snakemake's records of them are missing.

    Snakemake would take the tables for up to date, whatever the config says.

    Parameters
    ----------
    benchmarks
        Ids of the run's benchmarks and their views.
    """
    there = [RESULTS_FOLDER / name for name in benchmarks]
    there = [folder for folder in there if any(folder.rglob("*.parquet"))]
    if there and not any(map(_has_content, RECORDS)):
        raise InputError(
            f"{UNRECORDED}{', '.join(map(str, there))} has tables, but .snakemake/metadata, which "
            "records how they were made, is missing or empty, so tables of an earlier config would "
            "count as up to date. Restore it (copy runs with `cp -a`, with hidden folders), or "
            f"move {RESULTS_FOLDER} away and run again: store/ keeps vectors, scores and answers"
        )


def _has_content(path: Path) -> bool:
    return path.is_file() or (path.is_dir() and any(path.iterdir()))


def claim_tables(
    made: Collection[str],
    *,
    benchmarks: Collection[str],
    configs: Sequence[str | Path],
    stand_ins: bool = False,
) -> None:
    """Record the config of the tables that a run makes; refuse to replace another config's tables.

    A table belongs to another config if it has none of the run's benchmarks, and its run and this
    one share no config file (an edited config stays the same config). Tables with and without
    stand-ins also do not replace each other.

    Raises InputError if such a table would be replaced and `FORCE_VARIABLE` is not set.

    Parameters
    ----------
    made
        The files that the run makes, relative to the working directory.
    benchmarks
        Ids of the run's benchmarks and their views.
    configs
        The run's config files.
    stand_ins
        Whether the run uses stand-ins.
    """
    ours = [str(Path(path).resolve()) for path in configs]
    recorded, replaced = _read(), [table for table in TABLES if table in made]
    for table in replaced:
        theirs, there = recorded.get(table), _benchmarks(table)
        is_related = there.intersection(benchmarks) or set(ours).intersection(theirs or ())
        is_ours = is_related and stand_ins == (STAND_INS in (theirs or ()))
        if there and not is_ours and not os.environ.get(FORCE_VARIABLE):
            of = "another config" if theirs is None else ", ".join(theirs) or "the embedded default"
            raise InputError(
                f"{REFUSED}{table} was made by {of}, with benchmarks {', '.join(sorted(there))}. "
                f"This run has {', '.join(sorted(benchmarks))} and would replace the table and its "
                "pages. Run in another folder, or use `psibench run --force` (`make ... FORCE=1`, "
                f"or {FORCE_VARIABLE}=1 with snakemake), which keeps the folders results/BENCHMARK"
            )
    if replaced:
        ours += [STAND_INS] if stand_ins else []
        write_text(json.dumps(recorded | dict.fromkeys(replaced, ours), indent=2), RECORD)


def _benchmarks(table: str) -> set[str]:
    """Return the benchmarks in a table; empty if it is missing or cannot be read."""
    with suppress(OSError, pl.exceptions.PolarsError):
        return set(pl.read_parquet(table, columns=["benchmark"]).get_column("benchmark"))
    return set()


def _read() -> dict[str, list[str]]:
    with suppress(OSError, ValueError):
        return dict(json.loads(RECORD.read_text(encoding="utf-8")))
    return {}
