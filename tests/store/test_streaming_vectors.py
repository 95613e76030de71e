import numpy as np
import pytest

from psibench.errors import InputError
from psibench.store.embeddings import EmbeddingStore, text_key
from psibench.store.streaming import stream_vectors


def key(name):
    return text_key(name)


@pytest.fixture
def store(tmp_path):
    store = EmbeddingStore(tmp_path, "f" * 64)
    rng = np.random.default_rng(0)
    for names in ("abc", "de", "cf"):  # c stands in two parts
        vectors = [rng.standard_normal((n, 4)).astype(np.float32) for n in (1, 3, 2)]
        store.add([key(n) for n in names], vectors[: len(names)])
    return store


def streamed(store, names):
    found = {}
    for keys, values, counts in stream_vectors(store.folder, [key(n) for n in names]):
        pieces = np.split(values, np.cumsum(counts)[:-1])
        assert not set(keys) & set(found)
        found |= dict(zip(keys, pieces, strict=True))
    return found


@pytest.mark.parametrize("names", ["abcdef", "b", "fa", "cb"])
def test_every_text_comes_once_with_the_vectors_that_are_stored(store, names):
    found = streamed(store, names)
    assert set(found) == {key(name) for name in names}
    for name in set(names) - {"c"}:  # c's two parts hold different vectors here
        assert np.array_equal(found[key(name)], store.load([key(name)]).values)


def test_texts_without_vectors_are_counted_at_the_end(store):
    with pytest.raises(InputError, match=r"2 of 3 texts have no vectors here"):
        streamed(store, "axy")


def test_an_empty_store_has_nothing(tmp_path):
    assert list(stream_vectors(tmp_path / "none", [])) == []
    with pytest.raises(InputError, match="1 of 1 texts"):
        list(stream_vectors(tmp_path / "none", [key("a")]))
