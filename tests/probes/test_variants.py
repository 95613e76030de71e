"""Variants of texts: their properties on random texts and edge cases."""

import pytest
import regex
from hypothesis import example, given
from hypothesis import strategies as st

from psibench.probes.variants import (
    UnfitError,
    filler,
    insertions,
    moved_evidence,
    moved_pieces,
    permuted,
    removals,
    reversed_segments,
    segments,
    soft_cut,
)
from psibench.text.lengths import count_whitespace_tokens
from psibench.text.sentences import sentence_spans

SIX = "First one. Second two! Third three?\nFourth four. Fifth five. Sixth six."
CHINESE = "第一句话。第二句话！第三句话？第四句话。第五句话。"
FAMILY = "👨‍👩‍👧‍👦"
ACCENTED = "e\u0301"

TEXTS = st.lists(
    st.sampled_from([*"ab .!?\n。！字", FAMILY[:2], FAMILY, "\u0301", ACCENTED]), max_size=60
).map("".join)


def bare(text: str) -> str:
    return "".join(text.split())


# --- insertion


def test_filler_is_inserted_at_beginning_middle_and_end():
    made = insertions("One. Two. Three.", "X y.")
    # 16 characters, middle 8: "Three" begins at 10, "Two" at 5
    assert [one.text for one in made] == [
        "X y.\n\nOne. Two. Three.",
        "One. Two.\n\nX y.\n\nThree.",
        "One. Two. Three.\n\nX y.",
    ]
    assert [one.text[slice(*one.part)] for one in made] == ["X y."] * 3
    assert [one.place for one in made] == [1, 2, 3]


@given(text=TEXTS)
@example(text=CHINESE)
@example(text=f"a{FAMILY}b")
@example(text=FAMILY[:2] * 3 + FAMILY)  # one cluster of eleven code points
def test_insertion_changes_only_white_space_of_the_text(text):
    try:
        made = insertions(text, "FILLER")
    except UnfitError:
        assert len(regex.findall(r"\X", text.strip())) <= 1  # blank, or one cluster
        return
    assert len(made) == 3
    for one in made:
        start, end = one.part
        assert one.text[start:end] == "FILLER"
        assert bare(one.text[:start] + one.text[end:]) == bare(text)


def test_a_chinese_sentence_is_cut_between_characters():
    assert insertions("一二三四", "F")[1].text == "一二\n\nF\n\n三四"


@pytest.mark.parametrize("cluster", [FAMILY, ACCENTED])
def test_a_cut_never_splits_a_grapheme_cluster(cluster):
    text = f"ab{cluster}cd"
    for at in range(len(text) + 1):
        cut = soft_cut(text, at, reach=1)
        assert cut is not None
        assert not 2 < cut < 2 + len(cluster)


@pytest.mark.parametrize("text", ["", "  \n", "x", FAMILY])
def test_a_text_without_an_inner_place_is_unfit_for_insertion(text):
    with pytest.raises(UnfitError):
        insertions(text, "F")


# --- filler


def test_a_longer_filler_begins_with_a_shorter_one():
    texts = {n: filler(n, key="k", count_tokens=count_whitespace_tokens) for n in (1, 7, 50, 400)}
    assert [len(text.split()) for text in texts.values()] == [1, 7, 50, 400]
    assert all(texts[400].startswith(text) for text in texts.values())
    assert filler(400, key="k", count_tokens=count_whitespace_tokens) == texts[400]
    assert filler(400, key="other", count_tokens=count_whitespace_tokens) != texts[400]


# --- removal


def test_a_quarter_of_six_sentences_removes_two():
    made = removals(SIX, size=0.25)  # 1.5, rounded up
    assert [one.text for one in made] == [
        "Third three?\nFourth four. Fifth five. Sixth six.",
        "First one. Second two! Fifth five. Sixth six.",
        "First one. Second two! Third three?\nFourth four.",
    ]
    assert [SIX[slice(*one.part)] for one in made] == [
        "First one. Second two!",
        "Third three?\nFourth four.",
        "Fifth five. Sixth six.",
    ]


@given(text=TEXTS, size=st.sampled_from([0.1, 0.25, 0.5, 0.9]))
def test_removal_takes_equally_many_sentences_at_each_position(text, size):
    sentences = [text[start:end] for start, end in sentence_spans(text)]
    try:
        made = removals(text, size=size)
    except UnfitError:
        assert len(sentences) - -(-round(size * len(sentences), 9) // 1) < 2
        return
    for one in made:
        start, end = one.part
        assert bare(one.text) == bare(text[:start] + text[end:])
        assert one.text.strip()
    assert len({len(sentence_spans(text[slice(*one.part)])) for one in made}) == 1


@pytest.mark.parametrize("text", ["", "One sentence only.", "One. Two."])
def test_a_text_of_few_sentences_is_unfit_for_removal(text):
    with pytest.raises(UnfitError, match="too few sentences"):
        removals(text, size=0.1)


# --- segments


@given(
    text=TEXTS,
    cut=st.integers(2, 10)
    | st.lists(st.floats(0.05, 0.95), min_size=1, max_size=5, unique=True).map(sorted),
)
def test_segments_cover_the_text_without_overlap(text, cut):
    n_segments = cut if isinstance(cut, int) else len(cut) + 1
    try:
        made = segments(text, cut)
    except UnfitError:
        return
    assert [one.place for one in made] == list(range(1, n_segments + 1))
    ends = [end for _, end in (one.part for one in made)]
    assert [one.part for one in made] == list(zip([0, *ends[:-1]], ends, strict=True))
    assert "".join(one.text for one in made) == text
    if isinstance(cut, int):  # equal ones; the last takes the rest
        lengths = [len(one.text) for one in made]
        assert set(lengths[:-1]) == {len(text) // cut}
        assert lengths[-1] < len(text) // cut + cut


@pytest.mark.parametrize("text", ["", "abcdefghi", "a" + " " * 40])
def test_a_text_shorter_than_its_segments_is_unfit(text):
    with pytest.raises(UnfitError, match="fewer than 10 segments"):
        segments(text, 10)


def test_segments_are_cut_at_shares_of_the_characters_rounded_down():
    # 1,000 characters: int(333.0) and int(666.0); of 200: 66 and 133, where equal ones have 132
    for n_chars, cuts in ((1000, (333, 666)), (200, (66, 133))):
        made = segments("x" * n_chars, [0.333, 0.666])
        assert [one.part for one in made] == [(0, cuts[0]), cuts, (cuts[1], n_chars)]
    assert segments("x" * 200, 3)[1].part == (66, 132)


# --- moved evidence


def test_moved_evidence_is_widened_to_whole_sentences():
    made = moved_evidence("A aa. B bb. C cc.", (8, 9), 3)
    assert [one.text for one in made] == [
        "A aa. B bb. C cc.",
        "B bb. A aa. C cc.",
        "A aa. B bb. C cc.",
        "A aa. C cc. B bb.",
    ]
    assert [one.place for one in made] == [0, 1, 2, 3]
    assert {one.text[slice(*one.part)] for one in made} == {"B bb."}


def test_moved_evidence_has_one_gap_before_and_after():
    made = moved_evidence("A aa. B bb.\nC cc.", (12, 17), 3)
    assert [one.text for one in made[1:]] == [
        "C cc.\nA aa. B bb.",
        "A aa. C cc. B bb.",
        "A aa. B bb.\nC cc.",
    ]


@given(text=TEXTS, data=st.data(), n_places=st.integers(2, 10))
@example(text=CHINESE, data=None, n_places=10)
def test_moving_evidence_keeps_all_texts_and_the_order(text, data, n_places):
    if data is None:
        start, end = 6, 9
    else:
        start = data.draw(st.integers(0, max(len(text) - 1, 0)))
        end = data.draw(st.integers(start, len(text)))
    try:
        made = moved_evidence(text, (start, end), n_places)
    except UnfitError:
        return
    origin = made[0]
    evidence = text[slice(*origin.part)]
    assert evidence
    rest = text[: origin.part[0]] + text[origin.part[1] :]
    starts = []
    for one in made[1:]:
        low, high = one.part
        assert one.text[low:high] == evidence
        assert bare(one.text[:low] + one.text[high:]) == bare(rest)
        starts.append(low)
    assert starts == sorted(starts)
    assert starts[0] == 0
    assert bare(made[-1].text).endswith(bare(evidence))


@pytest.mark.parametrize(
    ("text", "span", "reason"),
    [
        ("Only one sentence here.", (0, 4), "whole text"),
        ("One. Two.", (4, 5), "no sentence"),
    ],
)
def test_evidence_that_cannot_be_moved_gives_a_reason(text, span, reason):
    with pytest.raises(UnfitError, match=reason):
        moved_evidence(text, span, 10)


# --- order


def test_permuting_pieces_keeps_the_order_of_gaps():
    text = "Aa. Bb!\nCc?"
    found = permuted(text, sentence_spans(text), [2, 0, 1])
    assert found.text == "Cc? Aa.\nBb!"
    assert [found.text[start:end] for start, end in found.moved] == ["Aa.", "Bb!", "Cc?"]


@given(text=TEXTS, data=st.data())
def test_reversal_keeps_all_characters_and_maps_spans(text, data):
    try:
        spans, order = reversed_segments(text, 5)
    except UnfitError:
        return
    assert bare(order.text) == bare("".join(text[slice(*span)] for span in spans[::-1]))
    assert bare("".join(text[slice(*span)] for span in spans)) == bare(text)
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    pieces = moved_pieces(spans, order, (start, end))
    assert bare("".join(order.text[slice(*piece)] for piece in pieces)) == bare(text[start:end])


def test_exact_reversal_cuts_words_at_equal_lengths():
    spans, order = reversed_segments("Aa bb. Cc dd ee", 5, is_exact=True)  # three characters each
    assert spans == ((0, 3), (3, 6), (6, 9), (9, 12), (12, 15))
    assert order.text == " ee dd Ccbb.Aa "
    assert moved_pieces(spans, order, (7, 12)) == [(7, 9), (3, 6)]
    with pytest.raises(UnfitError, match="fewer than 5 segments"):
        reversed_segments("abcd", 5, is_exact=True)
