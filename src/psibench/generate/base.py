"""Config sections and tables that the recipes share."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import polars as pl
from pydantic import AfterValidator, Field, StrictInt, StringConstraints, model_validator

from psibench.config.base import (
    LANGUAGE_PATTERN,
    Id,
    Language,
    ModelId,
    ModelIds,
    Section,
    refuse_repeats,
)
from psibench.config.sources import DocumentSource, QuestionSource
from psibench.filters.audit import Audit
from psibench.filters.decide import FilterSection
from psibench.filters.grade import Grade
from psibench.filters.mixtures import Tiny
from psibench.filters.negatives import NegativesProtocol
from psibench.filters.verify import Verify, VerifyMargin
from psibench.generate.sampling import Passages, Sample, prefixed
from psibench.llm.tasks import Gathered, Replied
from psibench.metrics.buckets import refuse_odd_edges
from psibench.metrics.query_scores import CLUSTER, PAGE_COLUMN
from psibench.sources.local import dataset_revisions, local_files
from psibench.tables.dropped import Dropped, Flow, OnEmpty, dropped_frame, flow_of
from psibench.tables.spec import ALL
from psibench.text.lengths import TokenCounter, with_lengths
from psibench.text.passages import PAGE_STARTS, PAGES
from psibench.translate.steps import Translate

BucketSchemeName = Annotated[
    str, StringConstraints(pattern=r"^(squad|thirds|thirds-every-tag|relative-[1-9][0-9]?)$")
]
BucketSchemes = Annotated[list[BucketSchemeName], AfterValidator(refuse_repeats)]
PAIR_PATTERN = rf"^{LANGUAGE_PATTERN[1:-1]}-{LANGUAGE_PATTERN[1:-1]}$"
CrossLingual = Annotated[
    list[Annotated[str, StringConstraints(pattern=PAIR_PATTERN)]], AfterValidator(refuse_repeats)
]


def _refuse_all(domain: str) -> str:
    if domain == ALL:
        raise ValueError("'all' means all domains together; use another name")
    return domain


Domain = Annotated[Id, AfterValidator(_refuse_all)]


class QuestionCorpus(Section):
    """Questions with answers of one domain in one language."""

    domain: Domain
    """Name of the domain; a folder in results/."""
    language: Language | None = None
    """Language and script; null takes the benchmark's."""
    source: QuestionSource


class TextCorpus(Section):
    """Text of one domain in one language."""

    domain: Domain
    """Name of the domain; a folder in results/."""
    language: Language | None = None
    """Language and script; null takes the benchmark's."""
    source: DocumentSource
    passages: Passages | None = None
    """Cut long documents into passages; without it a document is taken whole."""


LengthBuckets = bool | Annotated[list[StrictInt], AfterValidator(refuse_odd_edges)]


class BenchmarkBase(Section):
    """Keys of every benchmark, whatever its recipe."""

    language: Language = "eng-Latn"
    """Language and script of queries and documents, e.g. eng-Latn."""
    domain: Domain = "general"
    """Name of the text's domain; a folder in results/."""
    description: str = ""
    """One line for the report."""
    length_buckets: LengthBuckets = False
    """Also report by tokens of the positive. True: PosIR's Q1 to 512, Q2 to 1,024, Q3 to 1,536, Q4
    above. Or your own edges, e.g. [2048, 8192, 16384] for texts of up to 32,768 tokens: L1 1-2048,
    L2 2049-8192, L3 8193-16384, L4 above 16384."""
    on_empty: OnEmpty = "drop"
    """What to do if a domain has no queries left in a language, e.g. after cleaning. drop: leave
    the domain out in that language, with a warning. fail: stop. A run always stops if nothing is
    left at all, or if the benchmark has only one domain in one language."""
    models: ModelIds | None = Field(default=None, min_length=1)
    """Models to evaluate on this benchmark, ids from `models`; null: all."""
    first_stage: ModelId | None = None
    """Model whose run the rerankers rerank on this benchmark; null: search.first_stage. A
    reranker's first_stage overrides it."""
    cross_lingual: CrossLingual | None = None
    """Cross-lingual pairs QUERIES-DOCUMENTS, e.g. spa-Latn-eng-Latn: queries of one language search
    the documents of another. Null: from each translation to the language it was made from."""
    translate: Translate | None = None
    """Translation of corpora and queries to further languages by a language model; null: none."""
    parts: int | None = Field(default=None, ge=1)
    """Number of jobs for each step of a language; each job takes some of the domains. Null: enough
    jobs that each has up to 150,000 of the documents drawn."""

    if TYPE_CHECKING:  # all recipes have `source`, some have `corpora`
        source: Any
        corpora: Any

    @model_validator(mode="after")
    def _has_corpora(self) -> "BenchmarkBase":
        if "corpora" not in type(self).model_fields:
            return self
        if (self.source is None) == (self.corpora is None):
            raise ValueError("give either `source` (one corpus) or `corpora` (a list of corpora)")
        places = [(one.language or self.language, one.domain) for one in self.corpora or ()]
        repeated = sorted({place for place in places if places.count(place) > 1})
        if repeated:
            listed = ", ".join(f"{domain} in {language}" for language, domain in repeated)
            raise ValueError(f"corpora: listed more than once: {listed}")
        return self

    def files(self) -> list[str]:
        """List the local files of the source, in order; none for a dataset on the hub."""
        return local_files(self.source)

    def revisions(self) -> dict[str, str]:
        """Return the pinned revisions of the hub datasets it reads, as provenance records them."""
        return dataset_revisions(self.source)


class GeneratedBenchmark(BenchmarkBase):
    """Keys shared by recipes whose queries a language model writes."""

    recipe: str
    source: DocumentSource | None = None
    corpora: list[TextCorpus] | None = Field(default=None, min_length=1)
    """Several domains or languages, each with a source; use instead of `source`."""
    sample: Sample
    """Sample of documents drawn from each domain in each language."""
    passages: Passages | None = None
    """Cut long documents into passages; without it a document is taken whole."""
    shards: int = Field(default=1, ge=1, le=10_000)
    """Number of jobs for each task of the language model in a language; each takes some of the
    documents."""
    verify: Verify | None = None
    """Rerankers that filter the candidates; without them every candidate becomes a query."""
    grade: Grade | None = None
    """A language model that filters the candidates that the rerankers kept."""
    audit: Audit | None = None
    """A language model that measures how well the margin filters; needs `verify` with `rule:
    margin`."""
    false_negatives: NegativesProtocol | None = None
    """How to treat documents that answer a query but are not its positive; null or none: leave
    them. BENCHMARK-raw is the benchmark before the treatment."""
    tiny: Tiny | None = None
    """A small subset of the queries, also evaluated, with the id BENCHMARK-tiny."""
    buckets: BucketSchemes = Field(default=["thirds"], min_length=1)
    """Bucket schemes to report; the first one is the headline."""

    paper_rule: ClassVar[str]
    """The rule of `verify` that the recipe's paper uses."""

    @property
    def filters(self) -> list[str]:
        """Names of the filters that the candidates pass, in order."""
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        steps = {
            name: section.flow_step
            for name, section in fields.items()
            if isinstance(section, FilterSection)
        }
        return sorted(steps, key=steps.__getitem__)

    @model_validator(mode="before")
    @classmethod
    def _complete_verify(cls, given: Any) -> Any:
        """Fill in the paper's rule where `verify` has none; read `none` as no protocol."""
        if not isinstance(given, Mapping):
            return given
        verify = given.get("verify")
        if isinstance(verify, Mapping) and "rule" not in verify:
            given = {**given, "verify": {"rule": cls.paper_rule, **verify}}
        if given.get("false_negatives") in ("none", {"protocol": "none"}):
            given = {**given, "false_negatives": None}
        return given

    @model_validator(mode="after")
    def _audit_has_margins(self) -> "GeneratedBenchmark":
        if self.audit is not None and not isinstance(self.verify, VerifyMargin):
            raise ValueError(
                "audit draws queries by margin, so it needs `verify` with `rule: margin`"
            )
        return self


LIMIT = "limit"
"""Stage of the queries that a config's `limit` leaves out."""


@dataclass(frozen=True)
class Build:
    """A benchmark's CORPUS, QUERIES and QRELS rows, and the rows that were dropped.

    ``dropped`` has the ATTRITION columns except ``language`` and ``domain``, which the recipe does
    not know. ``flow`` has (stage, counts) for each stage that drops rows, in order.
    """

    corpus: pl.DataFrame
    queries: pl.DataFrame
    qrels: pl.DataFrame
    dropped: pl.DataFrame
    flow: tuple[tuple[str, Flow], ...] = ()

    def with_id_prefix(self, prefix: str) -> "Build":
        """Put a prefix before all ids."""
        return replace(
            self,
            corpus=prefixed(self.corpus, prefix, "_id"),
            queries=prefixed(self.queries, prefix, "_id", "pos_corpus_id"),
            qrels=prefixed(self.qrels, prefix, "query-id", "corpus-id"),
            dropped=prefixed(self.dropped, prefix, "item_id", "doc_id"),
        )

    def limited(self, n: int) -> "Build":
        """Keep ``n`` queries at most, evenly spaced over all of them, and the whole corpus."""
        n_queries = self.queries.height
        if n_queries <= n:
            return self
        kept = self.queries[[number * n_queries // n for number in range(n)]]
        left = self.queries.join(kept, on="_id", how="anti", maintain_order="left")
        qrels = self.qrels.join(
            kept, left_on="query-id", right_on="_id", how="semi", maintain_order="left"
        )
        dropped = dropped_frame(
            Dropped(LIMIT, "queries", query, document, "beyond_limit")
            for query, document in left.select("_id", "pos_corpus_id").iter_rows()
        )
        return replace(
            self,
            queries=kept,
            qrels=qrels,
            dropped=pl.concat([self.dropped, dropped]),
            flow=(*self.flow, (LIMIT, Flow("queries", n_queries, n))),
        )


def complete_build(
    documents: pl.DataFrame,
    queries: pl.DataFrame,
    qrels: pl.DataFrame,
    dropped: pl.DataFrame,
    *,
    count_tokens: TokenCounter,
    flow: Sequence[tuple[str, Flow]] = (),
) -> Build:
    """Return a benchmark's tables, with lengths added to the corpus and the queries.

    Further columns of ``queries`` come after the declared ones. If several documents share
    an ``origin``, queries get it in a column `cluster`. If documents have pages, queries
    get ``pos_page``, the page on which their evidence starts, from 1.
    """
    corpus = with_lengths(documents, count_tokens=count_tokens)
    lengths = corpus.select(
        pl.col("_id").alias("pos_corpus_id"),
        pl.col("char_length").alias("pos_char_length"),
        pl.col("token_length").alias("pos_token_length"),
        PAGES,
    )
    if "origin" in documents.columns and documents["origin"].drop_nulls().is_duplicated().any():
        lengths = lengths.with_columns(documents["origin"].alias(CLUSTER))
    joined = queries.join(lengths, on="pos_corpus_id", how="left", maintain_order="left")
    if PAGE_STARTS in joined.columns:
        pages = [
            bisect_right(starts, span[0]) if starts and span else None
            for starts, span in joined.select(PAGE_STARTS, "pos_char_span").iter_rows()
        ]
        joined = joined.drop(PAGE_STARTS)
        joined = joined.with_columns(pl.Series(PAGE_COLUMN, pages, dtype=pl.Int32))
    declared = ["_id", "text", "pos_corpus_id", "pos_char_span", "pos_char_length"]
    declared += ["pos_token_length", "target_position"]
    return Build(
        corpus, joined.select(*declared, pl.exclude(declared)), qrels, dropped, tuple(flow)
    )


def qrels_of_positives(queries: pl.DataFrame) -> pl.DataFrame:
    """Return QRELS rows in which only each query's positive is relevant."""
    return queries.select(
        pl.col("_id").alias("query-id"),
        pl.col("pos_corpus_id").alias("corpus-id"),
        pl.lit(1, dtype=pl.Int32).alias("score"),
    )


LONGEST_QUERY = {"maxLength": 1000}
"""Limit of a query's characters, for the server. XQuAD's longest question has 226."""


def most_questions(n: int) -> dict[str, Any]:
    """Return the limits (`TaskItem`) of a reply with ``n`` questions."""
    one = {"properties": {"question": LONGEST_QUERY}}
    return {"properties": {"questions": {"maxItems": n, "items": one}}}


REPLY_DETAIL_CHARS = 200
"""Characters of a reply that a dropped row shows."""


class Question(NamedTuple):
    """A question of a reply; ``reason`` is empty if it is kept, else why it is dropped."""

    id: str
    text: str
    answer: str
    entry: Any
    reason: str = ""
    detail: str | None = None


def check_questions(
    reply: Replied,
    most: int,
    earlier: dict[str, str],
    *,
    find_fault: Callable[[str], tuple[str, str] | None] = lambda _: None,
) -> Iterator[Question]:
    """Yield each question of a reply, with the reason to drop it if there is one.

    Ids are ``ITEM-q0``, ``ITEM-q1``, ... The reasons, in the order of the checks:
    ``blank_question``, ``blank_answer``, the recipe's reason (``find_fault`` returns it with the
    offending text, or None), ``repeated_question`` (the text of an earlier question, see
    `query_key`; the detail has its id), ``beyond_n_questions`` (``most`` questions were kept
    before it).

    ``earlier`` maps the keys of kept questions to their ids; this function adds to it.
    """
    n_kept = 0
    for number, entry in enumerate(reply.value["questions"]):
        text, answer = (entry[name].strip() for name in ("question", "answer"))
        question = Question(f"{reply.item_id}-q{number}", text, answer, entry)
        folded, shown = query_key(text), text[:REPLY_DETAIL_CHARS]
        fault = find_fault(text)
        if not text:
            yield question._replace(reason="blank_question", detail=answer[:REPLY_DETAIL_CHARS])
        elif not answer:
            yield question._replace(reason="blank_answer", detail=shown)
        elif fault:
            yield question._replace(reason=fault[0], detail=f"{fault[1]}: {shown}")
        elif folded in earlier:
            detail = f"{earlier[folded]}: {shown}"
            yield question._replace(reason="repeated_question", detail=detail)
        elif n_kept == most:
            yield question._replace(reason="beyond_n_questions", detail=shown)
        else:
            n_kept += 1
            earlier[folded] = question.id
            yield question


def query_key(text: str) -> str:
    """Return a query without differences of case, white space and the marks at its end."""
    return fold_space(text).rstrip("?!.…？！。؟ ")


def fold_space(text: str) -> str:
    """Return a text in lower case, with each run of white space as one space."""
    return " ".join(text.split()).casefold()


def gathered(
    rows: Sequence[tuple[Any, ...]],
    schema: Mapping[str, Any],
    dropped: Iterable[Dropped],
    **n_kept: int,
) -> Gathered:
    """Return a task's rows, the items it dropped, and its counts by unit."""
    lost = dropped_frame(dropped)
    flow = tuple(flow_of(unit, n, lost) for unit, n in n_kept.items())
    return Gathered(pl.DataFrame(rows, schema=schema, orient="row"), lost, flow)
