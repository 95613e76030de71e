"""The content-addressed store of vectors: each model encodes a text once, for all jobs.

A store is a folder ``{root}/{fingerprint}`` of Parquet parts (`psibench.store.parts`), which are
written atomically and never changed. They are the logs of a `psibench.store.keyed`, so that any
number of jobs may read and add at the same time. If two jobs encoded a text at the same time, it is
in two parts, and the first one counts.

A part has the column `key` and, if each text has one vector, `values`: one fixed-size list of
``dim`` float32 or float16 numbers per text. Otherwise `values` has one large list of such lists per
text, and `n_vectors` their number.
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
from psibench.store.keyed import KeyedStore, LogKind, Records, Scan
from psibench.store.parts import (
    PART_SUFFIX,
    damaged_part,
    is_key,
    key_column,
    part_paths,
    read_part,
    write_store_part,
)
from psibench.store.vectors import Vectors, cuts, ragged_ranges
from psibench.tables import read_provenance

MARKER = "vectors_per_text"
PAID = "paid_tokens"
PART_BYTES = 32 * 1024 * 1024
"""Bytes of vectors in one part, so that a part can be read into memory."""
READ_AHEAD = 2
"""Parts that are read while the caller processes the one before them."""


def text_key(text: str, *, salt: str = "") -> bytes:
    """Return the address of a text's vectors: 16 bytes of the sha256 of salt and text.

    The salt is, for example, the prompt.
    """
    return content_key(salt, text)


def key_array(keys: Sequence[bytes] | np.ndarray) -> np.ndarray:
    """Return keys as an (n,) array of 16 bytes each."""
    return keys if isinstance(keys, np.ndarray) else np.frombuffer(b"".join(keys), KEY)


def store_fingerprint(fingerprint: str, storage: Storage) -> str:
    """Fingerprint of the stored vectors; for float32 it is the model's."""
    if storage == "float32":
        return fingerprint
    return hashlib.sha256(f"{fingerprint}\0{storage}".encode()).hexdigest()


def open_store(
    model: str, *, store: str | Path, fingerprint: str, storage: Storage = "float32"
) -> "EmbeddingStore":
    """Open a model's store by the fingerprint of an encodings table or of an encoder."""
    return EmbeddingStore(Path(store) / "embeddings" / model, fingerprint, storage=storage)


def paid_tokens(root: str | Path) -> int:
    """Return the tokens paid to a service for all vectors of a model below ``root``."""
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
        Fingerprint of the model, or a result of `store_fingerprint`.
    storage
        Format that `add` writes. Vectors are always returned as float32; to read, the fingerprint
        from `store_fingerprint` suffices.
    """

    def __init__(self, root: str | Path, fingerprint: str, *, storage: Storage = "float32") -> None:
        self.folder = Path(root) / store_fingerprint(fingerprint, storage)[:24]
        self._storage: Storage = storage
        self._parts = _Parts(self.folder)

    def missing(self, keys: Sequence[bytes]) -> list[int]:
        """Return the indices of keys that are not stored, the first occurrence of each."""
        array = key_array(keys)
        absent = np.delete(np.arange(len(array)), self._parts.find(array).which)
        first = np.unique(array[absent], return_index=True)[1]
        missing: list[int] = absent[np.sort(first)].tolist()
        return missing

    def add(
        self, keys: Sequence[bytes], vectors: Sequence[np.ndarray], *, paid_tokens: int = 0
    ) -> None:
        """Write parts of bounded size, each atomically.

        Parameters
        ----------
        vectors
            (n_vectors, dim) of each text; a text larger than a part makes a part by itself.
        paid_tokens
            Tokens that were paid to a service; the first part records them (`paid_tokens`).

        Raises
        ------
        InputError
            If a number is not finite, or not in the range of the store's format.
        """
        size = np.dtype(self._storage).itemsize
        first, bytes_left = 0, PART_BYTES
        for last, vector in enumerate(vectors):
            needed = vector.size * size
            if needed > bytes_left and last > first:
                self._write(keys[first:last], vectors[first:last], paid_tokens)
                first, bytes_left, paid_tokens = last, PART_BYTES, 0
            bytes_left -= needed
        if first < len(keys):
            self._write(keys[first:], vectors[first:], paid_tokens)

    def _write(
        self, keys: Sequence[bytes], vectors: Sequence[np.ndarray], paid_tokens: int
    ) -> None:
        metadata = {PAID: str(paid_tokens)} if paid_tokens else {}
        _write_part(self.folder, keys, vectors, self._storage, metadata)

    def count(self, keys: Sequence[bytes] | np.ndarray) -> np.ndarray:
        """Return the number of vectors of each text, (n,) int64, without reading them.

        Raises InputError if a key is not stored, as `load` and `blocks` do.
        """
        return self._parts.require(key_array(keys)).counts

    def documents(self, keys: np.ndarray, *, block_bytes: int) -> "Vectors | StoredDocuments":
        """Return a corpus: its vectors if they fit into one block, else vectors read on demand."""
        fits = 4 * int(self.count(keys).sum()) * self._parts.dim <= block_bytes
        return self.load(keys) if fits else StoredDocuments(self, keys)

    def load(self, keys: Sequence[bytes] | np.ndarray) -> Vectors:
        """Load the vectors of texts, in the order of ``keys``."""
        offsets = np.concatenate([[0], np.cumsum(self.count(keys), dtype=np.int64)])
        values = np.empty((offsets[-1], self._parts.dim if offsets[-1] else 0), dtype=np.float32)
        for texts, vectors in self.blocks(keys, PART_BYTES) if offsets[-1] else ():
            values[ragged_ranges(offsets[texts], vectors.counts)] = vectors.values
        return Vectors(values, offsets)

    def blocks(
        self, keys: Sequence[bytes] | np.ndarray, block_bytes: int
    ) -> Iterator[tuple[np.ndarray, Vectors]]:
        """Yield the vectors of some texts, with their indices in ``keys``, (n,) int64.

        Each index occurs once, in the order of the store's parts. The keys, one block and the parts
        read ahead are in memory.

        Parameters
        ----------
        block_bytes
            Memory of the vectors of one block as float32; a text that needs more is a block by
            itself.
        """
        texts = self._parts.require(key_array(keys))
        order, dim = np.lexsort((texts.rows, texts.parts)), self._parts.dim
        texts = texts.take(order)
        offsets = np.concatenate([[0], np.cumsum(texts.counts)])
        # A text without vectors counts, too, because its offset takes memory.
        runs = cuts(offsets + np.arange(len(offsets)) // dim, max(1, block_bytes // (4 * dim)))
        ends = iter(runs[1:])
        end, start = next(ends, 0), 0
        values = np.empty((0, dim), dtype=np.float32)
        for run, vectors in texts.read(runs[:-1]):
            if run.start == start:
                values = np.empty((offsets[end] - offsets[start], dim), dtype=np.float32)
            shift = offsets[start]
            inside = slice(offsets[run.start] - shift, offsets[run.stop] - shift)
            values[inside] = vectors.reshape(-1, dim)
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
        """Number of documents in the corpus."""
        return len(self.keys)

    @property
    def is_single(self) -> bool:
        """Whether each document has one vector."""
        return bool((self.store.count(self.keys) == 1).all())

    def take(self, documents: np.ndarray) -> "StoredDocuments":
        """Return some documents, numbered in the given order."""
        return StoredDocuments(self.store, self.keys[documents])

    def blocks(self, block_bytes: int) -> Iterator[tuple[np.ndarray, Vectors]]:
        """Yield documents in the store's order; see `DocumentVectors`."""
        return self.store.blocks(self.keys, block_bytes)


class _Parts:
    """Locations of texts in a store's parts; `dim` is the dimension of its vectors."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.dim = 1
        self._stored = KeyedStore(folder, VECTOR_PARTS)

    def find(self, keys: np.ndarray) -> Records:
        """Return the locations of the stored keys; if several parts have a key, the first one's."""
        self._stored.refresh()
        for name, dim in zip(self._stored.names, self._stored.summaries(), strict=True):
            if dim not in (1, self.dim) and self.dim > 1:  # 1: only texts without vectors
                reason = f"its vectors have {dim} dimensions, other parts have {self.dim}"
                raise damaged_part(self.folder / name, HOLDS, reason)
            self.dim = max(self.dim, dim)
        return self._stored.find(keys).first()

    def require(self, keys: np.ndarray) -> "_Texts":
        """Return the location of each key's text; raise InputError if one is not stored."""
        found = self.find(keys)
        absent = len(keys) - len(found.which)
        if absent:
            raise InputError(
                f"{self.folder}: {absent} of {len(keys)} texts have no vectors here, because the "
                "store was deleted or moved after encoding; delete results/*/encodings and run "
                "again."
            )
        paths = [self.folder / name for name in found.names]
        return _Texts(paths, found.logs, found.starts, found.sizes)


@dataclass(frozen=True)
class _Texts:
    """Locations of texts: number of the part, row, number of vectors, each (n_texts,) int64."""

    paths: list[Path]
    parts: np.ndarray
    rows: np.ndarray
    counts: np.ndarray

    def take(self, order: np.ndarray) -> "_Texts":
        return _Texts(self.paths, self.parts[order], self.rows[order], self.counts[order])

    def read(self, cuts: Sequence[int]) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield runs of ascending texts with their vectors, (n_vectors, dim) float32.

        A run is within one part and contains no cut; a part is read once, ahead of its use.
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
    """Yield the vectors of parts while threads read the next ones."""
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
    import torch  # converts float16 by a CPU instruction, which numpy does not use

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
    write_store_part(folder, keys, columns, metadata={MARKER: kind, "dim": str(dim), **metadata})


def _refuse(folder: Path, flat: np.ndarray, storage: Storage) -> None:
    if not np.isfinite(flat).all():
        raise InputError(
            f"{folder}: the model returned vectors with numbers that are not finite (nan or inf), "
            "maybe because its number format is too narrow; set its dtype to bfloat16 or float32"
        )
    raise InputError(
        f"{folder}: a vector has the number {float(np.abs(flat).max()):g}, which is too large for "
        f"{storage}; set encoding.storage to float32"
    )


def _scan(path: Path) -> Scan:
    """Read a part except its vectors; the summary is their dimension."""
    table, dim = _read(path, "key", "n_vectors")
    keys = key_column(table.column("key"))
    counts = np.ones(len(keys), dtype=np.int64)
    if "n_vectors" in table.column_names:
        counts = table.column("n_vectors").to_numpy()
    return Scan(keys, np.arange(len(keys)), counts, dim)


def _read_vectors(path: Path) -> Vectors:
    """Read the vectors of a part, in their stored format."""
    table, dim = _read(path, "values", "n_vectors")
    column: Any = table.column("values").combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0)
    if "n_vectors" not in table.column_names:
        return Vectors(column.values.to_numpy().reshape(-1, dim), np.arange(len(column) + 1))
    offsets = column.offsets.to_numpy()
    if not np.array_equal(np.diff(offsets), table.column("n_vectors").to_numpy()):
        raise damaged_part(path, HOLDS, "n_vectors differs from the number of vectors")
    return Vectors(column.values.values.to_numpy().reshape(-1, dim), offsets)


def _read(path: Path, *names: str) -> tuple[pa.Table, int]:
    """Return columns of a part, optional ones if it has them, and its vectors' dimension."""
    columns = {name: _PART_COLUMNS[name] for name in names}
    table = read_part(path, columns, marker=MARKER, holds=HOLDS, optional=OPTIONAL)
    recorded = (table.schema.metadata or {}).get(b"dim", b"")
    dim = int(recorded) if recorded.isdigit() and len(recorded) < 9 else 0
    kind = _vectors_of(table.column("values").type) if "values" in names else None
    is_several = "n_vectors" in table.column_names
    if not 0 < dim <= MOST_DIM or (kind is not None and kind.list_size != dim):
        raise damaged_part(path, HOLDS, f"its vectors do not have {dim} dimensions")
    if "values" in names and is_several != pa.types.is_large_list(table.column("values").type):
        raise damaged_part(path, HOLDS, "the type of its vectors does not fit its columns")
    return table, dim


def _vectors_of(kind: pa.DataType) -> pa.DataType:
    """Return the type of a vector in a column with one or several vectors per text."""
    return kind.value_type if pa.types.is_large_list(kind) else kind


def _are_vectors(kind: pa.DataType) -> bool:
    vectors = _vectors_of(kind)
    return pa.types.is_fixed_size_list(vectors) and pa.types.is_floating(vectors.value_type)


HOLDS = "vectors"
_PART_COLUMNS = {"key": is_key, "n_vectors": pa.types.is_int32, "values": _are_vectors}
OPTIONAL = ("n_vectors",)
MOST_DIM = 1 << 20
VECTOR_PARTS = LogKind("part", PART_SUFFIX, _scan, grows=False)


def fingerprint_of(encodings: Sequence[str]) -> str:
    """Return the fingerprint of the model whose vectors encodings tables refer to.

    Raises
    ------
    InputError
        If a table has none, or the tables have different ones.
    """
    found: dict[str, str] = {}
    for path in encodings:
        params = (read_provenance(path) or {}).get("params", {})
        if "fingerprint" not in params:
            raise InputError(
                f"{path}: its metadata has no model fingerprint, so its vectors cannot be found; "
                "delete it and run the stage encode again"
            )
        found.setdefault(params["fingerprint"], path)
    if len(found) > 1:
        raise InputError(
            f"{' and '.join(found.values())} were encoded by different models, or in different "
            "number formats, because `auto` depends on the GPU: set encoding.dtype, delete the "
            "tables and run again"
        )
    (fingerprint,) = found
    return fingerprint
