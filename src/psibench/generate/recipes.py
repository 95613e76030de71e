"""All recipes by name, and the steps that each consists of.

A recipe with a loader makes a benchmark's tables in one stage, ``build``. A generated recipe has a
pipeline of tasks (`psibench.llm.tasks`), then filters and judges. The stage ``assemble`` makes the
tables from the candidates that are left, and ``subset`` makes a small benchmark over the same
corpus.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from psibench.filters.decide import NO_TARGET, REPEATED_TEXT, evidence_targets
from psibench.filters.grade import grading_task, verdict_task
from psibench.filters.mixtures import Tiny, tiny_subset
from psibench.filters.negatives import FinewebNegatives, judge_name
from psibench.generate.base import Build, complete_build, qrels_of_positives
from psibench.generate.benchmarks import (
    Benchmark,
    GeneratedBenchmark,
    parse_benchmark,
)
from psibench.generate.controlled import (
    CHOOSE_CONFIGURATION,
    GENERATE_POSITIONAL_QUERY,
    evidence_sentences,
)
from psibench.generate.fineweb_posq import GENERATE_QUESTIONS, SUMMARISE
from psibench.generate.loaders import Loader, NothingLeftError
from psibench.generate.posir import LOCATE_SPAN, PROPOSE_QUESTIONS
from psibench.llm.tasks import LlmTask, LlmTaskSection
from psibench.sources.local import interpreter_of
from psibench.tables import content_hash
from psibench.tables.build_schemas import (
    CANDIDATES,
    FLOW,
    PAIRS,
    PERSONA_CANDIDATES,
    REFUSAL_SUSPECTS,
    TEXT_PARTS,
    TRANSLATED,
)
from psibench.tables.dropped import (
    OnEmpty,
    as_attrition,
    dropped_frame,
    flow_frame,
    leave_empty,
    where_nothing_was_left,
)
from psibench.tables.job import DomainJob, Job
from psibench.tables.schemas import ATTRITION, CORPUS, DOCUMENTS, QRELS, QUERIES
from psibench.tables.spec import TableSpec
from psibench.tables.stage import stage
from psibench.text.lengths import TokenCounter
from psibench.text.passages import PAGES
from psibench.text.segments import POSITIONS

logger = logging.getLogger("psibench")

_TOO_FEW = "tiny: drew only %d of the %d requested queries with target %s"
_LEFT_OUT = "tiny: left out %d queries of %s: %s"
_WHY_LEFT_OUT = {
    NO_TARGET: "they have no target position",
    REPEATED_TEXT: "their texts repeat the texts of other queries in the subset",
}

RECIPE_TASKS: Mapping[str, tuple[LlmTask, ...]] = {
    "fineweb_posq": (SUMMARISE, GENERATE_QUESTIONS),
    "posir": (PROPOSE_QUESTIONS, LOCATE_SPAN),
    "controlled": (CHOOSE_CONFIGURATION, GENERATE_POSITIONAL_QUERY),
}
"""Recipe -> its tasks; the table of the last task has the benchmark's candidates."""

STEP_SPECS: Mapping[str, TableSpec] = {
    "documents": DOCUMENTS,
    "persona_candidates": PERSONA_CANDIDATES,
    "queries": QUERIES,
    "text_parts": TEXT_PARTS,
    "translated": TRANSLATED,
    "refusal_suspects": REFUSAL_SUSPECTS,
    **{task.name: task.spec for tasks in RECIPE_TASKS.values() for task in tasks},
}
"""Schema of the tables that tasks read, by name."""


def step_spec(name: str) -> TableSpec:
    """Return the schema of a table that a task reads; judging tasks read ``STEP_pairs``."""
    return PAIRS if name.endswith("_pairs") else STEP_SPECS[name]


# Stage ``build``

# Config keys of a benchmark that do not change its tables.
EVALUATION_FIELDS = frozenset(
    {
        "description",
        "first_stage",
        "buckets",
        "length_buckets",
        "cross_lingual",
        "translate",
        "corpora",
        "on_empty",
    }
)


def build_params(
    section: Benchmark, *, length_tokenizer: str, id_prefix: str = ""
) -> dict[str, Any]:
    """Return the parameters of a benchmark's build rule: the config keys that decide its tables."""
    params = section.model_dump(mode="json", exclude=set(EVALUATION_FIELDS))
    params["length_tokenizer"] = length_tokenizer
    if id_prefix:
        params["id_prefix"] = id_prefix
    return params | interpreter_of(section.source)


@stage("build", version=8)
def run_build(job: Job) -> None:
    """Build a benchmark, domain by domain.

    ``domains`` has for each domain the parameters of `build_params`; ids begin with its
    ``id_prefix``. If no query is left, see `leave_empty`. Outputs: corpus, queries, qrels, dropped,
    flow.
    """
    from psibench.models.counting import token_counter

    for domain in job.domains():
        section = {"id_prefix": "", **domain.own}
        section.pop("python", None)  # a parameter only so that another interpreter reruns the job
        length_tokenizer, id_prefix = section.pop("length_tokenizer"), section.pop("id_prefix")
        limit: int | None = section.pop("limit", None)
        recipe = parse_benchmark(section)
        assert isinstance(recipe, Loader)
        try:
            built = recipe.build(token_counter(length_tokenizer))
        except NothingLeftError as error:
            leave_empty(str(error), job.value("on_empty", OnEmpty, default="fail"))
            built = error.build
        built = built.limited(limit) if limit is not None else built
        built = built.with_id_prefix(id_prefix)
        made: dict[str, Any] = {
            "params": domain.own,
            "files": {path: content_hash(path) for path in recipe.files()},
            "revisions": recipe.revisions(),
            "queries_by": getattr(recipe, "queries_by", None),
        }
        write_benchmark(domain, built, **made)
        left_out = as_attrition(built.dropped, language=domain.language, domain=domain.name)
        domain.write("dropped", left_out, ATTRITION, **made)
        counts = [flow_frame(of, step, [one]) for step, (of, one) in enumerate(built.flow)]
        domain.write("flow", pl.concat([FLOW.empty(), *counts]), FLOW, **made)


def write_benchmark(domain: DomainJob, built: Build, **record: Any) -> None:
    """Write a domain's corpus, queries and qrels."""
    domain.write("corpus", built.corpus, CORPUS, **record)
    domain.write("queries", built.queries, QUERIES, **record)
    domain.write("qrels", built.qrels, QRELS, **record)


# Stages ``assemble`` and ``subset``: from candidates to tables


@stage("assemble", version=5)
def run_assemble(job: Job) -> None:
    """Write corpus, queries and qrels; if no candidate is left, see `leave_empty`.

    Inputs: ``documents`` and ``candidates``. The outputs ``dropped`` and ``flow``, if the rule has
    them, are empty, since this stage drops nothing.
    """
    from psibench.models.counting import token_counter

    length_tokenizer = job.value("length_tokenizer")
    count_tokens = token_counter(length_tokenizer)
    for domain in job.domains():
        documents = domain.read("documents", DOCUMENTS)
        candidates = domain.read("candidates", CANDIDATES)
        if candidates.is_empty():
            (path,) = domain.tables("candidates")
            why = where_nothing_was_left(path)
            leave_empty(
                f"{path}: no candidate query is left; {why}",
                job.value("on_empty", OnEmpty, default="fail"),
            )
        built = assemble(documents, candidates, count_tokens=count_tokens)
        write_benchmark(domain, built, params={"length_tokenizer": length_tokenizer})
        for name, spec in (("dropped", ATTRITION), ("flow", FLOW)):
            if job.has_output(name):
                domain.write(name, spec.empty(), spec)


def assemble(
    documents: pl.DataFrame, candidates: pl.DataFrame, *, count_tokens: TokenCounter
) -> Build:
    """Return a benchmark of candidates, whose corpus is all of the sampled documents."""
    return complete_build(
        documents.select("_id", "text", "origin", PAGES),
        evidence_sentences(candidates, documents),
        qrels_of_positives(candidates),
        dropped_frame(),
        count_tokens=count_tokens,
    )


@stage("subset", version=1)
def run_subset(job: Job) -> None:
    """Draw the tiny subset; write its queries and qrels, and the whole corpus.

    The queries keep their order. A query whose chunk is in two thirds (Myopic's column
    ``positions``) counts in both. If no query has a target position, see `leave_empty`. Inputs and
    outputs: corpus, queries, qrels.
    """
    section, on_empty = job.section(Tiny), job.value("on_empty", OnEmpty, default="fail")
    drawn_by = section.model_dump(mode="json", exclude={"only_here"})
    for domain in job.domains():
        drawn = _draw(domain.read("queries", QUERIES), section, str(domain), on_empty=on_empty)
        of_drawn = domain.read("qrels", QRELS).join(
            drawn, left_on="query-id", right_on="_id", how="semi", maintain_order="left"
        )
        domain.write("queries", drawn, QUERIES, params=drawn_by)
        domain.write("qrels", of_drawn, QRELS, params=drawn_by)
        domain.write("corpus", domain.read("corpus", CORPUS), CORPUS, params={})


def _draw(queries: pl.DataFrame, section: Tiny, where: str, *, on_empty: OnEmpty) -> pl.DataFrame:
    """Return the queries drawn, in their order; warn if a position has too few."""
    targets = evidence_targets(queries).with_columns(queries.get_column("text"))
    sizes = [targets["targets"].list.contains(name).sum() for name in POSITIONS]
    if queries.height and not any(sizes):
        leave_empty(
            f"{where}: none of the {queries.height} queries has a target position, which `tiny` "
            "needs; remove `tiny` from the benchmark's section",
            on_empty,
        )
    for position, size in zip(POSITIONS, sizes, strict=True):
        if size < section.per_position:
            logger.warning(_TOO_FEW, size, section.per_position, position)
    decisions = tiny_subset(targets, per_position=section.per_position, seed=section.seed)
    for reason, why in _WHY_LEFT_OUT.items():
        n = decisions.filter(pl.col("reason") == reason).height
        if n:
            logger.warning(_LEFT_OUT, n, where, why)
    return queries.filter(decisions.get_column("kept"))


# The steps of a generated benchmark: tasks that write, filters, tasks that judge

GRADE_STEP, AUDIT_STEP, NEGATIVES = "grade", "audit", "false_negatives"
GRADE_ROUNDS = ("grade_first", "grade_rest")
CANDIDATE_UNITS = {"fineweb_posq": "questions", "posir": "questions", "controlled": "queries"}
"""Unit of a recipe's candidates in FLOW."""
JUDGING = {"grades": grading_task, "verdicts": verdict_task}
"""Kind of judging task -> function that makes the task from a step's name."""
JUDGE_FLOW_STEPS = {
    "grade_first": 20,
    "grade_rest": 21,
    AUDIT_STEP: 30,
    NEGATIVES: 100,
}
"""Positions of the judging steps in FLOW. They are fixed, whatever other steps a benchmark has: the
position is a parameter of the step's rule, so removing an audit reruns nothing else. Filters have
theirs in `FilterSection.flow_step`."""
FIRST_JUDGE = 40
"""Position in FLOW before the first judge of false negatives."""


@dataclass(frozen=True)
class Judging:
    """A judging task: its step's name, the kind of judgement, language model and template."""

    name: str
    kind: str
    section: LlmTaskSection

    @property
    def task(self) -> LlmTask:
        """The task that the step runs."""
        return JUDGING[self.kind](self.name)


def judging_of(section: GeneratedBenchmark) -> Iterator[Judging]:
    """Yield a benchmark's judging tasks, in order."""
    if section.grade is not None:
        judge = _request_section(section.grade)
        yield from (Judging(name, "grades", judge) for name in GRADE_ROUNDS)
    if section.audit is not None:
        yield Judging(AUDIT_STEP, "verdicts", _request_section(section.audit))
    if isinstance(section.false_negatives, FinewebNegatives):
        prompt = section.false_negatives.prompt
        for number, llm in enumerate(section.false_negatives.judges, start=1):
            judge = LlmTaskSection(llm=llm, prompt=prompt)
            yield Judging(judge_name(number), "grades", judge)


def tasks_of(section: GeneratedBenchmark) -> Iterator[tuple[LlmTask, LlmTaskSection]]:
    """Yield a benchmark's tasks with their config sections: first writing, then judging."""
    for task in RECIPE_TASKS[section.recipe]:
        yield task, task_section(section, task.name)
    for judging in judging_of(section):
        yield judging.task, judging.section


def steps_of(section: GeneratedBenchmark) -> list[str]:
    """List the names of a benchmark's steps, in order."""
    judging = [one.name for one in judging_of(section)]
    steps = [task.name for task in RECIPE_TASKS[section.recipe]]
    for name in section.filters:
        steps += [*GRADE_ROUNDS, GRADE_STEP] if name == GRADE_STEP else [name]
    steps += [AUDIT_STEP] if section.audit is not None else []
    steps += [name for name in judging if name not in (*GRADE_ROUNDS, AUDIT_STEP)]
    return steps + ([NEGATIVES] if section.false_negatives is not None else [])


def flow_step_of(section: GeneratedBenchmark, step: str) -> int:
    """Return the position of a step in FLOW; the first task has 1."""
    if step in JUDGE_FLOW_STEPS:
        return JUDGE_FLOW_STEPS[step]
    if step in section.filters:
        flow_step: int = getattr(section, step).flow_step
        return flow_step
    judges = [one.name for one in judging_of(section) if one.name not in JUDGE_FLOW_STEPS]
    if step in judges:
        return FIRST_JUDGE + 1 + judges.index(step)
    return 1 + steps_of(section).index(step)


def grade_rule(section: GeneratedBenchmark) -> str:
    """Return the rule by which a benchmark's grades decide: segments or span."""
    assert section.grade is not None
    return section.grade.rule or ("span" if section.recipe == "posir" else "segments")


def _request_section(section: LlmTaskSection) -> LlmTaskSection:
    """Return only model and template, since a filter's other keys change no request."""
    return LlmTaskSection(llm=section.llm, prompt=section.prompt)


def task_section(section: GeneratedBenchmark, task: str) -> LlmTaskSection:
    """Return a task's section: the key of the benchmark's section with the task's name."""
    of_task = getattr(section, task)
    assert isinstance(of_task, LlmTaskSection)
    return of_task
