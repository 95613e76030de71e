"""Runs of chunks: rankings of documents by their best chunk, and metrics of evidence in chunks.

A chunk is the characters [start, end) of a document. The metrics use the evidence *span*, never a
chunk's id, so the labels are the same for any chunking. Let E be the characters of a query's
evidence, C the characters of its first k chunks from the document with the evidence, and L the sum
of the lengths of its first k chunks, whatever their document:

    span-recall@k     |E and C| / |E|
    span-whole@k      1 if C holds all of E
    span-in-chunk@k   1 if each evidence span is inside one of these chunks
    span-precision@k  |E and C| / L
    span-iou@k        |E and C| / (L + |E| - |E and C|)

Recall, precision and IoU are those of Smith and Troynikov, "Evaluating Chunking Strategies for
Retrieval", 2024, with characters instead of tokens; overlapping chunks count twice in L, as there.
Splitters may strip white space: the white space behind a chunk counts as included. If the texts are
not known, a gap of up to `GAP` characters counts instead, between two parts of a span in C or at
the end of a span (not its start).

``@Ntokens`` instead of ``@k``: the chunks are handed on in their order until they have N tokens,
so that settings with chunks of any size hand on equally much. The chunk that crosses N counts with
the share of its tokens that fit: a metric is its value with this chunk times the share, and
without it times the rest. Cutting the chunk there would favour evidence at the beginning of chunks.
Every chunk counts its tokens, so that overlapping chunks count them twice.

Chunks with equal scores have no order: each metric is the mean over all their orders.

A document has the score of its best chunk (MaxP: Dai and Callan, SIGIR 2019, arXiv:1905.09217). In
a run of documents each document is one chunk.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, permutations
from math import comb, factorial
from typing import Any
from zlib import crc32

import numpy as np
import polars as pl

from psibench.errors import InputError
from psibench.metrics.query_scores import SEVERAL_SPANS, evidence_documents, query_scores
from psibench.metrics.ranking import HEADLINE_METRICS, RankingMetric, parse_metrics
from psibench.tables.build_schemas import TRANSLATED_LENGTH
from psibench.tables.chunks import CHUNK_COLUMNS, TOKENS_HANDED_ON
from psibench.tables.ranking import with_ties

SPAN_KINDS = ("span-recall", "span-whole", "span-in-chunk", "span-precision", "span-iou")
OF_LENGTHS = ("span-precision", "span-iou")
"""Kinds that need the length of every chunk."""
SPAN_METRICS = (
    *(f"span-recall@{k}" for k in (5, 1, 10)),
    "span-whole@10",
    "span-in-chunk@10",
)
"""Default metrics of a run of chunks, in front of `HEADLINE_METRICS`."""
TOKEN_METRIC = f"span-recall@{TOKENS_HANDED_ON}tokens"
"""First default metric if the run has a column `tokens`."""
LENGTH_METRICS = ("span-precision@5", "span-iou@5")
"""Further default metrics if each row has start and end."""
CUT_METRIC = "span-cut"
"""Share of a query's spans that are in no single chunk of their document, whatever was found."""
CHUNK_METRICS = (TOKEN_METRIC, *SPAN_METRICS, *LENGTH_METRICS, CUT_METRIC)
"""Metrics of the workflow's models with chunks."""
LEADING_SPAN_METRICS = (TOKEN_METRIC, SPAN_METRICS[0])
"""Metrics with which results of chunks begin, the first that they have."""
PLACES = ("cut", "edge", "between", "centre")
"""Places of a span in the chunk that holds it best; cut: in no single chunk."""
GAP = 4
"""Characters, e.g. of an empty line, or of a line end with indentation. Windows strip nothing: the
gap behind them is a part of a word."""
MOST_TIED, MOST_ORDERED, DRAWS = 10, 5, 1000
"""Up to ``MOST_TIED`` tied chunks with evidence of a query, all sets of chunks are counted; with
more chunks, ``DRAWS`` sets are drawn, with the query's id as seed. For cut-offs in tokens, all
orders of up to ``MOST_ORDERED`` tied chunks, else ``DRAWS`` orders."""


def default_metrics(chunks: pl.DataFrame | None) -> list[str]:
    """Return the default metrics of a ranked run of chunks, or of documents (None)."""
    if chunks is None:
        return list(HEADLINE_METRICS)
    first = [TOKEN_METRIC] if "tokens" in chunks.columns else []
    last = [] if chunks["start"].null_count() else LENGTH_METRICS
    return [*first, *SPAN_METRICS, *last, *HEADLINE_METRICS]


def document_metrics(metrics: Sequence[str]) -> list[str]:
    """Return the metrics of documents, without span metrics."""
    return [name for name in metrics if name.partition("@")[0] not in SPAN_KINDS]


def score_queries(
    run: pl.DataFrame,
    chunks: pl.DataFrame | None,
    queries: pl.DataFrame,
    qrels: pl.DataFrame,
    *,
    metrics: Sequence[str],
    **further: Any,
) -> pl.DataFrame:
    """Score every query like `query_scores`, also with span metrics.

    ``run`` and ``chunks`` are the result of `rank_run`; ``further`` goes to `query_scores`. Span
    metrics are null for a query without a span.
    """
    parse_metrics(metrics, also=SPAN_KINDS)
    plain = document_metrics(metrics)
    scores = query_scores(run, queries, qrels, metrics=plain, **further)
    if len(plain) == len(metrics):
        return scores
    by_span = span_metrics(run if chunks is None else chunks, queries, qrels, metrics=metrics)
    joined = scores.join(by_span, on="query_id", how="left", maintain_order="left")
    return joined.select(pl.exclude(metrics), *metrics)


def chunk_scores(
    chunks: pl.DataFrame, cut: pl.DataFrame, queries: pl.DataFrame, qrels: pl.DataFrame
) -> pl.DataFrame:
    """Compute the default metrics of chunks, and `CUT_METRIC`, of the queries with a span.

    A translated query has none, because its span has the characters of the original document.

    Parameters
    ----------
    chunks, queries, qrels : as in `span_metrics`, with tokens.
    cut : doc_id, start, end, reach of all chunks of the evidence documents, see `span_metrics`.

    Returns
    -------
    (n_queries with a span, 1 + n_metrics) frame: query_id, then Float64 in [0, 1].
    """
    metrics = [name for name in CHUNK_METRICS if name != CUT_METRIC]
    has_span = pl.col("pos_char_span").is_not_null()
    if SEVERAL_SPANS in queries.columns:
        has_span |= pl.col(SEVERAL_SPANS).is_not_null()
    if TRANSLATED_LENGTH in queries.columns:
        has_span &= pl.col(TRANSLATED_LENGTH).is_null()
    known = queries.filter(has_span)
    if known.is_empty():
        kinds: dict[str, Any] = dict.fromkeys(CHUNK_METRICS, pl.Float64)
        return pl.DataFrame(schema={"query_id": pl.String, **kinds})
    scores = span_metrics(with_reach(chunks, cut), known, qrels, metrics=metrics)
    places = places_in_chunks(cut, known).select(
        "query_id", (pl.col("n_cut") / pl.col("n_spans")).alias(CUT_METRIC)
    )
    return scores.join(places, on="query_id", how="left", maintain_order="left")


def with_reach(chunks: pl.DataFrame, cut: pl.DataFrame) -> pl.DataFrame:
    """Add ``reach`` to ranked chunks, from ``cut`` (at least the chunks of evidence documents)."""
    reach = cut.select(*CHUNK_COLUMNS, "reach").unique(CHUNK_COLUMNS)
    joined = chunks.join(reach, on=CHUNK_COLUMNS, how="left", maintain_order="left")
    return joined.with_columns(pl.coalesce("reach", "end"))


def span_metrics(
    chunks: pl.DataFrame, queries: pl.DataFrame, qrels: pl.DataFrame, *, metrics: Sequence[str]
) -> pl.DataFrame:
    """Compute the span metrics of each query; the kinds are in `SPAN_KINDS`.

    Parameters
    ----------
    chunks : a ranked run with query_id, rank, score, doc_id, start, end, and tokens for cut-offs in
        tokens; without start and end, each document is one chunk. With ``reach``, the end of each
        chunk with the white space behind it, no other gap counts as included.
    queries, qrels : columns of these tables; a span counts up to the end of its document.
    metrics : names; metrics of documents are ignored.

    Returns
    -------
    (n_queries with a span, 1 + n_metrics) frame: query_id, then Float64 in [0, 1].

    Raises
    ------
    InputError
        If no query has a span, or the run lacks columns that a metric needs.
    """
    spans = _spans(queries).filter(pl.col("first") < pl.col("last")).with_row_index("span_index")
    if spans.is_empty():
        raise InputError(
            f"{', '.join(metrics)}: none of the {queries.height} queries has an evidence span; "
            "name metrics of documents, e.g. ndcg@10"
        )
    wanted = [one for one in parse_metrics(metrics, also=SPAN_KINDS) if one.kind in SPAN_KINDS]
    reach, gap = _reach(chunks)
    chunks = with_ties(_with_lengths(chunks, wanted))
    if not any(one.unit for one in wanted):
        chunks = chunks.filter(pl.col("tied_from") <= max(one.k for one in wanted))
    placed = spans.join(evidence_documents(queries, qrels), on="query_id")
    held = _held(placed, chunks, reach, gap)
    scored = spans.select("query_id").unique(maintain_order=True)
    for k, unit in {(one.k, one.unit): None for one in wanted}:
        ordered = _by_tokens(chunks, k) if unit else _by_rank(chunks, k)
        at_k = [one for one in wanted if (one.k, one.unit) == (k, unit)]
        values = _values(spans, ordered, held, at_k, gap)
        scored = scored.join(values, on="query_id", maintain_order="left")
    return scored


def _spans(queries: pl.DataFrame, **further: str) -> pl.DataFrame:
    """Return query_id, first, last, whether the query has one span, and ``further`` columns.

    A span counts up to the end of its document.
    """
    is_known = "pos_char_length" in queries.columns
    length = pl.col("pos_char_length").cast(pl.Int64) if is_known else pl.lit(None, pl.Int64)
    columns: dict[str, Any] = {"query_id": "_id", "length": length, **further}
    one = queries.select(
        **columns, span=pl.col("pos_char_span").cast(pl.List(pl.Int64)), single=True
    )
    if SEVERAL_SPANS in queries.columns:
        lists = pl.col(SEVERAL_SPANS).cast(pl.List(pl.List(pl.Int64)))
        several = queries.select(**columns, span=lists, single=False).explode("span")
        one = pl.concat([one, several])
    span = pl.col("span").list
    end = pl.min_horizontal(span.get(1), "length")
    known = one.drop_nulls("span")
    return known.select("query_id", *further, "single", first=span.get(0), last=end)


def _reach(chunks: pl.DataFrame) -> tuple[str, int]:
    """Return the column with the end of chunks, and the gap behind it that counts as included."""
    return ("reach", 0) if "reach" in chunks.columns else ("end", GAP)


def _held(spans: pl.DataFrame, chunks: pl.DataFrame, reach: str, gap: int) -> pl.DataFrame:
    """Return the characters [low, high) of each span, with its document_id, in each chunk."""
    return (
        spans.join(chunks, left_on=["query_id", "document_id"], right_on=["query_id", "doc_id"])
        .with_columns(
            # `max_horizontal` ignores nulls: a document without start and end is one chunk.
            low=pl.max_horizontal("first", "start"),
            high=pl.min_horizontal("last", reach),
        )
        .filter(pl.col("low") < pl.col("high"))
        .with_columns(
            high=pl.when(pl.col("last") - pl.col("high") > gap).then("high").otherwise("last")
        )
    )


def _values(
    spans: pl.DataFrame,
    ordered: pl.DataFrame,
    held: pl.DataFrame,
    wanted: Sequence[RankingMetric],
    gap: int,
) -> pl.DataFrame:
    """Return query_id and the ``wanted`` metrics at the cut-off that marks ``ordered`` chunks."""
    cases, members = _cases(ordered, held, spans)
    of_spans = _found(ordered, held, cases, members, gap)
    size, found = pl.col("last") - pl.col("first"), pl.col("found").fill_null(0)
    handed_on = pl.col("chars").first()
    kinds = {
        "span-recall": found.sum() / size.sum(),
        "span-whole": (found == size).all().cast(pl.Float64),
        "span-in-chunk": pl.col("is_inside").fill_null(value=False).all().cast(pl.Float64),
        "span-precision": pl.when(handed_on > 0).then(found.sum() / handed_on).otherwise(0.0),
        "span-iou": found.sum() / (handed_on + size.sum() - found.sum()),
    }
    return (
        spans.join(cases, on="query_id")
        .join(of_spans, on=["span_index", "case"], how="left")
        .group_by("query_id", "case", "share")
        .agg(kinds[one.kind].alias(one.name) for one in wanted)
        .sort("query_id", "case")
        .group_by("query_id")
        .agg((pl.col(one.name) * pl.col("share")).sum() for one in wanted)
    )


def _found(
    ordered: pl.DataFrame,
    held: pl.DataFrame,
    cases: pl.DataFrame,
    members: pl.DataFrame,
    gap: int,
) -> pl.DataFrame:
    """Return the ``found`` characters of each span in each case, and if a chunk has all of it."""
    inside = ordered.filter("is_inside").select("query_id", "rank")
    first = held.join(inside, on=["query_id", "rank"]).join(cases, on="query_id")
    tied = held.join(members, on=["query_id", "rank"])
    low, high, order = pl.col("low"), pl.col("high"), ["span_index", "case"]
    size = pl.col("last") - pl.col("first")
    reached = high.cum_max().shift(1).over(order)
    return (
        pl.concat([first.select(tied.columns), tied])
        .sort(*order, "low")
        .with_columns(before=pl.when(low - reached > gap).then(low).otherwise(reached))
        .with_columns(new=(high - pl.coalesce("before", low)).clip(0))
        .group_by(order)
        .agg(found=pl.col("new").sum(), is_inside=(high - low == size).any())
    )


def places_in_chunks(chunks: pl.DataFrame, queries: pl.DataFrame) -> pl.DataFrame:
    """Return query_id, ``place`` and ``n_cut`` of each query with a span.

    ``chunks`` has doc_id, start and end, and maybe ``reach`` (see `span_metrics`).
    ``n_cut`` is the number of its spans that are in no single chunk, as in ``span-in-chunk``, and
    ``n_spans`` their number.
    ``place`` is for a query with one span: cut, else by the distance of the span's middle from the
    nearer end of a chunk that holds the span, as a share of half the chunk, in the chunk with the
    largest share: edge up to 1/3, between up to 2/3, centre above.
    """
    reach, gap = _reach(chunks)
    spans = _spans(queries, doc_id="pos_corpus_id").with_row_index("span_index")
    first, last, start, end = (pl.col(name) for name in ("first", "last", "start", "end"))
    middle = (first + last) / 2
    share = pl.min_horizontal(middle - start, end - middle) / ((end - start) / 2)
    held = (
        spans.join(chunks, on="doc_id")
        .filter((start <= first) & (first < end) & (last - pl.col(reach) <= gap))
        .group_by("span_index")
        .agg(share=share.max())
    )
    number = (pl.col("share") * 3).floor().clip(0, 2).cast(pl.Int64) + 1
    placed = spans.join(held, on="span_index", how="left", maintain_order="left").with_columns(
        place=number.fill_null(0).replace_strict(range(4), PLACES)
    )
    return placed.group_by("query_id", maintain_order=True).agg(
        place=pl.when(pl.col("single").first()).then(pl.col("place").first()),
        n_cut=(pl.col("place") == PLACES[0]).sum(),
        n_spans=pl.len(),
    )


def short_lists(chunks: pl.DataFrame, metrics: Sequence[str]) -> tuple[int, int]:
    """Return how many queries have fewer tokens in the run than a metric counts, and the metric's.

    The run's columns are as in `span_metrics`; (0, 0) without a cut-off in tokens.
    """
    budgets = [one.k for one in parse_metrics(metrics, also=SPAN_KINDS) if one.unit]
    if not budgets or "tokens" not in chunks.columns:
        return 0, 0
    sums = chunks.group_by("query_id").agg(pl.col("tokens").sum())
    return sums.filter(pl.col("tokens") < max(budgets)).height, max(budgets)


def _with_lengths(chunks: pl.DataFrame, wanted: Sequence[RankingMetric]) -> pl.DataFrame:
    """Add missing columns of a run; raise InputError if a metric needs them."""
    of_lengths = [one.name for one in wanted if one.kind in OF_LENGTHS]
    if of_lengths and ("start" not in chunks.columns or chunks["start"].null_count()):
        raise InputError(
            f"{', '.join(of_lengths)}: for runs of chunks, in which each row has doc_id, start and "
            "end; some rows here are whole documents"
        )
    if "start" not in chunks.columns:
        chunks = chunks.with_columns(start=pl.lit(None, pl.Int64), end=pl.lit(None, pl.Int64))
    of_tokens = [one.name for one in wanted if one.unit]
    if of_tokens and ("tokens" not in chunks.columns or chunks["tokens"].null_count()):
        raise InputError(
            f"{', '.join(of_tokens)}: the run does not have the tokens of every chunk; add a "
            "column `tokens`, counted by the same tokenizer for all runs, or use a metric that "
            f"counts chunks, e.g. {wanted[0].kind}@5"
        )
    return chunks.with_columns(chars=(pl.col("end") - pl.col("start")).fill_null(0))


def _by_rank(chunks: pl.DataFrame, k: int) -> pl.DataFrame:
    """Mark the chunks of the first k ranks, and the tied chunks at rank k.

    Adds ``is_inside``, ``is_open``, and ``room``: how many of the open chunks are handed on.
    """
    return chunks.with_columns(
        is_inside=pl.col("tied_to") <= k,
        is_open=(pl.col("tied_from") <= k) & (pl.col("tied_to") > k),
        room=(k + 1 - pl.col("tied_from")).cast(pl.Int64),
        cost=pl.lit(None, pl.Int64),
    )


def _by_tokens(chunks: pl.DataFrame, budget: int) -> pl.DataFrame:
    """Mark the chunks within a number of tokens, and the tied chunks at its end.

    Columns as in `_by_rank`; ``room`` are the tokens left for the open chunks, ``cost`` the tokens
    of a chunk.
    """
    cost, block = pl.col("cost"), ["query_id", "tied_from"]
    counted = chunks.sort("query_id", "rank").with_columns(cost=pl.col("tokens").cast(pl.Int64))
    counted = counted.with_columns(before=cost.cum_sum().over("query_id") - cost)
    counted = counted.with_columns(
        before=pl.col("before").min().over(block), within=cost.sum().over(block)
    )
    before, within = pl.col("before"), pl.col("within")
    return counted.with_columns(
        is_inside=before + within <= budget,
        is_open=(before <= budget) & (before + within > budget),
        room=budget - before,
    )


def _cases(
    ordered: pl.DataFrame, held: pl.DataFrame, spans: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the possible cases at the cut-off, and the open chunks in each case.

    The first frame has query_id, case, the case's share of all orders (1 without open chunks that
    hold evidence), and chars, the length of all chunks handed on. The second has query_id, case,
    and the rank of each open chunk in it.
    """
    inside = ordered.group_by("query_id").agg(
        inside_chars=pl.col("chars").filter(pl.col("is_inside")).sum()
    )
    blocks = (
        ordered.filter("is_open")
        .group_by("query_id", maintain_order=True)
        .agg("rank", "chars", "cost", pl.col("room").first())
        .join(inside, on="query_id")
    )
    known = held.group_by("query_id").agg(held=pl.col("rank").unique())
    cases, members = [], []
    for query_id, ranks, chars, cost, room, before, of_query in blocks.join(
        known, on="query_id", how="left", maintain_order="left"
    ).iter_rows():
        holding = [i for i, rank in enumerate(ranks) if rank in set(of_query or ())]
        if cost[0] is None:
            sets = _sets(holding, chars, n_taken=room, seed=query_id)
        else:
            sets = _orders(holding, chars, cost, budget=room, seed=query_id)
        for case, (share, taken, length) in enumerate(sets):
            cases.append((query_id, case, share, before + length))
            members += [(query_id, case, ranks[i]) for i in taken]
    schema: dict[str, Any] = {"query_id": pl.String, "case": pl.Int32}
    further = {"share": pl.Float64, "chars": pl.Float64}
    made = pl.DataFrame(cases, schema=schema | further, orient="row")
    closed = spans.select("query_id").unique().join(made, on="query_id", how="anti")
    closed = closed.join(inside, on="query_id", how="left").select(
        "query_id",
        case=pl.lit(0, pl.Int32),
        share=pl.lit(1.0),
        chars=pl.col("inside_chars").fill_null(0).cast(pl.Float64),
    )
    table = pl.DataFrame(members, schema=schema | {"rank": pl.Int32}, orient="row")
    return pl.concat([made, closed]), table


Case = tuple[float, tuple[int, ...], float]
"""Share of all orders, the open chunks with evidence in it, and the characters handed on."""


def _sets(
    holding: Sequence[int], chars: Sequence[int], *, n_taken: int, seed: str
) -> Iterator[Case]:
    """Yield the possible sets of ``n_taken`` tied chunks.

    Chunks without evidence count with their mean length.
    """
    n_tied, n_others = len(chars), len(chars) - len(holding)
    others = (sum(chars) - sum(chars[i] for i in holding)) / max(1, n_others)

    def length(taken: Sequence[int]) -> float:
        return sum(chars[i] for i in taken) + (n_taken - len(taken)) * others

    if len(holding) > MOST_TIED:
        draw = np.random.default_rng(crc32(seed.encode()))
        for _ in range(DRAWS):
            drawn = draw.choice(n_tied, n_taken, replace=False)
            taken = tuple(holding[i] for i in sorted(drawn) if i < len(holding))
            yield 1 / DRAWS, taken, length(taken)
        return
    for size in range(max(0, n_taken - n_others), min(len(holding), n_taken) + 1):
        share = comb(n_others, n_taken - size) / comb(n_tied, n_taken)
        for taken in combinations(holding, size):
            yield share, taken, length(taken)


def _orders(
    holding: Sequence[int],
    chars: Sequence[int],
    cost: Sequence[int],
    *,
    budget: int,
    seed: str,
) -> Iterator[Case]:
    """Yield the cases of tied chunks that are handed on until they cost the budget.

    Each order has two: with the chunk that crosses the budget, and without it.
    """
    n_tied, hold = len(chars), set(holding)
    orders: Iterable[Sequence[int]] = permutations(range(n_tied))
    n_orders = factorial(n_tied) if n_tied <= MOST_ORDERED else DRAWS
    if n_tied > MOST_ORDERED:
        draw = np.random.default_rng(crc32(seed.encode()))
        orders = (draw.permutation(n_tied).tolist() for _ in range(DRAWS))
    for order in orders:
        left, length, taken = budget, 0.0, list[int]()
        for last in order:
            if cost[last] > left:
                break
            left -= cost[last]
            length += chars[last]
            taken += [last] if last in hold else []
        part = left / cost[last]
        length += part * chars[last]
        if last in hold:
            yield part / n_orders, (*taken, last), length
        yield (1 - part * (last in hold)) / n_orders, tuple(taken), length
