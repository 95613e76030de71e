"""`psibench prompts`: the templates, and the final text that a model gets for one item."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from psibench.commands.base import Command
from psibench.commands.prompt_items import render_item
from psibench.config.benchmarks import Benchmark, GeneratedBenchmark
from psibench.config.load import load_config
from psibench.config.lookup_translation import TranslationLookup
from psibench.config.paths import DEFAULT_CONFIG, PROMPTS, REGISTRY
from psibench.config.registry import read_yaml
from psibench.config.settings import Config
from psibench.errors import InputError
from psibench.generate.recipes import tasks_of
from psibench.llm.prompts import load_prompt
from psibench.llm.tasks import LlmTask
from psibench.translate.steps import TRANSLATION_TASKS, asked_in_translation


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
    render.add_argument("--config", type=Path, metavar="FILE", help="your config; else the default")
    render.add_argument("--benchmark", metavar="ID", help="needed if several have the task")
    render.add_argument("--language", metavar="LANG", help="needed if several have the item")
    render.add_argument("--domain", metavar="DOMAIN", help="needed if several have the item")


def run_prompts(args: argparse.Namespace) -> None:
    """List the templates or render one."""
    if args.action == "list":
        print("\n".join(_listing()))
        return
    given = read_yaml(args.config) if args.config is not None else {}
    config, _ = load_config(DEFAULT_CONFIG, given, registry=REGISTRY)
    name = _benchmark_of(config, args.task, args.benchmark)
    chosen = config.model_copy(update={"benchmarks": {name: config.benchmarks[name]}})
    print(
        render_item(
            TranslationLookup(chosen),
            name,
            args.task,
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
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    for row in rows:
        yield f"{row[0].ljust(widths[0])}  {row[1].ljust(widths[1])}  {row[2]}".rstrip()


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
    return [*(task for task, _ in own), *(TRANSLATION_TASKS[task] for task in translating)]


def _named(task: LlmTask) -> str:
    """Name a task, and its template where that is another's."""
    return task.name if task.template == task.name else f"{task.name} ({task.template})"


COMMAND = Command(
    description="The templates of config/prompts, and the final text of one record.",
    add_arguments=add_arguments,
    run=run_prompts,
)
