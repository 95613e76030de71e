"""Stage ``rerank``: rerank a first stage's best documents, and record how much is read."""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain

import numpy as np
import polars as pl

from psibench.config.models import RerankModel
from psibench.config.rerankers import RerankerModel
from psibench.rerankers.protocols import Reranker, TextPair, has_text
from psibench.rerankers.scoring import (
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
"""Relative; at least eight times the distance of neighbouring float32 numbers."""


@stage("rerank", version=3, offline=True)
def run_rerank(job: Job, load: Load = load_when_needed) -> None:
    """Rerank the first ``entry.depth`` documents of each query and write the run.

    Reranked documents get the reranker's raw score, usually a logit, because the score in [0, 1]
    rounds to 1.0 in float32 from a logit of 17 on. Documents without text, which the reranker does
    not score, follow in the first stage's order, and then all lower documents (see ``_reranked``).
    Scores are looked up in the pair store first and are added to it. Domains are processed one by
    one, so that only one domain's texts are in memory.

    The output ``seen`` has how much of each query's positive the reranker would read, whether or
    not the first stage retrieved it.

    Inputs: ``first_stage``, the RUN of all domains, the same for every reranker; ``corpora``;
    ``queries``; ``judged``, the QUERIES in the documents' language, which name each query's
    positive. ``load`` (id, entry, device=...) -> reranker is called once for all domains, even if
    all pairs are in the store, because its fingerprint addresses their scores. It is not called if
    no pair has text.

    Raises
    ------
    InputError
        If the run has a document that is not in its domain's corpus, a score is not in [0, 1], or
        the reranker cannot be loaded.
    """
    entry = job.value("entry", RerankModel)
    reranker, device = job.value("reranker", RerankerModel), job.value("device")
    frames, readings, fingerprint = [], [], None
    first, load = job.read("first_stage", RUN), cache(load)
    for domain in job.domains():
        queries, where = domain.read("queries", QUERIES), str(domain)
        positives = positives_of(queries, domain.read("judged", QUERIES))
        ranked = first.join(queries.select(query_id="_id"), on="query_id", how="semi")
        wanted = ranked.filter(pl.col("rank") <= entry.depth)
        texts = _texts_of(domain, [wanted, positives])
        scores, scored_by = score_texts(
            entry.reranker,
            reranker,
            pair_blocks(wanted, queries, texts, where=where),
            load=load,
            store=job.value("store"),
            device=device,
            tokens_per_batch=job.value("tokens_per_batch"),
        )
        frames.append(_reranked(ranked, wanted, scores.raw))
        fingerprint = scored_by or fingerprint
        pairs = chain.from_iterable(pair_blocks(positives, queries, texts, where=where))
        readings.append(
            _seen(positives, list(pairs), lambda: load(entry.reranker, reranker, device=device))
        )
    revisions = reranker_revision(entry.reranker, reranker, fingerprint)
    job.write("seen", pl.concat(readings).sort("query_id"), SEEN, revisions=revisions)
    job.write("run", rank_documents(pl.concat(frames)), RUN, revisions=revisions)


def _texts_of(domain: DomainJob, wanted: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Read only those documents of the corpus that are in a pair."""
    ids = pl.concat([pairs.get_column("doc_id") for pairs in wanted]).unique().to_list()
    return domain.columns("corpora", CORPUS, ("_id", "text"), ids=ids)


def _seen(
    positives: pl.DataFrame, pairs: Sequence[TextPair], load: Callable[[], Reranker]
) -> pl.DataFrame:
    """Return SEEN rows of pairs; nothing is visible in a pair without text."""
    ends = [0] * len(pairs)
    if with_text := [i for i, pair in enumerate(pairs) if has_text(pair)]:
        visible = load().visible_char_ends([pairs[i] for i in with_text])
        for i, end in zip(with_text, visible, strict=True):
            ends[i] = end
    return positives.with_columns(visible_char_end=pl.Series(ends, dtype=pl.Int32))


def _reranked(run: pl.DataFrame, wanted: pl.DataFrame, raw: np.ndarray) -> pl.DataFrame:
    """Return the run with new scores that rank the reranked documents first.

    With ``floor``, the lowest raw score of a query (0 if it has none), a row without a raw score
    (NaN in ``raw``) gets floor - step (1 + rank). ``step`` is 1, or more if float32 could not
    distinguish such numbers.
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
