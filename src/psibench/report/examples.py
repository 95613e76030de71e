"""Some queries with the text around their evidence, so that a reader sees whether spans fit."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psibench.errors import InputError
from psibench.metrics.query_scores import PAGE, SEVERAL_SPANS
from psibench.report.views import BenchmarkInfo
from psibench.report.wording import count, cut
from psibench.tables.build_schemas import LOCATED_SPAN, TRANSLATED_LENGTH
from psibench.tables.columns import read_columns
from psibench.tables.schemas import CORPUS, QUERIES
from psibench.text.languages import english_name, html_lang

N_EXAMPLES = 3
WHY_NOT = "not_located"
EXTRA_COLUMNS = (TRANSLATED_LENGTH, LOCATED_SPAN, WHY_NOT, SEVERAL_SPANS, PAGE)
"""Columns that an example tells of, of translated queries, several spans and files with pages."""
CONTEXT, LONGEST = 200, 500
"""Characters shown before and after the evidence, and of it: of longer one its two ends."""


@dataclass(frozen=True)
class Example:
    """One query in the language of its document, with the text around its evidence.

    ``evidence`` is empty where it is not known: ``after`` is then the text's beginning. ``fact``
    says where it is.
    """

    benchmark: str
    language: str
    domain: str
    query_id: str
    query: str
    before: str
    evidence: str
    after: str
    fact: str


def read_examples(files: Sequence[Mapping[str, str]]) -> list[Example]:
    """Read three queries per language and the documents that hold their evidence.

    ``files`` are plain data as `psibench.plan.summaries.example_files` gives them. The
    three are divided among a language's domains. Ids are read first, then the rows needed.

    Raises InputError if a table cannot be read, or a query's document is missing.
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
    if lacking := sorted(set(documents) - texts.keys()):
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
    spans: Any = [row["pos_char_span"]] if row["pos_char_span"] else row.get(SEVERAL_SPANS) or []
    marked = (spans[0] if spans else None) if is_original else row.get(LOCATED_SPAN)
    start, end = marked or (0, 0)
    if marked:
        fact = f"characters {count(start)} to {count(end)} of {count(len(text))}"
        fact += f", page {row[PAGE]}" if row.get(PAGE) else ""
        fact += f", the first of {len(spans)} spans" if len(spans) > 1 else ""
        if not is_original:
            fact += ", found again in the translation"
    elif spans:
        fact = f"not located in this text ({row.get(WHY_NOT) or 'of the original'})"
    else:
        fact = f"known by class, {row['target_position']}"
    place = (benchmark, language, domain, row["_id"], row["text"])
    return Example(*place, *excerpt(text, start, end), f"evidence: {fact}")


def excerpt(text: str, start: int, end: int) -> tuple[str, str, str]:
    """Return the text before a span (characters), the span and the text after it, cut if long."""
    before, evidence = text[max(0, start - CONTEXT) : start], text[start:end]
    if len(evidence) > LONGEST:
        half = LONGEST // 2
        evidence = f"{evidence[:half]} \u2026 {evidence[-half:]}"
    return "\u2026" * (start > CONTEXT) + before, evidence, cut(text[end:], CONTEXT)


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
