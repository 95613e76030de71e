"""The steps of a generated benchmark, in order: tasks that write, filters, tasks that judge."""

from collections.abc import Iterator
from dataclasses import dataclass

from psibench.config.benchmarks import GeneratedBenchmark
from psibench.config.judging import FinewebNegatives
from psibench.errors import InputError
from psibench.llm.tasks import LlmTask, LlmTaskSection
from psibench.recipes.generated import TASKS, task_section
from psibench.recipes.judging import grading_task, verdict_task

VERIFY, GRADE, AUDIT, NEGATIVES = "verify", "grade", "audit", "false_negatives"
GRADE_ROUNDS = ("grade_first", "grade_rest")
UNITS = {"fineweb_posq": "questions", "posir": "questions", "controlled": "queries"}
"""What a candidate is called in FLOW, by recipe."""
JUDGING = {"grades": grading_task, "verdicts": verdict_task}
"""Kind of judging task -> how it is made of a step's name."""
PLACES = {VERIFY: 10, "grade_first": 20, "grade_rest": 21, GRADE: 22, AUDIT: 30, NEGATIVES: 100}
"""Places of the filters in FLOW, the same whatever else a benchmark has: a place is a parameter of
its rule, and an audit that is taken out reruns nothing. Balancing has the place after its rule."""
FIRST_JUDGE = 40
"""Place in FLOW before the first judge of false negatives."""


@dataclass(frozen=True)
class Judging:
    """One task that judges pairs: name of the step, kind of judgement, who is asked and how."""

    name: str
    kind: str
    section: LlmTaskSection

    @property
    def task(self) -> LlmTask:
        """The task itself."""
        return JUDGING[self.kind](self.name)


def judge_name(number: int) -> str:
    """Name the step of a judge of false negatives, the first one 1."""
    return f"judge_{number}"


def judging_of(section: GeneratedBenchmark) -> Iterator[Judging]:
    """Yield a benchmark's judging tasks, in order."""
    if section.grade is not None:
        yield from (Judging(name, "grades", _asked(section.grade)) for name in GRADE_ROUNDS)
    if section.audit is not None:
        yield Judging(AUDIT, "verdicts", _asked(section.audit))
    if isinstance(section.false_negatives, FinewebNegatives):
        prompt = section.false_negatives.prompt
        for number, llm in enumerate(section.false_negatives.judges, start=1):
            judge = LlmTaskSection(llm=llm, prompt=prompt)
            yield Judging(judge_name(number), "grades", judge)


def tasks_of(section: GeneratedBenchmark) -> Iterator[tuple[LlmTask, LlmTaskSection]]:
    """Yield every task of a benchmark with its part of the section: writing, then judging."""
    for task in TASKS[section.recipe]:
        yield task, task_section(section, task.name)
    for judging in judging_of(section):
        yield judging.task, judging.section


def find_task_of(section: GeneratedBenchmark, name: str) -> tuple[LlmTask, LlmTaskSection]:
    """Return a benchmark's task by name, with its part of the section.

    Raises
    ------
    InputError
        If the benchmark has no such task.
    """
    known = {task.name: (task, chosen) for task, chosen in tasks_of(section)}
    if name not in known:
        raise InputError(f"recipe {section.recipe} has no task {name!r}; its: {', '.join(known)}")
    return known[name]


def steps_of(section: GeneratedBenchmark) -> list[str]:
    """List the names of a benchmark's steps, in order; those that it has."""
    judging = [one.name for one in judging_of(section)]
    steps = [task.name for task in TASKS[section.recipe]]
    steps += [VERIFY] if section.verify is not None else []
    steps += [*GRADE_ROUNDS, GRADE] if section.grade is not None else []
    steps += [AUDIT] if section.audit is not None else []
    steps += [name for name in judging if name not in (*GRADE_ROUNDS, AUDIT)]
    return steps + ([NEGATIVES] if section.false_negatives is not None else [])


def place_of(section: GeneratedBenchmark, step: str) -> int:
    """Return the place of a step in FLOW, from 1; what comes before the first task has 0."""
    if step in PLACES:
        return PLACES[step]
    judges = [one.name for one in judging_of(section) if one.name not in PLACES]
    if step in judges:
        return FIRST_JUDGE + 1 + judges.index(step)
    return 1 + steps_of(section).index(step)


def grade_rule(section: GeneratedBenchmark) -> str:
    """Return by which rule a benchmark's grades decide: segments or span."""
    assert section.grade is not None
    return section.grade.rule or ("span" if section.recipe == "posir" else "segments")


def _asked(section: LlmTaskSection) -> LlmTaskSection:
    """Return who is asked and how, alone: what a filter makes of the reply decides no request."""
    return LlmTaskSection(llm=section.llm, prompt=section.prompt)
