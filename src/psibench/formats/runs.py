"""Reading, checking and ranking of runs: files in any supported format, or a retriever's results.

The suffix of a file or an option gives its format.

Columns may have the names of ranx (``q_id``), PyTerrier (``qid``, ``docno``) and BEIR
(``query-id``, ``corpus-id``). A ``.tsv`` whose first line has two ids and a whole number is an MS
MARCO run, if the numbers of every query are ranks.

MTEB (version 2) writes prediction files: scores per query, under subset and split, as
``{"mteb_model_meta": {"model_name", "revision"}, subset: {split: {query id: {document id:
score}}}}``. A plain ``{query id: {document id: score}}``, as in beir, pytrec_eval and ranx, is also
read.
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
from psibench.reading import identifier, shown
from psibench.tables.chunks import (
    CHUNK_COLUMNS,
    CHUNK_ID,
    rank_run,
    refuse_beyond,
    refuse_invalid_chunks,
)
from psibench.tables.ranking import place_in_query, without_identical_ids

RUN_COLUMNS: dict[str, tuple[str, ...]] = {
    "query_id": ("q_id", "qid", "query-id"),
    "doc_id": ("docno", "corpus-id"),
    "score": (),
}
"""Columns of a run -> other names they may have in a file."""
CHUNKS_HINT = "a run of chunks has doc_id, start and end"
HEADERLESS = {
    "trec": ("query_id", "Q0", "doc_id", "rank", "score", "run name"),
    "msmarco": ("query_id", "doc_id", "rank"),
}
"""Fields of a line. As in trec_eval, the order of a TREC run comes from its scores and not from its
ranks. MS MARCO's runs have only ranks; the score is the negative rank."""
RUN_FORMATS: dict[str, tuple[str, ...]] = {
    "parquet": (".parquet", ".parq"),
    "csv": (".csv", ".csv.gz"),
    "tsv": (".tsv", ".tsv.gz"),
    "jsonl": (".jsonl", ".jsonl.gz"),
    "mteb": (".json", ".json.gz"),
    "trec": tuple(s + z for s in (".trec", ".run", ".res", ".txt") for z in ("", ".gz")),
    "msmarco": (),  # .tsv without a header
}
"""Format -> its file suffixes."""


@dataclass(frozen=True)
class RunFile:
    """Scores as read, not yet ranked, and the name of the model.

    `frame` : (n_pairs, 3) query_id, doc_id (String), score (numeric), in file order; for a run of
    chunks (n_pairs, 6), also with chunk_id (String), start and end (Int64), and tokens (Int64) if
    the rows have them. `ranks` : (n_pairs,)
    Int64, the file's ranks, null if not a number; None if the file has no ranks. Documents are
    ranked by their scores, see `doubts`.
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
    """Read a run file: of documents, or of chunks if each row has start and end.

    Raises InputError if the suffix or format is unknown, the format has no parts but one is given,
    the file does not have its format, or chunks have no valid position.

    Parameters
    ----------
    path : the file.
    run_format : a key of `RUN_FORMATS`; None: by the file's suffix.
    part : ``subset/split`` of an MTEB prediction file that has several.
    """
    chosen = choose_format(path, RUN_FORMATS, named=run_format, hint="; set --run-format")
    if chosen == "tsv" and run_format is None and is_headerless(path, HEADERLESS["msmarco"]):
        chosen = "msmarco"
    if part is not None and chosen != "mteb":
        raise InputError(f"{path}: a {chosen} run has no parts; remove the part {part!r}")
    model = ranks = None
    if chosen == "mteb":
        frame, model = _read_mteb(path, part)
    elif chosen == "msmarco":
        ranked = RUN_COLUMNS | {"score": ("rank",)}
        frame = read_scored_pairs(path, chosen, ranked, headerless=HEADERLESS)
        frame = frame.with_columns(-pl.col("score"))
        if run_format is None:
            _refuse_scores(frame, path)
    else:
        frame = read_scored_pairs(
            path,
            chosen,
            RUN_COLUMNS,
            optional=("rank",) if chosen in HEADERLESS else ("rank", "start", "end", "tokens"),
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
    """Read a retriever's results ``{query id: {document id: score}}`` like a run file.

    `chunks` : an id may be (document id, start, end); a plain id is a whole document.

    Raises InputError in the same cases as `read_run`.
    """
    if not hasattr(results, "items"):
        of_chunks = ", or by (document id, start, end)" if chunks else ""
        raise InputError(
            f"{source}: expected {{query id: {{document id: score}}}} from the retriever, with "
            f"scores by id{of_chunks}; found {shown(results)}"
        )
    frame = nested_pairs(results, list(RUN_COLUMNS), source, chunks=chunks)
    frame = _of_chunks(frame, source, whole_documents=True)
    _refuse_lost_scores(frame, source)
    return RunFile(frame, source)


def _refuse_lost_scores(frame: pl.DataFrame, source: str) -> None:
    score = pl.col("score").cast(pl.Float64)
    lost = frame.filter(score.is_finite() & ~score.cast(pl.Float32).is_finite())
    for query_id, doc_id, value in lost.select(list(RUN_COLUMNS)).head(1).iter_rows():
        raise InputError(
            f"{source}: query {query_id!r}, document {doc_id!r} has the score {value}, outside the "
            f"range of 32-bit floats ({lost.height} such rows); scale the scores"
        )


def _of_chunks(frame: pl.DataFrame, source: str, *, whole_documents: bool = False) -> pl.DataFrame:
    """Return a run's columns, with chunk_id, start and end if the rows have them.

    `whole_documents` : a row without start and end is a whole document.
    """
    given = [name for name in CHUNK_COLUMNS[1:] if name in frame.columns and frame[name].count()]
    if not given:
        return frame.select(list(RUN_COLUMNS))
    if len(given) < 2:
        raise InputError(f"{source}: only {given[0]}; a chunk needs start and end, in characters")
    given += ["tokens"] if "tokens" in frame.columns else []
    ends = frame.select(*RUN_COLUMNS, pl.col(given).cast(pl.Float64, strict=False))
    _refuse_odd_tokens(ends, source)
    is_chunk = pl.any_horizontal(pl.col("start", "end").is_not_null())
    refuse_invalid_chunks(ends.filter(is_chunk) if whole_documents else ends, source=source)
    return ends.cast(dict.fromkeys(given, pl.Int64)).with_columns(
        chunk_id=pl.coalesce(CHUNK_ID, "doc_id")
    )


def _refuse_odd_tokens(chunks: pl.DataFrame, source: str) -> None:
    if "tokens" not in chunks.columns:
        return
    tokens = pl.col("tokens")
    odd = chunks.filter((tokens < 0) | (tokens != tokens.round()) | ~tokens.is_finite())
    if not odd.is_empty():
        raise InputError(
            f"{source}: a chunk of document {odd['doc_id'][0]!r} has {odd['tokens'][0]:g} tokens "
            f"({odd.height} such rows); allowed: whole numbers, 0 or more"
        )


def _refuse_scores(frame: pl.DataFrame, path: Path) -> None:
    """Raise InputError if a file without a header has no ranks: scores would be reversed."""
    rank, index = -pl.col("score"), pl.int_range(pl.len()).over("query_id")
    expected = (
        pl.when(index == 0).then(rank.is_in([0.0, 1.0])).otherwise(rank.diff().over("query_id") > 0)
    )
    wrong = frame.filter(~expected | (rank != rank.round()))
    for query_id, doc_id, score in wrong.head(1).iter_rows():
        raise InputError(
            f"{path} has no header, and no ranks like an MS MARCO run, which begin at 0 or 1 and "
            f"rise for each query: query {query_id!r}, document {doc_id!r} has {0 - score:g}. If "
            "these are scores, add a first line with query_id, doc_id, score, separated by tabs; "
            "if they are ranks, add --run-format msmarco"
        )


# --- Checks against the queries ----------------------------------------------------------------


@dataclass(frozen=True)
class RankedRun:
    """A run that was checked against its queries and ranked.

    `run`, `chunks` : as `rank_run` returns them. `warnings` : possible problems, one line each.
    `n_removed` : results that `without_identical_ids` removed.
    """

    run: pl.DataFrame
    chunks: pl.DataFrame | None
    warnings: tuple[str, ...]
    n_removed: int = 0


IGNORE_UNKNOWN = "leave them out with --ignore-unknown"
LOWER_IS_BETTER = "use --lower-is-better only if they are distances"
NOT_LOWER = "leave out --lower-is-better unless they are distances"


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
    """Check a run from any system against its queries, and rank it.

    Parameters
    ----------
    queries, relevant : columns `_id`; query_id and doc_id of the relevant documents.
    source : name of the run in messages.
    lengths : doc_id and length in characters, to check the ends of chunks.
    documents : all ids of the corpus, if known; otherwise the run must have one of ``judged``.
    judged : ids of the documents with any grade; None: of the relevant documents.
    top_k : results to keep per query.
    remove_identical_ids : whether to remove the document with the query's id.
    ignore_unknown : whether to leave out results of unknown queries.
    remedy, of_distances : advice for unknown query ids, and for scores that are distances.

    Raises
    ------
    InputError
        If the run has none of the queries; unknown queries, unless `ignore_unknown`; documents of
        another corpus; a score that is not a number; a pair twice; or a chunk beyond its document.
    """
    results = keep_known(
        file.frame, queries, source=source, ignore_unknown=ignore_unknown, remedy=remedy
    )
    ranked, n_removed = without_identical_ids(results) if remove_identical_ids else (results, 0)
    run, chunks = rank_run(ranked, top_k=top_k, source=source)
    if documents is None:
        ids = relevant.get_column("doc_id") if judged is None else judged
        refuse_foreign_documents(results, ids, source=source)
    else:
        refuse_unknown_documents(results, documents, source=source)
    doubtful = [*doubts(file, of_distances=of_distances)]
    if chunks is not None and lengths is not None:
        refuse_beyond(chunks, lengths, source=source)
    if lacking := queries.height - run.get_column("query_id").n_unique():
        doubtful.insert(
            0, f"no results for {lacking:,} of {queries.height:,} queries; they score 0"
        )
    doubtful += spelling_doubts(run, relevant)
    return RankedRun(run, chunks, tuple(doubtful), n_removed)


# --- Plausibility of the scores ---------------------------------------------------------------

TIE_DEPTH = 10
"""Results per query among which ties are counted; the headline metrics use these results."""
MOST_MERGED = 0.01
"""Largest share of neighbouring results with different 64-bit scores whose 32-bit scores are equal;
a few are equal by chance."""
MOST_RISE = 0.9
"""Largest share of neighbours with rising scores: about half in a file that is not ordered by
score, all in a file ordered by distance."""


def doubts(file: RunFile, *, of_distances: str = LOWER_IS_BETTER) -> Iterator[str]:
    """Yield warnings if a run's scores contradict its order, are tied, or become tied in 32 bits.

    If the file has ranks, they give the order, and any contradiction is reported. Otherwise the
    order of the lines is used, which may be arbitrary: only if nearly all scores rise is this
    reported.
    """
    exact = pl.col("score").cast(pl.Float64)
    frame = file.frame.select("query_id", score=exact.cast(pl.Float32), exact=exact)
    ranked = file.ranks is not None
    order = file.ranks if file.ranks is not None else pl.int_range(frame.height, eager=True)
    in_order = frame.with_columns(order=order).drop_nulls().sort("query_id", "order")
    steps = in_order.with_columns(pl.col("order", "score").shift().name.suffix("_before")).filter(
        pl.col("query_id") == pl.col("query_id").shift(), pl.col("order") > pl.col("order_before")
    )
    neighbours, rising = steps.height, int((steps["score"] > steps["score_before"]).sum())
    if rising > (0 if ranked else MOST_RISE * neighbours):
        yield (
            f"the scores contradict the {'ranks' if ranked else 'order of the results'}: in "
            f"{rising:,} of {neighbours:,} neighbouring pairs ({rising / neighbours:.1%}) the "
            f"later one has the larger score ({of_distances})"
        )
    by_score = frame.drop_nulls().sort("query_id", "exact", descending=[False, True])
    first = by_score.filter(place_in_query() < TIE_DEPTH)
    exact, score = (pl.col(name) for name in ("exact", "score"))
    same_query = pl.col("query_id") == pl.col("query_id").shift()
    apart = first.select(merged=score == score.shift()).filter(
        first.select(same_query & (exact != exact.shift())).to_series()
    )
    n_merged = int(apart["merged"].sum())
    if n_merged > MOST_MERGED * apart.height:
        yield (
            f"scores differ by less than the precision of 32-bit floats: {n_merged:,} of "
            f"{apart.height:,} neighbouring pairs among the first {TIE_DEPTH} of their query "
            f"({n_merged / apart.height:.1%}) differ in the file and are tied here; subtract a "
            "constant from all scores so that they are near 0"
        )
    tied = first.filter(pl.struct("query_id", "score").is_duplicated()).height
    if 2 * tied > first.height:
        yield (
            f"the scores are mostly tied: {tied:,} of the {first.height:,} results among the first "
            f"{TIE_DEPTH} of their query ({tied / first.height:.1%}) share their score with "
            "another result, and are ordered by document id, descending"
        )


# --- MTEB's files ----------------------------------------------------------------------------


META_KEY = "mteb_model_meta"
NO_NAME = "no_model_name"
"""Prefix of the name that MTEB gives a model without a known name."""


def _read_mteb(path: Path, part: str | None) -> tuple[pl.DataFrame, str | None]:
    """Return the scores of one subset and split, and the model's name if the file has it."""
    content = read_json(path)
    if not isinstance(content, dict):
        raise InputError(f"{path}: found a {type(content).__name__}; expected a JSON object")
    meta = content.get(META_KEY)
    model = identifier(
        (isinstance(meta, dict) and meta.get("model_name")) or NO_NAME,
        where=f"{path}, {META_KEY}",
        column="model_name",
    )
    parts = _parts({key: value for key, value in content.items() if key != META_KEY}, path)
    names = ", ".join(sorted(parts)) or "none"
    if part is None and len(parts) != 1:
        raise InputError(f"{path}: {len(parts)} parts ({names}); choose one as subset/split")
    chosen = next(iter(parts)) if part is None else part
    if chosen not in parts:
        raise InputError(f"{path}: no part {part!r}; found {names}")
    where = f"{path}, {chosen}" if chosen else str(path)
    frame = nested_pairs(parts[chosen], list(RUN_COLUMNS), where)
    return frame, None if model.startswith(NO_NAME) else model


def _parts(body: dict[str, Any], path: Path) -> dict[str, dict[str, Any]]:
    """Return the score objects by ``subset/split``; a plain one has the name ``""``."""
    if all(map(_is_scores, body.values())):
        return {"": body}
    parts = {}
    for subset, splits in body.items():
        if not isinstance(splits, dict):
            raise InputError(
                f"{path}: {subset!r} has a {type(splits).__name__}, not splits; MTEB's results "
                "have no ranking: use its predictions (`prediction_folder=` of mteb.evaluate)"
            )
        for split, scores in splits.items():
            if not isinstance(scores, dict):
                raise InputError(
                    f"{path}: {subset}/{split} has a {type(scores).__name__}, expected "
                    "{query id: {document id: score}}; use the file of a retrieval task"
                )
            parts[f"{subset}/{split}"] = scores
    return parts


def _is_scores(value: Any) -> bool:
    """Return whether a value maps document ids to plain values, i.e. is a ranking or empty."""
    return isinstance(value, dict) and not any(isinstance(v, dict | list) for v in value.values())
