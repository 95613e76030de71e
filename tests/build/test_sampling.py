import logging
import random

import polars as pl
import pytest

from psibench.errors import InputError
from psibench.generate import sampling
from psibench.generate.sampling import (
    Sample,
    draw_priority,
    length_measure,
    quotas,
    read_candidates,
)
from psibench.tables import conform
from psibench.tables.build_schemas import SAMPLING
from psibench.tables.schemas import DOCUMENTS
from psibench.text.near_duplicates import normalise


def documents(*lengths):
    """Return distinct documents of the given lengths in characters: d0xxx, d1xxxxx."""
    keys = [f"d{i}" for i in range(len(lengths))]
    rows = [
        (key, key.ljust(length, "x"), f"o{i}")
        for i, (key, length) in enumerate(zip(keys, lengths, strict=True))
    ]
    return pl.DataFrame(rows, ["_id", "text", "origin"], orient="row")


def draw(frame, *, size=7, unit="chars", **sample):
    batches = (frame[start : start + size] for start in range(0, frame.height, size))
    section = Sample(unit=unit, **sample)
    return sampling.draw(read_candidates(batches, section, length_measure(unit)), where="sample")


def ids(sampled):
    return sampled.documents.get_column("_id").to_list()


MANY = documents(*[10 + i % 30 for i in range(300)])  # lengths 10 to 39, ten of each


@pytest.mark.parametrize(
    ("n_documents", "shares", "expected"),
    [
        (10, [3, 3, 2], [4, 4, 2]),  # 3.75, 3.75, 2.5: the two of .75 are rounded up
        (2, [1, 1, 1], [1, 1, 0]),  # the first of equal remainders
        (70_000, [3, 3, 3, 3, 2, 2, 2, 2], [10_500] * 4 + [7_000] * 4),  # PosIR
    ],
)
def test_quotas_use_the_largest_remainder(n_documents, shares, expected):
    assert quotas(n_documents, shares) == expected


def test_documents_keep_source_order_with_length_and_bin():
    sampled = draw(documents(5, 30, 12, 20, 40, 41), edges=[10, 20, 40])
    assert sampled.documents.rows() == [
        ("d1", "d1".ljust(30, "x"), "o1", 30, "20-40"),
        ("d2", "d2".ljust(12, "x"), "o2", 12, "10-20"),
        ("d3", "d3".ljust(20, "x"), "o3", 20, "20-40"),
        ("d4", "d4".ljust(40, "x"), "o4", 40, "20-40"),
    ]
    conform(sampled.documents, DOCUMENTS, where="w")
    assert sampled.sampling.rows() == [
        ("10-20", "chars", 10, 20, 1, None, 1, 0),
        ("20-40", "chars", 20, 40, 3, None, 3, 0),
        ("outside", "chars", None, None, 2, 0, 0, 0),
    ]
    conform(sampled.sampling, SAMPLING, where="w")


@pytest.mark.parametrize("n_documents", [None, 20])
def test_the_draw_is_independent_of_batches_and_order(n_documents):
    options = {"edges": [10, 20, 30, 40], "n_documents": n_documents}
    whole = draw(MANY, size=1000, **options)
    for size in (1, 7, 299):
        again = draw(MANY, size=size, **options)
        assert again.documents.equals(whole.documents)
        assert again.sampling.equals(whole.sampling)
    order = random.Random(3).sample(range(MANY.height), MANY.height)
    shuffled = draw(MANY[order], **options)
    assert set(ids(shuffled)) == set(ids(whole))
    arrival = MANY[order].get_column("_id").to_list()
    assert ids(shuffled) == [key for key in arrival if key in set(ids(whole))]
    assert shuffled.sampling.equals(whole.sampling)


def test_an_empty_draw_reports_the_lengths_read():
    with pytest.raises(InputError) as raised:
        draw(documents(5, 9, 3, 77), size=2, edges=[10, 20])
    message = str(raised.value)
    assert "The source's 4 documents have 3 to 77 chars (10-20: 0, outside: 4)" in message
    assert "sample.edges" in message


def test_lengths_are_measured_in_the_unit():
    texts = ["a  b", "é😀", ""]
    assert length_measure("chars")(texts).tolist() == [4, 2, 0]
    assert length_measure("words")(texts).tolist() == [3, 1, 1]  # split on one space
    assert length_measure("tokens", "words")(texts).tolist() == [2, 1, 0]


# Samples without duplicates: the quotas stay exact, and duplicates are reported

WORDS = [f"w{i}" for i in range(3000)]


def frame_of(texts):
    keys = [f"d{i:04d}" for i in range(len(texts))]
    return pl.DataFrame({"_id": keys, "text": texts, "origin": [f"o{key}" for key in keys]})


def draw_words(frame, **sample):
    return draw(frame, size=17, **{"unit": "words", "edges": [0, 40, 80, 120]} | sample)


def by_priority(frame):
    return sorted(frame.get_column("_id"), key=lambda key: draw_priority(42, key))


def test_bins_take_their_distinct_texts_by_priority():
    rng = random.Random(0)
    own = [" ".join(rng.choices(WORDS, k=rng.choice((20, 60, 100)))) for _ in range(200)]
    frame = frame_of(own + [rng.choice(own).upper() for _ in range(100)])
    sampled = draw_words(frame, n_documents=90, reserve=5.0)
    bins = dict(zip(("0-40", "40-80", "80-120"), (30, 30, 30), strict=True))
    texts = dict(frame.select("_id", "text").iter_rows())
    drawn, seen, dropped = set(), set(), set()
    for key in by_priority(frame):  # the rule in its simplest form
        text = normalise(texts[key])
        label = {20: "0-40", 60: "40-80", 100: "80-120"}[len(text.split(" "))]
        if not bins[label]:
            continue
        if text in seen:
            dropped.add(key)
            continue
        bins[label] -= 1
        seen.add(text)
        drawn.add(key)
    assert set(ids(sampled)) == drawn
    assert set(sampled.duplicates.get_column("item_id")) == dropped


def test_a_duplicate_gets_a_dropped_row_with_the_original():
    rng = random.Random(4)
    text = " ".join(rng.choices(WORDS, k=100))
    changed = text.replace(text.split(" ")[50], "other")
    frame = frame_of([text, text.title(), changed])
    first, second, third = by_priority(frame)
    sampled = draw_words(frame)
    assert ids(sampled) == [first]
    rows = {row["item_id"]: row for row in sampled.duplicates.iter_rows(named=True)}
    assert set(rows) == {second, third}
    exact = {"d0000", "d0001"} - {first}
    for key, row in rows.items():
        is_exact = key in exact and first != "d0002"
        assert row["reason"] == ("exact_duplicate" if is_exact else "near_duplicate")
        assert row["score"] == (1.0 if is_exact else pytest.approx(91 / 101))
        assert (row["stage"], row["unit"], row["doc_id"]) == ("deduplicate", "documents", key)
        assert (row["detail"], row["length_bin"]) == (first, "80-120")
        assert row["char_length"] == len(frame.filter(pl.col("_id") == key)["text"].item())
    assert sampled.sampling.select("bin", "n_sampled", "n_duplicates").rows()[2] == ("80-120", 1, 2)
    assert draw_words(frame, deduplicate="exact").documents.height == 2  # the changed one stays
    assert draw_words(frame, deduplicate="none").documents.height == 3


def test_an_exhausted_reserve_gives_a_warning(caplog):
    frame = frame_of(["one text " * 20] * 30)
    with caplog.at_level(logging.WARNING, logger="psibench"):
        sampled = draw_words(frame, edges=[0, 100], n_documents=10, reserve=0.5)
    assert sampled.documents.height == 1
    assert sampled.sampling.rows()[0] == ("0-100", "words", 0, 100, 30, 10, 1, 14)
    assert [record.getMessage() for record in caplog.records] == [
        "sample: drew only 1 of the 10 requested documents of 0-100 words (14 duplicates left out, "
        "and only 15 of 30 were candidates: raise sample.reserve)"
    ]
