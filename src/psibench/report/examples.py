"""Some queries with the text around their evidence, so that a reader sees whether spans fit."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psibench.errors import InputError
from psibench.metrics.query_scores import SEVERAL_SPANS
from psibench.report.views import BenchmarkInfo
from psibench.report.wording import count
from psibench.tables.build_schemas import LOCATED_BY, LOCATED_SPAN, TRANSLATED_LENGTH
from psibench.tables.columns import read_columns
from psibench.tables.schemas import CORPUS, QUERIES
from psibench.text.languages import english_name, html_lang

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


@dataclass(frozen=True)
class Example:
    """One query in the language of its document, with the text around its evidence.

    ``evidence`` has a second part, its end, where the ``n_left_out`` characters between are not
    shown, and no part where it is not known. ``facts`` are parts of one line.
    """

    benchmark: str
    language: str
    domain: str
    query_id: str
    query: str
    before: str
    evidence: tuple[str, ...]
    after: str
    n_left_out: int
    facts: tuple[str, ...]


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
    """Read the ``n`` queries with the smallest hash: the same in every run and every language."""
    every = read_columns(files["queries"], QUERIES, ["_id"])["_id"]
    ids = sorted(every, key=lambda name: hashlib.blake2b(name.encode(), digest_size=8).digest())[:n]
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
    middle = _middle(span, row["pos_char_length"]) if span else 0.0
    marked: Sequence[int] | None = span if is_original else located
    if span is None:
        marked, tokens = None, None
        what = f"{len(spans)} spans of the original" if spans else "known by class"
        what += f", {row[TARGET]}" if row[TARGET] else ""
        facts: tuple[str, ...] = (f"evidence: {what}", "shown unmarked: the text's beginning")
    elif is_original and spans:
        named = "; ".join(f"{count(first)} to {count(last)}" for first, last in spans)
        told = f"evidence: {len(spans)} spans, characters {named} of {count(len(text))}"
        facts = (told, "shown: the first")
    elif is_original:
        facts = _place_facts(span, len(text))
    elif located is not None:
        how = f"found again in the translation ({row.get(LOCATED_BY) or 'method unknown'})"
        facts = (how, *_place_facts(located, len(text)), f"in the original: at {middle:.2f}")
    else:
        why = "located in the translation" if LOCATED_SPAN in row else "looked for in this text"
        why += f" ({row[WHY_NOT]})" if row.get(WHY_NOT) else ""
        unmarked = f"shown unmarked: the text at the original's place, {middle:.2f}"
        facts = (f"evidence: not {why}", unmarked)
    if tokens is not None:
        whose = "" if is_original else " in the original"
        facts = (*facts, f"document: {count(tokens)} tokens{whose}")
    shown = excerpt(text, marked, around=middle)
    return Example(benchmark, language, domain, row["_id"], row["text"], *shown, facts)


def _middle(span: Sequence[int], length: int) -> float:
    return min(sum(span) / 2, length) / length if length else 0.0


def _place_facts(span: Sequence[int], length: int) -> tuple[str, ...]:
    start, end = span
    return (
        f"evidence: characters {count(start)} to {count(end)} of {count(length)}, "
        f"{count(end - start)} long",
        f"middle at {_middle(span, length):.2f}",
    )


def excerpt(
    text: str, span: Sequence[int] | None, *, around: float = 0.0
) -> tuple[str, tuple[str, ...], str, int]:
    """Return the text before the evidence, the evidence, the text after it, and what is left out.

    Long evidence is in two parts with so many characters left out between them. Without a span
    ([start, end), characters; cut at the end of the text) the text ``around`` a share of its length
    is all before. Cuts are at white space where it is near, with an ellipsis.
    """
    if span is None:
        middle, half = round(around * len(text)), CONTEXT + LONGEST // 4
        return _left(text[:middle], half) + _right(text[middle:], half), (), "", 0
    start, end = (min(place, len(text)) for place in span)
    evidence = text[start:end]
    parts: tuple[str, ...] = (evidence,)
    n_left_out = 0
    if len(evidence) > LONGEST:
        parts = (evidence[: LONGEST // 2], evidence[-LONGEST // 2 :])
        n_left_out = len(evidence) - sum(map(len, parts))
    return _left(text[:start], CONTEXT), parts, _right(text[end:], CONTEXT), n_left_out


def _left(text: str, most: int) -> str:
    """Return the end of a text."""
    if len(text) <= most:
        return text
    kept = text[-most:]
    cut = next((i for i, c in enumerate(kept[:SEARCHED], start=1) if c.isspace()), 0)
    return f"… {kept[cut:]}"


def _right(text: str, most: int) -> str:
    """Return the beginning of a text."""
    if len(text) <= most:
        return text
    kept = text[:most]
    cut = next((i for i, c in enumerate(kept[: -SEARCHED - 1 : -1]) if c.isspace()), -1)
    return f"{kept[: most - 1 - cut]} …"


def example_section(
    examples: Sequence[Example], benchmarks: Sequence[BenchmarkInfo]
) -> list[tuple[BenchmarkInfo, list[dict[str, Any]]]]:
    """Return the examples by benchmark, in page order, and language, in the order given.

    A language has its name and the ``tag`` that HTML has for it.
    """
    found = []
    for info in benchmarks:
        mine = [one for one in examples if one.benchmark == info.id]
        groups = [
            {
                "language": language,
                "name": english_name(language),
                "tag": html_lang(language),
                "examples": [one for one in mine if one.language == language],
            }
            for language in dict.fromkeys(one.language for one in mine)
        ]
        found += [(info, groups)] if groups else []
    return found
