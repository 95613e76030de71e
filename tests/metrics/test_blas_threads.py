"""The result tables keep BLAS to one thread, whatever it had before."""

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from psibench.errors import InputError
from psibench.metrics.aggregate import RowLabels, result_tables


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_blas_computes_the_result_tables_in_one_thread():
    seen = []

    def no_models():
        seen.append(blas_threads())
        yield from ()

    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        with pytest.raises(InputError, match="no model"):
            result_tables(no_models(), labels=RowLabels("b", "eng-Latn", "eng-Latn"), metrics=[])
        assert blas_threads() == before == {2}
    assert seen == [{1}]
