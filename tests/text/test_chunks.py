import pytest
from hypothesis import given
from hypothesis import strategies as st

from psibench.text.segments import split_chunks


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one two\n\nthree four five\n\nsix", ["one two", "three four five\n\nsix"]),
        ("one two\nthree four\nfive", ["one two\nthree four", "five"]),
        ("one two three four five six", ["one two three four", "five six"]),
        # The second paragraph is too long for one chunk: it is cut at its lines, then its words.
        ("a b\n\nc d e\nf g h i j", ["a b", "c d e", "f g h i", "j"]),
        ("  one \n\n two  ", ["one \n\n two"]),
        (" \n\n\t", []),
    ],
)
def test_cuts_fall_between_paragraphs_then_lines_then_words(text, expected):
    assert [text[start:end] for start, end in split_chunks(text, chunk_words=4)] == expected


SPACES = [" ", "\n", "\n\n", "\t", "\r\n", "\u00a0", "\u2028", "\u3000", "\x1c", "  ", " \n\n "]
WORDS = ["a", "na", "b.", "語", "😀", "the", "é", "\u200b"]


@given(st.lists(st.sampled_from(WORDS + SPACES), max_size=80).map("".join), st.integers(1, 9))
def test_chunks_hold_all_words_in_order_and_none_is_too_long(text, chunk_words):
    spans = split_chunks(text, chunk_words=chunk_words)
    at = 0
    for start, end in spans:
        assert at <= start < end <= len(text)
        assert not text[at:start].strip()
        chunk = text[start:end]
        assert chunk == chunk.strip()
        assert len(chunk.split()) <= chunk_words
        at = end
    assert not text[at:].strip()
