"""`psibench prompts`: the templates, and the final text that a model gets for one item."""

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path

from psibench.commands.base import Command, add_config, read_config
from psibench.commands.text_table import aligned
from psibench.config.paths import PROMPTS
from psibench.errors import InputError
from psibench.generate.ask import read_task_tables
from psibench.generate.benchmarks import Benchmark, GeneratedBenchmark
from psibench.generate.recipes import tasks_of
from psibench.llm.prompts import load_prompt, requests_of
from psibench.llm.request import Request
from psibench.llm.sections import LlmSettings
from psibench.llm.tasks import LlmTask, TaskItem
from psibench.plan.benchmarks import PlannedBenchmark, plan_benchmarks
from psibench.plan.config import Config, load_config, resolve_llms
from psibench.tables.domains import TablePath, domain_table
from psibench.translate.steps import asked_in_translation, translation_task


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the two actions."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("list", help="the shipped templates: task, variables, description")
    render = actions.add_parser(
        "render",
        help="the messages a model gets for one item",
        description="Print the final messages for one item of a task, from the tables made so far.",
    )
    render.add_argument(
        "task",
        metavar="TASK",
        help="a task of the recipe, or grade_first, grade_rest, audit, judge_1, judge_2, ..., "
        "or of the translation: translate, judge_refusals, relocate_spans, judge_translation",
    )
    render.add_argument("--row", required=True, metavar="ID", help="id of an item of the task")
    add_config(render)
    render.add_argument("--benchmark", metavar="ID", help="needed if several have the task")
    render.add_argument("--language", metavar="LANG", help="needed if several have the item")
    render.add_argument("--domain", metavar="DOMAIN", help="needed if several have the item")


def run_prompts(args: argparse.Namespace) -> None:
    """List the templates or render one."""
    if args.action == "list":
        print("\n".join(_listing()))
        return
    config, _ = load_config(read_config(args))
    name = _benchmark_of(config, args.task, args.benchmark)
    chosen = config.model_copy(update={"benchmarks": {name: config.benchmarks[name]}})
    print(
        render_item(
            plan_benchmarks(chosen)[name],
            args.task,
            resolve_llms(chosen),
            args.row,
            language=args.language,
            domain=args.domain,
            config=args.config,
        )
    )


def _listing() -> Iterator[str]:
    rows = [("task", "variables", "description")]
    for path in sorted(PROMPTS.glob("*.md")):
        prompt = load_prompt(path)
        rows.append((prompt.task, ", ".join(prompt.variables), prompt.description))
    return aligned(rows, n_text=len(rows[0]))


def _benchmark_of(config: Config, task: str, wanted: str | None) -> str:
    """Find the benchmark that has the task."""
    known = {name: tasks_asked(section) for name, section in config.benchmarks.items()}
    known = {name: tasks for name, tasks in known.items() if tasks}
    chosen = {name: tasks for name, tasks in known.items() if wanted in (None, name)}
    having = [name for name, tasks in chosen.items() if task in [found.name for found in tasks]]
    if len(having) == 1:
        return having[0]
    if having:
        raise InputError(f"task {task!r}: choose one with --benchmark: {', '.join(having)}")
    of = "" if wanted is None else f" of the name {wanted!r}"
    names = dict.fromkeys(_named(found) for tasks in (chosen or known).values() for found in tasks)
    raise InputError(
        f"no benchmark{of} in the config has a task {task!r}; tasks: {', '.join(names) or 'none'}"
    )


def tasks_asked(section: Benchmark) -> list[LlmTask]:
    """List the tasks of a benchmark: of its recipe, then of its translation."""
    own = tasks_of(section) if isinstance(section, GeneratedBenchmark) else ()
    translating = asked_in_translation(section.translate)
    found = (translation_task(task) for task in translating)
    return [*(task for task, _ in own), *(task for task in found if task is not None)]


def _named(task: LlmTask) -> str:
    """Name a task, and its template where that is another's."""
    return task.name if task.template == task.name else f"{task.name} ({task.template})"


# --- one item of a task, found in the tables made so far

EXAMPLES = 3
Place = tuple[str, str]
"""Language and domain; of a translation, the language translated to."""


def render_item(
    benchmark: PlannedBenchmark,
    task: str,
    llms: Mapping[str, LlmSettings],
    item_id: str,
    *,
    language: str | None,
    domain: str | None,
    config: Path | None,
) -> str:
    """Return the messages of one item, each under its role.

    It is looked for in every language and domain whose tables are there.

    Raises InputError if no table is there yet, no item has the id, or those of several places have
    it.

    Parameters
    ----------
    language, domain
        Look there alone; None for all.
    config
        The user's config, named in the command that makes missing tables.
    """
    places = _places(benchmark, task, language, domain)
    tables = {place: _tables(benchmark, task, place) for place in places}
    there = [place for place in places if not _missing(tables[place])]
    if not there:
        raise InputError(_not_made(task, _missing(tables[places[0]]), config, len(places)))
    found: dict[Place, str] = {}
    known: list[str] = []
    for place in there:
        for item, request in _requests(benchmark, task, llms, place, tables[place]):
            known.append(item.id)
            if item.id == item_id:
                parts = (f"## {part.role}\n{part.content}" for part in request.messages)
                found[place] = "\n\n".join(parts)
                break
    if len(found) == 1:
        return next(iter(found.values()))
    unmade = len(places) - len(there)
    raise InputError(f"{task} of {benchmark.id}: {_not_one(item_id, list(found), known, unmade)}")


def _not_one(item_id: str, found: list[Place], known: list[str], unmade: int) -> str:
    """Say that several places have an item, or none has it."""
    if found:
        named = ", ".join("/".join(place) for place in found)
        return f"{item_id!r} is in {named}: choose with --language or --domain"
    examples = ", ".join(known[:EXAMPLES]) or "none, the tables hold nothing to ask about"
    more = f"; the tables of {unmade} more domains are not made yet" if unmade else ""
    return f"no item {item_id!r} among {len(known):,}; some ids: {examples}{more}"


def _places(
    benchmark: PlannedBenchmark, task: str, language: str | None, domain: str | None
) -> list[Place]:
    """List where a task is asked, in order: those wanted."""
    if benchmark.tasks[task].translates:
        every = [
            (own, at) for own in benchmark.translated for at in benchmark.asked_about(task, own)
        ]
    else:
        every = [(place.language, place.domain) for place in benchmark.places]
    wanted = [
        place for place in every if language in (None, place[0]) and domain in (None, place[1])
    ]
    if not wanted:
        asked = "/".join(filter(None, (language, domain)))
        some = ", ".join("/".join(place) for place in every[:EXAMPLES])
        raise InputError(
            f"{task} of {benchmark.id}: nothing is asked in {asked}; there are {len(every)} "
            f"languages and domains, such as {some}"
        )
    return wanted


def _tables(benchmark: PlannedBenchmark, task: str, place: Place) -> dict[str, TablePath]:
    language, domain = place
    number = benchmark.asked_about(task, language).index(domain)
    given = benchmark.task_tables(task, language)
    return {read: domain_table(path, domain, number) for read, path in given.items()}


def _requests(
    benchmark: PlannedBenchmark,
    task: str,
    llms: Mapping[str, LlmSettings],
    place: Place,
    tables: Mapping[str, TablePath],
) -> Iterator[tuple[TaskItem, Request]]:
    planned, section = benchmark.tasks[task], benchmark.asked(task, place[0])
    own, prompt = planned.task, planned.prompt
    assert prompt is not None
    return requests_of(own, section, prompt, llms[section.llm], read_task_tables(own, tables))


def _missing(paths: Mapping[str, TablePath]) -> list[str]:
    return [str(path) for path in paths.values() if not Path(path).is_file()]


def _not_made(task: str, missing: list[str], config: Path | None, n_places: int) -> str:
    """Say which tables an item is made of, and how to make them."""
    given = "" if config is None else f" {config}"
    others = f" (and those of {n_places - 1} other languages and domains)" if n_places > 1 else ""
    return (
        f"{task} reads {', '.join(missing)}{others}: not made yet. Make it with "
        f"`psibench run{given} {' '.join(missing)}`"
    )


COMMAND = Command(
    description="The templates of config/prompts, and the final text of one record.",
    add_arguments=add_arguments,
    run=run_prompts,
)
