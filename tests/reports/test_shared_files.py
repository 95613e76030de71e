"""Files on shared file systems and clusters; README.md names the reports."""

import os
import time

import pytest

from psibench.cluster.contents import refuse_future_date
from psibench.errors import InputError


@pytest.mark.parametrize(("days", "is_refused"), [(-700, False), (0, False), (2, True)])
def test_an_input_dated_in_the_future_is_refused_before_any_job(tmp_path, days, is_refused):
    """Snakemake removes the outputs of its job when the job has ended."""
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("{}\n")
    date = time.time() + days * 86_400
    os.utime(corpus, (date, date))
    if not is_refused:
        refuse_future_date(corpus)
        return
    with pytest.raises(InputError, match=r"in the future; .*run `touch .*corpus\.jsonl`"):
        refuse_future_date(corpus)
