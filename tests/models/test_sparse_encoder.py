"""Learned sparse retrievers: their weights are sentence-transformers' own, however batched."""

import jobs
import numpy as np
import pytest
import torch
from encoder_references import vectors_of
from language_tables import write_texts
from tiny_sparse import save_inference_free, save_splade, sparse_entry, weights_of

from psibench.encode.job import run_encode
from psibench.errors import InputError
from psibench.models.load import load_encoder
from psibench.models.tokenizing import pad_windows
from psibench.search.runs import run_vector_search
from psibench.tables import read_table
from psibench.tables.schemas import RUN

TEXTS = ["w1 w2 w3", "w4 w5", " ".join(f"w{i % 60}" for i in range(100))]


@pytest.fixture(scope="module")
def splade(tmp_path_factory):
    return save_splade(tmp_path_factory.mktemp("splade"))


@pytest.fixture(scope="module")
def inference_free(tmp_path_factory):
    return save_inference_free(tmp_path_factory.mktemp("inference-free"))


def load(folder, **fields):
    return load_encoder(sparse_entry(folder, **fields), device="cpu")


def reference(folder, texts, role, max_tokens=32):
    """SparseEncoder's weights by term for each text."""
    from sentence_transformers import SparseEncoder

    model = SparseEncoder(str(folder), device="cpu")
    model.max_seq_length = max_tokens
    encode = model.encode_query if role == "query" else model.encode_document
    dense = encode(texts, convert_to_tensor=True, convert_to_sparse_tensor=False).numpy()
    return [{int(t): float(row[t]) for t in np.flatnonzero(row > 0)} for row in dense]


@pytest.mark.parametrize("role", ["query", "document"])
def test_weights_equal_sentence_transformers(splade, role):
    encoder = load(splade)
    found = [weights_of(rows) for rows in vectors_of(encoder, TEXTS, role)]
    for own, theirs in zip(found, reference(splade, TEXTS, role), strict=True):
        assert 3 < len(theirs) < 64  # some terms, not all
        assert own == pytest.approx(theirs, abs=1e-5)


def test_number_of_terms_follows_entry_or_checkpoint(splade, tmp_path):
    (every,) = vectors_of(load(splade), TEXTS[:1])
    (few,) = vectors_of(load(splade, max_terms=5), TEXTS[:1], "query")
    assert len(every) > 5
    largest = sorted(weights_of(every).items(), key=lambda pair: -pair[1])[:5]
    assert weights_of(few) == pytest.approx(dict(largest))
    limited = save_splade(tmp_path, max_active_dims=4)
    assert len(vectors_of(load(limited), TEXTS[:1])[0]) <= 4


def test_inference_free_queries_and_documents_share_a_batch(inference_free):
    encoder = load(inference_free)
    queries, documents = (encoder.tokenize(TEXTS[:2], role) for role in ("query", "document"))
    items = [documents[0], queries[0], documents[1], queries[1]]
    found = encoder.forward([i.windows[0] for i in items], [i.content[0] for i in items])
    # w1 is term 5 of the vocabulary, whose weight is 6
    assert weights_of(found[1]) == {5: 6.0, 6: 7.0, 7: 8.0}
    assert weights_of(found[3]) == {8: 9.0, 9: 10.0}
    for own, theirs in zip(
        found[::2], reference(inference_free, TEXTS[:2], "document"), strict=True
    ):
        assert weights_of(own) == pytest.approx(theirs, abs=1e-5)
    assert encoder.salt("query") != encoder.salt("document")


def test_a_text_may_begin_with_token_0(splade):
    """As in RoBERTa-like models, with <s>."""
    encoder = load(splade)
    ids = np.array([0, 5, 6, 3], dtype=np.int32)
    with torch.inference_mode():
        read = encoder.model(pad_windows([ids], pad_id=0, device="cpu"), task="document")
    expected = read["sentence_embedding"].to_dense()[0].tolist()
    (rows,) = encoder.forward([ids], [ids > 0])
    weights = {term: weight for term, weight in enumerate(expected) if weight > 0}
    assert weights_of(rows) == pytest.approx(weights, abs=1e-5)


def test_more_tokens_than_positions_are_refused(splade, inference_free):
    for folder in (splade, inference_free):
        with pytest.raises(InputError, match=r"max_tokens is 65, but .* 64 positions"):
            load(folder, max_tokens=65)


def test_a_dense_checkpoint_is_refused_by_name(tiny_bert):
    with pytest.raises(InputError, match=str(tiny_bert)):
        load(tiny_bert)


@pytest.mark.parametrize("storage", ["float32", "float16"])
def test_sparse_model_is_encoded_stored_and_searched(tmp_path, splade, storage):
    words = {i: " ".join(f"w{(7 * n + k) % 60}" for k in range(9)) for n, i in enumerate("dcba")}
    asked = {"q1": "w7 w8", "q2": words["c"]}
    corpus, queries = write_texts(tmp_path, words, asked)
    entry = sparse_entry(splade)
    encodings = tmp_path / "encodings.parquet"
    values = {"entry": entry, "store": tmp_path / "store", "model": "m", "domains": ["a"]}
    jobs.run(
        run_encode,
        {"corpora": corpus, "queries": queries},
        {"encodings": encodings},
        device="cpu",
        storage=storage,
        **values,
    )
    jobs.run(
        run_vector_search,
        {"query_encodings": encodings, "corpus_encodings": encodings},
        {"run": tmp_path / "run.parquet"},
        top_k=3,
        block_mib=8,
        **values,
    )
    run = read_table(tmp_path / "run.parquet", RUN)
    encoder = load_encoder(entry, device="cpu")
    documents, queries = (
        dict(zip(own, map(weights_of, vectors_of(encoder, list(own.values()), role)), strict=True))
        for own, role in ((words, "document"), (asked, "query"))
    )
    for query, terms in queries.items():
        scores = {
            name: sum(weight * own.get(term, 0) for term, weight in terms.items())
            for name, own in documents.items()
        }
        found = run.filter(query_id=query).sort("rank")
        best = sorted(filter(None, scores.values()), reverse=True)[:3]
        assert found["score"].to_list() == pytest.approx(best, rel=2e-3)
        assert [scores[name] for name in found["doc_id"]] == pytest.approx(best, rel=2e-3)
