"""Removal of a model's remarks before a translation."""

import pytest

from psibench.errors import InputError
from psibench.text.prefixes import remove_prefix
from psibench.translate.clean import read_prefixes

RUSSIAN = "Москва — столица России.\n\nОна стоит на реке Москве с давних времён."
BODIES = {
    "rus-Cyrl": RUSSIAN,
    "cmn-Hans": "北京是中国的首都。\n\n它是一座古老的城市。",
    "qps-Latn": "Ṃọṣċọẉ ịṣ ṭḥẹ ċạạpịịṭạạḷ.\n\nỊṭ ịṣ ọḷḍ ạṇḍ ḷạạṛġẹẹ.",
}
PREFIXES = [
    "Here is the translation:\n\n",
    "Sure! Here's the translation of the passage into {name}:\n",
    "**Translation:**\n\n",
    "Translation:\n---\n",
    "<translation>\n",
    'Here is the translation of "Capital cities":\n(Note: I have kept the formatting.)\n\n',
    "\ufeffHe\u00adre is the\u2060 translation:\n\n",
    "I'd be happy to help! The following text has been translated into {name}:\n\n",
]
NAMES = {
    "rus-Cyrl": "Russian",
    "cmn-Hans": "Chinese (Simplified)",
    "qps-Latn": "pseudo-locale (Latin)",
}
LISTS = {name: read_prefixes(name) for name in (*BODIES, "eng-Latn", "fra-Latn", "spa-Latn")}


def cut(text, language, *, whole=False):
    return remove_prefix(text, whole=whole, language=language, listed=LISTS[language])


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("language", BODIES)
def test_a_prefix_is_removed_whole_and_the_text_stays(prefix, language):
    said = prefix.format(name=NAMES[language])
    assert cut(said + BODIES[language], language) == (said.strip(), BODIES[language])


@pytest.mark.parametrize("language", BODIES)
def test_a_text_without_a_prefix_stays(language):
    assert cut(f" {BODIES[language]}\n", language) == (None, BODIES[language])


HONEST = {
    "an English title": ("spa-Latn", "Lost in Translation\nEs una película de 2003."),
    "a heading that is a word of the language": (
        "fra-Latn",
        "Translation :\nUne translation est un déplacement sans rotation.",
    ),
    "an English quotation": (
        "rus-Cyrl",
        "The translation of this word is hard, he wrote.\nТак начинается его книга.",
    ),
    "English before a heading, wanted in English": (
        "eng-Latn",
        "The ribosome reads the messenger in steps of three.\nTranslation:\nProteins are made.",
    ),
    "a statement after honest text": (
        "spa-Latn",
        "Madrid es la capital de España.\nHere is the translation:\nEs grande.",
    ),
}


@pytest.mark.parametrize("name", HONEST)
def test_honest_text_about_translation_stays(name):
    language, text = HONEST[name]
    assert cut(text, language) == (None, text)
    assert cut(text, language, whole=True) == (None, text)


def test_a_document_loses_lines_and_a_query_sentences():
    text = "Here is the translation: ¿Cuál es la capital de España?"
    assert cut(text, "spa-Latn") == (None, text)  # no line ends there
    found = cut(text, "spa-Latn", whole=True)
    assert found == ("Here is the translation:", "¿Cuál es la capital de España?")


def test_an_english_title_after_the_prefix_stays_with_the_text():
    body = "iPhone 15 Pro Max\nЭто телефон, который вышел в 2023 году."
    assert cut("Translation:\n" + body, "rus-Cyrl") == ("Translation:", body)
    # Nothing is removed if no text would remain.
    assert cut("Translation:\n", "rus-Cyrl") == (None, "Translation:")


def english(n_chars):
    sentence = "The town lies on the river and is known for the market in its old centre. "
    return (sentence * (n_chars // len(sentence) + 1))[:n_chars].strip()


@pytest.mark.parametrize("n_chars", [100, 1900])
def test_the_original_repeated_in_english_goes_with_its_heading(n_chars):
    said = f"{english(n_chars)}\n\nTranslation:\n"
    assert cut(said + RUSSIAN, "rus-Cyrl") == (said.strip(), RUSSIAN)


def test_the_window_ends_at_2000_characters():
    said = f"{english(2000)}\n\nTranslation:\n"
    assert cut(said + RUSSIAN, "rus-Cyrl")[0] is None
    # word inside, line's end outside: "Translation:" takes 12, its line ends at 2,000
    edge = english(2000)[:1986].ljust(1986, "x") + "\n\n" + "Translation:\n"
    assert edge.index("Translation") + len("Translation:") == 2000
    assert cut(edge + RUSSIAN, "rus-Cyrl")[0] is None


@pytest.mark.parametrize(
    ("phrase", "message"),
    [
        ("a {what}", r"\{what\} is unknown"),
        ("{loop}", r"\{loop\} is unknown or contains itself"),
        ("a] b", "unexpected '\\]'"),
        ("a | b", r"unexpected '\|'"),
    ],
)
def test_malformed_phrases_are_refused(tmp_path, phrase, message):
    path = tmp_path / "list.yaml"
    path.write_text(
        f"slots: {{loop: '{{loop}}'}}\nopenings: ['sure']\nstatements: ['{phrase}']\n"
        "labels: []\nremarks: ['note']\n"
    )
    with pytest.raises(InputError, match=message):
        read_prefixes("rus-Cyrl", path)
