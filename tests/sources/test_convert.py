"""PDF, DOCX and HTML files as documents, made here but for an encrypted one."""

import json
import logging
import os
import re
import signal
import subprocess
import sys
import zipfile
from bisect import bisect_right
from pathlib import Path

import jobs
import polars as pl
import pytest
from pdf_files import pdf, stream

from psibench.config.sources import FilesSource
from psibench.errors import InputError
from psibench.generate.base import complete_build
from psibench.generate.sample import run_sample
from psibench.generate.sampling import Sample, sample_params
from psibench.sources import convert, files
from psibench.sources.converter import Converter
from psibench.sources.documents import read_document_files, read_documents
from psibench.tables import read_table
from psibench.tables.dropped import dropped_frame
from psibench.tables.schemas import ATTRITION, DOCUMENTS, QRELS
from psibench.text.lengths import count_words
from psibench.text.passages import cut_documents

if not os.environ.get("PSIBENCH_REQUIRE_DOCUMENTS"):  # set by `make test`
    for module in ("bs4", "mammoth", "markdownify", "pypdfium2"):
        pytest.importorskip(module)

ENCRYPTED = Path(__file__).parent / "encrypted.pdf"
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("d").mkdir()


def write_pdf(path, *pages):
    """Write a PDF; a page is its lines."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} /MediaBox [0 0 600 900] >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    made = [one.encode() for one in objects]
    for number, lines in enumerate(pages):
        shown = " T* ".join(f"({line}) Tj" for line in lines)
        page = f"<< /Type /Page /Parent 2 0 R /Contents {5 + 2 * number} 0 R "
        made.append(f"{page}/Resources << /Font << /F1 3 0 R >> >> >>".encode())
        made.append(stream(f"BT /F1 9 Tf 12 TL 20 850 Td {shown} ET".encode()))
    Path(path).write_bytes(pdf(made))


def write_docx(path, *paragraphs):
    """Write a DOCX; a paragraph is its text, or the XML of a run."""
    rows = (one if one[0] == "<" else f"<w:r><w:t>{one}</w:t></w:r>" for one in paragraphs)
    body = "".join(f"<w:p>{row}</w:p>" for row in rows)
    part = f'<Relationship Id="r1" Type="{OFFICE}" Target="word/document.xml"/>'
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("_rels/.rels", f'<Relationships xmlns="{PACKAGE}">{part}</Relationships>')
        file.writestr(
            "word/document.xml",
            f'<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>',
        )


def test_text_and_pages_of_each_kind_are_extracted():
    write_pdf("d/a.pdf", ["First page.", "Second line."], [], ["Third page."], [])
    write_docx("d/b.docx", "One *star* & _line_.".replace("&", "&amp;"), "Two.")
    Path("d/c.html").write_text(
        "<head><title>No</title></head><nav>Menu</nav><script>no()</script><h1>Top</h1>"
        "<p>Gr&ouml;&szlig;e <a href='x'>of it</a></p><table><tr><td>1</td><td>2</td></tr></table>"
    )
    Path("d/e.txt").write_text("plain")
    found = read_document_files(["d"])
    assert found["_id"].to_list() == ["a", "b", "c", "e"]
    assert found["text"].to_list() == [
        "First page.\nSecond line.\n\nThird page.",  # 24 characters, a blank line, page 3 of 4
        "One *star* & _line_.\n\nTwo.",
        "# Top\n\nGröße of it\n\n|  |  |\n| --- | --- |\n| 1 | 2 |",
        "plain",
    ]
    assert found["page_starts"].to_list() == [[0, 26, 26], None, None, None]
    assert "page_starts" not in read_document_files(["d/c.html"]).columns


def test_passages_and_queries_know_their_pages():
    # Word p3x7 is on page 3; passages hold parts of pages, and several pages.
    words = [[f"p{k}x{i}" for i in range(n)] for k, n in enumerate([30, 70, 0, 20, 25, 90, 40], 1)]
    lines = [[" ".join(page[i : i + 10]) for i in range(0, len(page), 10)] for page in words]
    write_pdf("d/a.pdf", *lines)
    documents = read_document_files(["d"])
    passages, _ = cut_documents(documents, min_words=20, max_words=60, seed=1)
    assert passages.height > 3
    for text, starts in passages.select("text", "page_starts").iter_rows():
        for word in re.finditer(r"p(\d)x\d+", text):
            assert bisect_right(starts, word.start()) == int(word[1])

    place = documents["text"][0].index("p5x0")
    query = {"_id": "q", "text": "?", "pos_corpus_id": "a", "pos_char_span": [place, place + 4]}
    unknown = {"_id": "r", "text": "?", "pos_corpus_id": "a", "pos_char_span": None}
    queries = pl.DataFrame([query, unknown]).with_columns(target_position=pl.lit("middle"))
    built = complete_build(
        documents, queries, QRELS.empty(), dropped_frame(), count_tokens=count_words
    )
    assert built.queries["pos_page"].to_list() == [5, None]
    assert built.corpus["page_starts"].to_list() == documents["page_starts"].to_list()


def test_pages_are_kept_when_a_sample_is_drawn():
    write_pdf("d/a.pdf", ["one two"], ["three"])
    Path("d/b.txt").write_text("four five six")
    section = sample_params(
        FilesSource(kind="files", paths=["d"]), None, Sample(edges=[0, 9]), length_tokenizer="words"
    )
    paths = {name: f"{name}.parquet" for name in ("documents", "sampling", "dropped")}
    jobs.run(run_sample, {}, paths, domains={"law": section})
    drawn = read_table("documents.parquet", DOCUMENTS)
    assert drawn.select("_id", "page_starts").rows() == [("a", [0, 9]), ("b", None)]


def test_hidden_elements_are_left_out():
    page = "<p>a</p><p hidden>b</p><div HIDDEN=''>c<nav>d</nav></div><p hidden=hidden>e</p>"
    Path("d/a.html").write_text(f"{page}<p hidden=until-found>f</p><p class=hidden>g</p>")
    assert read_document_files(["d"])["text"].to_list() == ["a\n\nf\n\ng"]


def test_files_without_text_are_left_out_and_listed(caplog):
    write_pdf("d/scan.pdf", [], [])
    write_docx("d/pictures.docx", " ")
    Path("d/empty.html").write_text("")
    Path("d/b.txt").write_text("text")
    with caplog.at_level(logging.WARNING, logger="psibench"):
        assert read_document_files(["d"])["_id"].to_list() == ["b"]
    left_out = "d/empty.html, d/pictures.docx, d/scan.pdf"
    said = f"left out files without text (scanned pages need OCR): {left_out}"
    assert [record.getMessage() for record in caplog.records] == [said]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("f.pdf", b"", "not a readable PDF document (Failed to load document"),
        ("f.pdf", ENCRYPTED.read_bytes(), "encrypted; save a copy without a password"),
        ("f.docx", {"a.txt": "x"}, "not a readable Word document (Could not find main document"),
        ("f.docx", {"word/document.xml": "<w:document"}, "not a readable Word document ("),
        ("f.docx", {"word/document.xml": " " * 9001}, "bytes when unpacked, the limit is 9,000"),
        ("f.html", b"\x00\x01", "found binary data, expected an HTML page"),
        ("f.html", b"<b>" * 9000, "the HTML is nested too deeply"),
        ("f.html", b"<p> </p>", "every document is empty; expected text"),
    ],
)
def test_a_bad_file_is_refused_in_one_line(name, data, message, monkeypatch):
    monkeypatch.setattr(convert, "MOST_XML_BYTES", 9000)
    monkeypatch.setattr(files, "WHOLE_FILE", files.WHOLE_FILE | convert.CONVERTERS)  # in here
    if isinstance(data, bytes):
        Path(name).write_bytes(data)
    else:
        write_docx(name, "text")
        with zipfile.ZipFile(name) as file:
            parts = (
                {part: file.read(part) for part in file.namelist()} if "a.txt" not in data else {}
            )
        with zipfile.ZipFile(name, "w", zipfile.ZIP_DEFLATED) as file:
            for part, text in (parts | data).items():
                file.writestr(part, text)
    with pytest.raises(InputError) as raised:
        read_document_files([name])
    assert str(raised.value).startswith(f"{name}: ")
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def write_endless_pdf(path):
    """A page that draws a form, which draws itself 20 times: PDFium takes all memory and aborts."""
    form = b"/F Do " * 20
    drawn = b"/Resources<</XObject<</F 5 0 R>>>>"
    parts = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]" + drawn + b"/Contents 4 0 R>>",
        stream(b"/F Do"),
        stream(form).replace(b"<<", b"<</Type/XObject/Subtype/Form/BBox[0 0 9 9]" + drawn, 1),
    ]
    Path(path).write_bytes(pdf(parts))


def test_a_file_that_needs_too_much_memory_is_refused():
    write_endless_pdf("bomb.pdf")
    Path("b.html").write_text("<p>text</p>")
    made = Converter(memory_bytes=1 << 29)
    try:
        with pytest.raises(InputError, match=r"^bomb.pdf: its conversion .* more than 0.5 GiB"):
            made.convert(Path("bomb.pdf"), ".pdf")
        assert made.convert(Path("b.html"), ".html") == "text"
    finally:
        made.stop()


def test_a_file_that_takes_too_long_is_refused():
    Path("b.html").write_text("<p>text</p>")
    made = Converter(timeout_s=1e-6)  # less than a conversion takes
    with pytest.raises(InputError, match=r"^b.html: its conversion took more than 1e-06 s"):
        made.convert(Path("b.html"), ".html")


def test_a_converter_killed_between_files_is_restarted():
    Path("b.html").write_text("<p>text</p>")
    made = Converter()
    try:
        assert made.convert(Path("b.html"), ".html") == "text"
        made._process.kill()
        made._process.wait()
        assert made.convert(Path("b.html"), ".html") == "text"
    finally:
        made.stop()


def test_an_endless_file_ends_its_converter_without_a_client(monkeypatch):
    stalled = "import time; from psibench.sources import converter\n"
    stalled += "converter._answer = lambda *_: time.sleep(60)\nconverter.serve(1 << 31, 0.2)"
    with subprocess.Popen([sys.executable, "-c", stalled], stdin=subprocess.PIPE) as process:
        process.stdin.write(b'["/", "a.html", ".html"]\n')
        process.stdin.close()
        assert process.wait(30) == -signal.SIGALRM


def test_files_are_read_on_systems_without_memory_limits():
    refusing = "import resource\ndef refuse(kind, _):\n    if kind == resource.RLIMIT_AS:\n"
    refusing += "        raise ValueError('current limit exceeds maximum limit')\n"
    refusing += "resource.setrlimit = refuse\n"
    refusing += "from psibench.sources.converter import serve; serve(1 << 31, 9.0)"
    asked = json.dumps([os.getcwd(), "b.html", ".html"]) + "\n"
    Path("b.html").write_text("<p>text</p>")
    done = subprocess.run(
        [sys.executable, "-c", refusing], input=asked, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == {"text": "text"}


@pytest.mark.parametrize("n_good", [1, 0])
def test_an_unreadable_file_is_left_out_with_its_reason(n_good, caplog):
    Path("d/bad.pdf").write_bytes(b"%PDF-1.4")
    Path("d/bad.txt").write_bytes(b"\xff")
    for number in range(100 * n_good):
        Path(f"d/{number}.txt").write_text("text")
    source = FilesSource(kind="files", paths=["d"], max_bad_share=0.02)
    read = read_documents(source)
    if not n_good:
        with pytest.raises(InputError, match=r"^d/bad.pdf: not a readable PDF"):
            assert read.documents
        return
    assert read.documents.height == 100
    assert read.dropped.select("item_id", "reason").rows() == [
        ("bad.pdf", "wrong_record"),
        ("bad.txt", "wrong_record"),
    ]
    assert "d: left out 2 of 102 documents (wrong_record), the first: d/bad.pdf" in caplog.text
    section = sample_params(source, None, Sample(edges=[0, 9]), length_tokenizer="words")
    paths = {name: f"{name}.parquet" for name in ("documents", "sampling", "dropped")}
    jobs.run(run_sample, {}, paths, domains={"law": section})
    rows = read_table("dropped.parquet", ATTRITION).filter(reason="wrong_record")
    assert rows["item_id"].to_list() == ["bad.pdf", "bad.txt"]


def test_a_text_file_above_the_limit_is_refused(monkeypatch):
    monkeypatch.setattr(files, "MOST_TEXT_BYTES", 3)
    Path("d/a.txt").write_text("text")
    with pytest.raises(InputError, match=r"^d/a.txt: 4 bytes, the limit for one document is 3"):
        read_document_files(["d"])


def test_a_library_s_warning_names_the_file(tmp_path, caplog):
    (tmp_path / "address.html").write_text("http://example.org/page")
    (tmp_path / "page.html").write_text("<p>a page</p>")
    assert read_documents(FilesSource(kind="files", paths=[str(tmp_path)])).documents.height == 2
    (warned,) = [one for one in caplog.messages if "looks more like" in one]
    assert warned.startswith(f"{tmp_path}/address.html: ")
    assert "\n" not in warned
