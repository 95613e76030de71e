"""The probes of a cosine: known encoders give known profiles."""

import numpy as np
import polars as pl
import pytest
from probe_texts import WORDS, document

from psibench.probes.cosines import measure
from psibench.probes.run import ALL_PROBES
from psibench.probes.settings import Probes
from psibench.probes.tables import (
    EMPTY_QUERIES,
    Texts,
    first_by_hash,
    mean_row,
    profile_rows,
)
from psibench.text.lengths import count_whitespace_tokens


def texts_of(documents: list[str], *, spans: list[tuple[int, int] | None] | None = None) -> Texts:
    ids = [f"d{k:02d}" for k in range(len(documents))]
    frame = pl.DataFrame({"domain": "here", "document_id": ids, "text": documents})
    asked = pl.DataFrame(
        {
            "domain": "here",
            "query_id": [f"q{k}" for k in range(len(spans or []))],
            "document_id": ids[: len(spans or [])],
            "text": [WORDS[k % len(WORDS)] for k in range(len(spans or []))],
            "span": [None if span is None else list(span) for span in spans or []],
        },
        schema_overrides=EMPTY_QUERIES.schema,
    )
    return Texts(frame, asked)


def run(probe, texts, encoder, **settings) -> pl.DataFrame:
    return measure(
        probe,
        texts,
        encoder,
        settings=Probes(**settings),
        count_tokens=count_whitespace_tokens,
    )


def by_place(rows: pl.DataFrame, column: str = "cosine") -> np.ndarray:
    """Return (n_documents * n_sizes, n_places)."""
    placed = rows.filter(pl.col("place") > 0).sort("document_id", "size", "n_places", "place")
    return placed[column].to_numpy().reshape(-1, placed["n_places"][0])


@pytest.mark.parametrize("probe", ["insertion", "moving"])
def test_the_position_blind_encoder_has_a_flat_profile(load, probe):
    documents = [document(k) for k in range(4)]
    spans = [(0, 5), (40, 60), None, (0, 10_000)]
    found = run(probe, texts_of(documents, spans=spans), load())
    matrix = by_place(found)
    assert np.array_equal(matrix, np.repeat(matrix[:, :1], matrix.shape[1], axis=1))
    assert (matrix < 1 - 1e-6).all()


def test_an_encoder_of_first_tokens_ignores_later_insertions(load):
    # 12 sentences of 5 tokens; the encoder reads 16 - 2 tokens.
    found = run(
        "insertion", texts_of([document(1)]), load("first", max_tokens=16), insertion_sizes=[0.5]
    )
    beginning, middle, end = by_place(found)[0]
    assert end == pytest.approx(1.0, abs=1e-5)
    assert middle == pytest.approx(1.0, abs=1e-5)
    assert beginning < 0.9
    assert found["part_read"].to_list()[1:] == [0.0, 0.0]
    assert found["read"].max() < 1


def test_the_read_share_of_removed_text_follows_the_document(load):
    # The encoder reads 14 tokens: the first three of 12 sentences without their last word.
    found = run(
        "removal", texts_of([document(1)]), load("first", max_tokens=16), removal_sizes=[0.25]
    )
    first, *others = found["part_read"].to_list()
    assert 0.8 < first < 1
    assert others == [0.0, 0.0]


def test_queries_without_movable_evidence_are_left_out_with_reasons(load):
    texts = texts_of([document(1), document(2), document(3)], spans=[None, (0, 9999), (0, 5)])
    found = run("moving", texts, load(), places=4)
    assert found["left_out"].drop_nulls().to_list() == [
        "no one evidence span",
        "the evidence is the whole text",
    ]
    rows = ALL_PROBES["moving"].summarise(found, level=0.95)
    assert {row["n_documents"] for row in rows} == {1}
    assert {row["n_left_out"] for row in rows} == {2}


def test_the_summary_covers_documents_with_all_positions():
    # Two documents and a third without variants; cosines .9 .8 .7 and .7 .8 .9
    rows = pl.DataFrame(
        {
            "domain": "here",
            "document_id": ["a"] * 3 + ["b"] * 3 + ["c"],
            "query_id": pl.Series([None] * 7, dtype=pl.String),
            "size": [0.5] * 7,
            "n_places": [3] * 7,
            "place": [1, 2, 3, 1, 2, 3, None],
            "cosine": [0.9, 0.8, 0.6, 0.7, 0.8, 0.8, None],
            "ndcg@10": pl.Series([None] * 7, dtype=pl.Float64),
            "n_tokens": [9] * 7,
            "read": [1.0] * 3 + [0.5] * 3 + [None],
            "part_read": [1.0, 1.0, 1.0, 1.0, 1.0, 0.0, None],
            "left_out": [None] * 6 + ["too few sentences"],
        }
    )
    found = ALL_PROBES["removal"].summarise(rows, level=0.95)
    every = [row for row in found if row["read"] == "all"]
    assert [row["value"] for row in every[:3]] == pytest.approx([0.8, 0.8, 0.7])
    assert [row["read_share"] for row in every[:3]] == [1.0, 1.0, 0.5]
    # Minus the document's mean, .7667 for both.
    profile = [row["value"] for row in every[3:6]]
    assert profile == pytest.approx([1 / 30, 1 / 30, -2 / 30])
    gap, spread = every[6:]
    assert gap["condition"] == "beginning less end"
    assert gap["value"] == pytest.approx(0.1)  # of .3 and -.1
    # Student's t with 1 degree of freedom, 12.7062; standard error .2828 / sqrt(2) = .2
    assert gap["low"] == pytest.approx(0.1 - 12.7062 * 0.2, abs=1e-3)
    assert gap["p"] is None
    assert spread["value"] == pytest.approx(0.1)
    assert {row["n_left_out"] for row in every} == {1}
    whole = [row for row in found if row["read"] == "whole"]
    assert whole[0]["value"] == pytest.approx(0.9)
    assert whole[0]["low"] is whole[0]["high"] is None


def test_gap_and_range_are_also_relative_to_the_movement():
    # 1 - cosine: .2 .1 .1 and .4 .1 .1, mean 1/6; gaps -.1 and -.3, mean -.2
    matrix = np.array([[0.8, 0.9, 0.9], [0.6, 0.9, 0.9]])
    named = {row["measure"]: row for row in profile_rows(matrix, "cosine", "abc", level=0.95)}
    assert named["cosine gap"]["relative"] == pytest.approx(-0.2 / (1 / 6))
    assert named["cosine range"]["relative"] == pytest.approx(0.2 / (1 / 6))
    # All cosines twice as close to 1: half the gap, and the same relative gap.
    nearer = {r["measure"]: r for r in profile_rows((1 + matrix) / 2, "cosine", "abc", level=0.95)}
    assert nearer["cosine gap"]["value"] == pytest.approx(-0.1)
    assert nearer["cosine gap"]["relative"] == pytest.approx(-1.2)
    flat = list(profile_rows(np.ones((2, 3)), "cosine", "abc", level=0.95))
    other = list(profile_rows(matrix, "ndcg@10", "abc", level=0.95))
    assert {row.get("relative") for row in flat + other} == {None}


def test_rows_of_one_document_are_one_unit():
    # The deviations -.2 and .2 of the first document add up to 0; the second has 0.
    found = mean_row(np.array([0.1, 0.5, 0.3]), level=0.95, documents=np.array([0, 0, 1]))
    assert (found["value"], found["n_documents"]) == (pytest.approx(0.3), 2)
    assert (found["low"], found["high"]) == (pytest.approx(0.3), pytest.approx(0.3))


@pytest.mark.parametrize(
    ("of", "sizes"), [([], [1, 2, 9]), (["document_id"], [3, 5, 9])], ids=["all", "of a document"]
)
def test_a_larger_draw_contains_a_smaller_one(of, sizes):
    ids = {"query_id": [f"q{k}" for k in range(9)], "document_id": [*"aaaaabbbc"]}
    asked = pl.DataFrame(ids).with_columns(domain=pl.lit("x"))

    def drawn(n, seed=1):
        return set(first_by_hash(asked, "query_id", seed=seed, n=n, of=of)["query_id"])

    assert [len(drawn(n)) for n in (1, 2, None)] == sizes
    assert drawn(1) < drawn(2)
    assert drawn(2, seed=2) != drawn(2)
