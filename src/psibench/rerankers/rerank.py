"""Stage ``rerank``: a reranker's order of the best documents of a first stage, and its reading."""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain

import polars as pl

from psibench.config.models import RerankModel
from psibench.config.rerankers import RerankerModel
from psibench.rerankers.protocols import Pair, Reranker, has_text
from psibench.rerankers.scoring import (
    FloatArray,
    Load,
    load_when_needed,
    pair_blocks,
    reranker_revision,
    score_texts,
)
from psibench.tables.job import DomainJob, Job
from psibench.tables.ranking import positives_of, rank_documents
from psibench.tables.schemas import CORPUS, QUERIES, RUN, SEEN
from psibench.tables.stage import stage

FLOAT32_STEP = 2.0**-20
"""Of a number, eight times the distance of its neighbours in float32 or more."""


@stage("rerank", version=3, offline=True)
def run_rerank(job: Job, load: Load = load_when_needed) -> None:
    """Rerank the first ``entry.depth`` documents of each query and write the run.

    A reranked document has the reranker's raw score, a logit with most of them: its score in
    [0, 1], which rises with it, is 1.0 in float32 from a logit of 17 on. Documents without text,
    which no reranker is shown, and then those below keep the first stage's order behind them (see
    ``_reranked``). Pairs are looked up in the pair store first, and kept there, domain by domain:
    the texts of one domain are in memory.

    Beside the run it is written what the reranker reads of each query's positive together with the
    query, whether or not the first stage found it: what it would have been given.

    Inputs: ``first_stage``, the RUN of all domains, the same for every reranker; ``corpora``;
    ``queries``; ``judged``, the QUERIES in the documents' language, which name each query's
    positive. ``load`` (id, entry, device=...) -> reranker is called once for all domains, also if
    all pairs are in the store: its fingerprint says where they lie. It is not called if no pair has
    text.

    Raises
    ------
    InputError
        If the run has a document that its domain's corpus has not, a score is no number in [0, 1],
        or the reranker cannot be loaded.
    """
    entry = job.value("entry", RerankModel)
    reranker, device = job.value("reranker", RerankerModel), job.value("device")
    frames, readings, fingerprint = [], [], None
    first, load = job.read("first_stage", RUN), cache(load)
    for domain in job.domains():
        asked, where = domain.read("queries", QUERIES), str(domain)
        positives = positives_of(asked, domain.read("judged", QUERIES))
        ranked = first.join(asked.select(query_id="_id"), on="query_id", how="semi")
        wanted = ranked.filter(pl.col("rank") <= entry.depth)
        texts = _texts_of(domain, [wanted, positives])
        scores, scored_by = score_texts(
            entry.reranker,
            reranker,
            pair_blocks(wanted, asked, texts, where=where),
            load=load,
            store=job.value("store"),
            device=device,
            tokens_per_batch=job.value("tokens_per_batch"),
        )
        frames.append(_reranked(ranked, wanted, scores.raw))
        fingerprint = scored_by or fingerprint
        pairs = chain.from_iterable(pair_blocks(positives, asked, texts, where=where))
        readings.append(
            _read(positives, list(pairs), lambda: load(entry.reranker, reranker, device=device))
        )
    revisions = reranker_revision(entry.reranker, reranker, fingerprint)
    job.write("seen", pl.concat(readings).sort("query_id"), SEEN, revisions=revisions)
    job.write("run", rank_documents(pl.concat(frames)), RUN, revisions=revisions)


def _texts_of(domain: DomainJob, wanted: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Read the documents of pairs: few of a large corpus."""
    ids = pl.concat([pairs.get_column("doc_id") for pairs in wanted]).unique().to_list()
    return domain.columns("corpora", CORPUS, ("_id", "text"), ids=ids)


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
