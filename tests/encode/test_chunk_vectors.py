"""Chunks by the embedded checkpoint: offsets, addresses and late chunking."""

import json
import sys

import numpy as np
import polars as pl
import pytest
from closeness import assert_vectors_close

from psibench.config.model_base import Chunks
from psibench.config.registry import load_registry
from psibench.config.sections import Encoding
from psibench.encode.chunks import Rulers, cut_documents, encode_chunks, with_tokens
from psibench.encode.job import open_encoder
from psibench.encode.store import EmbeddingStore
from psibench.errors import InputError
from psibench.models.tokenizing import late_windows, tokenize_texts

SETTINGS = Encoding(device="cpu")
LONG = "# Animals\n\n" + "The quick brown fox jumps over the lazy dog. " * 80
DOCUMENTS = pl.DataFrame({"_id": ["a", "b"], "text": [LONG, "Short text about dogs."]})


@pytest.fixture(scope="module")
def encoder():
    return open_encoder(load_registry()["all-minilm-l6-v2"], SETTINGS)[0]


@pytest.fixture
def store(tmp_path, encoder):
    return EmbeddingStore(tmp_path, encoder.fingerprint)


def cut(encoder, **chunks):
    return cut_documents(DOCUMENTS, Chunks(**chunks), Rulers(encoder.model.tokenizer))


def vectors_of(encoder, texts):
    items = encoder.tokenize(texts, "document")
    (windows, content) = zip(*((i.windows[0], i.content[0]) for i in items), strict=True)
    return np.concatenate(encoder.forward(windows, content))


def test_equal_chunks_are_encoded_once_over_settings(encoder, store):
    first = cut(encoder, splitter="sentence", size=11)
    found = encode_chunks(encoder, store, DOCUMENTS, first, SETTINGS)
    # The heading, one sentence 80 times, and the short text.
    assert (first.height, found.stats.texts, found.n_cut) == (82, 3, 0)
    texts = dict(DOCUMENTS.iter_rows())
    pieces = [texts[doc_id][start:end] for doc_id, start, end in first.iter_rows()]
    assert_vectors_close(store.load(found.keys).values, vectors_of(encoder, pieces))
    again = encode_chunks(
        encoder, store, DOCUMENTS, cut(encoder, splitter="sentence", size=10), SETTINGS
    )
    assert again.stats.texts == 0


def test_a_title_is_read_with_each_chunk_of_its_document(encoder, store):
    chunks = cut(encoder, splitter="sentence", size=11).tail(2)
    found = encode_chunks(encoder, store, DOCUMENTS, chunks, SETTINGS, context="title")
    texts = ["Animals\n\nThe quick brown fox jumps over the lazy dog.", "Short text about dogs."]
    assert_vectors_close(store.load(found.keys).values, vectors_of(encoder, texts))
    with pytest.raises(InputError, match="no document has a title"):
        encode_chunks(encoder, store, DOCUMENTS.tail(1), chunks.tail(1), SETTINGS, context="title")


def test_chunks_beyond_the_input_are_counted_as_cut(encoder, store):
    # 804 tokens in three chunks, 400 beyond the 254 that fit.
    chunks = cut(encoder, splitter="tokens", size=400)
    assert encode_chunks(encoder, store, DOCUMENTS, chunks, SETTINGS).n_cut == 2
    assert encode_chunks(encoder, store, DOCUMENTS, chunks, SETTINGS, context="late").n_cut == 2


def test_a_late_chunk_of_a_whole_document_has_its_vector(encoder, store):
    chunks = cut(encoder, splitter="recursive", size=1000)
    found = encode_chunks(
        encoder, store, DOCUMENTS.tail(1), chunks.tail(1), SETTINGS, context="late"
    )
    expected = vectors_of(encoder, ["Short text about dogs."])
    assert_vectors_close(store.load(found.keys).values, expected)


def test_late_windows_hold_whole_chunks_behind_their_context(encoder):
    (item,) = tokenize_texts(encoder.model.tokenizer, ["a " * 50])
    offsets = np.array([(2 * k, 2 * k + 1) for k in range(50)])
    # Chunks of 10 tokens; 22 tokens are 20 and two special tokens.
    chunks = [(start, start + 19) for start in range(0, 100, 20)]
    read = late_windows(item, offsets, chunks, max_tokens=22)
    starts = [rows.argmax(axis=1).tolist() for rows in read.content]
    sizes = [rows.sum(axis=1).tolist() for rows in read.content]
    # Two chunks, then one behind five tokens of the chunk in front of it; the last window is full.
    assert starts == [[0, 11], [6], [6], [11]]
    assert sizes == [[11, 10], [10], [10], [11]]
    assert [len(window) for window in read.windows] == [22] * 4


def test_late_chunking_is_refused_without_token_vectors(store):
    static, _ = open_encoder(load_registry()["minilm-static"], SETTINGS)
    chunks = pl.DataFrame({"doc_id": ["b"], "start": [0], "end": [5]})
    with pytest.raises(InputError, match="context: late needs token vectors"):
        encode_chunks(static, store, DOCUMENTS, chunks, SETTINGS, context="late")


def test_tokens_of_a_chunk_are_those_of_the_document(encoder):
    rulers = Rulers(encoder.model.tokenizer)
    chunks = cut(encoder, splitter="tokens", size=100, overlap=20)
    found = with_tokens(chunks, dict(DOCUMENTS.iter_rows()), rulers)
    # Windows begin every 80 of 802 tokens: 100 each, the last has 2 + 80; then the short text.
    assert found["tokens"].to_list() == [100] * 9 + [802 - 9 * 80] + [5]


PROGRAM = """
import json, sys
for line in sys.stdin:
    row = json.loads(line)
    print(json.dumps({"_id": row["_id"], "start": 1, "end": %s, "text": row["text"][1:%s]}))
"""


def by_program(encoder, *ends):
    command = [sys.executable, "-c", PROGRAM % ends]
    return cut(encoder, splitter="command", command=command)


@pytest.mark.processes
def test_a_command_cuts_and_its_chunks_are_checked(encoder):
    assert by_program(encoder, 9, 9).rows() == [("a", 1, 9), ("b", 1, 9)]
    for ends, message in (((9, 8), "but the chunk's text is"), ((99, 99), "has 22 characters")):
        with pytest.raises(InputError, match=message):
            by_program(encoder, *ends)
    with pytest.raises(InputError, match="ended with 3"):
        cut(encoder, splitter="command", command=[sys.executable, "-c", "exit(3)"])
    with pytest.raises(InputError, match="no chunk of 2 documents"):
        cut(encoder, splitter="command", command=[sys.executable, "-c", ""])
    odd = json.dumps({"_id": "a", "start": "0", "end": 4})
    with pytest.raises(InputError, match="must be whole numbers"):
        cut(encoder, splitter="command", command=[sys.executable, "-c", f"print({odd!r})"])
