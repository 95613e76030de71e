import pytest
from hypothesis import given
from hypothesis import strategies as st

from psibench.text.words import is_content_word, tokenise


def test_words_have_exact_offsets_and_stems():
    words = tokenise("Running the archives, quickly.")
    assert words.stems == ("run", "the", "archiv", "quick")
    assert (words.starts, words.ends) == ((0, 8, 12, 22), (7, 11, 20, 29))


@given(st.text(max_size=100))
def test_every_offset_points_at_its_own_word(text):
    words = tokenise(text)
    for start, end in zip(words.starts, words.ends, strict=True):
        assert text[start:end].strip() == text[start:end]
        assert end - start >= 2
    assert list(words.starts) == sorted(words.starts)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("archive", True),
        ("Их", False),
        ("архив", True),
        ("Without", False),
        ("os", False),
        ("utf8", False),
        ("snake_case", False),
        ("", False),
    ],
)
def test_content_words_are_long_plain_and_no_stop_words(word, expected):
    assert is_content_word(word) is expected
