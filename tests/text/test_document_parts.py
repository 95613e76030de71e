import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psibench.text.lengths import count_whitespace_tokens
from psibench.text.parts import join_parts, split_parts


def count_chars(texts):
    return np.array([len(text) for text in texts])


def pieces(text, max_tokens, count_tokens=count_whitespace_tokens):
    return split_parts(text, max_tokens=max_tokens, count_tokens=count_tokens)


def test_a_part_has_as_many_paragraphs_as_fit():
    text = "a b\n\nc d\n \ne\n\nf g h i"
    # 2 + 2 + 1 words fit in 5, the fourth paragraph does not.
    assert pieces(text, 5) == [("a b\n\nc d\n \ne", "\n\n"), ("f g h i", "")]
    assert pieces(text, 4) == [("a b\n\nc d", "\n \n"), ("e", "\n\n"), ("f g h i", "")]


def test_chinese_and_arabic_sentences_are_cut_at_their_own_marks():
    assert pieces("你好吗？我很好。「走。」再见", 8, count_chars) == [
        ("你好吗？我很好。", ""),
        ("「走。」再见", ""),
    ]
    assert pieces("كيف الحال؟ بخير", 2) == [("كيف الحال؟", " "), ("بخير", "")]


def test_long_sentences_are_cut_between_words_then_characters():
    assert pieces("a b c d e", 2) == [("a b", " "), ("c d", " "), ("e", "")]
    assert pieces("abcdefg", 3, count_chars) == [("abc", ""), ("def", ""), ("g", "")]
    assert pieces("你好\U00020000吗", 2, count_chars) == [("你好", ""), ("\U00020000吗", "")]


def test_a_character_above_the_limit_is_a_separate_part():
    assert pieces("ab", 1, lambda texts: 3 * count_chars(texts)) == [("a", ""), ("b", "")]


TEXTS = st.text(alphabet='ab .!?\n\r\t。？」"é\U0001f600 ', max_size=80)


@given(TEXTS, st.integers(1, 12), st.sampled_from([count_chars, count_whitespace_tokens]))
def test_parts_fit_and_join_to_the_same_text(text, most, count_tokens):
    parts = pieces(text, most, count_tokens)
    texts, separators = map(list, zip(*parts, strict=True))
    joined, joins = join_parts(texts, separators)
    assert joined == text
    starts = [0, *joins]
    assert all(text.startswith(one, at) for one, at in zip(texts, starts, strict=True))
    assert all(separator.strip() == "" for separator in separators)
    assert separators[-1] == ""
    assert max(count_tokens(texts)) <= most  # either counts at most one for a character
    assert len(parts) == 1 or all(texts)


@pytest.mark.parametrize("text", [" " * 100_000 + "a b", "." * 50_000 + " b", "a" + "\n " * 50_000])
def test_long_runs_take_linear_time(text):
    start = time.thread_time()  # of the processor: others on the machine do not count
    split_parts(f"a {text} c", max_tokens=1, count_tokens=count_whitespace_tokens)
    assert time.thread_time() - start < 2  # about 3 ms; quadratic time would take minutes
