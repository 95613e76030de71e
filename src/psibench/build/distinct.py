"""Drawing documents from the length bins in the order of their priorities, each text once."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from psibench.build.length_bins import Held, LengthBin
from psibench.config.generation import Sample
from psibench.tables.dropped import DROPPED_SCHEMA, Dropped, dropped_frame
from psibench.text.near_duplicates import Repeat, Repeats

STAGE = "deduplicate"
DUPLICATE_SCHEMA = DROPPED_SCHEMA | {"length_bin": pl.String}


@dataclass(frozen=True)
class Drawn:
    """What was drawn from each bin, and what was left out of each.

    Attributes
    ----------
    documents
        Per bin, best priority first.
    duplicates
        Per bin: a document that would have been drawn, the one it repeats, and how.
    """

    documents: list[list[Held]]
    duplicates: list[list[tuple[Held, Held, Repeat]]]


def draw_distinct(bins: Sequence[LengthBin], sample: Sample) -> Drawn:
    """Go through the documents of all bins by priority, and draw those that repeat none drawn.

    A bin that has what is wanted is drawn from no more, so a document is compared with those of the
    sample only: a sample without duplicates is the same with and without looking for them.
    """
    drawn = Drawn([[] for _ in bins], [[] for _ in bins])
    entries = [(number, entry) for number, own in enumerate(bins) for entry in own.held]
    entries.sort(key=lambda pair: (-pair[1].order, pair[1].place))
    repeats = _repeats([entry for _, entry in entries], sample)
    for place, (number, entry) in enumerate(entries):
        wanted = bins[number].wanted
        if wanted is not None and len(drawn.documents[number]) >= wanted:
            continue
        repeat = repeats and repeats.find(place)
        if repeat:
            drawn.duplicates[number].append((entry, entries[repeat.number][1], repeat))
            continue
        drawn.documents[number].append(entry)
        if repeats:
            repeats.keep(place)
    return drawn


def duplicate_rows(bins: Sequence[LengthBin], drawn: Drawn) -> pl.DataFrame:
    """Return the duplicates as rows of the ledger, ``DUPLICATE_SCHEMA``, in order of the source.

    ``detail`` is the id of the document that is repeated, ``score`` the Jaccard index.
    """
    found = sorted(
        (entry.place, own.label, entry, other, repeat)
        for own, duplicates in zip(bins, drawn.duplicates, strict=True)
        for entry, other, repeat in duplicates
    )
    rows = [
        Dropped(
            STAGE,
            "documents",
            entry.doc_id,
            entry.doc_id,
            repeat.reason,
            other.doc_id,
            repeat.jaccard,
            char_length=len(entry.text),
        )
        for _, _, entry, other, repeat in found
    ]
    labels = pl.Series("length_bin", [label for _, label, *_ in found], dtype=pl.String)
    return dropped_frame(rows).with_columns(labels)


def _repeats(entries: Sequence[Held], sample: Sample) -> Repeats | None:
    if sample.deduplicate == "none":
        return None
    jaccard = sample.near_duplicate_jaccard if sample.deduplicate == "near" else None
    return Repeats(lambda place: entries[place].text, len(entries), jaccard=jaccard)
