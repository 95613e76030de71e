"""Texts suspected to be refusals, and the judge's decision on them."""

import polars as pl
import pytest

from psibench.text.detection import is_foreign
from psibench.translate.refusals import find_suspect, read_refusals, refused

PATTERNS = read_refusals()

REFUSALS = {
    "eng-Latn": "I’m sorry, but I can't translate this text.",
    "rus-Cyrl": "Извините, но я не могу перевести этот текст.",
    "ara-Arab": "عذرًا، لا أستطيع ترجمة هذا النص.",
    "cmn-Hans": "抱歉，我无法翻译这段文字。",
}
HONEST = {
    "eng-Latn": "No one could translate the poem for a century, critics said it cannot be done.",
    "rus-Cyrl": "Это слово трудно перевести на другие языки, и переводчики спорят о нём.",
    "ara-Arab": "يصعب نقل هذه الكلمة إلى لغات أخرى، وقد اختلف المترجمون في معناها.",
    "cmn-Hans": "这首诗很难译成其他语言，因此各种译本之间差别很大。",
}


def suspicion(text, language):
    found = find_suspect([text], language=language, patterns=PATTERNS)
    return found and found[0]


@pytest.mark.parametrize("language", REFUSALS)
def test_a_refusal_in_the_target_language_is_suspect(language):
    assert suspicion(REFUSALS[language], language) == "phrase"


@pytest.mark.parametrize("written", HONEST)
@pytest.mark.parametrize("language", [*HONEST, "qps-Latn"])
def test_only_texts_in_another_language_are_suspect(written, language):
    foreign = written != language if language != "qps-Latn" else written == "eng-Latn"
    assert suspicion(HONEST[written], language) == ("language" if foreign else None)


@pytest.mark.parametrize(
    "text",
    [
        "iPhone 15 Pro Max",  # too short to decide
        "numpy.reshape(a, (2, 3)) np.ndarray[float64] x_1 = 3.14",  # code
        "https://example.org/some/long/path/to/english/words.html",
        "2024 1999 12.5 % 1,234",
        "",
    ],
)
def test_names_code_and_numbers_are_not_suspect(text):
    assert not is_foreign(text, "rus-Cyrl")


def test_every_part_is_checked_and_the_suspect_shown():
    pieces = ["Москва — столица России.", REFUSALS["rus-Cyrl"] + " " + "х" * 2000]
    found = find_suspect(pieces, language="rus-Cyrl", patterns=PATTERNS)
    assert found == ("phrase", pieces[1][:1500])


def test_a_phrase_after_1500_characters_is_ignored():
    honest = HONEST["rus-Cyrl"] + " "
    late = honest * (1500 // len(honest) + 1)
    assert suspicion(late[:1500] + REFUSALS["eng-Latn"], "rus-Cyrl") is None


def test_suspects_are_dropped_unless_the_judge_clears_them():
    marked = [
        ("document", "a", "phrase"),
        ("document", "b", "language"),
        ("document", "c", "phrase"),
        ("document", "d", "phrase"),
        ("document", "e", None),
        ("query", "a", None),
        ("query", "b", "language"),
    ]
    verdicts = [
        ("document", "a", True),
        ("document", "b", False),
        ("document", "c", None),
        ("query", "b", True),
    ]
    translated = pl.DataFrame(marked, ["kind", "_id", "suspect"], orient="row")
    judged = pl.DataFrame(verdicts, ["kind", "item_id", "is_refusal"], orient="row")
    found = refused(translated, judged).select("kind", "item_id", "reason", "detail").rows()
    assert found == [
        ("document", "a", "refusal", "suspect by phrase"),
        ("document", "c", "refusal_unjudged", "suspect by phrase"),  # no usable reply
        ("document", "d", "refusal_unjudged", "suspect by phrase"),  # not asked
        ("query", "b", "refusal", "suspect by language"),
    ]
