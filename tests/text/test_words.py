import pytest

from psibench.text.words import is_content_word, tokenise


def test_words_have_exact_offsets_and_stems():
    words = tokenise("Running the archives, quickly.")
    assert words.stems == ("run", "the", "archiv", "quick")
    assert (words.starts, words.ends) == ((0, 8, 12, 22), (7, 11, 20, 29))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),  # vowel signs and virama
        ("می\u200cخواهم \u200fکتاب\u200e", ["می\u200cخواهم", "کتاب"]),  # joiner; marks of direction
        ("של\u200fום\u2069 \u2067עו\u200bלם", ["של\u200fום", "עו", "לם"]),  # marks; a space
        ("retrie\u00adval and", ["retrie\u00adval", "and"]),
        ("👩\u200d🌾 farm👩\u200d🌾er 🏳️\u200d🌈 x\u200d", ["farm", "er"]),
    ],
)
def test_words_include_marks_and_joiners_but_not_emoji(text, words):
    found = tokenise(text)
    assert [text[a:b] for a, b in zip(found.starts, found.ends, strict=True)] == words


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("Их", False),
        ("शहर", True),
        ("می\u200cخواهم", True),
        ("Without", False),
        ("os", False),
        ("utf8", False),
        ("snake_case", False),
    ],
)
def test_content_words_are_long_and_no_stop_words(word, expected):
    assert is_content_word(word) is expected
