"""How generated queries came about and what the filters left of them, beside published counts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl

from psibench.errors import InputError
from psibench.filters.audit import AUDIT_TABLE, RATES, wilson_interval
from psibench.filters.margin_counts import CELL_TABLE, MARGIN_TABLE
from psibench.filters.mixtures import RULE_BALANCE
from psibench.filters.negatives import JUDGEMENTS, RULE_JUDGES, RULE_RERANKERS
from psibench.filters.study import POSITION_SHIFT, position_shift
from psibench.llm.sections import Price, price_of
from psibench.llm.usage import Usage
from psibench.metrics.aggregate import holm
from psibench.report.plots import draw_stacks
from psibench.report.published import read_published
from psibench.report.tables import (
    Block,
    Columns,
    Form,
    Table,
    figure_of,
    table_of,
    with_ends,
)
from psibench.report.views import BenchmarkInfo, Row, headlines, main_scheme
from psibench.report.wording import count, p_value, percent
from psibench.tables import read_table
from psibench.tables.build_schemas import FLOW, LLM_USAGE
from psibench.tables.domains import by_place, with_labels
from psibench.tables.schemas import ATTRITION, QUERIES
from psibench.tables.spec import POOLED, TableSpec
from psibench.text.segments import POSITIONS

# --- from documents to queries, and what a language model took for it

COUNTED = {
    "flow": ("stage", "unit"),
    "llm_usage": ("stage", "llm", "model", "backend", "prompt_hash"),
    "margin_table": ("condition", "threshold"),
    "cell_table": ("condition", "threshold", "length_bin"),
}
"""Tables whose counts are added up over domains: the columns that name what is counted."""


def read_generation(
    *,
    flow: Mapping[str, str],
    usage: Mapping[str, str],
    attrition: Mapping[str, str],
    prices: Mapping[str, Any],
) -> dict[str, pl.DataFrame]:
    """Read how queries came about: ``flow`` and ``usage`` rows of all benchmarks and languages.

    Both have benchmark, language and domain in front (`all`: its domains' counts added up). FLOW
    rows get ``reasons``, what was dropped for each; LLM_USAGE rows ``usd`` and ``estimated_usd``
    at the config's prices, null without one, and ``price_as_of``.

    Parameters
    ----------
    flow, usage, attrition
        Each benchmark's ledger.
    prices
        A price table as plain data.
    """
    flows, used = _ledger(flow, FLOW, "flow"), _ledger(usage, LLM_USAGE, "llm_usage")
    dropped = pl.concat(
        read_table(path, ATTRITION).select(pl.lit(name).alias("benchmark"), pl.all())
        for name, path in attrition.items()
    )
    keys = ["benchmark", "language", "stage", "unit"]
    counted = dropped.group_by(*keys, "reason", maintain_order=True).len("n")
    reasons = pl.format("{} {}", "reason", pl.col("n").map_elements(count, pl.String))
    by_stage = counted.group_by(keys).agg(reasons=reasons.str.join(", "))
    flows = flows.join(by_stage, on=keys, how="left", maintain_order="left")
    table = {name: Price.model_validate(entry) for name, entry in prices.items()}
    schema = {"usd": pl.Float64, "estimated_usd": pl.Float64, "price_as_of": pl.String}
    money = pl.DataFrame([_money(row, table) for row in used.to_dicts()], schema=schema)
    return {"flow": flows, "usage": pl.concat([used, money], how="horizontal")}


def _ledger(paths: Mapping[str, str], spec: TableSpec, name: str) -> pl.DataFrame:
    """Read a table of each benchmark's ledger, the counts of a language's domains added up."""
    every = pl.concat(
        read_table(path, by_place(spec)).select(pl.lit(benchmark).alias("benchmark"), pl.all())
        for benchmark, path in paths.items()
    )
    place, keys = ["benchmark", "language"], COUNTED[name]
    several, domain = pl.col("domain").n_unique() > 1, pl.col("domain").first()
    named = pl.when(several).then(pl.lit(POOLED)).otherwise(domain).over(place)
    return _added(every.with_columns(domain=named), (*place, "domain", *keys))


def _added(rows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Add up the counts of rows that are alike in columns."""
    step = pl.col("^step$").min()
    added = rows.group_by(keys, maintain_order=True).agg(step, pl.exclude("step", *keys).sum())
    return added.select(rows.columns)


def _of_language(given: Any, spec: TableSpec, language: str) -> pl.DataFrame:
    """Read one table, a list of them, or one by each domain; of one language, over its domains."""
    paths = [given] if isinstance(given, str) else given
    found = dict.fromkeys(paths.values() if isinstance(paths, Mapping) else paths)
    frames = [
        read_table(path, with_labels(spec, list(pl.read_parquet_schema(path)))) for path in found
    ]
    rows = pl.concat(frames, how="diagonal")
    if "language" in rows.columns:
        rows = rows.filter(language=language)
    return rows.select(spec.column_names)


def _pooled(name: str, rows: pl.DataFrame) -> pl.DataFrame:
    """Add up the counts of several domains; tables without `COUNTED` keys are stacked.

    What follows from counts (shares, budgets) is worked out where it is shown.
    """
    keys = COUNTED.get(name, ("stratum",))
    if name == "judgements" or not rows.select(keys).is_duplicated().any():
        return rows
    return _pooled_audit(rows) if name == "audit_table" else _added(rows, keys)


def _pooled_audit(stacked: pl.DataFrame) -> pl.DataFrame:
    """Add up AUDIT_TABLE rows of the same stratum; rates are weighted by their queries."""
    rates = [((pl.col(rate) * pl.col("n")).sum() / pl.col("n").sum()).alias(rate) for rate in RATES]
    grouped = stacked.group_by("stratum", "low", "high", maintain_order=True)
    rows = grouped.agg(pl.col("n", "n_unusable").sum(), *rates).fill_nan(None).to_dicts()
    for row in rows:
        for rate in RATES:
            ends = (None, None) if row[rate] is None else wilson_interval(row[rate], row["n"])
            row |= dict(zip((f"{rate}_low", f"{rate}_high"), ends, strict=True))
    return pl.DataFrame(rows, schema=stacked.schema)


def _money(row: Row, prices: Mapping[str, Price]) -> dict[str, Any]:
    """Return what a task cost and was estimated to cost; nothing without a price."""
    try:
        price = price_of(row["model"], prices)
    except InputError:
        return {"usd": None, "estimated_usd": None, "price_as_of": "no price"}
    is_batch = row["backend"] == "openai-batch"
    used = Usage(row["input_tokens"], row["output_tokens"], row["cached_input_tokens"])
    expected = Usage(row["estimated_input_tokens"], row["estimated_output_tokens"])
    return {
        "usd": price.cost(used, is_batch=is_batch),
        "estimated_usd": price.cost(expected, is_batch=is_batch),
        "price_as_of": price.as_of.isoformat(),
    }


def generation_tables(made: Mapping[str, pl.DataFrame], benchmark: str) -> list[Table]:
    """Return a benchmark's tables: items by stage; if any were made, requests and their cost."""
    tables = []
    place = ("language", "domain", "stage")
    if "flow" in made and (flow := made["flow"].filter(benchmark=benchmark)).height:
        names = (*place, "unit", "entered", "kept", "dropped", "reasons")
        shown = flow.select(names).rename({"unit": "items"})
        tables.append(table_of("From documents to queries", shown))
    if "usage" in made and (usage := made["usage"].filter(benchmark=benchmark)).height:
        where: Columns = {name: name for name in place}
        asked: Columns = {"model": "model", "backend": "backend", "items": "n_items"}
        asked |= {"with a value": "n_ok", "requests": "n_requests"}
        tables.append(table_of("Requests to the language model", usage, where | asked))
        cost: Columns = {
            f"{side} tokens, {name}": f"{how}{side}_tokens"
            for side in ("input", "output")
            for how, name in (("estimated_", "estimate"), ("", "actual"))
        }
        cost |= {"USD, estimate": "estimated_usd", "USD, actual": "usd", "prices of": "price_as_of"}
        forms = dict.fromkeys(("USD, estimate", "USD, actual"), _usd)
        title = "Tokens and money: estimate and actual"
        tables.append(table_of(title, usage, where | cost, forms=forms))
    return tables


def _usd(value: float) -> str:
    return f"{value:,.2f}" if value >= 1 or value == 0 else f"{value:.4f}"


# --- verification: its tables, read and put together

TABLES: Mapping[str, TableSpec] = {
    "flow": FLOW,
    "margin_table": MARGIN_TABLE,
    "cell_table": CELL_TABLE,
    "audit_table": AUDIT_TABLE,
    "judgements": JUDGEMENTS,
}
KEYS = ("benchmark", "lang", "domains", *TABLES, "dropped", "queries")
Facts = Mapping[str, Any]
"""One language of one benchmark whose candidates were verified: its benchmark, language and domain,
those of `TABLES` that it has, and ``shift``, POSITION_SHIFT rows, by name."""


def read_verification(files: Sequence[Mapping[str, Any]]) -> list[Facts]:
    """Read what verification left of the candidates, language by language.

    ``files`` are plain data, one mapping per language of a generated benchmark, as
    `psibench.plan.summaries.verification_files` gives them: ``benchmark``, ``lang`` and ``domains``
    name it; the other keys, all optional, are those of `KEYS`, each with the path of a table of
    all domains or a list of one path of each. Positions by stage need ``flow``, ``dropped`` and
    ``queries`` (of the benchmark, not of a view).

    Raises
    ------
    InputError
        If a table cannot be read, or ledger and queries do not add up.
    """
    found: list[Facts] = []
    for one in files:
        domains, language = one["domains"], one["lang"]
        facts: dict[str, Any] = {"benchmark": one["benchmark"], "language": language}
        facts["domain"] = domains[0] if len(domains) == 1 else POOLED
        for name, spec in TABLES.items():
            if one.get(name):
                facts[name] = _pooled(name, _of_language(one[name], spec, language))
        if "flow" in facts and one.get("dropped") and one.get("queries"):
            dropped, asked = (
                _of_language(one[name], spec, language)
                for name, spec in (("dropped", ATTRITION), ("queries", QUERIES))
            )
            facts["shift"] = position_shift(facts["flow"], dropped, asked)
        found.append(facts)
    return found


def verification_blocks(facts: Sequence[Facts], info: BenchmarkInfo) -> list[Block]:
    """Return a benchmark's blocks of verification, in page order; none without facts."""
    mine = [fact for fact in facts if fact["benchmark"] == info.id]
    blocks: list[Block] = []
    for fact in mine:
        where = f" · {fact['language']} · {fact['domain']}" if len(mine) > 1 else ""
        for block in _blocks(fact, info):
            key = "name" if isinstance(block, Table) else "title"
            blocks.append(replace(block, **{key: getattr(block, key) + where}))
    return blocks


def _blocks(fact: Facts, info: BenchmarkInfo) -> Iterator[Block]:
    if "flow" in fact and info.recipe == "fineweb_posq":
        yield stage_table(fact)
    if "shift" in fact:
        yield from shift_blocks(fact["shift"])
    if "margin_table" in fact:
        yield margin_table(fact["margin_table"])
    if "cell_table" in fact:
        cut, unit = info.margin_threshold, info.length_unit
        yield from cell_table(fact["cell_table"], threshold=cut, unit=unit)
    if "audit_table" in fact:
        yield audit_table(fact["audit_table"])


# --- a benchmark beside its views: before false negatives were removed, and a tiny subset

NEGATIVES_STAGES = ("false_negatives", "above_positive")
CLEAN_NOTE = (
    "Raw: before documents that answer a query and are not its positive were dealt with. Clean: "
    "after. Raw holds the queries that were then removed, too."
)
TINY_NOTE = (
    "Tiny: the subset drawn for slow models, over the same documents. Its intervals are wider; if "
    "the order of the models agrees, the subset is enough for a first look."
)


def view_tables(
    psi_table: pl.DataFrame,
    info: BenchmarkInfo,
    views: Mapping[str, str],
    facts: Sequence[Facts],
    *,
    metric: str,
    models: Sequence[str],
    languages: Sequence[str],
) -> list[Table]:
    """Return each model under raw and clean labels, and on all queries and on the tiny subset.

    ``views`` names the ids of the benchmark's views by sort, ``raw`` and ``tiny``, those that
    exist; ``psi_table`` has their rows, too. Its leading slice and bucket scheme are taken for all.
    """
    rows = psi_table.filter(
        buckets=main_scheme(psi_table, info) or "",
        metric=metric,
        evidence="all",
        **headlines(psi_table, languages).get(info.id, {"domain": ""}),
    )
    tables = []
    if "raw" in views:
        flows = [fact["flow"] for fact in facts if fact["benchmark"] == info.id and "flow" in fact]
        note = f"{_removed_text(pl.concat([FLOW.empty(), *flows]))} {CLEAN_NOTE}".strip()
        names = {"raw": views["raw"], "clean": info.id}
        title = "False negatives: raw and clean labels"
        tables.append(_side_by_side(rows, names, models, title, note))
    if "tiny" in views:
        names = {"all": info.id, "tiny": views["tiny"]}
        title = "All queries and the tiny subset"
        tables.append(_side_by_side(rows, names, models, title, TINY_NOTE))
    return tables


def _side_by_side(
    rows: pl.DataFrame, names: Mapping[str, str], models: Sequence[str], title: str, note: str
) -> Table:
    """Return queries, score and both PSIs of each model, a row for each of ``names``.

    ``names``: heading -> benchmark.
    """
    labels = {benchmark: heading for heading, benchmark in names.items()}
    kinds = {"model": pl.Enum(models), "benchmark": pl.Enum(list(labels))}
    shown: Columns = {"model": "model", "queries": pl.col("benchmark").replace_strict(labels)}
    shown |= {"number": "n_queries", "mean": "mean", "published PSI": with_ends("psi")}
    shown |= {"PSI at equal documents": with_ends("psi_same")}
    both = rows.filter(pl.col("benchmark").is_in(list(labels))).sort(
        pl.col(name).cast(kind) for name, kind in kinds.items()
    )
    return table_of(title, both, shown, n_names=2, note=note)


def _removed_text(flow: pl.DataFrame) -> str:
    """Say how many queries and documents left on account of false negatives; empty if unknown."""
    removed = flow.filter(pl.col("stage").is_in(NEGATIVES_STAGES))
    totals = removed.group_by("unit", maintain_order=True).agg(pl.col("dropped", "entered").sum())
    parts = [
        f"{count(dropped)} of {count(entered)} {unit} ({percent(dropped / entered, 2)})"
        for unit, dropped, entered in totals.iter_rows()
        if entered
    ]
    return f"Removed: {'; '.join(parts)}." if parts else ""


# --- counts beside the papers'

CAVEAT = (
    "Published figures come from the paper's own documents, language model and rerankers: compare "
    "the shape, not the numbers."
)
STAGE_NOTE = (
    "Items left after each stage, and below the share of each position where it is known. Pairs: "
    "a question and a document not its own, found relevant by most rerankers, then confirmed by "
    "the judges."
)
MARGIN_NOTE = (
    "m: lead of the targeted third over the best other third, the smallest one among the "
    "rerankers. Second line: share of all candidates, and of those kept, by position."
)
CELL_NOTE = (
    "Budget: the smallest cell, which is what training sets of equal size can draw from each bin."
)
AUDIT_NOTE = (
    "A language model said of each third, seen alone, whether it answers. Exclusive: yes for the "
    "target and no for both others. Brackets: 95 % Wilson intervals."
)


def _beside(
    title: str,
    ours: pl.DataFrame,
    published: str,
    on: Sequence[str],
    cells: Callable[[str], Columns],
    note: str,
    *,
    our_cells: Columns | None = None,
    start: str = "ours",
) -> Table:
    """Return a run's rows with a published table's beside them, joined on columns.

    ``cells`` are the columns of one side, whose names begin with its argument; ``our_cells`` take
    their place for the run. ``start`` is the side, ours or theirs, whose rows there are.
    """
    paper = read_published(published)
    theirs = paper.rows.select(*on, pl.exclude(on).name.prefix("their "))
    how: Any = {"ours": "left", "theirs": "right"}[start]
    rows = ours.join(theirs, on=on, how=how, maintain_order="left_right", nulls_equal=True)
    sides = (("this run", our_cells or cells("")), (f"published: {paper.source}", cells("their ")))
    shown: Columns = {name: name for name in on}
    shown |= {f"{side}|{name}": cell for side, found in sides for name, cell in found.items()}
    return table_of(title, rows, shown, n_names=len(on), note=f"{note} {CAVEAT}")


def _kept(side: str, share: pl.Expr) -> Columns:
    """Return what is kept, with its share, and at each position with its share of them."""
    total = pl.sum_horizontal(f"{side}n_{p}" for p in POSITIONS)
    cells: Columns = {"kept": pl.struct(f"{side}n", share=share)}
    positions = {p: pl.col(f"{side}n_{p}") for p in POSITIONS}
    return cells | {
        p: pl.when(n.is_not_null()).then(pl.struct(n, share=n / total))
        for p, n in positions.items()
    }


def stage_table(fact: Facts) -> Table:
    """Return the stages of FineWeb-PosQ beside the published counts (PosQ, appendix A.2)."""
    ours = fact["flow"].select("stage", "unit", n="kept")
    if "judgements" in fact:
        pairs = fact["judgements"].select("query_id", "doc_id", "is_false_negative").unique()
        n_pairs = [pairs.height, pairs["is_false_negative"].sum()]
        more = {"stage": [RULE_RERANKERS, RULE_JUDGES], "unit": ["pairs"] * 2, "n": n_pairs}
        ours = pl.concat([ours, pl.DataFrame(more, schema=ours.schema)])
    shift = fact.get("shift", POSITION_SHIFT.empty()).filter(pl.col("target_position") != "all")
    placed = shift.select("stage", "unit", "n_kept", name=pl.format("n_{}", "target_position"))
    wide = placed.pivot(
        "name", on_columns=[f"n_{p}" for p in POSITIONS], index=["stage", "unit"], values="n_kept"
    )
    ours = ours.join(wide, on=["stage", "unit"], how="left")
    none = pl.lit(None, pl.Float64)
    return _beside(
        "Stages beside the published ones",
        ours,
        "fineweb_posq_counts",
        ("stage", "unit"),
        lambda side: _kept(side, none),
        STAGE_NOTE,
        start="theirs",
    )


def margin_table(table: pl.DataFrame) -> Table:
    """Return queries kept by threshold and position, as in Controlled's Table 6.

    ``table`` holds MARGIN_TABLE rows. Below another lowest threshold other queries failed.
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
        "controlled_table6",
        ("condition",),
        cells,
        MARGIN_NOTE,
    )


def cell_table(table: pl.DataFrame, *, threshold: float | None, unit: str) -> list[Table]:
    """Return the pool of one threshold by length bin and position, as in Controlled's Table 8.

    ``table`` holds CELL_TABLE rows; without a pool there is no table. ``threshold`` is that of the
    run; None, or one the table does not have, takes the highest. ``unit`` is what the bins count.
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
    return [_beside(title, mine, "controlled_table8", on, cells, CELL_NOTE)]


def audit_table(table: pl.DataFrame) -> Table:
    """Return the audit by stratum of the margin, as in Controlled's Table 7.

    ``table`` holds AUDIT_TABLE rows. The stratum without a margin is left out where nothing of it
    was audited.
    """
    ours: Columns = {"queries": "n", "not usable": "n_unusable"}
    ours |= {name.replace("_", " "): with_ends(name) for name in RATES}
    is_empty = (pl.col("stratum") == "no_margin") & (pl.col("n") + pl.col("n_unusable") == 0)
    return _beside(
        "Audit of the margin by a language model",
        table.filter(~is_empty),
        "controlled_table7",
        ("stratum",),
        lambda side: {name.replace("_", " "): f"{side}{name}" for name in RATES},
        AUDIT_NOTE,
        our_cells=ours,
    )


# --- does a filter itself shift where the evidence is?

SHIFT_TITLE = "Do the filters shift where the evidence is?"
SHIFT_NOTE = (
    "Shift: half the sum of absolute differences of the shares. p: how often a stage that drops "
    "items without regard to position would shift the shares as much (chi-square test; rough "
    "where the fewest expected items are below 5), adjusted for the number of stages (Holm). "
    "Balancing evens the positions on purpose."
)


def shift_blocks(shift: pl.DataFrame) -> list[Block]:
    """Return the share of each position before and after every stage, drawn and as numbers.

    ``shift`` are POSITION_SHIFT rows. Nothing where no stage has items with a position.
    """
    wide = shift.pivot(
        "target_position",
        on_columns=POSITIONS,
        index=["step", "stage", "shift", "p_value", "min_expected"],
        values=["share_of_entered", "share_of_kept"],
    )
    sides = {
        side: [f"share_of_{column}_{p}" for p in POSITIONS]
        for side, column in (("before", "entered"), ("after", "kept"))
    }
    whole = shift.filter(target_position="all").select("step", "n_entered", "n_kept")
    stages = wide.join(whole, on="step").sort("step").drop_nulls(sides["before"])
    if stages.is_empty():
        return []
    bars: list[tuple[str, tuple[float, ...]]] = []
    for row in stages.iter_rows(named=True):
        for side, names in sides.items():
            shares = tuple(row[name] for name in names)
            if None not in shares and not (side == "before" and bars and bars[-1][1] == shares):
                bars.append((f"{side} {row['stage']}", shares))
    tested = stages["p_value"].is_not_null() & (stages["stage"] != RULE_BALANCE)
    steps = stages.filter(tested)
    adjusted = steps.select("step", p=pl.Series(holm(steps["p_value"].to_numpy())))
    stages = stages.join(adjusted, on="step", how="left", maintain_order="left")
    shown: Columns = {"stage": "stage"}
    for side, n in (("before", "n_entered"), ("after", "n_kept")):
        shown |= {f"{side}|items": n}
        shown |= {f"{side}|{p}": name for p, name in zip(POSITIONS, sides[side], strict=True)}
    shown |= {"shift": "shift", "p, adjusted": "p", "fewest expected": "min_expected"}
    share = partial(percent, decimals=2)
    forms: dict[str, Form] = {name: share for name in shown if "|" in name and "items" not in name}
    forms |= {"shift": share, "p, adjusted": p_value, "fewest expected": "{:,.1f}".format}
    drawn = draw_stacks(bars, POSITIONS, x_text="share of the items by target position")
    return [
        figure_of(
            drawn, SHIFT_TITLE, "Shares of the target positions before and after each filter."
        ),
        table_of(
            "Shares of the positions by stage",
            stages,
            shown,
            forms=forms,
            n_names=1,
            note=SHIFT_NOTE,
        ),
    ]
