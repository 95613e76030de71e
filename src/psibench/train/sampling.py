"""The training pool and its draws, which differ in the positions of the evidence.

Controlled, sections 3.1.4 and 3.2.2, table 8. The pool has the queries that a benchmark's filters
kept. The budget b defaults to the size of the smallest cell of length bin and position. A
distribution with parts (w1, w2, w3) draws floor(b * w / sum of w) examples of each position from
every length bin, the first in the order of a hash of seed and id (`filters.mixtures.draw_order`). A
smaller draw is thus a subset of a larger one, and ``uniform`` shares its examples with the others.

The pool excludes and counts the following queries, by the first reason that holds: the exact text
of the document is in an evaluated corpus (``held_out``); the query has several positives
(``several_positives``: the others would be negatives in a batch); the evidence has no single third
(``no_position``); the document is outside all length bins (``outside_bins``); the document shares
an article with the document of a test query (``same_article``: tables have no titles, so two texts
count as one article if they share enough runs of words).

Documents without queries (for PADS) form a pool without positions and draws, with the document id
as the query id.
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
        Column("distribution", STRING, "name of the distribution; pool: all eligible examples"),
        Column("domain", STRING, "domain of the benchmark"),
        Column("query_id", STRING, "query id"),
        Column("doc_id", STRING, "id of the positive document"),
        Column("length_bin", STRING, "length bin of the positive, characters"),
        Column(
            "position",
            STRING,
            "third with the evidence: beginning, middle or end; null: document without query",
            True,
        ),
    ),
    key=("distribution", "domain", "query_id"),
)

TRAINING_COUNTS = TableSpec(
    "training_counts",
    (
        Column("kind", STRING, "pool, drawn, or left_out (excluded from the pool)"),
        Column("name", STRING, "pool, name of the distribution, or reason of the exclusion"),
        Column("length_bin", STRING, "length bin of the document, characters; or all"),
        Column("n_beginning", INT64, "examples with evidence in the first third"),
        Column("n_middle", INT64, "examples with evidence in the second third"),
        Column("n_end", INT64, "examples with evidence in the last third"),
        Column("n_examples", INT64, "all examples, including those without a third"),
        Column("n_documents", INT64, "distinct documents of the examples"),
        Column("budget", INT64, "examples allowed per length bin; in row all: the sum", True),
    ),
    key=("kind", "name", "length_bin"),
)


def bin_labels(edges: Sequence[int]) -> list[str]:
    """Return the labels of the length bins, e.g. ``256-512``."""
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
    """Return a domain's queries as examples, with the reason of each exclusion.

    ``edges`` are the borders of the length bins in characters; ``held_out`` the texts of evaluated
    documents; ``tested`` the texts of documents with test queries; ``same_article`` the least
    overlap with a tested text that excludes a document (None excludes none). Returns ``query_id``,
    ``doc_id``, ``length_bin`` (null outside the bins), ``position`` (null if none) and ``reason``
    (empty for an example), in the order of the queries.
    """
    documents = corpus.select(
        doc_id="_id",
        n_chars="char_length",
        is_held_out=pl.col("text").is_in(held_out.implode()),
    )
    has_queries = not queries.is_empty()
    if has_queries:
        asked = _with_documents(queries, documents, qrels)
    else:
        asked = documents.with_columns(
            query_id="doc_id", n_positives=0, position=pl.lit(None, pl.String)
        )
    labels = dict(enumerate(bin_labels(edges)))
    numbers = pl.Series(bin_numbers(asked["n_chars"].to_numpy(), edges))
    bins = numbers.replace_strict(labels, default=None, return_dtype=pl.String)
    asked = asked.with_columns(length_bin=bins)
    reasons = {
        HELD_OUT: pl.col("is_held_out"),
        SEVERAL_POSITIVES: pl.col("n_positives").fill_null(0) > 1,
        NO_POSITION: pl.col("position").is_null() & has_queries,
        OUTSIDE_BINS: pl.col("length_bin").is_null(),
    }
    first = pl.coalesce(*(pl.when(holds).then(pl.lit(name)) for name, holds in reasons.items()))
    found = asked.select("query_id", "doc_id", "length_bin", "position", reason=first.fill_null(""))
    if same_article is None or not has_queries:
        return found
    usable = found.filter(reason="").select(_id="doc_id").unique()
    texts = corpus.join(usable, on="_id", how="semi").select("_id", "text")
    known = [key for key, text in texts.iter_rows() if tested.overlap(text) >= same_article]
    is_known = pl.col("doc_id").is_in(known) & (pl.col("reason") == "")
    return found.with_columns(
        reason=pl.when(is_known).then(pl.lit(SAME_ARTICLE)).otherwise("reason")
    )


def _with_documents(
    queries: pl.DataFrame, documents: pl.DataFrame, qrels: pl.DataFrame
) -> pl.DataFrame:
    """Return the queries with their documents' columns, ``n_positives`` and ``position``."""
    positives = qrels.filter(pl.col("score") > 0).group_by(query_id="query-id").len("n_positives")
    columns = ("target_position", "pos_char_span")
    return (
        queries.select(*columns, query_id="_id", doc_id="pos_corpus_id")
        .join(documents, on="doc_id", how="left", maintain_order="left")
        .join(positives, on="query_id", how="left", maintain_order="left")
        .with_columns(position=_position())
    )


def _position() -> pl.Expr:
    """Return the third for which a query was generated, else the third in which its span starts."""
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
    """Draw all distributions with ``budget`` examples per length bin (None: the smallest cell).

    Returns TRAINING_PAIRS rows (first the pool, sorted by length bin, position and id; then the
    draws) and the budget. For documents without queries, returns only the pool, and None.

    Raises
    ------
    InputError
        If a cell is empty or too small for the given budget, or a distribution draws nothing.
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
                "sets the budget. Use fewer or other `edges`, loosen the benchmark's filters, or "
                "sample more documents"
            )
    pairs = [whole]
    for name, ratio in distributions.items():
        if budget * max(ratio.values()) < sum(ratio.values()):
            raise InputError(
                f"training pool: a budget of {budget} examples per length bin is too small for "
                f"the parts of distribution {name!r}; raise it or use fewer `edges`"
            )
        for (label, position), examples in cells.items():
            n_drawn = budget * ratio.get(position, 0) // sum(ratio.values())
            if n_drawn > examples.height:
                raise InputError(
                    f"training pool: {name} needs {n_drawn:,} examples of {label} characters, "
                    f"{position}, but the pool has {examples.height:,}; lower `budget` or remove it"
                )
            pairs.append(examples.head(n_drawn).with_columns(distribution=pl.lit(name)))
    return pl.concat(part.select(columns) for part in pairs), budget


def count_examples(
    pairs: pl.DataFrame, left_out: pl.DataFrame, *, edges: Sequence[int], budget: int | None
) -> pl.DataFrame:
    """Return TRAINING_COUNTS: counts by length bin and position, like Controlled's table 8.

    ``pairs`` is TRAINING_PAIRS; ``left_out`` has the rows of `training_pool` with a reason, and the
    column ``domain``.
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
    """Draw the training sets of all distributions; write TRAINING_PAIRS and TRAINING_COUNTS.

    Inputs: ``queries``, ``corpus`` and ``qrels`` of the pool's benchmark in one language;
    ``held_out``, the evaluated corpora; ``held_out_qrels``, their qrels in the same order. The
    parameters are keys of the config section `training.ID`. Outputs: ``pairs`` and ``counts``.

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
    """Return the distinct texts of all held-out documents, and of those with a test query."""
    every, tested = [CORPUS.empty()["text"]], [CORPUS.empty()["text"]]
    judged = job.read_each("held_out_qrels", QRELS)
    for path, qrels in zip(job.paths("held_out"), judged, strict=True):
        documents = read_columns(path, CORPUS, ["domain", "_id", "text"])
        relevant = qrels.filter(pl.col("score") > 0).select("domain", _id="corpus-id")
        every.append(documents["text"])
        tested.append(documents.join(relevant, on=["domain", "_id"], how="semi")["text"])
    return pl.concat(every).unique(), pl.concat(tested).unique(maintain_order=True)
