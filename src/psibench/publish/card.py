"""The card of an exported benchmark (README.md): what it holds, what was measured, whence it came.

The front matter is read by the hub and by `datasets`: its `configs` say which files are a table.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import polars as pl
import yaml

from psibench import __version__
from psibench.errors import InputError
from psibench.formats.built import TABLES, Dataset
from psibench.metrics.buckets import third_of_span
from psibench.publish.layouts import Written
from psibench.report.tables import Columns, Table, table_of
from psibench.report.verdict import shown_psis
from psibench.report.wording import p_value
from psibench.tables import read_provenance, read_table
from psibench.tables.build_schemas import FLOW
from psibench.tables.derived import read_all
from psibench.tables.domains import by_place
from psibench.tables.schemas import ATTRITION, PSI_TABLE
from psibench.tables.spec import ALL

EXPORT_VERSION = 3
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
        The provenance of all tables.
    flow, attrition, controls
        Rows of the languages and domains exported; None where the benchmark has no such table.
    """

    counts: pl.DataFrame
    records: list[Mapping[str, Any]]
    flow: pl.DataFrame | None
    attrition: pl.DataFrame | None
    controls: pl.DataFrame | None


def gather_facts(benchmark: Path, datasets: Sequence[Dataset], *, keeps_positions: bool) -> Facts:
    """Count datasets, and read what the benchmark's tables say of filters and controls.

    Raises InputError if its scores are of other queries than those that it has now.
    """
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
        [read_provenance(one.path(table)) or {} for one in datasets for table in TABLES],
        flow=of_places("flow", by_place(FLOW)),
        attrition=of_places("attrition", ATTRITION),
        controls=_controls(benchmark, datasets),
    )


def _count(dataset: Dataset) -> dict[str, Any]:
    queries = dataset.read("queries")
    aimed = queries.drop_nulls(["target_position", "pos_char_span"])
    ends = pl.col("pos_char_span").cast(pl.List(pl.Int64))
    length = pl.col("pos_char_length").cast(pl.Int64)
    third = third_of_span(ends.list.get(0), ends.list.get(1), length)
    return {
        "language": dataset.language,
        "domain": dataset.domain,
        "documents": dataset.read("corpus", ["_id"]).height,
        "queries": queries.height,
        "qrels": dataset.read("qrels", ["query-id"]).height,
        "elsewhere": aimed.filter(third != pl.col("target_position").cast(pl.String)).height,
    }


def _controls(benchmark: Path, datasets: Sequence[Dataset]) -> pl.DataFrame | None:
    """Read what the controls scored in each language, by thirds, over all evidence.

    Raises InputError if that was over other queries than those of the datasets.
    """
    languages = dict.fromkeys(one.language for one in datasets)
    paths = [benchmark / "tables" / f"{name}-{name}.psi.parquet" for name in languages]
    paths = [path for path in paths if path.is_file()]
    scored = {
        name: rows_hash
        for path in paths
        for name, rows_hash in (read_provenance(path) or {}).get("inputs", {}).items()
    }
    for one in datasets:
        queries = one.path("queries")
        now = (read_provenance(queries) or {}).get("rows_hash")
        name = f"/{benchmark.resolve().name}/{queries.relative_to(benchmark).as_posix()}"
        if any(f"/{of}".endswith(name) and then != now for of, then in scored.items()):
            raise InputError(
                f"{queries} has other queries than those that were scored. Run the workflow to its "
                "end, then export"
            )
    rows = read_all(paths, PSI_TABLE).filter(
        kind="control",
        domain=ALL,
        length_bucket=ALL,
        metric="ndcg@10",
        buckets="thirds",
        evidence="all",
    )
    return None if rows.is_empty() else rows


# --- The text --------------------------------------------------------------------------------

TEMPLATE = "card.md"
SIZES = {
    "n<1K": 1_000,
    "1K<n<10K": 10_000,
    "10K<n<100K": 100_000,
    "100K<n<1M": 1_000_000,
    "1M<n<10M": 10_000_000,
}


def card_text(
    name: str, facts: Facts, written: Sequence[Written], *, layout: str, licence: Licence
) -> str:
    """Return the card of a benchmark in a layout."""
    counts, records = facts.counts, facts.records
    days = sorted({str(one["created"])[:10] for one in records if one.get("created")})
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    front = _front_matter(name, counts, written, licence)
    return made.get_template(TEMPLATE).render(
        name=name,
        front=yaml.safe_dump(front, sort_keys=False, allow_unicode=True).rstrip(),
        layout=layout,
        lost=lost_positions(counts),
        sizes=_sizes(counts),
        losses=_losses(facts),
        controls=None if facts.controls is None else _controls_table(facts.controls),
        versions=_distinct(record.get("psibench_version") for record in records),
        stages=_distinct(
            f"{one['stage']} {one['stage_version']}"
            for one in records
            if {"stage", "stage_version"} <= one.keys()
        ),
        days=dict.fromkeys([*days[:1], *days[-1:]]),
        version=__version__,
        export_version=EXPORT_VERSION,
        authors=_named(records, "queries_by"),
        backends=_named(records, "llm_backend"),
        revisions={
            str(item): revision
            for record in records
            for item, revision in (record.get("revisions") or {}).items()
        },
        licence=licence,
    )


def lost_positions(counts: pl.DataFrame) -> str:
    """Word how many declared positions the layout cannot hold; empty if none are lost."""
    moved = counts["elsewhere"].sum()
    if not moved:
        return ""
    return (
        f"the `target_position` of {moved:,} of {counts['queries'].sum():,} queries is not the "
        "third that the middle of their span lies in, and is not in these files; use --extra to "
        "keep it"
    )


def _front_matter(
    name: str, counts: pl.DataFrame, written: Sequence[Written], licence: Licence
) -> dict[str, Any]:
    front: dict[str, Any] = {"pretty_name": name, "license": licence.id}
    if licence.link:
        front |= {"license_name": licence.id, "license_link": licence.link}
    n_rows = counts["documents"].sum()
    size = next((label for label, edge in SIZES.items() if n_rows < edge), "10M<n<100M")
    front |= {
        "task_categories": ["text-retrieval"],
        "language": sorted({language.split("-")[0] for language in counts["language"]}),
        "size_categories": [size],
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


def _sizes(counts: pl.DataFrame) -> Table:
    """Return what each dataset holds, and all together."""
    names = ("documents", "queries", "qrels")
    whole = counts.select(
        pl.lit("all").alias("language"),
        pl.format("{} datasets", pl.len()).alias("domain"),
        pl.col(names).sum(),
    )
    return table_of("", pl.concat([counts.select("language", "domain", *names), whole]))


def _losses(facts: Facts) -> Table | None:
    """Return what each step took in, kept and dropped, and the commonest reasons."""
    if facts.flow is None or facts.attrition is None or facts.flow.is_empty():
        return None
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
        .group_by("stage", "unit", maintain_order=True)
        .agg(why=pl.format("{} {}", "reason", "n").head(FEW_REASONS).str.join(", "))
    )
    joined = steps.join(reasons, on=["stage", "unit"], how="left", maintain_order="left")
    shown: Columns = {"step": "stage", "of": "unit"}
    shown |= {name: name for name in ("entered", "kept", "dropped")}
    return table_of("", joined, shown | {"most often because": "why"})


def _controls_table(controls: pl.DataFrame) -> Table:
    shown: Columns = {"language": "corpus_lang", "control": "model", "queries": "n_queries"}
    same = shown_psis(controls, "psi_same", separator=" ")
    shown |= {"mean": "mean", "PSI": "psi", "at equal documents": same}
    return table_of("", controls, shown | {"p": "p_adjusted"}, forms={"p": p_value}, gap=" ")


def _named(records: Iterable[Mapping[str, Any]], field: str) -> str:
    return _distinct(
        name for record in records for name in str(record.get(field) or "").split(", ")
    )


def _distinct(values: Iterable[Any]) -> str:
    return ", ".join(sorted({str(value) for value in values if value}))
