"""Stage ``ledger``: joins the dropped items of all steps and checks them against the counts."""

import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl

from psibench.errors import InputError
from psibench.tables import write_table
from psibench.tables.build_schemas import FLOW, LLM_USAGE
from psibench.tables.derived import derived
from psibench.tables.domains import DOMAIN, LANGUAGE, by_place
from psibench.tables.dropped import OnEmpty, steps_text
from psibench.tables.job import DomainJob, Job
from psibench.tables.remedies import remedy_for
from psibench.tables.schemas import ATTRITION, DOCUMENTS, QUERIES
from psibench.tables.spec import ALL
from psibench.tables.stage import stage

logger = logging.getLogger("psibench")

KINDS = ("documents", "dropped", "flow", "usage", "queries")
"""Tables of each part of a language; see `run_ledger`."""
COUNTED = ["stage", "unit"]
"""Columns that join a dropped item with its count in FLOW."""


@stage("ledger", version=2)
def run_ledger(job: Job) -> None:
    """Join dropped items, counts and usage of all steps to a benchmark and check that they agree.

    ``places`` are the parts of its languages in order. Each has ``lang``, ``domains``, and lists of
    tables of these domains, which may be empty: ``documents`` (DOCUMENTS of the sample, from which
    items take their ``length_bin``), ``dropped`` (ATTRITION), ``flow`` (FLOW) and ``usage``
    (LLM_USAGE) of the steps, and the benchmark's ``queries``.

    Raises
    ------
    AssertionError
        If the ledger does not balance (see `check_balance`).
    InputError
        If a table cannot be read, two steps count the same stage and unit, no domain of any
        language has a query left, or one has none and ``on_empty`` is fail.
    """
    specs = {"flow": by_place(FLOW), "usage": by_place(LLM_USAGE)}
    every = {"dropped": [ATTRITION.empty()]} | {n: [spec.empty()] for n, spec in specs.items()}
    n_queries: dict[tuple[str, str], int] = {}
    for place in job.value("places"):
        for domain in _of_place(job, place).domains():
            for name, frame in _of_domain(domain).items():
                every[name].append(frame)
            if place["queries"]:
                n_queries[domain.language, domain.name] = _n_queries(domain)
    left_out, counts = pl.concat(every["dropped"], how="diagonal"), pl.concat(every["flow"])
    _check_queries(n_queries, counts, left_out, job.value("on_empty", OnEmpty, default="drop"))
    read = [*job.paths("documents"), *job.paths("dropped")]
    job.write("attrition", left_out, ATTRITION, inputs=read, params={})
    job.write("flow", counts, specs["flow"], inputs=job.paths("flows"), params={})
    used = pl.concat(every["usage"])
    job.write("usage", used, specs["usage"], inputs=job.paths("usages"), params={})


def _of_place(job: Job, place: Mapping[str, Any]) -> Job:
    """Return the job of a place."""
    inputs = {kind: place[kind] for kind in KINDS}
    return replace(job, inputs=inputs, values={name: place[name] for name in ("lang", "domains")})


def _of_domain(domain: DomainJob) -> dict[str, pl.DataFrame]:
    """Stack dropped items, counts and usage of a domain's steps, and check them."""
    left_out = domain.read("dropped", ATTRITION)
    if domain.job.has("documents"):
        left_out = with_length_bins(left_out, domain.read("documents", DOCUMENTS))
    counts = _summed(domain.read("flow", FLOW), ["stage", "step", "unit"])
    counts = counts.sort("step", maintain_order=True)
    check_balance(left_out, counts)
    place = {LANGUAGE.name: domain.language, DOMAIN.name: domain.name}
    labels = (*(pl.lit(label).alias(name) for name, label in place.items()), pl.all())
    names = ["stage", "llm", "model", "backend", "prompt_hash"]
    used = _summed(domain.read("usage", LLM_USAGE), names)
    return {"dropped": left_out, "flow": counts.select(labels), "usage": used.select(labels)}


def _summed(counts: pl.DataFrame, names: list[str]) -> pl.DataFrame:
    """Add up the counts of a task's shards, in the order of the steps."""
    summed = counts.group_by(names, maintain_order=True).agg(pl.exclude(names).sum())
    return summed.select(counts.columns)


def _n_queries(domain: DomainJob) -> int:
    return domain.columns("queries", QUERIES, ("_id",)).height


def with_length_bins(dropped: pl.DataFrame, documents: pl.DataFrame) -> pl.DataFrame:
    """Add the length bin of its document to every dropped item.

    It is null if the sample has no bins. An item whose document is not in the sample (the source or
    the cutting into passages dropped it) keeps its own bin, which only duplicates have.
    """
    if "length_bin" not in documents.columns:
        return dropped.with_columns(length_bin=pl.lit(None, pl.String))
    bins = documents.select(doc_id="_id", sampled_bin="length_bin")
    joined = dropped.join(bins, on="doc_id", how="left", maintain_order="left")
    both = pl.coalesce("sampled_bin", "length_bin").alias("length_bin")
    return joined.with_columns(both).drop("sampled_bin")


def check_balance(dropped: pl.DataFrame, flow: pl.DataFrame) -> None:
    """Check that every dropped item is counted once: entered = kept + dropped at every stage.

    Stages without counts (sources, cutting into passages) may drop any number of items, each once.

    Parameters
    ----------
    dropped
        ``stage, unit, item_id`` of the items dropped.
    flow
        FLOW rows.

    Raises
    ------
    AssertionError
        If a stage drops an item twice; if entered is not kept + dropped in a row of ``flow``; or
        if a stage that counts has another number of dropped items of a unit than it counted.
    """
    repeated = dropped.group_by(*COUNTED, "item_id", maintain_order=True).len("n")
    for name, unit, item_id, n in repeated.filter(pl.col("n") > 1).head(1).iter_rows():
        raise AssertionError(f"stage {name}, {unit}: item {item_id} is dropped {n} times")
    counting = dropped.join(flow, on="stage", how="semi", maintain_order="left")
    found = counting.group_by(COUNTED, maintain_order=True).len("found")
    numbers = ("entered", "kept", "dropped", "found")
    joined = flow.join(found, on=COUNTED, how="full", coalesce=True, maintain_order="left_right")
    joined = joined.with_columns(pl.col(numbers).fill_null(0))
    for name, unit, n_entered, n_kept, n_dropped, n_found in joined.select(
        *COUNTED, *numbers
    ).iter_rows():
        if n_entered != n_kept + n_dropped:
            raise AssertionError(
                f"stage {name}, {unit}: {n_entered} entered, but {n_kept} kept and {n_dropped} "
                f"dropped make {n_kept + n_dropped}"
            )
        if n_found != n_dropped:
            raise AssertionError(
                f"stage {name}, {unit}: {n_dropped} counted as dropped, but {n_found} rows"
            )


def _check_queries(
    n_queries: Mapping[tuple[str, str], int],
    flow: pl.DataFrame,
    dropped: pl.DataFrame,
    on_empty: OnEmpty,
) -> None:
    empty = [cell for cell, n in n_queries.items() if not n]
    lines = [f"{', '.join(cell)}: {why_empty(flow, dropped, *cell)}" for cell in empty]
    is_all = len(empty) == len(n_queries)
    if empty and (is_all or on_empty == "fail"):
        which = "any domain" if is_all else "some domains (on_empty: fail)"
        listed = "\n".join(f"  {line}" for line in lines)
        raise InputError(f"no query is left in {which}; entered -> kept of each step:\n{listed}")
    for line in lines:
        logger.warning("left out, no query is left: %s", line)


def why_empty(flow: pl.DataFrame, dropped: pl.DataFrame, language: str, domain: str) -> str:
    """Say how a domain came to have no query in a language: entered -> kept of each step.

    ``flow`` has FLOW rows with language and domain in front, ``dropped`` ATTRITION rows. The last
    step listed is the first that kept nothing of what entered, with its reasons.
    """
    place = {"language": language, "domain": domain}
    steps = steps_text(flow.filter(**place), dropped.filter(**place))
    return steps or "made from a domain without queries"


UNFINISHED_MTIME_S = 315_619_200
"""Date of the ledger of a failed run: 2 January 1980, before all inputs, so that it is remade."""


def write_unfinished(folder: Path, places: Iterable[Mapping[str, Any]]) -> bool:
    """Write attrition and flow of a benchmark of which nothing is left; return whether it did.

    A failed run calls it: the run has no ledger if a step refused to go on without queries. Uses
    the tables that exist of those in ``places`` (as for `run_ledger`), and writes nothing if a
    ledger exists or a domain may still have queries. Both files have an old date
    (`UNFINISHED_MTIME_S`), so that the next run makes the ledger from all steps.
    """
    specs = {"attrition": ATTRITION, "flow": by_place(FLOW)}
    paths = {name: folder / f"{name}.parquet" for name in specs}
    found = {"dropped": [ATTRITION.empty()], "flow": [specs["flow"].empty()]}
    if any(path.exists() and not is_unfinished(path) for path in paths.values()):
        return False
    inputs: list[str] = []
    for place in places:
        there = {
            kind: [path for path in place[kind] if Path(path).exists()]
            for kind in ("documents", "dropped", "flow")
        }
        values = {name: place[name] for name in ("lang", "domains")}
        for domain in Job("ledger", 0, inputs=there, values=values).domains():
            rows = domain.read("dropped", ATTRITION)
            if there["documents"]:
                rows = with_length_bins(rows, domain.read("documents", DOCUMENTS))
            counts = _summed(domain.read("flow", FLOW), ["stage", "step", "unit"])
            counts = counts.sort("step", maintain_order=True)
            if place["queries"] and counts.height and not _is_emptied(counts):
                return False
            labels = (
                pl.lit(domain.language).alias(LANGUAGE.name),
                pl.lit(domain.name).alias(DOMAIN.name),
            )
            found["dropped"].append(rows)
            found["flow"].append(counts.select(*labels, pl.all()))
        inputs += [*there["dropped"], *there["flow"]]
    if not inputs:
        return False
    frames = dict(zip(specs, found.values(), strict=True))
    for name, spec in specs.items():
        provenance = derived("ledger", inputs, params={})
        write_table(
            pl.concat(frames[name], how="diagonal"), paths[name], spec, provenance=provenance
        )
        os.utime(paths[name], (UNFINISHED_MTIME_S, UNFINISHED_MTIME_S))
    return True


def is_unfinished(path: Path) -> bool:
    """Return whether `write_unfinished` wrote a table."""
    return path.stat().st_mtime == UNFINISHED_MTIME_S


def _is_emptied(flow: pl.DataFrame) -> bool:
    return not flow.filter(pl.col("entered") > 0, kept=0).is_empty()


MOST_STEPS = 2
_NOT_ITEMS = ("pairs", "suspects")
"""Units of judgements, which are not items of the benchmark."""


def most_lost(flow: pl.DataFrame, dropped: pl.DataFrame, *, language: str) -> list[str]:
    """Describe the two steps that dropped most items of a language, and what to try.

    ``flow`` has FLOW rows with language and domain in front, ``dropped`` ATTRITION rows.
    """
    counts = flow.filter(~pl.col("unit").is_in(_NOT_ITEMS), language=language)
    summed = counts.group_by("stage", "step", "unit", maintain_order=True).agg(
        pl.col("entered", "dropped").sum()
    )
    # The largest share first: units differ in size.
    share = pl.col("dropped") / pl.col("entered").clip(lower_bound=1)
    lost = summed.filter(pl.col("dropped") > 0).sort(share, descending=True, maintain_order=True)
    lines = []
    for row in lost.head(MOST_STEPS).iter_rows(named=True):
        rows = dropped.filter(language=language, stage=row["stage"], unit=row["unit"])
        reasons = rows["reason"].value_counts(sort=True).rows()
        named = ", ".join(f"{reason} {n:,}" for reason, n in reasons[:3])
        remedy = next((text for reason, _ in reasons if (text := remedy_for(reason))), None)
        counts_text = f"{row['dropped']:,} of {row['entered']:,} {row['unit']}"
        line = f"{row['stage']} dropped {counts_text} ({named})"
        lines.append(line + (f". To keep more: {remedy}" if remedy else ""))
    return lines


def uneven_cells(
    statistics: pl.DataFrame, flow: pl.DataFrame, dropped: pl.DataFrame
) -> pl.DataFrame:
    """List the languages and domains of a benchmark without queries, and why they have none.

    A domain may be missing in a language. Rows over all domains and averages over languages leave
    these cells out.

    Parameters
    ----------
    statistics, flow, dropped
        STATISTICS; FLOW with language and domain in front; ATTRITION.

    Returns
    -------
    Strings language, domain and why; no rows if every language has queries in every domain.
    """
    counted = statistics.filter(pl.col("statistic") == "n_queries", pl.col("domain") != ALL)
    n_queries = dict(
        zip(counted.select("language", "domain").iter_rows(), counted["value"], strict=True)
    )
    languages, domains = (
        counted[name].unique(maintain_order=True) for name in ("language", "domain")
    )
    rows = [
        (*cell, why_empty(flow, dropped, *cell) if cell in n_queries else "not in this language")
        for cell in product(languages, domains)
        if not n_queries.get(cell)
    ]
    return pl.DataFrame(rows, dict.fromkeys(("language", "domain", "why"), pl.String), orient="row")
