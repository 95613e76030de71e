"""Read a run in any supported format, by its suffix or by the format named."""

from collections.abc import Callable, Iterator
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
    `ranks` : (n_pairs,) Int64, what the file says of the order, null where that is no number; None
    if it says nothing. Documents are ranked by their scores, see `doubts`.
    """

    frame: pl.DataFrame
    model: str
    ranks: pl.Series | None = None


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
    file = RUN_FORMATS[chosen].read(path, part)
    score = pl.col("score").cast(pl.Float64)
    lost = file.frame.filter(score.is_finite() & ~score.cast(pl.Float32).is_finite())
    for query_id, doc_id, found in lost.select(COLUMNS).head(1).iter_rows():
        raise InputError(
            f"{path}: query {query_id!r}, document {doc_id!r} has the score {found}, beyond what "
            f"a 32-bit number holds ({lost.height} such rows); scale the scores"
        )
    return file


def _table(table_format: str) -> Callable[[Path, str | None], RunFile]:
    def read(path: Path, _part: str | None) -> RunFile:
        frame = read_scored_pairs(path, table_format, COLUMNS, optional=("rank",))
        return _split(frame, stem(path))

    return read


def _trec(path: Path, _part: str | None) -> RunFile:
    return _split(read_trec_run(path), stem(path))


def _split(frame: pl.DataFrame, model: str) -> RunFile:
    """Take the ranks, if there are any, off the scores."""
    if "rank" not in frame.columns:
        return RunFile(frame, model)
    ranks = frame.get_column("rank").cast(pl.Int64, strict=False)
    return RunFile(frame.select(COLUMNS), model, ranks if ranks.count() else None)


def _mteb(path: Path, part: str | None) -> RunFile:
    found = read_mteb_predictions(path, part)
    return RunFile(found.frame, found.model or stem(path))


# --- Whether the scores can be meant as they are ----------------------------------------------

FIRST = 10
"""Results of a query among which ties are counted: those that the headline metrics look at."""
MOST_RISE = 0.9
"""Of neighbours in a file that is not ordered by score, half rise; of one ordered by distance all
do."""


def doubts(file: RunFile) -> Iterator[str]:
    """Say what speaks against a run's scores: that they contradict its order, or are tied.

    The order is that of the ranks where the file has them; any contradiction is told then. Else it
    is that of the lines, which may have none: told is only that nearly all scores rise.
    """
    frame = file.frame.select("query_id", score=pl.col("score").cast(pl.Float32))
    ranked = file.ranks is not None
    place = file.ranks if file.ranks is not None else pl.int_range(frame.height, eager=True)
    before = pl.all().shift(1).name.suffix("_before")
    pairs = (
        frame.with_columns(place=place)
        .drop_nulls()
        .sort("query_id", "place")
        .with_columns(before)
        .filter(
            (pl.col("query_id") == pl.col("query_id_before"))
            & (pl.col("place") > pl.col("place_before"))
        )
    )
    neighbours = pairs.height
    rising = pairs.filter(pl.col("score") > pl.col("score_before")).height
    if rising > (0 if ranked else MOST_RISE * neighbours):
        yield (
            f"the scores contradict the {'ranks' if ranked else 'order of the results'}: in "
            f"{rising:,} of {neighbours:,} neighbouring pairs ({rising / neighbours:.1%}) the "
            "later one has the larger score"
        )
    first = frame.drop_nulls().filter(
        pl.col("score").rank("ordinal", descending=True).over("query_id") <= FIRST
    )
    tied = first.filter(pl.struct("query_id", "score").is_duplicated()).height
    if 2 * tied > first.height:
        yield (
            f"the scores are mostly tied: {tied:,} of the {first.height:,} results among the first "
            f"{FIRST} of their query ({tied / first.height:.1%}) share their score with another "
            "one, and are ordered by document id"
        )


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
