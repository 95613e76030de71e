"""Whose the tables over all benchmarks are: a run does not replace those of another config."""

import json
import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

import polars as pl

from psibench.errors import InputError
from psibench.tables.atomic import write_text

TABLES = ("results/psi_table.parquet", "results/probe_table.parquet")
"""The tables over all benchmarks: the other files in results/ itself are made of these, or with
them."""
RECORD = Path(".snakemake") / "psibench-configs.json"
"""Table -> the config files of the run that made it last; none of the embedded default."""
FORCE_VARIABLE = "PSIBENCH_FORCE"
"""Set to replace what is there."""
STAND_INS = "stand_ins: true"
"""Recorded among the config files of a run with stand-ins."""
REFUSED = "tables of another config: "


def claim_tables(
    made: Collection[str],
    *,
    benchmarks: Collection[str],
    configs: Sequence[str | Path],
    stand_ins: bool = False,
) -> None:
    """Refuse to replace the tables of another config; record whose they will be.

    A table is another config's if no benchmark in it is one of the run's, and the run that made it
    had no config file in common with this one: an edited config is the same one. Tables of
    stand-ins and others do not replace each other.

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
        Whether stand-ins run in the place of its models.
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
                f"{REFUSED}{table} is of {of}, benchmarks {', '.join(sorted(there))}; this run has "
                f"{', '.join(sorted(benchmarks))} and would replace it, and the pages beside it. "
                "Run in another folder, or give `psibench run --force` (`make ... FORCE=1`, or "
                f"{FORCE_VARIABLE}=1 before snakemake). The folders results/BENCHMARK stay"
            )
    if replaced:
        ours += [STAND_INS] if stand_ins else []
        write_text(json.dumps(recorded | dict.fromkeys(replaced, ours), indent=2), RECORD)


def _benchmarks(table: str) -> set[str]:
    """Return the benchmarks in a table; none of one that is not there or cannot be read."""
    with suppress(OSError, pl.exceptions.PolarsError):
        return set(pl.read_parquet(table, columns=["benchmark"]).get_column("benchmark"))
    return set()


def _read() -> dict[str, list[str]]:
    with suppress(OSError, ValueError):
        return dict(json.loads(RECORD.read_text(encoding="utf-8")))
    return {}
