"""The pool of a training and its draws: equal sizes and lengths, other positions.

Controlled, sections 3.1.4 and 3.2.2, table 8. The pool is what a benchmark's filters kept. With the
budget b, the smallest cell of length bin and position unless the config says another, a
distribution with the parts (w1, w2, w3) takes floor(b * w / sum of w) examples of each position
from every length bin: the first by a hash of seed and id (`filters.mixtures.draw_order`), so that a
smaller draw is contained in a larger one and that of uniform shares its examples with the others.

Left out of the pool, and counted: queries whose document's exact text is in a corpus that models
are evaluated on (``held_out``), with several positives (``several_positives``: the others would be
negatives in a batch), whose evidence has no single third (``no_position``), about documents
outside of all length bins (``outside_bins``), and about documents of one article with a document
that a test query is about (``same_article``: tables have no titles, so an article is told by its
text, which holds most of the other's words in their order, or is held by it); the first reason of
these counts.

Documents without queries, for PADS, are a pool without a position and without draws: each is an
example under its own id.
"""

import logging
from collections.abc import Sequence
from itertools import pairwise

import polars as pl

from psibench.errors import InputError
from psibench.filters.mixtures import draw_order
from psibench.generate.sampling import bin_numbers
from psibench.tables.columns import read_columns
from psibench.tables.job import Job
from psibench.tables.schemas import CORPUS, QRELS, QUERIES
from psibench.tables.spec import ALL, INT64, STRING, Column, TableSpec
from psibench.tables.stage import stage
from psibench.text.near_duplicates import KnownTexts
from psibench.text.segments import POSITIONS
from psibench.train.sections import POOL, Ratio

logger = logging.getLogger("psibench")

HELD_OUT, SEVERAL_POSITIVES = "held_out", "several_positives"
NO_POSITION, OUTSIDE_BINS, SAME_ARTICLE = "no_position", "outside_bins", "same_article"
REASONS = (HELD_OUT, SEVERAL_POSITIVES, NO_POSITION, OUTSIDE_BINS, SAME_ARTICLE)

TRAINING_PAIRS = TableSpec(
    "training_pairs",
    (
        Column("distribution", STRING, "pool (all that may be drawn), or the draw's name"),
        Column("domain", STRING, "domain of the benchmark"),
        Column("query_id", STRING, "query id"),
        Column("doc_id", STRING, "its positive"),
        Column("length_bin", STRING, "length bin of the positive, characters"),
        Column(
            "position",
            STRING,
            "third that holds the evidence: beginning, middle or end; null: a document alone",
            True,
        ),
    ),
    key=("distribution", "domain", "query_id"),
)

TRAINING_COUNTS = TableSpec(
    "training_counts",
    (
        Column("kind", STRING, "pool; drawn; or left_out of the pool"),
        Column("name", STRING, "pool, the distribution, or the reason to leave out"),
        Column("length_bin", STRING, "length bin of the document, characters; or all"),
        Column("n_beginning", INT64, "examples with evidence in the first third"),
        Column("n_middle", INT64, "in the second third"),
        Column("n_end", INT64, "in the last third"),
        Column("n_examples", INT64, "in all; of those left out also the ones without a third"),
        Column("n_documents", INT64, "distinct documents of theirs"),
        Column("budget", INT64, "examples allowed per length bin; all: their sum", True),
    ),
    key=("kind", "name", "length_bin"),
)


def bin_labels(edges: Sequence[int]) -> list[str]:
    """Name the length bins between some edges, as ``256-512``."""
    return [f"{low}-{high}" for low, high in pairwise(edges)]


def training_pool(
    queries: pl.DataFrame,
    corpus: pl.DataFrame,
    qrels: pl.DataFrame,
    *,
    edges: Sequence[int],
    held_out: pl.Series,
    tested: KnownTexts,
    same_article: float | None,
) -> pl.DataFrame:
    """List a domain's queries as examples, and why some are none.

    ``edges`` are the borders of the length bins, characters; ``held_out`` the texts of documents
    that may not be trained on, ``tested`` those that test queries are about, and ``same_article``
    the overlap with one of these from which on a document is of its article; None: it is of none.
    Returns ``query_id``, ``doc_id``, ``length_bin`` (null outside),
    ``position`` (null if none), ``reason`` (empty for an example), in the order of the queries.
    """
    documents = corpus.select(
        doc_id="_id",
        n_chars="char_length",
        is_held_out=pl.col("text").is_in(held_out.implode()),
    )
    has_queries = not queries.is_empty()
    if has_queries:
        positives = qrels.filter(pl.col("score") > 0).group_by("query-id").len("n_positives")
        asked = (
            queries.select(
                "target_position", "pos_char_span", query_id="_id", doc_id="pos_corpus_id"
            )
            .join(documents, on="doc_id", how="left", maintain_order="left")
            .join(
                positives,
                left_on="query_id",
                right_on="query-id",
                how="left",
                maintain_order="left",
            )
            .with_columns(position=_position())
        )
    else:
        asked = documents.with_columns(
            query_id="doc_id", n_positives=0, position=pl.lit(None, pl.String)
        )
    labels = dict(enumerate(bin_labels(edges)))
    numbers = pl.Series(bin_numbers(asked["n_chars"].to_numpy(), edges))
    bins = numbers.replace_strict(labels, default=None, return_dtype=pl.String)
    reasons = {
        HELD_OUT: pl.col("is_held_out"),
        SEVERAL_POSITIVES: pl.col("n_positives").fill_null(0) > 1,
        NO_POSITION: pl.col("position").is_null() & has_queries,
        OUTSIDE_BINS: pl.col("length_bin").is_null(),
    }
    found = asked.with_columns(length_bin=bins).select(
        "query_id",
        "doc_id",
        "length_bin",
        "position",
        reason=pl.coalesce(
            *(pl.when(holds).then(pl.lit(reason)) for reason, holds in reasons.items()),
            pl.lit(""),
        ),
    )
    if same_article is None or not has_queries:
        return found
    usable = found.filter(reason="").select("doc_id").unique()
    texts = corpus.join(usable, left_on="_id", right_on="doc_id", how="semi").select("_id", "text")
    known = [key for key, text in texts.iter_rows() if tested.overlap(text) >= same_article]
    is_known = pl.col("doc_id").is_in(known) & (pl.col("reason") == "")
    return found.with_columns(
        reason=pl.when(is_known).then(pl.lit(SAME_ARTICLE)).otherwise("reason")
    )


def _position() -> pl.Expr:
    """Return the third that a query was made for; else that in which its span starts."""
    third = pl.col("n_chars") // len(POSITIONS)
    start = pl.col("pos_char_span").arr.first()
    of_span = (
        pl.when(start < third)
        .then(pl.lit(POSITIONS[0]))
        .when(start < 2 * third)
        .then(pl.lit(POSITIONS[1]))
        .when(start.is_not_null())
        .then(pl.lit(POSITIONS[2]))
    )
    targeted = pl.col("target_position")
    return (
        pl.when(targeted.is_not_null())
        .then(pl.when(targeted.is_in(POSITIONS)).then(targeted))
        .otherwise(of_span)
    )


def draw_distributions(
    pool: pl.DataFrame,
    *,
    edges: Sequence[int],
    distributions: dict[str, Ratio],
    budget: int | None,
    seed: int,
) -> tuple[pl.DataFrame, int | None]:
    """Draw every distribution; ``budget`` examples per length bin, None: the smallest cell.

    Returns the TRAINING_PAIRS rows, the pool's first, by length bin, position and place in the
    draw; and the budget. Of documents without queries the pool alone, and None.

    Raises
    ------
    InputError
        If a cell is empty, or too small for the budget given, or a distribution draws nothing.
    """
    labels = bin_labels(edges)
    order = {name: place for place, name in enumerate(labels)}
    places = {name: place for place, name in enumerate(POSITIONS)}
    whole = pool.with_columns(distribution=pl.lit(POOL)).sort(
        pl.col("length_bin").replace_strict(order, return_dtype=pl.Int32),
        pl.col("position").replace_strict(places, return_dtype=pl.Int32),
        "domain",
        "query_id",
    )
    columns = TRAINING_PAIRS.column_names
    if not pool.is_empty() and pool["position"].is_null().all():
        return whole.select(columns), None
    keys = pool.select(pl.concat_str("domain", "query_id", separator="\0")).to_series()
    drawn = pool.with_columns(place=draw_order(keys, seed)).sort("place")
    parts = drawn.partition_by("length_bin", "position", as_dict=True)
    cells = {
        (label, position): parts.get((label, position), drawn.clear())
        for label in labels
        for position in POSITIONS
    }
    if budget is None:
        (label, position), smallest = min(cells.items(), key=lambda cell: cell[1].height)
        budget = smallest.height
        if not budget:
            raise InputError(
                f"training pool: no example of {label} characters, {position}; the smallest cell "
                "is the budget. Use fewer or other `edges`, loosen the benchmark's filters, or "
                "sample more documents"
            )
    pairs = [whole]
    for name, ratio in distributions.items():
        if budget * max(ratio.values()) < sum(ratio.values()):
            raise InputError(
                f"training pool: a budget of {budget} examples per length bin is too few to be "
                f"divided as distribution {name!r} says; raise it, or use fewer `edges`"
            )
        for (label, position), examples in cells.items():
            n_drawn = budget * ratio.get(position, 0) // sum(ratio.values())
            if n_drawn > examples.height:
                raise InputError(
                    f"training pool: {name} takes {n_drawn:,} examples of {label} characters, "
                    f"{position}, and there are {examples.height:,}; lower `budget`, or leave it "
                    "out"
                )
            pairs.append(examples.head(n_drawn).with_columns(distribution=pl.lit(name)))
    return pl.concat(part.select(columns) for part in pairs), budget


def count_examples(
    pairs: pl.DataFrame, left_out: pl.DataFrame, *, edges: Sequence[int], budget: int | None
) -> pl.DataFrame:
    """Count TRAINING_PAIRS by length bin and position, as Controlled's table 8: TRAINING_COUNTS.

    ``left_out`` are rows of `training_pool` with a reason, and ``domain``.
    """
    labels = bin_labels(edges)
    rows = []
    for name, examples in pairs.group_by("distribution", maintain_order=True):
        kind = POOL if name[0] == POOL else "drawn"
        parts = [examples.filter(length_bin=label) for label in labels]
        rows += [
            (kind, name[0], label, *_count(part), budget)
            for label, part in zip(labels, parts, strict=True)
        ]
        rows.append((kind, name[0], ALL, *_count(examples), budget and budget * len(labels)))
    rows += [
        ("left_out", reason, ALL, *_count(left_out.filter(reason=reason)), None)
        for reason in REASONS
    ]
    return pl.DataFrame(rows, schema=TRAINING_COUNTS.empty().schema, orient="row")


def _count(examples: pl.DataFrame) -> tuple[int, ...]:
    thirds = [examples.filter(position=position).height for position in POSITIONS]
    return (*thirds, examples.height, examples.select("domain", "doc_id").n_unique())


@stage("sample_training", version=3)
def run_sample_training(job: Job) -> None:
    """Draw the training sets of all distributions and write TRAINING_PAIRS and TRAINING_COUNTS.

    Inputs: ``queries``, ``corpus`` and ``qrels`` of the pool's benchmark in one language;
    ``held_out``, the corpora that models are evaluated on, and ``held_out_qrels``, their qrels in
    the same order. The parameters are as in the config section `training.ID`. Outputs: ``pairs``
    and ``counts``.

    Raises
    ------
    InputError
        If a cell of length and position has too few examples.
    """
    edges, same_article = job.value("edges", list[int]), job.value("same_article", float | None)
    unseen, tested = held_out_texts(job)
    known = KnownTexts(tested if same_article else [])
    found = pl.concat(
        training_pool(
            domain.read("queries", QUERIES),
            domain.read("corpus", CORPUS),
            domain.read("qrels", QRELS),
            edges=edges,
            held_out=unseen,
            tested=known,
            same_article=same_article,
        ).with_columns(domain=pl.lit(domain.name))
        for domain in job.domains()
    )
    left_out = found.filter(pl.col("reason") != "")
    for reason, n_left_out in left_out.get_column("reason").value_counts(sort=True).iter_rows():
        logger.info("training pool: %d queries left out: %s", n_left_out, reason)
    drawn, budget = draw_distributions(
        found.filter(pl.col("reason") == ""),
        edges=edges,
        distributions=job.value("distributions", dict[str, Ratio]),
        budget=job.value("budget", int | None),
        seed=job.value("sampling_seed", int),
    )
    counts = count_examples(drawn, left_out, edges=edges, budget=budget)
    job.write("pairs", drawn, TRAINING_PAIRS, inputs=job.paths("held_out"))
    job.write("counts", counts, TRAINING_COUNTS, inputs=job.paths("held_out"))


def held_out_texts(job: Job) -> tuple[pl.Series, pl.Series]:
    """Return the texts of all documents held out, and of those a test query is about; each once."""
    every, tested = [CORPUS.empty()["text"]], [CORPUS.empty()["text"]]
    judged = job.read_each("held_out_qrels", QRELS)
    for path, qrels in zip(job.paths("held_out"), judged, strict=True):
        documents = read_columns(path, CORPUS, ["domain", "_id", "text"])
        relevant = qrels.filter(pl.col("score") > 0).select("domain", _id="corpus-id")
        every.append(documents["text"])
        tested.append(documents.join(relevant, on=["domain", "_id"], how="semi")["text"])
    return pl.concat(every).unique(), pl.concat(tested).unique(maintain_order=True)
