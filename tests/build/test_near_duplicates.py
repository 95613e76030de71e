"""Exact and near duplicates: classification, and no missed pairs."""

import random

import pytest

from psibench.text.near_duplicates import (
    EXACT,
    NEAR,
    TOKEN,
    DistinctTexts,
    normalise,
)

VOCABULARY = [f"w{i}" for i in range(2000)]


def text_of(rng, n_words=80):
    return " ".join(rng.choices(VOCABULARY, k=n_words))


def edited(text, rng, n_changes):
    words = text.split(" ")
    for place in rng.sample(range(len(words)), n_changes):
        words[place] = rng.choice(VOCABULARY)
    return " ".join(words)


def greedy(texts):
    """Add texts in order; return the Repeat of each, None if it was kept."""
    distinct = DistinctTexts(texts.__getitem__, near=True)
    return [distinct.add(number) for number in range(len(texts))]


def word_shingles(text):
    words = text.split()
    return {" ".join(words[i : i + 5]) for i in range(max(1, len(words) - 4))}


def by_hand(texts, threshold):
    """Return the same by comparing every text with every kept text."""
    kept, found = [], []
    for number, text in enumerate(texts):
        own = word_shingles(text)
        alike = [
            (len(own & other) / len(own | other), -place)
            for place, other in ((k, word_shingles(texts[k])) for k in kept)
        ]
        best, place = max(alike, default=(0, 0))
        if best >= threshold:
            found.append(-place)
        else:
            found.append(None)
            kept.append(number)
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Don't stop, 2nd É_x", ["don", "t", "stop", "2nd", "é_x"]),
        ("長期的な Python 研究。", ["長", "期", "的", "な", "python", "研", "究"]),
        ("ที่นี่", ["ท", "ี", "่", "น", "ี", "่"]),  # vowels and tones are marks and count
        ("😀 …", []),
    ],
)
def test_tokens_are_words_or_characters_of_unspaced_scripts(text, expected):
    assert TOKEN.findall(normalise(text)) == expected


def test_duplicates_equal_those_of_all_pairwise_comparisons():
    rng = random.Random(7)
    originals = [text_of(rng, rng.choice([6, 40, 80, 160])) for _ in range(60)]
    texts = [*originals]
    for _ in range(120):  # Jaccard from 1 down to nothing, on either side of 0.8
        other = rng.choice(texts)
        texts.append(edited(other, rng, rng.randint(0, max(1, len(other.split()) // 20))))
    rng.shuffle(texts)
    expected = by_hand(texts, 0.8)
    found = greedy(texts)
    assert [repeat and repeat.number for repeat in found] == expected
    reasons = [repeat.reason for repeat in found if repeat]
    assert min(reasons.count(EXACT), reasons.count(NEAR), expected.count(None)) > 10


def test_the_most_similar_then_first_text_is_reported():
    rng = random.Random(3)
    text = text_of(rng, 200)
    words = text.split()
    # Of 196 shingles 176 and 175 are left: 176 / 216 and 175 / 217 with the text, 0.65 mutually.
    first = " ".join(f"x{i}" for i in range(20)) + " " + " ".join(words[20:])
    second = " ".join(words[:-21]) + " " + " ".join(f"y{i}" for i in range(21))
    found = greedy([first, second, text])
    assert found[:2] == [None, None]
    assert found[2].number == 0
    assert greedy([second, first, text])[2].number == 1
    third = " ".join(words[:-20]) + " " + " ".join(f"y{i}" for i in range(20))
    assert greedy([third, first, text])[2].number == 0  # the first of two equals
