"""FineWeb-PosQ as released: questions of which the third of the passage is known, and no span.

Each record has a question, the passage it is about (`content`) and the thirds its evidence is in
(`span_class`); records without a question are passages alone. Every distinct passage is a document.
The class of a query, its ``target_position``, is its one third, or mixed; ``positions`` lists what
the record says. Other data in this layout is read as well.
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

STAGE = "fineweb_posq_release"
QUESTION, CONTENT, CLASSES = "question", "content", "span_class"
TINY_PER_CLASS = 1_000  # PosQ, section 3.2
SCHEMA: dict[str, Any] = {QUESTION: pl.String, CONTENT: pl.String, "positions": pl.List(pl.String)}


def _by_class(schemes: list[str]) -> list[str]:
    odd = [name for name in schemes if bucket_scheme(name).needs_span]
    if odd:
        raise ValueError(
            f"{', '.join(odd)} needs evidence spans, and the release has classes; allowed: thirds, "
            f"{EVERY_TAG}"
        )
    return schemes


ClassSchemes = Annotated[BucketSchemes, AfterValidator(_by_class)]


class FinewebPosqRelease(Loader):
    """FineWeb-PosQ as published, or data in its layout: `question`, `content`, `span_class`."""

    recipe: Literal["fineweb_posq_release"]
    source: RecordSource
    """The dataset on the hub, or jsonl or parquet files."""
    labels: Literal["all", "published"] = "all"
    """all: every passage that carries the question is relevant. published: the last one only."""
    subset: Literal["full", "tiny"] = "full"
    """tiny: 1,000 questions of each third drawn as the authors did (seed 42), the same corpus."""
    queries_by: str | None = None
    """Who wrote the questions, as llm:gpt-4o-mini or people; null: not recorded."""
    buckets: ClassSchemes = Field(default=["thirds"], min_length=1)
    """thirds; or thirds-every-tag, in which a question of several classes counts at each."""

    def build(self, count_tokens: TokenCounter) -> Build:
        """Read the release and build it."""
        return build_fineweb_posq_release(
            read_records(self.source),
            labels=self.labels,
            subset=self.subset,
            count_tokens=count_tokens,
        )


def read_records(source: RecordSource) -> pl.DataFrame:
    """Read `question` (null for a passage alone), `content` and `positions`, record by record.

    Raises
    ------
    InputError
        If the source cannot be read, a passage is blank, or a question has no class or one that is
        none.
    """
    records = source_records(source, (QUESTION, CONTENT, CLASSES))
    rows = [_row(record, origin) for origin, record in records]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _row(record: dict[str, Any], origin: str) -> tuple[str | None, str, list[str] | None]:
    require_columns(record, (CONTENT,), origin)
    content = require_text(record[CONTENT], CONTENT, origin=origin).strip()
    if not content:
        raise InputError(f"{origin}: field {CONTENT!r} is blank; every record needs its passage")
    asked = record.get(QUESTION)
    if asked is None or not require_text(asked, QUESTION, origin=origin).strip():
        return None, content, None
    found = record.get(CLASSES)
    classes = [found] if isinstance(found, str) else found
    known = isinstance(classes, list) and all(one in THIRDS for one in classes)
    if not classes or not (known or classes == [MIXED]):
        raise InputError(
            f"{origin}: {CLASSES} is {shown(found)}; expected a list of {', '.join(THIRDS)}, or "
            f"{MIXED}: which thirds of the passage answer the question"
        )
    return asked, content, classes


def build_fineweb_posq_release(
    records: pl.DataFrame,
    *,
    labels: Literal["all", "published"],
    subset: Literal["full", "tiny"],
    count_tokens: TokenCounter,
) -> Build:
    """Build the benchmark of `read_records`' rows.

    With ``labels`` all every passage that carries the question's text is relevant, with published
    only the last of them, as in the authors' code. ``subset`` tiny is Python's ``random.seed(42)``,
    shuffle, the first 1,000 questions of each third, one in several thirds counting in each; a text
    once.

    Raises
    ------
    InputError
        If there is no question.
    """
    contents = records.get_column(CONTENT).unique().sort()
    ids = pl.Series(list(context_ids(len(contents))), dtype=pl.String)
    asked = records.drop_nulls(QUESTION)
    if asked.is_empty():
        raise InputError(f"no record with a {QUESTION}; expected {QUESTION}, {CONTENT}, {CLASSES}")
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
                STAGE, "questions", name, document, "not_in_tiny_subset", char_length=len(content)
            )
            for name, document, content in left_out.select(
                "_id", "pos_corpus_id", CONTENT
            ).iter_rows()
        ),
        count_tokens=count_tokens,
        flow=[(STAGE, Flow("questions", asked.height, chosen.height))],
    )


def _tiny(asked: pl.DataFrame) -> list[int]:
    """Draw the tiny subset in the authors' way; the order of the draw is kept."""
    order = shuffled(asked.height, seed=TINY_SEED)
    texts, positions = (asked.get_column(name).to_list() for name in (QUESTION, "positions"))
    drawn: dict[str, int] = {}
    for third in THIRDS:
        held = [row for row in order if third in positions[row]]
        for row in held[:TINY_PER_CLASS]:
            drawn.setdefault(texts[row], row)
    return list(drawn.values())
