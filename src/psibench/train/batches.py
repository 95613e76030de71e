"""Batches of one length bin, in which nothing is a negative of itself.

Controlled, section 4.2: all negatives of a query are about as long as its positive. In a batch no
document and no query occurs twice (the same text, whatever its id): it would be a negative of its
own. Over an epoch every example comes once, in batches of sizes that differ by at most one within a
bin: 8,189 examples at a batch size of 256 make 32 batches of 255 or 256, not 31 full ones and a
rest. Batches of all bins come in one shuffled order; each epoch has its own, by seed and epoch.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np

from psibench.errors import InputError

logger = logging.getLogger("psibench")


@dataclass(frozen=True)
class Examples:
    """What a run trains on.

    ``columns`` has the texts by the trainer's column names, in the order that the loss takes them
    (``label`` has 0 and 1), ``prompts`` the text put before those of a column; batches are made by
    the rest: see `LengthBinBatches`.
    """

    columns: Mapping[str, Sequence[Any]]
    prompts: Mapping[str, str]
    bins: Sequence[str]
    queries: Sequence[str]
    documents: Sequence[str]
    batch_size: int
    n_documents: int

    def __len__(self) -> int:
        return len(self.bins)


class LengthBinBatches:
    """A batch sampler of `torch.utils.data.DataLoader`: lists of example numbers.

    Examples that share a document or a query are dealt out one after another, like cards, to the
    batches of their bin: to as many batches as there are such examples at least. Where that leaves
    a batch with a single example, which would have nothing to be told apart from (its loss is 0),
    the batch is left out of the epoch; this happens only if a document has more than half as many
    queries as its bin has examples, or a bin holds one example.

    With several processes accelerate gives process i the batches i, i + n, i + 2n, ...; the number
    of batches is a multiple of theirs, so that none waits for another.

    Parameters
    ----------
    bins, queries, documents
        (n_examples,) each: length bin, and the texts of query and document or keys of them.
    batch_size
        Largest batch, at least 2; a bin of odd size and ``batch_size`` 2 has one batch of 3.
    seed
        Of the order, together with the epoch.

    Raises
    ------
    InputError
        If no bin has two examples that go together, or there are too few for the processes.
    """

    batch_size = None
    """Batches differ in size: what accelerate asks before it shards them."""
    drop_last = False

    def __init__(
        self,
        bins: Sequence[str],
        queries: Sequence[str],
        documents: Sequence[str],
        *,
        batch_size: int,
        seed: int,
        n_processes: int = 1,
    ) -> None:
        labels = np.asarray(bins, dtype=object)
        groups = _linked(queries, documents)
        self._seed, self._epoch = seed, 0
        self._examples = [np.flatnonzero(labels == label) for label in dict.fromkeys(bins)]
        self._groups = [
            np.unique(groups[examples], return_inverse=True)[1] for examples in self._examples
        ]
        sizes = [len(examples) for examples in self._examples]
        largest = [int(np.bincount(groups).max()) for groups in self._groups]
        self._n_batches = [
            max(min(ceil(size / batch_size), max(size // 2, 1)), most)
            for size, most in zip(sizes, largest, strict=True)
        ]
        self._share_out(sizes, n_processes)
        n_left_out = sum(
            n - _usable(size, n) for size, n in zip(sizes, self._n_batches, strict=True)
        )
        if n_left_out:
            logger.warning(
                "batches: %d of %d examples are left out of each epoch: all others of their "
                "length bin share their document or query",
                n_left_out, sum(sizes),
            )  # fmt: skip

    def _share_out(self, sizes: Sequence[int], n_processes: int) -> None:
        """Make batches smaller until every process has as many."""
        if not len(self):
            raise InputError(
                f"training: {sum(sizes)} examples make no batch: none of a length bin differ in "
                "both query and document. Take a larger pool, or fewer length bins"
            )
        while len(self) % n_processes:
            rooms = [size // (n + 1) for size, n in zip(sizes, self._n_batches, strict=True)]
            place = int(np.argmax(rooms))
            if rooms[place] < 2:
                raise InputError(
                    f"training: {sum(sizes)} examples are too few for {n_processes} processes; "
                    "use fewer"
                )
            self._n_batches[place] += 1

    def __len__(self) -> int:
        sizes = map(len, self._examples)
        return sum(_usable(size, n) for size, n in zip(sizes, self._n_batches, strict=True))

    def set_epoch(self, epoch: int) -> None:
        """Choose whose order the next iteration has, from 0."""
        self._epoch = epoch

    def __iter__(self) -> Iterator[list[int]]:
        generator = np.random.default_rng([self._seed, self._epoch])
        batches = []
        for examples, groups, n in zip(self._examples, self._groups, self._n_batches, strict=True):
            chance = generator.random(groups.max() + 1)
            order = np.lexsort((generator.random(len(examples)), chance[groups]))
            dealt = (examples[order[start::n]].tolist() for start in range(n))
            batches += [batch for batch in dealt if len(batch) > 1]
        for place in generator.permutation(len(batches)):
            yield batches[place]


def _usable(size: int, n_batches: int) -> int:
    """Count the batches with two examples or more, dealt as evenly as can be."""
    return n_batches if size // n_batches > 1 else size % n_batches


def _linked(queries: Sequence[str], documents: Sequence[str]) -> np.ndarray:
    """Number groups of examples that share a query or a document, also by way of others."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    _, query = np.unique(np.asarray(queries, dtype=object), return_inverse=True)
    _, document = np.unique(np.asarray(documents, dtype=object), return_inverse=True)
    n_nodes = len(query) + int(document.max(initial=-1)) + 1
    edges = (np.ones(len(query), dtype=np.int8), (query, len(query) + document))
    _, component = connected_components(coo_array(edges, shape=(n_nodes, n_nodes)), directed=False)
    numbers: np.ndarray = component[query]
    return numbers
