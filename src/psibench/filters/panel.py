"""Stages ``score_parts`` and ``score_pairs``: one reranker's scores for a filter.

Rerankers score one after another, the cheapest first; each scores only the items that the earlier
ones left undecided. Scores are kept in the pair store, so no pair is scored twice. An empty text
gets null and is not sent to the reranker.
"""

from collections.abc import Iterator

import polars as pl
from pydantic import TypeAdapter

from psibench.config.rerankers import parse_reranker, reranker_params
from psibench.filters.decide import as_table, part_text
from psibench.filters.negatives import PAIR_SCORES, PanelProtocol, recalled_pairs, wanted_pairs
from psibench.filters.verify import SEGMENT_SCORES, Verify, parts_to_score
from psibench.rerankers.protocols import TextPair
from psibench.rerankers.scoring import (
    PAIRS_PER_BLOCK,
    Load,
    load_when_needed,
    pair_blocks,
    reranker_revision,
    score_texts,
)
from psibench.tables.build_schemas import CANDIDATES
from psibench.tables.job import DomainJob, Job
from psibench.tables.schemas import CORPUS, DOCUMENTS, QRELS, QUERIES, RUN
from psibench.tables.slices import Slice
from psibench.tables.spec import TableSpec
from psibench.tables.stage import stage


@stage("score_parts", version=1, offline=True)
def run_score_parts(job: Job, load: Load = load_when_needed) -> None:
    """Score the parts that verification needs from this reranker and write SEGMENT_SCORES.

    Inputs: ``documents``, ``candidates``, and ``earlier``, the tables of the rerankers before it,
    in order. ``scoring`` has the reranker's registry ``entry`` and the ``section``, whose last
    reranker is this one (`VerifySection.score_params`). A job that shares the work with others has
    a ``portion`` of the queries, e.g. ``/2-of-3``. ``load`` (id, entry, device=...) -> reranker is
    only called if something has to be scored.

    Raises
    ------
    InputError
        If a score is not a number in [0, 1], or the reranker cannot be loaded.
    """
    section = TypeAdapter(Verify).validate_python(job.value("scoring")["section"])
    for domain in job.domains():
        candidates = in_portion(domain.read("candidates", CANDIDATES), "_id", job)
        wanted = parts_to_score(section, domain.read("earlier", SEGMENT_SCORES), candidates)
        blocks = _part_blocks(wanted, candidates, domain.read("documents", DOCUMENTS))
        _score(domain, wanted, blocks, SEGMENT_SCORES, reranker=section.rerankers[-1], load=load)


@stage("score_pairs", version=1, offline=True)
def run_score_pairs(job: Job, load: Load = load_when_needed) -> None:
    """Score the pairs that the false negatives need from this reranker and write PAIR_SCORES.

    Like `run_score_parts`, with the ``section`` of `RerankerPanel.panel`. Inputs: ``corpus``,
    ``queries``, ``qrels``, ``earlier`` and ``recall``, the run of the first-stage search
    (`recalled_pairs`).

    Raises
    ------
    InputError
        If the run does not fit the corpus, a score is not a number in [0, 1], or the reranker
        cannot be loaded.
    """
    panel = TypeAdapter(PanelProtocol).validate_python(job.value("scoring")["section"])
    top_k, run = job.value("top_k", int | None, default=None), job.read("recall", RUN)
    for domain in job.domains():
        queries, qrels = domain.read("queries", QUERIES), domain.read("qrels", QRELS)
        recalled = recalled_pairs(run, queries, qrels, top_k=top_k)
        recalled = in_portion(recalled, "query_id", job)
        wanted = wanted_pairs(panel, recalled, domain.read("earlier", PAIR_SCORES))
        corpus = domain.read("corpus", CORPUS)
        blocks = pair_blocks(wanted, queries, corpus, where=str(domain))
        _score(domain, wanted, blocks, PAIR_SCORES, reranker=job.value("reranker"), load=load)


def in_portion(rows: pl.DataFrame, column: str, job: Job) -> pl.DataFrame:
    """Return the rows of the job's queries; all rows if it has no ``portion``."""
    of_job = Slice.parse(job.value("portion", str, default=""))
    ids = rows.get_column(column).unique()
    return rows.filter(pl.col(column).is_in([one for one in ids if of_job.has(one)]))


def _score(
    domain: DomainJob,
    wanted: pl.DataFrame,
    blocks: Iterator[list[TextPair]],
    spec: TableSpec,
    *,
    reranker: str,
    load: Load,
) -> None:
    job, scoring = domain.job, domain.job.value("scoring")
    entry = parse_reranker(scoring["entry"])
    done, fingerprint = score_texts(
        reranker,
        entry,
        blocks,
        load=load,
        store=job.value("store"),
        device=job.value("device"),
        tokens_per_batch=job.value("tokens_per_batch"),
    )
    scored = wanted.with_columns(
        reranker=pl.lit(reranker), score=pl.Series(done.score), raw=pl.Series(done.raw)
    )
    params = {"section": scoring["section"], "entry": reranker_params(entry)}
    domain.write(
        "scores",
        as_table(spec, scored),
        spec,
        params=params | {"fingerprint": fingerprint},
        revisions=reranker_revision(reranker, entry, fingerprint),
    )


def _part_blocks(
    wanted: pl.DataFrame, candidates: pl.DataFrame, documents: pl.DataFrame
) -> Iterator[list[TextPair]]:
    texts = dict(documents.select("_id", "text").iter_rows())
    columns = ("_id", "text", "pos_corpus_id", "pos_char_span")
    by_id = {row[0]: row[1:] for row in candidates.select(columns).iter_rows()}
    for block in wanted.select("query_id", "part").iter_slices(PAIRS_PER_BLOCK):
        pairs = []
        for query_id, part in block.iter_rows():
            query, doc_id, span = by_id[query_id]
            pairs.append((query, part_text(texts[doc_id], span, part)))
        yield pairs
