"""Where the evidence of a query is in the translation of its document, and how far it has moved.

PosIR lets its translations share the spans of the originals. Spans found again in the translation
show how far positions survive it; they are columns beside the original's and replace nothing.
Two methods: ``sentences`` takes the translated sentences that align with those of the evidence by
their lengths (`psibench.text.alignment`); ``quote`` has a language model quote the evidence from
the translation (task ``relocate_spans``).
"""

import logging
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl
from pydantic import model_validator

from psibench.config.base import Id, Section
from psibench.llm.tasks import (
    DOCUMENTS_TABLE,
    Gathered,
    LlmTask,
    Replied,
    Tables,
    TaskItem,
    reply_field,
)
from psibench.tables import read_table
from psibench.tables.build_schemas import LOCATED_BY, LOCATED_FROM, LOCATED_SPAN, RELOCATED
from psibench.tables.domains import TablePath
from psibench.tables.schemas import CORPUS
from psibench.text.alignment import MOST_CELLS, Bead, align_lengths, sentence_spans
from psibench.text.locate import Located, locate_quote
from psibench.translate.translate import TranslateSection, language_names

logger = logging.getLogger("psibench")

Method = Literal["sentences", "quote"]

NO_REPLY, NO_SPAN = "no_usable_reply", "no_span"
BLANK, TOO_MANY, NO_COUNTERPART = "blank_text", "too_many_sentences", "no_counterpart"
POOR_ALIGNMENT, POOR_BEAD = "poor_alignment", "unequal_sentences"

MOST_MEAN_COST = 2.0
"""Largest mean of the costs of lengths over the aligned beads (`Bead.cost`) that is relied on.

Six of XQuAD's English paragraphs joined to one text and their human translations cost 0.3 to 1.5.
"""
MOST_UNALIGNED = 0.2
"""Largest share of either text that may be left without a counterpart."""
MOST_BEAD_COST = 6.0
"""Largest cost of the lengths of a bead that evidence lies in: a chance of 1 in 400."""

Offsets = tuple[int, int]
SPAN_TYPE = pl.Array(pl.Int32, 2)
LOCATED_SCHEMA: dict[str, Any] = {"_id": pl.String, "span": SPAN_TYPE, "reason": pl.String}


class Relocate(Section):
    """Find the evidence again in the translation, as columns beside the original's span."""

    method: Method = "sentences"
    """sentences: the translated sentences that align with the original's by their lengths. quote:
    a language model quotes them."""
    llm: Id | None = None
    """Language model that quotes; for method quote."""
    prompt: str | None = None
    """Its template; null is the shipped one."""

    @model_validator(mode="after")
    def _quoting_needs_a_model(self) -> "Relocate":
        if (self.method == "quote") != (self.llm is not None):
            raise ValueError("`llm` goes with `method: quote`, and `quote` needs it")
        return self


def relocated(
    queries: pl.DataFrame,
    source: pl.DataFrame,
    corpus: pl.DataFrame,
    *,
    method: Method,
    relocations: TablePath | None,
) -> pl.DataFrame:
    """Add the columns that say where evidence is in the translation, and how it was found.

    ``queries`` are the translated ones, with the spans of the original; ``source`` and ``corpus``
    the CORPUS rows of the original and of the translation; ``relocations`` the RELOCATED table, for
    method ``quote``.
    """
    if method == "quote":
        assert relocations is not None
        found = quoted_spans(queries, read_table(relocations, RELOCATED))
    else:
        sides = (dict(side.select("_id", "text").iter_rows()) for side in (source, corpus))
        found = relocate_by_sentences(queries, *sides)
    is_found = pl.col("span").is_not_null()
    counts = found.filter(~is_found).group_by("reason", maintain_order=True).len("n").iter_rows()
    logger.info(
        "evidence of %d of %d queries located (%s)%s",
        found.select(is_found.sum()).item(),
        found.height,
        method,
        "".join(f"; {n} {reason}" for reason, n in counts),
    )
    columns = found.select(
        pl.col("span").alias(LOCATED_SPAN),
        pl.when(is_found).then(pl.lit(method)).alias(LOCATED_BY),
        pl.col("reason").alias("not_located"),
        *([LOCATED_FROM] if method == "sentences" else []),
    )
    return queries.hstack(columns)


# Method ``sentences``


@dataclass(frozen=True)
class Alignment:
    """A text and its translation, sentence by sentence.

    ``source`` and ``target`` are the spans of the sentences, ``beads`` what aligns with what,
    ``reason`` why the whole is not to be relied on (empty if it is).
    """

    source: list[Offsets]
    target: list[Offsets]
    beads: list[Bead]
    reason: str


def relocate_by_sentences(
    queries: pl.DataFrame, sources: Mapping[str, str], translations: Mapping[str, str]
) -> pl.DataFrame:
    """Find the translated sentences that align with those of each query's evidence.

    How much longer translations are is taken from all documents: the median of their ratios.
    ``queries`` has ``_id, pos_corpus_id, pos_char_span``, one without a span is not looked for;
    ``sources`` and ``translations`` are document id -> text. Returns ``LOCATED_SCHEMA`` rows in
    order of the queries, with ``located_from_span``: the sentences of the original in which located
    evidence is.
    """
    ratio = length_ratio(sources, translations)
    aligned = {
        doc_id: align_texts(sources[doc_id], translations[doc_id], ratio=ratio)
        for doc_id in queries.get_column("pos_corpus_id").unique(maintain_order=True)
    }
    columns = queries.select("_id", "pos_corpus_id", "pos_char_span")
    rows = []
    for query_id, doc_id, span in columns.iter_rows():
        found = Located(None, NO_SPAN) if span is None else locate_span(aligned[doc_id], span)
        origin = found.span and _whole_sentences(aligned[doc_id].source, span)
        rows.append((query_id, found.span, found.reason, origin))
    return pl.DataFrame(rows, schema=LOCATED_SCHEMA | {LOCATED_FROM: SPAN_TYPE}, orient="row")


def length_ratio(sources: Mapping[str, str], translations: Mapping[str, str]) -> float:
    """Compute the median of characters per character of the original; 1 of no documents."""
    ratios = [len(text) / len(sources[doc_id]) for doc_id, text in translations.items() if text]
    return float(np.median(ratios)) if ratios else 1.0


def align_texts(source: str, target: str, *, ratio: float) -> Alignment:
    """Align a text and its translation by the lengths of their sentences.

    ``ratio`` is how many characters a translation usually has per character of the text.
    """
    spans, found = sentence_spans(source), sentence_spans(target)
    if not spans or not found:
        return Alignment(spans, found, [], BLANK)
    if (len(spans) + 1) * (len(found) + 1) > MOST_CELLS:
        return Alignment(spans, found, [], TOO_MANY)
    lengths, found_lengths = _lengths(spans), _lengths(found)
    beads = align_lengths(lengths, found_lengths, ratio=ratio)
    is_poor = _is_poor(beads, lengths, found_lengths)
    return Alignment(spans, found, beads, POOR_ALIGNMENT if is_poor else "")


def locate_span(alignment: Alignment, span: Offsets) -> Located:
    """Find the translated sentences that align with those of a span [start, end) of the text.

    Sentences in one bead cannot be told apart: all of its translated sentences are taken.
    """
    if alignment.reason:
        return Located(None, alignment.reason)
    first, end = _touched(alignment.source, span)
    beads = [bead for bead in alignment.beads if bead.source[0] < end and first < bead.source[1]]
    targets = [bead.target for bead in beads if bead.target[0] < bead.target[1]]
    if not targets:
        return Located(None, NO_COUNTERPART)
    if max(bead.cost for bead in beads) > MOST_BEAD_COST:
        return Located(None, POOR_BEAD)
    return Located((alignment.target[targets[0][0]][0], alignment.target[targets[-1][1] - 1][1]))


def _touched(sentences: Sequence[Offsets], span: Offsets) -> Offsets:
    """Return the range of sentences that a span touches; at least one, the nearest before."""
    first = max(bisect_right(sentences, span[0], key=lambda one: one[0]) - 1, 0)
    last = first
    while last + 1 < len(sentences) and sentences[last + 1][0] < span[1]:
        last += 1
    return first, last + 1


def _whole_sentences(sentences: Sequence[Offsets], span: Offsets) -> Offsets:
    """Return [start, end) of the sentences that a span touches, characters."""
    first, end = _touched(sentences, span)
    return sentences[first][0], sentences[end - 1][1]


def _is_poor(beads: Sequence[Bead], source: np.ndarray, target: np.ndarray) -> bool:
    """Say whether lengths agree too little, or too much of either side has no counterpart."""
    costs, missing_source, missing_target = [], 0.0, 0.0
    for bead in beads:
        of_source, of_target = source[slice(*bead.source)], target[slice(*bead.target)]
        if len(of_source) and len(of_target):
            costs.append(bead.cost)
        else:
            missing_source += of_source.sum()
            missing_target += of_target.sum()
    return bool(
        not costs
        or np.mean(costs) > MOST_MEAN_COST
        or missing_source > MOST_UNALIGNED * source.sum()
        or missing_target > MOST_UNALIGNED * target.sum()
    )


def _lengths(spans: Sequence[Offsets]) -> np.ndarray:
    return np.array([end - start for start, end in spans], dtype=np.float64)


# Method ``quote``: the task ``relocate_spans``


def quote_items(tables: Tables, section: TranslateSection) -> Iterator[TaskItem]:
    """Ask for the evidence of the queries of the documents given, where both are translated."""
    names = language_names(section)
    for row in _asked(tables).iter_rows(named=True):
        values = {
            "evidence": row["source"][slice(*row["pos_char_span"])],
            "question": row["question"],
            "document": row["document"],
        }
        yield TaskItem(row["_id"], row["pos_corpus_id"], values | names, row["target_position"])


def gather_quotes(
    tables: Tables, _section: TranslateSection, replies: Iterable[Replied]
) -> Gathered:
    """Find the quotes in the translated documents: one RELOCATED row of every query asked about.

    Without a span the reason is that of `locate_quote`, or ``no_usable_reply``. No query is
    dropped for that: the place of the original's evidence stays known.
    """
    quotes = {reply.item_id: reply_field(reply, "quote", str) for reply in replies}
    rows: list[tuple[object, ...]] = []
    for query_id, document in _asked(tables).select("_id", "document").iter_rows():
        if query_id not in quotes:
            rows.append((query_id, None, NO_REPLY))
            continue
        found = locate_quote(document, quotes[query_id])
        rows.append((query_id, found.span, found.reason))
    return Gathered(pl.DataFrame(rows, schema=LOCATED_SCHEMA, orient="row"))


def _asked(tables: Tables) -> pl.DataFrame:
    """Join the queries of the documents given, in their order, where both are translated.

    Queries without one evidence span are not among them: there is nothing to quote.
    """
    translated = tables["translated"]
    documents = tables[DOCUMENTS_TABLE].select(pos_corpus_id="_id", source="text")
    columns = ("_id", "pos_corpus_id", "pos_char_span", "target_position")
    queries = tables["queries"].select(columns).drop_nulls("pos_char_span")
    questions = translated.filter(kind="query").select("_id", question="text")
    passages = translated.filter(kind="document").select(pos_corpus_id="_id", document="text")
    return (
        documents.join(queries, on="pos_corpus_id", maintain_order="left_right")
        .join(questions, on="_id", maintain_order="left")
        .join(passages, on="pos_corpus_id", maintain_order="left")
    )


def quoted_spans(queries: pl.DataFrame, relocated: pl.DataFrame) -> pl.DataFrame:
    """Give every query the span that a language model quoted: ``LOCATED_SCHEMA`` rows in order.

    A query without a RELOCATED row was not answered for.
    """
    reason = (
        pl.when(pl.col("pos_char_span").is_null())
        .then(pl.lit(NO_SPAN))
        .otherwise(pl.col("reason").fill_null(NO_REPLY))
    )
    joined = queries.select("_id", "pos_char_span").join(
        relocated.select("_id", "span", "reason"), on="_id", how="left", maintain_order="left"
    )
    return joined.select("_id", pl.col("span").cast(SPAN_TYPE), reason=reason)


RELOCATE_SPANS = LlmTask(
    "relocate_spans",
    "quotes",
    (DOCUMENTS_TABLE, "queries", "translated"),
    RELOCATED,
    quote_items,
    gather_quotes,
    prompt="relocate_span",
    documents=CORPUS,
)
