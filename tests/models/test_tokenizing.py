from dataclasses import replace

import numpy as np
import pytest
from encoder_references import words

from psibench.models.tokenizing import tokenize_texts


@pytest.mark.parametrize(
    ("text", "visible"),
    [
        # [CLS], six tokens, [SEP]: what fits is visible whatever its characters.
        ("", 0),
        ("   w1 w2\n", 9),
        ("w1 \U0001f600\U0001f600", 5),
        # What is cut is visible to the end of its last token: six words, five spaces between them.
        (words(10), 6 * 2 + 5),
        # Leading spaces count, as the characters they are.
        ("   " + words(10), 3 + 17),
        # One token per astral word; Python counts each character once.
        ("\U0001f600 " * 10, 6 * 2 - 1),
        ("\U00020000文 " * 10, 6 * 3 - 1),
    ],
)
def test_visible_end_is_in_code_points(load_tiny, text, visible):
    (item,) = load_tiny(max_tokens=8).tokenize([text], "document")
    assert item.visible_char_end == visible


def test_prompt_takes_tokens_but_no_visible_characters(load_tiny):
    prompted = load_tiny(max_tokens=8, document_prompt="w7 w8 ")
    (short, long) = prompted.tokenize(["w1", words(10)], "document")
    assert short.windows[0].tolist() == [2, 11, 12, 5, 3]
    assert short.content[0].tolist() == [False, False, False, True, False]
    assert short.visible_char_end == 2
    assert long.visible_char_end == 4 * 2 + 3  # the prompt leaves room for four words


@pytest.mark.parametrize("n_words", [0, 14, 15, 24, 25])
def test_windows_cover_every_token_with_the_stated_overlap(load_tiny, n_words):
    windowed = load_tiny(windows={"tokens": 16, "overlap": 4})
    (item,) = windowed.tokenize([words(n_words)], "document")
    inner = [window[1:-1].tolist() for window in item.windows]
    assert all(len(window) <= 16 for window in item.windows)
    for left, right in zip(inner, inner[1:], strict=False):
        assert left[-4:] == right[:4]
    rebuilt = inner[0] + [token for window in inner[1:] for token in window[4:]]
    assert rebuilt == [4 + i % 60 for i in range(n_words)]
    # 14 words fit in one window, each further one brings at most ten new ones.
    assert len(inner) == 1 + max(0, -(-(n_words - 14) // 10))
    assert item.visible_char_end == len(words(n_words))


def test_queries_are_not_cut_into_windows(load_tiny):
    windowed = load_tiny(windows={"tokens": 16, "overlap": 4})
    (item,) = windowed.tokenize([words(100)], "query")
    assert [len(window) for window in item.windows] == [32]


def test_texts_beyond_one_tokenizer_call_keep_their_order(load_tiny):
    tokenizer = load_tiny().model.tokenizer
    texts = [words(1 + i % 40) for i in range(1100)]
    items = tokenize_texts(tokenizer, texts, max_tokens=16, overlap=2)
    assert [item.visible_char_end for item in items] == [len(text) for text in texts]


def test_text_cut_at_its_visible_end_has_the_same_vector(minilm):
    first_128 = replace(minilm, entry=minilm.entry.model_copy(update={"max_tokens": 128}))
    text = " ".join(f"Sentence {i} tells of naïve 日本 things, twice." for i in range(60))
    (long,) = first_128.tokenize([text], "document")
    assert long.n_tokens == 128
    assert 0 < long.visible_char_end < len(text)
    (cut,) = first_128.tokenize([text[: long.visible_char_end]], "document")
    np.testing.assert_array_equal(cut.windows[0], long.windows[0])
    (a,), (b,) = (first_128.forward(item.windows, item.content) for item in (long, cut))
    np.testing.assert_array_equal(a, b)
