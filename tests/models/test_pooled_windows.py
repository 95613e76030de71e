"""Windows whose mean counts, head and tail, and chunks pooled after the whole text was read."""

import numpy as np
import pytest
from encoder_references import states_of, unit, vectors_of, words
from pydantic import ValidationError
from tiny_checkpoints import entry_of

from psibench.config.sections import Encoding
from psibench.encode.batches import encode_texts
from psibench.encode.store import EmbeddingStore, text_key
from psibench.errors import InputError
from psibench.models.protocols import TokenizedText

WINDOWS = {"tokens": 18, "overlap": 4}  # 16 words in each, 12 further on


def stored(encoder, texts: list[str], folder, role: str = "document") -> list[np.ndarray]:
    """Vectors as an encoding job stores them."""
    store = EmbeddingStore(folder, encoder.fingerprint)
    encode_texts(encoder, texts, role, store=store, settings=Encoding(), description="test")
    found = store.load([text_key(text, salt=encoder.salt(role)) for text in texts])
    return np.split(found.values, found.offsets[1:-1])


def test_mean_of_windows_is_one_unit_vector(load_tiny, tmp_path):
    encoder = load_tiny(windows=WINDOWS | {"pool": "mean"})
    texts = [words(40), words(5)]
    long, short = stored(encoder, texts, tmp_path)
    # 40 words: windows of the words from 0, 12 and 24 on, the last with its 16.
    parts = vectors_of(load_tiny(), [words(16), words(16, 12), words(16, 24)])
    np.testing.assert_allclose(long, unit(np.mean(parts, axis=0)), atol=1e-6)
    np.testing.assert_allclose(short, vectors_of(load_tiny(), texts[1:])[0], atol=1e-6)


def test_opposite_windows_average_to_the_zero_vector():
    item = TokenizedText((), (), 0, is_averaged=True)
    one = np.array([[0.6, 0.8]], dtype=np.float32)
    assert item.vectors([one, -one]).tolist() == [[0.0, 0.0]]


def test_head_and_tail_are_first_window_and_last_tokens(load_tiny):
    encoder = load_tiny(windows=WINDOWS | {"keep": "head-and-tail"})
    # 50 words: windows from 0, 12, 24 and 36 on; the last has 14 words, so two of the one before.
    (item,) = encoder.tokenize([words(50)], "document")
    head, tail = (
        window[keep].tolist() for window, keep in zip(item.windows, item.content, strict=True)
    )
    first = encoder.model.tokenizer.convert_tokens_to_ids("w0")
    assert head == [first + i for i in range(16)]
    assert tail == [first + i for i in range(34, 50)]
    assert [len(window) for window in item.windows] == [18, 18]
    assert [window[[0, -1]].tolist() for window in item.windows] == [[2, 3], [2, 3]]
    # w0 .. w9 have two characters, w10 .. w15 three, with 15 spaces between them.
    assert item.visible_char_end == 10 * 2 + 6 * 3 + 15


@pytest.mark.parametrize("n", [0, 5, 16, 17, 28])
def test_head_and_tail_keep_texts_of_two_windows_whole(load_tiny, n):
    kept, every = (
        load_tiny(windows=WINDOWS | {"keep": keep}).tokenize([words(n)], "document")[0]
        for keep in ("head-and-tail", "all")
    )
    assert [w.tolist() for w in kept.windows] == [w.tolist() for w in every.windows]
    assert kept.visible_char_end == len(words(n))


# --- late chunking

CHUNKS = {"tokens": 16, "overlap": 4}


def test_chunks_are_means_of_states_that_saw_the_whole_text(load_tiny, tmp_path):
    encoder = load_tiny(max_tokens=64, late_chunking=CHUNKS)
    (vectors,) = stored(encoder, [words(40)], tmp_path)
    states = states_of(encoder, words(40), "query")  # [CLS], 40 words, [SEP]
    # Words 0-15 with [CLS] before them, 12-27, and 24-39 with [SEP] behind them.
    expected = [states[0:17].mean(axis=0), states[13:29].mean(axis=0), states[25:42].mean(axis=0)]
    np.testing.assert_allclose(vectors, unit(np.array(expected)), atol=1e-6)


@pytest.mark.parametrize("checkpoint", ["tiny_bert", "tiny_gpt2"])
def test_chunks_do_not_depend_on_the_batch(load_tiny, checkpoint, request):
    fields = {"max_tokens": 60, "late_chunking": CHUNKS, "pooling": "mean"}
    encoder = load_tiny(request.getfixturevalue(checkpoint), **fields)
    texts = [words(50), words(3), "", words(20, 7)]
    together = vectors_of(encoder, texts)
    assert [len(vectors) for vectors in together] == [4, 1, 1, 2]
    for one, other in zip(together, vectors_of(encoder, texts, together=False), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"late_chunking": CHUNKS, "windows": WINDOWS}, "windows and late_chunking exclude"),
        ({"late_chunking": CHUNKS, "scoring": "maxsim"}, "late_chunking and scoring: maxsim"),
        ({"late_chunking": CHUNKS, "pooling": "cls"}, "pooling is 'cls'; allowed with it"),
        ({"late_chunking": {"tokens": 48, "overlap": 4}}, "late_chunking.tokens 48 > max_tokens"),
        ({"late_chunking": {"tokens": 16, "overlap": 12}}, "leaves no step"),
        ({"late_chunking": CHUNKS, "architecture": "nv-embed"}, "nv-embed exclude each other"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(fields, found):
    with pytest.raises(ValidationError, match=found):
        entry_of("x", **fields)


def test_chunks_are_refused_for_first_token_pooling(load_tiny, tmp_path):
    from tiny_checkpoints import save_bert, save_modules

    save_modules(save_bert(tmp_path), pooling="cls")
    with pytest.raises(InputError, match="pools by cls; remove `late_chunking`"):
        load_tiny(tmp_path, late_chunking=CHUNKS)
