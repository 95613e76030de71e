"""Read a run in any supported format, by its suffix or by the format named.

Columns may have the names that ranx (``q_id``), PyTerrier (``qid``, ``docno``) and BEIR
(``query-id``, ``corpus-id``) give them. A ``.tsv`` whose first line is two ids and a whole number
is MS MARCO's, if the numbers of every query are ranks.

Of MTEB (version 2) the prediction files are read: scores per query, under subset and split, as
``{"mteb_model_meta": {"model_name", "revision"}, subset: {split: {query id: {document id:
score}}}}``; a bare ``{query id: {document id: score}}``, as beir, pytrec_eval and ranx have it, is
read as well.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from psibench.errors import InputError
from psibench.formats.tabular import (
    choose_format,
    is_headerless,
    nested_pairs,
    read_scored_pairs,
    stem,
)
from psibench.lines import read_json
from psibench.metrics.chunks import PLACE, refuse_invalid_chunks
from psibench.reading import identifier
from psibench.tables.ranking import place_in_query

COLUMNS: dict[str, tuple[str, ...]] = {
    "query_id": ("q_id", "qid", "query-id"),
    "doc_id": ("docno", "corpus-id"),
    "score": (),
}
"""Of a run, and what else they may be called in a file."""
CHUNKS_HINT = "of chunks: doc_id, start and end"
HEADERLESS = {
    "trec": ("query_id", "Q0", "doc_id", "rank", "score", "run name"),
    "msmarco": ("query_id", "doc_id", "rank"),
}
"""What the fields of a line are. A TREC run is in the order of its scores, as in trec_eval,
whatever its ranks; MS MARCO's runs have ranks alone: a score is the rank, negative."""
RUN_FORMATS: dict[str, tuple[str, ...]] = {
    "parquet": (".parquet", ".parq"),
    "csv": (".csv", ".csv.gz"),
    "tsv": (".tsv", ".tsv.gz"),
    "jsonl": (".jsonl", ".jsonl.gz"),
    "mteb": (".json", ".json.gz"),
    "trec": tuple(s + z for s in (".trec", ".run", ".res", ".txt") for z in ("", ".gz")),
    "msmarco": (),  # .tsv without a header
}
"""Formats and the suffixes that stand for them."""


@dataclass(frozen=True)
class RunFile:
    """Scores as read, not yet ranked, and what to call the model.

    `frame` : (n_pairs, 3) query_id, doc_id (String), score (numeric), in file order; of a run of
    chunks (n_pairs, 6) with chunk_id (String), start and end (Int64) beside.
    `ranks` : (n_pairs,) Int64, what the file says of the order, null where that is no number; None
    if it says nothing. Documents are ranked by their scores, see `doubts`.
    """

    frame: pl.DataFrame
    model: str
    ranks: pl.Series | None = None


def read_run(
    path: Path,
    *,
    run_format: str | None = None,
    part: str | None = None,
) -> RunFile:
    """Read a run file: of documents, or of chunks where each row has start and end.

    Raises InputError on an unknown suffix or format, a part where the format has none, a file
    that does not hold what its format says, or chunks that are nowhere.

    Parameters
    ----------
    path : the file.
    run_format : a key of `RUN_FORMATS`; by the file's suffix when None.
    part : ``subset/split`` of an MTEB prediction file that holds several.
    """
    chosen = choose_format(path, RUN_FORMATS, named=run_format, hint="; set --run-format")
    if chosen == "tsv" and run_format is None and is_headerless(path, HEADERLESS["msmarco"]):
        chosen = "msmarco"
    if part is not None and chosen != "mteb":
        raise InputError(f"{path}: a {chosen} run has no parts; got the part {part!r}")
    model = ranks = None
    if chosen == "mteb":
        frame, model = _read_mteb(path, part)
    elif chosen == "msmarco":
        ranked = COLUMNS | {"score": ("rank",)}
        frame = read_scored_pairs(path, chosen, ranked, headerless=HEADERLESS)
        frame = frame.with_columns(-pl.col("score"))
        if run_format is None:
            _refuse_scores(frame, path)
    else:
        frame = read_scored_pairs(
            path,
            chosen,
            COLUMNS,
            optional=("rank",) if chosen in HEADERLESS else ("rank", "start", "end"),
            headerless=HEADERLESS,
            hint=CHUNKS_HINT,
        )
    if "rank" in frame.columns:
        ranks = frame.get_column("rank").cast(pl.Int64, strict=False)
        ranks = ranks if ranks.count() else None
    frame = _of_chunks(frame, path)
    score = pl.col("score").cast(pl.Float64)
    lost = frame.filter(score.is_finite() & ~score.cast(pl.Float32).is_finite())
    for query_id, doc_id, found in lost.select(list(COLUMNS)).head(1).iter_rows():
        raise InputError(
            f"{path}: query {query_id!r}, document {doc_id!r} has the score {found}, beyond what "
            f"a 32-bit number holds ({lost.height} such rows); scale the scores"
        )
    return RunFile(frame, model or stem(path), ranks)


def _of_chunks(frame: pl.DataFrame, path: Path) -> pl.DataFrame:
    """Return a run's columns, of chunks with where they are, as the rows say."""
    given = [name for name in PLACE[1:] if name in frame.columns and frame[name].count()]
    if not given:
        return frame.select(list(COLUMNS))
    if len(given) < 2:
        raise InputError(f"{path}: {given[0]} alone; a chunk has start and end, characters")
    numbers = [pl.col(name).cast(pl.Float64, strict=False) for name in given]
    whole = (
        pl.when(number == number.round()).then(number.cast(pl.Int64, strict=False))
        for number in numbers
    )
    place = pl.format("{} [{}, {})", *PLACE)
    found = frame.select(*COLUMNS, *whole).with_columns(chunk_id=pl.coalesce(place, "doc_id"))
    refuse_invalid_chunks(found, source=str(path))
    return found


def _refuse_scores(frame: pl.DataFrame, path: Path) -> None:
    """Refuse what a file without a header says instead of ranks: as ranks, scores are reversed."""
    rank, place = -pl.col("score"), pl.int_range(pl.len()).over("query_id")
    expected = (
        pl.when(place == 0).then(rank.is_in([0.0, 1.0])).otherwise(rank.diff().over("query_id") > 0)
    )
    wrong = frame.filter(~expected | (rank != rank.round()))
    for query_id, doc_id, score in wrong.head(1).iter_rows():
        raise InputError(
            f"{path} has no header, and no ranks as MS MARCO's runs have them, which begin at 0 or "
            f"1 and rise for each query: query {query_id!r}, document {doc_id!r} has "
            f"{0 - score:g}. If these are scores, put query_id, doc_id, score on the first line, "
            "between tabs; if they are ranks, add --run-format msmarco"
        )


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
    in_order = frame.with_columns(place=place).drop_nulls().sort("query_id", "place")
    steps = in_order.with_columns(pl.col("place", "score").shift().name.suffix("_before")).filter(
        pl.col("query_id") == pl.col("query_id").shift(), pl.col("place") > pl.col("place_before")
    )
    neighbours, rising = steps.height, int((steps["score"] > steps["score_before"]).sum())
    if rising > (0 if ranked else MOST_RISE * neighbours):
        yield (
            f"the scores contradict the {'ranks' if ranked else 'order of the results'}: in "
            f"{rising:,} of {neighbours:,} neighbouring pairs ({rising / neighbours:.1%}) the "
            "later one has the larger score (--lower-is-better is for distances, and for no others)"
        )
    by_score = frame.drop_nulls().sort("query_id", "score", descending=[False, True])
    first = by_score.filter(place_in_query() < FIRST)
    tied = first.filter(pl.struct("query_id", "score").is_duplicated()).height
    if 2 * tied > first.height:
        yield (
            f"the scores are mostly tied: {tied:,} of the {first.height:,} results among the first "
            f"{FIRST} of their query ({tied / first.height:.1%}) share their score with another "
            "one, and are ordered by document id, the last first"
        )


# --- MTEB's files ----------------------------------------------------------------------------


META_KEY = "mteb_model_meta"
NO_NAME = "no_model_name"
"""How the name begins that MTEB gives a model of which it knows none."""


def _read_mteb(path: Path, part: str | None) -> tuple[pl.DataFrame, str | None]:
    """Return the scores of one subset and split, and the model's name where the file gives it."""
    content = read_json(path)
    if not isinstance(content, dict):
        raise InputError(f"{path}: {type(content).__name__} at the top; expected an object")
    meta = content.get(META_KEY)
    model = identifier(
        (isinstance(meta, dict) and meta.get("model_name")) or NO_NAME,
        where=f"{path}, {META_KEY}",
        column="model_name",
    )
    parts = _parts({key: value for key, value in content.items() if key != META_KEY}, path)
    names = ", ".join(sorted(parts)) or "none"
    if part is None and len(parts) != 1:
        raise InputError(f"{path}: {len(parts)} parts ({names}); name one as subset/split")
    chosen = next(iter(parts)) if part is None else part
    if chosen not in parts:
        raise InputError(f"{path}: no part {part!r}; found {names}")
    where = f"{path}, {chosen}" if chosen else str(path)
    frame = nested_pairs(parts[chosen], list(COLUMNS), where)
    return frame, None if model.startswith(NO_NAME) else model


def _parts(body: dict[str, Any], path: Path) -> dict[str, dict[str, Any]]:
    """Return the score objects by ``subset/split``; a bare one has the name ``""``."""
    if all(map(_is_scores, body.values())):
        return {"": body}
    parts = {}
    for subset, splits in body.items():
        if not isinstance(splits, dict):
            raise InputError(
                f"{path}: {subset!r} holds {type(splits).__name__}, not splits; MTEB's results "
                "have no ranking: take its predictions (`prediction_folder=` of mteb.evaluate)"
            )
        for split, scores in splits.items():
            if not isinstance(scores, dict):
                raise InputError(
                    f"{path}: {subset}/{split} holds {type(scores).__name__}, expected "
                    "{query id: {document id: score}}; is it a retrieval task's file?"
                )
            parts[f"{subset}/{split}"] = scores
    return parts


def _is_scores(value: Any) -> bool:
    """Whether a value maps document ids to plain values: an empty or bare ranking."""
    return isinstance(value, dict) and not any(isinstance(v, dict | list) for v in value.values())
