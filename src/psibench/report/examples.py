"""Some queries with the text around their evidence, so that a reader sees whether spans fit."""

import hashlib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psibench.errors import InputError
from psibench.metrics.query_scores import SEVERAL_SPANS
from psibench.report.views import BenchmarkInfo
from psibench.report.wording import count
from psibench.tables.columns import read_columns
from psibench.tables.schemas import CORPUS, QUERIES
from psibench.tables.translation_schemas import LOCATED_BY, LOCATED_SPAN, TRANSLATED_LENGTH
from psibench.text.languages import english_name, html_lang, is_rtl

N_EXAMPLES = 3
WHY_NOT, TARGET = "not_located", "target_position"
EXTRA_COLUMNS = (TRANSLATED_LENGTH, LOCATED_SPAN, LOCATED_BY, WHY_NOT, SEVERAL_SPANS)
"""Columns that an example tells of, of translated queries and of those with several spans."""
CONTEXT = 200
"""Characters shown before and after the evidence."""
LONGEST = 500
"""Characters of evidence shown; of longer evidence its beginning and its end."""
SEARCHED = 24
"""How far a cut moves inwards to find white space."""
JOINER = "\u200d"


@dataclass(frozen=True)
class Excerpt:
    """A piece of a text.

    ``evidence`` is the evidence, or its beginning and its end with ``n_left_out`` characters
    between them; empty where it is not known.
    """

    before: str
    evidence: tuple[str, ...]
    after: str
    n_left_out: int = 0
    is_cut_before: bool = False
    is_cut_after: bool = False


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


def read_examples(files: Sequence[Mapping[str, str]]) -> list[Example]:
    """Read three queries per language and the documents that hold their evidence.

    ``files`` are plain data as `psibench.plan.summaries.example_files` gives them. The
    three are divided among a language's domains. Ids are read first, then the rows needed.

    Raises
    ------
    InputError
        If a table cannot be read, or a query's document is missing.
    """
    groups: dict[tuple[str, str], list[Mapping[str, str]]] = {}
    for one in files:
        groups.setdefault((one["benchmark"], one["lang"]), []).append(one)
    return [
        example
        for group in groups.values()
        for place, one in enumerate(group)
        for example in _read(one, len(range(place, N_EXAMPLES, len(group))))
    ]


def _read(files: Mapping[str, str], n: int) -> list[Example]:
    ids = chosen(read_columns(files["queries"], QUERIES, ["_id"])["_id"], n)
    names = QUERIES.column_names
    queries = read_columns(files["queries"], QUERIES, names, optional=EXTRA_COLUMNS, ids=ids)
    documents = queries["pos_corpus_id"].unique().to_list()
    found = read_columns(files["corpus"], CORPUS, ["_id", "text"], ids=documents)
    texts = dict(found.iter_rows())
    lacking = [name for name in documents if name not in texts]
    if lacking:
        raise InputError(
            f"{files['corpus']}: no document {lacking[0]!r}, the positive of a query in "
            f"{files['queries']}. Make both tables again."
        )
    rows = {row["_id"]: row for row in queries.iter_rows(named=True)}
    place = {"benchmark": files["benchmark"], "language": files["lang"], "domain": files["domain"]}
    return [make_example(rows[name], texts[rows[name]["pos_corpus_id"]], **place) for name in ids]


def chosen(ids: Iterable[str], n: int) -> list[str]:
    """Return ``n`` ids, those with the smallest hash: the same in every run and every language."""

    def place(name: str) -> tuple[bytes, str]:
        return hashlib.blake2b(name.encode(), digest_size=8).digest(), name

    return sorted(ids, key=place)[:n]


def make_example(
    row: Mapping[str, Any], text: str, *, benchmark: str, language: str, domain: str
) -> Example:
    """Describe one query.

    ``row`` is a QUERIES row; a translated query's may have the columns of ``EXTRA_COLUMNS``.
    ``text`` is its positive. The span is taken to be of this text unless the row tells of a
    translation, or the text has another length than the row says.
    """
    is_original = row.get(TRANSLATED_LENGTH) is None and row["pos_char_length"] == len(text)
    spans: Any = row.get(SEVERAL_SPANS) or []
    span: Any = row["pos_char_span"] or (spans[0] if spans and is_original else None)
    located, tokens = row.get(LOCATED_SPAN), row.get("pos_token_length")
    start, end = span or (0, 0)
    middle = _middle(start, end, row["pos_char_length"]) if span else 0.0
    if span is None:
        shown, tokens = excerpt_at(text, 0.0), None
        what = f"{len(spans)} spans of the original" if spans else "known by class"
        what += f", {row[TARGET]}" if row[TARGET] else ""
        facts: tuple[str, ...] = (f"evidence: {what}", "shown unmarked: the text's beginning")
    elif is_original and spans:
        shown = excerpt(text, span)
        named = "; ".join(f"{count(first)} to {count(last)}" for first, last in spans)
        told = f"evidence: {len(spans)} spans, characters {named} of {count(len(text))}"
        facts = (told, "shown: the first")
    elif is_original:
        shown, facts = excerpt(text, span), _place_facts(start, end, len(text))
    elif located is not None:
        shown = excerpt(text, located)
        how = f"found again in the translation ({row.get(LOCATED_BY) or 'method unknown'})"
        place = _place_facts(located[0], located[1], len(text))
        facts = (how, *place, f"in the original: at {middle:.2f}")
    else:
        shown = excerpt_at(text, middle)
        why = "located in the translation" if LOCATED_SPAN in row else "looked for in this text"
        why += f" ({row[WHY_NOT]})" if row.get(WHY_NOT) else ""
        unmarked = f"shown unmarked: the text at the original's place, {middle:.2f}"
        facts = (f"evidence: not {why}", unmarked)
    if tokens is not None:
        whose = "" if is_original else " in the original"
        facts = (*facts, f"document: {count(tokens)} tokens{whose}")
    return Example(benchmark, language, domain, row["_id"], row["text"], shown, facts)


def _middle(start: int, end: int, length: int) -> float:
    return min((start + end) / 2, length) / length if length else 0.0


def _place_facts(start: int, end: int, length: int) -> tuple[str, ...]:
    return (
        f"evidence: characters {count(start)} to {count(end)} of {count(length)}, "
        f"{count(end - start)} long",
        f"middle at {_middle(start, end, length):.2f}",
    )


def example_section(
    examples: Sequence[Example], benchmarks: Sequence[BenchmarkInfo]
) -> list[tuple[BenchmarkInfo, list[ExampleGroup]]]:
    """Return the examples by benchmark, in page order, and language, in the order given."""
    found = []
    for info in benchmarks:
        groups: dict[str, list[Example]] = {}
        for one in examples:
            if one.benchmark == info.id:
                groups.setdefault(one.language, []).append(one)
        shown = [
            ExampleGroup(
                language,
                english_name(language),
                html_lang(language),
                "rtl" if is_rtl(language) else "ltr",
                tuple(mine),
            )
            for language, mine in groups.items()
        ]
        found += [(info, shown)] if shown else []
    return found


# --- the text around evidence, short enough to read, cut where no character is torn


def excerpt(text: str, span: Sequence[int]) -> Excerpt:
    """Return the text around ``span`` ([start, end), characters), the evidence apart.

    A span that ends beyond the text ends with it.
    """
    start, end = (min(place, len(text)) for place in span)
    first = _moved(text, max(0, start - CONTEXT), start)
    last = _moved(text, min(end + CONTEXT, len(text)), end)
    evidence: tuple[str, ...] = (text[start:end],)
    left_out = 0
    if end - start > LONGEST:
        head = _moved(text, start + LONGEST // 2, start)
        tail = _moved(text, end - LONGEST // 2, end)
        evidence, left_out = (text[start:head], text[tail:end]), tail - head
    cuts = first > 0, last < len(text)
    return Excerpt(text[first:start], evidence, text[end:last], left_out, *cuts)


def excerpt_at(text: str, share: float) -> Excerpt:
    """Return the text around a share in [0, 1] of its length; nothing of it is called evidence."""
    middle = round(min(max(share, 0.0), 1.0) * len(text))
    half = CONTEXT + LONGEST // 4
    first = _moved(text, max(0, middle - half), middle)
    last = _moved(text, min(middle + half, len(text)), middle)
    return Excerpt(text[first:last], (), "", 0, first > 0, last < len(text))


def _moved(text: str, place: int, limit: int) -> int:
    """Move a cut towards a limit: to white space, or at least to where no character is torn.

    Cuts before the limit move right, behind white space; those after it left, before white space.
    """
    is_begin = place < limit
    if place <= 0 or place >= len(text) or place == limit:
        return min(max(place, 0), len(text))
    step = 1 if is_begin else -1
    reach = min(SEARCHED, abs(limit - place))
    for i in range(place, place + step * reach, step):
        if text[i - is_begin].isspace():
            return i
    while place != limit and _is_inside(text, place):
        place += step
    return place


def _is_inside(text: str, place: int) -> bool:
    """Say whether a cut here would take a mark from its letter, or tear an emoji sequence."""
    here, before = text[place], text[place - 1]
    return unicodedata.category(here)[0] == "M" or JOINER in (here, before)
