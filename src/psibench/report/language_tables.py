"""Tables of languages, domains and query types, from the rows of the statistics."""

from collections.abc import Collection, Mapping, Sequence

import polars as pl

from psibench.build.quality import POOLED
from psibench.build.statistics import QUERY_TYPE_PREFIX
from psibench.report.plain import Table
from psibench.report.wording import MISSING, count, percent
from psibench.text.query_types import QUERY_TYPES

Values = Mapping[str, float]
Statistics = Mapping[tuple[str, str], Values]
"""(language, domain) -> name of a statistic -> value."""
TOKENS = ("min", "q1", "median", "q3", "max", "mean")
QUARTILES = frozenset({"q1", "median", "q3"})
TOTAL = "all"
SIZE_HEADER = ("documents", "share", "queries", "share")
PUBLISHED_COLUMNS = {"eng": "english", "cmn": "chinese", "zho": "chinese"}
LANGUAGE_NOTE = (
    "To first: mean length beside that of the first language. Quartiles of all languages together "
    "are not computed."
)
TYPE_NOTE = (
    "By the interrogative a query opens with; in Chinese by its first one. CLAIM: asks nothing. "
    "OTHERS: yes/no questions, requests, and questions without an interrogative. The paper's "
    "keyword lists are not published, so ours are others."
)


def by_place(statistics: pl.DataFrame) -> Statistics:
    """Return the values of one benchmark's STATISTICS rows by language and domain, in order."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    columns = ("language", "domain", "statistic", "value")
    for language, domain, name, value in statistics.select(columns).iter_rows():
        found.setdefault((language, domain), {})[name] = value
    return found


def language_table(found: Statistics) -> Table:
    """Return a row per language, as PosIR's Table 4, and their mean length beside the first's."""
    pooled = {language: _whole(found, language) for language in _languages(found)}
    together = _together(list(pooled.values()))
    first = next(iter(pooled.values())).get("passage_tokens_mean")
    rows = []
    for language, values in [*pooled.items(), (TOTAL, together)]:
        mean = values.get("passage_tokens_mean") if language != TOTAL else None
        ratio = MISSING if not first or mean is None else f"{mean / first:.2f}"
        rows.append((language, *_sizes(values, together), *_tokens(values, TOKENS), ratio))
    return Table(
        "Languages",
        ("language", *SIZE_HEADER, *_token_header(TOKENS), "to first"),
        tuple(rows),
        n_names=1,
        groups=(("", 1), ("size", len(SIZE_HEADER)), ("tokens per document", len(TOKENS) + 1)),
        note=LANGUAGE_NOTE,
    )


def domain_table(found: Statistics) -> Table:
    """Return a row per domain, as PosIR's Table 5.

    Documents and queries of several languages are added up; quartiles stand in the table of one.
    """
    languages = _languages(found)
    domains = [name for name in dict.fromkeys(domain for _, domain in found) if name != POOLED]
    merged = {
        domain: _together([found[la, domain] for la in languages if (la, domain) in found])
        for domain in domains
    }
    if len(languages) == 1:
        merged = {domain: found[languages[0], domain] for domain in domains}
    merged[TOTAL] = _together([_whole(found, language) for language in languages])
    if len(languages) == 1:
        merged[TOTAL] = _whole(found, languages[0])
    shown = [name for name in TOKENS if len(languages) == 1 or name not in QUARTILES]
    return Table(
        "Domains",
        ("domain", *SIZE_HEADER, *_token_header(shown)),
        tuple(
            (domain, *_sizes(values, merged[TOTAL]), *_tokens(values, shown))
            for domain, values in merged.items()
        ),
        n_names=1,
        groups=(("", 1), ("size", len(SIZE_HEADER)), ("tokens per document", len(shown))),
        note=f"Together: {', '.join(languages)}." if len(languages) > 1 else "",
    )


def query_type_table(found: Statistics, published: pl.DataFrame | None = None) -> Table | None:
    """Return queries by type, as PosIR's Table 6; None without English or Chinese queries.

    ``published`` has ``query_type``, ``english`` and ``chinese`` (shares).
    """
    marker = f"{QUERY_TYPE_PREFIX}{QUERY_TYPES[0]}"
    whole = {language: _whole(found, language) for language in _languages(found)}
    typed = {language: values for language, values in whole.items() if marker in values}
    if not typed:
        return None
    columns = [PUBLISHED_COLUMNS[language.partition("-")[0]] for language in typed]
    columns = [] if published is None else list(dict.fromkeys(columns))
    known = {} if published is None else {row["query_type"]: row for row in published.to_dicts()}
    rows = []
    for kind in QUERY_TYPES:
        cells = []
        for values in typed.values():
            n, total = values[f"{QUERY_TYPE_PREFIX}{kind}"], values["n_queries"]
            cells += [count(n), percent(n / total if total else None, 2)]
        rows.append((kind, *cells, *(percent(known[kind][name], 2) for name in columns)))
    groups = [("", 1), *((language, 2) for language in typed)]
    groups += [("published: PosIR, table 6", len(columns))] if columns else []
    header = ("type", *("queries", "share") * len(typed), *columns)
    return Table("What queries ask", header, tuple(rows), 1, tuple(groups), TYPE_NOTE)


def _languages(found: Statistics) -> list[str]:
    return list(dict.fromkeys(language for language, _ in found))


def _whole(found: Statistics, language: str) -> Values:
    """Return the statistics of a language: the pooled ones, or those of its only domain."""
    mine = {domain: values for (name, domain), values in found.items() if name == language}
    return mine.get(POOLED) or next(iter(mine.values()))


def _together(rows: Sequence[Values]) -> Values:
    """Add up sizes; lengths over the documents of all, quartiles left out."""
    sized = [row for row in rows if row["n_passages"]]
    merged = {name: sum(row[name] for row in rows) for name in ("n_passages", "n_queries")}
    if not sized:
        return merged
    total = sum(row["passage_tokens_mean"] * row["n_passages"] for row in sized)
    lowest = [row["passage_tokens_min"] for row in sized if "passage_tokens_min" in row]
    return merged | {
        **({"passage_tokens_min": min(lowest)} if len(lowest) == len(sized) else {}),
        "passage_tokens_max": max(row["passage_tokens_max"] for row in sized),
        "passage_tokens_mean": total / merged["n_passages"],
    }


def _sizes(values: Values, whole: Values) -> tuple[str, ...]:
    return tuple(
        text
        for name in ("n_passages", "n_queries")
        for text in (
            count(values[name]),
            percent(values[name] / whole[name] if whole[name] else None, 2),
        )
    )


def _token_header(names: Collection[str]) -> tuple[str, ...]:
    return tuple({"q1": "Q1", "q3": "Q3"}.get(name, name) for name in names)


def _tokens(values: Values, names: Collection[str]) -> tuple[str, ...]:
    found = ((name, values.get(f"passage_tokens_{name}")) for name in names)
    return tuple(
        MISSING if value is None else f"{value:,.1f}" if name == "mean" else f"{value:,.0f}"
        for name, value in found
    )
