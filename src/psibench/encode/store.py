"""The content-addressed store of vectors: a text is encoded once per model, whoever asks.

A store is a folder ``{root}/{fingerprint}`` of Parquet parts (`psibench.store.parts`), written
whole and never changed, which are the logs of a `psibench.store.keyed`: any number of jobs may read
and add at once. A text that two jobs encoded at once is in two parts, and the first one counts.

A part has the column `key` and, where each text has one vector, `values`: one fixed-size list of
``dim`` float32 or float16 numbers per text. Otherwise `values` holds one large list of such lists
per text, and `n_vectors` says how many.
"""

import hashlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from psibench.config.sections import Storage
from psibench.errors import InputError
from psibench.store.index import KEY, content_key
from psibench.store.keyed import KeyedStore, Kind, Records, Scan
from psibench.store.parts import (
    PART,
    damaged_part,
    is_key,
    key_column,
    part_paths,
    read_part,
    write_part,
)
from psibench.store.vectors import Vectors, cuts, ragged_ranges
from psibench.tables import read_provenance

MARKER = "vectors_per_text"
PAID = "paid_tokens"
PART_BYTES = 32 * 1024 * 1024
"""Vectors in one part, so that a part can be read into memory."""
READ_AHEAD = 2
"""Parts read while the one before them is worked on."""


def text_key(text: str, *, salt: str = "") -> bytes:
    """Address of a text's vectors: 16 bytes of the sha256 of salt (the prompt, say) and text."""
    return content_key(salt, text)


def key_array(keys: Sequence[bytes] | np.ndarray) -> np.ndarray:
    """Return keys as (n,) of 16 bytes each."""
    return keys if isinstance(keys, np.ndarray) else np.frombuffer(b"".join(keys), KEY)


def store_fingerprint(fingerprint: str, storage: Storage) -> str:
    """Name what decides the bits that are stored: float32 keeps those of the model."""
    if storage == "float32":
        return fingerprint
    return hashlib.sha256(f"{fingerprint}\0{storage}".encode()).hexdigest()


def open_store(
    model: str, *, store: str | Path, fingerprint: str, storage: Storage = "float32"
) -> "EmbeddingStore":
    """Open a model's store, as the fingerprint of an encodings table or of an encoder names it."""
    return EmbeddingStore(Path(store) / "embeddings" / model, fingerprint, storage=storage)


def paid_tokens(root: str | Path) -> int:
    """Sum the tokens that a service was paid for, over all vectors of a model below ``root``."""
    total = 0
    for path in (path for folder in Path(root).glob("*/") for path in part_paths(folder)):
        try:
            metadata = pq.read_schema(path).metadata or {}
        except (OSError, pa.ArrowException) as error:
            raise damaged_part(path, HOLDS, error) from error
        total += int(metadata.get(PAID.encode(), 0))
    return total


class EmbeddingStore:
    """Vectors by text key for one model fingerprint.

    Parameters
    ----------
    root
        Folder of the stores of one model.
    fingerprint
        The model's, or what `store_fingerprint` made of it.
    storage
        Format that `add` writes. What is read comes back as float32 in any case; to read, the
        fingerprint from `store_fingerprint` is enough.
    """

    def __init__(self, root: str | Path, fingerprint: str, *, storage: Storage = "float32") -> None:
        self.folder = Path(root) / store_fingerprint(fingerprint, storage)[:24]
        self._storage: Storage = storage
        self._parts = _Parts(self.folder)

    def missing(self, keys: Sequence[bytes]) -> list[int]:
        """Return the indices of the first occurrences of keys that are not stored."""
        asked = key_array(keys)
        absent = np.delete(np.arange(len(asked)), self._parts.find(asked).which)
        first = np.unique(asked[absent], return_index=True)[1]
        found: list[int] = absent[np.sort(first)].tolist()
        return found

    def add(
        self, keys: Sequence[bytes], vectors: Sequence[np.ndarray], *, paid_tokens: int = 0
    ) -> None:
        """Write parts of bounded size, each whole or not at all.

        Parameters
        ----------
        vectors
            (n_vectors, dim) of each text; a text larger than a part makes one of its own.
        paid_tokens
            Tokens that a service was paid for; the first part says so (`paid_tokens`).

        Raises
        ------
        InputError
            If a number is not finite, or not in the format of the store.
        """
        size = np.dtype(self._storage).itemsize
        first, room = 0, PART_BYTES
        for last, vector in enumerate(vectors):
            needed = vector.size * size
            if needed > room and last > first:
                self._write(keys[first:last], vectors[first:last], paid_tokens)
                first, room, paid_tokens = last, PART_BYTES, 0
            room -= needed
        if first < len(keys):
            self._write(keys[first:], vectors[first:], paid_tokens)

    def _write(
        self, keys: Sequence[bytes], vectors: Sequence[np.ndarray], paid_tokens: int
    ) -> None:
        metadata = {PAID: str(paid_tokens)} if paid_tokens else {}
        _write_part(self.folder, keys, vectors, self._storage, metadata)

    def count(self, keys: Sequence[bytes] | np.ndarray) -> np.ndarray:
        """Count the vectors of texts, (n,) int64 in the order of ``keys``; none of them is read.

        Raises InputError if a key is not stored, as `load` and `blocks` do.
        """
        return self._parts.require(key_array(keys)).counts

    def documents(self, keys: np.ndarray, *, block_bytes: int) -> "Vectors | StoredDocuments":
        """Return a corpus: its vectors, where they fit one block, or those that are read anew."""
        fits = 4 * int(self.count(keys).sum()) * self._parts.dim <= block_bytes
        return self.load(keys) if fits else StoredDocuments(self, keys)

    def load(self, keys: Sequence[bytes] | np.ndarray) -> Vectors:
        """Load the vectors of texts, in the order of ``keys``."""
        offsets = np.concatenate([[0], np.cumsum(self.count(keys), dtype=np.int64)])
        values = np.empty((offsets[-1], self._parts.dim if offsets[-1] else 0), dtype=np.float32)
        for places, found in self.blocks(keys, PART_BYTES) if offsets[-1] else ():
            values[ragged_ranges(offsets[places], found.counts)] = found.values
        return Vectors(values, offsets)

    def blocks(
        self, keys: Sequence[bytes] | np.ndarray, block_bytes: int
    ) -> Iterator[tuple[np.ndarray, Vectors]]:
        """Yield places in ``keys``, (n,) int64, with the vectors of these texts.

        Each place comes once, in the order of the store's parts. Besides the keys, a block and
        the parts read ahead are in memory.

        Parameters
        ----------
        block_bytes
            Memory of the vectors of one block as float32; a text that needs more comes alone.
        """
        texts = self._parts.require(key_array(keys))
        order, dim = np.lexsort((texts.rows, texts.parts)), self._parts.dim
        texts = texts.take(order)
        offsets = np.concatenate([[0], np.cumsum(texts.counts)])
        # A text without vectors needs room for its place, too.
        runs = cuts(offsets + np.arange(len(offsets)) // dim, max(1, block_bytes // (4 * dim)))
        ends = iter(runs[1:])
        end, start = next(ends, 0), 0
        values = np.empty((0, dim), dtype=np.float32)
        for run, found in texts.read(runs[:-1]):
            if run.start == start:
                values = np.empty((offsets[end] - offsets[start], dim), dtype=np.float32)
            shift = offsets[start]
            values[offsets[run.start] - shift : offsets[run.stop] - shift] = found.reshape(-1, dim)
            if run.stop == end:
                yield order[start:end], Vectors(values, offsets[start : end + 1] - shift)
                start, end = end, next(ends, end)


@dataclass(frozen=True)
class StoredDocuments:
    """A corpus in a store: document ``i`` has the vectors of ``keys[i]``."""

    store: EmbeddingStore
    keys: np.ndarray

    @property
    def n_documents(self) -> int:
        """Documents of the corpus."""
        return len(self.keys)

    @property
    def is_single(self) -> bool:
        """Whether each document has one vector."""
        return bool((self.store.count(self.keys) == 1).all())

    def take(self, documents: np.ndarray) -> "StoredDocuments":
        """Return some documents, numbered in the order given."""
        return StoredDocuments(self.store, self.keys[documents])

    def blocks(self, block_bytes: int) -> Iterator[tuple[np.ndarray, Vectors]]:
        """Yield documents in the order of the store; see `DocumentVectors`."""
        return self.store.blocks(self.keys, block_bytes)


class _Parts:
    """Which text is where in a store's parts; `dim` has the numbers of a vector."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.dim = 1
        self._stored = KeyedStore(folder, PARTS)

    def find(self, keys: np.ndarray) -> Records:
        """Return where those of the keys that are stored are: in the first part that has one."""
        self._stored.refresh()
        for name, dim in zip(self._stored.names, self._stored.summaries(), strict=True):
            if dim not in (1, self.dim) and self.dim > 1:  # 1: of texts without vectors alone
                words = f"its vectors have {dim} dimensions, those of others {self.dim}"
                raise damaged_part(self.folder / name, HOLDS, words)
            self.dim = max(self.dim, dim)
        return self._stored.find(keys).first()

    def require(self, keys: np.ndarray) -> "_Texts":
        """Return where the text of each key is; InputError if one is not stored."""
        found = self.find(keys)
        absent = len(keys) - len(found.which)
        if absent:
            raise InputError(
                f"{self.folder}: {absent} of {len(keys)} texts have no vectors here. The store was "
                "deleted or moved after encoding; delete results/*/encodings and run again."
            )
        paths = [self.folder / name for name in found.names]
        return _Texts(paths, found.logs, found.places, found.sizes)


@dataclass(frozen=True)
class _Texts:
    """Where texts are: number of the part, row in it, and vectors there, each (n_texts,) int64."""

    paths: list[Path]
    parts: np.ndarray
    rows: np.ndarray
    counts: np.ndarray

    def take(self, order: np.ndarray) -> "_Texts":
        """Return them in another order."""
        return _Texts(self.paths, self.parts[order], self.rows[order], self.counts[order])

    def read(self, cuts: Sequence[int]) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield runs of texts, which ascend, with their vectors, (n_vectors, dim) float32.

        A run lies in one part and crosses no cut; a part is read once, ahead of its turn.
        """
        turns = np.flatnonzero(np.diff(self.parts)) + 1
        edges = np.unique(np.concatenate([[0], turns, np.asarray(cuts, dtype=np.int64)]))
        firsts = self.parts[np.concatenate([[0], turns])] if len(self.parts) else self.parts
        parts = _read_ahead([self.paths[number] for number in firsts])
        current = -1
        for first, last in zip(edges, [*edges[1:], len(self.parts)], strict=True):
            if first == last:
                continue
            if self.parts[first] != current:
                current, vectors = self.parts[first], next(parts)
            yield slice(first, last), _take(vectors, self.rows[first:last])


def _read_ahead(paths: Sequence[Path]) -> Iterator[Vectors]:
    """Yield the vectors of parts, the next ones being read meanwhile."""
    waiting: deque[Future[Vectors]] = deque()
    with ThreadPoolExecutor(READ_AHEAD) as pool:
        for path in paths:
            waiting.append(pool.submit(_read_vectors, path))
            if len(waiting) > READ_AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _take(vectors: Vectors, rows: np.ndarray) -> np.ndarray:
    """Copy the vectors of some texts of a part, (n_vectors, dim) float32."""
    if len(rows) == rows[-1] - rows[0] + 1 and bool(np.all(np.diff(rows) == 1)):
        inside = slice(vectors.offsets[rows[0]], vectors.offsets[rows[-1] + 1])
        chosen = vectors.values[inside].copy()
    else:
        chosen = vectors.take(rows).values
    if chosen.dtype == np.float32:
        return chosen
    import torch  # widens float16 with the processor's own instruction, which numpy does not

    return torch.from_numpy(chosen).float().numpy()


def _write_part(
    folder: Path,
    keys: Sequence[bytes],
    vectors: Sequence[np.ndarray],
    storage: Storage,
    metadata: Mapping[str, str],
) -> None:
    dim = max(1, *(v.shape[1] for v in vectors))
    flat = np.concatenate([v.reshape(-1) for v in vectors])
    with np.errstate(over="ignore"):
        stored = flat.astype(storage, copy=False)
    if not np.isfinite(stored).all():
        _refuse(folder, flat, storage)
    number = pa.field("element", pa.from_numpy_dtype(stored.dtype), nullable=False)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(stored), type=pa.list_(number, dim))
    counts = np.array([len(v) if v.size else 0 for v in vectors], dtype=np.int64)
    columns: dict[str, pa.Array] = {"values": lists}
    if not np.all(counts == 1):
        offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]))
        nested = pa.large_list(pa.field("element", lists.type, nullable=False))
        columns = {
            "n_vectors": pa.array(counts.astype(np.int32)),
            "values": pa.LargeListArray.from_arrays(offsets, lists, type=nested),
        }
    kind = "one" if len(columns) == 1 else "several"
    write_part(folder, keys, columns, metadata={MARKER: kind, "dim": str(dim), **metadata})


def _refuse(folder: Path, flat: np.ndarray, storage: Storage) -> None:
    if not np.isfinite(flat).all():
        raise InputError(
            f"{folder}: the model gave vectors with numbers that are not finite (nan or inf), as "
            "happens in a number format too narrow for it; set its dtype to bfloat16 or float32"
        )
    raise InputError(
        f"{folder}: a vector has {float(np.abs(flat).max()):g}, more than {storage} can hold; "
        "set encoding.storage to float32"
    )


def _scan(path: Path) -> Scan:
    """Read what a part holds but the vectors; its summary is their dimensions."""
    table, dim = _read(path, "key", "n_vectors")
    keys = key_column(table.column("key"))
    counts = np.ones(len(keys), dtype=np.int64)
    if "n_vectors" in table.column_names:
        counts = table.column("n_vectors").to_numpy()
    return Scan(keys, np.arange(len(keys)), counts, dim)


def _read_vectors(path: Path) -> Vectors:
    """Read the vectors of a part in the format they are stored in."""
    table, dim = _read(path, "values", "n_vectors")
    column: Any = table.column("values").combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0)
    if "n_vectors" not in table.column_names:
        return Vectors(column.values.to_numpy().reshape(-1, dim), np.arange(len(column) + 1))
    offsets = column.offsets.to_numpy()
    if not np.array_equal(np.diff(offsets), table.column("n_vectors").to_numpy()):
        raise damaged_part(path, HOLDS, "n_vectors are not as many as there are")
    return Vectors(column.values.values.to_numpy().reshape(-1, dim), offsets)


def _read(path: Path, *names: str) -> tuple[pa.Table, int]:
    """Read columns of a part, those of `OPTIONAL` if it has them; and its vectors' dimensions."""
    columns = {name: COLUMNS[name] for name in names}
    table = read_part(path, columns, marker=MARKER, holds=HOLDS, optional=OPTIONAL)
    told = (table.schema.metadata or {}).get(b"dim", b"")
    dim = int(told) if told.isdigit() and len(told) < 9 else 0
    kind = _vectors_of(table.column("values").type) if "values" in names else None
    is_several = "n_vectors" in table.column_names
    if not 0 < dim <= MOST_DIM or (kind is not None and kind.list_size != dim):
        raise damaged_part(path, HOLDS, f"its vectors have no {dim} dimensions")
    if "values" in names and is_several != pa.types.is_large_list(table.column("values").type):
        raise damaged_part(path, HOLDS, "it has vectors without their number")
    return table, dim


def _vectors_of(kind: pa.DataType) -> pa.DataType:
    """Return the type of a vector in a column: of one for each text, or of several."""
    return kind.value_type if pa.types.is_large_list(kind) else kind


def _are_vectors(kind: pa.DataType) -> bool:
    vectors = _vectors_of(kind)
    return pa.types.is_fixed_size_list(vectors) and pa.types.is_floating(vectors.value_type)


HOLDS = "vectors"
COLUMNS = {"key": is_key, "n_vectors": pa.types.is_int32, "values": _are_vectors}
OPTIONAL = ("n_vectors",)
MOST_DIM = 1 << 20
PARTS = Kind("part", PART, _scan, grows=False)


def fingerprint_of(encodings: Sequence[str]) -> str:
    """Return the fingerprint of the model whose vectors encodings tables point to.

    Raises
    ------
    InputError
        If a table names none, or the tables name different ones.
    """
    found: dict[str, str] = {}
    for path in encodings:
        params = (read_provenance(path) or {}).get("params", {})
        if "fingerprint" not in params:
            raise InputError(
                f"{path}: its metadata names no model fingerprint, so its vectors cannot be "
                "found; make it again with the stage encode"
            )
        found.setdefault(params["fingerprint"], path)
    if len(found) > 1:
        raise InputError(
            f"{' and '.join(found.values())} were encoded by different models, or in different "
            "number formats, which different GPUs choose: set encoding.dtype, delete the tables "
            "and run again"
        )
    (fingerprint,) = found
    return fingerprint
