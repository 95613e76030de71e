import pytest

from psibench.errors import InputError
from psibench.text.languages import english_name, html_lang, iso639_1, spaces_sentences


@pytest.mark.parametrize(
    ("code", "name", "short", "tag"),
    [
        ("cmn-Hans", "Chinese (Simplified)", "zh", "zh-Hans"),
        ("eng-Latn", "English", "en", "en"),
        ("srp-Cyrl", "Serbian (Cyrillic)", "sr", "sr-Cyrl"),
        ("ast-Latn", "Asturian (Latin)", None, "ast-Latn"),
        ("qps-Latn", "pseudo-locale (Latin)", None, "qps-Latn"),
    ],
)
def test_names_and_codes(code, name, short, tag):
    assert (english_name(code), iso639_1(code), html_lang(code)) == (name, short, tag)


def test_chinese_and_japanese_have_no_space_between_sentences():
    codes = ("cmn-Hans", "jpn-Jpan", "kor-Kore", "tha-Thai")
    assert [spaces_sentences(code) for code in codes] == [False, False, True, True]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("xyz-Latn", "'xyz-Latn': 'xyz' is not a language"),
        ("qaa-Latn", "'qaa-Latn': 'qaa' is not a language"),
        ("eng-Xxxx", "'eng-Xxxx': 'Xxxx' is not a script"),
        ("english", "'english': does not have the form eng-Latn"),
    ],
)
def test_invalid_language_codes_are_refused(code, message):
    with pytest.raises(InputError, match=message):
        english_name(code)
