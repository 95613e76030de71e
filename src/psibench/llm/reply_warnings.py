"""Warnings about replies that are usable one by one, but not together: signs of a weak model."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence

import polars as pl

from psibench.llm.answer import CONTEXT_FULL, LIMIT_IN_THOUGHTS, OUTPUT_LIMIT
from psibench.llm.asking import OutcomeSink
from psibench.llm.tasks import LlmTask

MANY = 0.1
"""Share of replies at the token limit, or of HTTP requests that timed out, that gives a warning."""
MOSTLY, LEAST_REPLIES = 0.95, 8
"""Share of the most frequent value that gives a warning, and number of replies that it needs."""
MOST_UNLISTED, LEAST_UNLISTED = 0.5, 3
_CUT = (OUTPUT_LIMIT, LIMIT_IN_THOUGHTS, CONTEXT_FULL)


def limit_warnings(totals: OutcomeSink) -> Iterator[str]:
    """Warn if more than one reply in ten hit the token limit, or one request in ten the timeout."""
    n_cut = sum(totals.form_reasons[reason] for reason in _CUT)
    if n_cut > MANY * totals.n_judged:
        yield (
            f"{n_cut} of {totals.n_judged} replies were cut off by the token limit. Raise "
            "sampling.max_output_tokens, unless the replies repeat themselves: then use a larger "
            "model, or a reply_format that makes the server enforce the schema"
        )
    if totals.n_timeouts > MANY * totals.n_sent:
        yield (
            f"{totals.n_timeouts} of {totals.n_sent} HTTP requests had no reply within "
            "asking.timeout_s. Raise it, or lower asking.concurrency to what the server can "
            "process at once"
        )


def value_warnings(
    task: LlmTask, outcomes: Sequence[pl.DataFrame], rows: Sequence[pl.DataFrame]
) -> Iterator[str]:
    """Warn if replies that should differ are mostly one value, or mostly not what was asked for.

    ``outcomes`` are the OUTCOMES rows and ``rows`` the task's rows, by domain.
    """
    usable = pl.concat(outcomes).filter(pl.col("status") == "ok")
    values = [json.loads(value) for value in usable["value"]]
    for name in task.varied:
        counts = Counter(value[name] for value in values)
        for value, n in counts.most_common(1):
            if len(values) >= LEAST_REPLIES and n >= MOSTLY * len(values):
                yield (
                    f"{n} of {len(values)} replies have the same {name}, {value!r}. A model that "
                    "always replies the same decides nothing: read some of its replies, and use "
                    "another model if they are wrong"
                )
    for column, meaning in task.wanted.items():
        known = pl.concat([frame.get_column(column) for frame in rows])
        n_not = int((~known).sum())
        if n_not >= LEAST_UNLISTED and n_not > MOST_UNLISTED * len(known):
            yield f"in {n_not} of {len(known)} replies {meaning} (column {column})"
