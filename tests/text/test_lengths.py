import pytest

from psibench.text import lengths
from psibench.text.lengths import count_in_parts, count_whitespace_tokens, count_words


@pytest.mark.parametrize(
    ("text", "words", "tokens"),
    [("a  b", 3, 2), ("a\nb\tc", 1, 3), (" a ", 3, 1), ("", 1, 0), ("a\u00a0b", 1, 2)],
)
def test_words_split_on_one_space_tokens_on_runs(text, words, tokens):
    assert count_words([text]).tolist() == [words]
    assert count_whitespace_tokens([text]).tolist() == [tokens]


def test_a_tokenizer_gets_bounded_batches_of_text(monkeypatch):
    monkeypatch.setattr(lengths, "PART_CHARS", 30)
    calls = []

    def count(texts):
        calls.append(texts)
        return count_whitespace_tokens(texts)

    texts = ["x" * 10] * 4 + ["a b " * 20, "c"]
    assert count_in_parts(count)(texts).tolist() == [1, 1, 1, 1, 40, 1]
    assert [len(call) for call in calls] == [3, 1, 1, 1]
