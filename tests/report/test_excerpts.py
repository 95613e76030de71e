"""Text around evidence: what is shown, and where it is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from psibench.report.examples import CONTEXT, LONGEST, excerpt, excerpt_at

SENTENCE = "The lid is blue and the box is red. "


def test_short_text_is_shown_whole() -> None:
    found = excerpt("One two three.", (4, 7))
    assert (found.before, found.evidence, found.after) == ("One ", ("two",), " three.")
    assert (found.is_cut_before, found.is_cut_after, found.n_left_out) == (False, False, 0)


def test_context_is_cut_at_white_space() -> None:
    text = SENTENCE * 40
    found = excerpt(text, (720, 739))
    assert found.evidence == ("The lid is blue and",)
    assert found.is_cut_before
    assert found.is_cut_after
    assert len(found.before) <= CONTEXT
    assert text[720 - len(found.before) - 1] == " "
    assert text[739 + len(found.after)] == " "


def test_of_long_evidence_beginning_and_end_are_shown() -> None:
    text = SENTENCE * 40
    found = excerpt(text, (0, 1080))
    assert len(found.evidence) == 2
    assert text.startswith(found.evidence[0])
    assert text[:1080].endswith(found.evidence[1])
    assert sum(map(len, found.evidence)) + found.n_left_out == 1080
    assert sum(map(len, found.evidence)) <= LONGEST


def test_span_that_ends_beyond_the_text_ends_with_it() -> None:
    assert excerpt("abcdef", (3, 99)).evidence == ("def",)


def test_unmarked_excerpt_is_around_a_share_of_the_text() -> None:
    text = "".join(f"{i:04} " for i in range(400))  # 2,000 characters
    found = excerpt_at(text, 0.5)
    assert found.evidence == ()
    assert "0200 " in found.before
    assert "0000 " not in found.before
    assert excerpt_at("", 0.5).before == ""


@pytest.mark.parametrize("mark", ["\u0301", "\u093f", "\u064e", "\u200d"])
def test_no_mark_is_torn_from_its_letter(mark: str) -> None:
    text = f"ab{mark}" * 1_000  # no white space to cut at
    found = excerpt(text, (1_500, 1_503))
    assert found.before[0] != mark
    assert not found.after.endswith("b")


@given(st.text(alphabet="ab \n\u0301ا中\U0001f600", max_size=1500), st.data(), st.floats(-0.5, 1.5))
def test_pieces_are_the_text(text: str, data: st.DataObject, share: float) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    found = excerpt(text, (start, end))
    assert text[:start].endswith(found.before)
    assert text[end:].startswith(found.after)
    assert found.is_cut_before is (len(found.before) < start)
    assert found.is_cut_after is (len(found.after) < len(text) - end)
    shown = sum(map(len, found.evidence))
    assert shown + found.n_left_out == end - start
    unmarked = excerpt_at(text, share)
    assert unmarked.before in text
