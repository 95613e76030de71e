"""Removal of English introductions that a model writes before a translation (PosIR, B.5.1).

PosIR searches for a keyword of translating followed by a line end: first within the first 500
characters of a document, then within more, up to 2,000; in a query everywhere. The text before it
is removed if it is English and on a list. psibench does the same. Its list is data, and is matched
sentence by sentence, since a real text may begin with an English title or be about translation.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from psibench.text.detection import MIN_LETTERS, is_english
from psibench.text.languages import split_code
from psibench.text.phrases import fold, phrase_regex

WINDOWS = (500, 1000, 1500, 2000)
"""Numbers of characters of a document within which keyword and line end have to occur, tried in
order."""

_KEYWORD = re.compile(
    r"\b(?:translat(?:e[ds]?|ing|ions?|or)|rendering|version"
    r"|(?:question|query|text|passage|document) in)\b",
    re.IGNORECASE,
)
_MARKUP = re.compile(r"[*_#`>~]+")
_SENTENCE = re.compile(r"([^.!:]+)([.!:]*)")
_SENTENCE_END = re.compile(r"[.!:：。！…]+|\n|$")
_RULE = re.compile(r"\s*[-*_=—\"'`]{3,}\s*")
_BETWEEN = r"[\s,;–—-]+"


@dataclass(frozen=True)
class PrefixList:
    """The list for one target language: regular expressions on a folded sentence.

    ``stated`` matches a statement, with openings before it and remarks after it; ``unstated`` only
    openings, or a remark; ``labels`` a heading before a colon.
    """

    stated: re.Pattern[str]
    unstated: re.Pattern[str]
    labels: re.Pattern[str] | None


def compile_prefixes(
    slots: Mapping[str, str],
    *,
    openings: Sequence[str],
    statements: Sequence[str],
    labels: Sequence[str],
    remarks: Sequence[str],
) -> PrefixList:
    """Compile the phrases of a language's list.

    Raises
    ------
    InputError
        If a phrase is malformed.
    """
    opening, statement, remark, label = (
        "(?:" + "|".join(phrase_regex(phrase, slots) for phrase in phrases) + ")"
        for phrases in (openings, statements, remarks, labels)
    )
    before, after = f"(?:{opening}{_BETWEEN})*", f"(?:{_BETWEEN}{remark})*"
    return PrefixList(
        stated=re.compile(f"{before}{statement}{after}"),
        unstated=re.compile(rf"(?:(?:\A|(?<!\A){_BETWEEN}){opening})+|{remark}"),
        labels=re.compile(label) if labels else None,
    )


def remove_prefix(
    text: str, *, whole: bool, language: str, listed: PrefixList
) -> tuple[str | None, str]:
    """Split a reply, or a part of one, into the prefix before the translation and the rest.

    ``whole`` is for queries: all of the text is searched and whole sentences may be removed. For
    documents, only whole lines within the windows may be removed. ``language`` is the target
    language.

    Returns prefix and rest without white space at their ends. The prefix is None if the text has no
    prefix, or if the rest would be empty; the rest is then the whole text.
    """
    plain = text.strip()
    for cuts in _candidates(plain, whole):
        for cut in reversed(cuts):
            if _is_prefix(_ruled(plain, cut), language, listed):
                end = cut + _continued(plain[cut:], listed)
                if plain[end:].strip() and not _goes_on(plain, cut, language):
                    return plain[:end].strip(), plain[end:].strip()
    return None, plain


def _candidates(text: str, whole: bool) -> Iterator[list[int]]:
    """Yield the possible ends of a prefix for each window, ascending."""
    if not _KEYWORD.search(text, 0, len(text) if whole else WINDOWS[-1]):
        return
    if whole:
        words = [found.end() for found in _KEYWORD.finditer(text)]
        yield [at.end() for at in _SENTENCE_END.finditer(text, words[0])]
        return
    for window in WINDOWS:
        keywords = (word.end() for word in _KEYWORD.finditer(text, 0, window))
        ends = (text.find("\n", at, window) for at in keywords)
        yield sorted({end for end in ends if end >= 0})


def _ruled(text: str, cut: int) -> str:
    """Return the text before a cut, with a colon if a ruler follows."""
    following = text[cut:].lstrip().split("\n", 1)[0]
    return f"{text[:cut].rstrip()}:" if _RULE.fullmatch(following) else text[:cut]


def _is_prefix(candidate: str, language: str, listed: PrefixList) -> bool:
    lines = [line for line in candidate.splitlines() if _sentences(line)]
    if not lines or not _has_statement(lines[-1], listed):
        return False
    may_be_english = _may_be_english(candidate, language)
    if may_be_english and all(_is_listed(line, listed) for line in lines):
        return True
    before = "\n".join(lines[:-1])
    is_foreign_target = split_code(language)[0] != "eng"
    return (
        is_foreign_target
        and len(before) >= MIN_LETTERS
        and lines[-1].rstrip(" *_").endswith((":", "："))
        and all(_may_be_english(line, language) for line in (before, *lines))
    )


def _goes_on(text: str, cut: int, language: str) -> bool:
    """Return whether the cut line continues in English, i.e. is a title with a colon.

    False for an English target, where this cannot be detected.
    """
    line = "" if text[cut - 1] == "\n" else text[cut:].split("\n", 1)[0]
    return bool(line.strip()) and split_code(language)[0] != "eng" and is_english(line, language)


def _may_be_english(text: str, language: str) -> bool:
    """Return whether a text is English; True if it is too short, so that the list decides."""
    return sum(map(str.isalpha, text)) < MIN_LETTERS or is_english(text, language)


def _sentences(line: str) -> list[tuple[str, str]]:
    """Split a line into folded sentences and the marks that end them."""
    folded = fold(_MARKUP.sub(" ", line))
    sentences = ((_bare(words), marks) for words, marks in _SENTENCE.findall(folded))
    return [(words, marks) for words, marks in sentences if words]


def _bare(words: str) -> str:
    """Strip white space and unpaired quotation marks."""
    plain = words.strip(" '")
    return plain.strip('" ') if plain.count('"') % 2 or plain == '""' else plain


def _is_listed(line: str, listed: PrefixList) -> bool:
    return all(
        _is_statement(words, marks, listed) or listed.unstated.fullmatch(words) is not None
        for words, marks in _sentences(line)
    )


def _has_statement(line: str, listed: PrefixList) -> bool:
    """Return whether all sentences of a line are listed, at least one as statement or heading."""
    return _is_listed(line, listed) and any(
        _is_statement(words, marks, listed) for words, marks in _sentences(line)
    )


def _is_statement(words: str, marks: str, listed: PrefixList) -> bool:
    """Return whether a sentence is a statement, or a heading with a colon."""
    if ":" in marks and listed.labels is not None and listed.labels.fullmatch(words):
        return True
    return listed.stated.fullmatch(words) is not None


def _continued(rest: str, listed: PrefixList) -> int:
    """Return the number of characters in the leading remarks, rulers and blank lines."""
    length = 0
    for line in rest.splitlines(keepends=True):
        is_remark = bool(_sentences(line)) and _is_listed(line.strip("()[] \n"), listed)
        if line.strip() and not is_remark and not _RULE.fullmatch(line):
            break
        length += len(line)
    return length
