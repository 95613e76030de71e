"""Stage ``probe_comparison``: a probe before and after training, or of any two models.

Both models have the same documents, changed alike: what differs is taken document by document. The
summary of a probe is made of means and contrasts of them, so that of the differences is the
difference, with the interval and the test of a pair (Controlled, section 6.3, and Needles, section
5, print the two figures side by side).
"""

from collections.abc import Iterator

import polars as pl

from psibench.probes.run import ALL_PROBES, Probe
from psibench.probes.tables import ABOUT, PROBE_TABLE, Row
from psibench.tables import read_table, write_csv
from psibench.tables.job import Job
from psibench.tables.spec import FLOAT64, INT32, STRING, Column, TableSpec
from psibench.tables.stage import stage

SAME = ("read", "measure", "condition", "size", "n_places", "place")
"""Columns of PROBE_TABLE that say what a figure is of."""
NOT_A_MEAN = ("correlation", "saliency sd")
"""Measures whose difference is not that of the documents' values."""

PROBE_COMPARISON = TableSpec(
    "probe_comparison",
    (
        *ABOUT[:2],
        Column("domain", STRING, "domain, or all"),
        Column("model", STRING, "model id: after training, say"),
        Column("other", STRING, "model id that it is compared with: before training"),
        Column("probe", STRING, "as in probe_table"),
        *(column for column in PROBE_TABLE.columns if column.name in SAME),
        Column("value", FLOAT64, "the model's figure on the documents that fit both"),
        Column("other_value", FLOAT64, "the other model's, on the same"),
        Column(
            "relative",
            FLOAT64,
            "as in probe_table: the model's, on the documents that fit both",
            True,
        ),
        Column("other_relative", FLOAT64, "the other model's", True),
        Column("difference", FLOAT64, "value less other_value"),
        Column("low", FLOAT64, "its interval over documents; null: one document, or a range", True),
        Column("high", FLOAT64, "likewise", True),
        Column(
            "p",
            FLOAT64,
            "of the difference being 0, where probe_table has a p; range: of the differences being "
            "the same at all places; null elsewhere and with fewer than 30 documents",
            True,
        ),
        Column("n_documents", INT32, "documents that fit both"),
    ),
    key=("benchmark", "language", "domain", "model", "other", "probe", *SAME),
)


def compare(
    probe: Probe, rows: pl.DataFrame, others: pl.DataFrame, *, level: float
) -> Iterator[Row]:
    """Yield PROBE_COMPARISON rows without labels, of one probe's rows of two models."""
    keys = [name for name in probe.spec.key if name in rows.columns and name != "model"]
    both = rows.join(
        others, on=keys, how="inner", nulls_equal=True, suffix=":other", maintain_order="left"
    )
    least = [name for name in ("read", "part_read") if name in rows.columns]
    both = both.with_columns(
        pl.coalesce("left_out", "left_out:other").alias("left_out"),
        *(pl.min_horizontal(name, f"{name}:other").alias(name) for name in least),
    )
    sides = {
        "value": both,
        "other_value": both.with_columns(pl.col(f"{n}:other").alias(n) for n in probe.values),
        "difference": both.with_columns(pl.col(n) - pl.col(f"{n}:other") for n in probe.values),
    }
    found = {
        name: {_identity(row): row for row in probe.summarise(frame, level=level)}
        for name, frame in sides.items()
    }
    for identity, row in found["value"].items():
        if row["measure"] in NOT_A_MEAN:
            continue
        other, difference = found["other_value"][identity], found["difference"][identity]
        is_range = row["measure"].endswith(" range")
        yield row | {
            "other_value": other["value"],
            "other_relative": other.get("relative"),
            "difference": row["value"] - other["value"],
            "low": None if is_range else difference.get("low"),
            "high": None if is_range else difference.get("high"),
            "p": difference.get("p"),
        }


def _identity(row: Row) -> tuple[object, ...]:
    """Return what identifies a figure; the places of a range are a result, and left out."""
    is_range = row["measure"].endswith(" range")
    names = [name for name in ("domain", *SAME) if name != "condition" or not is_range]
    return tuple(row.get(name) for name in names)


@stage("probe_comparison", version=2)
def run_probe_comparison(job: Job) -> None:
    """Compare the probes of pairs of models.

    ``compared`` has probe, benchmark, lang, model and other of each pair; the inputs ``rows`` and
    ``others`` are the probes' own tables, in that order.
    """
    level, rows, others = job.value("level", float), job.paths("rows"), job.paths("others")
    found: list[Row] = []
    for labels, *paths in zip(job.value("compared"), rows, others, strict=True):
        probe = ALL_PROBES[labels["probe"]]
        names = {name: labels[name] for name in ("benchmark", "model", "other", "probe")}
        names["language"] = labels["lang"]
        pair = (read_table(path, probe.spec) for path in paths)
        found += [row | names for row in compare(probe, *pair, level=level)]
    frame = pl.from_dicts(found, schema=PROBE_COMPARISON.empty().schema)
    record = {"inputs": [*rows, *others], "params": {"level": level}}
    job.write("parquet", frame, PROBE_COMPARISON, **record)
    write_csv(frame, str(job.outputs["csv"]))
