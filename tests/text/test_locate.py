import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from psibench.text.locate import Located, locate_quote, locate_sentences

TEXT = 'One cat sat.\n\nTwo  cats\tran. She said "go home" and left... One cat slept.'


def found(text, quote):
    span = locate_quote(text, quote).span
    return None if span is None else text[slice(*span)]


@pytest.mark.parametrize(
    ("quote", "expected"),
    [
        ("One cat sat.", "One cat sat."),
        ("Two cats ran.", "Two  cats\tran."),
        ("sat. Two\ncats", "sat.\n\nTwo  cats"),
        ("[...] Two cats […]", "Two  cats"),
        ('""go home" and left... "', 'go home" and left'),
        ("and left...", "and left..."),  # the text has the plain form: nothing is cut off
        ("«slept.»", "slept."),
        ("‘…Two  cats’", "Two  cats"),
    ],
)
def test_a_quote_matches_despite_white_space_and_marks(quote, expected):
    assert found(TEXT, quote) == expected


@pytest.mark.parametrize(
    ("quote", "reason"),
    [
        ("", "empty_quote"),
        ('"..."', "empty_quote"),
        ("...", "empty_quote"),  # the text has it, but it quotes nothing
        ("one cat sat.", "quote_not_found"),  # case counts
        ("Two catsran.", "quote_not_found"),  # so does white space between words
        ("One cat", "quote_ambiguous"),
    ],
)
def test_a_quote_without_a_unique_span_has_a_reason(quote, reason):
    assert locate_quote(TEXT, quote) == Located(None, reason)


@pytest.mark.parametrize(
    ("text", "quote", "expected"),
    [
        ("我们使用 Python 编写。很好。", "使用Python编写。", "使用 Python 编写。"),
        ("カタ カナと ひらがな", "カタカナとひらがな", "カタ カナと ひらがな"),
        ("他说「好」", "『他说「好」』", "他说「好"),  # all marks at an end go, the text's own, too
        ("𠀀 𠀁 x", "𠀀𠀁", "𠀀 𠀁"),
    ],
)
def test_white_space_next_to_unspaced_scripts_is_ignored(text, quote, expected):
    assert found(text, quote) == expected


def test_overlapping_matches_are_several():
    assert locate_quote("xx aaa", "aa").reason == "quote_ambiguous"
    assert locate_quote("a b  a\nb a", "a b a").reason == "quote_ambiguous"


def test_a_match_with_another_line_break_counts():
    # A model writes a line break as a space: either place may be meant.
    assert locate_quote("a b and a\nb", "a b").reason == "quote_ambiguous"
    assert locate_quote('go "go"', "“go”").reason == "quote_ambiguous"
    assert locate_quote('go "go"', '"go"').span == (3, 7)  # its marks distinguish it


@pytest.mark.parametrize(
    ("text", "sentences", "expected"),
    [
        # In order: twins are found where they belong.
        ("A b. C d. A b.", ["A b.", "C d.", "A b."], ["A b.", "C d.", "A b."]),
        ("C d. x A b. A b.", ["A b.", "A b."], ["A b.", "A b."]),
        # A contents list before the text that the sentences are of: the first place may be either.
        ("Contents: a b. Text: a b. C d.", ["A b.", "C d."], ["quote_ambiguous", "C d."]),
        # Directly behind the sentence before it, whatever follows.
        ("C d. A b. X y. A b.", ["C d.", "A b."], ["C d.", "A b."]),
        ("C d.", ["A b.", "...", "C d."], ["quote_not_found", "empty_quote", "C d."]),
    ],
)
def test_numbered_sentences_are_located_only_if_certain(text, sentences, expected):
    located = locate_sentences(text, sentences)
    assert [one.reason or text[slice(*one.span)] for one in located] == expected


ALPHABET = st.sampled_from("ab. \n\t中，…")


def reference(text, quote):
    """Starts of the tolerant matches, by a regular expression tried at every place."""
    unspaced = "中，"
    parts = []
    for match in re.finditer(r"(\s*)(\S)", quote.strip()):
        gap, character = match.groups()
        if parts:
            previous = quote.strip()[match.start() - 1]
            free = previous in unspaced or character in unspaced
            parts.append(r"\s*" if free else r"\s+" if gap else "")
        parts.append(re.escape(character))
    pattern = re.compile("".join(parts))
    matches = (pattern.match(text, start) for start in range(len(text)))
    return [match.span() for match in matches if match]


@given(st.text(ALPHABET, max_size=40), st.text(ALPHABET.filter(lambda c: c != "…"), max_size=6))
def test_the_tolerant_form_agrees_with_a_regular_expression(text, quote):
    plain = quote.strip()
    located = locate_quote(text, quote)
    tolerant = reference(text, quote)
    if plain and tolerant:
        expected = Located(tolerant[0]) if len(tolerant) == 1 else Located(None, "quote_ambiguous")
        if plain.strip("."):  # three dots are an empty quote
            assert located == expected
    elif not plain:
        assert located == Located(None, "empty_quote")


HARD = {
    "one letter": ("a" * 1_000_000, "a" * 9_999 + "b"),
    "marks": ('"' * 1_000_000, '"' * 5_000 + "x" + '"' * 4_999),
    "dots": ("." * 1_000_000, "[..." * 2_500 + "x"),
}


@pytest.mark.parametrize("name", HARD)
def test_time_stays_linear_on_long_repetitive_texts(name):
    text, quote = HARD[name]
    started = time.thread_time()
    assert locate_quote(text, quote).reason == "quote_not_found"
    # About half a second of the processor; a search that starts anew at every place takes minutes.
    assert time.thread_time() - started < 20
