"""A source of any size: real words in random order, lengths as of web pages, planted duplicates."""

import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from psibench.config.sources import PythonDocsSource
from psibench.sources.documents import read_documents

MEDIAN_WORDS, SPREAD = 350, 0.9  # log-normal: 525 words on average, one document in 85 above 2,680
SHARE_EXACT = SHARE_NEAR = 0.03
CHANGED = 0.01  # of the words of a near duplicate: Jaccard of 5-word shingles near 0.9
SENTENCE_WORDS = 18
N_RECENT = 500  # a duplicate repeats one of so many documents before it
BLOCK_WORDS = 2_000_000
PARQUET_DOCUMENTS = 2000


@dataclass(frozen=True)
class Generated:
    """What was written.

    Attributes
    ----------
    n_documents, n_bytes
        Documents, and bytes of the file.
    planted
        ``_id``, ``of``, ``kind`` (exact or near) of every planted duplicate.
    """

    n_documents: int
    n_bytes: int
    planted: pl.DataFrame


def generate(path: Path, *, n_bytes: int, seed: int) -> Generated:
    """Write documents to a .jsonl or .parquet file until their text makes ``n_bytes``."""
    planted: list[tuple[str, str, str]] = []
    rows = _documents(n_bytes, seed, planted)
    n_documents = _write_parquet(path, rows) if path.suffix == ".parquet" else _write(path, rows)
    frame = pl.DataFrame(planted, schema=["_id", "of", "kind"], orient="row")
    return Generated(n_documents, path.stat().st_size, frame)


def _documents(
    n_bytes: int, seed: int, planted: list[tuple[str, str, str]]
) -> Iterator[tuple[str, str]]:
    """Yield ids and texts; planted duplicates are also added to the list."""
    rng = np.random.default_rng(seed)
    choose = random.Random(seed)
    words = Words(rng)
    recent: list[tuple[str, str]] = []
    number = written = 0
    while written < n_bytes:
        key = f"g{number:08d}"
        kind = choose.random()
        if recent and kind < SHARE_EXACT + SHARE_NEAR:
            other, original = choose.choice(recent)
            is_exact = kind < SHARE_EXACT
            text = original.upper() if is_exact else _changed(original, words, choose)
            planted.append((key, other, "exact" if is_exact else "near"))
        else:
            text = _sentences(words.take(_length(rng)))
            if len(recent) < N_RECENT:
                recent.append((key, text))
            else:
                recent[choose.randrange(N_RECENT)] = (key, text)
        yield key, text
        number += 1
        written += len(text)


class Words:
    """Words drawn with the frequencies they have in the Python documentation, without end."""

    def __init__(self, rng: np.random.Generator) -> None:
        batches = read_documents(PythonDocsSource(kind="python_docs")).batches
        texts = (text for batch in batches for text in batch.get_column("text"))
        found = [word for text in texts for word in re.findall(r"[a-z]+", text)]
        self._known = np.array(found, dtype=object)
        self._rng = rng
        self._block: list[str] = []
        self._start = 0

    def take(self, n: int) -> list[str]:
        """Return the next ``n`` words, at most ``BLOCK_WORDS``."""
        if self._start + n > len(self._block):
            chosen = self._rng.integers(0, len(self._known), BLOCK_WORDS)
            self._block, self._start = self._known[chosen].tolist(), 0
        self._start += n
        return self._block[self._start - n : self._start]


def _length(rng: np.random.Generator) -> int:
    return min(max(5, int(rng.lognormal(np.log(MEDIAN_WORDS), SPREAD))), BLOCK_WORDS)


def _sentences(words: list[str]) -> str:
    """Set words as sentences, four to a paragraph."""
    starts = range(0, len(words), SENTENCE_WORDS)
    parts = [" ".join(words[start : start + SENTENCE_WORDS]).capitalize() for start in starts]
    paragraphs = [". ".join(parts[i : i + 4]) for i in range(0, len(parts), 4)]
    return ".\n\n".join(paragraphs) + "."


def _changed(text: str, words: Words, choose: random.Random) -> str:
    """Put another word in the place of one in a hundred, one at least."""
    pieces = text.split(" ")
    places = choose.sample(range(len(pieces)), max(1, round(CHANGED * len(pieces))))
    for place, word in zip(places, words.take(len(places)), strict=True):
        pieces[place] = word
    return " ".join(pieces)


def _write(path: Path, rows: Iterator[tuple[str, str]]) -> int:
    n_documents = 0
    with path.open("w", encoding="utf-8") as file:
        for key, text in rows:
            file.write(json.dumps({"_id": key, "text": text}) + "\n")
            n_documents += 1
    return n_documents


def _write_parquet(path: Path, rows: Iterator[tuple[str, str]]) -> int:
    schema = pa.schema([("_id", pa.string()), ("text", pa.string())])
    n_documents = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        while batch := [row for row, _ in zip(rows, range(PARQUET_DOCUMENTS), strict=False)]:
            columns = [pa.array(column, pa.string()) for column in zip(*batch, strict=True)]
            writer.write_table(pa.table(columns, schema=schema))
            n_documents += len(batch)
    return n_documents
