"""Results of several ways to cut a corpus, on the same queries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from psibench.metrics.chunks import PLACES, places_in_chunks, score_queries, with_reach
from psibench.metrics.comparison import simultaneous_differences
from psibench.metrics.constants import FEWEST_DOCUMENTS
from psibench.metrics.psi import mean_interval
from psibench.metrics.query_scores import unit_numbers
from psibench.metrics.sections import evidence_middles, with_sections
from psibench.tables.chunks import rank_run
from psibench.tables.spec import ALL
from psibench.text.segments import POSITIONS

LEVEL = 0.95
AT_K = ("span-recall@5", "span-precision@5", "span-iou@5", "span-in-chunk@5", "ndcg@10")
SETTING_KEYS = ("splitter", "size", "overlap", "unit", "context")
BEST, NOT_APART = "1", "="


@dataclass(frozen=True)
class SettingResult:
    """One way to cut a corpus.

    Attributes
    ----------
    name, setting
        Its name, and the keys of its `Chunks`.
    run
        Ranked chunks: query_id, doc_id, start, end, score, tokens.
    scores
        QUERY_SCORES rows with metrics, and ``third`` and ``place``: the third of the document that
        holds the middle of the evidence, and its place in the chunk that holds it best (`PLACES`;
        null for several spans).
    costs
        Numbers of the index: chunks, index_tokens, index_mb, seconds, and others.
    """

    name: str
    setting: dict[str, Any]
    run: pl.DataFrame
    scores: pl.DataFrame
    costs: Mapping[str, float]


def score_setting(
    run: pl.DataFrame,
    chunks: pl.DataFrame,
    queries: pl.DataFrame,
    *,
    name: str,
    setting: dict[str, Any],
    budgets: Sequence[int],
    costs: Mapping[str, float],
) -> SettingResult:
    """Score the ranked chunks of a setting.

    Parameters
    ----------
    run
        query_id, doc_id, start, end, score, tokens, chunk_id.
    chunks
        doc_id, start, end and reach (see `span_metrics`) of all chunks.
    queries
        Queries with evidence spans and pos_corpus_id; it is each query's only relevant document.
    budgets
        Tokens handed on.
    """
    qrels = queries.select(
        pl.col("_id").alias("query-id"), pl.col("pos_corpus_id").alias("corpus-id"), score=1
    )
    documents, ranked = rank_run(run, source=name)
    assert ranked is not None
    metrics = [*(f"span-recall@{n}tokens" for n in budgets), *AT_K]
    reaching = with_reach(ranked, chunks)
    scores = score_queries(documents, reaching, queries, qrels, metrics=metrics, domain=ALL)
    scores = scores.join(
        thirds_of_evidence(queries), on="query_id", how="left", maintain_order="left"
    )
    scores = scores.join(
        places_in_chunks(chunks, queries), on="query_id", how="left", maintain_order="left"
    )
    kept = ranked.select("query_id", "doc_id", "start", "end", "score", "tokens")
    return SettingResult(name, setting, kept, with_sections(scores, queries), costs)


def thirds_of_evidence(queries: pl.DataFrame) -> pl.DataFrame:
    """Return query_id and ``third``: the third of the document with the middle of the evidence.

    Thirds include their upper edge, as in `relative_bin`; the middle of several spans is the mean
    of their middles.
    """
    lengths = queries.select(query_id="_id", length="pos_char_length")
    middles = evidence_middles(queries).join(lengths, on="query_id", maintain_order="left")
    share = pl.col("middle") * len(POSITIONS) / pl.col("length")
    third = (share.ceil() - 1).clip(0, 2).cast(pl.Int64)
    return middles.select("query_id", third=third.replace_strict(range(3), POSITIONS))


def _cut_share(scores: pl.DataFrame) -> float:
    return float(scores["n_cut"].to_numpy().sum() / scores["n_spans"].to_numpy().sum())


def edge_recall(result: SettingResult, metric: str) -> dict[str, Any]:
    """Return a setting's recall by the place of the evidence in its chunk, with shares of cuts."""
    scores = result.scores
    found = dict(scores.group_by("place").agg(pl.col(metric).mean()).iter_rows())
    n = dict(scores.group_by("place").len().iter_rows())
    return {
        "setting": result.name,
        "cut spans": _cut_share(scores),
        **{name: found.get(name) for name in PLACES},
        **{f"n {name}": n.get(name, 0) for name in PLACES},
    }


def grid_table(
    results: Sequence[SettingResult], *, budget: int
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return a row per setting, and its means by position and tokens handed on.

    The first frame has the mean of ``span-recall@{budget}tokens`` with a 95 % interval; ``mark``:
    the best setting, and settings whose difference from it has a simultaneous interval that
    includes 0 (`simultaneous_differences`); means by third of the document, other metrics, and the
    costs. The second has setting, position (with ``all``), tokens, n_queries and recall.
    """
    metric = f"span-recall@{budget}tokens"
    values = np.array([one.scores[metric].to_numpy() for one in results])
    units = unit_numbers(results[0].scores)
    difference, half = simultaneous_differences(values, units, level=LEVEL)
    best = int(values.mean(axis=1).argmax())
    is_tested = len(np.unique(units)) >= FEWEST_DOCUMENTS
    rows, curves = list[dict[str, Any]](), []
    for number, one in enumerate(results):
        low, high = mean_interval(values[number], units)
        gap, error = float(difference[number, best]), float(half[number, best])
        by_third: dict[str, float] = dict(
            one.scores.group_by("third").agg(pl.col(metric).mean()).iter_rows()
        )
        apart = abs(gap) > error
        row: dict[str, Any] = {"setting": one.name}
        row |= {key: one.setting.get(key) for key in SETTING_KEYS}
        row |= {
            "mean": float(values[number].mean()),
            "low": low if is_tested else None,
            "high": high if is_tested else None,
            "mark": BEST if number == best else "" if apart or not is_tested else NOT_APART,
            "difference": gap,
            "difference_low": gap - error if is_tested else None,
            "difference_high": gap + error if is_tested else None,
            "cut": _cut_share(one.scores),
            "n_queries": one.scores.height,
            "n_units": len(np.unique(units)),
        }
        row |= {name: by_third.get(name) for name in POSITIONS}
        row |= {name: float(one.scores[name].to_numpy().mean()) for name in AT_K}
        rows.append(row | dict(one.costs))
        for name in (
            n for n in one.scores.columns if n.startswith("span-recall@") and n.endswith("tokens")
        ):
            tokens = int(name.removeprefix("span-recall@").removesuffix("tokens"))
            for position in (ALL, *POSITIONS):
                frame = one.scores if position == ALL else one.scores.filter(third=position)
                curves.append((one.name, position, tokens, frame.height, frame[name].mean()))
    heads = ("setting", "position", "tokens", "n_queries", "recall")
    return pl.DataFrame(rows), pl.DataFrame(curves, heads, orient="row")
