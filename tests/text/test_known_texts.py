"""Which of some texts another one holds or is held by, and how much of a text was seen."""

import pytest

from psibench.text.near_duplicates import KnownTexts, SeenText

LONG = "one two three four five six seven eight nine ten"  # 6 shingles of five words


@pytest.mark.parametrize(
    ("known", "text", "overlap"),
    [
        ([LONG], f"zero {LONG} eleven", 1.0),  # holds it
        ([LONG], "three four five six seven eight", 1.0),  # is held by it: 2 of its 2
        ([LONG], "ONE, two\nthree four five", 1.0),
        ([LONG], "o\u00adne two th\u2060ree\ufeff four five", 1.0),  # with invisible characters
        ([LONG], "one two three four five x x x x x", 1 / 6),
        # the most alike of several, not their sum: 1 of 2 shingles, and 1 of 6
        ([LONG, "a one two three four five"], "one two three four five b c d e f g", 1 / 2),
        ([LONG], "", 0.0),
        ([LONG], "one two", 0.0),  # a text of fewer words than a shingle is compared as a whole
        (["one two"], "one two", 1.0),
        ([""], LONG, 0.0),
        ([], LONG, 0.0),
    ],
)
def test_overlap_is_relative_to_the_smaller_set(known, text, overlap):
    assert KnownTexts(known).overlap(text) == pytest.approx(overlap)


def test_the_share_is_relative_to_the_texts_shingles():
    seen = SeenText()
    seen.remember("one two three four five six")
    # shingles: "one ... five" (seen), "two ... seven" (new)
    assert seen.share("One, two three four five seven!") == 0.5
    assert seen.share("one two three four five six") == 1.0
    assert seen.share("five six") == 0.0


def test_a_text_composed_of_several_counts_as_seen():
    seen = SeenText()
    seen.remember("one two three four five")
    seen.remember("two three four five six")
    assert seen.share("one two three four five six") == 1.0
