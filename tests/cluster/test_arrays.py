"""Job arrays that slurm-executor would never submit."""

import pytest

from psibench.cluster.head import refuse_endless_arrays
from psibench.errors import InputError

JOBS = {"data": 1, "encode": 41}


@pytest.mark.parametrize("arrays", ["encode", "all", "data; encode", "search_vectors,encode"])
def test_an_array_with_more_jobs_than_allowed_is_refused(arrays: str) -> None:
    with pytest.raises(InputError, match=r"rule encode has 41 jobs, and `jobs: 40`"):
        refuse_endless_arrays(arrays, JOBS, limit=40)


@pytest.mark.parametrize(("arrays", "limit"), [("encode", 41), ("data", 1), (None, 1), ("", 1)])
def test_an_array_within_the_limit_of_jobs_may_start(arrays: str | None, limit: int) -> None:
    refuse_endless_arrays(arrays, JOBS, limit=limit)
