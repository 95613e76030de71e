"""The README.md of an exported benchmark: what it holds and where it came from."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psibench import __version__

EXPORT_VERSION = 1
"""Raised when an export has other rows of the same tables."""

LICENCE = "FILL IN: the licence of the texts, and who to name"


@dataclass(frozen=True)
class DatasetCounts:
    """How much one language and domain holds.

    ``n_elsewhere`` are its queries whose declared ``target_position`` is not the third that the
    middle of their span lies in.
    """

    language: str
    domain: str
    n_documents: int
    n_queries: int
    n_qrels: int
    n_elsewhere: int


def card_text(
    name: str,
    counts: Sequence[DatasetCounts],
    records: Iterable[Mapping[str, Any]],
    *,
    extra: bool = False,
) -> str:
    """Return the card of a benchmark.

    Parameters
    ----------
    counts : one per dataset, in the order they are listed.
    records : provenance records of the tables; ``{}`` for a table without one.
    extra : whether columns that the layout does not have were written, too.
    """
    body = _body(counts, list(records), extra=extra)
    return "\n".join([*_head(counts), "", f"# {name}", "", *body, ""])


def origin_lines(
    counts: Sequence[DatasetCounts],
    records: Sequence[Sequence[Mapping[str, Any]]],
    *,
    extra: bool,
) -> Iterator[str]:
    """Yield a line per language: how much it holds, which stages made it and when; then a warning.

    Parameters
    ----------
    counts, records : of each dataset, in one order.
    """
    for language in dict.fromkeys(one.language for one in counts):
        mine = [place for place, one in enumerate(counts) if one.language == language]
        domains = [counts[place].domain for place in mine]
        queries = sum(counts[place].n_queries for place in mine)
        made = [record for place in mine for record in records[place]]
        yield (
            f"{language}: {len(domains)} {'domain' if len(domains) == 1 else 'domains'} "
            f"({', '.join(domains)}), {queries:,} queries; {_stages(made) or 'stage not recorded'}"
            f", created {_dates(made) or 'not recorded'}"
        )
    if warning := _elsewhere(counts, extra=extra):
        yield f"warning: {warning}"


def _elsewhere(counts: Sequence[DatasetCounts], *, extra: bool) -> str:
    """Word how many declared positions the layout cannot hold; empty if all, or none are lost."""
    moved = sum(one.n_elsewhere for one in counts)
    if extra or not moved:
        return ""
    queries = sum(one.n_queries for one in counts)
    return (
        f"the `target_position` of {moved:,} of {queries:,} queries is not the third that the "
        "middle of their span lies in, and is not in these files; use --extra to keep it"
    )


def _stages(records: Iterable[Mapping[str, Any]]) -> str:
    return _distinct(
        f"{record['stage']} {record['stage_version']}" for record in records if "stage" in record
    )


def _dates(records: Iterable[Mapping[str, Any]]) -> str:
    """Word the first and the last day of creation."""
    days = sorted({str(record["created"])[:10] for record in records if record.get("created")})
    return " to ".join(dict.fromkeys([days[0], days[-1]])) if days else ""


def _head(counts: Sequence[DatasetCounts]) -> list[str]:
    languages = sorted({count.language.split("-")[0] for count in counts})
    lines = ["---", "license: other # fill in", "task_categories:", "- text-retrieval", "language:"]
    lines += [f"- {language}" for language in languages]
    lines.append("configs:")
    for table in ("corpus", "queries", "qrels"):
        lines += [f"- config_name: {table}", "  data_files:", "  - split: test"]
        lines.append(f'    path: "*/*/{table}/test.parquet"')
    return [*lines, "---"]


def _body(
    counts: Sequence[DatasetCounts], records: list[Mapping[str, Any]], *, extra: bool
) -> list[str]:
    lost = _elsewhere(counts, extra=extra)
    return [
        "A retrieval benchmark that says where in its document each query's evidence stands, in",
        "the layout of PosIR: `{language}/{domain}/{corpus,queries,qrels}/test.parquet`.",
        "",
        "| table | columns |",
        "|---|---|",
        "| corpus | `_id`, `text` |",
        "| queries | `_id`, `text`; `pos_char_span`: [start, end) of the evidence in the positive, "
        "characters from 0; `pos_char_length`, `pos_token_length`: characters and tokens of the "
        "positive |",
        "| qrels | `query-id`, `corpus-id`, `score` (above 0: relevant) |",
        "",
        "In a language that was translated to, spans and lengths are those of the original.",
        *(["", f"Note: {lost}."] if lost else []),
        "",
        "## Size",
        "",
        *_counts(counts),
        "",
        "## Where it comes from",
        "",
        *_origin(records),
        "",
        "## Licence",
        "",
        LICENCE,
    ]


def _counts(counts: Sequence[DatasetCounts]) -> list[str]:
    rows = [
        (one.language, one.domain, one.n_documents, one.n_queries, one.n_qrels) for one in counts
    ]
    totals = [sum(getattr(one, f"n_{what}") for one in counts) for what in _COUNTED]
    return [
        "| language | domain | documents | queries | qrels |",
        "|---|---|--:|--:|--:|",
        *(f"| {lang} | {domain} | {d:,} | {q:,} | {r:,} |" for lang, domain, d, q, r in rows),
        f"| all | {len(counts)} datasets | " + " | ".join(f"{n:,}" for n in totals) + " |",
    ]


_COUNTED = ("documents", "queries", "qrels")


def _origin(records: list[Mapping[str, Any]]) -> list[str]:
    made_by = _distinct(record.get("psibench_version") for record in records)
    stages, dates = _stages(records), _dates(records)
    revisions = {
        str(name): str(revision)
        for record in records
        for name, revision in (record.get("revisions") or {}).items()
    }
    lines = [
        f"- Built with psibench {made_by or 'not recorded'}, stages {stages or 'not recorded'}, "
        f"created {dates or 'not recorded'}; "
        f"exported with psibench {__version__}, export {EXPORT_VERSION}.",
        f"- Queries by: {_named(records, 'queries_by') or 'not recorded'}.",
    ]
    if backends := _named(records, "llm_backend"):
        lines.append(f"- Language models reached through: {backends}.")
    lines += [f"- {name}: {revision}" for name, revision in sorted(revisions.items())]
    return lines


def _named(records: list[Mapping[str, Any]], field: str) -> str:
    return _distinct(
        name for record in records for name in str(record.get(field) or "").split(", ")
    )


def _distinct(values: Iterable[Any]) -> str:
    return ", ".join(sorted({str(value) for value in values if value}))
