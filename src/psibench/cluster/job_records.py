"""What the jobs of a workflow took: Snakemake's benchmark files, and what their logs add.

`read_records` has a record of each job, `summarise` their sums by rule and model.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import ValidationError

from psibench.cluster.job import TOOK, Took
from psibench.encode.batches import MARK
from psibench.errors import InputError
from psibench.reading import parse_json, read_text_file

UNKNOWN = ("NA", "-", "")
"""What Snakemake writes where nothing was measured: the job was over before the first look."""
_STATS = re.compile(rf"\b{MARK} (\{{.*\}})\s*$", re.MULTILINE)
_TOOK = re.compile(rf"\b{TOOK} (\{{.*\}})\s*$", re.MULTILINE)
JOBS_SCHEMA: dict[str, Any] = {
    "path": pl.String,
    "rule": pl.String,
    "model": pl.String,
    "seconds": pl.Float64,
    "cpu_s": pl.Float64,
    "max_rss_mb": pl.Float64,
    "asked_mb": pl.Float64,
    "asked_minutes": pl.Float64,
    "input_mb": pl.Float64,
    "threads": pl.Int64,
    "tokens": pl.Int64,
    "padded_tokens": pl.Int64,
    "encode_s": pl.Float64,
}
"""Of a job that succeeded: of its attempts, the last.

`path` is its benchmark file's below their folder; `model` a model, reranker or task of a language
model, "" for other jobs. `cpu_s` is of all its processes; `max_rss_mb` the largest resident memory,
MiB: the job's own, or that of all its processes at one of Snakemake's looks, whichever is more.
What it asked for (`asked_mb`, `asked_minutes`, `threads`) and the size of its inputs (MB) come from
its log. Of encoding jobs: tokens of texts, tokens computed, seconds of encoding.
"""
TOTAL = "total"


def read_records(benchmarks: Path, logs: Path) -> pl.DataFrame:
    """Read all benchmark files below a folder, sorted by path; logs lie in the same places.

    Raises InputError if there is no such folder, it has no benchmark file, or one is not what it
    should be.

    Returns
    -------
    (n_jobs, 13) frame of `JOBS_SCHEMA`.
    """
    paths = sorted(benchmarks.rglob("*.tsv"))
    if not paths:
        raise InputError(
            f"{benchmarks}: no *.tsv of jobs in {Path.cwd()}. Run this in the folder where the "
            "workflow ran, or say where they are with --benchmarks"
        )
    records = [record for path in paths for record in _records(path, benchmarks, logs)]
    return pl.DataFrame(records, schema=JOBS_SCHEMA)


def _records(path: Path, benchmarks: Path, logs: Path) -> Iterator[dict[str, Any]]:
    place = path.relative_to(benchmarks)
    log = logs / place.with_suffix(".log")
    told = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    encoded, took = _encoded(told, log), _took(told)
    parts = place.with_suffix("").parts
    rule = took.rule if took else parts[1 if len(parts) > 2 else -1]
    text = read_text_file(path, expected="a benchmark file of Snakemake")
    head, *lines = text.splitlines() or [""]
    for line in lines:
        row = dict(zip(head.split("\t"), line.split("\t"), strict=False))
        try:
            seconds, cpu, seen = float(row["s"]), _number(row["cpu_time"]), _number(row["max_rss"])
        except (KeyError, ValueError, TypeError) as error:
            raise InputError(
                f"{path}: not a benchmark file of Snakemake ({error!r}). Delete it; it comes back "
                "when its job runs again"
            ) from error
        yield {
            "path": place.as_posix(),
            "rule": rule,
            "model": took.model if took else "",
            "seconds": seconds,
            "cpu_s": took.cpu_s if took else cpu,
            "max_rss_mb": max(took.peak_mib, seen or 0) if took else seen,
            "asked_mb": took and took.asked_mib,
            "asked_minutes": took and took.asked_minutes,
            "input_mb": took and took.input_mb,
            "threads": took and took.threads,
            **encoded,
        }


def _took(told: str) -> Took | None:
    """Return what a job says last in its log that it took; None where it does not, or wrongly."""
    found = _TOOK.findall(told)
    try:
        return Took.model_validate_json(found[-1]) if found else None
    except ValidationError:  # a line cut or mixed with another's
        return None


def _encoded(told: str, log: Path) -> dict[str, float]:
    """Sum tokens, computed tokens and seconds of the encodings that a log tells of."""
    total = {"tokens": 0, "padded_tokens": 0, "encode_s": 0.0}
    for one in _STATS.findall(told):
        try:
            stats = parse_json(one, where=str(log))
            own = int(stats.get("tokens", 0)), int(stats.get("padded_tokens", 0))
            added = dict(zip(total, (*own, float(stats.get("seconds", 0))), strict=True))
        except (ValueError, TypeError, OverflowError):
            continue  # a line cut or mixed with another's
        total = {name: total[name] + value for name, value in added.items()}
    return total


def _number(text: Any) -> float | None:
    if text is None or (isinstance(text, str) and text.strip() in UNKNOWN):
        return None
    return float(text)


def summarise(jobs: pl.DataFrame) -> pl.DataFrame:
    """Sum jobs up by rule and model, those that took longest first, and a last row of all.

    Returns
    -------
    Columns rule, model, jobs, wall_s (sum), median_s, max_s, cpu_s, cores (CPU seconds per second,
    of the jobs measured), cores_asked (mean), max_rss_mb, memory_share and time_share (largest
    share of what a job asked for), input_mb (the largest), tokens, tokens_per_s, padding (share of
    computed tokens that belong to no text). Null where nothing is known.
    """
    by_rule = jobs.group_by("rule", "model", maintain_order=True).agg(_sums())
    by_rule = by_rule.sort("wall_s", "rule", "model", descending=[True, False, False])
    total = jobs.select(_sums()).select(pl.lit(TOTAL).alias("rule"), pl.lit("").alias("model"), "*")
    return pl.concat([by_rule, total])


def _sums() -> list[pl.Expr]:
    measured = pl.col("seconds").filter(pl.col("cpu_s").is_not_null()).sum()
    cpu = pl.when(pl.col("cpu_s").is_not_null().any()).then(pl.col("cpu_s").sum())
    has_tokens = pl.col("padded_tokens").sum() > 0
    return [
        pl.len().cast(pl.Int64).alias("jobs"),
        pl.col("seconds").sum().alias("wall_s"),
        pl.col("seconds").median().alias("median_s"),
        pl.col("seconds").max().alias("max_s"),
        cpu.alias("cpu_s"),
        pl.when(measured > 0).then(pl.col("cpu_s").sum() / measured).alias("cores"),
        pl.col("threads").mean().alias("cores_asked"),
        pl.col("max_rss_mb").max(),
        (pl.col("max_rss_mb") / pl.col("asked_mb")).max().alias("memory_share"),
        (pl.col("seconds") / 60 / pl.col("asked_minutes")).max().alias("time_share"),
        pl.col("input_mb").max(),
        pl.when(has_tokens).then(pl.col("tokens").sum()).alias("tokens"),
        pl.when(has_tokens & (pl.col("encode_s").sum() > 0))
        .then(pl.col("tokens").sum() / pl.col("encode_s").sum())
        .alias("tokens_per_s"),
        pl.when(has_tokens)
        .then(1 - pl.col("tokens").sum() / pl.col("padded_tokens").sum())
        .alias("padding"),
    ]
