"""Some queries with the text around their evidence, so that a reader can check the spans."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from psibench.metrics.query_scores import PAGE_COLUMN, SEVERAL_SPANS
from psibench.report.wording import count, cut
from psibench.tables.build_schemas import TRANSLATED_LENGTH
from psibench.tables.job import DomainJob, Job
from psibench.tables.schemas import CORPUS, QUERIES
from psibench.text.languages import english_name, html_lang

N_EXAMPLES = 3
EXTRA_COLUMNS = (TRANSLATED_LENGTH, SEVERAL_SPANS, PAGE_COLUMN)
"""Optional columns: for translated queries, several spans, and files with pages."""
CONTEXT, LONGEST = 200, 500
"""Most characters around the evidence, and of the evidence; longer evidence shows both ends."""


Example = dict[str, Any]
"""A query and the text around its evidence (empty if unknown), see `example`."""


def read_examples(job: Job) -> dict[str, list[dict[str, Any]]]:
    """Read three queries per language and the documents with their evidence.

    The value ``examples`` of the job comes from `psibench.plan.summaries.example_files`, with one
    domain per language.

    Returns a group per language, by benchmark, in the order of the value: its ``name``,
    ``language``, HTML language ``tag``, and ``examples``. Raises InputError if a table cannot be
    read.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for one in job.value("examples", list[dict[str, str]]):
        language = one["lang"]
        group = {"name": english_name(language), "language": language, "tag": html_lang(language)}
        of_language = replace(job, inputs=one, values={"domain": one["domain"]})
        if examples := [row for domain in of_language.domains() for row in _read(domain)]:
            found.setdefault(one["benchmark"], []).append(group | {"examples": examples})
    return found


def _read(domain: DomainJob) -> list[Example]:
    """Read the queries with the smallest hash, which are the same in every run and language."""
    every = domain.columns("queries", QUERIES, ["_id"])["_id"]
    hashed = sorted(every, key=lambda name: hashlib.blake2b(name.encode(), digest_size=8).digest())
    ids, names = hashed[:N_EXAMPLES], QUERIES.column_names
    queries = domain.columns("queries", QUERIES, names, optional=EXTRA_COLUMNS, ids=ids)
    documents = queries["pos_corpus_id"].unique().to_list()
    found = domain.columns("corpus", CORPUS, ["_id", "text"], ids=documents)
    texts = dict(found.iter_rows())
    rows = {row["_id"]: row for row in queries.iter_rows(named=True)}
    return [
        example(rows[name], texts[rows[name]["pos_corpus_id"]], domain=domain.name) for name in ids
    ]


def example(row: Mapping[str, Any], text: str, *, domain: str) -> Example:
    """Return domain, query_id, query, text before, evidence, text after, and a fact of a query.

    ``row`` is a QUERIES row, maybe with `EXTRA_COLUMNS`; ``text`` is its positive. The span is
    marked in this text unless the row is a translation or has another text length.
    """
    is_original = row.get(TRANSLATED_LENGTH) is None and row["pos_char_length"] == len(text)
    spans: Any = [row["pos_char_span"]] if row["pos_char_span"] else row.get(SEVERAL_SPANS) or []
    marked = spans[0] if spans and is_original else None
    start, end = marked or (0, 0)
    if marked:
        fact = f"characters {count(start)} to {count(end)} of {count(len(text))}"
        fact += f", page {row[PAGE_COLUMN]}" if row.get(PAGE_COLUMN) else ""
        fact += f", the first of {len(spans)} spans" if len(spans) > 1 else ""
    elif spans:
        fact = "marked in the original only"
    else:
        fact = f"known by class, {row['target_position']}"
    about = {"domain": domain, "query_id": row["_id"], "query": row["text"]}
    return about | excerpt(text, start, end) | {"fact": f"evidence: {fact}"}


def excerpt(text: str, start: int, end: int) -> dict[str, str]:
    """Return the text before a span (characters), the span, and the text after it, shortened."""
    before, evidence = text[max(0, start - CONTEXT) : start], text[start:end]
    if len(evidence) > LONGEST:
        half = LONGEST // 2
        evidence = f"{evidence[:half]} \u2026 {evidence[-half:]}"
    before = "\u2026" * (start > CONTEXT) + before
    return {"before": before, "evidence": evidence, "after": cut(text[end:], CONTEXT)}
