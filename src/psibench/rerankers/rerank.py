"""Stage ``rerank``: a reranker's order of the best documents of a first stage, and its reading."""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain
from pathlib import Path

import polars as pl

from psibench.config.model_params import retrieval_params
from psibench.config.models import RerankModel
from psibench.config.rerankers import RerankerModel, reranker_params
from psibench.rerankers.protocols import Pair, Reranker, has_text
from psibench.rerankers.scoring import (
    FloatArray,
    Load,
    load_when_needed,
    pair_blocks,
    reranker_revision,
    score_texts,
)
from psibench.tables import read_table, write_table
from psibench.tables.columns import read_columns
from psibench.tables.derived import derived
from psibench.tables.ranking import positives_of, rank_documents
from psibench.tables.schemas import CORPUS, QUERIES, RUN, SEEN
from psibench.tables.stage import stage

FLOAT32_STEP = 2.0**-20
"""Of a number, eight times the distance of its neighbours in float32 or more."""


@stage("rerank", version=3, offline=True)
def run_rerank(
    entry: RerankModel,
    reranker: RerankerModel,
    *,
    first_stage: str | Path,
    corpora: Sequence[str | Path],
    queries: Sequence[str | Path],
    judged: Sequence[str | Path],
    store: str | Path,
    device: str,
    tokens_per_batch: int,
    run: str | Path,
    seen: str | Path,
    load: Load = load_when_needed,
) -> None:
    """Rerank the first ``entry.depth`` documents of each query and write the run.

    A reranked document has the reranker's raw score, a logit with most of them: its score in
    [0, 1], which rises with it, is 1.0 in float32 from a logit of 17 on. Documents without text,
    which no reranker is shown, and then those below keep the first stage's order behind them (see
    ``_reranked``). Pairs are looked up in the pair store first, and kept there, domain by domain:
    the texts of one domain are in memory.

    Beside the run it is written what the reranker reads of each query's positive together with the
    query, whether or not the first stage found it: what it would have been given.

    Parameters
    ----------
    first_stage
        RUN of all domains, the same for every reranker.
    corpora, queries
        CORPUS and QUERIES tables, domain by domain.
    judged
        QUERIES tables in the documents' language, domain by domain: each query's positive. In one
        language they are ``queries``.
    load
        (id, entry, device=...) -> reranker. Called once for all domains, also if all pairs are in
        the store: its fingerprint says where they lie. Not called if no pair has text.

    Raises
    ------
    InputError
        If the run has a document that its domain's corpus has not, a score is no number in [0, 1],
        or the reranker cannot be loaded.
    """
    frames, readings, fingerprint = [], [], None
    found_first = read_table(first_stage, RUN)
    load = cache(load)
    for corpus, asked_path, judged_path in zip(corpora, queries, judged, strict=True):
        asked = read_table(asked_path, QUERIES)
        positives = positives_of(asked, read_table(judged_path, QUERIES))
        ranked = found_first.join(asked.select(query_id="_id"), on="query_id", how="semi")
        wanted = ranked.filter(pl.col("rank") <= entry.depth)
        found = _texts_of(corpus, [wanted, positives])
        scores, scored_by = score_texts(
            entry.reranker,
            reranker,
            pair_blocks(wanted, asked, found, where=str(corpus)),
            load=load,
            store=store,
            device=device,
            tokens_per_batch=tokens_per_batch,
        )
        frames.append(_reranked(ranked, wanted, scores.raw))
        fingerprint = scored_by or fingerprint
        pairs = chain.from_iterable(pair_blocks(positives, asked, found, where=str(corpus)))
        readings.append(
            _read(positives, list(pairs), lambda: load(entry.reranker, reranker, device=device))
        )
    known = [path for path in judged if path not in queries]
    origin = derived(
        "rerank",
        [first_stage, *corpora, *queries, *known],
        params=retrieval_params(entry) | {"entry": reranker_params(reranker)},
        revisions=reranker_revision(entry.reranker, reranker, fingerprint),
    )
    write_table(pl.concat(readings).sort("query_id"), seen, SEEN, provenance=origin)
    write_table(rank_documents(pl.concat(frames)), run, RUN, provenance=origin)


def _texts_of(corpus: str | Path, wanted: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Read the documents of pairs: few of a large corpus."""
    ids = pl.concat([pairs.get_column("doc_id") for pairs in wanted]).unique().to_list()
    return read_columns(corpus, CORPUS, ("_id", "text"), ids=ids)


def _read(
    positives: pl.DataFrame, pairs: Sequence[Pair], load: Callable[[], Reranker]
) -> pl.DataFrame:
    """Return SEEN rows of pairs; of a pair without text, which no reranker is shown, nothing."""
    ends = [0] * len(pairs)
    if with_text := [i for i, pair in enumerate(pairs) if has_text(pair)]:
        read = load().visible_char_ends([pairs[i] for i in with_text])
        for place, end in zip(with_text, read, strict=True):
            ends[place] = end
    return positives.with_columns(visible_char_end=pl.Series(ends, dtype=pl.Int32))


def _reranked(run: pl.DataFrame, wanted: pl.DataFrame, raw: FloatArray) -> pl.DataFrame:
    """Return the run's rows with scores that put what the reranker scored first.

    With ``floor``, the least raw score of a query (0 if it has none), a row without one (NaN in
    ``raw``) scores floor - step (1 + rank). ``step`` is 1, or more where float32 would not tell
    such numbers apart.
    """
    scored = wanted.select("query_id", "doc_id").with_columns(
        raw=pl.Series(raw, dtype=pl.Float64).fill_nan(None)
    )
    floor = pl.col("raw").min().over("query_id").fill_null(0.0)
    step = pl.max_horizontal(pl.lit(1.0), floor.abs() * FLOAT32_STEP)
    return run.join(scored, on=["query_id", "doc_id"], how="left").select(
        "query_id",
        "doc_id",
        score=pl.coalesce("raw", floor - step * (1 + pl.col("rank"))).cast(pl.Float32),
    )
