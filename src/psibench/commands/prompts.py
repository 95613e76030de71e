"""`psibench prompts`: the templates, and the final text that a model gets for one item."""

import argparse
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from psibench.commands.base import Command
from psibench.config.benchmarks import GeneratedBenchmark
from psibench.config.load import load_config, read_yaml, resolve_llms
from psibench.config.paths import DEFAULT_CONFIG, PROMPTS, REGISTRY, prompt_path
from psibench.config.settings import Config
from psibench.errors import InputError
from psibench.llm.prompts import load_prompt
from psibench.llm.request import Request
from psibench.recipes.generated import step_spec
from psibench.recipes.llm_tasks import LlmTask, TaskItem
from psibench.recipes.steps import find_task_of, tasks_of
from psibench.stages.llm_requests import requests_of
from psibench.tables import read_table

RESULTS = Path("results")
EXAMPLES = 3


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
        help="a task of the recipe, or grade_first, grade_rest, audit, judge_1, judge_2, ...",
    )
    render.add_argument("--row", required=True, metavar="ID", help="id of an item of the task")
    render.add_argument("--config", type=Path, metavar="FILE", help="your config; else the default")
    render.add_argument("--benchmark", metavar="ID", help="needed if several have the task")


def run_prompts(args: argparse.Namespace) -> None:
    """List the templates or render one."""
    if args.action == "list":
        print("\n".join(_listing()))
        return
    given = read_yaml(args.config) if args.config is not None else {}
    config, _ = load_config(DEFAULT_CONFIG, given, registry=REGISTRY)
    name, section = _benchmark_of(config, args.task, args.benchmark)
    task, chosen = find_task_of(section, args.task)
    prompt = load_prompt(prompt_path(task.template, chosen.prompt))
    folder = RESULTS / name / "build" / section.language / section.domain
    tables = _tables(task, folder, args.config)
    llm = resolve_llms(config)[chosen.llm]
    print(
        _rendered(
            requests_of(task, chosen, prompt, llm, tables), args.row, f"{args.task} of {name}"
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


def _benchmark_of(config: Config, task: str, wanted: str | None) -> tuple[str, GeneratedBenchmark]:
    """Find the benchmark that has the task."""
    asking = {
        name: section
        for name, section in config.benchmarks.items()
        if isinstance(section, GeneratedBenchmark)
    }
    known = {name: [found for found, _ in tasks_of(section)] for name, section in asking.items()}
    chosen = {name: tasks for name, tasks in known.items() if wanted in (None, name)}
    having = [name for name, tasks in chosen.items() if task in [found.name for found in tasks]]
    if len(having) == 1:
        return having[0], asking[having[0]]
    if having:
        raise InputError(f"task {task!r}: choose one with --benchmark: {', '.join(having)}")
    of = "" if wanted is None else f" of the name {wanted!r}"
    names = dict.fromkeys(_named(found) for tasks in (chosen or known).values() for found in tasks)
    raise InputError(
        f"no benchmark{of} in the config has a task {task!r}; tasks: {', '.join(names) or 'none'}"
    )


def _named(task: LlmTask) -> str:
    """Name a task, and its template where that is another's."""
    return task.name if task.template == task.name else f"{task.name} ({task.template})"


def _tables(task: LlmTask, folder: Path, config: Path | None) -> dict[str, pl.DataFrame]:
    """Read the tables a task's items are made of; say what makes those that are not there."""
    paths = {table: folder / f"{table}.parquet" for table in task.reads}
    missing = [str(path) for path in paths.values() if not path.is_file()]
    if missing:
        given = "" if config is None else f" --configfile {config}"
        raise InputError(
            f"{task.name} reads {', '.join(missing)}: not made yet. Make it with `snakemake "
            f"--profile profiles/local{given} {' '.join(missing)}`"
        )
    return {name: read_table(path, step_spec(name)) for name, path in paths.items()}


def _rendered(requests: Iterator[tuple[TaskItem, Request]], item_id: str, where: str) -> str:
    """Return the messages of one item, each under its role."""
    known = []
    for item, request in requests:
        if item.id == item_id:
            parts = (f"## {message.role}\n{message.content}" for message in request.messages)
            return "\n\n".join(parts)
        known.append(item.id)
    examples = ", ".join(known[:EXAMPLES]) or "none, the tables hold nothing to ask about"
    raise InputError(f"{where}: no item {item_id!r} among {len(known):,}; some ids: {examples}")


PROMPTS_COMMAND = Command(
    help="list the prompt templates, or show what a model gets for one item",
    description="The templates of config/prompts, and the final text of one record.",
    add_arguments=add_arguments,
    run=run_prompts,
)
