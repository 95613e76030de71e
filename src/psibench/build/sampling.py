"""A sample of documents by length: so many per length bin, read in one pass over the source."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from psibench.build.distinct import Drawn, draw_distinct, duplicate_rows
from psibench.build.length_bins import (
    OUTSIDE,
    Held,
    LengthBin,
    bin_numbers,
    empty_bins,
    priority,
    quotas,
)
from psibench.build.length_measure import Measure, length_measure
from psibench.config.generation import Sample
from psibench.errors import InputError
from psibench.tables.build_schemas import SAMPLING

__all__ = [
    "OUTSIDE",
    "Measure",
    "Sampled",
    "bin_numbers",
    "length_measure",
    "quotas",
    "sample_documents",
]
logger = logging.getLogger("psibench")

TOO_FEW = "sample: %d documents of %s %s wanted, %d found%s; the sample is smaller than asked for"
SAMPLED_SCHEMA = dict.fromkeys(("_id", "text", "origin", "length", "length_bin"), pl.String) | {
    "length": pl.Int32
}
PART_ROWS = 2000


@dataclass(frozen=True)
class Sampled:
    """The documents drawn, in the order of the source, and how many there were of each length.

    Attributes
    ----------
    held
        The documents with their length bins; the texts compressed.
    sampling
        SAMPLING rows; what lies outside of all bins is the last.
    duplicates
        `DUPLICATE_SCHEMA` rows: the documents left out for repeating another.
    """

    held: Sequence[tuple[Held, str]]
    sampling: pl.DataFrame
    duplicates: pl.DataFrame

    @cached_property
    def documents(self) -> pl.DataFrame:
        """DOCUMENTS rows with ``length`` (int32, in the sample's unit) and ``length_bin``."""
        return pl.concat(self.parts())

    def parts(self) -> Iterator[pl.DataFrame]:
        """Yield `documents` in parts, anew at each call, for those who need not hold all texts."""
        for start in range(0, len(self.held), PART_ROWS):
            part = self.held[start : start + PART_ROWS]
            rows = [(e.doc_id, e.text, e.origin, e.length, label) for e, label in part]
            yield pl.DataFrame(rows, schema=SAMPLED_SCHEMA, orient="row")


def sample_documents(
    batches: Iterable[pl.DataFrame], *, sample: Sample, measure: Measure
) -> Sampled:
    """Draw documents by length, with what may be drawn (compressed) and one batch in memory.

    Each document has a priority, a hash of the seed and its id; a bin takes those of the smallest.
    So the draw depends neither on the size of the batches nor on the order of the source; the rows
    keep that order: the same documents in another order give the same set, in that order.

    A document that repeats one of better priority is left out, and the next of its bin takes its
    place: a bin holds some more than it needs for that, ``sample.reserve``. See `draw_distinct`.

    A bin that cannot be filled is reported in ``sampling`` and with a warning; what it lacks is not
    made up for by other bins.

    Parameters
    ----------
    batches
        DOCUMENTS rows, ids unique over all batches.
    measure
        texts -> (n_texts,) lengths in the sample's unit; see `length_measure`.

    Raises
    ------
    InputError
        If no document is drawn.
    """
    bins, extremes = _read(batches, sample, measure)
    drawn = draw_distinct(bins, sample)
    if not any(drawn.documents):
        raise InputError(_nothing_drawn(bins, sample, extremes))
    for own, documents, duplicates in zip(bins, drawn.documents, drawn.duplicates, strict=True):
        if own.wanted is not None and len(documents) < own.wanted:
            why = _why_too_few(own, len(duplicates))
            logger.warning(TOO_FEW, own.wanted, own.label, sample.unit, len(documents), why)
    return Sampled(
        _in_order(bins, drawn), _sampling(bins, drawn, sample.unit), duplicate_rows(bins, drawn)
    )


def _read(
    batches: Iterable[pl.DataFrame], sample: Sample, measure: Measure
) -> tuple[list[LengthBin], list[int]]:
    """Read the source to its end; returns the filled bins, and the least and greatest length."""
    bins, extremes = empty_bins(sample), [0, 0]
    n_seen = 0
    for batch in batches:
        if batch.is_empty():
            continue
        lengths = np.asarray(measure(batch.get_column("text").to_list()))
        low, high = int(lengths.min()), int(lengths.max())
        extremes = [min(extremes[0], low) if n_seen else low, max(extremes[1], high)]
        numbers = bin_numbers(lengths, sample.edges).tolist()
        rows = batch.select("_id", "text", "origin").iter_rows()
        for number, length, row in zip(numbers, lengths.tolist(), rows, strict=True):
            bins[number].offer(-priority(sample.seed, row[0]), n_seen, row, length)
            n_seen += 1
    return bins, extremes


def _in_order(bins: Sequence[LengthBin], drawn: Drawn) -> list[tuple[Held, str]]:
    """Put what was drawn into the order of the source."""
    pairs = zip(bins, drawn.documents, strict=True)
    held = [(entry, own.label) for own, documents in pairs for entry in documents]
    return sorted(held, key=lambda pair: pair[0].place)


def _sampling(bins: Sequence[LengthBin], drawn: Drawn, unit: str) -> pl.DataFrame:
    rows = [
        (own.label, unit, own.low, own.high, own.n_seen, own.wanted, len(documents), len(left_out))
        for own, documents, left_out in zip(bins, drawn.documents, drawn.duplicates, strict=True)
    ]
    empty = pl.DataFrame(pl.from_arrow(SAMPLING.schema.empty_table()))
    return pl.DataFrame(rows, schema=empty.schema, orient="row")


def _why_too_few(own: LengthBin, n_duplicates: int) -> str:
    if not n_duplicates:
        return ""
    why = f" ({n_duplicates} duplicates left out"
    if len(own.held) < own.n_seen:
        why += f", and no more than {len(own.held)} of {own.n_seen} held: raise sample.reserve"
    return f"{why})"


def _nothing_drawn(bins: Sequence[LengthBin], sample: Sample, extremes: Sequence[int]) -> str:
    n_seen = sum(held.n_seen for held in bins)
    if not n_seen:
        return "sample: the source holds no document"
    seen = ", ".join(f"{held.label}: {held.n_seen}" for held in bins)
    return (
        f"sample: no document drawn. The source's {n_seen} documents have {extremes[0]} to "
        f"{extremes[1]} {sample.unit} ({seen}). Change sample.edges or sample.unit, ask for more "
        "documents, cut long ones (`passages: {}`), or take another source."
    )
