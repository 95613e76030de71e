from psibench.text.near_duplicates import SeenText


def test_the_share_is_that_of_the_texts_own_shingles():
    seen = SeenText()
    seen.remember("one two three four five six")
    # shingles: "one ... five" (seen), "two ... seven" (new)
    assert seen.share("One, two three four five seven!") == 0.5
    assert seen.share("one two three four five six") == 1.0
    assert seen.share("five six") == 0.0


def test_a_text_pieced_together_from_several_is_seen():
    seen = SeenText()
    seen.remember("one two three four five")
    seen.remember("two three four five six")
    assert seen.share("one two three four five six") == 1.0
