"""All recipes, by name: those that build from a source, and those whose queries a model writes.

A recipe of the first kind makes a benchmark's tables in one stage, ``build``. One of the second is
a chain of tasks (`psibench.llm.tasks`) with filters and judges after it; the stage ``assemble``
makes the tables of the candidates that are left, and ``subset`` a small benchmark over the same
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

TOO_FEW = "tiny: %d queries with target %s wanted, %d found; the subset takes all of them"
NOT_TAKEN = "tiny: %d queries of %s are left out: %s"
NOT_TAKEN_FOR = {
    NO_TARGET: "no target position is declared",
    REPEATED_TEXT: "its text is in the sample already",
}

TASKS: Mapping[str, tuple[LlmTask, ...]] = {
    "fineweb_posq": (SUMMARISE, GENERATE_QUESTIONS),
    "posir": (PROPOSE_QUESTIONS, LOCATE_SPAN),
    "controlled": (CHOOSE_CONFIGURATION, GENERATE_POSITIONAL_QUERY),
}
"""Recipe -> its tasks; the last one's table is the benchmark's candidates."""

STEP_SPECS: Mapping[str, TableSpec] = {
    "documents": DOCUMENTS,
    "persona_candidates": PERSONA_CANDIDATES,
    "queries": QUERIES,
    "text_parts": TEXT_PARTS,
    "translated": TRANSLATED,
    "refusal_suspects": REFUSAL_SUSPECTS,
    **{task.name: task.spec for tasks in TASKS.values() for task in tasks},
}
"""Schema of the tables that tasks read, by name."""


def step_spec(name: str) -> TableSpec:
    """Return the schema of a table that a task reads; judging tasks read ``STEP_pairs``."""
    return PAIRS if name.endswith("_pairs") else STEP_SPECS[name]


# Stage ``build``

# Config leaves of a benchmark that do not decide its tables.
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
    """Return the parameters of a benchmark's build rule: the leaves that decide its tables."""
    params = section.model_dump(mode="json", exclude=set(EVALUATION_FIELDS))
    params["length_tokenizer"] = length_tokenizer
    if id_prefix:
        params["id_prefix"] = id_prefix
    return params | interpreter_of(section.source)


@stage("build", version=7)
def run_build(job: Job) -> None:
    """Build a benchmark domain by domain; write its tables, what was dropped, and the counts.

    ``domains`` has a section for each, as of `build_params`; ids begin with its ``id_prefix``.
    Where no query is left, see `leave_empty`. Outputs: corpus, queries, qrels, dropped, flow.
    """
    from psibench.models.counting import token_counter

    for domain in job.domains():
        section = {"id_prefix": "", **domain.own}
        section.pop("python", None)  # there to rerun under another interpreter
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


# Stages ``assemble`` and ``subset``


@stage("assemble", version=5)
def run_assemble(job: Job) -> None:
    """Write corpus, queries and qrels; where no candidate is left, see `leave_empty`.

    Inputs: ``documents`` and ``candidates``. The tables ``dropped`` and ``flow``, where the rule
    has them, stay empty: nothing is left out.
    """
    from psibench.models.counting import token_counter

    length_tokenizer = job.value("length_tokenizer")
    count_tokens = token_counter(length_tokenizer)
    for domain in job.domains():
        texts, asked = domain.read("documents", DOCUMENTS), domain.read("candidates", CANDIDATES)
        if asked.is_empty():
            (candidates,) = domain.tables("candidates")
            why = where_nothing_was_left(candidates)
            leave_empty(
                f"{candidates}: no candidate query is left; {why}",
                job.value("on_empty", OnEmpty, default="fail"),
            )
        built = assemble(texts, asked, count_tokens=count_tokens)
        write_benchmark(domain, built, params={"length_tokenizer": length_tokenizer})
        for name, spec in (("dropped", ATTRITION), ("flow", FLOW)):
            if job.has_output(name):
                domain.write(name, spec.empty(), spec)


def assemble(
    documents: pl.DataFrame, candidates: pl.DataFrame, *, count_tokens: TokenCounter
) -> Build:
    """Turn sampled documents and candidates into a benchmark: every document is in the corpus."""
    return complete_build(
        documents.select("_id", "text", "origin", PAGES),
        evidence_sentences(candidates, documents),
        qrels_of_positives(candidates),
        dropped_frame(),
        count_tokens=count_tokens,
    )


@stage("subset", version=1)
def run_subset(job: Job) -> None:
    """Draw the subset and write it with its qrels and the whole corpus.

    The queries keep the order they are read in. A query whose chunk lies in two thirds (Myopic's
    column ``positions``) counts at both. Where there are queries and none has a target position,
    see `leave_empty`. Inputs and outputs: corpus, queries, qrels.
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
    """Give the rows of the queries drawn, in their order; says where fewer are drawn than asked."""
    targets = evidence_targets(queries).with_columns(queries.get_column("text"))
    sizes = [targets["targets"].list.contains(name).sum() for name in POSITIONS]
    if queries.height and not any(sizes):
        leave_empty(
            f"{where}: none of the {queries.height} queries has a target position, so there is "
            "nothing to draw by; leave `tiny` out of the benchmark's section",
            on_empty,
        )
    for position, size in zip(POSITIONS, sizes, strict=True):
        if size < section.per_position:
            logger.warning(TOO_FEW, section.per_position, position, size)
    decisions = tiny_subset(targets, per_position=section.per_position, seed=section.seed)
    for reason, why in NOT_TAKEN_FOR.items():
        n = decisions.filter(pl.col("reason") == reason).height
        if n:
            logger.warning(NOT_TAKEN, n, where, why)
    return queries.filter(decisions.get_column("kept"))


# The steps of a generated benchmark: tasks that write, filters, tasks that judge

GRADE, AUDIT, NEGATIVES = "grade", "audit", "false_negatives"
GRADE_ROUNDS = ("grade_first", "grade_rest")
UNITS = {"fineweb_posq": "questions", "posir": "questions", "controlled": "queries"}
"""What a candidate is called in FLOW, by recipe."""
JUDGING = {"grades": grading_task, "verdicts": verdict_task}
"""Kind of judging task -> how it is made of a step's name."""
LEDGER_ORDER = {
    "grade_first": 20,
    "grade_rest": 21,
    AUDIT: 30,
    NEGATIVES: 100,
}
"""Places in FLOW of what judges, the same whatever else a benchmark has: a place is a parameter of
its rule, and an audit that is taken out reruns nothing. Filters have theirs in their sections."""
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


def steps_of(section: GeneratedBenchmark) -> list[str]:
    """List the names of a benchmark's steps, in order; those that it has."""
    judging = [one.name for one in judging_of(section)]
    steps = [task.name for task in TASKS[section.recipe]]
    for name in section.filters:
        steps += [*GRADE_ROUNDS, GRADE] if name == GRADE else [name]
    steps += [AUDIT] if section.audit is not None else []
    steps += [name for name in judging if name not in (*GRADE_ROUNDS, AUDIT)]
    return steps + ([NEGATIVES] if section.false_negatives is not None else [])


def place_of(section: GeneratedBenchmark, step: str) -> int:
    """Return the place of a step in FLOW, from 1; what comes before the first task has 0."""
    if step in LEDGER_ORDER:
        return LEDGER_ORDER[step]
    if step in section.filters:
        place: int = getattr(section, step).flow_step
        return place
    judges = [one.name for one in judging_of(section) if one.name not in LEDGER_ORDER]
    if step in judges:
        return FIRST_JUDGE + 1 + judges.index(step)
    return 1 + steps_of(section).index(step)


def grade_rule(section: GeneratedBenchmark) -> str:
    """Return by which rule a benchmark's grades decide: segments or span."""
    assert section.grade is not None
    return section.grade.rule or ("span" if section.recipe == "posir" else "segments")


def _asked(section: LlmTaskSection) -> LlmTaskSection:
    """Return model and template alone: a filter's other keys change no request."""
    return LlmTaskSection(llm=section.llm, prompt=section.prompt)


def task_section(section: GeneratedBenchmark, task: str) -> LlmTaskSection:
    """Return a task's part of a benchmark's section: it has the task's name."""
    found = getattr(section, task)
    assert isinstance(found, LlmTaskSection)
    return found
