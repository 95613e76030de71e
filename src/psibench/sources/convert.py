"""Text of PDF, DOCX and HTML files, and where the pages of a PDF start in it.

PDFium (pypdfium2) reads PDF; mammoth makes HTML of DOCX, and markdownify Markdown of HTML: the
extra ``documents``. Of what reads these files they know pages, are fast, bring few packages and no
models, and have permissive licences.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from psibench.errors import InputError
from psibench.reading import binary_kind, read_bytes, require_file, whole_number

MOST_XML_BYTES = 50_000_000
"""Of the parts of a DOCX when unpacked, pictures left out: some thousand pages. All are held in
memory as trees, at some twenty times that."""
NOT_READ = ["head", "script", "style", "template", "noscript", "nav", "svg"]
"""Elements of HTML whose text is no part of the document's."""
BLOCKS = (
    "address aside button center details dialog dir fieldset figure footer form header hgroup "
    "legend main menu optgroup option search summary textarea"
).split()
"""Elements that a page shows on lines of their own. markdownify takes them for inline, which would
join the last word of one and the first word of the next."""


class PagedText(str):
    """A document's text, stripped, and where its pages start: characters, in the file's order.

    A page without text starts where the next one does; those at the end are left out.
    """

    page_starts: list[int]


def read_pdf(path: Path) -> PagedText:
    """Read the text of a PDF, a blank line between pages; words cut at a line's end are joined.

    Raises InputError if it cannot be opened.
    """
    import pypdfium2

    require_file(path, expected="a PDF document")
    pages, starts, length = [], [], 0
    try:
        for page in pypdfium2.PdfDocument(path):
            text = page.get_textpage().get_text_bounded().replace("\r\n", "\n")
            text = re.sub("[\x02\ufffe]\n?", "", text).strip()  # PDFium's marks of such a cut
            starts.append(length)
            if text:
                pages.append(text)
                length += len(text) + 2
    except pypdfium2.PdfiumError as error:
        if "password" in str(error):
            raise InputError(
                f"{path}: encrypted; save a copy that needs no password, or take it out"
            ) from error
        raise InputError(f"{path}: not a readable PDF document ({error})") from error
    found = PagedText("\n\n".join(pages))
    found.page_starts = [start for start in starts if start < len(found)]
    return found


def read_docx(path: Path) -> str:
    """Read the text of a DOCX as Markdown, without its pictures.

    Raises InputError if it is damaged, or more than `MOST_XML_BYTES` when unpacked.
    """
    import mammoth

    try:
        with require_file(path, expected="a Word document").open("rb") as file:
            parts = [part for part in ZipFile(file).infolist() if "/media/" not in part.filename]
            n_bytes = sum(part.file_size for part in parts)
            if n_bytes > MOST_XML_BYTES:
                raise InputError(
                    f"{path}: {n_bytes:,} bytes when unpacked, at most {MOST_XML_BYTES:,} are "
                    "read; split the document, or take it out"
                )
            html = mammoth.convert_to_html(file, convert_image=lambda _: []).value
    except InputError:
        raise
    except Exception as error:  # of zipfile, expat and mammoth; all mean "not readable"
        raise InputError(f"{path}: not a readable Word document ({error})") from error
    return _markdown(html, path)


def read_html(path: Path) -> str:
    """Read the text of an HTML page as Markdown, without links, pictures and navigation.

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
        for element in [*soup(NOT_READ), *soup(hidden=_is_hidden)]:
            element.decompose()
        for element in soup(BLOCKS):
            element.name = "div"
        for name in ("colspan", "start"):  # markdownify takes what Python's `int` may refuse
            for element in soup(attrs={name: True}):
                if whole_number(str(element[name])) is None:
                    del element[name]
        return MarkdownConverter(**options).convert_soup(soup).strip()
    except RecursionError as error:
        raise InputError(f"{path}: HTML that is nested too deep to be read") from error


def _is_hidden(value: str | None) -> bool:
    """Say whether a value of the attribute `hidden` keeps an element from ever being shown."""
    return value is not None and value.strip().lower() != "until-found"


CONVERTERS: dict[str, Callable[[Path], str]] = {
    ".pdf": read_pdf,
    ".docx": read_docx,
    **dict.fromkeys((".html", ".htm"), read_html),
}
"""What converts a document, by suffix; called in `psibench.sources.converter`'s process."""
