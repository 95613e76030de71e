import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from psibench.errors import InputError
from psibench.text.splitting import (
    MARKDOWN_SEPARATORS,
    TEXT_SEPARATORS,
    Ruler,
    split_recursively,
    split_text,
    stripped,
)

TEXT = "# One\n\nAa bb. Cc dd ee.\n\n## Two\n\nFf gg hh ii jj kk. Ll."


def words(text):
    """A ruler of words, which start and end like those of `str.split`."""
    return Ruler.of_tokens(text, [word.span() for word in re.finditer(r"\S+", text)])


def cut(text, ruler, **how):
    return [text[start:end] for start, end in split_text(text, ruler, **how)]


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        # Fifteen words, of which each window shares one with the one before it.
        (
            {"splitter": "tokens", "size": 8, "overlap": 1},
            ["# One\n\nAa bb. Cc dd ee.\n\n##", "## Two\n\nFf gg hh ii jj kk.", "kk. Ll."],
        ),
        # Sentences end at line ends, too. The one of six words is longer than the size.
        (
            {"splitter": "sentence", "size": 5, "overlap": 2},
            ["# One\n\nAa bb.", "Aa bb. Cc dd ee.", "## Two", "Ff gg hh ii jj kk.", "Ll."],
        ),
        (
            {"splitter": "markdown", "size": 8, "overlap": 0},
            ["# One\n\nAa bb. Cc dd ee.", "## Two", "Ff gg hh ii jj kk. Ll."],
        ),
    ],
)
def test_splitters_cut_at_their_units(how, expected):
    assert cut(TEXT, words(TEXT), **how) == expected


def test_character_windows_cover_the_text_with_their_overlap():
    found = split_text(
        "abcdefgh", Ruler.of_characters("abcdefgh"), splitter="characters", size=4, overlap=1
    )
    assert found == [(0, 4), (3, 7), (6, 8)]


def test_an_unknown_splitter_is_refused():
    with pytest.raises(InputError, match="splitter 'page'; allowed: recursive"):
        split_text("a", Ruler.of_characters("a"), splitter="page", size=4, overlap=0)


pieces = st.sampled_from([*"ab \n#`-*é語", "\n\n", "\n# ", "```\n", "\n---\n", "aaaa"])
texts = st.lists(pieces, max_size=60).map("".join)


@given(text=texts, size=st.integers(1, 12), overlap=st.integers(0, 6), letters=st.booleans())
def test_recursive_chunks_equal_those_of_langchain(text, size, overlap, letters):
    library = pytest.importorskip("langchain_text_splitters")
    overlap = min(overlap, size - 1)
    options = {"chunk_size": size, "chunk_overlap": overlap}
    ruler = Ruler.of_characters(text)
    if letters:  # a unit that not every character starts: each letter a
        options["length_function"] = lambda piece: piece.count("a")
        ruler = Ruler.of_tokens(text, [(k, k + 1) for k, one in enumerate(text) if one == "a"])
    recursive = library.RecursiveCharacterTextSplitter(**options).split_text(text)
    markdown = library.RecursiveCharacterTextSplitter.from_language("markdown", **options)
    for separators, expected in (
        (TEXT_SEPARATORS, recursive),
        ((*MARKDOWN_SEPARATORS, *TEXT_SEPARATORS), markdown.split_text(text)),
    ):
        own = split_recursively(text, ruler, size=size, overlap=overlap, separators=separators)
        found = [text[start:end] for start, end in stripped(text, own)]
        assert found == [chunk for chunk in expected if chunk.strip()]


@given(text=texts, size=st.integers(1, 12), overlap=st.integers(0, 6))
@pytest.mark.parametrize("splitter", ["recursive", "markdown", "sentence", "tokens", "characters"])
def test_chunks_rise_and_lose_only_white_space(splitter, text, size, overlap):
    ruler = Ruler.of_characters(text)
    chunks = split_text(text, ruler, splitter=splitter, size=size, overlap=min(overlap, size - 1))
    assert chunks == sorted(set(chunks))
    held = set().union(*(range(start, end) for start, end in chunks))
    assert all(text[k].isspace() for k in set(range(len(text))) - held)


@pytest.mark.parametrize(
    ("how", "n_chunks"),
    [
        ({"splitter": "recursive", "size": 800, "overlap": 0}, 2503),
        ({"splitter": "recursive", "size": 1600, "overlap": 400}, 1395),
        ({"splitter": "characters", "size": 1200, "overlap": 0}, 1206),
    ],
)
def test_the_corpora_of_chromas_report_have_the_chunks_of_langchain(real_data, how, n_chunks):
    """Numbers by LangChain's splitter; finance.md contains the same passages twice."""
    if not (real_data / "chunks").is_dir():
        pytest.skip("no chunks/ in the real data")
    found = 0
    for path in sorted((real_data / "chunks").glob("*.md")):
        text = path.read_bytes().decode()
        chunks = split_text(text, Ruler.of_characters(text), **how)
        assert chunks == sorted(set(chunks))
        found += len(chunks)
    assert found == n_chunks
