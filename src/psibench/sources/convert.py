"""Texts of PDF, DOCX and HTML files, and the page starts of PDF files.

PDFium (pypdfium2) reads PDF, mammoth converts DOCX to HTML, and markdownify converts HTML to
Markdown; they are the extra ``documents``. Among such libraries, these know pages, are fast, have
few dependencies and no models, and have permissive licences.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from psibench.errors import InputError
from psibench.reading import binary_kind, read_bytes, require_file, whole_number

MOST_XML_BYTES = 50_000_000
"""Largest unpacked size of a DOCX without pictures: some thousand pages. The parser needs about
twenty times as much memory."""
_SKIPPED_ELEMENTS = ["head", "script", "style", "template", "noscript", "nav", "svg"]
"""HTML elements whose text does not belong to the document."""
BLOCKS = (
    "address aside button center details dialog dir fieldset figure footer form header hgroup "
    "legend main menu optgroup option search summary textarea"
).split()
"""Elements that browsers show on separate lines. markdownify treats them as inline, which would
join the last word of one and the first word of the next."""


class PagedText(str):
    """A document's stripped text, with the offsets at which its pages start, in file order.

    A page without text has the start of the next page; empty pages at the end have no start.
    """

    page_starts: list[int]


def read_pdf(path: Path) -> PagedText:
    """Return the text of a PDF, with a blank line between pages and hyphenated words joined.

    Raises InputError if it cannot be opened.
    """
    import pypdfium2

    require_file(path, expected="a PDF document")
    pages, starts, length = [], [], 0
    try:
        for page in pypdfium2.PdfDocument(path):
            text = page.get_textpage().get_text_bounded().replace("\r\n", "\n")
            text = re.sub("[\x02\ufffe]\n?", "", text).strip()  # PDFium's marks of hyphenation
            starts.append(length)
            if text:
                pages.append(text)
                length += len(text) + 2
    except pypdfium2.PdfiumError as error:
        if "password" in str(error):
            raise InputError(
                f"{path}: encrypted; save a copy without a password, or remove the file"
            ) from error
        raise InputError(f"{path}: not a readable PDF document ({error})") from error
    paged = PagedText("\n\n".join(pages))
    paged.page_starts = [start for start in starts if start < len(paged)]
    return paged


def read_docx(path: Path) -> str:
    """Return the text of a DOCX as Markdown, without pictures.

    Raises InputError if it is damaged, or larger than `MOST_XML_BYTES` when unpacked.
    """
    import mammoth

    try:
        with require_file(path, expected="a Word document").open("rb") as file:
            parts = [part for part in ZipFile(file).infolist() if "/media/" not in part.filename]
            n_bytes = sum(part.file_size for part in parts)
            if n_bytes > MOST_XML_BYTES:
                raise InputError(
                    f"{path}: {n_bytes:,} bytes when unpacked, the limit is {MOST_XML_BYTES:,}; "
                    "split the document, or remove the file"
                )
            html = mammoth.convert_to_html(file, convert_image=lambda _: []).value
    except InputError:
        raise
    except Exception as error:  # zipfile, expat and mammoth raise many kinds
        raise InputError(f"{path}: not a readable Word document ({error})") from error
    return _markdown(html, path)


def read_html(path: Path) -> str:
    """Return the text of an HTML page as Markdown, without links, pictures and navigation.

    Raises InputError if it is binary, or nested too deep.
    """
    data = read_bytes(path, expected="an HTML page")
    if kind := binary_kind(data):
        raise InputError(f"{path}: found {kind}, expected an HTML page; save it in UTF-8")
    return _markdown(data, path)


def _markdown(html: str | bytes, path: Path) -> str:
    from bs4 import BeautifulSoup
    from markdownify import MarkdownConverter

    options: Any = {"strip": ["a", "img"], "heading_style": "ATX"}
    options |= {"escape_asterisks": False, "escape_underscores": False}
    soup = BeautifulSoup(html, "lxml")
    try:
        for element in [*soup(_SKIPPED_ELEMENTS), *soup(hidden=_is_hidden)]:
            element.decompose()
        for element in soup(BLOCKS):
            element.name = "div"
        for name in ("colspan", "start"):  # markdownify calls `int`, which fails on other values
            for element in soup(attrs={name: True}):
                if whole_number(str(element[name])) is None:
                    del element[name]
        return MarkdownConverter(**options).convert_soup(soup).strip()
    except RecursionError as error:
        raise InputError(f"{path}: the HTML is nested too deeply; simplify or remove it") from error


def _is_hidden(value: str | None) -> bool:
    """Return whether a value of the attribute `hidden` hides an element permanently."""
    return value is not None and value.strip().lower() != "until-found"


CONVERTERS: dict[str, Callable[[Path], str]] = {
    ".pdf": read_pdf,
    ".docx": read_docx,
    **dict.fromkeys((".html", ".htm"), read_html),
}
"""Function that converts a document, by suffix; `psibench.sources.converter` calls it."""
