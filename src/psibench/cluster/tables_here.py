"""Record which config made the tables over all benchmarks; other configs must not replace them."""

import json
import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

import polars as pl

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
REFUSED = "tables of another config: "


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
