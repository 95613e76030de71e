"""A sample of documents by length: so many per length bin, read in one pass over the source.

Each document has a priority, a hash of the seed and its id, and a bin takes those of the smallest
(`sample_documents`). A document that repeats one drawn is left out. The stage that draws the
documents of a generated benchmark is in `psibench.generate.sample`.
"""

import hashlib
import heapq
import logging
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby, pairwise
from math import ceil
from operator import itemgetter
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl
from pydantic import Field, model_validator

from psibench.config.base import Section
from psibench.config.sources import DocumentSource, PythonDocsSource
from psibench.errors import InputError
from psibench.sources.local import local_files
from psibench.tables import content_hash, read_provenance
from psibench.tables.build_schemas import SAMPLING
from psibench.tables.domains import OfDomain, domain_params
from psibench.tables.dropped import Dropped, dropped_frame
from psibench.text.lengths import count_in_parts, count_words
from psibench.text.near_duplicates import Repeat, Repeats
from psibench.text.passages import cut_documents

logger = logging.getLogger("psibench")

OUTSIDE = "outside"
DETAIL_CHARS = 80
SAMPLED_SCHEMA = dict.fromkeys(("_id", "text", "origin", "length", "length_bin"), pl.String) | {
    "length": pl.Int32
}
PART_ROWS = 2000
TOO_FEW = "sample: %d documents of %s %s wanted, %d found%s; the sample is smaller than asked for"

Measure = Callable[[Sequence[str]], np.ndarray]


class Passages(Section):
    """Cut documents longer than max_words into passages, between paragraphs."""

    min_words: int = Field(default=60, ge=1)
    """Shortest passage cut, words; a shorter rest is left out."""
    max_words: int = Field(default=700, ge=2)
    """Longest passage, words. Documents up to this length stay as they are."""
    seed: int = Field(default=42, ge=0)
    """Seed of the passage lengths."""


class Sample(Section):
    """Documents drawn by length: so many per length bin, the same ones every time."""

    unit: Literal["chars", "words", "tokens"] = "words"
    """What length counts. words: pieces split on one space. tokens: of length_tokenizer."""
    edges: list[int] = Field(min_length=2)
    """Borders of the length bins; a bin has its lower border and not its upper one, the last bin
    has both."""
    shares: list[int] | None = None
    """How the documents are shared out among the bins, as 3, 3, 2; null shares evenly."""
    n_documents: int | None = Field(default=None, ge=1)
    """Documents in all; null takes every document of a fitting length."""
    seed: int = Field(default=42, ge=0)
    """Seed of the draw."""
    deduplicate: Literal["near", "exact", "none"] = "near"
    """Drop documents that repeat one drawn before. exact: the same text but for case and white
    space. near: also those that share most of their shingles of five words (of five characters in
    scripts without spaces)."""
    near_duplicate_jaccard: float = Field(default=0.8, ge=0.5, le=1)
    """From which share of the shingles of two documents they are near duplicates: those in both
    over those in either."""
    reserve: float = Field(default=0.2, ge=0, le=10)
    """Documents kept over a bin's number, as a share of it, to take the place of duplicates."""

    @model_validator(mode="after")
    def _consistent(self) -> "Sample":
        if self.edges[0] < 0 or any(low >= high for low, high in pairwise(self.edges)):
            raise ValueError(f"edges {self.edges} do not rise from 0 or above")
        n_bins = len(self.edges) - 1
        if self.shares is not None:
            if len(self.shares) != n_bins or min(self.shares) < 1:
                raise ValueError(f"shares {self.shares}: give {n_bins} whole numbers from 1 up")
            if self.n_documents is None:
                raise ValueError("shares without n_documents; give both or neither")
        return self


# What decides a sample


def sample_params(
    source: DocumentSource,
    passages: Passages | None,
    sample: Sample,
    *,
    length_tokenizer: str,
    id_prefix: str = "",
) -> dict[str, Any]:
    """Return the parameters of a corpus' ``sample`` rule: what decides its documents."""
    params: dict[str, Any] = {
        "source": source.model_dump(mode="json"),
        "passages": passages and passages.model_dump(mode="json"),
        "sample": sample.model_dump(mode="json"),
    }
    if sample.unit == "tokens":
        params["length_tokenizer"] = length_tokenizer
    if id_prefix:
        params["id_prefix"] = id_prefix
    if isinstance(source, PythonDocsSource):
        import platform

        params["python"] = platform.python_version()
    return params


SAMPLED_BY = ("source", "passages", "sample")


def is_current(
    table: OfDomain,
    source: DocumentSource,
    passages: Passages | None,
    sample: Sample,
    *,
    length_tokenizer: str,
) -> bool:
    """Say whether a domain's rows of a documents table are what its sample would be now.

    A dataset on the hub counts as the same while its name and revision are.
    """
    record = read_provenance(table) or {}
    params = domain_params(record, table.domain)
    wanted = sample_params(source, passages, sample, length_tokenizer=length_tokenizer)
    if params is None or any(params[name] != wanted[name] for name in SAMPLED_BY):
        return False
    files = {path: content_hash(path) for path in local_files(source)}
    return files.items() <= record["inputs"].items()


def prefixed(frame: pl.DataFrame, prefix: str, *columns: str) -> pl.DataFrame:
    """Put a prefix before the ids in some columns: sources count alike, domains have to differ."""
    return frame.with_columns((pl.lit(prefix) + pl.col(name)).alias(name) for name in columns)


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
            "cut_documents",
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


def length_measure(
    unit: Literal["chars", "words", "tokens"], length_tokenizer: str = "words"
) -> Measure:
    """Return texts -> (n_texts,) int32 lengths in a unit.

    ``chars``; ``words``: the pieces split on one space; ``tokens``: those of ``length_tokenizer``
    (see `token_counter`), special tokens left out.
    """
    if unit == "chars":
        return lambda texts: np.fromiter(map(len, texts), dtype=np.int32, count=len(texts))
    if unit == "words":
        return count_words
    from psibench.models.counting import token_counter

    return count_in_parts(token_counter(length_tokenizer))


# The draw


class Held(NamedTuple):
    """A document that may be drawn; ``place`` is its number in the source, from 0.

    ``order`` is the negated priority: the larger, the sooner it is drawn. ``packed`` is the text,
    UTF-8 and compressed: a third of its size.
    """

    order: int
    place: int
    doc_id: str
    packed: bytes
    origin: str
    length: int

    @property
    def text(self) -> str:
        """The text as it was read."""
        return zlib.decompress(self.packed).decode()


@dataclass
class LengthBin:
    """One length bin, or what lies outside of all: then it has no borders.

    ``wanted`` and ``capacity`` are the documents to draw and to hold, some more than wanted; None:
    all. ``held`` has those of the best priorities of the ``n_seen`` in the source; where there is a
    capacity it is a heap, first comes what goes next. ``drawn`` is the sample of these, best
    priority first; ``duplicates`` has what would have been drawn, the document that it repeats, and
    how.
    """

    label: str
    low: int | None
    high: int | None
    wanted: int | None
    capacity: int | None
    n_seen: int = 0
    held: list[Held] = field(default_factory=list)
    drawn: list[Held] = field(default_factory=list)
    duplicates: list[tuple[Held, Held, Repeat]] = field(default_factory=list)

    def has_room(self, order: int, place: int) -> bool:
        """Say whether a document of this priority would be held."""
        if self.capacity is None or len(self.held) < self.capacity:
            return True
        return bool(self.held) and (order, place) >= self.held[0][:2]

    def hold(self, entry: Held) -> None:
        """Hold a document that there is room for; of a full bin the worst goes."""
        if self.capacity is None:
            self.held.append(entry)
        elif len(self.held) >= self.capacity:
            heapq.heapreplace(self.held, entry)
        else:
            heapq.heappush(self.held, entry)


@dataclass
class Candidates:
    """The documents of a source, or of a part of it, that may be drawn.

    ``bins`` are in order, what lies outside of all is the last; ``n_documents`` were read, of which
    ``shortest`` and ``longest`` are the least and the greatest length.
    """

    bins: list[LengthBin]
    n_documents: int = 0
    shortest: int | None = None
    longest: int = 0

    @classmethod
    def none(cls, sample: Sample) -> "Candidates":
        """Make empty bins."""
        return cls(_empty_bins(sample))

    def extend_range(self, low: int, high: int) -> None:
        """Say that there are documents of these lengths."""
        self.shortest = low if self.shortest is None else min(self.shortest, low)
        self.longest = max(self.longest, high)


@dataclass(frozen=True)
class Sampled:
    """The documents drawn, in the order of the source, and how many there were of each length.

    ``held`` are the documents with their length bins, the texts compressed; ``sampling`` the
    SAMPLING rows, of which what lies outside of all bins is the last; ``duplicates`` the documents
    left out for repeating another, in order of the source, as `Dropped` with their ``length_bin``
    (``detail`` is the id of the document repeated, ``score`` the Jaccard index).
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
    place: a bin holds some more than it needs for that, ``sample.reserve``.

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
    return draw(read_candidates(batches, sample, measure), sample)


def draw(candidates: Candidates, sample: Sample) -> Sampled:
    """Draw a sample from the candidates of a whole source; raise InputError if none is drawn."""
    bins = candidates.bins
    _draw_distinct(bins, sample)
    if not any(own.drawn for own in bins):
        raise InputError(_nothing_drawn(candidates, sample))
    for own in bins:
        if own.wanted is not None and len(own.drawn) < own.wanted:
            why = _why_too_few(own)
            logger.warning(TOO_FEW, own.wanted, own.label, sample.unit, len(own.drawn), why)
    held = [(entry, own.label) for own in bins for entry in own.drawn]
    columns = (
        (b.label, sample.unit, b.low, b.high, b.n_seen, b.wanted, len(b.drawn), len(b.duplicates))
        for b in bins
    )
    return Sampled(
        sorted(held, key=lambda pair: pair[0].place),
        pl.DataFrame(list(columns), schema=SAMPLING.empty().schema, orient="row"),
        _duplicate_rows(bins),
    )


def read_candidates(
    batches: Iterable[pl.DataFrame], sample: Sample, measure: Measure
) -> Candidates:
    """Read documents to their end, and hold those that may be drawn; as `sample_documents`."""
    found = Candidates.none(sample)
    for batch in batches:
        if batch.is_empty():
            continue
        lengths = np.asarray(measure(batch.get_column("text").to_list()))
        found.extend_range(int(lengths.min()), int(lengths.max()))
        numbers = bin_numbers(lengths, sample.edges).tolist()
        rows = batch.select("_id", "text", "origin").iter_rows()
        for number, length, row in zip(numbers, lengths.tolist(), rows, strict=True):
            own, order, place = (
                found.bins[number],
                -priority(sample.seed, row[0]),
                found.n_documents,
            )
            own.n_seen += 1
            found.n_documents += 1
            if own.has_room(order, place):
                doc_id, text, origin = row
                packed = zlib.compress(text.encode(), level=1)
                own.hold(Held(order, place, doc_id, packed, origin, length))
    return found


def _empty_bins(sample: Sample) -> list[LengthBin]:
    """Make the bins in order; what lies outside is the last, where the number -1 finds it."""
    borders = list(pairwise(sample.edges))
    wanted: list[int | None] = [None] * len(borders)
    if sample.n_documents is not None:
        wanted = [*quotas(sample.n_documents, sample.shares or [1] * len(borders))]
    more = 0.0 if sample.deduplicate == "none" else sample.reserve
    bins = [
        LengthBin(
            f"{low}-{high}", low, high, part, None if part is None else part + ceil(part * more)
        )
        for (low, high), part in zip(borders, wanted, strict=True)
    ]
    return [*bins, LengthBin(OUTSIDE, None, None, 0, 0)]


def priority(seed: int, doc_id: str) -> int:
    """Return a document's priority, of 128 bits: the smallest are drawn first."""
    return int.from_bytes(hashlib.blake2b(f"{seed}\x1f{doc_id}".encode(), digest_size=16).digest())


def quotas(n_documents: int, shares: Sequence[int]) -> list[int]:
    """Share out a number of documents by largest remainder, so that the parts sum to it.

    Of equal remainders, the bin of shorter documents comes first.
    """
    total = sum(shares)
    parts = [n_documents * share // total for share in shares]
    remainders = [n_documents * share % total for share in shares]
    by_remainder = sorted(range(len(shares)), key=lambda i: (-remainders[i], i))
    for i in by_remainder[: n_documents - sum(parts)]:
        parts[i] += 1
    return parts


def bin_numbers(lengths: np.ndarray, edges: Sequence[int]) -> np.ndarray:
    """Return each length's bin, (n,) int64 from 0, or -1 outside.

    A bin has its lower border and not its upper one; the last bin has both (PosQ, section 3.2:
    500 to 1,024 words).
    """
    numbers = np.searchsorted(edges, lengths, side="right") - 1
    numbers[lengths == edges[-1]] = len(edges) - 2
    numbers[lengths > edges[-1]] = -1
    return numbers


def _draw_distinct(bins: Sequence[LengthBin], sample: Sample) -> None:
    """Go through the documents of all bins by priority, and draw those that repeat none drawn.

    A bin that has what is wanted is drawn from no more, so a document is compared with those of the
    sample only: a sample without duplicates is the same with and without looking for them.
    """
    entries = [(own, entry) for own in bins for entry in own.held]
    entries.sort(key=lambda pair: (-pair[1].order, pair[1].place))
    repeats = None
    if sample.deduplicate != "none":
        jaccard = sample.near_duplicate_jaccard if sample.deduplicate == "near" else None
        repeats = Repeats(lambda place: entries[place][1].text, len(entries), jaccard=jaccard)
    for place, (own, entry) in enumerate(entries):
        if own.wanted is not None and len(own.drawn) >= own.wanted:
            continue
        repeat = repeats and repeats.find(place)
        if repeat:
            own.duplicates.append((entry, entries[repeat.number][1], repeat))
            continue
        own.drawn.append(entry)
        if repeats:
            repeats.keep(place)


def _duplicate_rows(bins: Sequence[LengthBin]) -> pl.DataFrame:
    found = sorted(
        (entry.place, own.label, entry, other, repeat)
        for own in bins
        for entry, other, repeat in own.duplicates
    )
    rows = [
        Dropped(
            "deduplicate",
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


def _why_too_few(own: LengthBin) -> str:
    if not own.duplicates:
        return ""
    why = f" ({len(own.duplicates)} duplicates left out"
    if len(own.held) < own.n_seen:
        why += f", and no more than {len(own.held)} of {own.n_seen} held: raise sample.reserve"
    return f"{why})"


def _nothing_drawn(found: Candidates, sample: Sample) -> str:
    if not found.n_documents:
        return "sample: the source holds no document"
    seen = ", ".join(f"{held.label}: {held.n_seen}" for held in found.bins)
    return (
        f"sample: no document drawn. The source's {found.n_documents} documents have "
        f"{found.shortest} to {found.longest} {sample.unit} ({seen}). Change "
        "sample.edges or sample.unit, ask for more documents, cut long ones (`passages: {}`), or "
        "take another source."
    )
