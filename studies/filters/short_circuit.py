"""What stopping at a decision saves, rule by rule, and that the same items are kept.

    python studies/filters/short_circuit.py [--help]

Everything is scored once. Then every rule is given only the scores that it asks for, reranker by
reranker, until it is decided; it has to decide as on the complete table.
"""

import platform
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
from asked import JUDGES, draw_documents, grades_of, write_queries
from compared import Row, compared
from planted_corpus import planted_benchmark
from printed import Page, read_options
from scored import PANEL, SHORT, opened, pair_scores, pairs_of_parts, segment_scores

from psibench.build.rules import above_positive, agreement, grades, margin, necessity, negatives
from psibench.build.rules.cube import SPAN_PARTS
from psibench.build.rules.layouts import grade_layout, pair_layout, segment_layout
from psibench.build.rules.targets import targets_of
from psibench.text.segments import POSITIONS

WRONG = 0.2


def part_rows(n_documents: int, seed: int, store: Path) -> Iterator[Row]:
    """Compare the rules over parts of the queries' own documents."""
    documents = draw_documents(n_documents, seed=seed)
    candidates = write_queries(documents, wrong_position=WRONG, seed=seed).candidates
    pairs = pairs_of_parts(candidates, documents, (*POSITIONS, *SPAN_PARTS))
    scores = segment_scores(pairs, store=store)
    judge = JUDGES[:1]
    graded = grades_of(pairs).filter(pl.col("judge").is_in(judge))
    targets, queries = targets_of(candidates), candidates.select(query_id="_id")
    thirds: dict[str, Any] = {
        "items": queries,
        "layout": segment_layout("score"),
        "parts": POSITIONS,
    }
    yield compared(
        "agreement",
        scores,
        needed=partial(agreement.next_agreement_scorings, targets=targets, rerankers=PANEL),
        decide=partial(agreement.decide_agreement, targets=targets, rerankers=PANEL),
        **thirds,
    )
    for floor in (0.0, margin.MARGIN_THRESHOLD):
        yield compared(
            f"margin >= {floor:g}, floor {floor:g}",
            scores,
            needed=partial(
                margin.next_margin_scorings, targets=targets, rerankers=PANEL, floor=floor
            ),
            decide=partial(by_margin, targets=targets, floor=floor),
            **thirds,
        )
    yield compared(
        "span necessity",
        scores,
        needed=partial(necessity.next_necessity_scorings, queries=queries, rerankers=PANEL),
        decide=partial(necessity.decide_necessity, queries=queries, rerankers=PANEL),
        items=queries,
        layout=segment_layout("score"),
        parts=SPAN_PARTS,
    )
    yield compared(
        "segment grades",
        graded,
        needed=partial(grades.next_segment_gradings, targets=targets, judges=judge),
        decide=partial(grades.decide_segment_grades, targets=targets, judges=judge),
        items=queries,
        layout=grade_layout("query_id"),
        parts=POSITIONS,
    )
    yield compared(
        "span grades",
        graded,
        needed=partial(grades.next_span_gradings, queries=queries, judges=judge),
        decide=partial(grades.decide_span_grades, queries=queries, judges=judge),
        items=queries,
        layout=grade_layout("query_id"),
        parts=SPAN_PARTS,
    )


def by_margin(scores: pl.DataFrame, *, targets: pl.DataFrame, floor: float) -> pl.DataFrame:
    """Keep by margin; of the others, the score and the reason may be those of the floor."""
    margins = margin.consensus_margins(scores, targets, rerankers=PANEL, floor=floor)
    return margin.decide_margin(margins, threshold=floor).select("item_id", "kept")


def pair_rows(n_documents: int, top_k: int, seed: int, store: Path) -> Iterator[Row]:
    """Compare the rules over pairs of query and recalled document."""
    made = planted_benchmark(n_documents, top_k=top_k, seed=seed)
    scores = pair_scores(made.texts, store=store)
    both = made.texts.select("query_id", "doc_id")
    layout = pair_layout("score")
    voting: dict[str, Any] = {"pairs": made.pairs, "rerankers": PANEL}
    for threshold in (0.5, 0.2):
        yield compared(
            f"majority of three above {threshold:g}",
            scores,
            needed=partial(negatives.next_reranker_votes, threshold=threshold, **voting),
            decide=partial(negatives.decide_by_rerankers, threshold=threshold, **voting),
            items=made.pairs,
            layout=layout,
        )
    for under in ("any", "all"):
        how: dict[str, Any] = {"positives": made.positives, "under": under, **voting}
        yield compared(
            f"above the positive, {under}",
            scores,
            needed=partial(above_positive.next_above_positive_scorings, **how),
            decide=partial(above_positive.decide_above_positive, **how),
            items=both,
            layout=layout,
        )
    decided = negatives.decide_by_rerankers(scores, threshold=0.2, **voting)
    hits = decided.filter("is_positive").select("query_id", "doc_id")
    yield compared(
        "two of three judges",
        grades_of(made.texts.join(hits, on=["query_id", "doc_id"], how="semi")),
        needed=partial(negatives.next_judge_votes, pairs=hits, judges=JUDGES),
        decide=partial(negatives.decide_by_judges, pairs=hits, judges=JUDGES),
        items=hits,
        layout=grade_layout("query_id", "doc_id"),
    )


def main() -> None:
    """Run the study and print its table."""
    options = read_options(__doc__, documents=120, top_k=50)
    began = time.monotonic()
    page = Page("short_circuit", options.out)
    columns = ("rule", "items", "kept or hit", "complete", "scored", "by scorer", "ratio")
    with opened(options.store) as store:
        rows = [*part_rows(options.documents, options.seed, store)]
        rows += pair_rows(options.documents, options.top_k, options.seed, store)
    page.text(
        f"{options.documents} documents of Python {platform.python_version()}. The panel is "
        f"{', '.join(SHORT.values())}. Every rule decided the same on both tables."
    )
    page.table(columns, rows)
    page.write()
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
