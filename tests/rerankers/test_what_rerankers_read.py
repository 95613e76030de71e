"""How far into a text each kind of reranker reads, beside a query."""

import pytest
from tiny_rerankers import CHECKPOINTS, EMBEDDED

from psibench.errors import InputError

# Words of the tiny tokenizers are tokens: "w1 w2 ..." has one for each three characters.
LONG = " ".join(["w3"] * 400)
WORD = len("w3 ")


def end_of(n_words: int) -> int:
    """Characters up to the end of the n-th word of `LONG`."""
    return n_words * WORD - 1


@pytest.mark.parametrize("kind", [*CHECKPOINTS, *EMBEDDED])
def test_a_short_text_is_read_whole_with_the_blanks_at_its_end(kind, load):
    pairs = [("w1 w2", "w3 w4"), ("w1", "w3  \n "), ("w1", "猫 \U0001f600")]
    assert list(load(kind).visible_char_ends(pairs)) == [len(text) for _, text in pairs]
    assert list(load(kind).visible_char_ends([])) == []


@pytest.mark.parametrize(
    ("kind", "query_words", "read_words"),
    [
        ("bert", 3, 32 - 3 - 3),  # [CLS] query [SEP] text [SEP]
        ("bert", 100, 15),  # longest first: 29 tokens for both
        ("xlm-roberta", 3, 32 - 4 - 3),  # <s> query </s> </s> text </s>
        ("flash-xlm-roberta", 3, 32 - 4 - 3),
        ("flag", 3, 32 - 4 - 3),
        ("flag", 100, 32 - 4 - 24),  # a query has 24 at most, three quarters of 32
        ("flag-llm", 3, 32 - 2),  # "B :" and the text have 32; the query beside them is short
        ("flag-layerwise", 3, 32 - 2),
    ],
)
def test_what_is_read_of_a_long_text_ends_with_its_last_token_in_the_input(
    kind, query_words, read_words, load
):
    query = " ".join(["w1"] * query_words)
    assert load(kind, max_tokens=32).visible_char_ends([(query, LONG)]) == [end_of(read_words)]


def test_a_prompted_reranker_cuts_the_text_where_query_and_text_together_are_too_long(load):
    reranker = load("flag-llm", max_tokens=32, prompt="Yes No")
    # 32 + 1 + 2 tokens before the last newline and prompt: <bos>, 24 of the query with its
    # "A :", a newline, "B :", and 7 of the text.
    assert reranker.visible_char_ends([("w1 " * 100, LONG)]) == [end_of(7)]


def test_qwen3_reads_what_its_room_leaves_beside_instruction_and_query(load):
    reranker = load("qwen3")
    short, long, full = reranker.visible_char_ends(
        [("w1", LONG), ("w1 w1 w1 w1", LONG), ("w1 " * 200, LONG)]
    )
    assert short - long == 3 * WORD
    assert full == 0  # the query alone fills the room


@pytest.mark.parametrize("kind", CHECKPOINTS)
@pytest.mark.parametrize("query", ["w1 w2", "w1 w2 " * 30])
def test_what_is_cut_off_changes_no_score_and_the_last_word_read_does(kind, query, load, score):
    """The end is where reading ends: other words behind it are the same input."""
    reranker = load(kind)
    (end,) = reranker.visible_char_ends([(query, LONG)])
    behind = LONG[:end] + LONG[end:].replace("w3", "w9")
    before = LONG[: max(0, end - 2)] + "w9" + LONG[end:]
    plain, same, other = score(reranker, [(query, t) for t in (LONG, behind, before)]).raw
    assert plain == pytest.approx(same, rel=1e-6, abs=1e-6)  # float32 rounds scores above 1 by more
    assert plain != pytest.approx(other, rel=1e-6, abs=1e-6) or not end


def test_a_tokenizer_without_offsets_is_refused(load, monkeypatch):
    reranker = load("bert")
    monkeypatch.setattr("transformers.BatchEncoding.encodings", None)
    with pytest.raises(InputError, match="gives no character offsets"):
        reranker.visible_char_ends([("w1", "w3")])
