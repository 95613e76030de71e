"""Rerankers filter the candidates: agreement, span necessity or margin, and what each of them is.

- ``agreement`` (PosQ, appendix A.2, stage 1a): every reranker puts the target third of the document
  first.
- ``necessity`` (PosIR, section 2.3): every reranker scores the document above itself without the
  span.
- ``margin`` (Controlled, section 3.1.3 and B.1): m = min over rerankers of (score of the target -
  best score of another third), kept if m >= threshold.

What the papers leave open, and the choice made here. A tie is no first place and shows no need of a
span (taking the first maximum would favour the beginning, the very effect under study); for margins
equality passes, at threshold 0 a tie too, as in the paper's formula, compared exactly in float64:
0.7 - 0.4 is a little below 0.3 there and fails 0.3. A query with several targets (Myopic tags)
passes if the best of them leads. A query with nothing to compare is dropped: no target or all
three, a part without text.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar, Literal

import polars as pl
from pydantic import AfterValidator, Field

from psibench.config.base import Id, refuse_repeats, refuse_reserved
from psibench.errors import InputError
from psibench.filters.decide import (
    DECISIONS,
    EMPTY_SEGMENT,
    MARGIN_BELOW,
    PART_TEXT,
    RAW_TEXT,
    SCORE_TEXT,
    SCORING_SAVINGS,
    SPAN_IS_DOCUMENT,
    SPAN_NOT_NEEDED,
    SPAN_PARTS,
    TARGET_NOT_FIRST,
    FilterSection,
    FlowStep,
    Outputs,
    all_parts,
    as_table,
    candidate_facts,
    count_savings,
    evidence_targets,
    incomparable_reason,
    kept_items,
    ledger_rows,
    make_decisions,
    target_parts,
    write_ledger,
)
from psibench.filters.mixtures import (
    RULE_BALANCE,
    balance_positions,
    read_length_bins,
)
from psibench.tables import read_table, write_table
from psibench.tables.build_schemas import CANDIDATES
from psibench.tables.derived import derived, read_all
from psibench.tables.domains import TablePath
from psibench.tables.schemas import DOCUMENTS
from psibench.tables.spec import BOOL, FLOAT64, INT64, STRING, Column, TableSpec
from psibench.tables.stage import stage
from psibench.text.segments import POSITIONS

MARGIN_THRESHOLDS = (0.0, 0.1, 0.2, 0.3)  # Controlled, table 6
NO_TEXT = {False: EMPTY_SEGMENT, True: SPAN_IS_DOCUMENT}
"""Reason to drop a query of which a part has no text; whether the parts are those of its span."""

# Config.

Panel = Annotated[list[Id], AfterValidator(refuse_repeats), AfterValidator(refuse_reserved)]


class VerifySection(FilterSection):
    """What the verification of every recipe has."""

    flow_step = 10  # balancing has the one after

    rule: str
    rerankers: Panel = Field(min_length=1)
    """Ids of config/rerankers.yaml or of your own `rerankers`, the cheapest first: a query that
    fails under one of them is not shown to the next."""
    complete: bool = False
    """Score every query with every reranker, whether or not it is decided already: for studies of
    thresholds and of rerankers. The queries kept are the same."""
    balance: bool = False
    """Then downsample every position to the smallest one."""
    seed: int = Field(default=42, ge=0)
    """Seed of the downsampling."""

    rule_label: ClassVar[str]
    """Name of the rule in decisions and in the ledger."""
    parts: ClassVar[tuple[str, ...]] = POSITIONS
    """Parts of the document that are scored, of those `part_text` knows."""
    failure_code: ClassVar[str] = TARGET_NOT_FIRST
    """Reason code of a lead that is not enough."""

    @property
    def passes(self) -> pl.Expr:
        """Whether a ``lead`` is enough; where it is not, no further reranker is asked."""
        return pl.col("lead") > 0

    @property
    def drop_reason(self) -> pl.Expr:
        """Reason code of a query by its deciding ``lead``; null where it is kept."""
        return pl.when(pl.col("lead") <= 0).then(pl.lit(self.failure_code))

    def score_params(self, reranker: str, *, complete: bool = False) -> dict[str, Any]:
        """Return what of the section decides one reranker's scores, as plain data.

        These are the rerankers up to it; with ``complete``, or the section's own, it alone. A
        threshold, balancing and its seed decide no score.
        """
        is_complete = complete or self.complete
        before = [] if is_complete else self.rerankers[: self.rerankers.index(reranker)]
        chosen = self.model_copy(update={"rerankers": [*before, reranker], "complete": is_complete})
        return chosen.model_dump(mode="json", exclude={"balance", "seed"})


class VerifyAgreement(VerifySection):
    """Every reranker puts the target third of the document first (PosQ, appendix A.2)."""

    rule: Literal["agreement"] = "agreement"
    """Without it: the rule of the recipe's paper, agreement for fineweb_posq."""
    balance: bool = True
    """Then downsample every position to the smallest one."""

    rule_label = "agreement"


class VerifyNecessity(VerifySection):
    """Every reranker scores the document higher with the evidence than without (PosIR, 2.3)."""

    rule: Literal["necessity"] = "necessity"
    """Without it: the rule of the recipe's paper, necessity for posir."""

    rule_label = "span_necessity"
    parts = SPAN_PARTS
    failure_code = SPAN_NOT_NEEDED


class VerifyMargin(VerifySection):
    """Every reranker puts the target third ahead by a margin (Controlled, section 3.1.3)."""

    rule: Literal["margin"] = "margin"
    """Without it: the rule of the recipe's paper, margin for controlled."""
    threshold: float = Field(default=0.3, ge=-1, le=1)
    """Smallest lead of the target over the best other third, in scores from 0 to 1. A change
    scores nothing again."""

    rule_label = "margin"

    @property
    def floor(self) -> float:
        """Lead below which no further reranker is asked: 0 or the threshold; none is below -1.

        0 is the lowest threshold of the margin table.
        """
        return -1.0 if self.complete else min(0.0, self.threshold)

    @property
    def passes(self) -> pl.Expr:
        """Whether a ``lead`` reaches the floor."""
        return pl.col("lead") >= self.floor

    @property
    def drop_reason(self) -> pl.Expr:
        """Reason code of a query by its margin, the deciding ``lead``; null where it is kept."""
        lead = pl.col("lead")
        reason = pl.when(lead < 0).then(pl.lit(TARGET_NOT_FIRST)).otherwise(pl.lit(MARGIN_BELOW))
        return pl.when(lead < self.threshold).then(reason)

    def score_params(self, reranker: str, *, complete: bool = False) -> dict[str, Any]:
        """Return what decides one reranker's scores: the floor in place of the threshold."""
        made = super().score_params(reranker, complete=complete)
        return made | {"threshold": 0.0 if made["complete"] else self.floor}


Verify = Annotated[VerifyAgreement | VerifyNecessity | VerifyMargin, Field(discriminator="rule")]


# Tables.

SEGMENT_SCORES = TableSpec(
    "segment_scores",
    (
        Column("query_id", STRING, "query id"),
        Column("reranker", STRING, "reranker id"),
        Column("part", STRING, PART_TEXT),
        Column("score", FLOAT64, SCORE_TEXT, True),
        Column("raw", FLOAT64, RAW_TEXT, True),
    ),
    key=("query_id", "reranker", "part"),
)

MARGINS = TableSpec(
    "margins",
    (
        Column("query_id", STRING, "query id"),
        Column("margin", FLOAT64, "consensus margin in [-1, 1]; null if there is none", True),
        Column("reranker", STRING, "least favourable reranker, the first of equal ones", True),
        Column("is_exact", BOOL, "false where margin is null or, scoring having stopped, a bound"),
        Column("reason", STRING, "why there is no margin; empty if there is one"),
    ),
    key=("query_id",),
)

_CONDITION = (
    Column(
        "condition", STRING, "all, no_margin, failed (below the lowest threshold), m>=threshold"
    ),
    Column("threshold", FLOAT64, "threshold of the condition", True),
)

MARGIN_TABLE = TableSpec(
    "margin_table",
    (
        *_CONDITION,
        Column("n", INT64, "queries that meet the condition"),
        Column("share", FLOAT64, "their share of all queries; null if there is none", True),
        *(Column(f"n_{name}", INT64, f"of them, with target {name}") for name in POSITIONS),
        *(Column(f"share_{name}", FLOAT64, f"n_{name} / n", True) for name in POSITIONS),
    ),
    key=("condition",),
)

RERANKER_TABLE = TableSpec(
    "reranker_table",
    (
        Column("reranker", STRING, "reranker id"),
        Column("condition", STRING, "shown (scored whole), lead>=threshold"),
        *MARGIN_TABLE.columns[1:2],
        Column("n", INT64, "queries that meet the condition under this reranker alone"),
        Column("share", FLOAT64, "their share of those shown to it; null if there is none", True),
        *MARGIN_TABLE.columns[4:],
    ),
    key=("reranker", "condition"),
)

CELL_TABLE = TableSpec(
    "cell_table",
    (
        *_CONDITION,
        Column("length_bin", STRING, "length bin, or all"),
        *(
            Column(f"n_{name}", INT64, f"queries that meet the condition, with target {name}")
            for name in POSITIONS
        ),
        Column("budget", INT64, "smallest cell of the condition; in the row all, times bins", True),
    ),
    key=("condition", "length_bin"),
)

# The rules.


def target_leads(
    scores: pl.DataFrame, targets: pl.DataFrame, *, rerankers: Sequence[str], parts: Sequence[str]
) -> pl.DataFrame:
    """Compute how far the best target part of a query leads its best other part.

    ``scores`` are SEGMENT_SCORES rows; those of other queries, rerankers and parts are ignored.
    ``targets`` has ``query_id`` and ``targets``; a query with nothing to compare has no row.
    Returns a row per query and reranker that scored it: ``query_id``, ``reranker``, ``number`` (of
    the reranker), and ``lead``, null where a part has no text.
    """
    panel = pl.DataFrame({"reranker": rerankers}, {"reranker": pl.String}).with_row_index("number")
    score, is_target = pl.col("score"), pl.col("targets").list.contains(pl.col("part"))
    lead = score.filter(is_target).max() - score.filter(~is_target).max()
    return (
        scores.filter(pl.col("part").is_in(parts))
        .join(targets.filter(incomparable_reason(parts).is_null()), on="query_id")
        .join(panel, on="reranker")
        .group_by("query_id", "reranker", "number")
        .agg(lead=pl.when(score.null_count() == 0).then(lead))
    )


def deciding_leads(
    scores: pl.DataFrame,
    targets: pl.DataFrame,
    passes: pl.Expr,
    *,
    rerankers: Sequence[str],
    parts: Sequence[str],
) -> pl.DataFrame:
    """Find the lead that decides on each query: under the first reranker it fails, or the least.

    ``passes`` says whether a ``lead`` is enough; a query without one fails. Of equal least leads it
    is that of the first reranker. Other arguments are those of `target_leads`. Returns a row per
    query, in order of ``targets``: ``query_id, number, reranker, lead, passes``, and ``reason``,
    why there is no lead. Where there is nothing to compare no reranker is named.

    Raises
    ------
    InputError
        If a reranker has not scored a query that passes under the others.
    """
    leads = target_leads(scores, targets, rerankers=rerankers, parts=parts)
    leads = leads.with_columns(passes=passes.fill_null(False))
    failed = leads.filter(~pl.col("passes")).sort("number").unique("query_id", keep="first")
    passed = leads.join(failed, on="query_id", how="anti")
    nothing, without_text = incomparable_reason(parts), pl.lit(NO_TEXT[parts == SPAN_PARTS])
    n_passed = targets.select(nothing.is_null().sum()).item() - failed.height
    if passed.height != n_passed * len(rerankers):
        raise InputError(
            f"{n_passed} queries fail under none of the rerankers {', '.join(rerankers)} and need "
            f"{n_passed * len(rerankers)} leads; found {passed.height}. Score them again."
        )
    least = passed.sort("lead", "number").unique("query_id", keep="first")
    found = targets.join(
        pl.concat([failed, least]), on="query_id", how="left", maintain_order="left"
    )
    reason = pl.coalesce(nothing, pl.when(pl.col("lead").is_null()).then(without_text))
    return found.with_columns(pl.col("passes").fill_null(False), reason=reason)


def consensus_margins(
    scores: pl.DataFrame, targets: pl.DataFrame, *, rerankers: Sequence[str], floor: float = -1
) -> pl.DataFrame:
    """Compute the consensus margin of every query, its least lead over the panel: MARGINS rows.

    A query stops at the first reranker under which its lead is below ``floor``; that lead is its
    margin, an upper bound of the exact one (``is_exact`` false). No count at thresholds of
    ``floor`` or more changes; no lead is below -1. ``scores`` and ``targets`` are as in
    `target_leads`.
    """
    lead = pl.col("lead")
    found = deciding_leads(scores, targets, lead >= floor, rerankers=rerankers, parts=POSITIONS)
    is_last = pl.col("number") == len(rerankers) - 1
    margins = found.with_columns(
        margin=lead,
        is_exact=lead.is_not_null() & (pl.col("passes") | is_last),
        reason=pl.col("reason").fill_null(""),
    )
    return as_table(MARGINS, margins)


def decide_verify(
    section: VerifySection, scores: pl.DataFrame, candidates: pl.DataFrame
) -> pl.DataFrame:
    """Decide by the section's rule: DECISIONS rows, one per candidate, in their order.

    ``score`` is the target's lead over the best other part: under the reranker that dropped the
    query, or the smallest of the panel.
    """
    found = deciding_leads(
        scores,
        target_parts(candidates, section.parts),
        section.passes,
        rerankers=section.rerankers,
        parts=section.parts,
    )
    named = found.rename({"query_id": "item_id", "reranker": "decided_by"})
    reason = pl.coalesce("reason", section.drop_reason)
    return make_decisions(section.rule_label, named.with_columns(score="lead"), reason)


def pairs_to_score(
    section: VerifySection, scores: pl.DataFrame, candidates: pl.DataFrame
) -> pl.DataFrame:
    """List what the last reranker of the section has to score: what passed under those before it.

    ``section`` is made of `VerifySection.score_params`; ``scores`` has the SEGMENT_SCORES rows of
    all rerankers before the last. Returns ``query_id`` and ``part``, in order of the candidates and
    the parts; every part of every candidate if the section is ``complete``.
    """
    asked, parts = target_parts(candidates, section.parts), section.parts
    if not section.complete:
        asked = asked.filter(incomparable_reason(parts).is_null())
        leads = target_leads(scores, asked, rerankers=section.rerankers[:-1], parts=parts)
        failed = leads.filter(~section.passes.fill_null(False))
        asked = asked.join(failed, on="query_id", how="anti", maintain_order="left")
    return all_parts(asked, parts)


# Counts by threshold and by length bin.

CountCondition = tuple[str, float | None, pl.Expr]
"""One row of a table of thresholds: its label, the threshold, which queries count."""


def margin_conditions(thresholds: Sequence[float]) -> Iterator[CountCondition]:
    """Yield the rows of Controlled's Table 6: all, no_margin, failed, then cumulative pools."""
    margin = pl.col("margin")
    yield "all", None, pl.lit(True)
    yield "no_margin", None, margin.is_null()
    yield "failed", None, margin < thresholds[0]
    for cut in thresholds:
        yield f"m>={cut:g}", cut, margin >= cut


def count_by_position(
    queries: pl.DataFrame, conditions: Sequence[CountCondition]
) -> Iterator[dict[str, Any]]:
    """Count the queries that meet each condition, by target position (Controlled, table 6).

    ``queries`` has ``targets`` and what the conditions read. A query with several targets counts at
    each of them, so shares by position may add up to more than 1 for such data.
    """
    for label, threshold, members in conditions:
        targets = queries.filter(members).get_column("targets")
        n, counts = len(targets), _position_counts(targets)
        row: dict[str, Any] = {"condition": label, "threshold": threshold, "n": n, **counts}
        row |= {"share": n / queries.height if queries.height else None}
        yield row | {f"share_{p}": counts[f"n_{p}"] / n if n else None for p in POSITIONS}


def _position_counts(targets: pl.Series) -> dict[str, int]:
    return {f"n_{name}": int(targets.list.contains(name).sum()) for name in POSITIONS}


def count_by_reranker(
    scores: pl.DataFrame,
    targets: pl.DataFrame,
    *,
    rerankers: Sequence[str],
    thresholds: Sequence[float],
) -> pl.DataFrame:
    """Count what one reranker alone would have kept, by target position: RERANKER_TABLE rows.

    Whether a panel's preference for a position is its own or of one of them: Controlled's panel
    keeps 69.75 % beginnings of candidates that are a third each (table 6). A reranker counts the
    queries that it was shown; where scoring stops at the first failure, those after the first are
    shown what the ones before left.
    """
    leads = target_leads(scores, targets, rerankers=rerankers, parts=POSITIONS)
    known = leads.drop_nulls("lead").join(targets, on="query_id")
    conditions: list[CountCondition] = [("shown", None, pl.lit(True))]
    conditions += [(f"lead>={cut:g}", cut, pl.col("lead") >= cut) for cut in thresholds]
    rows = [
        {"reranker": name, **row}
        for name in rerankers
        for row in count_by_position(known.filter(reranker=name), conditions)
    ]
    return as_table(RERANKER_TABLE, rows)


def count_by_cell(
    queries: pl.DataFrame, conditions: Sequence[CountCondition], *, length_bins: Sequence[str]
) -> pl.DataFrame:
    """Count the queries in every cell of length bin and position (Controlled, table 8).

    ``queries`` has ``targets``, ``length_bin`` and what the conditions read.

    Returns
    -------
    CELL_TABLE rows: per condition one row per bin, in their order, and then ``all``. ``budget`` is
    the smallest cell of a filtered pool, per bin, and the sum over bins in the row all; null for
    the others.
    """
    rows = []
    for label, threshold, members in conditions:
        chosen = queries.filter(members)
        cells = {
            name: _position_counts(chosen.filter(length_bin=name)["targets"])
            for name in length_bins
        }
        smallest = min(n for counts in cells.values() for n in counts.values())
        is_pool = threshold is not None or label == "kept"
        every = chosen.filter(pl.col("length_bin").is_in(length_bins))
        cells["all"] = _position_counts(every["targets"])
        for name, counts in cells.items():
            budget = smallest * len(length_bins) if name == "all" else smallest
            row: dict[str, Any] = {"condition": label, "threshold": threshold, "length_bin": name}
            rows.append({**row, **counts, "budget": budget if is_pool else None})
    return as_table(CELL_TABLE, rows)


# The stage.


@stage("verify", version=2, each="domains")
def run_verify(
    section: Verify,
    *,
    place: FlowStep,
    documents: TablePath,
    sampling: TablePath,
    candidates: TablePath,
    scores: Sequence[TablePath],
    outputs: Outputs,
) -> None:
    """Decide on every candidate and write those kept, the decisions, the dropped, the counts.

    Balancing has the place after that of the rule; ``scores`` are the rerankers' tables, in their
    order. ``outputs`` are rows, decisions, savings, dropped, flow; for margins also margins,
    margin_table (Controlled, table 6), reranker_table and cell_table (table 8). A query with two
    targets (Myopic) counts at both of them in the first two, and in the cell of its single-tag
    position in the last.

    Raises
    ------
    InputError
        If balancing would leave nothing.
    """
    asked, scored = read_table(candidates, CANDIDATES), read_all(scores, SEGMENT_SCORES)
    facts = candidate_facts(asked, read_table(documents, DOCUMENTS))
    source = derived(
        "verify",
        [candidates, documents, sampling, *scores],
        params=section.model_dump(mode="json"),
    )
    decided = [(section.rule_label, decide_verify(section, scored, asked))]
    if section.balance:
        left = evidence_targets(kept_items(asked, decided[0][1]))
        decided.append((RULE_BALANCE, balance_positions(left, seed=section.seed)))
    ledger = [
        ledger_rows(made, facts, stage=rule, step=place.step + further, unit=place.unit)
        for further, (rule, made) in enumerate(decided)
    ]
    write_ledger(ledger, place, outputs, source)
    savings = count_savings(
        section.rule_label,
        scored,
        asked.select(query_id="_id"),
        scorers=section.rerankers,
        parts=section.parts,
    )
    written = {
        "decisions": (pl.concat(made for _, made in decided), DECISIONS),
        "savings": (savings, SCORING_SAVINGS),
    }
    if isinstance(section, VerifyMargin):
        tables = _margin_tables(section, scored, asked, facts, read_length_bins(sampling))
        written |= tables
        known = tables["margins"][0].select("margin", _id="query_id")
        asked = asked.join(known, on="_id", how="left", maintain_order="left")
    for _, made in decided:
        asked = kept_items(asked, made)
    for name, (frame, spec) in (written | {"rows": (asked, CANDIDATES)}).items():
        write_table(frame, outputs[name], spec, provenance=source)


def _margin_tables(
    section: VerifyMargin,
    scores: pl.DataFrame,
    candidates: pl.DataFrame,
    facts: pl.DataFrame,
    length_bins: Sequence[str],
) -> dict[str, tuple[pl.DataFrame, TableSpec]]:
    """Make the tables that only the rule ``margin`` has, by the names of the outputs."""
    targets, panel = evidence_targets(candidates), section.rerankers
    margins = consensus_margins(scores, targets, rerankers=panel, floor=section.floor)
    known = margins.select("margin", "query_id")
    thresholds = sorted({*MARGIN_THRESHOLDS, section.threshold})
    pools = list(margin_conditions(thresholds))
    by_position = count_by_position(known.join(targets, on="query_id"), pools)
    by_reranker = count_by_reranker(scores, targets, rerankers=panel, thresholds=thresholds)
    in_cells = evidence_targets(facts).join(known, on="query_id")
    return {
        "margins": (margins, MARGINS),
        "margin_table": (as_table(MARGIN_TABLE, by_position), MARGIN_TABLE),
        "reranker_table": (by_reranker, RERANKER_TABLE),
        "cell_table": (count_by_cell(in_cells, pools, length_bins=length_bins), CELL_TABLE),
    }
