"""The card of an exported benchmark (README.md): licence, sizes, positions, origin, how to load.

The hub and `datasets` read its front matter: `configs` maps names to the files of a table.
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
from psibench.formats.built import DATASET_TABLES, Dataset
from psibench.metrics.buckets import THIRDS, third_of_span
from psibench.publish.layouts import Written
from psibench.report.tables import table_of
from psibench.tables import read_provenance

EXPORT_VERSION = 3
"""Increase it when the same tables are exported to other rows."""
TEMPLATE = "card.md"
SIZES = {
    "n<1K": 1_000,
    "1K<n<10K": 10_000,
    "10K<n<100K": 100_000,
    "100K<n<1M": 1_000_000,
    "1M<n<10M": 10_000_000,
}


@dataclass(frozen=True)
class Licence:
    """Licence of the texts: the hub's identifier, and an address of its text."""

    id: str
    link: str | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9]+([.-][a-z0-9]+)*", self.id):
            raise InputError(
                f"licence {self.id!r}: use an identifier of the hub, e.g. cc-by-4.0, apache-2.0 or "
                "mit; `other` with a link; or `unknown`"
            )
        if self.id == "other" and not self.link:
            raise InputError("licence 'other': also needs the address of its text (--licence-link)")


def count_datasets(datasets: Sequence[Dataset]) -> pl.DataFrame:
    """Return one row per dataset, with language, domain and counts.

    Columns: documents, queries, qrels; queries by the third of their evidence, and elsewhere;
    ``moved``, queries whose declared `target_position` differs from the third of their span.
    """
    return pl.DataFrame([_count(dataset) for dataset in datasets])


def _count(dataset: Dataset) -> dict[str, Any]:
    queries = dataset.read("queries")
    ends, length = pl.col("pos_char_span").cast(pl.List(pl.Int64)), pl.col("pos_char_length")
    of_span = third_of_span(ends.list.get(0), ends.list.get(1), length.cast(pl.Int64))
    declared = pl.col("target_position").cast(pl.String)
    found = queries.select(of_span=of_span, third=pl.coalesce(of_span, declared), declared=declared)
    thirds = {name: found.filter(third=name).height for name in THIRDS}
    return {
        "language": dataset.language,
        "domain": dataset.domain,
        "documents": dataset.read("corpus", ["_id"]).height,
        "queries": queries.height,
        "qrels": dataset.read("qrels", ["query-id"]).height,
        **thirds,
        "elsewhere": queries.height - sum(thirds.values()),
        "moved": found.filter(pl.col("of_span") != pl.col("declared")).height,
    }


def lost_positions(counts: pl.DataFrame) -> str:
    """Return a note on declared positions that PosIR's layout cannot hold; empty if none."""
    moved = counts["moved"].sum()
    if not moved:
        return ""
    return (
        f"the `target_position` of {moved:,} of {counts['queries'].sum():,} queries differs from "
        "the third with the middle of their span, and these files do not have it; use --extra to "
        "keep it"
    )


def card_text(
    name: str,
    datasets: Sequence[Dataset],
    counts: pl.DataFrame,
    written: Sequence[Written],
    *,
    layout: str,
    licence: Licence,
    lost: str,
) -> str:
    """Return the card of a benchmark in a layout.

    ``counts`` comes from `count_datasets`, ``lost`` from `lost_positions`.
    """
    records = [
        read_provenance(one.path(table)) or {} for one in datasets for table in DATASET_TABLES
    ]
    days = sorted({str(one["created"])[:10] for one in records if one.get("created")})
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    sizes = counts.drop("moved")
    whole = sizes.select(
        pl.lit("all").alias("language"),
        pl.format("{} datasets", pl.len()).alias("domain"),
        pl.exclude("language", "domain").sum(),
    )
    front = _front_matter(name, counts, written, licence)
    return made.get_template(TEMPLATE).render(
        name=name,
        front=yaml.safe_dump(front, sort_keys=False, allow_unicode=True).rstrip(),
        layout=layout,
        lost=lost,
        sizes=table_of("", pl.concat([sizes, whole])),
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


def _named(records: Iterable[Mapping[str, Any]], field: str) -> str:
    return _distinct(
        name for record in records for name in str(record.get(field) or "").split(", ")
    )


def _distinct(values: Iterable[Any]) -> str:
    return ", ".join(sorted({str(value) for value in values if value}))
