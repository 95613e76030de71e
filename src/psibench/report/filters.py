"""How generated queries came about and what the filters left of them, beside published counts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from psibench.errors import InputError
from psibench.filters.audit import AUDIT_TABLE, RATES, wilson_interval
from psibench.filters.decide import SCORING_SAVINGS
from psibench.filters.mixtures import MIXTURE_CELLS, RULE_BALANCE
from psibench.filters.negatives import JUDGEMENTS, RULE_JUDGES, RULE_RERANKERS
from psibench.filters.study import position_shift
from psibench.filters.verify import CELL_TABLE, MARGIN_TABLE, RERANKER_TABLE
from psibench.llm.sections import Price, price_of
from psibench.llm.usage import Usage
from psibench.metrics.aggregate import holm
from psibench.report.plots import SERIES, LineStyle, draw_stacks
from psibench.report.published import read_published
from psibench.report.tables import Block, FigureView, Table, each, slug, text_rows
from psibench.report.views import BenchmarkInfo, PsiRows, Row, clean_table, tiny_table
from psibench.report.wording import (
    ALPHA,
    MISSING,
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

FLOW_HEADER = ("language", "domain", "stage", "items", "entered", "kept", "dropped", "reasons")
USAGE_HEADER = (
    "language",
    "domain",
    "stage",
    "model",
    "backend",
    "items",
    "with a value",
    "requests",
)
COST_HEADER = (
    *("language", "domain", "stage", "input tokens, estimate", "input tokens, actual"),
    *("output tokens, estimate", "output tokens, actual", "USD, estimate", "USD, actual"),
    "prices of",
)


@dataclass(frozen=True)
class GenerationFacts:
    """One language of one benchmark whose texts a language model wrote; domain `all`: pooled.

    ``flow`` are FLOW rows; ``usage`` LLM_USAGE rows with ``usd`` and ``estimated_usd`` (null
    without a price) and ``price_as_of`` (empty without one); ``dropped`` reasons by stage:
    ``stage, unit, reason, n_items``.
    """

    benchmark: str
    language: str
    domain: str
    flow: pl.DataFrame
    usage: pl.DataFrame
    dropped: pl.DataFrame


def read_generation(
    labels: Sequence[Mapping[str, str]],
    *,
    flow: Mapping[str, str],
    usage: Mapping[str, str],
    attrition: Mapping[str, str],
    prices: Mapping[str, Any],
) -> list[GenerationFacts]:
    """Read how queries came about; ``labels`` name the benchmark, language and domains of each.

    ``flow``, ``usage`` and ``attrition`` give each benchmark's ledger. ``prices`` is a price table
    as plain data: what a run cost is told at the config's prices. What a language's domains
    counted is added up.
    """
    table = {name: Price.model_validate(entry) for name, entry in prices.items()}
    found = []
    for label in labels:
        name, language, domains = label["benchmark"], label["lang"], label["domains"]
        used = _pooled("llm_usage", _by_domain(usage[name], LLM_USAGE, domains, language))
        money = [_money(row, table) for row in used.iter_rows(named=True)]
        schema = {"usd": pl.Float64, "estimated_usd": pl.Float64, "price_as_of": pl.String}
        reasons = ("stage", "unit", "reason")
        left_out = read_table(attrition[name], ATTRITION).filter(language=language).select(reasons)
        found.append(
            GenerationFacts(
                name,
                language,
                domains[0] if len(domains) == 1 else POOLED,
                _pooled("flow", _by_domain(flow[name], FLOW, domains, language)),
                pl.concat([used, pl.DataFrame(money, schema=schema)], how="horizontal"),
                left_out.group_by(reasons, maintain_order=True).agg(n_items=pl.len()),
            )
        )
    return found


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
    keys = COUNTED[name]
    rest = [
        pl.col(c).min() if c == "step" else pl.col(c).sum()
        for c in stacked.columns
        if c not in keys
    ]
    added = stacked.group_by(keys, maintain_order=True).agg(rest).select(stacked.columns)
    return added.sort("step", maintain_order=True) if "step" in added.columns else added


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
        return {"usd": None, "estimated_usd": None, "price_as_of": ""}
    is_batch = row["backend"] == "openai-batch"
    used = Usage(row["input_tokens"], row["output_tokens"], row["cached_input_tokens"])
    expected = Usage(row["estimated_input_tokens"], row["estimated_output_tokens"])
    return {
        "usd": price.cost(used, is_batch=is_batch),
        "estimated_usd": price.cost(expected, is_batch=is_batch),
        "price_as_of": price.as_of.isoformat(),
    }


def generation_tables(facts: Sequence[GenerationFacts], benchmark: str) -> list[Table]:
    """Return a benchmark's tables: items by stage; if any were made, requests and their cost."""
    mine = [fact for fact in facts if fact.benchmark == benchmark]
    if not mine:
        return []
    flows, usages, costs = [], [], []
    tokens = [f"{how}{side}_tokens" for side in ("input", "output") for how in ("estimated_", "")]
    for fact in mine:
        place = (fact.language, fact.domain)
        for row in fact.flow.sort("step", maintain_order=True).iter_rows(named=True):
            reasons = fact.dropped.filter(stage=row["stage"], unit=row["unit"])
            named = reasons.select("reason", "n_items").iter_rows()
            told = ", ".join(f"{reason} {count(n)}" for reason, n in named)
            numbers = (count(row[name]) for name in ("entered", "kept", "dropped"))
            last = told if row["dropped"] else MISSING
            flows.append((*place, row["stage"], row["unit"], *numbers, last))
        for row in fact.usage.iter_rows(named=True):
            asked = (row["stage"], row["model"], row["backend"])
            items = (count(row[name]) for name in ("n_items", "n_ok", "n_requests"))
            usages.append((*place, *asked, *items))
            used = (count(row[name]) for name in tokens)
            money = (_usd(row["estimated_usd"]), _usd(row["usd"]), row["price_as_of"] or "no price")
            costs.append((*place, row["stage"], *used, *money))
    tables = [Table("From documents to queries", FLOW_HEADER, tuple(flows))]
    if usages:
        tables.append(Table("Requests to the language model", USAGE_HEADER, tuple(usages)))
        tables.append(Table("Tokens and money: estimate and actual", COST_HEADER, tuple(costs)))
    return tables


def _usd(value: float | None) -> str:
    if value is None:
        return MISSING
    return f"{value:,.2f}" if value >= 1 or value == 0 else f"{value:.4f}"


# --- verification: its tables, read and put together

LABELS = ("benchmark", "lang", "domains")
TABLES: Mapping[str, TableSpec] = {
    "flow": FLOW,
    "margin_table": MARGIN_TABLE,
    "reranker_table": RERANKER_TABLE,
    "cell_table": CELL_TABLE,
    "audit_table": AUDIT_TABLE,
    "judgements": JUDGEMENTS,
    "mixture_cells": MIXTURE_CELLS,
}
COUNTED = {
    "flow": ("stage", "unit"),
    "llm_usage": ("stage", "llm", "model", "backend", "prompt_hash"),
    "margin_table": ("condition", "threshold"),
    "reranker_table": ("reranker", "condition", "threshold"),
    "cell_table": ("condition", "threshold", "length_bin"),
    "mixture_cells": ("configuration", "length_bin", "target_position"),
    "savings": ("rule", "scorer"),
}
"""Tables whose counts are added up over domains: the columns that name what is counted."""
LEDGER = ("flow", "dropped")
"""Tables of all languages of a benchmark."""
KEYS = (*LABELS, *TABLES, "dropped", "queries", "savings")
PAIRS_UNIT = "pairs"


@dataclass(frozen=True)
class VerificationFacts:
    """One language of one benchmark whose candidates were verified; what it lacks is None.

    The frames are FLOW, MARGIN_TABLE, RERANKER_TABLE, CELL_TABLE, AUDIT_TABLE, SCORING_SAVINGS (all
    steps, in their order), POSITION_SHIFT, JUDGEMENTS (the pairs that rerankers found relevant, and
    what became of them) and MIXTURE_CELLS rows.
    """

    benchmark: str
    language: str
    domain: str
    flow: pl.DataFrame | None = None
    margin_table: pl.DataFrame | None = None
    reranker_table: pl.DataFrame | None = None
    cell_table: pl.DataFrame | None = None
    audit_table: pl.DataFrame | None = None
    savings: pl.DataFrame | None = None
    shift: pl.DataFrame | None = None
    judgements: pl.DataFrame | None = None
    mixture_cells: pl.DataFrame | None = None


def read_verification(files: Sequence[Mapping[str, Any]]) -> list[VerificationFacts]:
    """Read what verification left of the candidates, language by language.

    ``files`` are plain data, one mapping per language of a generated benchmark, as
    `psibench.plan.summaries.verification_files` gives them: ``benchmark``, ``lang`` and ``domains``
    name it; the other keys, all optional, are those of `KEYS`, each with the path of a table of
    all domains or a list of one path of each; ``savings`` is a list of such in order of the steps.
    Positions by stage need ``flow``, ``dropped`` and ``queries`` (of the benchmark, not of a view).

    Raises
    ------
    InputError
        If a table cannot be read, or ledger and queries do not add up.
    """
    return [_language_facts(one) for one in files]


def _language_facts(files: Mapping[str, Any]) -> VerificationFacts:
    domains, tables = files["domains"], dict[str, pl.DataFrame]()

    def read(name: str, spec: TableSpec) -> list[pl.DataFrame]:
        language = files["lang"] if name in LEDGER else None
        return _by_domain(files[name], spec, domains, language) if files.get(name) else []

    for name, spec in TABLES.items():
        if frames := read(name, spec):
            tables[name] = _pooled(name, frames)
    steps = [_by_domain(one, SCORING_SAVINGS, domains) for one in files.get("savings") or ()]
    if steps:
        of_domains = [pl.concat(frames) for frames in zip(*steps, strict=True)]
        tables["savings"] = _pooled("savings", of_domains)
    if "flow" in tables and files.get("dropped") and files.get("queries"):
        columns = ["_id", "target_position", "pos_char_span", "pos_char_length"]
        asked = pl.concat([frame.select(columns) for frame in read("queries", QUERIES)])
        dropped = pl.concat(read("dropped", ATTRITION))
        tables["shift"] = position_shift(tables["flow"], dropped, asked)
    domain = domains[0] if len(domains) == 1 else POOLED
    return VerificationFacts(files["benchmark"], files["lang"], domain, **tables)


def verification_blocks(
    facts: Sequence[VerificationFacts],
    info: BenchmarkInfo,
    *,
    psi_rows: PsiRows,
    views: Mapping[str, str],
) -> list[Block]:
    """Return a benchmark's blocks of verification, in page order; none without facts or views.

    ``views`` names the ids of its views by sort, ``raw`` and ``tiny``, those that exist.
    """
    mine = [fact for fact in facts if fact.benchmark == info.id]
    blocks: list[Block] = []
    for fact in mine:
        where = f" · {fact.language} · {fact.domain}" if len(mine) > 1 else ""
        for block in _blocks(fact, info):
            if block is None:
                continue
            key = "name" if isinstance(block, Table) else "title"
            blocks.append(replace(block, **{key: getattr(block, key) + where}))
    if "raw" in views:
        flow = pl.concat([FLOW.empty(), *(fact.flow for fact in mine if fact.flow is not None)])
        blocks.append(clean_table(psi_rows, info, views["raw"], flow=flow))
    if "tiny" in views:
        blocks.append(tiny_table(psi_rows, info, views["tiny"]))
    return blocks


def _blocks(fact: VerificationFacts, info: BenchmarkInfo) -> Iterator[Block | None]:
    threshold = info.margin_threshold
    if fact.flow is not None and info.recipe == "fineweb_posq":
        yield stage_table(fact)
    if fact.shift is not None:
        yield shift_figure(fact.shift, slug("shift", info.id, fact.language, fact.domain))
    if fact.margin_table is not None:
        yield margin_table(fact.margin_table, threshold=threshold)
    if fact.reranker_table is not None:
        yield reranker_table(fact.reranker_table)
    if fact.cell_table is not None:
        yield cell_table(fact.cell_table, threshold=threshold, unit=info.length_unit)
    if fact.audit_table is not None:
        yield audit_table(fact.audit_table)
    if fact.mixture_cells is not None:
        yield mixture_table(fact.mixture_cells)
    if fact.savings is not None and fact.savings.height:
        yield savings_table(fact.savings)


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
AUDIT_NOTE = (
    "A language model said of each third, seen alone, whether it answers. Exclusive: yes for the "
    "target and no for both others. Brackets: 95 % Wilson intervals, in per cent."
)
SAVINGS_NOTE = (
    "What is decided is not scored further: cheapest scorer first, and the same items are kept. "
    "Rerankers score texts, language models grade them."
)
ALONE_NOTE = (
    "Lead of the targeted third under this reranker; second line: share of those shown to it, and "
    "of those kept, by position. Where the shares of positions drift apart as the threshold rises, "
    "the reranker prefers a position itself, or its evidence is easier there. Rerankers after the "
    "first are shown only what those before left (verify.complete shows all to all)."
)
MIXTURE_NOTE = (
    "Training sets of equal size and equal lengths that differ in where the evidence lies; the "
    "smallest cell of length and position is the most that any of them takes from a bin."
)


def stage_table(fact: VerificationFacts) -> Table:
    """Return the stages of FineWeb-PosQ beside the published counts (PosQ, appendix A.2).

    A published stage that the run does not have has dashes.
    """
    assert fact.flow is not None
    counts = {(row["stage"], row["unit"]): row["kept"] for row in fact.flow.iter_rows(named=True)}
    if fact.judgements is not None:
        pairs = fact.judgements.select("query_id", "doc_id", "is_false_negative").unique()
        counts[RULE_RERANKERS, PAIRS_UNIT] = pairs.height
        counts[RULE_JUDGES, PAIRS_UNIT] = pairs.filter("is_false_negative").height
    kept: dict[str, dict[str, int]] = {}
    for row in fact.shift.iter_rows(named=True) if fact.shift is not None else ():
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


def reranker_table(table: pl.DataFrame) -> Table:
    """Return what each reranker alone would have kept by position; RERANKER_TABLE rows."""
    n = pl.col("n")
    counted = table.with_columns(
        share=n / n.first().over("reranker"),
        **{f"share_{p}": pl.when(n > 0).then(pl.col(f"n_{p}") / n) for p in POSITIONS},
    )
    rows = text_rows(
        counted,
        "reranker",
        lambda row: "shown" if row["threshold"] is None else f"lead ≥ {row['threshold']:g}",
        *(
            lambda row, a=a, b=b: _with_share(row[a], row[b])
            for a, b in (("n", "share"), *((f"n_{p}", f"share_{p}") for p in POSITIONS))
        ),
    )
    header = ("reranker", "condition", "kept", *POSITIONS)
    return Table("What one reranker alone would have kept", header, rows, note=ALONE_NOTE)


def cell_table(table: pl.DataFrame, *, threshold: float | None, unit: str) -> Table | None:
    """Return the pool of one threshold by length bin and position, as in Controlled's Table 8.

    ``table`` holds CELL_TABLE rows; without a pool there is no table. ``threshold`` is that of the
    run; None, or one the table does not have, takes the highest. ``unit`` is what the bins count;
    published figures stand beside where bins and unit are the same.
    """

    def cells(row: Row) -> tuple[str, ...]:
        return tuple(count(row[name]) for name in (*counts, "budget"))

    pools = table.filter(pl.col("threshold").is_not_null())
    if pools.is_empty():
        return None
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
        return _beside(title, head, names, names, rows, source, f"{note} {CAVEAT}")
    other = f"The bins of {published.source} are others, so its figures do not stand beside."
    return Table(title, (*head, *names), tuple(rows), n_names=1, note=f"{note} {other}")


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


def savings_table(savings: pl.DataFrame) -> Table:
    """Return scorings made and saved per step and scorer; ``savings`` are SCORING_SAVINGS rows."""
    rows = text_rows(
        savings,
        "rule",
        lambda row: "all of the step" if row["scorer"] == "all" else row["scorer"],
        *each(count, "n_complete", "n_scored", "n_saved"),
        lambda row: percent(row["n_saved"] / row["n_complete"] if row["n_complete"] else None),
    )
    header = ("step", "scorer", "if everything is scored", "made", "saved", "saved, share")
    return Table("Scorings saved", header, rows, note=SAVINGS_NOTE)


def mixture_table(cells: pl.DataFrame) -> Table:
    """Return what each training configuration draws; ``cells`` are MIXTURE_CELLS rows."""
    rows = []
    for (name,), mine in cells.group_by("configuration", maintain_order=True):
        drawn = dict(mine.group_by("target_position").agg(pl.col("n_drawn").sum()).iter_rows())
        per_bin = sorted(set(mine.group_by("length_bin").agg(pl.col("n_drawn").sum())["n_drawn"]))
        parts = [int(drawn.get(position, 0)) for position in POSITIONS]
        ends = " to ".join(count(n) for n in dict.fromkeys((per_bin[0], per_bin[-1])))
        rows.append((str(name), *map(count, parts), count(sum(parts)), ends))
    header = ("configuration", *POSITIONS, "queries", "per length bin")
    return Table("Training mixtures", header, tuple(rows), n_names=1, note=MIXTURE_NOTE)


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


def shift_figure(shift: pl.DataFrame, anchor: str) -> FigureView | None:
    """Draw the share of each position before and after every stage, with what it means in words.

    ``shift`` are POSITION_SHIFT rows; ``anchor`` is the figure's id on the page. What enters a
    stage is drawn where it is not what the stage before it kept. None where no stage has items
    with a position.
    """
    stages = [stage for stage in _stages(shift) if stage["before"] is not None]
    if not stages:
        return None
    bars: list[tuple[str, tuple[float, ...], str]] = []
    rows: list[tuple[str, ...]] = []
    last = None
    for stage in stages:
        name, before, after = stage["stage"], stage["before"], stage["after"]
        if before != last:
            bars.append((f"before {name}", before, ""))
            rows.append(
                (bars[-1][0], *_shares(before), count(stage["n_entered"]), MISSING, MISSING)
            )
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
    caption = " ".join(shift_sentences(shift))
    text = f"share of the {stages[0]['unit']} by target position"
    return FigureView.drawn(
        draw_stacks(bars, POSITION_STYLES, x_text=text),
        anchor,
        SHIFT_TITLE,
        caption,
        legend=tuple(zip(POSITIONS, POSITION_STYLES, strict=True)),
        header=("", *POSITIONS, "items", "moved", "p"),
        rows=tuple(rows),
    )


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
