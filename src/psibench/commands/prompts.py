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
from psibench.llm.sections import LlmSettings
from psibench.llm.tasks import LlmTask
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
    print(render_item(plan_benchmarks(chosen)[name], resolve_llms(chosen), args))


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
    benchmark: PlannedBenchmark, llms: Mapping[str, LlmSettings], args: argparse.Namespace
) -> str:
    """Return the messages of one item, each under its role.

    It is looked for in every language and domain whose tables are there, or in those asked for.

    Raises InputError if no table is there yet, no item has the id, or those of several places have
    it.
    """
    task, prompt = benchmark.tasks[args.task].task, benchmark.tasks[args.task].prompt
    assert prompt is not None
    where = f"{args.task} of {benchmark.id}"
    places = _places(benchmark, args)
    tables = {place: _tables(benchmark, args.task, place) for place in places}
    missing = {
        place: [str(path) for path in read.values() if not Path(path).is_file()]
        for place, read in tables.items()
    }
    there = [place for place in places if not missing[place]]
    if not there:
        given = "".join(f" {path}" for path in args.config)
        n_others, lacking = len(places) - 1, missing[places[0]]
        others = f" (and those of {n_others} other languages and domains)" if n_others else ""
        raise InputError(
            f"{args.task} reads {', '.join(lacking)}{others}: not made yet. Make it with "
            f"`psibench run{given} {' '.join(lacking)}`"
        )
    found: dict[Place, str] = {}
    known: list[str] = []
    for place in there:
        section, rows = benchmark.asked(args.task, place[0]), read_task_tables(task, tables[place])
        for item, request in requests_of(task, section, prompt, llms[section.llm], rows):
            known.append(item.id)
            if item.id == args.row:
                parts = (f"## {part.role}\n{part.content}" for part in request.messages)
                found[place] = "\n\n".join(parts)
                break
    if len(found) == 1:
        return next(iter(found.values()))
    if found:
        named = ", ".join(map("/".join, found))
        raise InputError(f"{where}: {args.row!r} is in {named}: choose with --language or --domain")
    examples = ", ".join(known[:EXAMPLES]) or "none, the tables hold nothing to ask about"
    unmade = len(places) - len(there)
    more = f"; the tables of {unmade} more domains are not made yet" if unmade else ""
    raise InputError(
        f"{where}: no item {args.row!r} among {len(known):,}; some ids: {examples}{more}"
    )


def _places(benchmark: PlannedBenchmark, args: argparse.Namespace) -> list[Place]:
    """List where a task is asked, in order: those wanted."""
    every = [(place.language, place.domain) for place in benchmark.places]
    if benchmark.tasks[args.task].translates:
        languages = benchmark.translated
        every = [(own, at) for own in languages for at in benchmark.asked_about(args.task, own)]
    wanted = [
        (language, domain)
        for language, domain in every
        if args.language in (None, language) and args.domain in (None, domain)
    ]
    if not wanted:
        asked = "/".join(filter(None, (args.language, args.domain)))
        some = ", ".join(map("/".join, every[:EXAMPLES]))
        raise InputError(
            f"{args.task} of {benchmark.id}: nothing is asked in {asked}; there are {len(every)} "
            f"languages and domains, such as {some}"
        )
    return wanted


def _tables(benchmark: PlannedBenchmark, task: str, place: Place) -> dict[str, TablePath]:
    language, domain = place
    parts = benchmark.asked_in(task, language)
    part = next(one for one in parts if domain in benchmark.asked_about(task, language, one))
    number = benchmark.asked_about(task, language, part).index(domain)
    given = benchmark.task_tables(task, language, part)
    return {read: domain_table(path, domain, number) for read, path in given.items()}


COMMAND = Command(
    description="The templates of config/prompts, and the final text of one record.",
    add_arguments=add_arguments,
    run=run_prompts,
)
