"""The card of an exported benchmark (README.md): what it holds, what was measured, whence it came.

The front matter is read by the hub and by `datasets`: its `configs` say which files are a table.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import yaml

from psibench import __version__
from psibench.errors import InputError
from psibench.formats.built import TABLES, Dataset
from psibench.formats.tabular import read_parquet
from psibench.metrics.buckets import third_of_middle
from psibench.publish.layouts import Written
from psibench.report.wording import number, with_interval
from psibench.tables import read_provenance, read_table
from psibench.tables.build_schemas import FLOW
from psibench.tables.derived import read_all
from psibench.tables.domains import by_place
from psibench.tables.schemas import ATTRITION, PSI_TABLE, QUERIES
from psibench.tables.spec import POOLED

EXPORT_VERSION = 2
"""Raised when an export has other rows of the same tables."""
FEW_REASONS = 3
"""Reasons that are named for each step."""


@dataclass(frozen=True)
class Licence:
    """The licence of the texts: an identifier as the hub spells it, and where it is to be read."""

    id: str
    link: str | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9]+([.-][a-z0-9]+)*", self.id):
            raise InputError(
                f"licence {self.id!r}: give an identifier as the hub spells it, such as cc-by-4.0, "
                "apache-2.0 or mit; `other` with a link; or `unknown`"
            )
        if self.id == "other" and not self.link:
            raise InputError("licence 'other': give the address of its text, too (--licence-link)")


@dataclass(frozen=True)
class Facts:
    """What was counted and measured of a benchmark.

    Attributes
    ----------
    counts
        A row for each dataset: ``language``, ``domain``, ``documents``, ``queries``, ``qrels``,
        and ``elsewhere``: the queries whose declared ``target_position`` is not the third that the
        middle of their span lies in, and which is not in the files.
    records
        Of each dataset, in the same order, the provenance of its tables.
    flow, attrition, controls
        Rows of the languages and domains exported; None where the benchmark has no such table.
    """

    counts: pl.DataFrame
    records: list[list[Mapping[str, Any]]]
    flow: pl.DataFrame | None
    attrition: pl.DataFrame | None
    controls: pl.DataFrame | None

    @property
    def every_record(self) -> list[Mapping[str, Any]]:
        """The provenance of all tables."""
        return [record for of in self.records for record in of]

    @property
    def created(self) -> str:
        """The last day a table was made on; empty if no table says."""
        return max(_days(self.every_record), default="")


def gather_facts(benchmark: Path, datasets: Sequence[Dataset], *, keeps_positions: bool) -> Facts:
    """Count datasets, and read what the benchmark's tables say of filters and controls."""
    counts = pl.DataFrame([_count(dataset) for dataset in datasets])
    if keeps_positions:
        counts = counts.with_columns(elsewhere=0)

    def of_places(name: str, spec: Any) -> pl.DataFrame | None:
        path = benchmark / f"{name}.parquet"
        if not path.is_file():
            return None
        return read_table(path, spec).join(counts, on=["language", "domain"], how="semi")

    return Facts(
        counts,
        [[read_provenance(d.path(table)) or {} for table in TABLES] for d in datasets],
        flow=of_places("flow", by_place(FLOW)),
        attrition=of_places("attrition", ATTRITION),
        controls=_controls(benchmark, list(dict.fromkeys(d.language for d in datasets))),
    )


def _count(dataset: Dataset) -> dict[str, Any]:
    queries = read_table(dataset.path("queries"), QUERIES)
    aimed = queries.drop_nulls(["target_position", "pos_char_span"])
    ends = aimed["pos_char_span"].cast(pl.List(pl.Int64))
    lengths = aimed["pos_char_length"].cast(pl.Int64).to_numpy()
    thirds = third_of_middle((ends.list.get(0) + ends.list.get(1)).to_numpy(), lengths)
    return {
        "language": dataset.language,
        "domain": dataset.domain,
        "documents": read_parquet(dataset.path("corpus"), ["_id"]).height,
        "queries": queries.height,
        "qrels": read_parquet(dataset.path("qrels"), ["query-id"]).height,
        "elsewhere": int((thirds != aimed["target_position"].to_numpy()).sum()),
    }


def _controls(benchmark: Path, languages: Sequence[str]) -> pl.DataFrame | None:
    """Read what the controls scored in each language, by thirds, over all evidence."""
    paths = [benchmark / "tables" / f"{name}-{name}.psi.parquet" for name in languages]
    rows = read_all([path for path in paths if path.is_file()], PSI_TABLE).filter(
        kind="control",
        domain=POOLED,
        length_bucket=POOLED,
        metric="ndcg@10",
        buckets="thirds",
        evidence="all",
    )
    return None if rows.is_empty() else rows


# --- The text --------------------------------------------------------------------------------


def card_text(
    name: str, facts: Facts, written: Sequence[Written], *, layout: str, licence: Licence
) -> str:
    """Return the card of a benchmark in a layout."""
    front = yaml.safe_dump(
        _front_matter(name, facts, written, licence), sort_keys=False, allow_unicode=True
    )
    body = _body(facts, written, layout=layout, licence=licence)
    return "\n".join(["---", front.rstrip(), "---", "", f"# {name}", "", *body, ""])


def origin_lines(facts: Facts) -> Iterator[str]:
    """Yield a line per language: how much it holds, what made it and when; then a warning."""
    for (language,), rows in facts.counts.with_row_index().group_by(
        "language", maintain_order=True
    ):
        made = [record for place in rows["index"] for record in facts.records[place]]
        n_domains = f"{rows.height} {'domain' if rows.height == 1 else 'domains'}"
        yield (
            f"{language}: {n_domains} ({', '.join(rows['domain'])}), {rows['queries'].sum():,} "
            f"queries; {_stages(made) or 'stage not recorded'}, created "
            f"{_dates(made) or 'not recorded'}"
        )
    if warning := _elsewhere(facts.counts):
        yield f"warning: {warning}"


def _elsewhere(counts: pl.DataFrame) -> str:
    """Word how many declared positions the layout cannot hold; empty if none are lost."""
    moved = counts["elsewhere"].sum()
    if not moved:
        return ""
    return (
        f"the `target_position` of {moved:,} of {counts['queries'].sum():,} queries is not the "
        "third that the middle of their span lies in, and is not in these files; use --extra to "
        "keep it"
    )


def _stages(records: Iterable[Mapping[str, Any]]) -> str:
    return _distinct(
        f"{record['stage']} {record['stage_version']}" for record in records if "stage" in record
    )


def _days(records: Iterable[Mapping[str, Any]]) -> list[str]:
    return sorted({str(record["created"])[:10] for record in records if record.get("created")})


def _dates(records: Iterable[Mapping[str, Any]]) -> str:
    """Word the first and the last day of creation."""
    days = _days(records)
    return " to ".join(dict.fromkeys([*days[:1], *days[-1:]]))


def _front_matter(
    name: str, facts: Facts, written: Sequence[Written], licence: Licence
) -> dict[str, Any]:
    front: dict[str, Any] = {"pretty_name": name, "license": licence.id}
    if licence.link:
        front |= {"license_name": licence.id, "license_link": licence.link}
    edges: dict[str, float] = {
        "n<1K": 1_000,
        "1K<n<10K": 10_000,
        "10K<n<100K": 100_000,
        "100K<n<1M": 1_000_000,
    }
    edges |= {"1M<n<10M": 10_000_000, "10M<n<100M": math.inf}
    n_rows = facts.counts["documents"].sum()
    front |= {
        "task_categories": ["text-retrieval"],
        "language": sorted({language.split("-")[0] for language in facts.counts["language"]}),
        "size_categories": [next(label for label, edge in edges.items() if n_rows < edge)],
        "tags": ["position-bias", "psibench"],
    }
    configs = [
        {
            "config_name": one.config,
            "data_files": [{"split": "test", "path": one.path.as_posix()}],
        }
        for one in written
        if one.path.suffix == ".parquet"
    ]
    return front | ({"configs": configs} if configs else {})


_WHAT_IS_WHERE = {
    "posir": (
        "the layout of PosIR: `{language}/{domain}/{corpus,queries,qrels}/test.parquet`. Each "
        "domain has a corpus of its own, and an id may occur in several."
    ),
    "mteb": (
        "the layout of MTEB: a config each for corpus, queries and qrels of every corpus below, "
        "and of every pair whose queries are of another language than the documents. "
        "`psibench.publish.mteb_task(folder)` is the task that reports the PSI, too."
    ),
    "beir": (
        "the layout of BEIR: `{corpus}/corpus.jsonl`, `queries.jsonl` and `qrels/test.tsv`. Where "
        "the evidence is, is in the `metadata` of queries. A folder QUERY_LANG-CORPUS_LANG has "
        "queries that search the documents of CORPUS_LANG."
    ),
    "trec": (
        "the files of TREC: `{corpus}/topics.tsv`, `qrels.trec`, `runs/*.trec`, documents in "
        "`corpus.jsonl` (`docno`, `text`), and where the evidence is in `queries.jsonl`. A folder "
        "QUERY_LANG-CORPUS_LANG has queries that search the documents of CORPUS_LANG."
    ),
}


def _body(
    facts: Facts, written: Sequence[Written], *, layout: str, licence: Licence
) -> Iterator[str]:
    yield from (
        "A retrieval benchmark that says where in its document each query's evidence is, in",
        _WHAT_IS_WHERE[layout],
        "",
        "Of queries, `pos_char_span` is [start, end) of the evidence in its positive document, in "
        "characters from 0; `pos_char_length` and `pos_token_length` are the characters "
        "and tokens of that document. Spans and lengths of a translated language are those of the "
        "original. Of qrels, a score above 0 is relevant.",
    )
    if lost := _elsewhere(facts.counts):
        yield from ("", f"Note: {lost}.")
    yield from ("", "## Size", "", *_counts(facts.counts))
    if pooled := _pooled(facts, written):
        yield from ("", pooled)
    yield from ("", "## What the filters dropped", "", *_losses(facts))
    yield from ("", "## Controls", "", *_control_rows(facts))
    yield from ("", "## Where it comes from", "", *_origin(facts.every_record))
    yield from ("", "## Licence", "", _licence_line(licence))


def _pooled(facts: Facts, written: Sequence[Written]) -> str:
    """Say that domains are one corpus here, if so; psibench searches them one by one."""
    corpora = {one.collection for one in written}
    if len(corpora) == facts.counts.height:
        return ""
    return (
        "The domains of a language are one corpus here: a query searches the documents of all of "
        "them. psibench's own tables come from searching each domain by itself, which is easier; "
        "rankings made on the two are not comparable. `psibench export --by-domain` keeps domains "
        "apart."
    )


def _table(header: str, align: str, rows: Iterable[Sequence[Any]]) -> list[str]:
    return [header, align, *(f"| {' | '.join(map(_cell, row))} |" for row in rows)]


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _counts(counts: pl.DataFrame) -> list[str]:
    sizes = ("documents", "queries", "qrels")
    return _table(
        "| language | domain | documents | queries | qrels |",
        "|---|---|--:|--:|--:|",
        [
            *counts.select("language", "domain", *sizes).iter_rows(),
            ("all", f"{counts.height} datasets", *counts.select(sizes).sum().row(0)),
        ],
    )


def _losses(facts: Facts) -> Iterator[str]:
    """Tabulate what each step took in, kept and dropped, and the commonest reasons."""
    if facts.flow is None or facts.attrition is None or facts.flow.is_empty():
        yield "Not recorded: the benchmark was read as it is, or its ledger is not there."
        return
    steps = (
        facts.flow.group_by("stage", "unit")
        .agg(pl.col("step").min(), pl.col("entered", "kept", "dropped").sum())
        .filter(pl.col("dropped") > 0)
        .sort("step", "stage", "unit")
    )
    reasons = (
        facts.attrition.group_by("stage", "unit", "reason")
        .len("n")
        .sort("n", "reason", descending=[True, False])
    )
    rows = []
    for row in steps.iter_rows(named=True):
        own = reasons.filter(stage=row["stage"], unit=row["unit"]).head(FEW_REASONS)
        named = ", ".join(f"{reason} {n:,}" for reason, n in own.select("reason", "n").iter_rows())
        numbers = (row[name] for name in ("stage", "unit", "entered", "kept", "dropped"))
        rows.append((*numbers, named))
    yield from _table(
        "| step | of | entered | kept | dropped | most often because |",
        "|---|---|--:|--:|--:|---|",
        rows,
    )


def _control_rows(facts: Facts) -> Iterator[str]:
    if facts.controls is None:
        yield "None was run on this benchmark: whether a retriever's PSI is its own is not known."
        return
    yield (
        "What retrievers scored whose reading of positions is known beforehand (nDCG@10, evidence "
        "by thirds of its document, all domains, searched domain by domain). A retriever is "
        "position-sensitive only beyond the position-blind one."
    )
    yield ""
    rows = []
    for row in facts.controls.iter_rows(named=True):
        told = with_interval(row, "psi_same", separator=" ")
        same = told if row["psi_same"] is not None else "not to be told"
        mean, psi, p = (number(row[name]) for name in ("mean", "psi", "p_adjusted"))
        p = "< .001" if (row["p_adjusted"] or 1) < 0.001 else p
        named = (row["corpus_lang"], row["model"], row["n_queries"])
        rows.append((*named, mean, psi, same, p))
    yield from _table(
        "| language | control | queries | mean | PSI | at equal documents | p |",
        "|---|---|--:|--:|--:|---|--:|",
        rows,
    )


def _licence_line(licence: Licence) -> str:
    if licence.id == "unknown":
        return "Unknown: whoever exported this did not know the licence of the texts."
    return (
        f"{licence.id}{f' ({licence.link})' if licence.link else ''}, as told by who exported it."
    )


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
