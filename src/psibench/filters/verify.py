"""Stage `verify`: keep the candidates that a panel of rerankers confirms, by one of three rules.

- ``agreement`` (PosQ, appendix A.2, stage 1a): every reranker gives the target third of the
  document the highest score.
- ``necessity`` (PosIR, section 2.3): every reranker scores the document higher than the document
  without the evidence span.
- ``margin`` (Controlled, section 3.1.3 and B.1): m = min over rerankers of (score of the target -
  best score of another third); a candidate is kept if m >= threshold.

A *lead* is the score of a query's target minus the best score of another part, under one reranker.
Every rule requires a large enough lead. The papers leave some cases open; psibench decides them as
follows:

- A tie fails agreement and necessity: taking the first maximum would favour the beginning, the very
  effect under study. A margin equal to the threshold passes, as in the paper's formula, so a tie
  passes threshold 0. Leads are compared exactly in float64: 0.7 - 0.4 is slightly below 0.3 and
  fails threshold 0.3.
- If a query has several targets (Myopic tags), its lead is the lead of the best target.
- A query that cannot be compared is dropped: it has no target, all three thirds are targets, or a
  part has no text.
"""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

import polars as pl
from pydantic import AfterValidator, Field

from psibench.config.base import RerankerId, refuse_repeats, refuse_reserved
from psibench.filters.decide import (
    EMPTY_SEGMENT,
    MARGIN_BELOW,
    PART_TEXT,
    RAW_TEXT,
    SCORE_TEXT,
    SPAN_IS_DOCUMENT,
    SPAN_NOT_NEEDED,
    SPAN_PARTS,
    TARGET_NOT_FIRST,
    Filtered,
    FilterSection,
    Rule,
    all_parts,
    as_table,
    candidate_facts,
    evidence_targets,
    incomparable_reason,
    kept_items,
    make_decisions,
    run_filter,
    target_parts,
)
from psibench.filters.margin_counts import (
    CELL_TABLE,
    MARGIN_TABLE,
    count_by_cell,
    count_by_position,
    margin_conditions,
)
from psibench.filters.mixtures import RULE_BALANCE, balance_positions, length_bins_of
from psibench.tables.build_schemas import CANDIDATES, SAMPLING
from psibench.tables.dropped import OnEmpty
from psibench.tables.job import DomainJob, Job
from psibench.tables.schemas import DOCUMENTS
from psibench.tables.spec import BOOL, FLOAT64, STRING, Column, TableSpec
from psibench.tables.stage import stage
from psibench.text.segments import POSITIONS

MARGIN_THRESHOLDS = (0.0, 0.1, 0.2, 0.3)  # Controlled, table 6
NO_TEXT_REASON = {POSITIONS: EMPTY_SEGMENT, SPAN_PARTS: SPAN_IS_DOCUMENT}
"""Reason code of a part without text, for each set of parts that a rule compares."""

# Config.

RerankerIds = Annotated[
    list[RerankerId], AfterValidator(refuse_repeats), AfterValidator(refuse_reserved)
]


class VerifySection(FilterSection):
    """Keys of every verification rule."""

    flow_step = 10  # balancing is step 11

    rule: str
    rerankers: RerankerIds = Field(min_length=1)
    """Ids from config/rerankers.yaml or your `rerankers`, the cheapest first: a query that fails
    under one of them is not scored by the next."""
    balance: bool = False
    """After the rule, downsample every position to the size of the smallest."""
    seed: int = Field(default=42, ge=0)
    """Seed of the downsampling."""

    rule_label: ClassVar[str]
    """Name of the rule in decisions and in FLOW."""
    parts: ClassVar[tuple[str, ...]] = POSITIONS
    """Parts of the document that are scored, by the names of `part_text`."""
    failure_code: ClassVar[str] = TARGET_NOT_FIRST
    """Reason code of a query whose target does not lead."""

    @property
    def keeps(self) -> pl.Expr:
        """Whether a ``lead`` is large enough to keep the query."""
        return pl.col("lead") > 0

    @property
    def continues_scoring(self) -> pl.Expr:
        """Whether a ``lead`` is large enough for the next reranker to score the query."""
        return self.keeps

    @property
    def drop_reason(self) -> pl.Expr:
        """Reason code of a query, from the ``lead`` that decides on it; null if it is kept."""
        return pl.when(~self.keeps).then(pl.lit(self.failure_code))

    def score_params(self, reranker: str) -> dict[str, Any]:
        """Return the section's data that decide which queries and parts a reranker scores.

        These are the rule and the rerankers up to this one, without balancing and its seed.
        """
        panel = self.rerankers[: self.rerankers.index(reranker) + 1]
        chosen = self.model_copy(update={"rerankers": panel})
        return chosen.model_dump(mode="json", exclude={"balance", "seed"})


class VerifyAgreement(VerifySection):
    """Every reranker scores the target third of the document highest (PosQ, appendix A.2)."""

    rule: Literal["agreement"] = "agreement"
    """The rule; default: the rule of the recipe's paper, agreement for fineweb_posq."""
    balance: bool = True
    """After the rule, downsample every position to the size of the smallest."""

    rule_label = "agreement"


class VerifyNecessity(VerifySection):
    """Every reranker scores the document higher with the evidence than without (PosIR, 2.3)."""

    rule: Literal["necessity"] = "necessity"
    """The rule; default: the rule of the recipe's paper, necessity for posir."""

    rule_label = "span_necessity"
    parts = SPAN_PARTS
    failure_code = SPAN_NOT_NEEDED


class VerifyMargin(VerifySection):
    """Every reranker puts the target third ahead by a margin (Controlled, section 3.1.3)."""

    rule: Literal["margin"] = "margin"
    """The rule; default: the rule of the recipe's paper, margin for controlled."""
    threshold: float = Field(default=0.3, ge=-1, le=1)
    """Smallest lead of the target over the best other third, in scores from 0 to 1. Changing it
    needs new scores only if the new threshold is below 0."""

    rule_label = "margin"

    @property
    def floor(self) -> float:
        """Smallest lead with which the next reranker scores the query: 0, or a threshold below 0.

        It is never above 0, since the margin table also counts queries at threshold 0.
        """
        return min(0.0, self.threshold)

    @property
    def keeps(self) -> pl.Expr:
        """Whether a reranker's ``lead`` reaches the threshold."""
        return pl.col("lead") >= self.threshold

    @property
    def continues_scoring(self) -> pl.Expr:
        """Whether a reranker's ``lead`` reaches the floor."""
        return pl.col("lead") >= self.floor

    @property
    def drop_reason(self) -> pl.Expr:
        """Reason code of a query, from its margin in ``lead``; null if it is kept."""
        is_behind = pl.col("lead") < 0
        reason = pl.when(is_behind).then(pl.lit(self.failure_code)).otherwise(pl.lit(MARGIN_BELOW))
        return pl.when(~self.keeps).then(reason)

    def score_params(self, reranker: str) -> dict[str, Any]:
        """Return the parameters with the floor as threshold: a higher one changes no scores."""
        return super().score_params(reranker) | {"threshold": self.floor}


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
        Column("margin", FLOAT64, "consensus margin in [-1, 1]; null without a margin", True),
        Column("reranker", STRING, "least favourable reranker; in a tie the first", True),
        Column("is_exact", BOOL, "false if margin is null or an upper bound: scoring ended early"),
        Column("reason", STRING, "why the margin is null; else empty"),
    ),
    key=("query_id",),
)

# The rules.


def target_leads(
    scores: pl.DataFrame, targets: pl.DataFrame, *, rerankers: Sequence[str], parts: Sequence[str]
) -> pl.DataFrame:
    """Return how far the best target part of a query leads its best other part.

    ``scores`` are SEGMENT_SCORES rows; rows of other queries, rerankers and parts are ignored.
    ``targets`` has ``query_id`` and ``targets``; a query that cannot be compared gets no row.
    Returns a row per query and reranker that scored it: ``query_id``, ``reranker``,
    ``reranker_index``, and ``lead``, null if a part has no text.
    """
    names = pl.DataFrame({"reranker": rerankers}, {"reranker": pl.String})
    panel = names.with_row_index("reranker_index")
    score, is_target = pl.col("score"), pl.col("targets").list.contains(pl.col("part"))
    lead = score.filter(is_target).max() - score.filter(~is_target).max()
    return (
        scores.filter(pl.col("part").is_in(parts))
        .join(targets.filter(incomparable_reason(parts).is_null()), on="query_id")
        .join(panel, on="reranker")
        .group_by("query_id", "reranker", "reranker_index")
        .agg(lead=pl.when(score.null_count() == 0).then(lead))
    )


def deciding_leads(
    section: VerifySection, scores: pl.DataFrame, targets: pl.DataFrame
) -> pl.DataFrame:
    """Return the lead that decides on each query, by the section's rule.

    Scoring of a query stops at the first reranker under which its lead is null or too small to
    continue; that lead decides. If no reranker stops it, the smallest lead decides, in a tie the
    first. ``scores`` and ``targets`` are as in `target_leads`. Returns a row per query, in order of
    ``targets``: ``query_id, reranker_index, reranker, lead, continues`` (false if scoring stopped),
    and ``reason``, why the lead is null. A query that cannot be compared also has no reranker.
    """
    parts, continues = section.parts, section.continues_scoring.fill_null(False)
    leads = target_leads(scores, targets, rerankers=section.rerankers, parts=parts)
    leads = leads.with_columns(continues=continues)
    stopped = leads.filter(~pl.col("continues")).sort("reranker_index")
    stopped = stopped.unique("query_id", keep="first")
    passed = leads.join(stopped, on="query_id", how="anti")
    smallest = passed.sort("lead", "reranker_index").unique("query_id", keep="first")
    decided = targets.join(
        pl.concat([stopped, smallest]), on="query_id", how="left", maintain_order="left"
    )
    no_text = pl.when(pl.col("lead").is_null()).then(pl.lit(NO_TEXT_REASON[parts]))
    return decided.with_columns(
        pl.col("continues").fill_null(False),
        reason=pl.coalesce(incomparable_reason(parts), no_text),
    )


def consensus_margins(section: VerifySection, deciding: pl.DataFrame) -> pl.DataFrame:
    """Return MARGINS rows: each query's consensus margin, its smallest lead over the panel.

    ``deciding`` has the rows of `deciding_leads`. If a lead is below the section's floor, scoring
    stops and that lead becomes the margin, an upper bound of the exact one (``is_exact`` is false
    unless this reranker is the last). Both are below the floor, so counts at thresholds from the
    floor on are exact.
    """
    lead, is_last = pl.col("lead"), pl.col("reranker_index") == len(section.rerankers) - 1
    margins = deciding.with_columns(
        margin=lead,
        is_exact=lead.is_not_null() & (pl.col("continues") | is_last),
        reason=pl.col("reason").fill_null(""),
    )
    return as_table(MARGINS, margins)


def decide_verify(section: VerifySection, deciding: pl.DataFrame) -> pl.DataFrame:
    """Return DECISIONS rows by the section's rule, one per row of ``deciding`` and in its order.

    ``deciding`` has the rows of `deciding_leads`. ``score`` is the lead that decided,
    ``decided_by`` its reranker.
    """
    renamed = deciding.rename({"query_id": "item_id", "reranker": "decided_by"})
    reason = pl.coalesce("reason", section.drop_reason)
    return make_decisions(renamed.with_columns(score="lead"), reason)


def parts_to_score(
    section: VerifySection, scores: pl.DataFrame, candidates: pl.DataFrame
) -> pl.DataFrame:
    """Return the parts of queries that the section's last reranker has to score.

    These are the queries that no earlier reranker stopped. ``section`` comes from
    `VerifySection.score_params`; ``scores`` has the SEGMENT_SCORES rows of the earlier rerankers.
    Returns ``query_id`` and ``part``, in order of the candidates and the parts.
    """
    targets, parts = target_parts(candidates, section.parts), section.parts
    targets = targets.filter(incomparable_reason(parts).is_null())
    leads = target_leads(scores, targets, rerankers=section.rerankers[:-1], parts=parts)
    stopped = leads.filter(~section.continues_scoring.fill_null(False))
    return all_parts(targets.join(stopped, on="query_id", how="anti", maintain_order="left"), parts)


# The stage.


@stage("verify", version=3)
def run_verify(job: Job) -> None:
    """Decide on every candidate; write the kept ones, the dropped ones, and the counts.

    Inputs: ``candidates``, ``documents``, ``sampling``, and ``scores``, the SEGMENT_SCORES of the
    rerankers in order. Outputs: rows, dropped and flow; under the margin rule also margins,
    margin_table (Controlled, table 6) and cell_table (table 8).

    Raises
    ------
    InputError
        If balancing would leave nothing, and ``on_empty`` is fail.
    """
    section = job.section(Verify)
    params = section.model_dump(mode="json")
    run_filter(job, lambda domain: verify(section, domain), params=params)


def verify(section: VerifySection, domain: DomainJob) -> Filtered:
    """Decide on the candidates of a domain, and balance the kept ones if the section requires it.

    A query with two targets (Myopic) counts at both in margin_table; in cell_table it counts only
    at the position of the single-tag rule.
    """
    candidates = domain.read("candidates", CANDIDATES)
    scores = domain.read("scores", SEGMENT_SCORES)
    facts = candidate_facts(candidates, domain.read("documents", DOCUMENTS))
    length_bins = length_bins_of(domain.read("sampling", SAMPLING))
    targets = target_parts(candidates, section.parts)
    deciding = deciding_leads(section, scores, targets)
    rules = [Rule(section.rule_label, decide_verify(section, deciding), facts)]
    kept = kept_items(candidates, rules[0].decisions)
    if section.balance:
        on_empty = domain.job.value("on_empty", OnEmpty, default="fail")
        balanced = balance_positions(evidence_targets(kept), seed=section.seed, on_empty=on_empty)
        rules.append(Rule(RULE_BALANCE, balanced, facts))
        kept = kept_items(kept, balanced)
    tables: dict[str, tuple[pl.DataFrame, TableSpec]] = {}
    if isinstance(section, VerifyMargin):
        margins = consensus_margins(section, deciding)
        margin = margins.select("margin", "query_id")
        conditions = list(margin_conditions(sorted({*MARGIN_THRESHOLDS, section.threshold})))
        counts = count_by_position(margin.join(targets, on="query_id"), conditions)
        one_target = evidence_targets(facts).join(margin, on="query_id")
        cells = count_by_cell(one_target, conditions, length_bins=length_bins)
        tables = {
            "margins": (margins, MARGINS),
            "margin_table": (as_table(MARGIN_TABLE, counts), MARGIN_TABLE),
            "cell_table": (cells, CELL_TABLE),
        }
        by_id = margin.rename({"query_id": "_id"})
        kept = kept.join(by_id, on="_id", how="left", maintain_order="left")
    return Filtered(rules, tables | {"rows": (kept, CANDIDATES)})
