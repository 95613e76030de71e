from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from psibench.text.segments import split_chunks, tag_myopic


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one two\n\nthree four five\n\nsix", ["one two", "three four five\n\nsix"]),
        ("one two\nthree four\nfive", ["one two\nthree four", "five"]),
        ("one two three four five six", ["one two three four", "five six"]),
        # The second paragraph is too long for one chunk: it is cut at its lines, then its words.
        ("a b\n\nc d e\nf g h i j", ["a b", "c d e", "f g h i", "j"]),
        ("  one \n\n two  ", ["one \n\n two"]),
        (" \n\n\t", []),
    ],
)
def test_cuts_fall_between_paragraphs_then_lines_then_words(text, expected):
    assert [text[start:end] for start, end in split_chunks(text, chunk_words=4)] == expected


SPACES = [" ", "\n", "\n\n", "\t", "\r\n", "\u00a0", "\u2028", "\u3000", "\x1c", "  ", " \n\n "]
WORDS = ["a", "na", "b.", "語", "😀", "the", "é", "\u200b"]


@given(st.lists(st.sampled_from(WORDS + SPACES), max_size=80).map("".join), st.integers(1, 9))
def test_chunks_have_all_words_within_the_limit(text, chunk_words):
    spans = split_chunks(text, chunk_words=chunk_words)
    at = 0
    for start, end in spans:
        assert at <= start < end <= len(text)
        assert not text[at:start].strip()
        chunk = text[start:end]
        assert chunk == chunk.strip()
        assert len(chunk.split()) <= chunk_words
        at = end
    assert not text[at:].strip()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b c d e f g", ["a b c d", "c d e f", "e f g"]),
        ("a b c d e f", ["a b c d", "c d e f"]),
        ("a b\n\nc d\te", ["a b\n\nc d", "c d\te"]),  # paragraphs do not matter
        (" a b ", ["a b"]),
        # The same words again: each chunk is where it is, not where its words are found first.
        ("a b a b a b a b", ["a b a b", "a b a b", "a b a b"]),
        (" \n", []),
    ],
)
def test_overlapping_chunks_are_full_windows(text, expected):
    spans = split_chunks(text, chunk_words=4, overlap=2)
    assert [text[start:end] for start, end in spans] == expected
    assert [start for start, _ in spans] == sorted({start for start, _ in spans})


@given(
    st.lists(st.sampled_from(WORDS + SPACES), max_size=80).map("".join),
    st.integers(2, 9).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n - 1))),
)
def test_overlapping_chunks_share_the_requested_words(text, sizes):
    chunk_words, overlap = sizes
    spans = split_chunks(text, chunk_words=chunk_words, overlap=overlap)
    chunks = [text[start:end].split() for start, end in spans]
    new = chunks[:1] + [chunk[overlap:] for chunk in chunks[1:]]
    assert [word for chunk in new for word in chunk] == text.split()
    assert all(new)
    assert all(one[-overlap:] == two[:overlap] for one, two in pairwise(chunks))
    assert all(len(chunk) == chunk_words for chunk in chunks[:-1])


# Questions by the thirds that their chunk overlaps, of 265,865: PosQ, appendix A.2, has 15,961 in
# the beginning and 50,162 in the end only; Myopic, table 2, counts 103,844 / 199,742 / 160,832.
PRINTED = {
    ("beginning",): 15_961,
    ("beginning", "middle"): 103_844 - 15_961,
    ("middle",): 199_742 - (103_844 - 15_961) - (160_832 - 50_162),
    ("middle", "end"): 160_832 - 50_162,
    ("end",): 50_162,
}


@pytest.mark.parametrize(
    ("overlap", "chunks", "points"),
    [
        (0, 3.31, 29.4),
        (64, 3.85, 14.6),
        (100, 4.39, 8.8),
        (117, 4.77, 6.5),
        (128, 5.06, 7.1),
        (160, 6.22, 13.0),
    ],
)
def test_windows_of_half_overlap_fit_the_published_tags(overlap, chunks, points):
    """The table in docs/papers.md."""
    # PosQ, table 2: 500 to 1,023 words, mean 710.79, standard deviation 132.34
    mean, deviation = (710.79 - 500) / 524, 132.34 / 524
    size = mean * (1 - mean) / deviation**2 - 1
    quantiles = stats.beta.ppf((np.arange(1000) + 0.5) / 1000, mean * size, (1 - mean) * size)
    found = dict.fromkeys(PRINTED, 0)
    for n_words in np.round(500 + 523 * quantiles).astype(int):
        text = " ".join(["word"] * n_words)
        if overlap:
            spans = split_chunks(text, chunk_words=256, overlap=overlap)
        else:
            spans = [(5 * k, 5 * min(k + 256, n_words) - 1) for k in range(0, n_words, 256)]
        for start, end in spans:
            found[tag_myopic(start, end, len(text))] += 1
    total = sum(found.values())
    shares = {tags: n / 265_865 for tags, n in PRINTED.items()}
    assert total / 1000 == pytest.approx(chunks, abs=0.02)
    apart = 100 * sum(abs(found[tags] / total - share) for tags, share in shares.items())
    assert apart == pytest.approx(points, abs=0.3)
