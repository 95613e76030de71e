import random
from collections import Counter

import pytest

from psibench.config.paths import PROMPTS
from psibench.llm.prompts import load_prompt
from psibench.llm.standin.locales import ACCENTED, ARABIC
from psibench.llm.standin.rules import FAULTS, HANDLERS, PREFIXES, REFUSALS, Task, fault_of

LATIN, RTL = "pseudo-locale (Latin)", "pseudo-locale (Arabic)"
SOURCE = (
    "The stone pier protected boats. A storm broke it in 1843.\n\n"
    "Dutch merchants paid for another one. It stands."
)


def reply(name, *, is_wrong=False, **values):
    prompt = load_prompt(PROMPTS / f"{name}.md")
    if "source_language" in prompt.variables:
        values["source_language"] = "English"
    messages = prompt.render(values)
    text = "\n".join(message.content for message in messages)
    return HANDLERS[name](Task(text, random.Random(0), is_wrong))


def translated(text, language=LATIN, kind="passage"):
    return reply("translate", text=text, kind=kind, target_language=language)["translation"]


def with_fault(fault, language=LATIN):
    """A text that comes out with a fault, found by trying."""
    texts = (f"{SOURCE} Boat {number} sank." for number in range(5000))
    return next(text for text in texts if fault_of(text, language)[1] == fault)


@pytest.mark.parametrize(("language", "locale"), [(LATIN, ACCENTED), (RTL, ARABIC)])
def test_a_text_is_translated_into_the_locale_asked_for(language, locale):
    text = with_fault(None, language)
    assert translated(text, language) == locale.translate(text)
    assert translated(text, "French") == ACCENTED.translate(text)


def test_a_few_texts_in_a_hundred_come_out_spoilt():
    n_texts = 20_000
    found = Counter(fault_of(f"text {number}", LATIN)[1] for number in range(n_texts))
    assert set(found) == {*FAULTS, None}
    for fault, share in FAULTS.items():
        # Five standard deviations of a binomial count.
        assert abs(found[fault] / n_texts - share) < 5 * (share / n_texts) ** 0.5


def test_each_fault_looks_as_it_does_in_real_replies():
    text = with_fault("prefix")
    prefixes = [p.format(kind="passage", language=LATIN) for p in PREFIXES]
    assert translated(text) in [prefix + ACCENTED.translate(text) for prefix in prefixes]
    refusals = [r.format(kind="question", language=LATIN) for r in REFUSALS]
    assert translated(with_fault("refusal"), kind="question") in refusals
    text = with_fault("repeated")
    assert translated(text) == "\n\n".join([ACCENTED.translate(text)] * 2)
    text = with_fault("untranslated")
    assert translated(text) == text


def verdict(text, language=LATIN):
    return reply("judge_refusal", text=text, target_language=language)["verdict"]


@pytest.mark.parametrize("refusal", REFUSALS)
@pytest.mark.parametrize("language", [LATIN, RTL, "French"])
def test_a_refusal_is_found_out(refusal, language):
    assert verdict(refusal.format(kind="passage", language=language), language) == "refusal"


@pytest.mark.parametrize(
    "text",
    [
        ACCENTED.translate("I'm sorry, but I cannot translate this."),
        ARABIC.translate(SOURCE),
        PREFIXES[0] + ACCENTED.translate(SOURCE),
    ],
)
def test_what_is_no_refusal_is_taken_for_a_translation(text):
    assert verdict(text, RTL if text[0] in ARABIC.lower else LATIN) == "translation"


def grades(translation, source=SOURCE, language=LATIN):
    values = {"source": source, "translation": translation, "target_language": language}
    found = reply("judge_translation", **values)
    return [found[name] for name in ("fluency", "accuracy", "completeness", "style")]


def test_a_translation_is_graded_by_what_the_locale_makes_of_the_source():
    made = ACCENTED.translate(SOURCE)
    assert grades(made) == [5, 5, 5, 5]
    assert grades(ARABIC.translate(SOURCE), language=RTL) == [5, 5, 5, 5]
    assert grades("") == [1, 1, 1, 1]
    # Two of four sentences and one of two lines are there.
    assert grades(made.split("\n\n")[0]) == [5, 5, 3, 3]
    # Every word twice: half of them are too many; twice the length.
    assert grades(f"{made}\n\n{made}") == [5, 3, 5, 3]
    # Nothing translated; only the year is right.
    assert grades(SOURCE)[:3] == [1, 1, 1]
    # A source without letters is its own translation.
    assert grades("1843.", source="1843.") == [5, 5, 5, 5]
