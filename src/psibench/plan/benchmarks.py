"""The benchmarks of a config with everything that their sections determine, computed once.

A planned benchmark knows its languages, domains and language pairs, its tasks (which language
model does each, in how many shards), its steps, and the paths of its intermediate tables. A view
has the same attributes as its benchmark.
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
    """Errors of a config: missing files, and all other problems."""

    missing: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @contextmanager
    def at(self, where: str) -> Iterator[None]:
        """Collect an InputError with ``where`` in front instead of raising it."""
        try:
            yield
        except InputError as error:
            noted = self.missing if isinstance(error, MissingError) else self.problems
            if (message := str(error.under(where))) not in noted:
                noted.append(message)


@dataclass(frozen=True)
class PlannedTask:
    """A task of a language model in one benchmark.

    Attributes
    ----------
    section
        The language model and the prompt. For a translation task, `PlannedBenchmark.asked` adds
        the languages.
    path, prompt
        The template; "" and None if it could not be read.
    shards
        Number of jobs that share the task in a language; each part of the language has at least
        one.
    """

    task: LlmTask
    section: LlmTaskSection
    shards: int
    path: str = ""
    prompt: PromptTemplate | None = None

    @property
    def translates(self) -> bool:
        """Whether this is a translation task."""
        return translation_task(self.task.name) is not None


@dataclass(frozen=True)
class PlannedBenchmark:
    """A benchmark, or a view of one, with everything that its section determines.

    Attributes
    ----------
    base, view
        The id of the benchmark and the name of the view; "" for the benchmark itself.
    places
        The domains of each native language; empty if a release is missing.
    tasks
        Tasks by name, in order: the recipe's, then the translation's.
    """

    id: str
    section: Benchmark
    places: tuple[Place, ...]
    tasks: dict[str, PlannedTask]
    base: str
    view: str = ""

    @cached_property
    def native(self) -> dict[str, list[str]]:
        """The languages of the source, in order, with their domains."""
        found: dict[str, list[str]] = {}
        for place in self.places:
            found.setdefault(place.language, []).append(place.domain)
        return found

    @cached_property
    def translated(self) -> list[str]:
        """The languages that the benchmark is translated to."""
        return [] if self.section.translate is None else list(self.section.translate.to)

    @property
    def languages(self) -> list[str]:
        """All languages: native ones, then translations."""
        return [*self.native, *self.translated]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The evaluated pairs (query language, corpus language): monolingual, then cross-lingual.

        A view is evaluated in the native languages only.
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
        """The views that are evaluated: name -> id."""
        return {view: view_id(self.base, view) for view in evaluated_views(self.section)}

    @cached_property
    def parts(self) -> dict[str, dict[str, list[str]]]:
        """The parts that each language is cut into, with their domains (see `parts_of`).

        A translation has the parts of its source language.
        """
        found = {lang: parts_of(self.section, domains) for lang, domains in self.native.items()}
        source = found.get(self.section.language, {})
        return found | dict.fromkeys(self.translated, source)

    def domains(
        self, lang: str, corpus_lang: str | None = None, part: str | None = None
    ) -> list[str]:
        """List the domains of a language, or the domains that both languages of a pair have.

        The order is the corpus language's. With ``part``, returns only the domains of this part of
        the language. A translation has the domains of its source language.
        """
        if part:
            return list(self.parts[lang][part])
        source = self.section.language if lang in self.translated else lang
        found = self.native.get(source, [])
        if corpus_lang in (None, lang):
            return list(found)
        return [domain for domain in self.domains(str(corpus_lang)) if domain in found]

    def on_empty(self, lang: str) -> OnEmpty:
        """Return what to do if a domain has no queries left: "fail" if it is the only domain.

        For a translation, counts the domains of all languages; otherwise of native languages only.
        """
        languages = self.languages if lang in self.translated else list(self.native)
        n_cells = sum(len(self.domains(language)) for language in languages)
        return "fail" if n_cells == 1 else self.section.on_empty

    def place(self, lang: str, domain: str) -> Place:
        """Return the first place with a language and a domain.

        Raises InputError if the benchmark has none.
        """
        if (lang, domain) not in self._place_at:
            raise InputError(f"benchmark {self.id!r} has no domain {domain!r} in {lang}")
        return self._place_at[lang, domain]

    @cached_property
    def _place_at(self) -> dict[tuple[str, str], Place]:
        """The first place of each language and domain; an index, as there may be thousands."""
        return {(place.language, place.domain): place for place in reversed(self.places)}

    def section_at(self, lang: str, domain: str) -> Benchmark:
        """Return the section reduced to one place."""
        return section_at(self.section, self.place(lang, domain))

    def id_prefix(self, domain: str) -> str:
        """Return the prefix of a domain's ids: the domain and "/" if there are several, else "".

        Two sources often use the same ids, e.g. record numbers. A release has no prefix here,
        because its loader adds one (`prefix_ids`).
        """
        several = len({place.domain for place in self.places}) > 1
        return f"{domain}/" if several and not isinstance(self.section, PosirRelease) else ""

    @property
    def has_queries(self) -> bool:
        """Whether it is searched; a benchmark of documents is only probed or trained on."""
        return not isinstance(self.section, DocumentsBenchmark)

    @property
    def is_generated(self) -> bool:
        """Whether a language model writes the queries."""
        return isinstance(self.section, GeneratedBenchmark)

    @property
    def generated(self) -> GeneratedBenchmark:
        """The section of a generated benchmark."""
        assert isinstance(self.section, GeneratedBenchmark)
        return self.section

    @property
    def negatives(self) -> FinewebNegatives | PosirNegatives:
        """The section on false negatives, which the benchmark must have."""
        assert self.generated.false_negatives is not None
        return self.generated.false_negatives

    def scored_pairs(self, of: str) -> tuple[int, float]:
        """Return the pairs scored per candidate, and the share of a document in each pair.

        ``of`` is ``verify`` or ``false_negatives``.
        """
        verify = self.generated.verify
        if of != "verify" or verify is None:
            return self.negatives.recall.top_k, 1.0
        return len(verify.parts), 1.0 if verify.parts == SPAN_PARTS else 1 / len(verify.parts)

    def asks(self, lang: str) -> bool:
        """Return whether a language model writes or translates the texts of a language."""
        return self.is_generated or lang in self.translated

    def asked(self, task: str, lang: str) -> LlmTaskSection:
        """Return a task's section; a translation task's includes both languages."""
        planned = self.tasks[task]
        if planned.translates:
            return translating_section(
                self.section.translate, task, source_language=self.section.language, language=lang
            )
        return planned.section

    def asked_about(self, task: str, lang: str, part: str = "") -> list[str]:
        """List the domains of a task's items; a task on a sample of all domains has only `ALL`."""
        return [ALL] if is_about_sample(task) else self.domains(lang, part=part)

    def asked_in(self, task: str, lang: str) -> list[str]:
        """List the parts of a language with jobs for a task; [""] for a task on a sample."""
        return [""] if is_about_sample(task) else list(self.parts[lang])

    def task_shards(self, task: str, lang: str) -> list[str]:
        """Return the folder names of a task's shards in each part; [""] for a single job."""
        count = -(-self.tasks[task].shards // len(self.asked_in(task, lang)))
        return [one.folder for one in Slice.every(count)]

    def built(self, lang: str, part: str, name: str, kind: str = "") -> list[str]:
        """List the files of an intermediate table: one, or one per shard of a task.

        ``name`` is a task or another table of the build; ``kind`` is "dropped", "flow" or "usage"
        for the table of that kind of a step.
        """
        shards = self.task_shards(name, lang) if name in self.tasks else [""]
        end = f".{kind}.parquet" if kind else ".parquet"
        return [f"results/{self.base}/build/{lang}{part}/{name}{shard}{end}" for shard in shards]

    def tables(self, lang: str, table: str, *, domains: list[str] | None = None) -> list[str]:
        """List one table of a language: all parts, or the parts with any of ``domains``."""
        return [
            f"results/{self.id}/data/{lang}{part}/{table}.parquet"
            for part, of_part in self.parts[lang].items()
            if domains is None or not set(domains).isdisjoint(of_part)
        ]

    def task_tables(self, task: str, lang: str, part: str = "") -> dict[str, list[str]]:
        """Return the input tables of a task in a part of a language, by name."""
        planned = self.tasks[task]
        if not planned.translates:
            return {read: self.built(lang, part, read) for read in planned.task.reads}
        source, domains = self.section.language, self.domains(lang, part=part)
        inputs = {
            "documents": self.tables(source, "corpus", domains=domains),
            "queries": self.tables(source, "queries", domains=domains),
            "text_parts": self.built(source, part, "text_parts"),
            "translated": self.built(lang, part, "translated"),
            "refusal_suspects": self.built(lang, part, "refusal_suspects"),
        }
        if task == JUDGE_TRANSLATION.name:
            inputs["documents"] = [f"results/{self.id}/quality_sample.parquet"]
        elif task.startswith(TRANSLATOR):
            inputs["documents"] = [f"results/{self.id}/translator_sample.parquet"]
        elif task.startswith(JUDGE_TRANSLATOR):
            number = task.removeprefix(JUDGE_TRANSLATOR)
            inputs["documents"] = self.built(lang, "", f"{TRANSLATOR}{number}")
        return {read: inputs[read] for read in planned.task.reads}

    def flow_step(self, step: str) -> int:
        """Return the number of a step in FLOW."""
        name = step.rstrip("0123456789") if step.startswith(SAMPLED) else step
        return LEDGER_ORDER[name] if name in LEDGER_ORDER else flow_step_of(self.generated, step)

    def steps(self, lang: str, table: str) -> list[str]:
        """List the steps of a language that write a table ``dropped``, ``flow`` or ``usage``.

        Only tasks of language models have usage. The sample of documents has only dropped
        documents. The last step is ``data``: it removes false negatives or cleans translations.
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
        """Return the name of the table with the candidates that a filter reads.

        With None, returns the table whose rows become the queries. The first filter reads the table
        of the last writing task.
        """
        section = self.generated
        passed = section.filters
        before = passed if step is None else passed[: passed.index(step)]
        return before[-1] if before else RECIPE_TASKS[section.recipe][-1].name


def plan_benchmarks(config: Config, noted: Gathered | None = None) -> dict[str, PlannedBenchmark]:
    """Return the benchmarks of a config by id; `views_of` returns the views of each.

    Errors in templates and sources are collected in ``noted``, or raised if it is None.

    Raises
    ------
    InputError
        If a benchmark is translated from a language that it lacks, or to a native one; if a
        cross-lingual pair names a language that it lacks; if a template cannot be read, or does
        not fit its task.
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
    """Yield every task, without its template, after the config key that messages name.

    Audits and judges are one job each: they read hundreds of pairs, other tasks read all documents.
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
    """Return a task with its template.

    A user's template must name the same task, use only variables of the shipped template, and have
    the same response schema.
    """
    task = planned.task.template
    path, shipped_path = prompt_path(task, planned.section.prompt), prompt_path(task, None)
    prompt, shipped = load_prompt(path), load_prompt(shipped_path)
    if prompt.task != task:
        raise InputError(
            f"the template {path} is for the task {prompt.task!r}; this key needs one for {task!r}"
        )
    if not set(prompt.variables) <= set(shipped.variables):
        raise InputError(
            f"the template {path} has the variables {', '.join(prompt.variables)}; allowed: "
            f"{', '.join(shipped.variables)}"
        )
    if prompt.response.schema != shipped.response.schema:
        raise InputError(
            f"the template {path} has another response schema than the shipped template "
            f"({shipped_path}), which the task reads; copy that schema, or set `response: text` or "
            "`response: integer` for a plain reply"
        )
    return replace(planned, path=path, prompt=prompt)


def _check_languages(planned: PlannedBenchmark) -> None:
    native, known = list(planned.native), planned.languages
    where, source = f"config key benchmarks.{planned.id}", planned.section.language
    if planned.section.translate is not None:
        if source not in native:
            raise InputError(
                f"{where}.translate: translates from the benchmark's `language`, {source}, which "
                f"has no corpus. Set `language` to one with a corpus: {', '.join(native)}"
            )
        both = [language for language in planned.translated if language in native]
        if both:
            raise InputError(
                f"{where}.translate.to: the benchmark already has a corpus in {', '.join(both)}; "
                "name other languages"
            )
    for queries, documents in planned.pairs:
        for language in (queries, documents):
            if language not in known:
                raise InputError(
                    f"{where}.cross_lingual: {queries}-{documents}: the benchmark has no "
                    f"{language}; allowed: {', '.join(known)}"
                )
        if not planned.domains(queries, documents):
            raise InputError(
                f"{where}.cross_lingual: {queries}-{documents}: the languages share no domain"
            )
