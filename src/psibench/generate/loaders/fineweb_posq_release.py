"""FineWeb-PosQ as released: questions with the third of the passage that answers them, no spans.

Each record has a question, its passage (`content`) and the thirds with the evidence (`span_class`).
Records without a question only add a passage. Every distinct passage is a document. A query's
``target_position`` is its third, or mixed if it has several; ``positions`` lists the record's
thirds. The recipe also reads other data in this layout.
"""

from typing import Annotated, Any, Literal

import polars as pl
from pydantic import AfterValidator, Field

from psibench.config.sources import RecordSource
from psibench.errors import InputError
from psibench.generate.base import BucketSchemes, Build, complete_build
from psibench.generate.loaders import Loader, shuffled
from psibench.generate.loaders.squad_posq import TINY_SEED, context_ids, relevant_carriers
from psibench.metrics.buckets import EVERY_TAG, MIXED, THIRDS, bucket_scheme, class_of
from psibench.reading import shown
from psibench.sources.checks import require_columns, require_text
from psibench.sources.records import source_records
from psibench.tables.dropped import Dropped, Flow, dropped_frame
from psibench.text.lengths import TokenCounter

_STAGE = "fineweb_posq_release"
QUESTION, CONTENT, CLASSES = "question", "content", "span_class"
_TINY_PER_CLASS = 1_000  # PosQ, section 3.2
_RECORD_SCHEMA: dict[str, Any] = {
    QUESTION: pl.String,
    CONTENT: pl.String,
    "positions": pl.List(pl.String),
}


def _by_class(schemes: list[str]) -> list[str]:
    odd = [name for name in schemes if bucket_scheme(name).needs_span]
    if odd:
        raise ValueError(
            f"{', '.join(odd)} needs evidence spans, but the release has only thirds; allowed: "
            f"thirds, {EVERY_TAG}"
        )
    return schemes


ClassSchemes = Annotated[BucketSchemes, AfterValidator(_by_class)]


class FinewebPosqRelease(Loader):
    """FineWeb-PosQ as published, or data in its layout: `question`, `content`, `span_class`."""

    recipe: Literal["fineweb_posq_release"]
    source: RecordSource
    """The dataset on the hub, or jsonl or parquet files."""
    labels: Literal["all", "published"] = "all"
    """all: every passage that has the question is relevant. published: only the last one."""
    subset: Literal["full", "tiny"] = "full"
    """tiny: 1,000 questions of each third, drawn as the authors did (seed 42); the corpus is the
    same."""
    queries_by: str | None = None
    """Who wrote the questions, e.g. llm:gpt-4o-mini or people; null: not recorded."""
    buckets: ClassSchemes = Field(default=["thirds"], min_length=1)
    """thirds; or thirds-every-tag, which counts a question with several thirds in each."""

    def build(self, count_tokens: TokenCounter) -> Build:
        """Read the release and build it."""
        return build_fineweb_posq_release(
            read_release_records(self.source),
            labels=self.labels,
            subset=self.subset,
            count_tokens=count_tokens,
        )


def read_release_records(source: RecordSource) -> pl.DataFrame:
    """Read `question` (null if a record has only a passage), `content` and `positions`.

    Raises
    ------
    InputError
        If the source cannot be read, a passage is blank, or a question has no valid class.
    """
    records = source_records(source, (QUESTION, CONTENT, CLASSES))
    rows = [_row(record, origin) for origin, record in records]
    return pl.DataFrame(rows, schema=_RECORD_SCHEMA, orient="row")


def _row(record: dict[str, Any], origin: str) -> tuple[str | None, str, list[str] | None]:
    require_columns(record, (CONTENT,), origin)
    content = require_text(record[CONTENT], CONTENT, origin=origin).strip()
    if not content:
        raise InputError(f"{origin}: field {CONTENT!r} is blank; every record needs its passage")
    question = record.get(QUESTION)
    if question is None or not require_text(question, QUESTION, origin=origin).strip():
        return None, content, None
    value = record.get(CLASSES)
    classes = [value] if isinstance(value, str) else value
    known = isinstance(classes, list) and all(one in THIRDS for one in classes)
    if not classes or not (known or classes == [MIXED]):
        raise InputError(
            f"{origin}: {CLASSES} is {shown(value)}; expected the thirds that answer the question, "
            f"a list of {', '.join(THIRDS)}, or {MIXED}"
        )
    return question, content, classes


def build_fineweb_posq_release(
    records: pl.DataFrame,
    *,
    labels: Literal["all", "published"],
    subset: Literal["full", "tiny"],
    count_tokens: TokenCounter,
) -> Build:
    """Build the benchmark from the rows of `read_release_records`.

    With ``labels`` all, every passage that has the question's text is relevant; with published only
    the last one, as in the authors' code. ``subset`` tiny is Python's ``random.seed(42)``, shuffle,
    then the first 1,000 questions of each third. A question in several thirds counts in each; each
    text is used once.

    Raises
    ------
    InputError
        If there is no question.
    """
    contents = records.get_column(CONTENT).unique().sort()
    ids = pl.Series(list(context_ids(len(contents))), dtype=pl.String)
    asked = records.drop_nulls(QUESTION)
    if asked.is_empty():
        raise InputError(
            f"no record has a {QUESTION}; expected records with {QUESTION}, {CONTENT}, {CLASSES}"
        )
    width = max(5, len(str(asked.height - 1)))
    asked = asked.with_columns(
        _id=pl.Series([f"q{number:0{width}d}" for number in range(asked.height)]),
        pos_corpus_id=pl.col(CONTENT).replace_strict(contents, ids),
    )
    chosen = asked[_tiny(asked)] if subset == "tiny" else asked
    positions = pl.when(pl.col("positions").list.first() != MIXED).then("positions")
    queries = chosen.select(
        "_id",
        "pos_corpus_id",
        text=QUESTION,
        pos_char_span=pl.lit(None, pl.Array(pl.Int32, 2)),
        target_position=class_of(pl.col("positions")),
        positions=positions,
    )
    left_out = asked.join(chosen, on="_id", how="anti", maintain_order="left")
    return complete_build(
        pl.DataFrame({"_id": ids, "text": contents}),
        queries,
        relevant_carriers(chosen, asked, labels),
        dropped_frame(
            Dropped(
                _STAGE, "questions", name, document, "not_in_tiny_subset", char_length=len(content)
            )
            for name, document, content in left_out.select(
                "_id", "pos_corpus_id", CONTENT
            ).iter_rows()
        ),
        count_tokens=count_tokens,
        flow=[(_STAGE, Flow("questions", asked.height, chosen.height))],
    )


def _tiny(asked: pl.DataFrame) -> list[int]:
    """Return the rows of the tiny subset, drawn as the authors do, in the order of the draw."""
    order = shuffled(asked.height, seed=TINY_SEED)
    texts, positions = (asked.get_column(name).to_list() for name in (QUESTION, "positions"))
    drawn: dict[str, int] = {}
    for third in THIRDS:
        held = [row for row in order if third in positions[row]]
        for row in held[:_TINY_PER_CLASS]:
            drawn.setdefault(texts[row], row)
    return list(drawn.values())
