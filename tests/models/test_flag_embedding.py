import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from encoder_references import vectors_of
from tiny_late_checkpoints import save_bge_m3

from psibench.errors import InputError
from psibench.search.exact import search_vectors
from psibench.store.vectors import TERM_BASE, Vectors

TEXTS = [
    "w1",
    "w2 w3 w4 w5 w6 w7 w8 w9 w10 w11 w12 w13 w14 w15 w16 w17 w18",
    "",
    "w40 w41 , w43 .",
    " ".join(f"w{i}" for i in range(59)),
]
QUERIES = ["w3 w4", "", "w41 w17 w2 ?"]


@pytest.fixture(scope="module")
def bge_m3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_bge_m3(tmp_path_factory.mktemp("bge-m3"))


@pytest.fixture(scope="module")
def load(bge_m3, load_tiny):
    own = {"backend": "flag-embedding"}
    return lambda checkpoint=bge_m3, **fields: load_tiny(checkpoint, **own | fields)


@pytest.fixture(scope="module")
def theirs(bge_m3):
    """FlagEmbedding's own class over the same checkpoint."""
    from FlagEmbedding import BGEM3FlagModel

    return BGEM3FlagModel(str(bge_m3), use_fp16=False, devices="cpu")


def test_multi_vectors_and_scores_equal_flag_embedding(load, theirs):
    encoder = load(query_prompt="w7 w8 ")
    assert encoder.entry.scores_by == "mean-maxsim"
    made = [vectors_of(encoder, QUERIES, role="query"), vectors_of(encoder, TEXTS)]
    given = theirs.encode(
        [*(f"w7 w8 {query}" for query in QUERIES), *TEXTS], max_length=32, return_colbert_vecs=True
    )["colbert_vecs"]
    for ours, vectors in zip([*made[0], *made[1]], given, strict=True):
        assert ours.dtype == np.float32
        np.testing.assert_allclose(ours, vectors, atol=1e-6)
    asked, read = (
        Vectors(np.concatenate(found), np.cumsum([0, *map(len, found)])) for found in made
    )
    assert len(set(asked.counts)) == len(QUERIES)  # the mean is over as many as each query has
    best = search_vectors(asked, read, k=len(TEXTS), mean=True)
    queries, texts = given[: len(QUERIES)], given[len(QUERIES) :]
    expected = np.array([[float(theirs.colbert_score(q, t)) for t in texts] for q in queries])
    own = np.take_along_axis(expected, best.documents, axis=1)
    np.testing.assert_allclose(best.scores, own, atol=1e-6)


def test_fingerprint_changes_with_the_number_format_and_the_head(load, bge_m3, tmp_path):
    other = shutil.copytree(bge_m3, tmp_path / "other")
    torch.save(torch.nn.Linear(32, 32).state_dict(), other / "colbert_linear.pt")
    encoders = [load(), load(dtype="bfloat16"), load(other), load(max_tokens=16)]
    assert len({encoder.fingerprint for encoder in encoders}) == len(encoders)
    same = load(description="other", parameters_m=1.0, query_prompt="w1 ")
    assert same.fingerprint == load().fingerprint


def test_reduced_format_changes_vectors_slightly(load):
    exact, reduced = (
        vectors_of(load(dtype=dtype), ["w1 w2 w3 w4"])[0] for dtype in ("float32", "bfloat16")
    )
    assert reduced.dtype == np.float32
    np.testing.assert_allclose(reduced, exact, atol=0.03)
    # Numbers of bfloat16 have 16 bits of zeros at their end.
    assert (reduced.view(np.uint32)[:, -1] & 0xFFFF).any()


def test_a_head_that_is_missing_or_of_another_shape_is_refused(load, bge_m3, tmp_path):
    bad = shutil.copytree(bge_m3, tmp_path / "bad")
    (bad / "colbert_linear.pt").unlink()
    with pytest.raises(InputError, match=r"colbert_linear\.pt: no such file"):
        load(bad)
    torch.save({"weight": torch.ones(4, 8)}, bad / "colbert_linear.pt")
    with pytest.raises(InputError, match=r"colbert_linear\.pt, sparse_linear\.pt do not fit"):
        load(bad)


def test_dense_vectors_equal_flag_embedding(load, theirs):
    encoder = load(vectors="dense")
    assert (encoder.entry.scores_by, encoder.entry.kind) == ("cosine", "dense")
    given = theirs.encode(TEXTS, max_length=32)["dense_vecs"]
    np.testing.assert_allclose(np.concatenate(vectors_of(encoder, TEXTS)), given, atol=1e-6)


def test_sparse_scores_equal_flag_embedding(load, theirs):
    encoder = load(vectors="sparse")
    assert (encoder.entry.scores_by, encoder.entry.kind) == ("sparse", "sparse")
    texts = [*TEXTS, "w3 w3 w41 [UNK] 猫 w3"]
    given = theirs.encode([*QUERIES, *texts], max_length=32, return_sparse=True)["lexical_weights"]
    found = as_dicts([*vectors_of(encoder, QUERIES, role="query"), *vectors_of(encoder, texts)])
    assert any(len(weights) > 1 for weights in found)
    for ours, weights in zip(found, given, strict=True):
        assert ours == pytest.approx({int(k): float(w) for k, w in weights.items()}, abs=1e-6)


def as_dicts(rows: list[np.ndarray]) -> list[dict[int, float]]:
    """Weights by token of each text."""
    return [
        {int(high * TERM_BASE + low): float(weight) for high, low, weight in text} for text in rows
    ]


def test_kind_must_be_that_of_the_vectors(load):
    with pytest.raises(ValueError, match="vectors: sparse are of kind sparse, not dense"):
        load(vectors="sparse", kind="dense")


def test_heads_with_fewer_dimensions_are_loaded(load, bge_m3, tmp_path):
    smaller = shutil.copytree(bge_m3, tmp_path / "smaller")
    torch.save(torch.nn.Linear(32, 8).state_dict(), smaller / "colbert_linear.pt")
    assert vectors_of(load(smaller), ["w1 w2"])[0].shape[1] == 8
