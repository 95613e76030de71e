import json

import numpy as np
import polars as pl
import pytest
from sentence_transformers import SentenceTransformer
from tiny_training import base_of, train
from transformers import AutoTokenizer

from psibench.errors import InputError
from psibench.train.pads import pads_pairs
from psibench.train.sections import Pads


@pytest.fixture(scope="module")
def tokenizer(tiny_bert):
    return AutoTokenizer.from_pretrained(tiny_bert)


def documents(n, n_tokens=20):
    """Documents whose words have the number of the document and of the position."""
    texts = [" ".join(f"d{number}x{place}" for place in range(n_tokens)) for number in range(n)]
    names = [f"d{number}" for number in range(n)]
    return pl.DataFrame({"domain": ["x"] * n, "doc_id": names, "document": texts})


def make(pool, tokenizer, *, seed=1, sampling_seed=42, **settings):
    return pads_pairs(pool, Pads(**settings), tokenizer, seed=seed, sampling_seed=sampling_seed)


def of(window):
    """Return the document of a window and the positions of its words."""
    words = [word.split("x") for word in window.split()]
    (document,) = {word[0] for word in words}
    return document, [int(word[1]) for word in words]


def test_each_document_makes_a_positive_and_a_negative_pair(tokenizer):
    found = make(documents(10), tokenizer, share=1.0)
    assert found["label"].to_list() == [1, 0] * 10
    firsts = set()
    for first, second, label in found.iter_rows():
        (one, places), (other, other_places) = of(first), of(second)
        assert (one == other) == (label == 1)
        for window in (places, other_places):
            assert window == list(range(window[0], window[0] + 10))  # half of 20, one after another
        firsts.add(one)
    assert len(firsts) == 10


def test_windows_start_at_every_position_that_fits(tokenizer):
    found = make(documents(200), tokenizer, share=1.0)
    starts = [of(window)[1][0] for name in ("first", "second") for window in found[name]]
    counts = np.bincount(starts)
    assert len(counts) == 11  # 0 to 20 - 10
    # 800 draws of 11 values: 73 each, standard deviation 8
    assert counts.min() > 35
    assert counts.max() < 115


def test_a_larger_share_of_documents_contains_a_smaller_one(tokenizer):
    pool = documents(25)
    drawn = {
        share: {of(window)[0] for window in make(pool, tokenizer, share=share)["first"]}
        for share in (0.2, 0.5)
    }
    assert len(drawn[0.2]) == 5  # 25 * .2
    assert drawn[0.2] < drawn[0.5]
    again = make(pl.concat([pool.reverse(), pool]), tokenizer, share=0.2)
    assert {of(window)[0] for window in again["first"]} == drawn[0.2]


def test_the_configured_number_is_drawn_from_each_domain(tokenizer):
    pool = documents(20).with_columns(domain=pl.Series(["a"] * 5 + ["b"] * 10 + ["c"] * 5))
    numbers = {name: set(own["doc_id"]) for (name,), own in pool.group_by("domain")}
    few, more = (
        {of(window)[0] for window in make(pool, tokenizer, per_domain={"a": 2, "b": n})["first"]}
        for n in (3, 6)
    )
    assert [len(few & numbers[name]) for name in "abc"] == [2, 3, 0]
    assert few < more
    assert len(more & numbers["b"]) == 6
    with pytest.raises(
        InputError, match=r"per_domain\.a: 6 documents requested, but the pool has 5"
    ):
        make(pool, tokenizer, per_domain={"a": 6})


def test_a_window_keeps_the_text_unchanged(tokenizer):
    pool = documents(4).with_columns(document=pl.lit("w1  w2\n\nw3 w4, w5 w6"))
    windows = set(make(pool, tokenizer, share=1)["first"])
    # seven tokens, windows of three
    assert windows <= {"w1  w2\n\nw3", "w2\n\nw3 w4", "w3 w4,", "w4, w5", ", w5 w6"}


@pytest.mark.parametrize(
    ("pool", "message"),
    [(documents(1), "1 of 1 documents drawn"), (documents(5, 1), "has 1 tokens, but needs two")],
)
def test_a_pool_without_pairs_is_refused(tokenizer, pool, message):
    with pytest.raises(InputError, match=message):
        make(pool, tokenizer, share=1.0)


def test_pads_trains_on_the_documents_of_the_pool(pool, tiny_bert, tmp_path):
    base = base_of(tiny_bert, objective="pads", pads={"share": 0.5, "batch_size": 4})
    folder = train(pool, tmp_path, base, distribution="pool")
    found = json.loads((folder / "model.json").read_text())
    # half of 24 documents, two pairs each, in batches of 4
    assert (found["n_documents"], found["n_examples"], found["n_steps"]) == (12, 24, 18)
    assert np.mean(found["loss"][-6:]) < np.mean(found["loss"][:6])
    assert SentenceTransformer(str(folder)).encode("w1").shape == (32,)
