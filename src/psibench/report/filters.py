"""How generated queries came about and what the filters left of them, beside published counts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from psibench.errors import InputError
from psibench.filters.audit import AUDIT_TABLE, RATES, wilson_interval
from psibench.filters.margin_counts import CELL_TABLE, MARGIN_TABLE
from psibench.filters.mixtures import MIXTURE_CELLS, RULE_BALANCE
from psibench.filters.negatives import JUDGEMENTS, RULE_JUDGES, RULE_RERANKERS
from psibench.filters.study import position_shift
from psibench.llm.sections import Price, price_of
from psibench.llm.usage import Usage
from psibench.metrics.aggregate import holm
from psibench.report.plots import SERIES, LineStyle, draw_stacks
from psibench.report.published import read_published
from psibench.report.tables import (
    Block,
    Columns,
    Form,
    Table,
    figure_of,
    slug,
    table_of,
    with_ends,
)
from psibench.report.views import BenchmarkInfo, Row, headlines, main_scheme
from psibench.report.wording import (
    ALPHA,
    MISSING,
    change,
    count,
    listed,
    p_text,
    p_value,
    percent,
)
from psibench.tables import read_table
from psibench.tables.build_schemas import FLOW, LLM_USAGE
from psibench.tables.domains import domain_table
from psibench.tables.schemas import ATTRITION, QUERIES
from psibench.tables.spec import POOLED, TableSpec
from psibench.text.segments import POSITIONS

# --- from documents to queries, and what a language model took for it

COUNTED = {
    "flow": ("stage", "unit"),
    "llm_usage": ("stage", "llm", "model", "backend", "prompt_hash"),
    "margin_table": ("condition", "threshold"),
    "cell_table": ("condition", "threshold", "length_bin"),
    "mixture_cells": ("configuration", "length_bin", "target_position"),
}
"""Tables whose counts are added up over domains: the columns that name what is counted."""


def read_generation(
    labels: Sequence[Mapping[str, Any]],
    *,
    flow: Mapping[str, str],
    usage: Mapping[str, str],
    attrition: Mapping[str, str],
    prices: Mapping[str, Any],
) -> dict[str, pl.DataFrame]:
    """Read how queries came about: ``flow`` and ``usage`` rows of all languages.

    Both have benchmark, language and domain in front (`all`: its domains' counts added up). FLOW
    rows get ``reasons``, what was dropped for each; LLM_USAGE rows ``usd`` and ``estimated_usd``
    at the config's prices, null without one, and ``price_as_of``.

    Parameters
    ----------
    labels
        Benchmark, language and domains of everything that a language model was asked about.
    flow, usage, attrition
        Each benchmark's ledger.
    prices
        A price table as plain data.
    """
    table = {name: Price.model_validate(entry) for name, entry in prices.items()}
    found: dict[str, list[pl.DataFrame]] = {"flow": [], "usage": []}
    for label in labels:
        name, language, domains = label["benchmark"], label["lang"], label["domains"]
        place = {"benchmark": name, "language": language, "domain": _domain_name(domains)}
        in_front = [pl.lit(text).alias(key) for key, text in place.items()]
        dropped = read_table(attrition[name], ATTRITION).filter(language=language)
        counted = dropped.group_by("stage", "unit", "reason", maintain_order=True).len("n")
        told = pl.format("{} {}", "reason", pl.col("n").map_elements(count, pl.String))
        by_stage = counted.group_by("stage", "unit").agg(reasons=told.str.join(", "))
        flows = _pooled("flow", _by_domain(flow[name], FLOW, domains, language))
        flows = flows.join(by_stage, on=["stage", "unit"], how="left", maintain_order="left")
        found["flow"].append(flows.sort("step", maintain_order=True).select(*in_front, pl.all()))
        used = _pooled("llm_usage", _by_domain(usage[name], LLM_USAGE, domains, language))
        schema = {"usd": pl.Float64, "estimated_usd": pl.Float64, "price_as_of": pl.String}
        money = pl.DataFrame([_money(row, table) for row in used.to_dicts()], schema=schema)
        found["usage"].append(
            pl.concat([used.select(*in_front, pl.all()), money], how="horizontal")
        )
    return {name: pl.concat(frames) for name, frames in found.items() if frames}


def _domain_name(domains: Sequence[str]) -> str:
    return domains[0] if len(domains) == 1 else POOLED


def _by_domain(
    given: str | Sequence[str],
    spec: TableSpec,
    domains: Sequence[str],
    language: str | None = None,
) -> list[pl.DataFrame]:
    """Read each domain's rows of a table of all, or one table of each."""
    return [
        read_table(domain_table(given, domain, number, language), spec)
        for number, domain in enumerate(domains)
    ]


def _pooled(name: str, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Add up the counts of several domains; tables without `COUNTED` keys are stacked.

    What follows from counts (shares, budgets) is worked out where it is shown.
    """
    stacked = pl.concat(frames)
    if len(frames) > 1 and name == "audit_table":
        return _pooled_audit(stacked)
    if len(frames) == 1 or name not in COUNTED:
        return stacked
    step, keys = pl.col("^step$").min(), COUNTED[name]
    added = stacked.group_by(keys, maintain_order=True).agg(step, pl.exclude("step", *keys).sum())
    return added.select(stacked.columns)


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
    "mixture_cells": MIXTURE_CELLS,
}
KEYS = ("benchmark", "lang", "domains", *TABLES, "dropped", "queries")
PAIRS_UNIT = "pairs"
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
        facts["domain"] = _domain_name(domains)
        for name, spec in TABLES.items():
            if one.get(name):
                only = language if name == "flow" else None
                facts[name] = _pooled(name, _by_domain(one[name], spec, domains, only))
        if "flow" in facts and one.get("dropped") and one.get("queries"):
            columns = ["_id", "target_position", "pos_char_span", "pos_char_length"]
            queries = _by_domain(one["queries"], QUERIES, domains)
            dropped = pl.concat(_by_domain(one["dropped"], ATTRITION, domains, language))
            asked = pl.concat([frame.select(columns) for frame in queries])
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
    threshold = info.margin_threshold
    if "flow" in fact and info.recipe == "fineweb_posq":
        yield stage_table(fact)
    if "shift" in fact:
        anchor = slug("shift", info.id, fact["language"], fact["domain"])
        yield from shift_blocks(fact["shift"], anchor)
    if "margin_table" in fact:
        yield margin_table(fact["margin_table"], threshold=threshold)
    if "cell_table" in fact:
        yield from cell_table(fact["cell_table"], threshold=threshold, unit=info.length_unit)
    if "audit_table" in fact:
        yield audit_table(fact["audit_table"])
    if "mixture_cells" in fact:
        yield mixture_table(fact["mixture_cells"])


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
        tables.append(_side_by_side(rows, names, models, metric, title, note))
    if "tiny" in views:
        names = {"all": info.id, "tiny": views["tiny"]}
        title = "All queries and the tiny subset"
        tables.append(_side_by_side(rows, names, models, metric, title, TINY_NOTE))
    return tables


def _side_by_side(
    rows: pl.DataFrame,
    names: Mapping[str, str],
    models: Sequence[str],
    metric: str,
    title: str,
    note: str,
) -> Table:
    """Return queries, score and both PSIs of each model; ``names``: heading -> benchmark."""
    known = ["n_queries", "mean"]
    known += [f"{psi}{end}" for psi in ("psi", "psi_same") for end in ("", "_low", "_high")]
    both = pl.DataFrame({"model": models}, schema={"model": pl.String})
    for heading, benchmark in names.items():
        own = rows.filter(benchmark=benchmark).select(
            "model", *(pl.col(name).name.prefix(f"{heading} ") for name in known)
        )
        both = both.join(own, on="model", how="left", maintain_order="left")
    first, second = names
    both = both.filter(pl.any_horizontal(pl.col("^.* n_queries$").is_not_null()))
    groups = {metric: "mean", "published PSI": "psi", "PSI at equal documents": "psi_same"}
    shown = [pl.col(f"{heading} n_queries").alias(f"queries|{heading}") for heading in names]
    for group, name in groups.items():
        shown += [
            (pl.col(f"{h} mean") if name == "mean" else with_ends(f"{h} {name}")).alias(
                f"{group}|{h}"
            )
            for h in names
        ]
        moved = pl.col(f"{second} {name}") - pl.col(f"{first} {name}")
        shown.append(moved.alias(f"{group}|change"))
    forms: dict[str, Form] = {f"{group}|change": change for group in groups}
    return table_of(title, both.select("model", *shown), forms=forms, n_names=1, note=note)


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

HERE = "this run"
FAILED = "failed"
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
    "Queries with {pool}. Budget: the smallest cell, which is what training sets of equal size can "
    "draw from each bin."
)
MIXTURE_NOTE = (
    "Training sets of equal size and equal lengths that differ in where the evidence lies; the "
    "smallest cell of length and position is the most that any of them takes from a bin."
)
AUDIT_NOTE = (
    "A language model said of each third, seen alone, whether it answers. Exclusive: yes for the "
    "target and no for both others. Brackets: 95 % Wilson intervals, in per cent."
)


def stage_table(fact: Facts) -> Table:
    """Return the stages of FineWeb-PosQ beside the published counts (PosQ, appendix A.2).

    A published stage that the run does not have has dashes.
    """
    counts = {(row["stage"], row["unit"]): row["kept"] for row in fact["flow"].to_dicts()}
    if "judgements" in fact:
        pairs = fact["judgements"].select("query_id", "doc_id", "is_false_negative").unique()
        counts[RULE_RERANKERS, PAIRS_UNIT] = pairs.height
        counts[RULE_JUDGES, PAIRS_UNIT] = pairs.filter("is_false_negative").height
    kept: dict[str, dict[str, int]] = {}
    for row in fact["shift"].iter_rows(named=True) if "shift" in fact else ():
        kept.setdefault(row["stage"], {})[row["target_position"]] = row["n_kept"]

    def cells(n: int | None, parts: Sequence[int | None]) -> tuple[str, ...]:
        known = [part for part in parts if part is not None]
        if n is None or len(known) < len(POSITIONS):
            return (MISSING if n is None else count(n), *(MISSING,) * len(POSITIONS))
        total = sum(known)
        return (count(n), *(_with_share(part, part / total if total else None) for part in known))

    published = read_published("fineweb_posq_counts")
    rows = []
    for row in published.rows.iter_rows(named=True):
        stage, unit = row["stage"], row["unit"]
        mine = kept.get(stage, {}) if unit != "documents" else {}
        here = cells(counts.get((stage, unit)), [mine.get(name) for name in POSITIONS])
        rows.append((stage, unit, *here, *cells(row["n"], [row[f"n_{p}"] for p in POSITIONS])))
    names = ("left", *POSITIONS)
    note = f"{STAGE_NOTE} {CAVEAT}"
    title = "Stages beside the published ones"
    return _beside(title, ("stage", "items"), names, names, rows, published.source, note)


def margin_table(table: pl.DataFrame, *, threshold: float | None) -> Table:
    """Return queries kept by threshold and position, as in Controlled's Table 6.

    ``table`` holds MARGIN_TABLE rows; ``threshold`` is the one of the run. Published figures stand
    beside the same thresholds. The row of queries without a margin is left out where there is none.
    """

    def cells(row: Row) -> tuple[str, ...]:
        parts = (_with_share(row[f"n_{name}"], row[f"share_{name}"]) for name in POSITIONS)
        return (_with_share(row["n"], row["share"]), *parts)

    def meaning(row: Row) -> str | float:
        return row["condition"] if row["threshold"] is None else row["threshold"]

    published = read_published("controlled_table6")
    known = {meaning(row): cells(row) for row in published.rows.iter_rows(named=True)}
    lowest = table["threshold"].min()
    if lowest != published.rows["threshold"].min():
        known.pop(FAILED)  # it means another margin there
    texts = {"all": "all candidates", "no_margin": "no margin"}
    if isinstance(lowest, float):
        texts[FAILED] = f"failed: m < {lowest:g}"
    rows = []
    n = pl.col("n")
    shares = {f"share_{p}": pl.when(n > 0).then(pl.col(f"n_{p}") / n) for p in POSITIONS}
    total = table.filter(condition="all")["n"].sum()
    for row in table.with_columns(share=n / total, **shares).iter_rows(named=True):
        if row["condition"] == "no_margin" and not row["n"]:
            continue
        text = texts.get(row["condition"], row["condition"])
        if row["threshold"] is not None:
            text = _pool(row["threshold"]) + (", kept" if row["threshold"] == threshold else "")
        rows.append((text, *cells(row), *known.get(meaning(row), (MISSING,) * 4)))
    names, note = ("kept", *POSITIONS), f"{MARGIN_NOTE} {CAVEAT}"
    title = "Margin: queries kept by threshold"
    return _beside(title, ("condition",), names, names, rows, published.source, note)


def cell_table(table: pl.DataFrame, *, threshold: float | None, unit: str) -> list[Table]:
    """Return the pool of one threshold by length bin and position, as in Controlled's Table 8.

    ``table`` holds CELL_TABLE rows; without a pool there is no table. ``threshold`` is that of the
    run; None, or one the table does not have, takes the highest. ``unit`` is what the bins count;
    published figures stand beside where bins and unit are the same.
    """

    def cells(row: Row) -> tuple[str, ...]:
        return tuple(count(row[name]) for name in (*counts, "budget"))

    pools = table.filter(pl.col("threshold").is_not_null())
    if pools.is_empty():
        return []
    known = sorted(set(pools["threshold"]))
    taken = threshold if threshold is not None and threshold in known else known[-1]
    mine = pools.filter(threshold=taken)
    n_bins, counts = mine.height - 1, [f"n_{name}" for name in POSITIONS]
    smallest = mine.filter(pl.col("length_bin") != "all").select(counts).to_numpy().min()
    budget = pl.when(pl.col("length_bin") == "all").then(n_bins * smallest).otherwise(smallest)
    published = read_published("controlled_table8")
    bins, theirs = list(mine["length_bin"]), published.rows.to_dicts()
    is_same = [(name, unit) for name in bins] == [(r["length_bin"], r["unit"]) for r in theirs]
    names = (*POSITIONS, "budget")
    beside = [cells(row) for row in theirs] if is_same else [()] * len(bins)
    lines = zip(bins, mine.with_columns(budget=budget).to_dicts(), beside, strict=True)
    rows = [
        ("all bins" if name == "all" else name.replace("-", "–"), *cells(row), *more)
        for name, row, more in lines
    ]
    title, head = "Queries kept by length and position", (f"length, {unit}" if unit else "length",)
    note = CELL_NOTE.format(pool=_pool(taken))
    if is_same:
        source = f"{published.source}, {_pool(theirs[0]['threshold'])}"
        return [_beside(title, head, names, names, rows, source, f"{note} {CAVEAT}")]
    other = f"The bins of {published.source} are others, so its figures do not stand beside."
    return [Table(title, (*head, *names), tuple(rows), n_names=1, note=f"{note} {other}")]


def audit_table(table: pl.DataFrame) -> Table:
    """Return the audit by stratum of the margin, as in Controlled's Table 7.

    ``table`` holds AUDIT_TABLE rows. The stratum without a margin is left out where nothing of it
    was audited.
    """
    published = read_published("controlled_table7")
    known = {(row["low"], row["high"]): row for row in published.rows.iter_rows(named=True)}
    rows = []
    for row in table.iter_rows(named=True):
        low, high = row["low"], row["high"]
        if low is None and high is None and not row["n"] + row["n_unusable"]:
            continue
        text = "no margin" if high is None else f"failed: m < {high:g}"
        if low is not None:
            text = _pool(low) if high is None else f"{low:g} ≤ m < {high:g}"
        shares = []
        for name in RATES:
            ends = [row[f"{name}_{end}"] for end in ("low", "high")]
            told = f"\n[{100 * ends[0]:.1f}, {100 * ends[1]:.1f}]" if None not in ends else ""
            shares.append(percent(row[name]) + (told if row[name] is not None else ""))
        beside = known.get((low, high), {})
        theirs = (percent(beside.get(name)) for name in RATES)
        rows.append((text, count(row["n"]), count(row["n_unusable"]), *shares, *theirs))
    names = tuple(name.replace("_", " ") for name in RATES)
    title, own = "Audit of the margin by a language model", ("queries", "not usable", *names)
    note = f"{AUDIT_NOTE} {CAVEAT}"
    return _beside(title, ("stratum",), own, names, rows, published.source, note)


def _beside(
    title: str,
    head: tuple[str, ...],
    own: tuple[str, ...],
    theirs: tuple[str, ...],
    rows: Sequence[tuple[str, ...]],
    source: str,
    note: str,
) -> Table:
    """Return a run's columns with a paper's beside them."""
    groups = (("", len(head)), (HERE, len(own)), (f"published: {source}", len(theirs)))
    return Table(title, (*head, *own, *theirs), tuple(rows), len(head), groups, note)


def mixture_table(cells: pl.DataFrame) -> Table:
    """Return what each training configuration draws by position; ``cells``: MIXTURE_CELLS rows."""
    name, drawn = "configuration", pl.col("n_drawn")
    by_position = cells.pivot(
        "target_position", index=name, values="n_drawn", aggregate_function="sum"
    )
    by_bin = cells.group_by(name, "length_bin").agg(drawn.sum()).group_by(name)
    sizes = by_bin.agg(
        queries=drawn.sum(),
        **{"per length bin, fewest": drawn.min(), "per length bin, most": drawn.max()},
    )
    shown = by_position.select(name, *POSITIONS).join(sizes, on=name, maintain_order="left")
    return table_of("Training mixtures", shown, n_names=1, note=MIXTURE_NOTE)


def _pool(threshold: float) -> str:
    """Return a cumulative pool as a formula."""
    return f"m ≥ {threshold:g}"


def _with_share(n: int | None, share: float | None) -> str:
    """Return a count and below it a share, as far as known."""
    if n is None:
        return MISSING
    return count(n) if share is None else f"{count(n)}\n{percent(share, 2)}"


# --- does a filter itself shift where the evidence is?

SHIFT_TITLE = "Do the filters shift where the evidence is?"
POSITION_STYLES = tuple(LineStyle(colour) for colour in SERIES[:3])
ROUGH = 5  # smallest expected count for which the chi-square approximation is usually trusted
TEST_TEXT = (
    "p: how often a stage that drops items without regard to position would shift the shares as "
    "much (chi-square test)."
)


def shift_blocks(shift: pl.DataFrame, anchor: str) -> list[Block]:
    """Return the share of each position before and after every stage: drawn, told, and as numbers.

    ``shift`` are POSITION_SHIFT rows; ``anchor`` is the figure's id on the page. What enters a
    stage is shown where it is not what the stage before it kept. Nothing where no stage has items
    with a position.
    """
    stages = [stage for stage in _stages(shift) if stage["before"] is not None]
    bars: list[tuple[str, tuple[float, ...], str]] = []
    rows: list[tuple[str, ...]] = []
    last = None
    for stage in stages:
        name, before, after = stage["stage"], stage["before"], stage["after"]
        if before != last:
            bars.append((f"before {name}", before, ""))
            entered = count(stage["n_entered"])
            rows.append((bars[-1][0], *_shares(before), entered, MISSING, MISSING))
        last = after
        if after is None:
            continue
        beside = p_text(stage["p_value"]) if stage["p_value"] is not None else ""
        if stage["n_kept"] == stage["n_entered"]:
            beside = "drops none"
        elif name == RULE_BALANCE:
            beside = "on purpose"
        bars.append((f"after {name}", after, beside))
        moved = (percent(stage["shift"], 2), p_value(stage["p_value"]))
        rows.append((bars[-1][0], *_shares(after), count(stage["n_kept"]), *moved))
    if not bars:
        return []
    text = f"share of the {stages[0]['unit']} by target position"
    styles = dict(zip(POSITIONS, POSITION_STYLES, strict=True))
    drawn, said = draw_stacks(bars, POSITION_STYLES, x_text=text), " ".join(shift_sentences(shift))
    header = ("", *POSITIONS, "items", "moved", "p")
    return [
        figure_of(drawn, anchor, SHIFT_TITLE, said, legend=styles),
        Table("Shares of the positions by stage", header, tuple(rows), n_names=1),
    ]


def _shares(shares: Sequence[float]) -> Iterator[str]:
    return (percent(share, 2) for share in shares)


def shift_sentences(shift: pl.DataFrame) -> list[str]:
    """Say which stages shift the positions beyond chance, by how much, and which do not.

    p-values are adjusted for the number of stages (Holm). Balancing is left out of the test: it
    evens the positions on purpose.
    """
    stages = _stages(shift)
    tested = [s for s in stages if s["p_value"] is not None and s["stage"] != RULE_BALANCE]
    adjusted = holm(np.array([stage["p_value"] for stage in tested]))
    pairs = list(zip(tested, adjusted, strict=True))
    beyond = [_moved_text(stage) for stage, p in pairs if p <= ALPHA and stage["after"]]
    within = [f"{s['stage']} ({p_text(s['p_value'])})" for s, p in pairs if p > ALPHA]
    rough = [s["stage"] for s in tested if s["min_expected"] < ROUGH]
    sentences = [f"Beyond chance: {'; '.join(beyond)}."] if beyond else []
    if tested and not beyond:
        sentences.append("No stage shifts the positions beyond chance.")
    sentences += [f"Not distinguishable from chance: {listed(within)}."] if within else []
    if any(stage["stage"] == RULE_BALANCE for stage in stages):
        sentences.append("Balancing evens the positions on purpose.")
    sentences += [f"Few items, so p is rough: {listed(rough)}."] if rough else []
    more = " Beyond chance is p ≤ 0.05 after adjusting for the number of stages."
    return [*sentences, TEST_TEXT + (more if len(tested) > 1 else "")] if tested else sentences


def _stages(shift: pl.DataFrame) -> list[dict[str, Any]]:
    """Return one mapping per stage: its row ``all`` with the shares ``before`` and ``after``."""
    found = []
    ordered = shift.sort("step", maintain_order=True)
    for _, rows in ordered.group_by("stage", "unit", maintain_order=True):
        parts = {row["target_position"]: row for row in rows.iter_rows(named=True)}
        stage = dict(parts["all"])
        for side, column in (("before", "share_of_entered"), ("after", "share_of_kept")):
            shares = tuple(parts[name][column] for name in POSITIONS)
            stage[side] = None if None in shares else shares
        found.append(stage)
    return found


def _moved_text(stage: Row) -> str:
    """Say how far the two positions moved that gain and lose most, and p."""
    before, after = stage["before"], stage["after"]
    moves = [b - a for a, b in zip(before, after, strict=True)]
    ends = dict.fromkeys((moves.index(max(moves)), moves.index(min(moves))))
    parts = [f"{POSITIONS[i]} from {percent(before[i])} to {percent(after[i])}" for i in ends]
    return f"{stage['stage']} moves {listed(parts)} ({p_text(stage['p_value'])})"
