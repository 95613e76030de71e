import pytest

from psibench.errors import InputError
from psibench.text.duplicates import SeenText


def test_the_share_is_that_of_the_texts_own_shingles():
    seen = SeenText(shingle_words=2)
    seen.remember("one two three")
    # shingles: "one two" (seen), "two four" (new)
    assert seen.share("One, two four!") == 0.5
    assert seen.share("one two three") == 1.0
    assert seen.share("five six") == 0.0


def test_a_text_pieced_together_from_several_is_seen():
    seen = SeenText(shingle_words=2)
    seen.remember("one two")
    seen.remember("two three")
    assert seen.share("one two three") == 1.0


def test_a_text_shorter_than_a_shingle_is_one_shingle():
    seen = SeenText(shingle_words=5)
    seen.remember("short one")
    assert seen.share("short one") == 1.0
    assert seen.share("short") == 0.0


def test_an_empty_text_counts_as_seen():
    assert SeenText().share(" ... ") == 1.0


def test_shingles_have_at_least_one_word():
    with pytest.raises(InputError, match="allowed"):
        SeenText(shingle_words=0)
