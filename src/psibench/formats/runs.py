"""Read a run in any supported format, or what a retriever returned, and check and rank it.

The format of a file is known by its suffix or named.

Columns may have the names that ranx (``q_id``), PyTerrier (``qid``, ``docno``) and BEIR
(``query-id``, ``corpus-id``) give them. A ``.tsv`` whose first line is two ids and a whole number
is MS MARCO's, if the numbers of every query are ranks.

Of MTEB (version 2) the prediction files are read: scores per query, under subset and split, as
``{"mteb_model_meta": {"model_name", "revision"}, subset: {split: {query id: {document id:
score}}}}``; a bare ``{query id: {document id: score}}``, as beir, pytrec_eval and ranx have it, is
read as well.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from psibench.errors import InputError
from psibench.formats.checks import (
    keep_known,
    refuse_foreign_documents,
    refuse_unknown_documents,
    spelling_doubts,
)
from psibench.formats.tabular import (
    choose_format,
    is_headerless,
    nested_pairs,
    read_scored_pairs,
    stem,
)
from psibench.lines import read_json
from psibench.metrics.chunks import CHUNK_COLUMNS, rank_run, refuse_beyond, refuse_invalid_chunks
from psibench.reading import identifier, shown
from psibench.tables.ranking import place_in_query, without_identical_ids

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
    frame = _of_chunks(frame, str(path))
    _refuse_lost_scores(frame, str(path))
    return RunFile(frame, model or stem(path), ranks)


def read_results(results: Mapping[Any, Any], *, source: str, chunks: bool = False) -> RunFile:
    """Read what a retriever returned, ``{query id: {document id: score}}``, as `read_run` a file.

    `chunks` : an id may be (document id, start, end); an id alone is a whole document's.

    Raises InputError wherever `read_run` does.
    """
    if not hasattr(results, "items"):
        of_chunks = ", or by (document id, start, end)" if chunks else ""
        raise InputError(
            f"{source}: a retriever returns {{query id: {{document id: score}}}}, scores by id"
            f"{of_chunks}; got {shown(results)}"
        )
    frame = nested_pairs(results, list(COLUMNS), source, chunks=chunks)
    frame = _of_chunks(frame, source, whole_documents=True)
    _refuse_lost_scores(frame, source)
    return RunFile(frame, source)


def _refuse_lost_scores(frame: pl.DataFrame, source: str) -> None:
    score = pl.col("score").cast(pl.Float64)
    lost = frame.filter(score.is_finite() & ~score.cast(pl.Float32).is_finite())
    for query_id, doc_id, found in lost.select(list(COLUMNS)).head(1).iter_rows():
        raise InputError(
            f"{source}: query {query_id!r}, document {doc_id!r} has the score {found}, beyond what "
            f"a 32-bit number holds ({lost.height} such rows); scale the scores"
        )


def _of_chunks(frame: pl.DataFrame, source: str, *, whole_documents: bool = False) -> pl.DataFrame:
    """Return a run's columns, of chunks with where they are, as the rows say.

    `whole_documents` : a row without start and end is a whole document.
    """
    given = [name for name in CHUNK_COLUMNS[1:] if name in frame.columns and frame[name].count()]
    if not given:
        return frame.select(list(COLUMNS))
    if len(given) < 2:
        raise InputError(f"{source}: {given[0]} alone; a chunk has start and end, characters")
    ends = frame.select(*COLUMNS, pl.col(given).cast(pl.Float64, strict=False))
    is_chunk = pl.any_horizontal(pl.col(given).is_not_null())
    refuse_invalid_chunks(ends.filter(is_chunk) if whole_documents else ends, source=source)
    place = pl.format("{} [{}, {})", *CHUNK_COLUMNS)
    return ends.cast(dict.fromkeys(given, pl.Int64)).with_columns(
        chunk_id=pl.coalesce(place, "doc_id")
    )


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


# --- Whether it fits the queries ---------------------------------------------------------------


@dataclass(frozen=True)
class RankedRun:
    """A run that was checked against its queries and ranked.

    `run`, `chunks` : as `rank_run` returns them.
    `warnings` : what may be wrong with it; one line each.
    `n_removed` : results that `without_identical_ids` removed.
    """

    run: pl.DataFrame
    chunks: pl.DataFrame | None
    warnings: tuple[str, ...]
    n_removed: int = 0


IGNORE_UNKNOWN = "leave them out with --ignore-unknown"
LOWER_IS_BETTER = "--lower-is-better is for distances, and for no others"


def rank_file(
    file: RunFile,
    queries: pl.DataFrame,
    relevant: pl.DataFrame,
    *,
    source: str,
    lengths: pl.DataFrame | None = None,
    documents: pl.Series | None = None,
    judged: pl.Series | None = None,
    top_k: int | None = None,
    remove_identical_ids: bool = False,
    ignore_unknown: bool = False,
    remedy: str = IGNORE_UNKNOWN,
    of_distances: str = LOWER_IS_BETTER,
) -> RankedRun:
    """Check a run against its queries, wherever it is from, and rank it.

    Parameters
    ----------
    queries, relevant : columns `_id`; query_id and doc_id of the relevant documents.
    source : what messages call the run.
    lengths : doc_id and length, characters: chunks may not end beyond.
    documents : all ids of the corpus, if they are known; else one of ``judged`` must occur.
    judged : ids of the documents with any grade; None: those of the relevant ones.
    top_k : results that are kept for a query.
    remove_identical_ids : whether rankings are without the document of the query's own id.
    ignore_unknown : whether results of other queries are left out.
    remedy, of_distances : what to do about unknown query ids, and about scores that are distances.

    Raises
    ------
    InputError
        If the run holds none of the queries, or others unless `ignore_unknown`; documents of
        another corpus; a score that is no number; a pair twice; or a chunk beyond its document.
    """
    found = keep_known(
        file.frame, queries, source=source, ignore_unknown=ignore_unknown, remedy=remedy
    )
    kept, n_removed = without_identical_ids(found) if remove_identical_ids else (found, 0)
    run, chunks = rank_run(kept, top_k=top_k, source=source)
    if documents is None:
        ids = relevant.get_column("doc_id") if judged is None else judged
        refuse_foreign_documents(found, ids, source=source)
    else:
        refuse_unknown_documents(found, documents, source=source)
    doubtful = [*doubts(file, of_distances=of_distances)]
    if chunks is not None and lengths is not None:
        refuse_beyond(chunks, lengths, source=source)
    if lacking := queries.height - run.get_column("query_id").n_unique():
        doubtful.insert(0, f"no results for {lacking} queries; they score 0")
    doubtful += spelling_doubts(run, relevant)
    return RankedRun(run, chunks, tuple(doubtful), n_removed)


# --- Whether the scores can be meant as they are ----------------------------------------------

FIRST = 10
"""Results of a query among which ties are counted: those that the headline metrics look at."""
MOST_MERGED = 0.01
"""Of neighbouring results whose scores differ; by chance a few of 64 bits are equal in 32."""
MOST_RISE = 0.9
"""Of neighbours in a file that is not ordered by score, half rise; of one ordered by distance all
do."""


def doubts(file: RunFile, *, of_distances: str = LOWER_IS_BETTER) -> Iterator[str]:
    """Say what speaks against a run's scores: they contradict its order, are tied or become so.

    The order is that of the ranks where the file has them; any contradiction is told then. Else it
    is that of the lines, which may have none: told is only that nearly all scores rise.
    """
    exact = pl.col("score").cast(pl.Float64)
    frame = file.frame.select("query_id", score=exact.cast(pl.Float32), exact=exact)
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
            f"later one has the larger score ({of_distances})"
        )
    by_score = frame.drop_nulls().sort("query_id", "exact", descending=[False, True])
    first = by_score.filter(place_in_query() < FIRST)
    exact, score = (pl.col(name) for name in ("exact", "score"))
    same_query = pl.col("query_id") == pl.col("query_id").shift()
    apart = first.select(merged=score == score.shift()).filter(
        first.select(same_query & (exact != exact.shift())).to_series()
    )
    n_merged = int(apart["merged"].sum())
    if n_merged > MOST_MERGED * apart.height:
        yield (
            f"scores differ by less than 32 bits hold: {n_merged:,} of {apart.height:,} "
            f"neighbouring pairs among the first {FIRST} of their query "
            f"({n_merged / apart.height:.1%}) differ and are tied here; subtract what all scores "
            "have in common"
        )
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
