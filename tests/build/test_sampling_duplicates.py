"""Samples without duplicates: the quotas stay exact, and what goes is told."""

import logging
import random

import polars as pl
import pytest

from psibench.generate import sampling
from psibench.generate.sampling import Sample, length_measure, priority, read_candidates
from psibench.text.near_duplicates import normalise

WORDS = [f"w{i}" for i in range(3000)]


def frame_of(texts):
    keys = [f"d{i:04d}" for i in range(len(texts))]
    return pl.DataFrame({"_id": keys, "text": texts, "origin": [f"o{key}" for key in keys]})


def draw(frame, **sample):
    batches = (frame[start : start + 17] for start in range(0, frame.height, 17))
    section = Sample(**{"edges": [0, 40, 80, 120]} | sample)
    return sampling.draw(read_candidates(batches, section, length_measure("words")))


def ids(sampled):
    return sampled.documents.get_column("_id").to_list()


def by_priority(frame):
    return sorted(frame.get_column("_id"), key=lambda key: priority(42, key))


def test_the_first_by_priority_of_a_bin_s_distinct_texts_are_drawn():
    rng = random.Random(0)
    own = [" ".join(rng.choices(WORDS, k=rng.choice((20, 60, 100)))) for _ in range(200)]
    frame = frame_of(own + [rng.choice(own).upper() for _ in range(100)])
    sampled = draw(frame, n_documents=90, reserve=5.0)
    bins = dict(zip(("0-40", "40-80", "80-120"), (30, 30, 30), strict=True))
    texts = dict(frame.select("_id", "text").iter_rows())
    drawn, seen, dropped = set(), set(), set()
    for key in by_priority(frame):  # the rule, in the simplest words
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


def test_a_duplicate_is_a_row_of_the_ledger_naming_what_it_repeats():
    rng = random.Random(4)
    text = " ".join(rng.choices(WORDS, k=100))
    changed = text.replace(text.split(" ")[50], "other")
    frame = frame_of([text, text.title(), changed])
    first, second, third = by_priority(frame)
    sampled = draw(frame)
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
    assert draw(frame, deduplicate="exact").documents.height == 2  # the changed one stays
    assert draw(frame, deduplicate="none").documents.height == 3


def test_a_reserve_that_is_used_up_is_warned_of(caplog):
    frame = frame_of(["one text " * 20] * 30)
    with caplog.at_level(logging.WARNING, logger="psibench"):
        sampled = draw(frame, edges=[0, 100], n_documents=10, reserve=0.5)
    assert sampled.documents.height == 1
    assert sampled.sampling.rows()[0] == ("0-100", "words", 0, 100, 30, 10, 1, 14)
    assert [record.getMessage() for record in caplog.records] == [
        "sample: 10 documents of 0-100 words wanted, 1 found (14 duplicates left out, and no more "
        "than 15 of 30 held: raise sample.reserve); the sample is smaller than asked for"
    ]
