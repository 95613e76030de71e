"""What a model says in English before a translation (PosIR, appendix B.5.1), found and cut off.

PosIR looks for a word of translating together with a line's end, first among the first 500
characters of a document, then among more, up to 2,000; in a query anywhere. What stands before is
removed if it is English and on a list. So it is here; the list is data, and matched sentence by
sentence, since an honest text may begin with an English title, or be about translation.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from psibench.text.detection import MIN_LETTERS, is_english
from psibench.text.languages import split_code
from psibench.text.phrases import fold, phrase_regex

WINDOWS = (500, 1000, 1500, 2000)
"""Characters of a document in which word and line's end have to stand, one after the other."""

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
    """The list for one language that is translated to: regular expressions on a folded sentence.

    ``stated`` is a statement, openings before it and remarks after it; ``unstated`` openings alone,
    or a remark; ``labels`` a heading that a colon follows.
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
    """Return the regular expressions of the phrases that a language's list has.

    Raises
    ------
    InputError
        If a phrase is not well formed.
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
    """Cut off what stands before a translation as replied, or before a part of one.

    With ``whole``, as of queries, all of the text is looked at and whole sentences may be removed;
    of documents, it is whole lines within the windows. ``language`` is the one translated to.

    Returns the prefix and the rest, without white space at their ends. The prefix is None if there
    is none, or nothing would be left; then the rest is the text.
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
    """Yield where a prefix may end, window by window; in order."""
    if not _KEYWORD.search(text, 0, len(text) if whole else WINDOWS[-1]):
        return
    if whole:
        words = [found.end() for found in _KEYWORD.finditer(text)]
        yield [at.end() for at in _SENTENCE_END.finditer(text, words[0])]
        return
    for window in WINDOWS:
        found = (word.end() for word in _KEYWORD.finditer(text, 0, window))
        ends = (text.find("\n", at, window) for at in found)
        yield sorted({end for end in ends if end >= 0})


def _ruled(text: str, cut: int) -> str:
    """Give what stands before a cut; a ruler after it counts as a colon."""
    following = text[cut:].lstrip().split("\n", 1)[0]
    return f"{text[:cut].rstrip()}:" if _RULE.fullmatch(following) else text[:cut]


def _is_prefix(candidate: str, language: str, listed: PrefixList) -> bool:
    lines = [line for line in candidate.splitlines() if _sentences(line)]
    if not lines or not _states(lines[-1], listed):
        return False
    if _is_detected(candidate, language) and all(_is_said(line, listed) for line in lines):
        return True
    before = "\n".join(lines[:-1])
    is_foreign_target = split_code(language)[0] != "eng"
    return (
        is_foreign_target
        and len(before) >= MIN_LETTERS
        and lines[-1].rstrip(" *_").endswith((":", "："))
        and all(_is_detected(line, language) for line in (before, *lines))
    )


def _goes_on(text: str, cut: int, language: str) -> bool:
    """Say whether the line that is cut goes on in English: a title with a colon.

    Of an English target that cannot be told.
    """
    line = "" if text[cut - 1] == "\n" else text[cut:].split("\n", 1)[0]
    return bool(line.strip()) and split_code(language)[0] != "eng" and is_english(line, language)


def _is_detected(text: str, language: str) -> bool:
    """Say whether a text is English, as far as it is long enough to tell; if not, the list does."""
    return sum(map(str.isalpha, text)) < MIN_LETTERS or is_english(text, language)


def _sentences(line: str) -> list[tuple[str, str]]:
    """Split a line into folded sentences and the marks that end them."""
    folded = fold(_MARKUP.sub(" ", line))
    found = ((_bare(words), marks) for words, marks in _SENTENCE.findall(folded))
    return [(words, marks) for words, marks in found if words]


def _bare(words: str) -> str:
    """Strip white space, and quotation marks that have no partner inside."""
    plain = words.strip(" '")
    return plain.strip('" ') if plain.count('"') % 2 or plain == '""' else plain


def _is_said(line: str, listed: PrefixList) -> bool:
    return all(
        _states_so(words, marks, listed) or listed.unstated.fullmatch(words) is not None
        for words, marks in _sentences(line)
    )


def _states(line: str, listed: PrefixList) -> bool:
    """Say whether all of a line is on the list, and a statement or label in it."""
    return _is_said(line, listed) and any(
        _states_so(words, marks, listed) for words, marks in _sentences(line)
    )


def _states_so(words: str, marks: str, listed: PrefixList) -> bool:
    """Say whether a sentence is a statement, or a heading with a colon."""
    if ":" in marks and listed.labels is not None and listed.labels.fullmatch(words):
        return True
    return listed.stated.fullmatch(words) is not None


def _continued(rest: str, listed: PrefixList) -> int:
    """Return how far lines go on that are remarks, rulers or blank, characters."""
    length = 0
    for line in rest.splitlines(keepends=True):
        is_remark = bool(_sentences(line)) and _is_said(line.strip("()[] \n"), listed)
        if line.strip() and not is_remark and not _RULE.fullmatch(line):
            break
        length += len(line)
    return length
