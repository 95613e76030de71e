"""Documents without queries: there is no search, but probes can use the documents.

The draw follows PosQ's authors for their table 4 (appendix A.4, and their script): the distinct
texts of a source within bounds of words, sorted, shuffled by Python's ``random`` with seed 1, the
first 10,000. Word counts include white space at the ends of a text, as in the source.
"""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

import polars as pl
from pydantic import AfterValidator, Field

from psibench.config.base import refuse_falling
from psibench.config.sources import DocumentSource, FilesSource, HubSource
from psibench.generate.base import Build, TextCorpus, complete_build
from psibench.generate.loaders import Loader, NothingLeftError, shuffled
from psibench.generate.sampling import Passages, cut_into_passages, passages_flow
from psibench.sources.bad_records import BadRecords
from psibench.sources.batches import DOCUMENT_SCHEMA, DocumentRow
from psibench.sources.checks import refuse_repeated
from psibench.sources.documents import document_columns, document_rows, read_documents
from psibench.sources.records import numbered_records
from psibench.tables.dropped import Dropped, Flow, dropped_frame
from psibench.tables.schemas import QRELS, QUERIES
from psibench.text.lengths import TokenCounter, count_words

_STAGE = "documents"
_MOST_WORDS = 2**31 - 1


WordBounds = Annotated[
    list[Annotated[int, Field(ge=0)]],
    Field(min_length=2, max_length=2),
    AfterValidator(refuse_falling),
]
ShareRange = Annotated[
    list[Annotated[float, Field(ge=0, le=1)]],
    Field(min_length=2, max_length=2),
    AfterValidator(refuse_falling),
]


class DocumentsBenchmark(Loader):
    """Documents without queries, for probes or for training with PADS."""

    queries_by: ClassVar[None] = None
    buckets: ClassVar[tuple[str, ...]] = ()
    recipe: Literal["documents"]
    source: DocumentSource | None = None
    corpora: list[TextCorpus] | None = Field(default=None, min_length=1)
    """Several domains or languages, each with a source; use instead of `source`."""
    passages: Passages | None = None
    """Cut long documents into passages; without it a document is taken whole."""
    words: WordBounds | None = None
    """Use documents of more words than the first number and fewer than the second; words are pieces
    split on one space, as in PosQ's script; null: of any length."""
    n_documents: int | None = Field(default=None, ge=2)
    """Documents of each domain in each language; null: all."""
    part: ShareRange = Field(default=[0, 1])
    """Range of the drawn documents to use, as shares: [0, .2] and [.2, 1] of the same source have
    no document in common."""
    seed: int = Field(default=1, ge=0)
    """Seed of the draw: distinct texts, sorted, shuffled by Python's `random`."""

    def build(self, count_tokens: TokenCounter) -> Build:
        """Read a source and draw its documents.

        Raises
        ------
        InputError
            If the source cannot be read, or an id occurs twice.
        NothingLeftError
            If no document is left.
        """
        assert self.source is not None
        bad = BadRecords(getattr(self.source, "max_bad_share", 0))
        read = pl.DataFrame(list(_rows(self.source, bad)), schema=DOCUMENT_SCHEMA, orient="row")
        bad.refuse_many(where=f"{self.domain}, {self.language}", unit="documents")
        refuse_repeated(read, where=f"{self.domain}, {self.language}")
        left_out = dropped_frame(bad.dropped("files", "documents"))
        flow = [*bad.flow("files", "documents")]
        if self.passages is not None:
            read, too_short = cut_into_passages(read, self.passages)
            left_out = pl.concat([left_out, too_short])
            flow.append(passages_flow(read, too_short))
        n_words = pl.Series(count_words(read["text"].to_list()))
        low, high = self.words or (0, _MOST_WORDS)
        fits = (n_words > low) & (n_words < high) & (read["text"].str.strip_chars() != "")
        distinct = read.filter(fits).unique("text", keep="first", maintain_order=True).sort("text")
        order = shuffled(distinct.height, seed=self.seed)[: self.n_documents]
        first, last = (round(share * len(order)) for share in self.part)
        drawn = distinct[order[first:last]]
        reasons = read.select("_id", "text").with_columns(
            reason=pl.when(~fits)
            .then(pl.lit("outside_words"))
            .when(~pl.col("_id").is_in(distinct["_id"].implode()))
            .then(pl.lit("repeated_text"))
            .when(~pl.col("_id").is_in(drawn["_id"].implode()))
            .then(pl.lit("not_drawn"))
        )
        dropped = dropped_frame(
            Dropped(_STAGE, "documents", name, name, reason, char_length=len(text))
            for name, text, reason in reasons.drop_nulls("reason").iter_rows()
        )
        built = complete_build(
            drawn.select("_id", pl.col("text").str.strip_chars()),
            QUERIES.empty().drop("pos_char_length", "pos_token_length"),
            QRELS.empty(),
            pl.concat([left_out, dropped]),
            count_tokens=count_tokens,
            flow=[*flow, (_STAGE, Flow("documents", read.height, drawn.height))],
        )
        if drawn.is_empty():
            raise NothingLeftError(
                f"{self.domain}, {self.language}: no document is left of {read.height} "
                f"({distinct.height} distinct documents within `words`); widen `words` or `part`, "
                "or read more of the source",
                built,
            )
        return built


def _rows(source: DocumentSource, bad: BadRecords) -> Iterator[DocumentRow]:
    """Yield id, text and origin of each document; texts of records keep their white space."""
    if isinstance(source, FilesSource | HubSource):
        yield from document_rows(source, numbered_records(source, document_columns(source)), bad)
        return
    for batch in read_documents(source).batches:
        yield from batch.select(*DOCUMENT_SCHEMA).iter_rows()
