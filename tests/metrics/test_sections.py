import numpy as np
import polars as pl
import pytest

from psibench.metrics.chunks import places_in_chunks
from psibench.metrics.comparison import simultaneous_differences
from psibench.metrics.query_scores import cluster_numbers, document_numbers
from psibench.metrics.sections import N_SECTIONS, evidence_middles, with_sections


def queries(n_documents, n_each):
    """Queries with evidence in the reverse of their order."""
    return pl.DataFrame(
        {
            "_id": [f"q{d}-{k:04d}" for d in range(n_documents) for k in range(n_each)],
            "document_id": [f"d{d}" for d in range(n_documents) for k in range(n_each)],
            "pos_char_span": [[n_each - k, n_each - k + 1] for k in range(n_each)] * n_documents,
        }
    )


def scores(frame):
    none = pl.lit(None, pl.String)
    return frame.select("document_id", query_id="_id", domain=pl.lit("all"), cluster=none)


def test_sections_are_consecutive_evidence_of_one_document():
    frame = queries(4, 100)
    found = with_sections(scores(frame), frame)
    # 400 queries in 40 sections: ten of each document, with ten queries.
    assert found["cluster"].n_unique() == N_SECTIONS
    assert found.filter(cluster="d1 section 1")["query_id"].to_list() == [
        f"q1-{k:04d}" for k in range(90, 100)
    ]
    assert len(np.unique(document_numbers(found))) == N_SECTIONS
    assert cluster_numbers(found) is None


@pytest.mark.parametrize(("n_documents", "n_each"), [(30, 100), (2, 70)])
def test_enough_documents_or_few_queries_make_no_sections(n_documents, n_each):
    frame = queries(n_documents, n_each)
    assert with_sections(scores(frame), frame)["cluster"].null_count() == frame.height


def test_given_clusters_or_unknown_places_make_no_sections():
    frame = queries(4, 100)
    clustered = scores(frame).with_columns(cluster=pl.col("document_id"))
    assert with_sections(clustered, frame).equals(clustered)
    unknown = frame.with_columns(pl.when(pl.col("_id") != "q0-0000").then("pos_char_span"))
    assert with_sections(scores(frame), unknown)["cluster"].null_count() == frame.height


def test_several_spans_have_the_mean_of_their_middles():
    frame = pl.DataFrame(
        {
            "_id": ["a", "b"],
            "pos_char_span": [[0, 10], None],
            "pos_char_spans": [None, [[0, 10], [20, 40]]],
        },
        schema_overrides={"pos_char_spans": pl.List(pl.List(pl.Int64))},
    )
    assert evidence_middles(frame).rows() == [("a", 5.0), ("b", 17.5)]


def test_intervals_of_all_pairs_hold_together():
    # Four equal systems, 60 documents with three queries: some interval of six excludes 0 in 5 %.
    rng = np.random.default_rng(1)
    units = np.repeat(np.arange(60), 3)
    misses = 0
    for _ in range(60):
        values = rng.random((4, 180)) + rng.normal(size=(4, 60))[:, units]
        difference, half = simultaneous_differences(values, units, level=0.95)
        misses += bool((np.abs(difference) > half).any())
    assert difference == pytest.approx(-difference.T)
    assert half == pytest.approx(half.T)
    assert misses <= 8  # binomial: more than 8 of 60 has probability .003


def test_a_pair_has_nearly_the_usual_t_interval():
    rng = np.random.default_rng(2)
    values = rng.normal(size=(2, 400))
    _, half = simultaneous_differences(values, np.arange(400), level=0.95)
    gap = values[0] - values[1]
    assert half[0, 1] == pytest.approx(1.966 * gap.std(ddof=1) / 20, rel=0.03)


def test_few_units_have_no_interval_and_equal_systems_no_width():
    values = np.random.default_rng(3).random((2, 40))
    assert np.isinf(simultaneous_differences(values, np.arange(40) // 2, level=0.95)[1]).all()
    assert not simultaneous_differences(values[[0, 0]], np.arange(40), level=0.95)[1].any()


def test_places_are_those_in_the_chunk_that_holds_the_span_best():
    chunks = pl.DataFrame({"doc_id": ["d"] * 3, "start": [0, 40, 60], "end": [50, 96, 160]})
    spans = {
        "cut": [30, 70],  # in no chunk
        "edge": [0, 10],  # the middle is 5 characters inside; half of the chunk is 25
        "two": [74, 76],  # 15 of 50 in the third chunk, 21 of 28 in the second: the larger
        "centre": [108, 112],
        "stripped": [50, 100],  # ends 4 characters after the second chunk: 21 of 28
        "behind": [161, 163],  # ends 3 characters after the third chunk, but begins there, too
    }
    frame = pl.DataFrame(
        {
            "_id": [*spans, "several"],
            "pos_corpus_id": "d",
            "pos_char_span": [*spans.values(), None],
            "pos_char_spans": [None] * 6 + [[[0, 10], [30, 70]]],
        },
        schema_overrides={"pos_char_spans": pl.List(pl.List(pl.Int64))},
    )
    found = places_in_chunks(chunks, frame).rows()
    assert found == [
        ("cut", "cut", 1, 1),
        ("edge", "edge", 0, 1),
        ("two", "centre", 0, 1),
        ("centre", "centre", 0, 1),
        ("stripped", "centre", 0, 1),
        ("behind", "cut", 1, 1),
        ("several", None, 1, 2),
    ]
    # With the white space behind the chunks (none behind the second), other gaps are cuts.
    reaching = chunks.with_columns(reach=pl.Series([70, 96, 160]))
    by_text = places_in_chunks(reaching, frame)
    assert by_text["place"].to_list() == [*("edge", "edge", "centre", "centre", "cut", "cut", None)]
