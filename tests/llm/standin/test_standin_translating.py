import random
from collections import Counter

import pytest

from psibench.config.paths import PROMPTS
from psibench.llm.prompts import load_prompt
from psibench.llm.standin.locales import ACCENTED, ARABIC
from psibench.llm.standin.rules import (
    FAULT_SHARES,
    HANDLERS,
    REFUSAL_TEXTS,
    Task,
    fault_of,
    sentences,
)
from psibench.text.words import tokenise

LATIN, RTL = "pseudo-locale (Latin)", "pseudo-locale (Arabic)"
BOTH = pytest.mark.parametrize(("language", "locale"), [(LATIN, ACCENTED), (RTL, ARABIC)])
SOURCE = (
    "The stone pier protected boats. A storm broke it in 1843.\n\n"
    "Dutch merchants paid for another one. It stands."
)
TEXT = 'Salted cod left for 3.5 markets, e.g. in Spain: "don\'t" ask!\n\nA FIRE in 1843, see it?'


def reply(name, **values):
    prompt = load_prompt(PROMPTS / f"{name}.md")
    if "source_language" in prompt.variables:
        values["source_language"] = "English"
    text = "\n".join(message.content for message in prompt.render(values))
    return HANDLERS[name](Task(text, random.Random(0)))


def translated(text, language=LATIN, kind="passage"):
    return reply("translate", text=text, kind=kind, target_language=language)["translation"]


def with_fault(fault, language=LATIN):
    """A text that comes out with a fault, found by trying."""
    texts = (f"{SOURCE} Boat {number} sank." for number in range(5000))
    return next(text for text in texts if fault_of(text, language)[1] == fault)


def test_letters_are_marked_or_replaced_and_long_words_lengthened():
    assert ACCENTED.translate("The old Oak, 3 pubs") == "Ṭḥẹ ọḷḍ Ọạḳ, 3 ṗụụḅṣ"
    assert ACCENTED.translate("APPLE") == "ẠạṖṖḶẸẹ"
    assert ARABIC.translate("Cab 3") == "خاب 3"


@BOTH
def test_words_sentences_digits_and_paragraphs_stay(language, locale):
    made = locale.translate(TEXT)
    assert len(tokenise(made)) == len(tokenise(TEXT))
    assert [made[a:b] for a, b in sentences(made)] == [
        locale.translate(TEXT[a:b]) for a, b in sentences(TEXT)
    ]
    assert [c for c in made if not c.isalpha()] == [c for c in TEXT if not c.isalpha()]


@BOTH
def test_text_is_translated_into_the_requested_locale(language, locale):
    text = with_fault(None, language)
    assert translated(text, language) == locale.translate(text)
    assert translated(text, "French") == ACCENTED.translate(text)


def test_small_share_of_translations_is_faulty():
    n_texts = 20_000
    found = Counter(fault_of(f"text {number}", LATIN)[1] for number in range(n_texts))
    assert set(found) == {*FAULT_SHARES, None}
    for fault, share in FAULT_SHARES.items():
        # Five standard deviations of a binomial count.
        assert abs(found[fault] / n_texts - share) < 5 * (share / n_texts) ** 0.5


@pytest.mark.parametrize(
    ("fault", "expected"),
    [("repeated", "{made}\n\n{made}"), ("untranslated", "{text}"), ("prefix", ":\n\n{made}")],
)
def test_each_fault_looks_as_it_does_in_real_replies(fault, expected):
    text = with_fault(fault)
    made = ACCENTED.translate(text)
    assert translated(text).endswith(expected.format(made=made, text=text))
    assert (translated(text) == expected.format(made=made, text=text)) == (fault != "prefix")


@pytest.mark.parametrize(
    ("text", "language", "verdict"),
    [
        *(
            (refusal.format(kind="passage", language=RTL), RTL, "refusal")
            for refusal in REFUSAL_TEXTS
        ),
        (REFUSAL_TEXTS[0].format(kind="passage").replace("'", "’"), LATIN, "refusal"),
        (ACCENTED.translate("I'm sorry, but I cannot translate this."), LATIN, "translation"),
        ("Translation:\n" + ACCENTED.translate(SOURCE), LATIN, "translation"),
        (SOURCE, LATIN, "untranslated"),
    ],
)
def test_refusals_and_untranslated_texts_are_recognised(text, language, verdict):
    assert reply("judge_refusal", text=text, target_language=language) == {"verdict": verdict}


MADE = ACCENTED.translate(SOURCE)


@pytest.mark.parametrize(
    ("translation", "grades"),
    [
        pytest.param(MADE, [5, 5, 5, 5], id="whole"),
        pytest.param("", [1, 1, 1, 1], id="empty"),
        pytest.param(MADE.split("\n\n")[0], [5, 5, 3, 3], id="two of four sentences, one line"),
        pytest.param(f"{MADE}\n\n{MADE}", [5, 3, 5, 3], id="every word and the length twice"),
        pytest.param(SOURCE, [1, 1, 1, 4], id="nothing translated, and a sixth shorter"),
    ],
)
def test_translation_is_graded_against_the_locales_version(translation, grades):
    asked = {"source": SOURCE, "translation": translation, "target_language": LATIN}
    found = reply("judge_translation", **asked)
    assert [found[name] for name in ("fluency", "accuracy", "completeness", "style")] == grades


def test_a_source_without_letters_is_its_own_translation():
    asked = {"source": "1843.", "translation": "1843.", "target_language": RTL}
    assert set(reply("judge_translation", **asked).values()) == {5}
