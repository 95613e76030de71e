"""The benchmarks of a config and what follows from their sections alone, computed once.

Languages, domains and language pairs; the tasks of language models, who is asked and in how many
shards; the steps, and the names of the tables on the way. A view has all that its benchmark has.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property

from psibench.config.paths import prompt_path
from psibench.errors import InputError, MissingError, refuse
from psibench.filters.decide import SPAN_PARTS
from psibench.filters.negatives import FinewebNegatives, PosirNegatives
from psibench.generate.benchmarks import (
    Benchmark,
    DocumentsBenchmark,
    GeneratedBenchmark,
    Place,
    PosirRelease,
    evaluated_views,
    parts_of,
    places_of,
    section_at,
    view_id,
    view_names,
)
from psibench.generate.recipes import RECIPE_TASKS, flow_step_of, judging_of, steps_of, tasks_of
from psibench.llm.prompts import PromptTemplate, load_prompt
from psibench.llm.tasks import LlmTask, LlmTaskSection
from psibench.plan.config import Config
from psibench.tables.dropped import OnEmpty
from psibench.tables.slices import Slice
from psibench.tables.spec import ALL
from psibench.text.languages import split_pair
from psibench.translate.quality import JUDGE_TRANSLATION
from psibench.translate.steps import (
    LEDGER_ORDER,
    SAMPLED,
    asked_in_translation,
    is_about_sample,
    translating_section,
    translation_task,
)

TRANSLATOR, JUDGE_TRANSLATOR = SAMPLED


@dataclass(frozen=True)
class Gathered:
    """Errors of a config: files it names that are missing, and all others."""

    missing: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @contextmanager
    def at(self, where: str) -> Iterator[None]:
        """Note an error, its place in front, and go on."""
        try:
            yield
        except InputError as error:
            noted = self.missing if isinstance(error, MissingError) else self.problems
            if (said := str(error.under(where))) not in noted:
                noted.append(said)


@dataclass(frozen=True)
class PlannedTask:
    """A task of a language model in one benchmark.

    Attributes
    ----------
    section
        Who is asked and how; of a translation less its languages (`PlannedBenchmark.asked`).
    path, prompt
        Its template; None of one that is not there.
    shards
        Jobs that share it in a language, at least one in each of its parts.
    """

    task: LlmTask
    section: LlmTaskSection
    shards: int
    path: str = ""
    prompt: PromptTemplate | None = None

    @property
    def translates(self) -> bool:
        """Whether it belongs to a translation."""
        return translation_task(self.task.name) is not None


@dataclass(frozen=True)
class PlannedBenchmark:
    """A benchmark, or a view of one, with what follows from its section.

    Attributes
    ----------
    base, view
        The benchmark that a view is of, and which view; a benchmark's own id and "".
    places
        The domains in each language that it is read in; none of a release that is not there.
    tasks
        By name, in order: those of the recipe, then those of the translation.
    """

    id: str
    section: Benchmark
    places: tuple[Place, ...]
    tasks: dict[str, PlannedTask]
    base: str
    view: str = ""

    @cached_property
    def native(self) -> dict[str, list[str]]:
        """The languages it is read in, in order, with their domains."""
        found: dict[str, list[str]] = {}
        for place in self.places:
            found.setdefault(place.language, []).append(place.domain)
        return found

    @cached_property
    def translated(self) -> list[str]:
        """The languages it is translated to."""
        return [] if self.section.translate is None else list(self.section.translate.to)

    @property
    def languages(self) -> list[str]:
        """All languages: those it is read in, then its translations."""
        return [*self.native, *self.translated]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The pairs (language of queries, of documents) it is evaluated on: one language, then two.

        Views are evaluated in the languages that a benchmark is read in.
        """
        if self.view:
            return [(language, language) for language in self.native]
        given = self.section.cross_lingual
        if given is None:
            crossed = [(language, self.section.language) for language in self.translated]
        else:
            crossed = [split_pair(pair) for pair in given]
        return [(language, language) for language in self.languages] + crossed

    @property
    def evaluated_views(self) -> dict[str, str]:
        """The views with rows of their own: sort -> id."""
        return {view: view_id(self.base, view) for view in evaluated_views(self.section)}

    @cached_property
    def parts(self) -> dict[str, dict[str, list[str]]]:
        """The parts of each language on the way to the benchmark: see `parts_of`.

        A translation has those of the language it is made from.
        """
        found = {lang: parts_of(self.section, domains) for lang, domains in self.native.items()}
        source = found.get(self.section.language, {})
        return found | dict.fromkeys(self.translated, source)

    def domains(
        self, lang: str, corpus_lang: str | None = None, part: str | None = None
    ) -> list[str]:
        """List the domains in a language, in order, or in both of a pair in the second's order.

        Those of one ``part`` of the language, if one is named. A translation has those of the
        language it is made from.
        """
        if part:
            return list(self.parts[lang][part])
        source = self.section.language if lang in self.translated else lang
        found = self.native.get(source, [])
        if corpus_lang in (None, lang):
            return list(found)
        return [domain for domain in self.domains(str(corpus_lang)) if domain in found]

    def on_empty(self, lang: str) -> OnEmpty:
        """Say what to do about a domain without queries: of the only one there is nothing is left.

        A translation of it may be, if there are several.
        """
        languages = self.languages if lang in self.translated else list(self.native)
        n_cells = sum(len(self.domains(language)) for language in languages)
        return "fail" if n_cells == 1 else self.section.on_empty

    def place(self, lang: str, domain: str) -> Place:
        """Return one place that it is read from."""
        if (lang, domain) not in self._place_at:
            raise InputError(f"benchmark {self.id!r} has no domain {domain!r} in {lang}")
        return self._place_at[lang, domain]

    @cached_property
    def _place_at(self) -> dict[tuple[str, str], Place]:
        """The first place of each language and domain: of files there may be thousands."""
        return {(place.language, place.domain): place for place in reversed(self.places)}

    def section_at(self, lang: str, domain: str) -> Benchmark:
        """Return its section with one place alone."""
        return section_at(self.section, self.place(lang, domain))

    def id_prefix(self, domain: str) -> str:
        """Return what comes before the ids of a domain: its name, if there are several.

        Records of two sources are often counted or named alike. A release says itself whether its
        ids get one.
        """
        several = len({place.domain for place in self.places}) > 1
        return f"{domain}/" if several and not isinstance(self.section, PosirRelease) else ""

    @property
    def has_queries(self) -> bool:
        """Whether it is searched: documents alone are probed, or trained on."""
        return not isinstance(self.section, DocumentsBenchmark)

    @property
    def is_generated(self) -> bool:
        """Whether a language model writes its queries."""
        return isinstance(self.section, GeneratedBenchmark)

    @property
    def generated(self) -> GeneratedBenchmark:
        """The section of one whose queries a language model writes."""
        assert isinstance(self.section, GeneratedBenchmark)
        return self.section

    @property
    def negatives(self) -> FinewebNegatives | PosirNegatives:
        """What is done about its false negatives, where something is."""
        assert self.generated.false_negatives is not None
        return self.generated.false_negatives

    def scored_pairs(self, of: str) -> tuple[int, float]:
        """Return the pairs that rerankers score of a candidate, and the share of a document in one.

        ``of`` is ``verify`` or ``false_negatives``.
        """
        verify = self.generated.verify
        if of != "verify" or verify is None:
            return self.negatives.recall.top_k, 1.0
        return len(verify.parts), 1.0 if verify.parts == SPAN_PARTS else 1 / len(verify.parts)

    def asks(self, lang: str) -> bool:
        """Say whether a language model writes or translates its texts in a language."""
        return self.is_generated or lang in self.translated

    def asked(self, task: str, lang: str) -> LlmTaskSection:
        """Return a task's part of the section; of a translation with the languages from and to."""
        planned = self.tasks[task]
        if planned.translates:
            return translating_section(
                self.section.translate, task, source_language=self.section.language, language=lang
            )
        return planned.section

    def asked_about(self, task: str, lang: str, part: str = "") -> list[str]:
        """List the domains that a task is asked about; a sample of them all is one of its own."""
        return [ALL] if is_about_sample(task) else self.domains(lang, part=part)

    def asked_in(self, task: str, lang: str) -> list[str]:
        """List the parts of a language that a task is asked in; of a sample there are none."""
        return [""] if is_about_sample(task) else list(self.parts[lang])

    def task_shards(self, task: str, lang: str) -> list[str]:
        """Name the jobs that share a task in each part of a language, ``""`` for one."""
        count = -(-self.tasks[task].shards // len(self.asked_in(task, lang)))
        return [one.folder for one in Slice.every(count)]

    def built(self, lang: str, part: str, name: str, kind: str = "") -> list[str]:
        """List the files of a table on the way to the benchmark: one, or one of each shard.

        ``name`` is a task or another table of the build, ``kind`` dropped, flow or usage of a step.
        """
        shards = self.task_shards(name, lang) if name in self.tasks else [""]
        end = f".{kind}.parquet" if kind else ".parquet"
        return [f"results/{self.base}/build/{lang}{part}/{name}{shard}{end}" for shard in shards]

    def tables(self, lang: str, table: str, *, domains: list[str] | None = None) -> list[str]:
        """List one table of a language: of all its parts, or of those with some of ``domains``."""
        return [
            f"results/{self.id}/data/{lang}{part}/{table}.parquet"
            for part, of_part in self.parts[lang].items()
            if domains is None or not set(domains).isdisjoint(of_part)
        ]

    def task_tables(self, task: str, lang: str, part: str = "") -> dict[str, list[str]]:
        """Return the tables that a task's items are made of in a part of a language, by name."""
        planned = self.tasks[task]
        if not planned.translates:
            return {read: self.built(lang, part, read) for read in planned.task.reads}
        source, domains = self.section.language, self.domains(lang, part=part)
        places = {
            "documents": self.tables(source, "corpus", domains=domains),
            "queries": self.tables(source, "queries", domains=domains),
            "text_parts": self.built(source, part, "text_parts"),
            "translated": self.built(lang, part, "translated"),
            "refusal_suspects": self.built(lang, part, "refusal_suspects"),
        }
        if task == JUDGE_TRANSLATION.name:
            places["documents"] = [f"results/{self.id}/quality_sample.parquet"]
        elif task.startswith(TRANSLATOR):
            places["documents"] = [f"results/{self.id}/translator_sample.parquet"]
        elif task.startswith(JUDGE_TRANSLATOR):
            number = task.removeprefix(JUDGE_TRANSLATOR)
            places["documents"] = self.built(lang, "", f"{TRANSLATOR}{number}")
        return {read: places[read] for read in planned.task.reads}

    def flow_step(self, step: str) -> int:
        """Return the place of a step in FLOW."""
        name = step.rstrip("0123456789") if step.startswith(SAMPLED) else step
        return LEDGER_ORDER[name] if name in LEDGER_ORDER else flow_step_of(self.generated, step)

    def steps(self, lang: str, table: str) -> list[str]:
        """List the steps of a language that have a table ``dropped``, ``flow`` or ``usage``.

        What asks nobody has no usage; the sample of documents has dropped documents alone. The last
        step is ``data``: removing false negatives, or cleaning translations.
        """
        if lang not in self.translated:
            every = [*steps_of(self.generated), "data"]
            every = [step for step in every if step != "false_negatives"]
            if table == "usage":
                filters = (*self.generated.filters, "data")
                return [step for step in every if step not in filters]
            return (["documents"] if table == "dropped" else []) + every
        asked = [task for task, planned in self.tasks.items() if planned.translates]
        asked = [task for task in asked if not is_about_sample(task)]
        if table == "usage":
            return asked
        first, *others = asked
        return [first, "mark_translations", *others, "data"]

    def candidates_before(self, step: str | None = None) -> str:
        """Return the name of the table with the candidates that a filter is given.

        Without one: of the table whose rows become the queries. Before any filter it is the last
        writing task's.
        """
        section = self.generated
        passed = section.filters
        before = passed if step is None else passed[: passed.index(step)]
        return before[-1] if before else RECIPE_TASKS[section.recipe][-1].name


def plan_benchmarks(config: Config, noted: Gathered | None = None) -> dict[str, PlannedBenchmark]:
    """Return the benchmarks of a config by id; `views_of` gives those of each.

    What is wrong with templates and releases goes to ``noted``; None: it is refused.

    Raises
    ------
    InputError
        If a benchmark is translated from a language it does not have, or to one it has; if a
        cross-lingual pair names a language it does not have; if a template cannot be read, or is
        not made for its task.
    """
    gathered = noted or Gathered()
    found = {}
    for name, section in config.benchmarks.items():
        where, places = f"config key benchmarks.{name}", list[Place]()
        with gathered.at(f"{where}.source"):
            places = places_of(section)
        tasks = {}
        for key, task in _tasks(section):
            tasks[task.task.name] = task
            with gathered.at(f"{where}.{key}"):
                tasks[task.task.name] = _with_template(task)
        found[name] = PlannedBenchmark(name, section, tuple(places), tasks, base=name)
        if places:
            _check_languages(found[name])
    if noted is None:
        refuse([*gathered.problems, *gathered.missing])
    return found


def views_of(benchmark: PlannedBenchmark) -> dict[str, PlannedBenchmark]:
    """Return the views of a benchmark by id."""
    ids = {view_id(benchmark.id, view): view for view in view_names(benchmark.section)}
    return {name: replace(benchmark, id=name, view=view) for name, view in ids.items()}


def _tasks(section: Benchmark) -> Iterator[tuple[str, PlannedTask]]:
    """Yield every task, its template not looked for yet, with what names it in messages.

    Audits and judges ask about hundreds of pairs where other tasks ask about all documents: they
    are one job.
    """
    usual = 1
    if isinstance(section, GeneratedBenchmark):
        usual = section.shards
        judging = {one.name for one in judging_of(section)}
        for task, task_section in tasks_of(section):
            few = task.name in judging and not task.name.startswith("grade_")
            yield _prompt_key(task.name), PlannedTask(task, task_section, 1 if few else usual)
    for name, asked in asked_in_translation(section.translate).items():
        assert section.translate is not None
        shards = (section.translate.shards or usual) if name == "translate" else 1
        task_section = LlmTaskSection(llm=asked.llm, prompt=asked.prompt)
        translation = translation_task(name)
        assert translation is not None
        yield f"translate, task {name}", PlannedTask(translation, task_section, shards)


def _prompt_key(task: str) -> str:
    """Return the config key, below the benchmark, that names a task's template."""
    if task.startswith("judge_"):
        return "false_negatives.prompt"
    return f"{'grade' if task.startswith('grade_') else task}.prompt"


def _with_template(planned: PlannedTask) -> PlannedTask:
    """Return a task with the path of its template.

    It is held to the shipped one: other words, but no other values in, and the same out of its
    replies.
    """
    task = planned.task.template
    path, shipped_path = prompt_path(task, planned.section.prompt), prompt_path(task, None)
    prompt, shipped = load_prompt(path), load_prompt(shipped_path)
    if prompt.task != task:
        raise InputError(f"its header names the task {prompt.task!r}; it is used for {task!r}")
    if not set(prompt.variables) <= set(shipped.variables):
        raise InputError(
            f"its variables are {', '.join(prompt.variables)}; the task fills in "
            f"{', '.join(shipped.variables)}: use these"
        )
    if prompt.response.schema != shipped.response.schema:
        raise InputError(
            f"its response schema is not that of the shipped template ({shipped_path}), "
            "which is what the task reads; copy it, or say `response: text` or `integer` if the "
            "reply is plain"
        )
    return replace(planned, path=path, prompt=prompt)


def _check_languages(planned: PlannedBenchmark) -> None:
    native, known = list(planned.native), planned.languages
    where, source = f"config key benchmarks.{planned.id}", planned.section.language
    if planned.section.translate is not None:
        if source not in native:
            raise InputError(
                f"{where}.translate: it is made from the benchmark's `language`, {source}, of "
                f"which there is no corpus; there are {', '.join(native)}. Set `language` to one "
                "of these"
            )
        both = [language for language in planned.translated if language in native]
        if both:
            raise InputError(
                f"{where}.translate.to: {', '.join(both)} is a language the benchmark is read "
                "in; name others"
            )
    for queries, documents in planned.pairs:
        for language in (queries, documents):
            if language not in known:
                raise InputError(
                    f"{where}.cross_lingual: {queries}-{documents}: the benchmark has no "
                    f"{language}; it has {', '.join(known)}"
                )
        if not planned.domains(queries, documents):
            raise InputError(
                f"{where}.cross_lingual: {queries}-{documents}: no domain is in both languages"
            )
