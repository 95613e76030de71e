"""Figures of PosIR's tables 2, 3, 10 and 11, with what names their counterparts in a run."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from psibench.metrics.aggregate import POOLED
from psibench.report.published_tables import SECTIONS

ENGLISH = "eng-Latn"
MONOLINGUAL = "monolingual"
EVERY = "all"
"""In place of a language: the mean over the paper's languages."""
SECTION_TEXTS = {
    "all": "all lengths",
    "q1": "Q1, up to 512 tokens",
    "q2": "Q2, up to 1,024 tokens",
    "q3": "Q3, up to 1,536 tokens",
    "q4": "Q4, longer",
}
_SHARED = {"data": "posir", "buckets": "relative-20", "bucket": "", "caveat": ""}

Row = dict[str, Any]


def mean_figures(
    table_2: Sequence[Row], table_3: Sequence[Row], n_queries: Mapping[str, int]
) -> Iterator[Row]:
    """Yield the figures of tables 2 and 3, means over the languages.

    Parameters
    ----------
    table_2, table_3
        Rows with their labels; the table's own columns are under `row`.
    n_queries
        Queries of the paper by language, and under ``all``.
    """
    mono = {"query_lang": EVERY, "corpus_lang": EVERY, "n_published": n_queries[EVERY]}
    # English and Chinese queries search no corpus of another language
    n_crossed = n_queries[EVERY] - n_queries[ENGLISH] - n_queries["cmn-Hans"]
    crossed = {"query_lang": EVERY, "corpus_lang": ENGLISH, "n_published": n_crossed}
    for line in table_2:
        base, row = _base(line)
        base |= mono | {"panel": "", "group": "nDCG@10", "scale": 100, "decimals": 2}
        mmteb = {"column": "MMTEB", "data": "", "length_bucket": POOLED, "quantity": "mean"}
        yield base | mmteb | {"published": row["mmteb"] / 100}
        yield from (
            base | place | {"quantity": ndcg_quantity(section), "published": row[column] / 100}
            for section, column, place in _columns()
        )
    for line in table_3:
        base, row = _base(line)
        base |= mono if row["setting"] == MONOLINGUAL else crossed
        base |= {"panel": row["setting"].capitalize(), "group": "PSI", "scale": 1, "decimals": 3}
        yield from (
            base | place | {"quantity": "psi", "published": row[column]}
            for _, column, place in _columns()
        )


def language_figures(tables: Sequence[Row], n_queries: Mapping[str, int]) -> Iterator[Row]:
    """Yield the figures of tables 10 and 11, nDCG@10 and PSI by language; see `mean_figures`."""
    for line in tables:
        base, row = _base(line)
        section, language = row["section"], row["language"]
        corpus = language if row["setting"] == MONOLINGUAL else ENGLISH
        base |= {
            "panel": f"{row['setting'].capitalize()}, {SECTION_TEXTS[section]}",
            "group": language,
            "query_lang": language,
            "corpus_lang": corpus,
            "length_bucket": _length_bucket(section),
            "decimals": 2,
            "n_published": n_queries[language],
        }
        quantity = ndcg_quantity(section)
        ndcg = {"column": "nDCG@10", "scale": 100, "quantity": quantity}
        yield base | ndcg | {"published": row["ndcg_at_10"] / 100}
        yield base | {"column": "PSI", "scale": 1, "quantity": "psi", "published": row["psi"]}


def ndcg_quantity(section: str) -> str:
    """PosIR's nDCG@10: over queries for all lengths, over bin means within a length bucket."""
    return "mean" if section == "all" else "mean_of_buckets"


def _base(line: Row) -> tuple[Row, Row]:
    labels = {name: value for name, value in line.items() if name != "row"}
    return _SHARED | labels, line["row"]


def _columns() -> Iterator[tuple[str, str, Row]]:
    for section in SECTIONS:
        column = "posir" if section == "all" else section
        text = "PosIR" if section == "all" else section.upper()
        yield section, column, {"column": text, "length_bucket": _length_bucket(section)}


def _length_bucket(section: str) -> str:
    return POOLED if section == "all" else section.upper()
