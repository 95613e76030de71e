"""Cutting a corpus' long documents into passages, with an account of what is too short."""

from itertools import groupby
from operator import itemgetter

import polars as pl

from psibench.config.corpora import Passages
from psibench.tables.dropped import Dropped, dropped_frame
from psibench.text.passages import cut_documents

STAGE = "cut_documents"
DETAIL_CHARS = 80


def cut_into_passages(
    documents: pl.DataFrame, passages: Passages
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return DOCUMENTS rows of passages, and the pieces left out (reason passage_too_short).

    The pieces of ``d`` have ids ``d-unfit-001``, ``d-unfit-002``, ..., and ``d`` as document: it is
    the source's and not in the sample. ``char_length`` is that of the piece.
    """
    kept, pieces = cut_documents(documents, **passages.model_dump())
    rows = [
        Dropped(
            STAGE,
            "passages",
            f"{doc_id}-unfit-{number:03d}",
            doc_id,
            "passage_too_short",
            text[:DETAIL_CHARS],
            char_length=len(text),
        )
        for doc_id, own in groupby(pieces, key=itemgetter(0))
        for number, (_, text) in enumerate(own, start=1)
    ]
    return kept, dropped_frame(rows)
