"""What the report shows of languages, read from a run's tables: facts and examples."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from psibench.errors import InputError
from psibench.report.examples import EXTRA_COLUMNS, N_EXAMPLES, Example, chosen, make_example
from psibench.report.facts import SUMMARY_TABLES, LanguageFacts, Summaries
from psibench.stages.tables import read_all
from psibench.tables import read_table
from psibench.tables.columns import read_columns
from psibench.tables.quality_schemas import (
    DOMAIN_SIMILARITY,
    RELOCATION,
    TRANSLATION_AGREEMENT,
    TRANSLATION_CONFUSION,
    TRANSLATION_QUALITY,
)
from psibench.tables.schemas import CORPUS, QUERIES
from psibench.tables.spec import TableSpec

STACKED: Mapping[str, TableSpec] = {"relocation": RELOCATION, "similarity": DOMAIN_SIMILARITY}
SINGLE: Mapping[str, TableSpec] = {
    "quality": TRANSLATION_QUALITY,
    "agreement": TRANSLATION_AGREEMENT,
    "confusion": TRANSLATION_CONFUSION,
}


def read_languages(files: Sequence[Mapping[str, Any]]) -> list[LanguageFacts]:
    """Read what is known of benchmarks' languages and domains.

    ``files`` are plain data as `psibench.config.lookup_report.language_files` gives them.

    Raises
    ------
    InputError
        If a table cannot be read.
    """
    return [
        LanguageFacts(
            one["benchmark"],
            **{name: read_all(one[name], spec) for name, spec in STACKED.items() if name in one},
            **{name: read_table(one[name], spec) for name, spec in SINGLE.items() if name in one},
        )
        for one in files
    ]


def read_summaries(paths: Mapping[str, str | Path]) -> Summaries:
    """Read the tables over all benchmarks, as far as given by name.

    Raises
    ------
    InputError
        If a table cannot be read.
    """
    return Summaries(**{name: read_table(paths[name], SUMMARY_TABLES[name]) for name in paths})


def read_examples(files: Sequence[Mapping[str, str]]) -> list[Example]:
    """Read three queries per language and the documents that hold their evidence.

    ``files`` are plain data as `psibench.config.lookup_report.example_files` gives them. The
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
        for example in _examples(one, len(range(place, N_EXAMPLES, len(group))))
    ]


def _examples(files: Mapping[str, str], n: int) -> list[Example]:
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
    return [
        make_example(
            rows[name],
            texts[rows[name]["pos_corpus_id"]],
            benchmark=files["benchmark"],
            language=files["lang"],
            domain=files["domain"],
        )
        for name in ids
    ]
