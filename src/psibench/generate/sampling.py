"""Samples of documents by length: a number per length bin, read in one pass over the source.

Each document has a priority, a hash of the seed and its id; a bin takes the documents of smallest
priority (`draw`). A document that repeats a drawn one is left out. `psibench.generate.sample` has
the stage that uses this module.
"""

import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from math import ceil
from operator import itemgetter
from typing import Any, Literal

import numpy as np
import polars as pl
from pydantic import Field, model_validator

from psibench.config.base import Section
from psibench.config.sources import DocumentSource
from psibench.errors import InputError
from psibench.sources.checks import refuse_repeated
from psibench.sources.local import interpreter_of, local_files
from psibench.tables import content_hash, read_provenance
from psibench.tables.build_schemas import SAMPLING
from psibench.tables.domains import OfDomain, domain_params
from psibench.tables.dropped import Dropped, Flow, dropped_frame
from psibench.text.lengths import count_in_parts, count_words
from psibench.text.near_duplicates import DistinctTexts, Repeat
from psibench.text.passages import EXCERPT_CHARS, PAGES, cut_documents

logger = logging.getLogger("psibench")

OUTSIDE = "outside"
_CUT_STAGE = "cut_documents"
_SAMPLED_COLUMNS = ("_id", "text", "origin", "length", "length_bin")
_TOO_FEW_IN_BIN = "%s: drew only %d of the %d requested documents of %s %s%s"

LengthMeasure = Callable[[Sequence[str]], np.ndarray]


class Passages(Section):
    """Cut documents longer than max_words into passages, between paragraphs."""

    min_words: int = Field(default=60, ge=1)
    """Shortest passage, words; shorter pieces are left out."""
    max_words: int = Field(default=700, ge=2)
    """Longest passage, words. Documents up to this length are not cut."""
    seed: int = Field(default=42, ge=0)
    """Seed of the passage lengths."""


class Sample(Section):
    """Documents drawn by length, a number per length bin; the draw is reproducible."""

    unit: Literal["chars", "words", "tokens"] = "words"
    """Unit of length. words: pieces split on one space. tokens: of length_tokenizer."""
    edges: list[int] = Field(min_length=2)
    """Edges of the length bins. A bin includes its lower edge but not its upper one; the last bin
    includes both."""
    shares: list[int] | None = None
    """Ratio of the documents in the bins, e.g. 3, 3, 2; null: the same number in each."""
    n_documents: int | None = Field(default=None, ge=1)
    """Documents in all; null takes every document whose length is in a bin."""
    seed: int = Field(default=42, ge=0)
    """Seed of the draw."""
    deduplicate: Literal["near", "exact", "none"] = "near"
    """Drop documents that repeat one drawn before. exact: the same text, ignoring case and white
    space. near: also texts whose sets of shingles have a Jaccard index of at least 0.8; shingles
    are five words (five characters in scripts without spaces)."""
    reserve: float = Field(default=0.2, ge=0, le=10)
    """Spare documents per bin, as a share of its number; they replace duplicates."""

    @model_validator(mode="after")
    def _consistent(self) -> "Sample":
        if self.edges[0] < 0 or any(low >= high for low, high in pairwise(self.edges)):
            raise ValueError(f"edges {self.edges}: give rising numbers, the first 0 or above")
        n_bins = len(self.edges) - 1
        if self.shares is not None:
            if len(self.shares) != n_bins or min(self.shares) < 1:
                raise ValueError(f"shares {self.shares}: give {n_bins} whole numbers from 1 up")
            if self.n_documents is None:
                raise ValueError("shares without n_documents; give both or neither")
        return self


# Parameters of a sample


def sample_params(
    source: DocumentSource,
    passages: Passages | None,
    sample: Sample,
    *,
    length_tokenizer: str,
    id_prefix: str = "",
) -> dict[str, Any]:
    """Return the parameters of a ``sample`` rule: everything that decides a corpus' documents."""
    params: dict[str, Any] = {
        "source": source.model_dump(mode="json"),
        "passages": passages and passages.model_dump(mode="json"),
        "sample": sample.model_dump(mode="json"),
    }
    if sample.unit == "tokens":
        params["length_tokenizer"] = length_tokenizer
    if id_prefix:
        params["id_prefix"] = id_prefix
    return params | interpreter_of(source)


SAMPLED_BY = ("source", "passages", "sample")


def is_current(
    table: OfDomain,
    source: DocumentSource,
    passages: Passages | None,
    sample: Sample,
    *,
    length_tokenizer: str,
) -> bool:
    """Return whether its sample would draw a domain's documents again.

    A dataset on the hub counts as unchanged while its name and revision are.
    """
    record = read_provenance(table) or {}
    params = domain_params(record, table.domain)
    wanted = sample_params(source, passages, sample, length_tokenizer=length_tokenizer)
    if params is None or any(params[name] != wanted[name] for name in SAMPLED_BY):
        return False
    files = {path: content_hash(path) for path in local_files(source)}
    return files.items() <= record["inputs"].items()


def prefixed(frame: pl.DataFrame, prefix: str, *columns: str) -> pl.DataFrame:
    """Put a prefix before the ids in some columns, so that ids of different domains differ."""
    return frame.with_columns((pl.lit(prefix) + pl.col(name)).alias(name) for name in columns)


def cut_into_passages(
    documents: pl.DataFrame, passages: Passages
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return DOCUMENTS rows of passages, and dropped rows of the pieces (passage_too_short).

    The pieces of ``d`` have ids ``d-unfit-001``, ``d-unfit-002``, ..., and the source's ``d`` as
    document, which is not in the sample. ``char_length`` is the length of the piece.
    """
    cut, pieces = cut_documents(documents, **passages.model_dump())
    rows = [
        Dropped(
            _CUT_STAGE,
            "passages",
            f"{doc_id}-unfit-{number:03d}",
            doc_id,
            "passage_too_short",
            text[:EXCERPT_CHARS],
            char_length=len(text),
        )
        for doc_id, of_document in groupby(pieces, key=itemgetter(0))
        for number, (_, text) in enumerate(of_document, start=1)
    ]
    return cut, dropped_frame(rows)


def passages_flow(passages: pl.DataFrame, left_out: pl.DataFrame) -> tuple[str, Flow]:
    """Return (stage, counts) of the two tables that `cut_into_passages` returned."""
    n_passages = passages.height
    return _CUT_STAGE, Flow("passages", n_passages + left_out.height, n_passages)


def length_measure(
    unit: Literal["chars", "words", "tokens"], length_tokenizer: str = "words"
) -> LengthMeasure:
    """Return a function from texts to their lengths in a unit, (n_texts,) int32.

    ``words``: pieces split on one space. ``tokens``: tokens of ``length_tokenizer`` (see
    `token_counter`) without special tokens.
    """
    if unit == "chars":
        return lambda texts: np.fromiter(map(len, texts), dtype=np.int32, count=len(texts))
    if unit == "words":
        return count_words
    from psibench.models.counting import token_counter

    return count_in_parts(token_counter(length_tokenizer))


# The draw


_CANDIDATE_SCHEMA: dict[str, Any] = {
    **{"place": pl.Int64, "bin": pl.Int32, "priority": pl.Binary},
    **{"_id": pl.String, "text": pl.String, "origin": pl.String, "length": pl.Int32},
}


class Candidates:
    """The documents of a source or part that may be drawn.

    Attributes
    ----------
    rows
        ``_CANDIDATE_SCHEMA``: ``place`` is the document's number in the source and ``bin`` its
        length bin, both from 0. Each bin has only its documents of smallest ``priority``. If some
        document has pages, also where they start.
    n_seen
        Documents read, by bin; the last number counts documents outside all bins.
    shortest, longest
        Smallest and largest length read; None if nothing was read.
    """

    def __init__(self, sample: Sample) -> None:
        self.sample = sample
        self.rows = pl.DataFrame(schema=_CANDIDATE_SCHEMA)
        self.n_seen = [0] * len(sample.edges)
        self.shortest: int | None = None
        self.longest: int | None = None
        reserve = 0.0 if sample.deduplicate == "none" else sample.reserve
        wanted = wanted_by_bin(sample)
        self._capacities = None if wanted is None else [n + ceil(n * reserve) for n in wanted]

    def read(self, batch: pl.DataFrame, lengths: np.ndarray) -> None:
        """Add DOCUMENTS rows, with (n,) lengths, that follow the earlier ones in the source."""
        bins = bin_numbers(lengths, self.sample.edges)
        rows = batch.select(
            pl.int_range(pl.len(), dtype=pl.Int64).alias("place"),
            pl.Series("bin", bins, dtype=pl.Int32),
            pl.Series("priority", [draw_priority(self.sample.seed, key) for key in batch["_id"]]),
            *("_id", "text", "origin"),
            pl.Series("length", lengths, dtype=pl.Int32),
            PAGES,
        ).filter(pl.col("bin") >= 0)
        n_seen = [int((bins == number).sum()) for number in (*range(len(self.n_seen) - 1), -1)]
        self.add(rows, n_seen, int(lengths.min()), int(lengths.max()))

    def add(
        self, rows: pl.DataFrame, n_seen: Sequence[int], shortest: int | None, longest: int | None
    ) -> None:
        """Add candidates that follow the earlier ones in the source; ``place`` counts from 0."""
        rows = rows.with_columns(pl.col("place") + sum(self.n_seen))
        self.n_seen = [before + more for before, more in zip(self.n_seen, n_seen, strict=True)]
        self.shortest = min((n for n in (self.shortest, shortest) if n is not None), default=None)
        self.longest = max((n for n in (self.longest, longest) if n is not None), default=None)
        self.rows = pl.concat([self.rows, rows], how="diagonal")
        if self._capacities is not None:
            rank = pl.col("priority").rank("ordinal").over("bin")
            capacity = pl.col("bin").replace_strict(dict(enumerate(self._capacities)))
            self.rows = self.rows.filter(rank <= capacity)


@dataclass(frozen=True)
class Sampled:
    """The drawn documents, in the order of the source, and the counts by length.

    ``documents`` are DOCUMENTS rows with ``length`` (int32, in the sample's unit) and
    ``length_bin``. ``sampling`` are SAMPLING rows; the last one counts documents outside all bins.
    ``duplicates`` are the documents left out because they repeat another, in the order of the
    source, as `Dropped` rows with their ``length_bin`` (``detail`` is the id of the repeated
    document, ``score`` the Jaccard index).
    """

    documents: pl.DataFrame
    sampling: pl.DataFrame
    duplicates: pl.DataFrame


def read_candidates(
    batches: Iterable[pl.DataFrame], sample: Sample, measure: LengthMeasure
) -> Candidates:
    """Read all documents (DOCUMENTS rows) and return the candidates.

    ``measure``: texts -> (n_texts,) lengths in the sample's unit; see `length_measure`.
    """
    candidates = Candidates(sample)
    for batch in batches:
        if batch.height:
            candidates.read(batch, np.asarray(measure(batch.get_column("text").to_list())))
    return candidates


def draw(candidates: Candidates, *, where: str) -> Sampled:
    """Draw documents by length from the candidates of a whole source.

    Each document has a priority, a hash of the seed and its id; a bin takes the documents of
    smallest priority. The set of drawn documents therefore depends neither on the batch size nor on
    the order of the source; the rows follow the order of the source.

    A document that repeats one of smaller priority is left out, and the next one of its bin
    replaces it. ``sample.reserve`` gives each bin spare candidates for that.

    If a bin has too few documents, ``sampling`` reports it, with a warning; other bins do not
    compensate. ``where`` is the sample's name in messages.

    Raises InputError if no document is drawn, or two candidates have the same id.
    """
    sample, n_seen = candidates.sample, candidates.n_seen
    labels = [f"{low}-{high}" for low, high in pairwise(sample.edges)]
    wanted = wanted_by_bin(sample)
    rows = candidates.rows.with_columns(
        length_bin=pl.col("bin").replace_strict(dict(enumerate(labels)), return_dtype=pl.String)
    )
    refuse_repeated(rows, where=where)
    drawn, duplicates = _draw_distinct(rows.sort("priority"), sample, wanted)
    if drawn.is_empty():
        raise InputError(f"{where}: {_nothing_drawn(candidates, labels)}")
    sampling = []
    borders: list[tuple[int | None, int | None]] = [*pairwise(sample.edges), (None, None)]
    unlimited: list[int | None] = [None] * len(labels)
    quota = [*(wanted or unlimited), 0]
    for number, label in enumerate([*labels, OUTSIDE]):
        (low, high), n_wanted = borders[number], quota[number]
        n_drawn, n_left_out = (frame.filter(bin=number).height for frame in (drawn, duplicates))
        if n_wanted is not None and n_drawn < n_wanted:
            n_held = rows.filter(bin=number).height
            why = _why_too_few(n_left_out, n_held, n_seen[number])
            logger.warning(_TOO_FEW_IN_BIN, where, n_drawn, n_wanted, label, sample.unit, why)
        counts = (n_seen[number], n_wanted, n_drawn, n_left_out)
        sampling.append((label, sample.unit, low, high, *counts))
    return Sampled(
        drawn.sort("place").select(*_SAMPLED_COLUMNS, PAGES),
        pl.DataFrame(sampling, schema=SAMPLING.empty().schema, orient="row"),
        _as_dropped(duplicates.sort("place")),
    )


def _draw_distinct(
    rows: pl.DataFrame, sample: Sample, wanted: Sequence[int] | None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Go through candidates by priority; return the drawn ones and the duplicates.

    Duplicates also have ``reason``, ``repeats`` (an id) and ``jaccard``. A document is compared
    only with drawn documents, and a full bin is skipped. If a sample has no duplicates, it is
    therefore the same with and without deduplication.
    """
    distinct = None
    if sample.deduplicate != "none":
        near = sample.deduplicate == "near"
        distinct = DistinctTexts(rows["text"].__getitem__, near=near)
    n_drawn = Counter[int]()
    drawn: list[int] = []
    repeats: list[tuple[int, Repeat]] = []
    for number, of_bin in enumerate(rows["bin"]):
        if wanted is not None and n_drawn[of_bin] >= wanted[of_bin]:
            continue
        if distinct and (repeat := distinct.add(number)):
            repeats.append((number, repeat))
        else:
            drawn.append(number)
            n_drawn[of_bin] += 1
    reasons = [(one.reason, rows["_id"][one.number], one.jaccard) for _, one in repeats]
    schema = {"reason": pl.String, "repeats": pl.String, "jaccard": pl.Float64}
    duplicates = rows[[number for number, _ in repeats]]
    return rows[drawn], duplicates.hstack(pl.DataFrame(reasons, schema=schema, orient="row"))


def _as_dropped(duplicates: pl.DataFrame) -> pl.DataFrame:
    columns = ("_id", "reason", "repeats", "jaccard", "text")
    dropped = dropped_frame(
        Dropped("deduplicate", "documents", key, key, reason, other, alike, char_length=len(text))
        for key, reason, other, alike, text in duplicates.select(columns).iter_rows()
    )
    return dropped.with_columns(duplicates["length_bin"])


def wanted_by_bin(sample: Sample) -> list[int] | None:
    """Return the number of documents to draw from each bin; None: all of them."""
    if sample.n_documents is None:
        return None
    return quotas(sample.n_documents, sample.shares or [1] * (len(sample.edges) - 1))


def draw_priority(seed: int, doc_id: str) -> bytes:
    """Return a document's priority, 16 bytes; the smallest priorities are drawn first."""
    return hashlib.blake2b(f"{seed}\x1f{doc_id}".encode(), digest_size=16).digest()


def quotas(n_documents: int, shares: Sequence[int]) -> list[int]:
    """Divide a number of documents among bins by largest remainder; the parts sum to it.

    Among equal remainders, the bin of shorter documents comes first.
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

    A bin includes its lower edge but not its upper one; the last bin includes both (PosQ, section
    3.2: 500 to 1,024 words).
    """
    numbers = np.searchsorted(edges, lengths, side="right") - 1
    numbers[lengths == edges[-1]] = len(edges) - 2
    numbers[lengths > edges[-1]] = -1
    return numbers


def _why_too_few(n_duplicates: int, n_held: int, n_seen: int) -> str:
    if not n_duplicates:
        return ""
    why = f" ({n_duplicates} duplicates left out"
    if n_held < n_seen:
        why += f", and only {n_held} of {n_seen} were candidates: raise sample.reserve"
    return f"{why})"


def _nothing_drawn(candidates: Candidates, labels: Sequence[str]) -> str:
    n_documents = sum(candidates.n_seen)
    if not n_documents:
        return "the source has no documents"
    bins = zip([*labels, OUTSIDE], candidates.n_seen, strict=True)
    seen = ", ".join(f"{label}: {n}" for label, n in bins)
    return (
        f"no document drawn. The source's {n_documents} documents have {candidates.shortest} to "
        f"{candidates.longest} {candidates.sample.unit} ({seen}). Change sample.edges or "
        "sample.unit, read more documents, cut long ones (`passages: {}`), or use another source."
    )
