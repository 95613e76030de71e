"""Stages ``score_parts`` and ``score_pairs``: one reranker's scores for a filter.

Rerankers score one after the other, the cheapest first, and reranker k only what k - 1 left. Scores
are looked up in the pair store first, and kept there: no pair is scored twice. A text of nothing
gets null; it is not shown to the reranker.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import TypeAdapter

from psibench.config.rerankers import parse_reranker, reranker_params
from psibench.filters.decide import as_table, part_text
from psibench.filters.negatives import PAIR_SCORES, PanelProtocol, recalled_pairs, wanted_pairs
from psibench.filters.verify import SEGMENT_SCORES, Verify, parts_to_score
from psibench.rerankers.protocols import Pair
from psibench.rerankers.scoring import (
    PAIRS_PER_BLOCK,
    Load,
    load_when_needed,
    pair_blocks,
    reranker_revision,
    score_texts,
)
from psibench.tables import read_table, write_table
from psibench.tables.build_schemas import CANDIDATES
from psibench.tables.derived import derived, read_all
from psibench.tables.domains import OutputPath, TablePath
from psibench.tables.schemas import CORPUS, DOCUMENTS, QRELS, QUERIES, RUN
from psibench.tables.slices import Slice
from psibench.tables.spec import TableSpec
from psibench.tables.stage import stage


@stage("score_parts", version=1, each="domains", offline=True)
def run_score_parts(
    scoring: Mapping[str, Any],
    *,
    documents: TablePath,
    candidates: TablePath,
    earlier: Sequence[TablePath],
    store: str | Path,
    device: str,
    tokens_per_batch: int,
    output: OutputPath,
    portion: str = "",
    load: Load = load_when_needed,
) -> None:
    """Score what verification needs of this reranker and write SEGMENT_SCORES.

    ``scoring`` has ``section``, of which the reranker is the last one
    (`VerifySection.score_params`), and its registry ``entry``; ``earlier`` are the score tables of
    the rerankers before it, in order. ``portion``, as ``/2-of-3``, are the queries of a job that
    shares the scores with others (`in_portion`). ``load`` (id, entry, device=...) -> reranker is
    not called if there is nothing to score.

    Raises
    ------
    InputError
        If a score is no number in [0, 1], or the reranker cannot be loaded.
    """
    section = TypeAdapter(Verify).validate_python(scoring["section"])
    asked = in_portion(read_table(candidates, CANDIDATES), "_id", portion)
    wanted = parts_to_score(section, read_all(earlier, SEGMENT_SCORES), asked)
    _score(
        SEGMENT_SCORES,
        wanted,
        _part_blocks(wanted, asked, read_table(documents, DOCUMENTS)),
        reranker=section.rerankers[-1],
        scoring=scoring,
        stage="score_parts",
        inputs=[candidates, documents, *earlier],
        output=output,
        how={"load": load, "store": store, "device": device, "tokens_per_batch": tokens_per_batch},
    )


@stage("score_pairs", version=1, each="domains", offline=True)
def run_score_pairs(
    scoring: Mapping[str, Any],
    *,
    reranker: str,
    corpus: TablePath,
    queries: TablePath,
    qrels: TablePath,
    recall: str | Path,
    earlier: Sequence[TablePath],
    store: str | Path,
    device: str,
    tokens_per_batch: int,
    output: OutputPath,
    top_k: int | None = None,
    portion: str = "",
    load: Load = load_when_needed,
) -> None:
    """Score what the protocol of false negatives needs of this reranker and write PAIR_SCORES.

    As `run_score_parts`, with the ``section`` of `RerankerPanel.panel`. ``recall`` is the run of
    the first-stage search (`recalled_pairs`).

    Raises
    ------
    InputError
        If the run does not fit the corpus, a score is no number in [0, 1], or the reranker cannot
        be loaded.
    """
    panel = TypeAdapter(PanelProtocol).validate_python(scoring["section"])
    asked = read_table(queries, QUERIES)
    found, labelled = read_table(recall, RUN), read_table(qrels, QRELS)
    recalled = in_portion(recalled_pairs(found, asked, labelled, top_k=top_k), "query_id", portion)
    wanted = wanted_pairs(panel, recalled, read_all(earlier, PAIR_SCORES))
    _score(
        PAIR_SCORES,
        wanted,
        pair_blocks(wanted, asked, read_table(corpus, CORPUS), where=str(corpus)),
        reranker=reranker,
        scoring=scoring,
        stage="score_pairs",
        inputs=[recall, corpus, queries, qrels, *earlier],
        output=output,
        how={"load": load, "store": store, "device": device, "tokens_per_batch": tokens_per_batch},
    )


def in_portion(rows: pl.DataFrame, column: str, portion: str) -> pl.DataFrame:
    """Keep the rows of a job's own queries, all of them where ``portion`` is empty."""
    of_job = Slice.parse(portion)
    ids = rows.get_column(column).unique()
    return rows.filter(pl.col(column).is_in([one for one in ids if of_job.has(one)]))


def _score(
    spec: TableSpec,
    wanted: pl.DataFrame,
    blocks: Iterator[list[Pair]],
    *,
    reranker: str,
    scoring: Mapping[str, Any],
    stage: str,
    inputs: Sequence[TablePath],
    output: OutputPath,
    how: Mapping[str, Any],
) -> None:
    """Score the texts and write them beside what was wanted."""
    entry = parse_reranker(scoring["entry"])
    done, fingerprint = score_texts(reranker, entry, blocks, **how)
    params = {"section": scoring["section"], "entry": reranker_params(entry)}
    source = derived(
        stage,
        inputs,
        params=params | {"fingerprint": fingerprint},
        revisions=reranker_revision(reranker, entry, fingerprint),
    )
    scored = wanted.with_columns(
        reranker=pl.lit(reranker), score=pl.Series(done.score), raw=pl.Series(done.raw)
    )
    write_table(as_table(spec, scored), output, spec, provenance=source)


def _part_blocks(
    wanted: pl.DataFrame, candidates: pl.DataFrame, documents: pl.DataFrame
) -> Iterator[list[Pair]]:
    """Yield the (query, text) pairs of all scorings, block by block."""
    texts = dict(documents.select("_id", "text").iter_rows())
    columns = ("_id", "text", "pos_corpus_id", "pos_char_span")
    asked = {row[0]: row[1:] for row in candidates.select(columns).iter_rows()}
    for block in wanted.select("query_id", "part").iter_slices(PAIRS_PER_BLOCK):
        pairs = []
        for query_id, part in block.iter_rows():
            query, doc_id, span = asked[query_id]
            pairs.append((query, part_text(texts[doc_id], span, part)))
        yield pairs
