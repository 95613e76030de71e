import random

import polars as pl
import pytest

from psibench.errors import InputError
from psibench.generate import sampling
from psibench.generate.sampling import Sample, length_measure, quotas, read_candidates
from psibench.tables import conform
from psibench.tables.build_schemas import SAMPLING
from psibench.tables.schemas import DOCUMENTS

CHARS = length_measure("chars")


def documents(*lengths):
    """Documents of so many characters, no two of the same text: d0xxx, d1xxxxx."""
    keys = [f"d{i}" for i in range(len(lengths))]
    rows = [
        (key, key.ljust(length, "x"), f"o{i}")
        for i, (key, length) in enumerate(zip(keys, lengths, strict=True))
    ]
    return pl.DataFrame(rows, ["_id", "text", "origin"], orient="row")


def draw(frame, *, size=7, **sample):
    batches = (frame[start : start + size] for start in range(0, frame.height, size))
    return sampling.draw(read_candidates(batches, Sample(unit="chars", **sample), CHARS))


def ids(sampled):
    return sampled.documents.get_column("_id").to_list()


MANY = documents(*[10 + i % 30 for i in range(300)])  # lengths 10 to 39, ten of each


@pytest.mark.parametrize(
    ("n_documents", "shares", "expected"),
    [
        (10, [3, 3, 2], [4, 4, 2]),  # 3.75, 3.75, 2.5: the two of .75 are rounded up
        (2, [1, 1, 1], [1, 1, 0]),  # of equal remainders the first
        (70_000, [3, 3, 3, 3, 2, 2, 2, 2], [10_500] * 4 + [7_000] * 4),  # PosIR
    ],
)
def test_quotas_go_by_largest_remainder(n_documents, shares, expected):
    assert quotas(n_documents, shares) == expected


def test_documents_have_their_length_and_bin_in_the_order_of_the_source():
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
def test_the_draw_depends_neither_on_batches_nor_on_the_order_of_the_source(n_documents):
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


def test_without_a_fitting_document_the_lengths_seen_are_named():
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
