import pytest
from hypothesis import given
from hypothesis import strategies as st

from psibench.sources.squad import read_squad_files
from psibench.text.segments import split_chunks


def pieces(text, chunk_words):
    return [text[start:end] for start, end in split_chunks(text, chunk_words=chunk_words)]


def check(text, chunk_words):
    """Every promise of the function, recomputed from the text."""
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
    assert [w for start, end in spans for w in text[start:end].split()] == text.split()
    return spans


def library_chunks(text, chunk_words):
    """What the library gives with its own separators, and where it says the chunks start."""
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    splitter = RecursiveCharacterTextSplitter(
        chunk_size=chunk_words,
        chunk_overlap=0,
        length_function=lambda piece: len(piece.split()),
        add_start_index=True,
    )
    found = splitter.create_documents([text])
    return [(doc.metadata["start_index"], doc.page_content) for doc in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one two\n\nthree four five\n\nsix", ["one two", "three four five\n\nsix"]),
        ("one two\nthree four\nfive", ["one two\nthree four", "five"]),
        ("one two three four five six", ["one two three four", "five six"]),
        # The second paragraph is too long for one chunk: it is cut at its lines, then its words.
        ("a b\n\nc d e\nf g h i j", ["a b", "c d e", "f g h i", "j"]),
        ("  one \n\n two  ", ["one \n\n two"]),
        ("one", ["one"]),
        (" \n\n\t", []),
        ("", []),
    ],
)
def test_cuts_fall_between_paragraphs_then_lines_then_words(text, expected):
    assert pieces(text, 4) == expected
    check(text, 4)


@pytest.mark.parametrize(
    "text",
    [
        "the same words here\n\n" * 6,
        "the same words here\n\n\n\n   " * 6,
        "a " * 40,
        "a a\n\na\na a a\n\n a  a a a a\na",
        "na na\n\nna na na na na na na na\n\nna na",
    ],
)
@pytest.mark.parametrize("chunk_words", [1, 2, 3, 4, 5])
def test_repeated_text_gets_the_offsets_of_its_own_place(text, chunk_words):
    check(text, chunk_words)


SPACES = [" ", "\n", "\n\n", "\t", "\r\n", "\u00a0", "\u2028", "\u3000", "\x1c", "  ", " \n\n "]
WORDS = ["a", "na", "b.", "語", "😀", "the", "é", "\u200b"]


@given(st.lists(st.sampled_from(WORDS + SPACES), max_size=80).map("".join), st.integers(1, 9))
def test_chunks_hold_all_words_in_order_and_none_is_too_long(text, chunk_words):
    check(text, chunk_words)


@pytest.mark.parametrize("language", ["en", "es", "ar", "zh"])
@pytest.mark.parametrize("chunk_words", [16, 256])
def test_long_real_passages_are_cut_as_the_library_cuts_them(real_data, language, chunk_words):
    questions = read_squad_files([real_data / f"xquad.{language}.json"])
    contexts = questions.get_column("context").unique(maintain_order=True).to_list()
    for first in range(0, len(contexts), 12):
        group = contexts[first : first + 6]
        text = "\n\n".join([*group, group[0], *group]).strip()  # every paragraph comes again
        spans = check(text, chunk_words)
        found = [(start, text[start:end]) for start, end in spans]
        assert found == library_chunks(text, chunk_words)
