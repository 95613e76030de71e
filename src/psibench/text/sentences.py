"""Sentences of a text, in any of the scripts that benchmarks are translated to.

A sentence ends at a line end, at any Chinese or Japanese mark, and at a mark of another script
(Latin, Cyrillic, Arabic, Urdu, Devanagari, Korean) before white space. A full stop does not end a
sentence after an initial or a common abbreviation, nor before a lower-case letter. The list of
abbreviations is not complete.
"""

import re

_CLOSERS = "\"'”’»›)\\]」』）】"
_END = re.compile(
    rf"(?P<cjk>[。！？｡]+[{_CLOSERS}]*)|(?P<mark>[.!?…؟۔।॥]+[{_CLOSERS}]*)(?=\s)|(?P<line>\n)"
)
_INITIAL = re.compile(r"(?:^|[\s.(])[^\W\d_]\.$")
_WORD = re.compile(r"(\S+)\.$")
_ABBREVIATIONS = frozenset(
    """
    mr mrs ms dr prof st sr jr vs etc no vol pp fig e.g i.e u.s u.n approx dept inc ltd co gen col
    sra sres núm pág ee.uu p.ej d.c a.c m mme mlle p.ex av env c.-à-d z.b bzw usw ca d.h nr bd evtl
    sig sig.ra dott ecc es pag n.chr v.chr т.е т.д т.п т.к г гг в вв им ул руб тыс млн млрд др пр см
    """.split()
)


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Return the sentences of a text: (start, end) in characters, in order.

    They have no white space at their ends, and only white space is between them. A blank text has
    no sentences.
    """
    spans: list[tuple[int, int]] = []
    start = 0
    for found in _END.finditer(text):
        if found.lastgroup == "mark" and not _ends(text, start, found):
            continue
        _add(spans, text, start, found.end())
        start = found.end()
    _add(spans, text, start, len(text))
    return spans


def _ends(text: str, start: int, found: re.Match[str]) -> bool:
    """Return whether a mark before white space ends a sentence."""
    if found.group() != ".":
        return True
    before = text[start : found.end()]
    word = _WORD.search(before)
    if _INITIAL.search(before) or (word and word[1].lower().lstrip("(") in _ABBREVIATIONS):
        return False
    following = text[found.end() : found.end() + 20].lstrip()
    return not following[:1].islower()


def _add(spans: list[tuple[int, int]], text: str, start: int, end: int) -> None:
    piece = text[start:end]
    bare = piece.strip()
    if bare:
        at = start + len(piece) - len(piece.lstrip())
        spans.append((at, at + len(bare)))
