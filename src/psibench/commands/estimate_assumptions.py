"""What an estimate rests on, in words: requests, replies, and what is left out."""

from collections.abc import Callable, Iterable, Iterator

from psibench.recipes.steps import AUDIT
from psibench.stages.llm_estimate import TaskEstimate
from psibench.stages.llm_estimate_config import ConfigEstimate

OUTPUT = {
    "stand-in": "the stand-in's own rules, run here: exact",
    "stored answers": "the mean of stored answers to the same task",
    "example": "the example in the prompt's header, for want of 20 stored answers",
    "answered": "nothing is left to ask",
}
PAIRS = "the pairs of an earlier run"
EVERY_CANDIDATE = (
    "at most, as if every candidate came to them with all its parts; rerankers leave fewer, "
    "which nobody knows before"
)
EVERY_STRATUM = "at most, as if every stratum of the margin had as many candidates as are drawn"
UNCOUNTED = (
    "not counted, and not in the totals: known once rerankers have looked for false negatives; "
    "PosQ had 854 candidates for 26,356 questions, each graded by two or three judges"
)


def assumptions(found: ConfigEstimate) -> Iterator[str]:
    """Yield what is assumed, a sentence each."""
    tasks = [task for row in found.benchmarks for task in row.tasks]
    yield from _told("requests", tasks, _requests)
    for row in found.benchmarks:
        if row.uncounted:
            yield f"{', '.join(row.uncounted)} of {row.name}: {UNCOUNTED}"
    yield from _told("output tokens", tasks, lambda task: OUTPUT[task.basis])
    yield "every reply is usable at the first go: no re-asks; thoughts of a model are not counted"
    yield "input read from a server's cache is priced as if it were not"
    if any(row.is_scaled for row in found.benchmarks):
        yield "counts are scaled from what went through to all; ~ marks answered ones"


def _told(
    what: str, tasks: Iterable[TaskEstimate], tell: Callable[[TaskEstimate], str]
) -> Iterator[str]:
    """Say something of tasks, those together of which the same is told; "" is not told."""
    names: dict[str, dict[str, None]] = {}
    for task in tasks:
        names.setdefault(tell(task), {})[task.stage.stage] = None
    for told, these in names.items():
        if told:
            yield f"{what} of {', '.join(these)}: {told}"


def _requests(task: TaskEstimate) -> str:
    if task.requests_basis == "documents":
        return ""
    if task.requests_basis == "pairs of an earlier run":
        return PAIRS
    return EVERY_STRATUM if task.stage.stage == AUDIT else EVERY_CANDIDATE
