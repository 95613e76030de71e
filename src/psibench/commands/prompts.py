"""`psibench prompts`: the final messages to a language model for one item."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from psibench.commands.base import add_config, read_given
from psibench.errors import InputError
from psibench.generate.ask import read_task_tables
from psibench.llm.prompts import task_requests
from psibench.plan.benchmarks import PlannedBenchmark, plan_benchmarks
from psibench.plan.config import load_config, resolve_llms
from psibench.tables.job import DomainJob, Job

N_EXAMPLE_IDS = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `psibench prompts`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    render = actions.add_parser(
        "render",
        help="print the messages for one item",
        description="Print the final messages for one item of a task, from existing tables, for "
        "every benchmark, language and domain with the item.",
        allow_abbrev=False,
    )
    render.add_argument(
        "task",
        metavar="TASK",
        help="a task of the recipe; or grade_first, grade_rest, audit, judge_1, judge_2, ...; or, "
        "for translations, translate, judge_refusals, judge_translation",
    )
    render.add_argument("--row", required=True, metavar="ID", help="id of an item of the task")
    add_config(render)


def run(args: argparse.Namespace) -> None:
    """Print the messages of one item."""
    print("\n".join(_rendered(args)))


def _rendered(args: argparse.Namespace) -> Iterator[str]:
    """Yield the benchmark, language and domain of an item, and its messages with their roles.

    Raises InputError if no benchmark has the task, its tables do not exist yet, or no item has the
    id.
    """
    config, _ = load_config(read_given(args))
    benchmarks, llms = plan_benchmarks(config).values(), resolve_llms(config)
    having = [planned for planned in benchmarks if args.task in planned.tasks]
    if not having:
        tasks = dict.fromkeys(name for planned in benchmarks for name in planned.tasks)
        raise InputError(
            f"no benchmark in the config has the task {args.task!r}; tasks: "
            f"{', '.join(tasks) or 'none'}"
        )
    known, missing, n_found = list[str](), list[list[str]](), 0
    for planned in having:
        task, prompt = planned.tasks[args.task].task, planned.tasks[args.task].prompt
        assert prompt is not None
        for language, domain, lacking in _domains_of(planned, args.task):
            if lacking:
                missing.append(lacking)
                continue
            section, rows = planned.asked(args.task, language), read_task_tables(task, domain)
            for item, request in task_requests(task, section, prompt, llms[section.llm], rows):
                known.append(item.id)
                if item.id == args.row:
                    n_found += 1
                    yield f"# {planned.id}, {language}, {domain.name}"
                    for part in request.messages:
                        yield f"\n## {part.role}\n{part.content}"
    if n_found:
        return
    if not known and missing:
        configs = "".join(f" {path}" for path in args.config)
        names = " ".join(missing[0])
        raise InputError(
            f"{args.task} reads {', '.join(missing[0])}, which does not exist yet. Build it with "
            f"`psibench run{configs} {names}`"
        )
    examples = ", ".join(known[:N_EXAMPLE_IDS]) or "none, the tables are empty"
    more = f"; the tables of {len(missing)} more domains do not exist yet" if missing else ""
    raise InputError(
        f"{args.task}: no item {args.row!r} among {len(known):,}; some ids: {examples}{more}"
    )


def _domains_of(planned: PlannedBenchmark, task: str) -> Iterator[tuple[str, DomainJob, list[str]]]:
    """Yield language (of translations the target), domain, and the missing tables of the task."""
    languages = planned.translated if planned.tasks[task].translates else planned.native
    for language in languages:
        for part in planned.asked_in(task, language):
            inputs = planned.task_tables(task, language, part)
            domains = planned.asked_about(task, language, part)
            job = Job("ask", 0, inputs=inputs, values={"domains": domains, "lang": language})
            for domain in job.domains():
                tables = (str(table) for name in inputs for table in domain.tables(name))
                yield language, domain, [path for path in tables if not Path(path).is_file()]


DESCRIPTION = "Print the final messages to a language model for one item."
