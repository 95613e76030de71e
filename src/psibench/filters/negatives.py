"""False negatives: documents that answer a query but are not labelled as its positive.

- ``fineweb_posq`` (PosQ, appendix A.2, stage 2): a dense model recalls documents; more than half of
  the rerankers score the pair above ``threshold``; then ``needed`` language models give it a grade
  of at least ``min_grade``. The affected questions are dropped and all documents stay.
- ``posir`` (PosIR, section 2.3): a recalled document scores above the query's positive. It is
  removed from the corpus, with every query whose positive it was.

Comparisons are strict: a score of exactly 0.5, or equal to the positive's, is no vote for the pair.
An unusable score or grade is no vote for it either; the reason unusable_vote marks pairs for which
it might have changed the outcome. Voters score in order. A pair is decided as soon as it has enough
votes, or cannot get enough any more; later voters do not score it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import polars as pl
from pydantic import AfterValidator, Field, model_validator

from psibench.config.base import LlmId, ModelId, Section, Template, refuse_repeats
from psibench.errors import InputError
from psibench.filters.decide import (
    ABOVE_POSITIVE,
    FALSE_NEGATIVE,
    JUDGED_RELEVANT,
    MAJORITY_POSITIVE,
    POSITIVE_REMOVED,
    RAW_TEXT,
    SCORE_TEXT,
    UNUSABLE_VOTE,
    Filtered,
    Rule,
    as_table,
    candidate_facts,
    kept_items,
    make_decisions,
    run_filter,
)
from psibench.filters.grade import document_pairs
from psibench.filters.verify import RerankerIds
from psibench.tables.build_schemas import GRADES, PAIRS
from psibench.tables.dropped import OnEmpty, leave_empty
from psibench.tables.job import DomainJob, Job
from psibench.tables.schemas import CORPUS, QRELS, QUERIES, RUN
from psibench.tables.spec import BOOL, FLOAT64, INT32, STRING, Column, TableSpec
from psibench.tables.stage import stage

RULE_RERANKERS = "majority_of_rerankers"
RULE_JUDGES = "majority_of_judges"
RULE_ABOVE = "above_positive"
LEDGER_STAGE = "false_negatives"
PAIR_KEY = ["query_id", "doc_id"]

# Config.


class Recall(Section):
    """The first-stage search for documents that might also be relevant."""

    model: ModelId
    """Id of the model registry: a dense encoder or BM25. The model need not be evaluated."""
    top_k: int = Field(default=1000, ge=1)
    """Documents recalled per query (PosQ and PosIR: 1,000)."""


class RerankerPanel(Section):
    """Settings of both protocols: the rerankers, and when a pair becomes a candidate."""

    removes_documents: ClassVar[bool] = False
    """Whether the protocol removes documents from the corpus, or queries."""
    keep_more: ClassVar[str] = "raise false_negatives.threshold, min_grade or needed"
    """Advice for users if no query is left."""

    protocol: str
    rerankers: RerankerIds = Field(min_length=1)
    """Ids from config/rerankers.yaml or your `rerankers`, the cheapest first: each reranker scores
    only pairs that the earlier ones left undecided."""

    def panel(self) -> dict[str, Any]:
        """Return the parameters that change candidates and scores, as plain data."""
        keys = {"protocol", "rerankers", "threshold", "under"}
        return self.model_dump(mode="json", include=keys)

    def removal(self) -> dict[str, Any]:
        """Return the parameters that change the removal, as plain data, without the template."""
        return self.model_dump(mode="json", exclude={"prompt", "evaluate_raw"})


class Votes(RerankerPanel):
    """Most rerankers score a pair above a threshold."""

    protocol: Literal["fineweb_posq"]
    threshold: float = Field(default=0.5, ge=0, lt=1)
    """A reranker votes for a pair if its score, from 0 to 1, is above this."""


class AbovePositive(RerankerPanel):
    """A document scores above the query's positive."""

    protocol: Literal["posir"]
    under: Literal["any", "all"] = "any"
    """Whether any or all rerankers have to score the document above the positive."""


class FinewebNegatives(Votes):
    """Questions that another document also answers are dropped (PosQ, appendix A.2, stage 2)."""

    recall: Recall
    judges: Annotated[list[LlmId], AfterValidator(refuse_repeats)] = Field(min_length=1)
    """Language models that grade the pairs most rerankers voted for, the cheapest first."""
    needed: int = Field(default=2, ge=1)
    """Judges that have to give a pair a grade of at least min_grade."""
    min_grade: int = Field(default=3, ge=0, le=4)
    """Lowest grade that counts as relevant."""
    prompt: Template = None
    """Template of the judges, relative to the working directory; null: the shipped
    config/prompts/grade_relevance.md."""
    evaluate_raw: bool = True
    """Also evaluate the benchmark before the removal, as BENCHMARK-raw."""

    @model_validator(mode="after")
    def _enough_judges(self) -> "FinewebNegatives":
        if self.needed > len(self.judges):
            raise ValueError(
                f"needed is {self.needed}, but there are only {len(self.judges)} judges; add "
                "judges or lower `needed`"
            )
        return self


class PosirNegatives(AbovePositive):
    """Documents that score above a query's positive are removed (PosIR, section 2.3)."""

    removes_documents = True
    keep_more = "set false_negatives.under to all if it is any"

    recall: Recall
    evaluate_raw: bool = True
    """Also evaluate the benchmark before the removal, as BENCHMARK-raw."""


NegativesProtocol = Annotated[FinewebNegatives | PosirNegatives, Field(discriminator="protocol")]
PanelProtocol = Annotated[Votes | AbovePositive, Field(discriminator="protocol")]


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
        Column("reason", STRING, "reason code; empty if votes against it decided"),
        Column("score", FLOAT64, "score of the vote that decided", True),
        Column("decided_by", STRING, "reranker or judge of that vote"),
        Column("n_yes", INT32, "votes for it until it was decided"),
        Column("n_votes", INT32, "votes until it was decided"),
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
        Column("raw", FLOAT64, "reranker: raw score, unbounded; null without a score", True),
        Column("positive_score", FLOAT64, "protocol posir: score of the query's positive", True),
        Column("grade", INT32, "judge: relevance, 0 to 4; null without a usable reply", True),
        Column("vote", BOOL, "whether it votes for relevance; null if it cannot be used", True),
        Column("is_false_negative", BOOL, "verdict on the pair, the same in all its rows"),
        Column("reason", STRING, "reason code of the verdict; empty if votes against it decided"),
    ),
    key=("query_id", "doc_id", "kind", "scorer"),
)

# Votes.


def recalled_pairs(
    run: pl.DataFrame, queries: pl.DataFrame, qrels: pl.DataFrame, *, top_k: int | None = None
) -> pl.DataFrame:
    """Return the pairs to decide on from a recall run, in its order, as `with_positives` does.

    RUN rows of other queries (of other domains), and rows below rank ``top_k``, are ignored.
    """
    recalled = run.join(queries, left_on="query_id", right_on="_id", how="semi")
    if top_k is not None:
        recalled = recalled.filter(pl.col("rank") <= top_k)
    positives = positive_pairs(qrels)
    others = recalled.join(positives, on=PAIR_KEY, how="anti", maintain_order="left")
    return with_positives(others, positives)


def positive_pairs(qrels: pl.DataFrame) -> pl.DataFrame:
    """Return ``query_id`` and ``doc_id`` of the pairs with a score above 0."""
    return qrels.filter(pl.col("score") > 0).select(query_id="query-id", doc_id="corpus-id")


def with_positives(pairs: pl.DataFrame, positives: pl.DataFrame) -> pl.DataFrame:
    """Put the positives of their queries before the pairs: ``query_id, doc_id, is_labelled``."""
    of_queries = positives.join(pairs, on="query_id", how="semi", maintain_order="left")
    sides = {True: of_queries, False: pairs}
    return pl.concat(
        side.select(*PAIR_KEY, is_labelled=pl.lit(is_labelled))
        for is_labelled, side in sides.items()
    )


def reranker_votes(
    panel: Votes | AbovePositive, recalled: pl.DataFrame, scores: pl.DataFrame
) -> pl.DataFrame:
    """Add ``voter``, the deciding ``score`` and ``is_yes`` to PAIR_SCORES rows.

    Under ``posir`` this score is the document's lead over the query's positive, whose score is
    ``positive_score``. It is null if it cannot be used.
    """
    voted = scores.with_columns(voter="reranker")
    if isinstance(panel, Votes):
        return voted.with_columns(is_yes=pl.col("score") > panel.threshold)
    positives = recalled.filter("is_labelled").select(PAIR_KEY)
    compared_with = scores.join(positives, on=PAIR_KEY).select(
        "query_id", "reranker", positive_score="score"
    )
    lead = pl.col("score") - pl.col("positive_score")
    is_yes = pl.col("score") > pl.col("positive_score")
    return voted.join(compared_with, on=["query_id", "reranker"]).with_columns(
        score=lead, is_yes=is_yes
    )


def judge_votes(section: FinewebNegatives, grades: pl.DataFrame) -> pl.DataFrame:
    """Add ``voter``, the deciding ``score`` and ``is_yes`` to GRADES rows."""
    grade = pl.col("grade")
    return grades.with_columns(voter="judge", score=grade, is_yes=grade >= section.min_grade)


def deciding_votes(
    pairs: pl.DataFrame, votes: pl.DataFrame, voters: Sequence[str], *, needed: int
) -> pl.DataFrame:
    """Return the vote that decides on each pair, in order of the pairs, without undecided pairs.

    A pair is decided once it has ``needed`` votes, or so many votes against it that the remaining
    ``voters`` cannot reach that number. Returns the row of that vote with ``n_votes`` and ``n_yes``
    up to it, ``is_positive``, and ``is_doubtful``: unusable votes might have made the pair
    positive.
    """
    order = pl.DataFrame({"voter": voters}).with_row_index("number")
    is_yes, is_unusable = pl.col("is_yes").fill_null(False), pl.col("score").is_null()
    against = pl.col("n_votes") - pl.col("n_yes")
    enough_against = len(voters) - needed + 1
    counted = (
        pairs.select(PAIR_KEY)
        .with_row_index("pair")
        .join(votes, on=PAIR_KEY)
        .join(order, on="voter")
        .sort("pair", "number")
        .with_columns(
            n_votes=pl.int_range(1, pl.len() + 1).over("pair"),
            n_yes=is_yes.cast(pl.Int64).cum_sum().over("pair"),
            n_unusable=is_unusable.cast(pl.Int64).cum_sum().over("pair"),
        )
        .with_columns(is_positive=pl.col("n_yes") >= needed)
        .filter(pl.col("is_positive") | (against >= enough_against))
        .unique("pair", keep="first", maintain_order=True)
    )
    is_doubtful = against - pl.col("n_unusable") < enough_against
    return counted.with_columns(is_doubtful=is_doubtful & ~pl.col("is_positive"))


def _decide_pairs(
    rule: str,
    pairs: pl.DataFrame,
    votes: pl.DataFrame,
    voters: Sequence[str],
    *,
    needed: int,
    positive: str,
) -> pl.DataFrame:
    """Return PAIR_DECISIONS rows, one per pair, in order; ``positive`` is their reason code.

    Raises InputError if deciding votes are missing, since the pair would count as no false
    negative.
    """
    decided = deciding_votes(pairs, votes, voters, needed=needed)
    if decided.height < pairs.height:
        undecided = pairs.join(decided, on=PAIR_KEY, how="anti", maintain_order="left")
        query_id, doc_id = undecided.select(PAIR_KEY).row(0)
        raise InputError(
            f"{rule}: {undecided.height} of {pairs.height} pairs have too few votes of "
            f"{', '.join(voters)} for a decision; the first is query {query_id!r}, document "
            f"{doc_id!r}. Score or judge them again"
        )
    reason = (
        pl.when("is_positive")
        .then(pl.lit(positive))
        .when("is_doubtful")
        .then(pl.lit(UNUSABLE_VOTE))
        .otherwise(pl.lit(""))
    )
    decisions = decided.with_columns(rule=pl.lit(rule), reason=reason, decided_by="voter")
    return as_table(PAIR_DECISIONS, decisions)


def _needed(panel: Votes | AbovePositive) -> int:
    """Return the votes that make a candidate: more than half, or one or all of the panel."""
    if isinstance(panel, Votes):
        return len(panel.rerankers) // 2 + 1
    return 1 if panel.under == "any" else len(panel.rerankers)


def wanted_pairs(
    panel: Votes | AbovePositive, recalled: pl.DataFrame, scores: pl.DataFrame
) -> pl.DataFrame:
    """Return the pairs that the panel's next reranker has to score: ``query_id``, ``doc_id``.

    They are in order of the pairs; under ``posir`` their positives come first. ``scores`` has the
    PAIR_SCORES rows of all earlier rerankers.
    """
    pairs, votes = recalled.filter(~pl.col("is_labelled")), reranker_votes(panel, recalled, scores)
    decided = deciding_votes(pairs, votes, panel.rerankers, needed=_needed(panel))
    undecided = pairs.join(decided, on=PAIR_KEY, how="anti", maintain_order="left")
    if isinstance(panel, Votes):
        return undecided.select(PAIR_KEY)
    positives = recalled.filter("is_labelled").select(PAIR_KEY)
    return with_positives(undecided, positives).select(PAIR_KEY)


def decide_candidates(
    panel: Votes | AbovePositive, recalled: pl.DataFrame, scores: pl.DataFrame
) -> pl.DataFrame:
    """Decide on every pair by the rerankers' scores: PAIR_DECISIONS rows.

    ``score`` is the reranker's; under ``posir`` it is the document's lead over the positive.
    """
    is_votes = isinstance(panel, Votes)
    return _decide_pairs(
        RULE_RERANKERS if is_votes else RULE_ABOVE,
        recalled.filter(~pl.col("is_labelled")),
        reranker_votes(panel, recalled, scores),
        panel.rerankers,
        needed=_needed(panel),
        positive=MAJORITY_POSITIVE if is_votes else ABOVE_POSITIVE,
    )


def wanted_judgements(
    section: FinewebNegatives, decided: pl.DataFrame, grades: pl.DataFrame
) -> pl.DataFrame:
    """Return the candidates that the next judge has to grade: ``query_id``, ``doc_id``.

    ``decided`` has the rerankers' PAIR_DECISIONS, ``grades`` the GRADES of all earlier judges.
    """
    pairs, votes = decided.filter("is_positive").select(PAIR_KEY), judge_votes(section, grades)
    judged = deciding_votes(pairs, votes, section.judges, needed=section.needed)
    return pairs.join(judged, on=PAIR_KEY, how="anti", maintain_order="left")


def decide_final(
    section: FinewebNegatives | PosirNegatives, decided: pl.DataFrame, grades: pl.DataFrame
) -> pl.DataFrame:
    """Return the verdict on every pair the rerankers call positive: PAIR_DECISIONS rows.

    Under ``posir`` the rerankers decide.
    """
    positive = decided.filter("is_positive")
    if isinstance(section, PosirNegatives):
        return positive
    return _decide_pairs(
        RULE_JUDGES,
        positive,
        judge_votes(section, grades),
        section.judges,
        needed=section.needed,
        positive=JUDGED_RELEVANT,
    )


# The removal.


@dataclass(frozen=True)
class Cleaned:
    """A benchmark's tables after a protocol's removal, and the DECISIONS on queries and documents.

    The decisions on documents are None if the protocol does not change the corpus.
    """

    corpus: pl.DataFrame
    queries: pl.DataFrame
    qrels: pl.DataFrame
    query_decisions: pl.DataFrame
    document_decisions: pl.DataFrame | None = None


def remove_false_negatives(
    section: FinewebNegatives | PosirNegatives,
    verdicts: pl.DataFrame,
    *,
    corpus: pl.DataFrame,
    queries: pl.DataFrame,
    qrels: pl.DataFrame,
) -> Cleaned:
    """Remove false negatives as the protocol does; ``verdicts`` are the rows of `decide_final`.

    ``decided_by`` is, for a query, the document with the highest score among its false negatives
    (among equal scores the first id), and for a document the query of its pair; ``score`` is that
    score. Under ``posir`` all false negatives are removed at once: dropping a query does not change
    the documents that it removes, so the order of the queries does not matter. (The paper does not
    specify the order. If queries were processed one by one, and dropped queries removed nothing,
    fewer documents might be removed.) A query with several positives is dropped if one of them is
    removed.
    """
    positive = verdicts.filter("is_positive")
    if isinstance(section, FinewebNegatives):
        by_query = best_pairs(positive, "query_id", "doc_id")
        decisions = _drop(queries, by_query, FALSE_NEGATIVE)
        left = kept_items(queries, decisions), kept_items(qrels, decisions, key="query-id")
        return Cleaned(corpus, *left, decisions)
    by_document = best_pairs(positive, "doc_id", "query_id")
    removed = by_document.select("score", doc_id="item_id")
    by_query = best_pairs(positive_pairs(qrels).join(removed, on="doc_id"), "query_id", "doc_id")
    of_documents = _drop(corpus, by_document, FALSE_NEGATIVE)
    of_queries = _drop(queries, by_query, POSITIVE_REMOVED)
    left_qrels = kept_items(qrels, of_queries, key="query-id")
    return Cleaned(
        kept_items(corpus, of_documents),
        kept_items(queries, of_queries),
        kept_items(left_qrels, of_documents, key="corpus-id"),
        of_queries,
        of_documents,
    )


def best_pairs(pairs: pl.DataFrame, item: str, other: str) -> pl.DataFrame:
    """Return the pair with the highest score for every item that has one.

    Returns ``item_id``, ``score`` and ``decided_by`` (the other id; among equal scores the first),
    in order of ``item_id``.
    """
    return (
        pairs.sort(item, "score", other, descending=[False, True, False], nulls_last=True)
        .unique(item, keep="first", maintain_order=True)
        .select("score", item_id=item, decided_by=other)
    )


def _drop(items: pl.DataFrame, dropped: pl.DataFrame, reason: str) -> pl.DataFrame:
    """Return DECISIONS rows of all items; the items in ``dropped`` are dropped."""
    known = items.select(item_id="_id").join(
        dropped, on="item_id", how="left", maintain_order="left"
    )
    return make_decisions(known, pl.when(pl.col("decided_by").is_not_null()).then(pl.lit(reason)))


def make_judgements(
    section: FinewebNegatives | PosirNegatives,
    verdicts: pl.DataFrame,
    *,
    recalled: pl.DataFrame,
    scores: pl.DataFrame,
    grades: pl.DataFrame,
) -> pl.DataFrame:
    """Return the votes of all rerankers and judges on the pairs with a verdict: JUDGEMENTS rows.

    ``verdicts`` are PAIR_DECISIONS rows. The result is in order of the pairs, the rerankers and the
    judges. It lists every vote that was cast, even if the verdict did not need it.
    """
    pairs = verdicts.select(*PAIR_KEY, "reason", is_false_negative="is_positive")
    pairs = pairs.with_row_index("pair")
    votes = reranker_votes(section, recalled, scores).drop("score")
    votes = votes.join(scores, on=[*PAIR_KEY, "reranker"]).with_columns(kind=pl.lit("reranker"))
    voters = [("reranker", name) for name in section.rerankers]
    if isinstance(section, FinewebNegatives):
        graded = judge_votes(section, grades).drop("score").with_columns(kind=pl.lit("judge"))
        votes = pl.concat([votes, graded], how="diagonal")
        voters += [("judge", name) for name in section.judges]
    order = pl.DataFrame(voters, ["kind", "voter"], orient="row").with_row_index("number")
    cast = pairs.join(votes, on=PAIR_KEY).join(order, on=["kind", "voter"]).sort("pair", "number")
    return as_table(JUDGEMENTS, cast.rename({"voter": "scorer", "is_yes": "vote"}))


# The stages; `psibench.filters.panel` has the rerankers' stage.


@stage("negatives", version=1)
def run_negatives(job: Job) -> None:
    """Decide on every recalled pair by the rerankers' scores and write PAIR_DECISIONS.

    Inputs: ``queries``, ``qrels``, ``recall`` (the run of the recalling model, see
    `recalled_pairs`), and ``scores`` (the tables of the rerankers in their order).
    """
    section, top_k = job.section(PanelProtocol), job.value("top_k", int | None, default=None)
    run = job.read("recall", RUN)
    for domain in job.domains():
        queries, qrels = domain.read("queries", QUERIES), domain.read("qrels", QRELS)
        recalled = recalled_pairs(run, queries, qrels, top_k=top_k)
        decided = decide_candidates(section, recalled, domain.read("scores", PAIR_SCORES))
        domain.write("negatives", decided, PAIR_DECISIONS, params=section.panel())


@stage("judge_pairs", version=1)
def run_judge_pairs(job: Job) -> None:
    """Write the PAIRS that a judge has to grade: queries and whole documents, not yet decided.

    Inputs: ``corpus``, ``queries``, ``negatives`` (the rerankers' decisions), and the GRADES of the
    earlier judges (`read_grades`).
    """
    section = job.section(FinewebNegatives)
    for domain in job.domains():
        decided = domain.read("negatives", PAIR_DECISIONS)
        wanted = wanted_judgements(section, decided, read_grades(section, domain))
        queries, corpus = domain.read("queries", QUERIES), domain.read("corpus", CORPUS)
        pairs = document_pairs(wanted, queries, corpus)
        domain.write("pairs", pairs, PAIRS, params=section.removal())


def judge_name(number: int) -> str:
    """Return the task name of a judge of false negatives; the first has number 1."""
    return f"judge_{number}"


def read_grades(section: FinewebNegatives | PosirNegatives, domain: DomainJob) -> pl.DataFrame:
    """Read the GRADES of the judges in the inputs (judge_1, ...), with a column ``judge``."""
    judges = section.judges if isinstance(section, FinewebNegatives) else []
    tables = [
        domain.read(judge_name(number), GRADES).with_columns(judge=pl.lit(judge))
        for number, judge in enumerate(judges, start=1)
        if domain.job.has(judge_name(number))
    ]
    return pl.concat([GRADES.empty().with_columns(judge=pl.lit("")), *tables], how="diagonal")


@stage("judgements", version=1)
def run_judgements(job: Job) -> None:
    """Write the votes of all rerankers and judges on the pairs with a verdict: JUDGEMENTS.

    Inputs: ``qrels``, ``negatives`` (the rerankers' PAIR_DECISIONS), ``scores`` (their tables), and
    the GRADES of the judges (`read_grades`; none for ``posir``).
    """
    section = job.section(NegativesProtocol)
    params = section.model_dump(mode="json", exclude={"prompt", "recall"})
    for domain in job.domains():
        decided, grades = domain.read("negatives", PAIR_DECISIONS), read_grades(section, domain)
        judgements = make_judgements(
            section,
            decide_final(section, decided, grades),
            recalled=with_positives(decided, positive_pairs(domain.read("qrels", QRELS))),
            scores=domain.read("scores", PAIR_SCORES),
            grades=grades,
        )
        domain.write("judgements", judgements, JUDGEMENTS, params=params)


@stage("remove_negatives", version=3)
def run_remove_negatives(job: Job) -> None:
    """Remove the false negatives as the protocol does; write the benchmark and the ledger.

    Inputs: ``corpus``, ``queries``, ``qrels``, ``negatives`` (the rerankers' PAIR_DECISIONS), and
    the GRADES of the judges (`read_grades`; none for ``posir``). Outputs: corpus, queries, qrels,
    dropped, flow.

    Raises
    ------
    InputError
        If no query is left, and ``on_empty`` is fail.
    """
    section = job.section(NegativesProtocol)
    params = section.model_dump(mode="json", exclude={"prompt", "recall"})
    run_filter(job, lambda domain: remove_negatives(section, domain), params=params)


def remove_negatives(section: FinewebNegatives | PosirNegatives, domain: DomainJob) -> Filtered:
    """Remove the false negatives of one domain."""
    corpus, queries = domain.read("corpus", CORPUS), domain.read("queries", QUERIES)
    qrels, decided = domain.read("qrels", QRELS), domain.read("negatives", PAIR_DECISIONS)
    verdicts = decide_final(section, decided, read_grades(section, domain))
    cleaned = remove_false_negatives(section, verdicts, corpus=corpus, queries=queries, qrels=qrels)
    if cleaned.queries.is_empty() and queries.height:
        leave_empty(
            f"{domain}: after removing false negatives (protocol {section.protocol}), none of "
            f"{queries.height} queries is left; {section.keep_more}, choose other rerankers, "
            "recall fewer documents (recall.top_k), or build on more documents. Scores and "
            "judgements stay in the store",
            domain.job.value("on_empty", OnEmpty, default="fail"),
        )
    rules = [Rule(LEDGER_STAGE, cleaned.query_decisions, candidate_facts(queries, corpus))]
    if cleaned.document_decisions is not None:
        facts = corpus.select("_id", "char_length", doc_id="_id")
        rules.insert(0, Rule(LEDGER_STAGE, cleaned.document_decisions, facts, unit="documents"))
    tables = {
        "corpus": (cleaned.corpus, CORPUS),
        "queries": (cleaned.queries, QUERIES),
        "qrels": (cleaned.qrels, QRELS),
    }
    return Filtered(rules, tables)
