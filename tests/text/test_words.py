import pytest
from hypothesis import given
from hypothesis import strategies as st

from psibench.text.words import is_content_word, tokenise


def test_words_have_exact_offsets_and_stems():
    words = tokenise("Running the archives, quickly.")
    assert words.stems == ("run", "the", "archiv", "quick")
    assert (words.starts, words.ends) == ((0, 8, 12, 22), (7, 11, 20, 29))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),  # vowel signs and virama
        ("שָׁלוֹם עוֹלָם", ["שָׁלוֹם", "עוֹלָם"]),  # points
        ("می\u200cخواهم \u200fکتاب\u200e", ["می\u200cخواهم", "کتاب"]),  # joiner; marks of direction
        ("של\u200fום\u2069 \u2067עו\u200bלם", ["של\u200fום", "עו", "לם"]),  # marks; a space
        ("retrie\u00adval and", ["retrie\u00adval", "and"]),
        ("👩\u200d🌾 farm👩\u200d🌾er 🏳️\u200d🌈 x\u200d", ["farm", "er"]),
        ("cafe\u0301 bar", ["cafe\u0301", "bar"]),
    ],
)
def test_marks_and_joiners_are_parts_of_words_and_emoji_are_not(text, words):
    found = tokenise(text)
    assert [text[a:b] for a, b in zip(found.starts, found.ends, strict=True)] == words


def test_words_that_look_the_same_have_one_stem():
    composed, *others = tokenise("caf\u00e9 cafe\u0301 ca\u00adf\u00e9").stems
    assert set(others) == {composed}


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
        ("शहर", True),
        ("می\u200cخواهم", True),
        ("Without", False),
        ("os", False),
        ("utf8", False),
        ("snake_case", False),
        ("", False),
    ],
)
def test_content_words_are_long_plain_and_no_stop_words(word, expected):
    assert is_content_word(word) is expected
