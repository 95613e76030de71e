"""Threads of a search: what they share out, and what they leave behind."""

import threading

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info

from psibench.search import late as late_search
from psibench.search import rough, threads
from psibench.search.exact import search_vectors
from psibench.search.threads import crew_for
from psibench.search.vectors import ArrayVectors, Groups, Vectors


@pytest.fixture
def four_threads(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(threads, "PARALLEL_SCORES", 1)
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def blas_threads() -> set[int]:
    return {
        library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
    }


@pytest.mark.parametrize("rows", [slice(0, 9), slice(5, 6), slice(3, 6), slice(4, 4)])
def test_parts_are_all_rows_once(four_threads, rows):
    seen = []
    with crew_for("cpu") as crew:
        assert crew.n_threads == 4
        crew.each(seen.append, rows, 100)
    assert len(seen) == max(1, min(4, rows.stop - rows.start))
    assert sorted(row for part in seen for row in range(part.start, part.stop)) == list(
        range(rows.start, rows.stop)
    )


def test_a_thread_computes_alone_and_the_threads_there_were_come_back(four_threads):
    before = blas_threads()
    with crew_for("cpu") as crew:
        seen = []
        meet = threading.Barrier(4)  # all four at the same time, or it breaks

        def look(_part: slice) -> None:
            meet.wait(60)
            seen.append((blas_threads(), torch.get_num_threads()))

        crew.each(look, slice(0, 4), 1)
        assert seen == [({1}, 1)] * 4
    assert blas_threads() == before
    assert torch.get_num_threads() == 4


def test_what_a_thread_raises_is_raised_and_the_threads_come_back(four_threads):
    def fail(part: slice) -> None:
        raise ValueError(part.start)

    with pytest.raises(ValueError, match="0"), crew_for("cpu") as crew:
        crew.each(fail, slice(0, 8), 1)
    assert torch.get_num_threads() == 4


def test_a_gpu_has_no_threads_beside_it():
    before = torch.get_num_threads()
    with crew_for("cuda") as crew:
        assert crew.n_threads == 1
        assert torch.get_num_threads() == before


def test_small_blocks_are_not_shared_out(monkeypatch):
    seen = []
    with crew_for("cpu") as crew:
        crew.each(seen.append, slice(0, 10), 10)
    assert seen == [slice(0, 10)]


@pytest.mark.parametrize("block_bytes", [1000, 100_000])
@pytest.mark.parametrize("duplicates", [0.0, 0.9])
def test_the_number_of_threads_changes_nothing(four_threads, block_bytes, duplicates):
    rng = np.random.default_rng(3)
    queries = rng.standard_normal((37, 16), dtype=np.float32)
    documents = rng.standard_normal((900, 16), dtype=np.float32)
    copies = rng.random(900) < duplicates
    documents[copies] = documents[rng.integers(0, 5, copies.sum())]
    groups = Groups.of_sizes([20, 1, 16], [500, 100, 300])
    source = ArrayVectors(documents)
    for given in (None, groups):
        many = search_vectors(queries, source, k=9, block_bytes=block_bytes, groups=given)
        torch.set_num_threads(1)
        one = search_vectors(queries, source, k=9, block_bytes=block_bytes, groups=given)
        torch.set_num_threads(4)
        np.testing.assert_array_equal(many.documents, one.documents)
        np.testing.assert_array_equal(many.scores, one.scores)


@pytest.mark.parametrize("late", [False, True])
def test_a_search_shares_its_queries_out(four_threads, monkeypatch, late):
    rng = np.random.default_rng(4)
    queries = rng.standard_normal((40, 16), dtype=np.float32)
    documents = rng.standard_normal((600, 16), dtype=np.float32)
    seen, module, name = set(), (late_search if late else rough), "_max_sim" if late else "plan"
    true = getattr(module, name)
    meet = threading.Barrier(4)  # all four at the same time, or it breaks

    def noted(*args):
        if threading.get_ident() not in seen:
            seen.add(threading.get_ident())
            meet.wait(60)
        return true(*args)

    monkeypatch.setattr(module, name, noted)
    if late:
        tokens = Vectors(queries, np.arange(0, 41, 2))
        source = ArrayVectors(documents, np.arange(0, 601, 3))
        late_search.search_token_vectors(tokens, source, k=5)
    else:
        search_vectors(queries, ArrayVectors(documents), k=5)
    assert len(seen) == 4
    assert threading.get_ident() not in seen
