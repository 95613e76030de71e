"""How texts of a language become terms."""

import pytest
import Stemmer
from bm25s.tokenization import tokenize as cut_by_bm25s
from hypothesis import given
from hypothesis import strategies as st

from psibench.search.bm25 import bm25_tokenizer, terms_of


def terms(language: str, text: str) -> list[str]:
    return terms_of(bm25_tokenizer(language), [text])[0]


@given(st.lists(st.text(), max_size=5))
def test_english_terms_are_those_of_bm25s_with_its_stop_words_and_the_english_stemmer(texts):
    expected = cut_by_bm25s(
        texts,
        stopwords="english",
        stemmer=Stemmer.Stemmer("english"),
        return_ids=False,
        show_progress=False,
    )
    assert terms_of(bm25_tokenizer("eng-Latn"), texts) == expected


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        # Stop words (la, de, los) go, endings too.
        ("spa-Latn", "La historia de los gatos", ["histori", "gat"]),
        ("nob-Latn", "Kattene og hundene", ["katt", "hund"]),  # by the name of the macrolanguage
        # No Arabic stop words in bm25s; article and feminine ending go by the stemmer.
        ("ara-Arab", "المكتبة في المدينة", ["مكتب", "في", "مدين"]),
        # Korean: no stemmer, words as they stand; stop word (그) is one character anyway.
        ("kor-Kore", "그 고양이가 잔다", ["고양이가", "잔다"]),
        # A language that neither library knows: words of two or more characters.
        ("swh-Latn", "Paka a wanalala", ["paka", "wanalala"]),
    ],
)
def test_stemmer_and_stop_words_are_those_of_the_language(language, text, expected):
    assert terms(language, text) == expected


def test_signs_that_are_parts_of_words_do_not_cut_them():
    # Vowel signs and the virama are combining marks; \w leaves them out.
    assert terms("qps-Deva", "हिन्दी भाषा") == ["हिन्दी", "भाषा"]
    assert terms("qps-Arab", "كِتَابٌ جديد") == ["كِتَابٌ", "جديد"]


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("cmn-Hans", "猫追老鼠。", ["猫追", "追老", "老鼠"]),
        ("cmn-Hant", "5G網路的iPhone 15", ["5g", "網路", "路的", "iphone", "15"]),
        ("cmn-Hans", "我，你", ["我", "你"]),  # alone between marks: one character
        ("jpn-Jpan", "ネコが好き", ["ネコ", "コが", "が好", "好き"]),
        ("jpn-Jpan", "ﾈｺ ＡＢＣ", ["ネコ", "abc"]),  # half and full width are folded
        ("tha-Thai", "ปลา 10 ตัว", ["ปล", "ลา", "10", "ตั", "ัว"]),
        ("cmn-Hans", "𠀀𠀁", ["𠀀𠀁"]),  # beyond the basic plane
        ("cmn-Hans", "我们一起", ["我们", "们一", "一起"]),  # stop words are words, no pairs
        ("cmn-Hans", "", []),
    ],
)
def test_scripts_without_spaces_are_cut_into_pairs_beside_whole_words(language, text, expected):
    assert terms(language, text) == expected
