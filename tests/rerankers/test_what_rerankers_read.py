"""How far into a text each kind of reranker reads, beside a query."""

import pytest
from tiny_rerankers import CHECKPOINTS, EMBEDDED

from psibench.errors import InputError

LONG = " ".join(["w3"] * 400)


@pytest.mark.parametrize("kind", [*CHECKPOINTS, *EMBEDDED])
def test_short_text_is_visible_including_trailing_blanks(kind, load):
    pairs = [("w1 w2", "w3 w4"), ("w1", "w3  \n "), ("w1", "猫 \U0001f600")]
    assert list(load(kind).visible_char_ends(pairs)) == [len(text) for _, text in pairs]
    assert list(load(kind).visible_char_ends([])) == []


@pytest.mark.parametrize("kind", CHECKPOINTS)
@pytest.mark.parametrize("query", ["w1 w2", "w1 w2 " * 30, "w1 " * 200])
def test_only_visible_text_changes_the_score(kind, query, load, score):
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
    with pytest.raises(InputError, match="returns no character offsets"):
        reranker.visible_char_ends([("w1", "w3")])
