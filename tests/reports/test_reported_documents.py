"""Pages, PDFs and texts as other programs write them; README.md names the reports."""

import json

import pytest
from pdf_files import pdf, stream

from psibench.errors import InputError
from psibench.sources.convert import read_html, read_pdf
from psibench.sources.documents import read_document_files
from psibench.sources.squad import read_squad_files
from psibench.text.segments import split_chunks


@pytest.mark.parametrize(
    "block",
    "main header footer aside figure fieldset legend details summary option address".split(),
)
def test_words_of_neighbouring_blocks_are_not_joined(tmp_path, block):
    page = tmp_path / "a.html"
    page.write_text(f"<body>one<{block}>two</{block}><{block}>three</{block}>four")
    assert read_html(page).split() == ["one", "two", "three", "four"]


def test_inline_elements_do_not_part_a_word(tmp_path):
    page = tmp_path / "a.html"
    page.write_text("<p>H<sub>2</sub>O <span>inter</span><em>view</em> <label>a</label>b</p>")
    assert read_html(page) == "H2O inter*view* ab"


def write_pdf(path, mapped: str) -> None:
    """Write a page that shows the codes A and B, and maps A to UTF-16 ``mapped``."""
    shown = b"BT /F1 12 Tf 72 720 Td (AB) Tj ET"
    names = (
        b"/CIDInit /ProcSet findresource begin 12 dict begin begincmap 1 begincodespacerange <00> "
        b"<FF> endcodespacerange 1 beginbfchar <41> <%s> endbfchar endcmap end end"
    ) % mapped.encode()
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R"
        b"/Resources<</Font<</F1 5 0 R>>>>>>",
        stream(shown),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/ToUnicode 6 0 R>>",
        stream(names),
    ]
    path.write_bytes(pdf(objects))


@pytest.mark.parametrize(
    ("mapped", "text"),
    [
        ("D83DDE00", "\U0001f600B"),
        ("D83D", "B"),  # half of a surrogate pair
        ("DE00", "B"),
        ("0000", "B"),
        ("00660069", "fiB"),  # a ligature of two letters
    ],
)
def test_text_of_any_pdf_font_can_be_written(tmp_path, mapped, text):
    write_pdf(tmp_path / "a.pdf", mapped)
    assert read_pdf(tmp_path / "a.pdf") == text
    (row,) = read_document_files([tmp_path / "a.pdf"]).to_dicts()
    assert row["text"].encode().decode() == text


CONTEXT = "\U0001f600\u00e9 the answer is here"  # 22 characters, 23 of UTF-16, 26 bytes


@pytest.mark.parametrize(("start", "is_found"), [(7, True), (8, False), (11, False)])
def test_offsets_in_utf_16_or_bytes_are_refused(tmp_path, start, is_found):
    answer = {"text": "answer", "answer_start": start}
    question = {"id": "1", "question": "?", "answers": [answer]}
    data = {"data": [{"paragraphs": [{"context": CONTEXT, "qas": [question]}]}]}
    path = tmp_path / "squad.json"
    path.write_text(json.dumps(data), encoding="utf-8-sig")
    if is_found:
        assert read_squad_files([path])["answer_start"].to_list() == [7]
        return
    with pytest.raises(InputError, match=f"is not at answer_start {start}"):
        read_squad_files([path])


@pytest.mark.parametrize("text", ["go go go go go go", "go go\n\ngo go go go"])
def test_chunks_of_repeated_words_have_separate_positions(text):
    """Text splitters search a chunk from a wrong offset and find an earlier copy."""
    chunks = split_chunks(text, chunk_words=2)
    assert [text[start:end].split() for start, end in chunks] == [["go", "go"]] * 3
    assert all(end <= start for (_, end), (start, _) in zip(chunks, chunks[1:], strict=False))


def test_chunks_end_at_paragraphs_whatever_ends_a_line():
    paragraph = "one two three four\nfive six seven eight"
    text = "\n\n".join([paragraph] * 3)
    sizes = []
    for end in ("\n", "\r\n"):
        written = text.replace("\n", end)
        chunks = split_chunks(written, chunk_words=12)
        sizes.append([len(written[start:stop].split()) for start, stop in chunks])
    assert sizes == [[8, 8, 8]] * 2
