"""How many planted false negatives each protocol catches, and what else it drops.

    python studies/filters/false_negatives.py [--help]

Half of the queries get a document with their answer: the third of the positive that contains it,
one word in twenty left out, inside another document. The other half get a document on the same
subject without the answer: the positive without the sentence of the answer; some of those documents
still have most words of the query.
"""

import platform
import time
from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl
from asked import JUDGES, grades_of
from near_duplicates import DUPLICATES, KINDS, OTHERS
from planted_corpus import Planted, planted_benchmark
from printed import Page, number, read_options, share
from scored import PANEL, SHORT, opened, pair_scores

from psibench.filters.negatives import (
    AbovePositive,
    FinewebNegatives,
    PosirNegatives,
    Recall,
    Votes,
    decide_candidates,
    decide_final,
    remove_false_negatives,
    with_positives,
)

THRESHOLDS = (0.5, 0.4, 0.3, 0.2, 0.1)
QUANTILES = (0.5, 0.25, 0.1, 0.05)
COLUMNS = ("protocol", *KINDS, "other pairs", "questions with a copy", "questions without")


def on_own_scale(scores: pl.DataFrame, positives: pl.DataFrame) -> pl.DataFrame:
    """Replace every score by the share of positives that score no higher under that reranker."""
    frames = []
    for name in PANEL:
        own = scores.filter(pl.col("reranker") == name)
        known = own.join(positives, on=["query_id", "doc_id"], how="semi")
        sorted_scores = np.sort(known.get_column("score").to_numpy())
        places = np.searchsorted(sorted_scores, own.get_column("score").to_numpy(), side="right")
        frames.append(own.with_columns(score=pl.Series(places / len(sorted_scores))))
    return pl.concat(frames)


def fineweb_settings(
    scores: pl.DataFrame, positives: pl.DataFrame
) -> list[tuple[str, pl.DataFrame, float]]:
    """List label, scores and threshold of every variant of the FineWeb-PosQ protocol."""
    own = on_own_scale(scores, positives)
    fixed = [(f"fineweb_posq, threshold {cut:g}", scores, cut) for cut in THRESHOLDS]
    words = "fineweb_posq, above {:g} of the positives"
    return fixed + [(words.format(cut), own, cut) for cut in QUANTILES]


def decisions(made: Planted, scores: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield each protocol's label and the pairs it calls false negatives."""
    settings = fineweb_settings(scores, made.positives)
    recalled = with_positives(made.pairs, made.positives)
    voted = [
        decide_candidates(
            Votes(protocol="fineweb_posq", rerankers=list(PANEL), threshold=cut), recalled, table
        )
        for _, table, cut in settings
    ]
    hits = [one.filter("is_positive").select("query_id", "doc_id") for one in voted]
    asked = made.texts.join(
        pl.concat(hits).unique(), on=["query_id", "doc_id"], how="semi", maintain_order="left"
    )
    grades = grades_of(asked)
    judging = FinewebNegatives(
        protocol="fineweb_posq",
        recall=Recall(model="bm25"),
        rerankers=list(PANEL),
        judges=list(JUDGES),
    )
    for (label, _, _), one, found in zip(settings, voted, hits, strict=True):
        yield f"{label}: rerankers only", found
        yield label, decide_final(judging, one, grades).filter("is_positive")
    for under in ("any", "all"):
        yield f"posir, {under}", above(made, scores, PANEL, under)
    for name in PANEL:
        yield f"posir, {SHORT[name]} only", above(made, scores, [name], "any")


def above(made: Planted, scores: pl.DataFrame, panel: Sequence[str], under: str) -> pl.DataFrame:
    """Return the PAIR_DECISIONS rows above the positive."""
    rule = AbovePositive.model_validate(
        {"protocol": "posir", "rerankers": list(panel), "under": under}
    )
    decided = decide_candidates(rule, with_positives(made.pairs, made.positives), scores)
    return decided.filter("is_positive")


def row_of(label: str, made: Planted, hits: pl.DataFrame) -> tuple[object, ...]:
    """Return a protocol's row: planted documents caught, by kind, and other pairs."""
    own = made.plants.select("query_id", doc_id="_id", kind="kind")
    found = hits.select("query_id", "doc_id").join(
        own, on=["query_id", "doc_id"], how="left", maintain_order="left"
    )
    cells = []
    for kind in KINDS:
        n_hit = found.filter(pl.col("kind") == kind).height
        cells.append(share(n_hit, own.filter(pl.col("kind") == kind).height))
    n_other = found.filter(pl.col("kind").is_null()).height
    with_copy = own.filter(pl.col("kind").is_in(DUPLICATES)).select("query_id")
    n_hit = hits.join(with_copy, on="query_id", how="semi").get_column("query_id").n_unique()
    n_wrong = hits.get_column("query_id").n_unique() - n_hit
    n_without = own.height - with_copy.height
    return label, *cells, n_other, f"{n_hit} of {with_copy.height}", f"{n_wrong} of {n_without}"


def print_cascade(page: Page, made: Planted, scores: pl.DataFrame) -> None:
    """Print the size of the benchmark without the documents that PosIR's rule removes."""
    rows = []
    for under in ("any", "all"):
        left = remove_false_negatives(
            PosirNegatives(protocol="posir", recall=Recall(model="bm25"), rerankers=list(PANEL)),
            above(made, scores, PANEL, under),
            corpus=made.corpus,
            queries=made.queries,
            qrels=made.qrels,
        )
        gone = made.corpus.join(left.corpus, on="_id", how="anti")
        kinds = gone.join(made.plants.select("_id", "kind"), on="_id", how="left")
        counts = [
            kinds.filter(pl.col("kind").is_in(names)).height for names in (DUPLICATES, OTHERS)
        ]
        n_other = kinds.filter(pl.col("kind").is_null()).height
        n_queries = made.queries.height - left.queries.height
        rows.append((f"posir, {under}", *counts, n_other, n_queries))
    names = ("copies gone", "planted without the answer gone", "original documents gone")
    page.table(("protocol", *names, "questions gone"), rows)


def print_scale(page: Page, made: Planted, scores: pl.DataFrame) -> None:
    """Print where the scores of positives and of planted documents lie."""
    kinds = pl.concat(
        [
            made.positives.with_columns(kind=pl.lit("positives")),
            made.plants.select("query_id", doc_id="_id", kind="kind"),
        ]
    )
    joined = scores.join(kinds, on=["query_id", "doc_id"], how="left")
    joined = joined.with_columns(pl.col("kind").fill_null("other recalled"))
    rows = []
    for kind in ("positives", *KINDS, "other recalled"):
        cells: list[str] = []
        for name in PANEL:
            found = joined.filter((pl.col("kind") == kind) & (pl.col("reranker") == name))
            values = found.get_column("score").to_numpy()
            cells += [number(float(np.median(values))), number(float((values > 0.5).mean()))]
        rows.append((kind, *cells))
    heads = [f"{SHORT[name]}, {what}" for name in PANEL for what in ("median", "above 0.5")]
    page.table(("scores of", *heads), rows)


def main() -> None:
    """Run the study and print its tables."""
    options = read_options(__doc__, documents=300, top_k=100)
    began = time.monotonic()
    page = Page("false_negatives", options.out)
    made = planted_benchmark(options.documents, top_k=options.top_k, seed=options.seed)
    with opened(options.store) as store:
        scores = pair_scores(made.texts, store=store)
    found = made.plants.join(
        made.pairs, left_on=["query_id", "_id"], right_on=["query_id", "doc_id"], how="semi"
    )
    counts = made.plants.get_column("kind").to_list()
    kinds = ", ".join(f"{counts.count(kind)} {kind!r}" for kind in KINDS)
    n_copies = found.filter(pl.col("kind").is_in(DUPLICATES)).height
    page.text(
        f"{made.corpus.height} documents of Python {platform.python_version()}, "
        f"{made.plants.height} planted, one for each of {made.queries.height} queries "
        f"({kinds}); "
        f"{made.pairs.height} pairs recalled (BM25, top {options.top_k}), with "
        f"{n_copies} of the copies and {found.height - n_copies} of the other planted ones."
    )
    page.table(COLUMNS, (row_of(label, made, hits) for label, hits in decisions(made, scores)))
    print_cascade(page, made, scores)
    print_scale(page, made, scores)
    page.write()
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
