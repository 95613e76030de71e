from collections import Counter
from itertools import pairwise, permutations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from psibench.errors import InputError
from psibench.metrics.chunks import GAP, score_queries, span_metrics, with_reach
from psibench.tables.chunks import rank_run

QRELS = {"query-id": ["q", "p"], "corpus-id": ["d", "e"], "score": [1, 1]}


def queries(span, several=None, length=100):
    """Query q with its evidence in d, and p with all of e."""
    return pl.DataFrame(
        {
            "_id": ["q", "p"],
            "pos_corpus_id": ["d", "e"],
            "pos_char_span": [span, [0, 10]],
            "pos_char_spans": [several, None],
            "pos_char_length": [length, 10],
            "pos_token_length": [None, None],
            "target_position": ["beginning", None],
        },
        schema_overrides={
            "pos_char_spans": pl.List(pl.List(pl.Int64)),
            "pos_token_length": pl.Int64,
        },
    )


def chunk_run(places):
    """Chunks in the order of their ranks."""
    rows = [("q", f"{n:03d}", *place, float(-n)) for n, place in enumerate(places)]
    names = ["query_id", "chunk_id", "doc_id", "start", "end", "score"]
    return pl.DataFrame(rows, schema=names, orient="row")


# Ranks:      1              2               3              4
RANKED = [("d", 10, 30), ("e", 0, 10), ("d", 25, 50), ("d", 0, 100)]


@pytest.mark.parametrize(
    ("span", "several", "expected"),
    [
        # [20, 40): 10 of 20 characters by rank 1 and 2; all by 3, cut in two; in one chunk by 4.
        ([20, 40], None, {1: (0.5, 0, 0), 2: (0.5, 0, 0), 3: (1, 1, 0), 4: (1, 1, 1)}),
        ([12, 28], None, {1: (1, 1, 1), 4: (1, 1, 1)}),
        ([60, 70], None, {1: (0, 0, 0), 3: (0, 0, 0), 4: (1, 1, 1)}),
        # Two spans of 10 characters, in a chunk each; only the first is half.
        (None, [[10, 20], [40, 50]], {1: (0.5, 0, 0), 3: (1, 1, 1)}),
        # [45, 60) is not whole in any of the first three: 5 and 10 of 25.
        (None, [[10, 20], [45, 60]], {3: (15 / 25, 0, 0)}),
        # Cutters strip white space: [20, 54) ends 4 characters after [25, 50), not 5.
        ([20, 54], None, {1: (10 / 34, 0, 0), 3: (1, 1, 0)}),
        ([20, 55], None, {3: (30 / 35, 0, 0)}),
        # What is beyond the document is nowhere.
        ([90, 120], None, {3: (0, 0, 0), 4: (1, 1, 1)}),
    ],
)
def test_evidence_in_the_first_chunks(span, several, expected):
    run, chunks = rank_run(chunk_run(RANKED))
    for k, values in expected.items():
        names = [f"span-recall@{k}", f"span-whole@{k}", f"span-in-chunk@{k}", "mrr@10"]
        found = score_queries(
            run, chunks, queries(span, several), pl.DataFrame(QRELS), metrics=names, domain="all"
        )
        assert found.columns[-4:] == names
        # q's document is found by its best chunk; nothing is found for p.
        assert found.filter(query_id="q").select(names).row(0) == (*map(float, values), 1.0)
        assert found.filter(query_id="p").select(names).row(0) == (0.0, 0.0, 0.0, 0.0)


def test_white_space_behind_a_chunk_is_known_from_the_text():
    # The first chunk has 10 characters of white space behind it, the second none.
    ranked = chunk_run([("d", 0, 20), ("d", 30, 47)])
    cut = pl.DataFrame({"doc_id": ["d", "d"], "start": [0, 30], "end": [20, 47], "reach": [30, 47]})
    _, chunks = rank_run(ranked)
    metrics = [f"{kind}@2" for kind in ("span-recall", "span-whole", "span-in-chunk")]
    for span, expected in {
        (10, 30): (1, 1, 1),
        (10, 40): (1, 1, 0),
        (40, 50): (0.7, 0, 0),  # three letters of a word are in the next window
    }.items():
        judged = queries([*span]), pl.DataFrame(QRELS)
        found = span_metrics(with_reach(chunks, cut), *judged, metrics=metrics)
        assert found.filter(query_id="q").row(0)[1:] == pytest.approx(expected)


def test_a_document_without_places_is_one_chunk():
    run, chunks = rank_run(pl.DataFrame({"query_id": ["q"], "doc_id": ["d"], "score": [1.0]}))
    assert chunks is None
    found = span_metrics(run, queries([20, 40]), pl.DataFrame(QRELS), metrics=["span-in-chunk@1"])
    assert found.rows() == [("q", 1.0), ("p", 0.0)]


def test_evidence_known_by_class_has_no_recall_of_spans():
    run, chunks = rank_run(chunk_run(RANKED))
    options = {"metrics": ["ndcg@10", "span-recall@1"], "domain": "all"}
    found = score_queries(run, chunks, queries(None), pl.DataFrame(QRELS), **options)
    assert dict(found.select("query_id", "span-recall@1").iter_rows()) == {"q": None, "p": 0.0}
    alone = options | {"metrics": ["span-recall@1"]}
    alone = score_queries(run, chunks, queries(None), pl.DataFrame(QRELS), **alone)
    assert alone.equals(found.drop("ndcg@10"))
    by_class, qrels = queries(None).head(1), pl.DataFrame(QRELS).head(1)
    with pytest.raises(InputError, match="none of the 1 queries has an evidence span"):
        score_queries(run, chunks, by_class, qrels, **options)


places = st.tuples(st.sampled_from("de"), st.integers(0, 20), st.integers(1, 12)).map(
    lambda one: (one[0], one[1], one[1] + one[2])
)


def closed(chunks, start, end):
    """The characters of a span in these chunks, with the gaps that are closed."""
    held = sorted(set().union(*chunks) & set(range(start, end)))
    gaps = zip(held, [*held[1:], end], strict=False)
    return set(held).union(*(range(a, b) for a, b in gaps if b - a - 1 <= GAP))


@settings(deadline=None, max_examples=60)
@given(ranked=st.lists(places, max_size=8), cuts=st.sets(st.integers(0, 30), min_size=2))
def test_coverage_is_that_of_sets_of_characters(ranked, cuts):
    ends = sorted(cuts)[: len(cuts) // 2 * 2]
    spans = [list(pair) for pair in zip(ends[::2], ends[1::2], strict=True)]
    _, chunks = rank_run(chunk_run(ranked)) if ranked else rank_run(chunk_run(RANKED).clear())
    metrics = [f"{kind}@3" for kind in ("span-recall", "span-whole", "span-in-chunk")]
    found = span_metrics(
        chunks, queries(None, spans, length=40), pl.DataFrame(QRELS), metrics=metrics
    )
    own = [set(range(start, end)) for doc, start, end in ranked[:3] if doc == "d"]
    parts = [(closed(own, *span), [closed([one], *span) for one in own], span) for span in spans]
    sizes = [end - start for start, end in spans]
    expected = (
        sum(len(held) for held, *_ in parts) / sum(sizes),
        float(all(len(held) == end - start for held, _, (start, end) in parts)),
        float(all(any(len(one) == end - start for one in each) for _, each, (start, end) in parts)),
    )
    assert found.filter(query_id="q").row(0)[1:] == pytest.approx(expected)


def tied_run(places, scores):
    """Chunks with these scores; the ids follow the starts."""
    rows = [
        ("q", f"{doc}{start:03d}", doc, start, end, score)
        for (doc, start, end), score in zip(places, scores, strict=True)
    ]
    names = ["query_id", "chunk_id", "doc_id", "start", "end", "score"]
    return pl.DataFrame(rows, schema=names, orient="row", schema_overrides={"score": pl.Float64})


def span_scores(run, metrics, span=None, several=None, length=100):
    """The metrics of query q, with its evidence in d."""
    _, chunks = rank_run(run)
    asked = queries(span, several, length)
    found = span_metrics(chunks, asked, pl.DataFrame(QRELS), metrics=metrics)
    return found.filter(query_id="q").row(0)[1:]


@pytest.mark.parametrize("span", [[0, 10], [10, 20]])
def test_early_and_late_evidence_in_tied_chunks_score_alike(span):
    run = tied_run([("d", 0, 10), ("d", 10, 20)], [1, 1])
    # One of the two is first, each in half of the orders.
    assert span_scores(run, ["span-recall@1", "span-in-chunk@1"], span) == (0.5, 0.5)
    assert span_scores(run, ["span-recall@2", "span-in-chunk@2"], span) == (1.0, 1.0)


def test_ties_count_by_the_chance_of_each_set():
    places = [("d", 0, 10), ("d", 10, 20), ("e", 0, 10), ("e", 10, 20), ("d", 50, 60)]
    run = tied_run(places, [1, 1, 1, 1, 2])
    metrics = [f"{kind}@3" for kind in ("span-recall", "span-whole", "span-in-chunk")]
    # Behind [50, 60) two of four: both of [0, 20) in 1 of 6 sets, one in 4, none in 1.
    assert span_scores(run, metrics, [0, 20]) == pytest.approx((1 / 2, 1 / 6, 0))
    assert span_scores(run, metrics, None, [[0, 10], [10, 20]]) == pytest.approx(
        (1 / 2, 1 / 6, 1 / 6)
    )


def test_many_tied_chunks_are_drawn_without_favour():
    run = tied_run([("d", 10 * i, 10 * i + 10) for i in range(40)], [1] * 40)
    # Ten of 40 chunks, wherever the evidence is: a quarter.
    for span, error in (([0, 400], 1e-9), ([0, 150], 0.02), ([250, 400], 0.02)):
        (recall,) = span_scores(run, ["span-recall@10"], span, length=400)
        assert recall == pytest.approx(0.25, abs=error)


def test_top_k_keeps_chunks_that_tie_with_the_last():
    places = [("d", 0, 10), ("d", 10, 20), ("e", 0, 10), ("e", 10, 20)]
    documents, chunks = rank_run(tied_run(places, [2, 1, 1, 0]), top_k=2)
    assert chunks.get_column("chunk_id").sort().to_list() == ["d000", "d010", "e000"]
    assert documents.get_column("doc_id").to_list() == ["d", "e"]


@settings(deadline=None, max_examples=60)
@given(
    ranked=st.lists(places, min_size=1, max_size=7, unique=True),
    scores=st.lists(st.integers(1, 2), min_size=7, max_size=7),
    span=st.tuples(st.integers(0, 25), st.integers(1, 12)).map(lambda s: [s[0], s[0] + s[1]]),
)
def test_ties_are_averaged_over_all_orders(ranked, scores, span):
    """Against the metrics of every order, each with scores that do not tie."""
    scores, metrics = scores[: len(ranked)], ["span-recall@3", "span-whole@3", "span-in-chunk@3"]
    orders = [
        order
        for order in permutations(range(len(ranked)))
        if all(scores[a] >= scores[b] for a, b in pairwise(order))
    ]
    first = {frozenset(order[:3]): order for order in orders}  # one order of each set
    times = Counter(frozenset(order[:3]) for order in orders)
    values = [
        span_scores(chunk_run([ranked[i] for i in first[one]]), metrics, span) for one in times
    ]
    expected = np.average(values, axis=0, weights=[*times.values()])
    ids = [f"{doc}{start:03d}-{end:03d}" for doc, start, end in ranked]
    run = tied_run(ranked, scores).with_columns(chunk_id=pl.Series(ids))
    assert span_scores(run, metrics, span) == pytest.approx(tuple(expected))


def with_token_counts(run, counts):
    return run.with_columns(tokens=pl.Series(counts, dtype=pl.Int64))


def test_chunks_are_handed_on_until_the_tokens_are_used():
    run = with_token_counts(
        tied_run([("d", 0, 10), ("e", 0, 9), ("d", 10, 20)], [3, 2, 1]), [4, 2, 4]
    )
    metrics = ["span-recall@6tokens", "span-recall@9tokens", "span-recall@99tokens"]
    # The third chunk begins after 6 tokens; of its 4 tokens, 3 fit into 9.
    assert span_scores(run, metrics, [10, 20]) == pytest.approx((0, 0.75, 1))
    assert span_scores(run, metrics, [0, 10]) == pytest.approx((1, 1, 1))
    assert span_scores(run, ["span-recall@1tokens"], [5, 15]) == pytest.approx((0.25 * 0.5,))


def test_precision_and_iou_divide_by_all_that_is_handed_on():
    run = tied_run([("d", 0, 10), ("e", 0, 20), ("d", 5, 15)], [3, 2, 1])
    metrics = [f"{kind}@{k}" for k in (1, 3) for kind in ("span-precision", "span-iou")]
    # [5, 25): 5 of 10 characters, 15 without evidence in it; then 10 of 40, and 10 not found.
    expected = (5 / 10, 5 / (10 + 15), 10 / 40, 10 / (40 + 10))
    assert span_scores(run, metrics, [5, 25]) == pytest.approx(expected)


def handed_on(places, counts, order, budget):
    """(share, chunks, characters) of an order whose last chunk crosses the budget."""
    taken, length = [], 0.0
    for i in order:
        _, start, end = places[i]
        if counts[i] > budget:
            share = budget / counts[i]
            length += share * (end - start)
            return [(share, [*taken, i], length), (1 - share, taken, length)]
        budget -= counts[i]
        taken.append(i)
        length += end - start
    return [(1.0, taken, length)]


@settings(deadline=None, max_examples=60)
@given(
    ranked=st.lists(places, min_size=1, max_size=6, unique=True),
    scores=st.lists(st.integers(1, 2), min_size=6, max_size=6),
    counts=st.lists(st.integers(0, 5), min_size=6, max_size=6),
    budget=st.integers(1, 12),
    span=st.tuples(st.integers(0, 25), st.integers(1, 12)).map(lambda s: [s[0], s[0] + s[1]]),
)
def test_token_cut_offs_are_averaged_over_all_orders(ranked, scores, counts, budget, span):
    """Against sets of characters for every order of at most five tied chunks."""
    scores, counts = scores[: len(ranked)], counts[: len(ranked)]
    if max(scores.count(1), scores.count(2)) > 5:
        scores[0] = 3
    orders = [
        order
        for order in permutations(range(len(ranked)))
        if all(scores[a] >= scores[b] for a, b in pairwise(order))
    ]
    found = np.zeros(3)
    for order in orders:
        for share, taken, length in handed_on(ranked, counts, order, budget):
            own = [set(range(a, b)) for doc, a, b in (ranked[i] for i in taken) if doc == "d"]
            n = len(closed(own, *span)) if own else 0
            size = span[1] - span[0]
            values = [n / size, n / length if length else 0, n / (length + size - n)]
            found += share * np.array(values) / len(orders)
    ids = [f"{doc}{start:03d}-{end:03d}" for doc, start, end in ranked]
    run = tied_run(ranked, scores).with_columns(chunk_id=pl.Series(ids))
    metrics = [f"span-{kind}@{budget}tokens" for kind in ("recall", "precision", "iou")]
    assert span_scores(with_token_counts(run, counts), metrics, span) == pytest.approx(tuple(found))


def test_cut_offs_in_tokens_need_the_tokens_of_chunks():
    run = tied_run([("d", 0, 10)], [1])
    with pytest.raises(InputError, match="span-recall@9tokens: the run does not have the tokens"):
        span_scores(run, ["span-recall@9tokens"], [0, 10])
    run = pl.DataFrame({"query_id": ["q"], "doc_id": ["d"], "score": [1.0]})
    with pytest.raises(InputError, match="span-iou@1: for runs of chunks"):
        span_metrics(rank_run(run)[0], queries([0, 5]), pl.DataFrame(QRELS), metrics=["span-iou@1"])
