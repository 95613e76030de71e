"""How texts of a language become terms."""

from unicodedata import normalize

import pytest
import Stemmer
from bm25s.tokenization import tokenize as cut_by_bm25s
from hypothesis import given
from hypothesis import strategies as st

from psibench.search.bm25 import bm25_tokenizer, terms_of


def terms(language: str, text: str) -> list[str]:
    return terms_of(bm25_tokenizer(language), [text])[0]


def terms_by_bm25s(texts: list[str]) -> list[list[str]]:
    return cut_by_bm25s(
        texts,
        stopwords="english",
        stemmer=Stemmer.Stemmer("english"),
        return_ids=False,
        show_progress=False,
    )


@given(st.lists(st.text(st.characters(exclude_categories=["Cf", "Cn", "Mn"])), max_size=5))
def test_english_terms_equal_bm25s(texts):
    # Without marks and format characters, which Unicode calls ignorable in part, and Hangul's
    # fillers, letters that show nothing.
    fillers = dict.fromkeys(map(ord, "\u115f\u1160\u3164\uffa0"))
    texts = [normalize("NFKC", text).translate(fillers) for text in texts]
    assert terms_of(bm25_tokenizer("eng-Latn"), texts) == terms_by_bm25s(texts)


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("eng-Latn", "A résumé naïve ﬁnding, ＡＢＣ"),
        ("deu-Latn", "Äpfel und Öl für die Straße"),
        ("vie-Latn", "tiếng Việt"),
        ("kor-Kore", "고양이가 잔다"),
        ("jpn-Jpan", "ガラスのｶﾞﾗｽ"),
    ],
)
def test_every_unicode_form_of_a_text_has_the_same_terms(language, text, form):
    assert terms(language, normalize(form, text)) == terms(language, normalize("NFKC", text))
    if language == "eng-Latn":
        assert (
            terms(language, normalize(form, text)) == terms_by_bm25s([normalize("NFKC", text)])[0]
        )


@pytest.mark.parametrize(
    "invisible",
    ["\u00ad", "\u2060", "\ufeff", "\u200d", "\u200e", "\ufe0f", "\U000e0100"],
    ids=[
        "soft hyphen",
        "word joiner",
        "byte order mark",
        "joiner",
        "direction",
        "variant",
        "kanji",
    ],
)
@pytest.mark.parametrize(
    ("language", "before", "after"),
    [
        ("eng-Latn", "posi", "tional"),
        ("deu-Latn", "Donau", "dampf"),
        ("hin-Deva", "हिन्", "दी"),
        ("cmn-Hans", "北", "京"),
    ],
)
def test_invisible_characters_do_not_break_words(language, before, after, invisible):
    assert terms(language, before + invisible + after) == terms(language, before + after)


@pytest.mark.parametrize(
    ("language", "text", "same_as"),
    [
        ("eng-Latn", "zero\u200bwidth", "zero width"),  # the space without width ends a word
        ("pes-Arab", "کتاب\u200cها", "کتاب ها"),  # Persian: an ending after a non-joiner
        ("kan-Knda", "ರಾಜ್\u200cಕುಮಾರ್", "ರಾಜ್ಕುಮಾರ್"),  # Kannada: inside a word
        ("eng-Latn", "Widget™", "Widget TM"),  # NFKC would make one word
        ("deu-Latn", "5㎏", "5 kg"),
    ],
)
def test_spaces_without_width_and_symbols_end_words(language, text, same_as):
    assert terms(language, text) == terms(language, same_as)


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        # Stop words (la, de, los) go, endings too.
        ("spa-Latn", "La historia de los gatos", ["histori", "gat"]),
        ("nob-Latn", "Kattene og hundene", ["katt", "hund"]),  # by the name of the macrolanguage
        # No Arabic stop words in bm25s; article and feminine ending go by the stemmer.
        ("ara-Arab", "المكتبة في المدينة", ["مكتب", "في", "مدين"]),
        # Korean: no stemmer, words are unchanged; the stop word (그) has one character anyway.
        ("kor-Kore", "그 고양이가 잔다", ["고양이가", "잔다"]),
        # A language that neither library knows: words of two or more characters.
        ("swh-Latn", "Paka a wanalala", ["paka", "wanalala"]),
    ],
)
def test_stemmer_and_stop_words_follow_the_language(language, text, expected):
    assert terms(language, text) == expected


def test_combining_signs_do_not_split_words():
    # Vowel signs and the virama are combining marks; \w leaves them out.
    assert terms("qps-Deva", "हिन्दी भाषा") == ["हिन्दी", "भाषा"]
    assert terms("qps-Arab", "كِتَابٌ جديد") == ["كِتَابٌ", "جديد"]


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("cmn-Hans", "猫追老鼠。", ["猫追", "追老", "老鼠"]),
        ("cmn-Hant", "5G網路的iPhone 15", ["5g", "網路", "路的", "iphone", "15"]),
        ("cmn-Hans", "我，你", ["我", "你"]),  # a single character between marks
        ("jpn-Jpan", "ネコが好き", ["ネコ", "コが", "が好", "好き"]),
        ("jpn-Jpan", "ﾈｺ ＡＢＣ", ["ネコ", "abc"]),  # half and full width are folded
        ("tha-Thai", "ปลา 10 ตัว", ["ปล", "ลา", "10", "ตั", "ัว"]),
        ("cmn-Hans", "𠀀𠀁", ["𠀀𠀁"]),  # beyond the basic plane
        ("cmn-Hans", "我们一起", ["我们", "们一", "一起"]),  # stop words are words, no pairs
        ("cmn-Hans", "", []),
    ],
)
def test_unspaced_scripts_are_split_into_pairs(language, text, expected):
    assert terms(language, text) == expected
