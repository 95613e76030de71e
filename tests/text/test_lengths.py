import polars as pl
import pytest

from psibench.text.lengths import count_whitespace_tokens, count_words, with_lengths


@pytest.mark.parametrize(
    ("text", "words", "tokens"),
    [
        ("a b", 2, 2),
        ("a  b", 3, 2),
        ("a\nb\tc", 1, 3),
        (" a ", 3, 1),
        ("", 1, 0),
        ("中文字", 1, 1),
        ("a\u00a0b", 1, 2),
    ],
)
def test_words_split_on_one_space_and_tokens_on_runs_of_white_space(text, words, tokens):
    assert count_words([text]).tolist() == [words] == [len(text.split(" "))]
    assert count_whitespace_tokens([text]).tolist() == [tokens]


def test_no_texts_give_no_counts():
    assert count_words([]).tolist() == count_whitespace_tokens([]).tolist() == []
    assert str(count_words([]).dtype) == "int32"


def test_a_corpus_gets_characters_words_and_tokens():
    documents = pl.DataFrame({"_id": ["d"], "text": ["é😀 x"], "origin": ["o"]})
    corpus = with_lengths(documents, count_tokens=count_whitespace_tokens)
    assert corpus.rows() == [("d", "é😀 x", 4, 2, 2)]
    assert corpus.columns == ["_id", "text", "char_length", "word_count", "token_length"]


def test_an_empty_corpus_keeps_its_columns():
    documents = pl.DataFrame(schema={"_id": pl.String, "text": pl.String})
    assert with_lengths(documents, count_tokens=count_whitespace_tokens).shape == (0, 5)
