"""The vectors of more texts than fit into memory: part by part of an embedding store."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from psibench.errors import InputError
from psibench.store.parts import part_paths, read_part


def stream_vectors(
    folder: Path, keys: Iterable[bytes]
) -> Iterator[tuple[list[bytes], np.ndarray, np.ndarray]]:
    """Yield the vectors of texts in the order in which the store has them, each once.

    Every part is read once, and its vectors only if it has a text that is wanted.

    Parameters
    ----------
    folder
        Folder of the store for one model fingerprint.

    Yields
    ------
    keys, values, counts
        Of one part: the keys found in it, (n_vectors, dim) float32, and (n_keys,) int64 vectors
        per key.

    Raises
    ------
    InputError
        At the end, if a key is not stored.
    """
    wanted = set(keys)
    n_wanted = len(wanted)
    for path in part_paths(folder):
        stored = read_part(path, ["key"], marker="dim", holds="vectors").column("key").to_pylist()
        found = {key: row for row, key in enumerate(stored) if key in wanted}
        if found:
            wanted -= found.keys()
            yield (list(found), *_vectors(path, np.fromiter(found.values(), np.int64, len(found))))
    if wanted:
        raise InputError(
            f"{folder}: {len(wanted)} of {n_wanted} texts have no vectors here. The store was "
            "deleted or moved after encoding; delete results/*/encodings and run again."
        )


def _vectors(path: Path, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Read the vectors of some rows of a part, in their order."""
    table = read_part(path, ["values"], marker="dim", holds="vectors")
    column = table.column("values").combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0)
    bounds = column.offsets.to_numpy()
    flat = column.values.to_numpy()
    dim = max(1, int(table.schema.metadata[b"dim"]))
    counts = (bounds[rows + 1] - bounds[rows]) // dim
    vectors = flat[bounds[0] : bounds[-1]].reshape(-1, dim)
    first = (bounds[rows] - bounds[0]) // dim
    places = np.repeat(first, counts) + (
        np.arange(counts.sum()) - np.repeat(_starts(counts), counts)
    )
    return vectors[places], counts


def _starts(counts: np.ndarray) -> np.ndarray:
    """Return where each group begins, (n_groups,) int64."""
    return np.cumsum(counts) - counts
