"""False negatives: documents that answer a query and are not labelled as its positive.

- ``fineweb_posq`` (PosQ, appendix A.2, stage 2): a dense model recalls documents; more than half of
  the rerankers score the pair above ``threshold``; then ``needed`` language models grade it
  ``min_grade`` or more. The questions concerned are dropped and all documents stay.
- ``posir`` (PosIR, section 2.3): a recalled document scores above the query's own positive; it
  leaves the corpus with every query whose positive it was.

Comparisons are strict: a score of exactly 0.5, or equal to the positive's, is no vote for the pair.
A score or grade that cannot be used is no vote for it either; the reason unusable_vote marks the
pairs where it might have changed the outcome. Voters are asked in order: a pair is settled by the
vote that makes up the number needed, or that leaves too few for it, and no later one is asked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import polars as pl
from pydantic import AfterValidator, Field, TypeAdapter, model_validator

from psibench.config.base import Id, Section, refuse_repeats
from psibench.errors import InputError
from psibench.filters.decide import (
    ABOVE_POSITIVE,
    JUDGED_RELEVANT,
    MAJORITY_POSITIVE,
    RAW_TEXT,
    SCORE_TEXT,
    UNUSABLE_VOTE,
    as_table,
)
from psibench.filters.grade import document_pairs
from psibench.filters.verify import Panel
from psibench.tables import read_table, write_table
from psibench.tables.build_schemas import GRADES, PAIRS
from psibench.tables.derived import derived, read_all
from psibench.tables.domains import OutputPath, TablePath
from psibench.tables.schemas import CORPUS, QRELS, QUERIES, RUN
from psibench.tables.spec import BOOL, FLOAT64, INT32, STRING, Column, TableSpec
from psibench.tables.stage import stage

RULE_RERANKERS = "majority_of_rerankers"
RULE_JUDGES = "majority_of_judges"
RULE_ABOVE = "above_positive"
PAIR = ["query_id", "doc_id"]

# Config.


class Recall(Section):
    """The first stage that finds documents which might be relevant too."""

    model: Id
    """Id of the model registry: a dense encoder or BM25. It need not be evaluated."""
    top_k: int = Field(default=1000, ge=1)
    """Documents recalled per query (PosQ and PosIR: 1,000)."""


class RerankerPanel(Section):
    """What of both protocols decides the rerankers' scores, and whom they call a candidate."""

    removes_documents: ClassVar[bool] = False
    """Whether documents leave the corpus; else queries do."""

    protocol: str
    rerankers: Panel = Field(min_length=1)
    """Ids of config/rerankers.yaml or of your own `rerankers`, the cheapest first: what is decided
    is not scored by the next."""
    complete: bool = False
    """Score every recalled pair with every reranker, decided or not."""

    def panel(self) -> dict[str, Any]:
        """Return what decides the rerankers' part, as plain data."""
        return self.model_dump(mode="json", exclude={"recall", "evaluate_raw"})

    def scoring(self, reranker: str) -> dict[str, Any]:
        """Return what decides one reranker's scores, as plain data.

        With ``complete`` neither the rule nor the others do.
        """
        if self.complete:
            return {"protocol": self.protocol, "complete": True, "rerankers": [reranker]}
        return self.panel()


class Votes(RerankerPanel):
    """Most rerankers score a pair above a threshold."""

    protocol: Literal["fineweb_posq"]
    threshold: float = Field(default=0.5, ge=0, lt=1)
    """A reranker votes for a pair that it scores above this, from 0 to 1."""


class AbovePositive(RerankerPanel):
    """A document scores above the query's positive."""

    protocol: Literal["posir"]
    under: Literal["any", "all"] = "any"
    """Rerankers under which the document has to score above the positive."""


class FinewebNegatives(Votes):
    """Questions that another document answers too are dropped (PosQ, appendix A.2, stage 2)."""

    recall: Recall
    judges: Annotated[list[Id], AfterValidator(refuse_repeats)] = Field(min_length=1)
    """Language models that grade what most rerankers voted for, the cheapest first."""
    needed: int = Field(default=2, ge=1)
    """Judges that have to grade a pair min_grade or more."""
    min_grade: int = Field(default=3, ge=0, le=4)
    """Lowest grade that counts as relevant."""
    prompt: str | None = None
    """Template of the judges, relative to the working directory; null is the shipped
    config/prompts/grade_relevance.md."""
    evaluate_raw: bool = True
    """Evaluate the benchmark before the removal too, as BENCHMARK-raw."""

    @model_validator(mode="after")
    def _enough_judges(self) -> "FinewebNegatives":
        if self.needed > len(self.judges):
            raise ValueError(f"needed is {self.needed}, but there are {len(self.judges)} judges")
        return self

    def panel(self) -> dict[str, Any]:
        """Return what decides the rerankers' part, as plain data."""
        return self.model_dump(mode="json", include={*Votes.model_fields})

    def judging(self, number: int) -> dict[str, Any]:
        """Return what decides which pairs a judge grades, as plain data: for the first no grade."""
        if number > 1:
            return self.removal()
        return self.removal() | {"needed": 1, "min_grade": 0}

    def removal(self) -> dict[str, Any]:
        """Return what decides what is removed, as plain data: the template does not."""
        return self.model_dump(mode="json", exclude={"prompt", "evaluate_raw"})


class PosirNegatives(AbovePositive):
    """Documents that score above a query's positive leave the corpus (PosIR, section 2.3)."""

    removes_documents = True

    recall: Recall
    evaluate_raw: bool = True
    """Evaluate the benchmark before the removal too, as BENCHMARK-raw."""

    def removal(self) -> dict[str, Any]:
        """Return what decides what is removed, as plain data."""
        return self.model_dump(mode="json", exclude={"evaluate_raw"})


NegativesProtocol = Annotated[FinewebNegatives | PosirNegatives, Field(discriminator="protocol")]
PanelProtocol = Annotated[Votes | AbovePositive, Field(discriminator="protocol")]


def read_panel(params: Mapping[str, Any]) -> Votes | AbovePositive:
    """Return a section's part about rerankers from a rule's parameters."""
    panel: Votes | AbovePositive = TypeAdapter(PanelProtocol).validate_python(params)
    return panel


# Tables.

PAIR_SCORES = TableSpec(
    "pair_scores",
    (
        Column("query_id", STRING, "query id"),
        Column("doc_id", STRING, "document id"),
        Column("reranker", STRING, "reranker id"),
        Column("score", FLOAT64, SCORE_TEXT, True),
        Column("raw", FLOAT64, RAW_TEXT, True),
    ),
    key=("query_id", "doc_id", "reranker"),
)

PAIR_DECISIONS = TableSpec(
    "pair_decisions",
    (
        Column("rule", STRING, "rule that decided"),
        Column("query_id", STRING, "query id"),
        Column("doc_id", STRING, "document id"),
        Column("is_positive", BOOL, "whether the document counts as relevant: a false negative"),
        Column("reason", STRING, "reason code; empty if votes against it settled it"),
        Column("score", FLOAT64, "score of the vote that settled it", True),
        Column("decided_by", STRING, "reranker or judge of that vote"),
        Column("n_yes", INT32, "votes for it until it was settled"),
        Column("n_votes", INT32, "votes until it was settled"),
    ),
    key=("rule", "query_id", "doc_id"),
)

JUDGEMENTS = TableSpec(
    "judgements",
    (
        Column("query_id", STRING, "query id"),
        Column("doc_id", STRING, "document id; a document that was removed is in the raw corpus"),
        Column("kind", STRING, "reranker or judge"),
        Column("scorer", STRING, "id of the reranker or language model"),
        Column("score", FLOAT64, "reranker: score in [0, 1]; null if it gave none", True),
        Column("raw", FLOAT64, "reranker: its own score, unbounded; null if it gave none", True),
        Column("positive_score", FLOAT64, "protocol posir: score of the query's positive", True),
        Column("grade", INT32, "judge: relevance, 0 to 4; null without a usable reply", True),
        Column("vote", BOOL, "whether that speaks for relevance; null if it cannot be used", True),
        Column("is_false_negative", BOOL, "verdict on the pair, the same in all its rows"),
        Column("reason", STRING, "reason code of the verdict; empty if votes against settled it"),
    ),
    key=("query_id", "doc_id", "kind", "scorer"),
)

# Votes.


@dataclass(frozen=True)
class Recalled:
    """What a recall run leaves to decide on, as ``query_id`` and ``doc_id``.

    ``pairs`` is what was recalled, less the positives, in the run's order; ``positives`` are those
    of the queries that have pairs.
    """

    pairs: pl.DataFrame
    positives: pl.DataFrame


def recalled_pairs(
    recall: pl.DataFrame, queries: pl.DataFrame, qrels: pl.DataFrame, *, top_k: int | None = None
) -> Recalled:
    """Take the pairs to decide on from a recall run.

    RUN rows of other queries (of other domains), and those behind rank ``top_k``, are left aside;
    None: no rank is. A query of which nothing was recalled has no pair.

    Raises
    ------
    InputError
        If the run is about other queries only.
    """
    known = queries.select(query_id="_id")
    own = recall.join(known, on="query_id", how="semi", maintain_order="left")
    if own.is_empty() and recall.height and known.height:
        raise InputError(
            f"the recall run has {recall.height} rows, none of them for one of the {known.height} "
            f"queries; first query: {known.item(0, 0)!r}, first in the run: "
            f"{recall.get_column('query_id')[0]!r}. Recall with the queries of this benchmark."
        )
    near = own if top_k is None else own.filter(pl.col("rank") <= top_k)
    others = near.select(PAIR).join(positives_of(qrels), on=PAIR, how="anti", maintain_order="left")
    return beside_positives(others, qrels)


def beside_positives(pairs: pl.DataFrame, qrels: pl.DataFrame) -> Recalled:
    """Put the positives of their queries beside pairs to decide on."""
    own = positives_of(qrels).join(pairs, on="query_id", how="semi", maintain_order="left")
    return Recalled(pairs.select(PAIR), own)


def positives_of(qrels: pl.DataFrame) -> pl.DataFrame:
    """List ``query_id`` and ``doc_id`` of the pairs with a score above 0."""
    return qrels.filter(pl.col("score") > 0).select(query_id="query-id", doc_id="corpus-id")


def scored_pairs(panel: RerankerPanel, recalled: Recalled) -> pl.DataFrame:
    """List every pair that a reranker scores if it scores all: for posir the positives too."""
    if isinstance(panel, AbovePositive):
        return pl.concat([recalled.positives, recalled.pairs])
    return recalled.pairs


def _said_by_rerankers(
    panel: Votes | AbovePositive, recalled: Recalled, scores: pl.DataFrame
) -> pl.DataFrame:
    """Give the votes of rerankers as `_settle` takes them."""
    score = pl.col("score")
    if isinstance(panel, Votes):
        return scores.select(*PAIR, "score", voter="reranker", is_yes=score > panel.threshold)
    _refuse_not_one_positive(recalled)
    by = ["query_id", "reranker"]
    own = scores.join(recalled.positives, on=PAIR, how="semi").select(*by, own="score")
    lead = score - pl.col("own")
    both = scores.join(own, on=by)
    return both.select(*PAIR, lead, voter="reranker", is_yes=score > pl.col("own"))


def _said_by_judges(section: FinewebNegatives, grades: pl.DataFrame) -> pl.DataFrame:
    """Give the votes of judges as `_settle` takes them."""
    grade = pl.col("grade")
    return grades.select(*PAIR, voter="judge", score=grade, is_yes=grade >= section.min_grade)


def _settle(
    pairs: pl.DataFrame,
    said: pl.DataFrame,
    voters: Sequence[str],
    *,
    n_voters: int,
    needed: int,
) -> pl.DataFrame:
    """Find the vote that settles each pair, of ``n_voters`` of which ``voters`` were asked.

    A pair is settled once it has ``needed`` votes, or so many against it that the rest cannot make
    them up. ``said`` has the pair, ``voter``, ``score`` and ``is_yes``; a vote whose score is no
    number cannot be used.

    Returns
    -------
    A row per pair, in their order: that vote, else the last one, with ``n_votes`` and ``n_yes`` up
    to it, ``is_settled``, ``is_positive``, and ``is_doubtful``: votes that could not be used might
    have made it positive.

    Raises
    ------
    InputError
        If a vote is missing before a pair is settled.
    """
    panel = pl.DataFrame({"voter": voters}, {"voter": pl.String}).with_row_index("n_votes", 1)
    cast = said.with_columns(pl.col("score").cast(pl.Float64).fill_nan(None), is_cast=True)
    enough_against = n_voters - needed + 1
    n_yes, against = pl.col("n_yes"), pl.col("n_votes").cast(pl.Int32) - pl.col("n_yes")
    at = (
        pairs.with_row_index("pair")
        .join(panel, how="cross", maintain_order="left_right")
        .join(cast, on=[*PAIR, "voter"], how="left", maintain_order="left")
        .with_columns(is_yes=pl.col("score").is_not_null() & pl.col("is_yes").fill_null(False))
        .with_columns(
            n_yes=pl.col("is_yes").cast(pl.Int32).cum_sum().over("pair"),
            n_unusable=pl.col("score").is_null().cast(pl.Int32).cum_sum().over("pair"),
        )
        .with_columns(
            is_positive=n_yes >= needed,
            is_settled=(n_yes >= needed) | (against >= enough_against),
            is_doubtful=(n_yes < needed) & (against - pl.col("n_unusable") < enough_against),
        )
        .filter(
            pl.col("is_settled") | pl.col("is_cast").is_null() | (pl.col("n_votes") == len(voters))
        )
        .unique("pair", keep="first", maintain_order=True)
    )
    missing = at.filter(pl.col("is_cast").is_null())
    if missing.height:
        query_id, doc_id, voter = missing.select(*PAIR, "voter").row(0)
        raise InputError(
            f"no vote of {voter!r} on query {query_id!r} and document {doc_id!r} "
            f"({missing.height} such votes are missing); score them, or leave it out"
        )
    return at


def _decide_pairs(
    rule: str,
    pairs: pl.DataFrame,
    said: pl.DataFrame,
    voters: Sequence[str],
    *,
    needed: int,
    positive: str,
) -> pl.DataFrame:
    """Make PAIR_DECISIONS rows, one per pair, in order; ``positive`` is their reason code."""
    reason = (
        pl.when("is_positive")
        .then(pl.lit(positive))
        .when("is_doubtful")
        .then(pl.lit(UNUSABLE_VOTE))
        .otherwise(pl.lit(""))
    )
    at = _settle(pairs, said, voters, n_voters=len(voters), needed=needed)
    made = at.with_columns(rule=pl.lit(rule), reason=reason, decided_by="voter")
    return as_table(PAIR_DECISIONS, made)


def _refuse_not_one_positive(recalled: Recalled) -> None:
    queries = recalled.pairs.get_column("query_id").unique(maintain_order=True)
    own = recalled.positives.get_column("query_id")
    odd = [*own.filter(own.is_duplicated()), *queries.filter(~queries.is_in(own.implode()))]
    if odd:
        raise InputError(
            f"query {odd[0]!r} has no positive to compare with, or several ({len(odd)} such "
            "queries); give one positive per query"
        )


def _needed(panel: Votes | AbovePositive) -> int:
    """Give the votes that make a candidate: more than half, or one or all of the panel."""
    if isinstance(panel, Votes):
        return len(panel.rerankers) // 2 + 1
    return 1 if panel.under == "any" else len(panel.rerankers)


def wanted_pairs(
    panel: Votes | AbovePositive, recalled: Recalled, scores: pl.DataFrame, *, reranker: str
) -> pl.DataFrame:
    """List the pairs that one reranker of the panel has to score: ``query_id``, ``doc_id``.

    They are in order of the positives and the pairs; every pair if the section is ``complete``.
    ``scores`` has the PAIR_SCORES rows of all rerankers before it.

    Raises
    ------
    InputError
        If a score of an earlier reranker is missing, or with ``posir`` a query has not one
        positive.
    """
    if panel.complete:
        return scored_pairs(panel, recalled)
    said = _said_by_rerankers(panel, recalled, scores)
    before = panel.rerankers[: panel.rerankers.index(reranker)]
    left = _undecided(recalled.pairs, said, before, len(panel.rerankers), _needed(panel))
    if isinstance(panel, Votes):
        return left
    own = left.select("query_id").unique(maintain_order=True)
    own = own.join(recalled.positives, on="query_id", maintain_order="left")
    return pl.concat([own, left])


def _undecided(
    pairs: pl.DataFrame, said: pl.DataFrame, before: Sequence[str], n_voters: int, needed: int
) -> pl.DataFrame:
    """Leave the pairs that the voters asked before have not settled."""
    if not before:
        return pairs
    at = _settle(pairs, said, before, n_voters=n_voters, needed=needed)
    return pairs.filter(~at.get_column("is_settled"))


def decide_candidates(
    panel: Votes | AbovePositive, recalled: Recalled, scores: pl.DataFrame
) -> pl.DataFrame:
    """Decide on every pair by the rerankers' scores: PAIR_DECISIONS rows.

    ``score`` is the reranker's, with ``posir`` the document's lead over the positive.

    Raises
    ------
    InputError
        If a score is missing that decides, or with ``posir`` a query has not one positive.
    """
    is_votes = isinstance(panel, Votes)
    return _decide_pairs(
        RULE_RERANKERS if is_votes else RULE_ABOVE,
        recalled.pairs,
        _said_by_rerankers(panel, recalled, scores),
        panel.rerankers,
        needed=_needed(panel),
        positive=MAJORITY_POSITIVE if is_votes else ABOVE_POSITIVE,
    )


def wanted_gradings(
    section: FinewebNegatives, decided: pl.DataFrame, grades: pl.DataFrame, *, number: int
) -> pl.DataFrame:
    """List the candidates that judge ``number`` (from 1) has to grade: ``query_id``, ``doc_id``.

    ``decided`` has the PAIR_DECISIONS of the rerankers, ``grades`` those of all judges before it.

    Raises
    ------
    InputError
        If a grade of an earlier judge is missing.
    """
    pairs, before = decided.filter("is_positive").select(PAIR), section.judges[: number - 1]
    said = _said_by_judges(section, grades)
    return _undecided(pairs, said, before, len(section.judges), section.needed)


def decide_final(
    section: FinewebNegatives | PosirNegatives, decided: pl.DataFrame, grades: pl.DataFrame
) -> pl.DataFrame:
    """Give the verdict on every pair the rerankers call positive: PAIR_DECISIONS rows.

    With ``posir`` the rerankers have the last word.

    Raises
    ------
    InputError
        If a grade is missing that decides.
    """
    found = decided.filter("is_positive")
    if isinstance(section, PosirNegatives):
        return found
    return _decide_pairs(
        RULE_JUDGES,
        found.select(PAIR),
        _said_by_judges(section, grades),
        section.judges,
        needed=section.needed,
        positive=JUDGED_RELEVANT,
    )


# The stages; the rerankers' is in `psibench.filters.panel`, the last one's in `removal`.


@stage("negatives", version=1, each="domains")
def run_negatives(
    section: PanelProtocol,
    *,
    qrels: TablePath,
    queries: TablePath,
    recall: str | Path,
    scores: Sequence[TablePath],
    output: OutputPath,
    top_k: int | None = None,
) -> None:
    """Decide on every recalled pair by the rerankers' scores and write PAIR_DECISIONS.

    ``recall`` is the run of the model that recalls (`recalled_pairs`); ``scores`` are the tables of
    the rerankers, in their order.
    """
    recalled = recalled_pairs(
        read_table(recall, RUN), read_table(queries, QUERIES), read_table(qrels, QRELS), top_k=top_k
    )
    decided = decide_candidates(section, recalled, read_all(scores, PAIR_SCORES))
    source = derived("negatives", [recall, queries, qrels, *scores], params=section.panel())
    write_table(decided, output, PAIR_DECISIONS, provenance=source)


@stage("judge_pairs", version=1, each="domains")
def run_judge_pairs(
    section: FinewebNegatives,
    *,
    number: int,
    corpus: TablePath,
    queries: TablePath,
    negatives: TablePath,
    earlier: Sequence[TablePath],
    output: OutputPath,
) -> None:
    """Write the PAIRS that a judge has to grade: whole documents, those still undecided.

    ``number`` is that of the judge, from 1; ``negatives`` is what the rerankers decided;
    ``earlier`` has the GRADES of the judges before it.
    """
    decided = read_table(negatives, PAIR_DECISIONS)
    grades = read_grades(section.judges, earlier)
    wanted = wanted_gradings(section, decided, grades, number=number)
    pairs = document_pairs(wanted, read_table(queries, QUERIES), read_table(corpus, CORPUS))
    source = derived(
        "judge_pairs",
        [negatives, queries, corpus, *earlier],
        params=section.judging(number) | {"number": number},
    )
    write_table(pairs, output, PAIRS, provenance=source)


def read_grades(judges: Sequence[str], paths: Sequence[TablePath]) -> pl.DataFrame:
    """Read the GRADES of the first judges, one table each, with a column ``judge``."""
    frames = [
        read_table(path, GRADES).select(*PAIR, "grade", judge=pl.lit(judge))
        for judge, path in zip(judges, paths, strict=False)
    ]
    schema = dict.fromkeys((*PAIR, "grade", "judge"), pl.String) | {"grade": pl.Int32}
    return pl.concat([pl.DataFrame(schema=schema), *frames])
