"""Tables of the report on generated queries, their filters, and published counts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl

from psibench.filters.audit import AUDIT_TABLE, RATES, wilson_interval
from psibench.filters.margin_counts import CELL_TABLE, MARGIN_TABLE
from psibench.filters.mixtures import RULE_BALANCE
from psibench.filters.negatives import JUDGEMENTS, RULE_JUDGES, RULE_RERANKERS
from psibench.filters.position_shift import position_shift
from psibench.metrics.aggregate import holm
from psibench.report.beside import Reference, beside_panel
from psibench.report.tables import (
    Columns,
    Form,
    Table,
    table_of,
    with_ends,
)
from psibench.report.views import BenchmarkInfo
from psibench.report.wording import count, p_value, percent
from psibench.tables import read_table
from psibench.tables.build_schemas import FLOW, LLM_USAGE
from psibench.tables.domains import by_place
from psibench.tables.schemas import ATTRITION, QUERIES
from psibench.tables.spec import ALL, TableSpec
from psibench.text.segments import POSITIONS

FILTER_TABLES: Mapping[str, tuple[TableSpec, tuple[str, ...]]] = {
    "margin_table": (MARGIN_TABLE, ("condition", "threshold")),
    "cell_table": (CELL_TABLE, ("condition", "threshold", "length_bin")),
    "audit_table": (AUDIT_TABLE, ("stratum", "low", "high")),
    "judgements": (JUDGEMENTS, ()),
}
"""Tables of verification, and their key columns for counts over domains."""

# --- From documents to queries, and requests to language models


def read_generation(
    *,
    flow: Mapping[str, str],
    usage: Mapping[str, str],
    attrition: Mapping[str, str],
) -> dict[str, pl.DataFrame]:
    """Read the ``flow`` and ``usage`` rows of all benchmarks and languages.

    Both begin with benchmark, language and domain (``all``: the sum over domains). FLOW rows get a
    column ``reasons`` with the number of dropped items per reason. The arguments are the paths by
    benchmark.
    """
    flows = _ledger(flow, FLOW, ("stage", "unit"))
    used = _ledger(usage, LLM_USAGE, ("stage", "llm", "model", "backend", "prompt_hash"))
    dropped = pl.concat(
        read_table(path, ATTRITION).select(pl.lit(name).alias("benchmark"), pl.all())
        for name, path in attrition.items()
    )
    keys = ["benchmark", "language", "stage", "unit"]
    counted = dropped.group_by(*keys, "reason", maintain_order=True).len("n")
    reasons = pl.format("{} {}", "reason", pl.col("n").map_elements(count, pl.String))
    by_stage = counted.group_by(keys).agg(reasons=reasons.str.join(", "))
    flows = flows.join(by_stage, on=keys, how="left", maintain_order="left")
    return {"flow": flows, "usage": used}


def _ledger(paths: Mapping[str, str], spec: TableSpec, keys: Sequence[str]) -> pl.DataFrame:
    """Read a ledger table of each benchmark; sum the counts over the domains of a language."""
    every = pl.concat(
        read_table(path, by_place(spec)).select(pl.lit(benchmark).alias("benchmark"), pl.all())
        for benchmark, path in paths.items()
    )
    place = ["benchmark", "language"]
    several, domain = pl.col("domain").n_unique() > 1, pl.col("domain").first()
    named = pl.when(several).then(pl.lit(ALL)).otherwise(domain).over(place)
    return _pooled(every.with_columns(domain=named), (*place, "domain", *keys))


def _of_language(paths: Sequence[str], spec: TableSpec, language: str) -> pl.DataFrame:
    """Read tables of one spec, and return the rows of a language over its domains."""
    rows = pl.concat((read_table(path, spec) for path in paths), how="diagonal")
    if "language" in rows.columns:
        rows = rows.filter(language=language)
    return rows.select(spec.column_names)


def _pooled(rows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Sum the counts of rows with equal keys; without keys return the rows unchanged.

    Rates of an audit are weighted by their queries, and their intervals are computed again.
    """
    if not keys:
        return rows
    n, rates = pl.col("n"), [name for name in RATES if name in rows.columns]
    ends = [f"{rate}_{end}" for rate in rates for end in ("low", "high")]
    added = rows.group_by(keys, maintain_order=True).agg(
        pl.col("^step$").min(),
        *((pl.col(rate) * n).sum() / n.sum() for rate in rates),
        pl.exclude("step", *keys, *rates, *ends).sum(),
    )
    for rate in rates:
        sizes = zip(added[rate], added["n"], strict=True)
        both = [wilson_interval(share, size) if size else (None, None) for share, size in sizes]
        names = (f"{rate}_low", f"{rate}_high")
        added = added.hstack(pl.DataFrame(both, dict.fromkeys(names, pl.Float64), orient="row"))
    return added.select(rows.columns).fill_nan(None)


def generation_tables(made: Mapping[str, pl.DataFrame], benchmark: str) -> list[Table]:
    """Return a benchmark's tables of items by stage, and of requests to language models."""
    tables = []
    place = ("language", "domain", "stage")
    if "flow" in made and (flow := made["flow"].filter(benchmark=benchmark)).height:
        names = (*place, "unit", "entered", "kept", "dropped", "reasons")
        items = flow.select(names).rename({"unit": "items"})
        tables.append(table_of("From documents to queries", items, prose=(2, 3, 7)))
    if "usage" in made and (usage := made["usage"].filter(benchmark=benchmark)).height:
        shown: Columns = {name: name for name in (*place, "model", "backend")}
        shown |= {"items": "n_items", "with a value": "n_ok", "requests": "n_requests"}
        shown |= {"input tokens": "input_tokens", "output tokens": "output_tokens"}
        tables.append(table_of("Requests to the language model", usage, shown, prose=(2, 3, 4)))
    return tables


# --- Verification

FilterFacts = Mapping[str, Any]
"""Values by name for one language of a benchmark with verified candidates: ``benchmark``,
``language``, ``domain``, ``flow``, ``shift`` (POSITION_SHIFT rows), and tables of
`FILTER_TABLES`."""


def read_verification(
    files: Sequence[Mapping[str, Any]], *, flow: pl.DataFrame, attrition: Mapping[str, str]
) -> list[FilterFacts]:
    """Read the tables of verification, per benchmark and language.

    Parameters
    ----------
    files
        One mapping per language of a generated benchmark, from
        `psibench.plan.summaries.verification_files`: ``benchmark``, ``lang``, ``domains``, and
        lists of paths for ``queries`` (of the benchmark, not of a view) and tables of
        `FILTER_TABLES`.
    flow, attrition
        As in `read_generation`; other benchmarks are left out.

    Raises
    ------
    InputError
        If a table cannot be read, or the counts of ledger and queries disagree.
    """
    found: list[FilterFacts] = []
    for one in files:
        name, language, domains = one["benchmark"], one["lang"], one["domains"]
        if name not in attrition:
            continue
        steps = flow.filter(benchmark=name, language=language).select(FLOW.column_names)
        dropped = read_table(attrition[name], ATTRITION).filter(language=language)
        facts: dict[str, Any] = {"benchmark": name, "language": language, "flow": steps}
        facts["domain"] = domains[0] if len(domains) == 1 else ALL
        for table, (spec, keys) in FILTER_TABLES.items():
            if table in one:
                facts[table] = _pooled(_of_language(one[table], spec, language), keys)
        queries = _of_language(one["queries"], QUERIES, language)
        found.append(facts | {"shift": position_shift(steps, dropped, queries)})
    return found


def verification_tables(
    facts: Sequence[FilterFacts], info: BenchmarkInfo, references: Sequence[Reference] = ()
) -> list[Table]:
    """Return a benchmark's tables of verification in page order."""
    mine = [fact for fact in facts if fact["benchmark"] == info.id]
    found = []
    for fact in mine:
        where = f" · {fact['language']} · {fact['domain']}" if len(mine) > 1 else ""
        found += [replace(one, name=one.name + where) for one in _tables(fact, info, references)]
    return found


def _tables(
    fact: FilterFacts, info: BenchmarkInfo, references: Sequence[Reference]
) -> Iterator[Table]:
    stages, margins, cells, audits = (
        beside_panel(references, panel, info.recipe)
        for panel in ("stages", "margins", "cells", "audit")
    )
    if stages:
        yield stage_table(fact, stages)
    yield from shift_page_tables(fact["shift"])
    if "margin_table" in fact:
        yield margin_table(fact["margin_table"], margins)
    if "cell_table" in fact:
        cut, unit = info.margin_threshold, info.length_unit
        yield from cell_table(fact["cell_table"], cells, threshold=cut, unit=unit)
    if "audit_table" in fact:
        yield audit_page_table(fact["audit_table"], audits)


# --- Counts compared with published counts


def _beside(
    title: str,
    ours: pl.DataFrame,
    references: Sequence[Reference],
    on: Sequence[str],
    cells: Callable[[str], Columns],
    *,
    our_cells: Columns | None = None,
    start: str = "ours",
) -> Table:
    """Return a table of a run's rows joined with the rows of references.

    ``cells`` returns the columns of one side, whose names begin with its argument; ``our_cells``
    replace them for the run. ``start``: the side that decides the rows, ours or theirs.
    """
    rows, sides = ours, {"this run": our_cells or cells("")}
    how: Any = {"ours": "left", "theirs": "right"}[start]
    for printed in (one.printed for one in references):
        side = f"{printed.source}: "
        theirs = printed.rows.select(*on, pl.exclude(on).name.prefix(side))
        rows = rows.join(theirs, on=on, how=how, maintain_order="left_right", nulls_equal=True)
        sides[f"published: {printed.source}"] = cells(side)
    shown: Columns = {name: name for name in on}
    shown |= {
        f"{side}|{name}": cell for side, found in sides.items() for name, cell in found.items()
    }
    return table_of(title, rows, shown, n_names=len(on))


def _kept(side: str, share: pl.Expr) -> Columns:
    """Return columns of kept items with their share, and per position with the share of all."""
    total = pl.sum_horizontal(f"{side}n_{p}" for p in POSITIONS)
    cells: Columns = {"kept": pl.struct(f"{side}n", share=share)}
    positions = {p: pl.col(f"{side}n_{p}") for p in POSITIONS}
    return cells | {
        p: pl.when(n.is_not_null()).then(pl.struct(n, share=n / total))
        for p, n in positions.items()
    }


def stage_table(fact: FilterFacts, references: Sequence[Reference]) -> Table:
    """Return the stages in the references, with the run's counts of the same stages."""
    ours = fact["flow"].select("stage", "unit", n="kept")
    if "judgements" in fact:
        pairs = fact["judgements"].select("query_id", "doc_id", "is_false_negative").unique()
        n_pairs = [pairs.height, pairs["is_false_negative"].sum()]
        more = {"stage": [RULE_RERANKERS, RULE_JUDGES], "unit": ["pairs"] * 2, "n": n_pairs}
        ours = pl.concat([ours, pl.DataFrame(more, schema=ours.schema)])
    shift = fact["shift"].filter(pl.col("target_position") != "all")
    placed = shift.select("stage", "unit", "n_kept", name=pl.format("n_{}", "target_position"))
    wide = placed.pivot(
        "name", on_columns=[f"n_{p}" for p in POSITIONS], index=["stage", "unit"], values="n_kept"
    )
    ours = ours.join(wide, on=["stage", "unit"], how="left")
    none = pl.lit(None, pl.Float64)
    return _beside(
        "Stages and published counts",
        ours,
        references,
        ("stage", "unit"),
        lambda side: _kept(side, none),
        start="theirs",
    )


def margin_table(table: pl.DataFrame, references: Sequence[Reference] = ()) -> Table:
    """Return kept queries by threshold and position, like Controlled's Table 6.

    ``table`` has MARGIN_TABLE rows. The lowest threshold decides which queries failed.
    """

    def cells(side: str) -> Columns:
        return _kept(side, pl.col(f"{side}n") / pl.col(f"{side}n").first())

    shown = table.filter((pl.col("condition") != "no_margin") | (pl.col("n") > 0))
    lowest = pl.col("threshold").min()
    other = pl.when(lowest == 0).then(pl.lit("failed")).otherwise(pl.format("failed: m<{}", lowest))
    failed = pl.col("condition") == "failed"
    shown = shown.with_columns(condition=pl.when(failed).then(other).otherwise("condition"))
    return _beside(
        "Margin: queries kept by threshold",
        shown,
        references,
        ("condition",),
        cells,
    )


def cell_table(
    table: pl.DataFrame,
    references: Sequence[Reference] = (),
    *,
    threshold: float | None,
    unit: str,
) -> list[Table]:
    """Return the pool of one threshold by length bin and position, like Controlled's Table 8.

    ``table`` has CELL_TABLE rows; without a pool the result is empty. ``threshold`` is the run's
    threshold; None, or a threshold that the table lacks, selects the highest. ``unit`` is the unit
    of the bins.
    """
    pools = table.filter(pl.col("threshold").is_not_null())
    if pools.is_empty():
        return []
    known = pools["threshold"].unique().sort().to_list()
    mine = pools.filter(threshold=threshold if threshold in known else known[-1])
    is_all = pl.col("length_bin") == "all"
    smallest = pl.min_horizontal(f"n_{p}" for p in POSITIONS).filter(~is_all).min()
    mine = mine.with_columns(
        unit=pl.lit(unit), budget=smallest * pl.when(is_all).then(pl.len() - 1).otherwise(1)
    )

    def cells(side: str) -> Columns:
        return {**{p: f"{side}n_{p}" for p in POSITIONS}, "budget": f"{side}budget"}

    title = "Queries kept by length and position"
    on = ("length_bin", "unit", "threshold")
    return [_beside(title, mine, references, on, cells)]


def audit_page_table(table: pl.DataFrame, references: Sequence[Reference] = ()) -> Table:
    """Return the audit by stratum of the margin, like Controlled's Table 7.

    ``table`` has AUDIT_TABLE rows. The stratum without a margin is left out if it is empty.
    """
    ours: Columns = {"queries": "n", "not usable": "n_unusable"}
    ours |= {name.replace("_", " "): with_ends(name) for name in RATES}
    is_empty = (pl.col("stratum") == "no_margin") & (pl.col("n") + pl.col("n_unusable") == 0)
    return _beside(
        "Audit of the margin by a language model",
        table.filter(~is_empty),
        references,
        ("stratum",),
        lambda side: {name.replace("_", " "): f"{side}{name}" for name in RATES},
        our_cells=ours,
    )


# --- Shifts of evidence positions by filters

SHIFT_TITLE = "Do the filters shift the position of the evidence?"


def shift_page_tables(shift: pl.DataFrame) -> list[Table]:
    """Return the share of each position before and after every stage, and its test.

    ``shift`` has POSITION_SHIFT rows. The result is empty if no stage has items with a position.
    """
    wide = shift.pivot(
        "target_position",
        on_columns=POSITIONS,
        index=["step", "stage", "shift", "p_value", "min_expected"],
        values=["share_of_entered", "share_of_kept"],
    )
    whole = shift.filter(target_position="all").select("step", "n_entered", "n_kept")
    stages = wide.join(whole, on="step").sort("step")
    stages = stages.drop_nulls([f"share_of_entered_{p}" for p in POSITIONS])
    if stages.is_empty():
        return []
    tested = stages["p_value"].is_not_null() & (stages["stage"] != RULE_BALANCE)
    steps = stages.filter(tested)
    adjusted = steps.select("step", p=pl.Series(holm(steps["p_value"].to_numpy())))
    stages = stages.join(adjusted, on="step", how="left", maintain_order="left")
    shown: Columns = {"stage": "stage"}
    for side, items in (("before", "entered"), ("after", "kept")):
        shown[f"{side}|items"] = f"n_{items}"
        shown |= {f"{side}|{p}": f"share_of_{items}_{p}" for p in POSITIONS}
    shown |= {"shift": "shift", "p, adjusted": "p", "fewest expected": "min_expected"}
    share = partial(percent, decimals=2)
    forms: dict[str, Form] = {name: share for name in shown if "|" in name and "items" not in name}
    forms |= {"shift": share, "p, adjusted": p_value, "fewest expected": "{:,.1f}".format}
    return [table_of(SHIFT_TITLE, stages, shown, forms=forms, n_names=1)]
