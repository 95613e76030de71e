"""Threads of a search on a CPU: each searches for queries of its own, alone."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise

import numpy as np

PARALLEL_SCORES = 500_000  # for so many a thread of its own pays


class Crew:
    """Threads that divide queries among themselves."""

    def __init__(self, n_threads: int, pool: ThreadPoolExecutor | None) -> None:
        self.n_threads = n_threads
        self._pool = pool

    def each(self, work: Callable[[slice], None], rows: slice, n_scores: int) -> None:
        """Call ``work`` with parts of ``rows`` that are disjoint and together all of them.

        There are fewer parts than threads where a part would have few scores, of which a row has
        ``n_scores``.
        """
        n_rows = rows.stop - rows.start
        n_parts = min(self.n_threads, n_rows, n_rows * n_scores // PARALLEL_SCORES)
        if n_parts < 2 or self._pool is None:
            work(rows)
            return
        edges = np.linspace(rows.start, rows.stop, n_parts + 1).astype(int).tolist()
        list(self._pool.map(work, (slice(*edge) for edge in pairwise(edges))))


@contextmanager
def crew_for(device: str) -> Iterator[Crew]:
    """Start as many threads as torch uses on a CPU, none for a GPU.

    Meanwhile matrix products and torch use one thread for each call: a product that several
    threads share makes all but one of them wait (and spin) through what follows it, and calls of
    several threads at once would be more threads than cores.
    """
    import torch

    if device != "cpu":
        yield Crew(1, None)
        return
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with one_blas_thread(), ThreadPoolExecutor(n_threads) as pool:
            yield Crew(n_threads, pool)
    finally:
        torch.set_num_threads(n_threads)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let each matrix product of numpy use the thread that asks for it, and no other."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"):
        yield
