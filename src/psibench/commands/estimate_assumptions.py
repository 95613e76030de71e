"""What an estimate rests on, in words: requests, replies, and what is left out."""

from collections.abc import Callable, Iterable, Iterator

from psibench.recipes.steps import AUDIT
from psibench.stages.llm_estimate_replies import USUAL_EXPANSION
from psibench.stages.llm_estimate_results import ConfigEstimate
from psibench.stages.llm_estimate_suspects import SUSPECT_SHARE
from psibench.stages.llm_estimate_task import TaskEstimate
from psibench.text.languages import english_name

OUTPUT = {
    "stand-in": "the stand-in's own rules, run here: exact",
    "stored answers": "the mean of stored answers to the same task",
    "example": "the example in the prompt's header, for want of 20 stored answers",
    "answered": "nothing is left to ask",
}
PAIRS = "the pairs of an earlier run"
TABLES = "the tables of an earlier run"
SUSPECTS = (
    f"as if {SUSPECT_SHARE:.0%} of the translations were suspect, a guess on the high side: PosIR "
    "found 2,249 refusals among 14 million texts; after a first run its suspects are counted"
)
EVERY_TEXT = (
    "at most, as if every document drawn stayed and every candidate became a query; once the "
    "queries are there, they and their documents are counted"
)
EVERY_CANDIDATE = (
    "at most, as if every candidate came to them with all its parts; rerankers leave fewer, "
    "which nobody knows before"
)
EVERY_STRATUM = "at most, as if every stratum of the margin had as many candidates as are drawn"
UNCOUNTED = (
    "not counted, and not in the totals: known once rerankers have looked for false negatives; "
    "PosQ had 854 candidates for 26,356 questions, each graded by two or three judges"
)


TOLD = {
    "documents": "",
    "pairs of an earlier run": PAIRS,
    "tables of an earlier run": TABLES,
    "assumed share": SUSPECTS,
}
UNREAD = (
    "not counted, and not in the totals: nobody can tell how many texts a corpus on the hub has "
    "before it is built; build it first, with the data tables of these as targets"
)


def assumptions(found: ConfigEstimate) -> Iterator[str]:
    """Yield what is assumed, a sentence each."""
    tasks = [task for row in found.benchmarks for task in row.tasks]
    yield from _told("requests", tasks, _requests)
    for row in found.benchmarks:
        if row.uncounted:
            yield f"{', '.join(row.uncounted)} of {row.name}: {UNCOUNTED}"
        if row.unread:
            yield f"the translation of {', '.join(row.unread)} of {row.name}: {UNREAD}"
    output = OUTPUT | {"expansion": _expansions(tasks)}
    yield from _told("output tokens", tasks, lambda task: output[task.basis])
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
    told = TOLD.get(task.requests_basis)
    if told is not None:
        return told
    if task.language is not None:
        return EVERY_TEXT
    return EVERY_STRATUM if task.stage.stage == AUDIT else EVERY_CANDIDATE


def _expansions(tasks: Iterable[TaskEstimate]) -> str:
    """Say how much longer a translation is taken to be than what is translated."""
    factors = {task.language: task.expansion for task in tasks if task.expansion is not None}
    named = [
        f"{factor:.2f} for {english_name(language or '')}"
        + (" (a guess)" if factor == USUAL_EXPANSION else "")
        for language, factor in factors.items()
    ]
    return (
        f"the tokens of what is translated, times {', '.join(named)}: mean tokens of the same "
        "documents in PosIR, table 4, by the Qwen3 tokenizer"
    )
