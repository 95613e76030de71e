"""Read a run in any supported format, by its suffix or by the format named."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from psibench.errors import InputError
from psibench.formats.mteb import read_mteb_predictions
from psibench.formats.suffixes import choose_format, stem
from psibench.formats.tabular import read_scored_pairs
from psibench.formats.trec import read_trec_run

COLUMNS = ("query_id", "doc_id", "score")


@dataclass(frozen=True)
class RunFile:
    """Scores as read, not yet ranked, and what to call the model.

    `frame` : (n_pairs, 3) query_id, doc_id (String), score (numeric), in file order.
    """

    frame: pl.DataFrame
    model: str


@dataclass(frozen=True)
class RunFormat:
    """A reader of (path, part) and the suffixes it is chosen for."""

    suffixes: tuple[str, ...]
    read: Callable[[Path, str | None], RunFile]


def read_run(path: Path, *, run_format: str | None = None, part: str | None = None) -> RunFile:
    """Read a run file.

    Parameters
    ----------
    path : the file.
    run_format : a key of `RUN_FORMATS`; by the file's suffix when None.
    part : ``subset/split`` of an MTEB prediction file that holds several.

    Raises
    ------
    InputError
        On an unknown suffix or format, a part where the format has none, or a file that does not
        hold what its format says.
    """
    known = {name: entry.suffixes for name, entry in RUN_FORMATS.items()}
    chosen = choose_format(path, run_format, known, option="--run-format")
    if part is not None and chosen != "mteb":
        raise InputError(f"{path}: a {chosen} run has no parts; got the part {part!r}")
    return RUN_FORMATS[chosen].read(path, part)


def _table(table_format: str) -> Callable[[Path, str | None], RunFile]:
    def read(path: Path, _part: str | None) -> RunFile:
        return RunFile(read_scored_pairs(path, table_format, COLUMNS), stem(path))

    return read


def _trec(path: Path, _part: str | None) -> RunFile:
    return RunFile(read_trec_run(path), stem(path))


def _mteb(path: Path, part: str | None) -> RunFile:
    found = read_mteb_predictions(path, part)
    return RunFile(found.frame, found.model or stem(path))


RUN_FORMATS: dict[str, RunFormat] = {
    "parquet": RunFormat((".parquet",), _table("parquet")),
    "csv": RunFormat((".csv", ".csv.gz"), _table("csv")),
    "tsv": RunFormat((".tsv", ".tsv.gz"), _table("tsv")),
    "jsonl": RunFormat((".jsonl", ".jsonl.gz"), _table("jsonl")),
    "mteb": RunFormat((".json", ".json.gz"), _mteb),
    "trec": RunFormat(
        tuple(s + z for s in (".trec", ".run", ".res", ".txt") for z in ("", ".gz")), _trec
    ),
}
