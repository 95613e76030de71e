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
three, a part without text, no number from a reranker.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import polars as pl
from pydantic import AfterValidator, Field, TypeAdapter

from psibench.config.base import Id, refuse_repeats, refuse_reserved
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
    Outputs,
    Place,
    all_parts,
    as_table,
    candidate_facts,
    count_savings,
    evidence_targets,
    first_failure,
    kept_items,
    ledger_rows,
    make_decisions,
    span_targets,
    target_leads,
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

# Config.

Panel = Annotated[list[Id], AfterValidator(refuse_repeats), AfterValidator(refuse_reserved)]


class VerifySection(FilterSection):
    """What the verification of every recipe has."""

    place = 10  # balancing has the one after

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

    stage: ClassVar[str]
    """Name of the rule in decisions and in the ledger."""
    parts: ClassVar[tuple[str, ...]] = POSITIONS
    """Parts of the document that are scored, of those `part_text` knows."""
    failed: ClassVar[str] = TARGET_NOT_FIRST
    """Reason code of a lead that is not enough."""

    def items(self, candidates: pl.DataFrame) -> pl.DataFrame:
        """List ``query_id`` and ``targets``: the parts of the document that have to lead."""
        return evidence_targets(candidates)

    @property
    def passes(self) -> pl.Expr:
        """Whether a ``lead`` is enough; where it is not, no further reranker is asked."""
        return pl.col("lead") > 0

    def scoring(self, reranker: str, *, complete: bool = False) -> dict[str, Any]:
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

    stage = "agreement"


class VerifyNecessity(VerifySection):
    """Every reranker scores the document higher with the evidence than without (PosIR, 2.3)."""

    rule: Literal["necessity"] = "necessity"
    """Without it: the rule of the recipe's paper, necessity for posir."""

    stage = "span_necessity"
    parts = SPAN_PARTS
    failed = SPAN_NOT_NEEDED

    def items(self, candidates: pl.DataFrame) -> pl.DataFrame:
        """List ``query_id`` and ``targets``: the document."""
        return span_targets(candidates)


class VerifyMargin(VerifySection):
    """Every reranker puts the target third ahead by a margin (Controlled, section 3.1.3)."""

    rule: Literal["margin"] = "margin"
    """Without it: the rule of the recipe's paper, margin for controlled."""
    threshold: float = Field(default=0.3, ge=-1, le=1)
    """Smallest lead of the target over the best other third, in scores from 0 to 1. A change
    scores nothing again."""

    stage = "margin"

    @property
    def floor(self) -> float | None:
        """Margin below which no further reranker is asked; None where all are.

        It is 0, the lowest threshold of the margin table, or the threshold below it.
        """
        return None if self.complete else min(0.0, self.threshold)

    @property
    def passes(self) -> pl.Expr:
        """Whether a ``lead`` reaches the floor; the threshold is applied to margins."""
        return reaches(self.floor)

    def scoring(self, reranker: str, *, complete: bool = False) -> dict[str, Any]:
        """Return what decides one reranker's scores: the floor in place of the threshold."""
        made = super().scoring(reranker, complete=complete)
        return made | {"threshold": 0.0 if made["complete"] else self.floor}


Verify = Annotated[VerifyAgreement | VerifyNecessity | VerifyMargin, Field(discriminator="rule")]


def read_section(params: Mapping[str, Any]) -> VerifyAgreement | VerifyNecessity | VerifyMargin:
    """Return a section from a rule's parameters."""
    section: VerifyAgreement | VerifyNecessity | VerifyMargin = TypeAdapter(Verify).validate_python(
        params
    )
    return section


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


def reaches(floor: float | None) -> pl.Expr:
    """Whether a ``lead`` is ``floor`` or more; without a floor every lead is enough."""
    return pl.lit(True) if floor is None else pl.col("lead") >= floor


def consensus_margins(
    scores: pl.DataFrame,
    items: pl.DataFrame,
    *,
    rerankers: Sequence[str],
    floor: float | None = None,
) -> pl.DataFrame:
    """Compute the consensus margin of every query, its least lead over the panel: MARGINS rows.

    Parameters
    ----------
    scores
        SEGMENT_SCORES rows; those of other queries, parts and rerankers are left aside.
    items
        ``query_id`` and ``targets`` of the queries to compute it for.
    floor
        None: every score is needed and every margin exact. A number: a query stops at the first
        reranker under which its lead is below ``floor``; that lead is its margin, an upper bound
        of the exact one (``is_exact`` false). No count at thresholds of ``floor`` or more changes.

    Raises
    ------
    InputError
        If a score is missing that is needed.
    """
    leads = target_leads(scores, items, rerankers=rerankers, parts=POSITIONS)
    found = first_failure(leads, reaches(floor))
    is_last = pl.col("place") == len(rerankers) - 1
    margins = found.select(
        "query_id",
        "reranker",
        margin="lead",
        is_exact=pl.col("lead").is_not_null() & (~pl.col("fails") | is_last),
        reason=pl.col("unknown").fill_null(""),
    )
    return as_table(MARGINS, margins)


def decide_margin(margins: pl.DataFrame, *, threshold: float) -> pl.DataFrame:
    """Keep the queries whose consensus margin is ``threshold`` or more: DECISIONS rows.

    ``score`` is the margin. Reasons: those of a missing margin, target_not_first (below 0),
    margin_below_threshold. Margins made with a floor above the threshold do not do.
    """
    margin = pl.col("margin")
    reason = (
        pl.when(margin.is_null())
        .then("reason")
        .when(margin >= threshold)
        .then(pl.lit(""))
        .when(margin < 0)
        .then(pl.lit(TARGET_NOT_FIRST))
        .otherwise(pl.lit(MARGIN_BELOW))
    )
    named = margins.rename({"query_id": "item_id", "margin": "score", "reranker": "decided_by"})
    return make_decisions(VerifyMargin.stage, named.with_columns(margin="score"), reason)


def decide_verify(
    section: VerifySection, scores: pl.DataFrame, candidates: pl.DataFrame
) -> pl.DataFrame:
    """Decide by the section's rule: DECISIONS rows, one per candidate, in their order.

    ``score`` is the target's lead over the best other part: under the reranker that dropped the
    query, or the smallest of the panel.

    Raises
    ------
    InputError
        If a score is missing that decides.
    """
    items, panel = section.items(candidates), section.rerankers
    if isinstance(section, VerifyMargin):
        margins = consensus_margins(scores, items, rerankers=panel, floor=section.floor)
        return decide_margin(margins, threshold=section.threshold)
    leads = target_leads(scores, items, rerankers=panel, parts=section.parts)
    found = first_failure(leads, section.passes)
    why = pl.coalesce("unknown", pl.lit(section.failed))
    if section.parts == SPAN_PARTS:  # what has no text besides the document is what is left of it
        why = why.replace(EMPTY_SEGMENT, SPAN_IS_DOCUMENT)
    named = found.rename({"query_id": "item_id", "lead": "score", "reranker": "decided_by"})
    return make_decisions(section.stage, named, pl.when("fails").then(why))


def wanted_scorings(
    section: VerifySection, scores: pl.DataFrame, candidates: pl.DataFrame
) -> pl.DataFrame:
    """List what the last reranker of the section has to score: what those before it left.

    ``section`` is as `VerifySection.scoring` gives it, ``scores`` has the SEGMENT_SCORES rows of
    all rerankers before the last. Returns ``query_id`` and ``part``, in order of the candidates and
    the parts; every part of every candidate if the section is ``complete``.
    """
    if section.complete:
        return all_parts(candidates, section.parts)
    items, before = section.items(candidates), section.rerankers[:-1]
    left = items.filter(pl.col("targets").list.len().is_between(1, len(section.parts) - 1))
    if before:
        leads = target_leads(scores, left, rerankers=before, parts=section.parts)
        left = first_failure(leads, section.passes).filter(~pl.col("fails"))
    return all_parts(left.select(_id="query_id"), section.parts)


# Counts by threshold and by length bin.

Condition = tuple[str, float | None, pl.Expr]
"""One row of a table of thresholds: its label, the threshold, which queries count."""


def margin_pools(thresholds: Sequence[float]) -> Iterator[Condition]:
    """Yield the rows of Controlled's Table 6: all, no_margin, failed, then cumulative pools."""
    margin = pl.col("margin")
    yield "all", None, pl.lit(True)
    yield "no_margin", None, margin.is_null()
    yield "failed", None, margin < thresholds[0]
    for cut in thresholds:
        yield f"m>={cut:g}", cut, margin >= cut


def count_by_position(
    queries: pl.DataFrame, conditions: Sequence[Condition]
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
    items: pl.DataFrame,
    *,
    rerankers: Sequence[str],
    thresholds: Sequence[float],
) -> pl.DataFrame:
    """Count what one reranker alone would have kept, by target position: RERANKER_TABLE rows.

    Whether a panel's preference for a position is its own or of one of them: Controlled's panel
    keeps 69.75 % beginnings of candidates that are a third each (table 6). A reranker counts the
    queries that it was shown; where scoring stops at the first failure, those after the first are
    shown what the ones before left.

    ``scores`` are SEGMENT_SCORES rows; ``items`` has ``query_id`` and ``targets``.
    """
    leads = target_leads(scores, items, rerankers=rerankers, parts=POSITIONS)
    lead = pl.col("lead")
    conditions: list[Condition] = [("shown", None, pl.lit(True))]
    conditions += [(f"lead>={cut:g}", cut, lead >= cut) for cut in thresholds]
    known = leads.filter(lead.is_not_null())
    rows = [
        {"reranker": name, **row}
        for name in rerankers
        for row in count_by_position(known.filter(reranker=name), conditions)
    ]
    return as_table(RERANKER_TABLE, rows)


def count_by_cell(
    queries: pl.DataFrame, conditions: Sequence[Condition], *, length_bins: Sequence[str]
) -> pl.DataFrame:
    """Count the queries in every cell of length bin and position (Controlled, table 8).

    Parameters
    ----------
    queries
        ``query_id``, ``targets``, ``length_bin`` and what the conditions read.
    length_bins
        The bins in order; a bin without queries has its row of zeros.

    Returns
    -------
    CELL_TABLE rows: per condition one row per bin and then ``all``. ``budget`` is the smallest
    cell of a filtered pool, per bin, and the sum over bins in the row all; null for the others.
    """
    rows = []
    for label, threshold, members in conditions:
        chosen = queries.filter(members)
        cells = [
            _position_counts(chosen.filter(length_bin=name)["targets"]) for name in length_bins
        ]
        is_pool = threshold is not None or label == "kept"
        budget = min(n for cell in cells for n in cell.values()) if is_pool else None
        whole = {key: sum(cell[key] for cell in cells) for key in cells[0]}
        about = {"condition": label, "threshold": threshold}
        rows += [
            about | {"length_bin": name, **cell, "budget": budget}
            for name, cell in zip(length_bins, cells, strict=True)
        ]
        total = None if budget is None else budget * len(length_bins)
        rows.append(about | {"length_bin": "all", **whole, "budget": total})
    return as_table(CELL_TABLE, rows)


# The stage.


@stage("verify", version=2, each="domains")
def run_verify(
    section: Verify,
    *,
    place: Place,
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
        If a score is missing that decides, or balancing would leave nothing.
    """
    asked, scored = read_table(candidates, CANDIDATES), read_all(scores, SEGMENT_SCORES)
    facts = candidate_facts(asked, read_table(documents, DOCUMENTS))
    read = [candidates, documents, sampling, *scores]
    source = derived("verify", read, params=section.model_dump(mode="json"))
    decided = [(section.stage, decide_verify(section, scored, asked))]
    if section.balance:
        left = evidence_targets(kept_items(asked, decided[0][1]))
        decided.append((RULE_BALANCE, balance_positions(left, seed=section.seed)))
    write_ledger(
        (
            ledger_rows(made, facts, stage=rule, step=place.step + further, unit=place.unit)
            for further, (rule, made) in enumerate(decided)
        ),
        place,
        outputs,
        source,
    )
    every = pl.concat(made for _, made in decided)
    write_table(every, outputs["decisions"], DECISIONS, provenance=source)
    savings = count_savings(
        section.stage,
        scored,
        asked.select(query_id="_id"),
        scorers=section.rerankers,
        parts=section.parts,
    )
    write_table(savings, outputs["savings"], SCORING_SAVINGS, provenance=source)
    if isinstance(section, VerifyMargin):
        targets = section.items(asked)
        margins = consensus_margins(
            scored, targets, rerankers=section.rerankers, floor=section.floor
        )
        known = margins.select("margin", "query_id")
        thresholds = sorted({*MARGIN_THRESHOLDS, section.threshold})
        pools = list(margin_pools(thresholds))
        by_position = count_by_position(known.join(targets, on="query_id"), pools)
        by_cell = count_by_cell(
            evidence_targets(facts).join(known, on="query_id"),
            pools,
            length_bins=read_length_bins(sampling),
        )
        write_table(margins, outputs["margins"], MARGINS, provenance=source)
        rows = as_table(MARGIN_TABLE, by_position)
        write_table(rows, outputs["margin_table"], MARGIN_TABLE, provenance=source)
        write_table(by_cell, outputs["cell_table"], CELL_TABLE, provenance=source)
        alone = count_by_reranker(
            scored, targets, rerankers=section.rerankers, thresholds=thresholds
        )
        write_table(alone, outputs["reranker_table"], RERANKER_TABLE, provenance=source)
        asked = asked.join(
            known, left_on="_id", right_on="query_id", how="left", maintain_order="left"
        )
    for _, made in decided:
        asked = kept_items(asked, made)
    write_table(asked, outputs["rows"], CANDIDATES, provenance=source)
