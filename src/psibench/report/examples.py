"""Some queries with the text around their evidence, so that a reader sees whether spans fit."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psibench.build.relocation import BY, LENGTH, SPAN
from psibench.report.excerpts import Excerpt, excerpt, excerpt_at
from psibench.report.inputs import BenchmarkInfo
from psibench.report.wording import count
from psibench.text.languages import english_name, html_lang, is_rtl

N_EXAMPLES = 3
WHY_NOT = "not_located"
EXTRA_COLUMNS = (LENGTH, SPAN, BY, WHY_NOT)
"""Columns of translated queries that an example tells of."""


@dataclass(frozen=True)
class Example:
    """One query in the language of its document; ``facts`` are parts of one line."""

    benchmark: str
    language: str
    domain: str
    query_id: str
    query: str
    excerpt: Excerpt
    facts: tuple[str, ...]


@dataclass(frozen=True)
class ExampleGroup:
    """The examples of one language: its name, and how a browser is to treat its text."""

    language: str
    name: str
    tag: str
    direction: str
    examples: tuple[Example, ...]


def chosen(ids: Iterable[str], n: int) -> list[str]:
    """Return ``n`` ids, those with the smallest hash: the same in every run and every language."""

    def place(name: str) -> tuple[bytes, str]:
        return hashlib.blake2b(name.encode(), digest_size=8).digest(), name

    return sorted(ids, key=place)[:n]


def make_example(
    row: Mapping[str, Any], text: str, *, benchmark: str, language: str, domain: str
) -> Example:
    """Describe one query.

    Parameters
    ----------
    row
        A QUERIES row; a translated query's may have the columns of ``EXTRA_COLUMNS``.
    text
        Its positive. The span is taken to be of this text unless the row tells of a translation,
        or the text has another length than the row says.
    """
    start, end = row["pos_char_span"]
    length = row["pos_char_length"]
    middle = min((start + end) / 2, length) / length if length else 0.0
    located = row.get(SPAN)
    is_original = row.get(LENGTH) is None and length == len(text)
    if is_original:
        shown, facts = excerpt(text, (start, end)), _place_facts(start, end, len(text))
    elif located is not None:
        shown = excerpt(text, (located[0], located[1]))
        how = f"found again in the translation ({row.get('located_by') or 'method unknown'})"
        facts = (
            how,
            *_place_facts(located[0], located[1], len(text)),
            f"in the original: at {middle:.2f}",
        )
    else:
        shown, facts = excerpt_at(text, middle), _unknown_facts(row, middle)
    tokens = row.get("pos_token_length")
    if tokens is not None:
        whose = "" if is_original else " in the original"
        facts = (*facts, f"document: {count(tokens)} tokens{whose}")
    return Example(benchmark, language, domain, row["_id"], row["text"], shown, facts)


def _place_facts(start: int, end: int, length: int) -> tuple[str, ...]:
    share = min((start + end) / 2, length) / length if length else 0.0
    return (
        f"evidence: characters {count(start)} to {count(end)} of {count(length)}, "
        f"{count(end - start)} long",
        f"middle at {share:.2f}",
    )


def _unknown_facts(row: Mapping[str, Any], middle: float) -> tuple[str, ...]:
    reason = row.get(WHY_NOT)
    why = "not located in the translation" if SPAN in row else "not looked for in this text"
    return (
        f"evidence: {why}{f' ({reason})' if reason else ''}",
        f"shown unmarked: the text at the original's place, {middle:.2f}",
    )


def example_section(
    examples: Sequence[Example], benchmarks: Sequence[BenchmarkInfo]
) -> list[tuple[BenchmarkInfo, list[ExampleGroup]]]:
    """Return the examples by benchmark, in page order, and language, in the order given."""
    found = []
    for info in benchmarks:
        mine = [one for one in examples if one.benchmark == info.id]
        languages = dict.fromkeys(one.language for one in mine)
        groups = [_group(language, mine) for language in languages]
        if groups:
            found.append((info, groups))
    return found


def _group(language: str, examples: Sequence[Example]) -> ExampleGroup:
    return ExampleGroup(
        language,
        english_name(language),
        html_lang(language),
        "rtl" if is_rtl(language) else "ltr",
        tuple(one for one in examples if one.language == language),
    )
