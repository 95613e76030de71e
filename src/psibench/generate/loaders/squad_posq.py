"""SQuAD-PosQ: questions by the character at which their answer starts (PosQ, section 3.1).

Every question with an answer is a query. Every distinct context is a document, also if all of its
questions are unanswerable. The evidence span is the first answer.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

import polars as pl
from pydantic import Field

from psibench.config.sources import QuestionSource, SquadSource
from psibench.generate.base import (
    BucketSchemes,
    Build,
    QuestionCorpus,
    complete_build,
)
from psibench.generate.loaders import Loader, NothingLeftError, shuffled
from psibench.sources.bad_records import BadRecords
from psibench.sources.squad import read_hub_questions, read_squad_files
from psibench.tables.dropped import Dropped, Flow, dropped_frame
from psibench.text.lengths import TokenCounter

_STAGE = "squad_posq"
TINY_QUERIES = 10_000  # PosQ, section 3.1
TINY_SEED = 42  # the authors' choice


class SquadPosq(Loader):
    """SQuAD-PosQ (PosQ, section 3.1): questions by the character at which their answer starts."""

    recipe: Literal["squad_posq"]
    source: QuestionSource | None = None
    corpora: list[QuestionCorpus] | None = Field(default=None, min_length=1)
    """Several domains or languages, each with a source; use instead of `source`."""
    labels: Literal["all", "published"] = "all"
    """all: every context that has the question is relevant. published: only the last one."""
    subset: Literal["full", "tiny"] = "full"
    """tiny: 10,000 questions drawn as the authors did (seed 42); the corpus is the same."""
    queries_by: str | None = "people"
    """Who wrote the questions, e.g. people (as for SQuAD) or llm:NAME; null: not recorded."""
    buckets: BucketSchemes = Field(default=["squad", "relative-20"], min_length=1)
    """Bucket schemes to report; the first one is the headline."""

    def build(self, count_tokens: TokenCounter) -> Build:
        """Read the source and build the benchmark."""
        source = self.source
        assert source is not None
        bad = BadRecords(source.max_bad_share)
        if isinstance(source, SquadSource):
            questions = read_squad_files(source.paths, bad)
        else:
            questions = read_hub_questions(source, bad)
        built = build_squad_posq(
            questions, labels=self.labels, subset=self.subset, count_tokens=count_tokens
        )
        wrong = dropped_frame(bad.dropped("squad", "questions"))
        flow = (*bad.flow("squad", "questions"), *built.flow)
        return replace(built, dropped=pl.concat([built.dropped, wrong]), flow=flow)


def build_squad_posq(
    questions: pl.DataFrame,
    *,
    labels: Literal["all", "published"],
    subset: Literal["full", "tiny"],
    count_tokens: TokenCounter,
) -> Build:
    """Build SQuAD-PosQ from questions in reading order (train, then validation).

    With ``labels`` all, every context that has the question's text is relevant; with published only
    the last one, as in the authors' code, which maps a text to one context. ``subset`` tiny is
    Python's ``random.seed(42)``, shuffle, then the first 10,000 questions; the corpus is the same.

    Raises
    ------
    NothingLeftError
        If no question has an answer.
    """
    contexts = questions.unique("context", keep="first").sort("context")
    ids = pl.Series(list(context_ids(contexts.height)))
    with_id = questions.drop_nulls("_id").with_columns(
        pos_corpus_id=pl.col("context").replace_strict(contexts["context"], ids)
    )
    answered = with_id.drop_nulls("answer_start")
    chosen = answered
    if subset == "tiny":
        chosen = answered[shuffled(answered.height, seed=TINY_SEED)[:TINY_QUERIES]]
    left_out = {
        "unanswerable": with_id.filter(pl.col("answer_start").is_null()),
        "not_in_tiny_subset": answered.join(chosen, on="_id", how="anti", maintain_order="left"),
    }
    built = complete_build(
        contexts.select(
            _id=ids,
            text=pl.Series([context.strip() for context in contexts["context"]]),
            origin="article",
        ),
        _queries(chosen),
        relevant_carriers(chosen, answered, labels),
        dropped_frame(
            Dropped(_STAGE, "questions", key, document, reason, char_length=len(context.strip()))
            for reason, frame in left_out.items()
            for key, document, context in frame.select(
                "_id", "pos_corpus_id", "context"
            ).iter_rows()
        ),
        count_tokens=count_tokens,
        flow=[(_STAGE, Flow("questions", with_id.height, chosen.height))],
    )
    if chosen.is_empty():
        raise NothingLeftError(
            "no question of the source has an answer; SQuAD-PosQ needs answer spans", built
        )
    return built


def context_ids(n_contexts: int) -> Iterable[str]:
    """Return ids of the sorted contexts, padded so that ids sort like the contexts."""
    width = max(5, len(str(n_contexts - 1)))
    return (f"p{index:0{width}d}" for index in range(n_contexts))


def _queries(chosen: pl.DataFrame) -> pl.DataFrame:
    spans = []
    for context, answer, start in chosen.select("context", "answer", "answer_start").iter_rows():
        shift = len(context) - len(context.lstrip())
        length = len(context.strip())
        spans.append([max(0, start - shift), min(length, start - shift + len(answer))])
    return chosen.select(
        "_id",
        pl.col("question").alias("text"),
        "pos_corpus_id",
        pl.Series("pos_char_span", spans, dtype=pl.Array(pl.Int32, 2)),
        pl.lit(None, dtype=pl.String).alias("target_position"),
        "answer",
    )


def relevant_carriers(chosen: pl.DataFrame, answered: pl.DataFrame, labels: str) -> pl.DataFrame:
    """Return QRELS rows of the contexts that have a question's text with an answer.

    ``labels`` is all, or published for only the last context. ``chosen`` and ``answered`` have
    ``question`` and ``pos_corpus_id``, ``chosen`` also ``_id``.
    """
    carriers = answered.select("question", pl.col("pos_corpus_id").alias("corpus-id"))
    if labels == "published":
        carriers = carriers.unique("question", keep="last", maintain_order=True)
    else:
        carriers = carriers.unique(maintain_order=True)
    pairs = chosen.select(pl.col("_id").alias("query-id"), "question")
    joined = pairs.join(carriers, on="question", how="left", maintain_order="left_right")
    return joined.select("query-id", "corpus-id", pl.lit(1, dtype=pl.Int32).alias("score"))
