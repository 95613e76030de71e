"""How far the position of evidence survives translation."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import polars as pl

from psibench.build.quality import POOLED
from psibench.tables.quality_schemas import RELOCATION
from psibench.text.sentences import sentence_spans

SPAN, BY, LENGTH = "located_char_span", "located_by", "pos_translated_char_length"
ORIGIN = "located_from_span"
RELOCATED_COLUMNS = (SPAN, BY, LENGTH, ORIGIN)
"""What is read of translated queries; `ORIGIN` is there only if sentences were aligned."""
CLOSE = 0.05
"""The width of one of PosIR's twenty bins."""
ROUNDING = 1e-12
SPAN_TYPE = pl.List(pl.Int64)


def relocation_table(queries: Mapping[str, pl.DataFrame], *, language: str) -> pl.DataFrame:
    """Compare where evidence is in the originals and in their translations: RELOCATION rows.

    The relative position of a span is min(middle, length) / length, as in the evaluation; the
    original's comes from ``pos_char_span`` and ``pos_char_length``, the translation's from
    ``located_char_span`` and ``pos_translated_char_length``. What was located by sentences is
    whole sentences; so its original is, too: ``located_from_span`` where that is given. A query
    whose evidence was not found counts in ``n_queries`` only.

    Parameters
    ----------
    queries
        Domain -> QUERIES rows of a translated language; a domain without the columns of relocation
        has no row.

    Returns
    -------
    A row ``all`` per domain, then one per method where there are several.
    """
    rows = [
        {"language": language, "domain": domain, **row}
        for domain, asked in queries.items()
        if {SPAN, BY, LENGTH} <= set(asked.columns)
        for row in _rows(asked)
    ]
    schema = pl.DataFrame(RELOCATION.schema.empty_table()).schema
    return pl.DataFrame(rows, schema=schema, orient="row")


def position_shifts(queries: pl.DataFrame) -> pl.DataFrame:
    """Return (n_located, 3) ``_id``, ``located_by`` and ``shift``: absolute, in [0, 1]."""
    located = queries.filter(pl.col(SPAN).is_not_null())
    spans = [
        pl.col(name).cast(SPAN_TYPE)
        for name in (ORIGIN, "pos_char_span")
        if name in queries.columns
    ]
    original = _relative(pl.coalesce(spans), "pos_char_length")
    shift = (original - _relative(pl.col(SPAN), LENGTH)).abs()
    return located.select("_id", BY, shift=shift)


def with_origins(queries: pl.DataFrame, source: pl.DataFrame) -> pl.DataFrame:
    """Add ``located_from_span``: the sentences of the original in which located evidence stands.

    Parameters
    ----------
    queries
        Queries located by sentences: ``pos_corpus_id, pos_char_span, located_char_span``. One that
        was not located has null.
    source
        ``_id, text`` of the original documents.
    """
    texts = dict(source.select("_id", "text").iter_rows())
    asked = queries.select("pos_corpus_id", "pos_char_span", SPAN).rows()
    sentences = {
        doc: sentence_spans(texts[doc]) for doc, _, located in asked if located is not None
    }
    origins = [
        None if located is None else _whole_sentences(sentences[doc], start, end)
        for doc, (start, end), located in asked
    ]
    return queries.with_columns(pl.Series(ORIGIN, origins, dtype=pl.Array(pl.Int32, 2)))


def _whole_sentences(sentences: Sequence[tuple[int, int]], start: int, end: int) -> list[int]:
    """Return [start, end) of the sentences that a span touches; of none, the span itself."""
    touched = [one for one in sentences if one[0] < end and start < one[1]]
    return [touched[0][0], touched[-1][1]] if touched else [start, end]


def _relative(span: pl.Expr, length: str) -> pl.Expr:
    ends = span.cast(pl.List(pl.Int64))
    middle = (ends.list.get(0) + ends.list.get(1)) / 2
    size = pl.col(length).cast(pl.Float64)
    return pl.min_horizontal(middle, size) / size


def _rows(queries: pl.DataFrame) -> Iterator[dict[str, str | int | float | None]]:
    shifts = position_shifts(queries)
    yield _row(POOLED, queries.height, shifts)
    methods = shifts.get_column(BY).drop_nulls().unique().sort().to_list()
    for method in methods if len(methods) > 1 else []:
        yield _row(method, queries.height, shifts.filter(pl.col(BY) == method))


def _row(method: str, n_queries: int, shifts: pl.DataFrame) -> dict[str, str | int | float | None]:
    values = shifts.get_column("shift")
    shift = values.to_numpy()
    is_empty = not len(shift)
    return {
        "method": method,
        "n_queries": n_queries,
        "n_located": len(values),
        "share_located": len(values) / n_queries if n_queries else None,
        "median_shift": None if is_empty else float(np.median(shift)),
        "share_within_0.05": None if is_empty else float((shift <= CLOSE + ROUNDING).mean()),
    }
