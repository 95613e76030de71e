import unicodedata

import pytest

from psibench.llm.standin.locales import ACCENTED, ARABIC
from psibench.llm.standin.rules import sentences
from psibench.text.words import tokenise

TEXT = (
    'Salted cod left the harbour for 3.5 markets, e.g. in Spain: "don\'t" ask!\n\n'
    "A FIRE destroyed the wooden warehouses in 1843. Insurance paid for brick, see it?"
)


def test_a_text_is_accented_and_its_longer_words_are_lengthened():
    assert ACCENTED.translate("The old Oak, 3 pubs") == "Ṭḥẹ ọḷḍ Ọạḳ, 3 ṗụụḅṣ"
    assert ACCENTED.translate("APPLE") == "ẠạṖṖḶẸẹ"
    assert 1.15 < len(ACCENTED.translate(TEXT)) / len(TEXT) < 1.3


def test_a_text_is_written_from_right_to_left_letter_by_letter():
    made = ARABIC.translate(TEXT)
    assert len(made) == len(TEXT)
    assert ARABIC.translate("Cab 3") == "خاب 3"
    letters = [letter for letter in made if letter.isalpha()]
    assert {unicodedata.bidirectional(letter) for letter in letters} == {"AL"}


@pytest.mark.parametrize("locale", [ACCENTED, ARABIC])
def test_words_sentences_and_paragraphs_stay(locale):
    made = locale.translate(TEXT)
    assert len(tokenise(made)) == len(tokenise(TEXT))
    assert [made[a:b] for a, b in sentences(made)] == [
        locale.translate(TEXT[a:b]) for a, b in sentences(TEXT)
    ]
    assert made.count("\n\n") == 1
    digits = [char for char in made if not char.isalpha()]
    assert digits == [char for char in TEXT if not char.isalpha()]


@pytest.mark.parametrize("locale", [ACCENTED, ARABIC])
def test_the_share_tells_a_translation_from_what_was_left(locale):
    half = "harbour " + locale.translate("harbour")
    assert locale.share(locale.translate(TEXT)) == 1
    assert locale.share(TEXT) == 0
    assert 0 < locale.share(half) < 1
    assert locale.share("") == locale.share("3 → 你好") == 1
