"""Stages ``ask`` and ``gather``, and what their rules are given.

How a model is asked (address, concurrency, patience, budget, prices) decides no answer, so it is
no parameter of a rule and no reason to rerun: a job reads it from the config it was started with.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from psibench.config.files import merge, read_yaml
from psibench.config.llms import Price, load_llms, load_prices
from psibench.config.paths import DEFAULT_CONFIG
from psibench.generate.benchmarks import GENERATED_RECIPES, GeneratedBenchmark, parse_benchmark
from psibench.generate.recipes import JUDGING, find_task, find_task_of
from psibench.llm.tasks import LlmTask, LlmTaskSection
from psibench.stages.llm_ask import AskedDomain, Asking, run_ask
from psibench.stages.llm_gather import run_gather
from psibench.stages.stopping import Stop, job_end_time
from psibench.tables.domains import Domain, TablePath, each_domain
from psibench.tables.stage import stage
from psibench.translate.steps import translating_section, translation_task
from psibench.translate.translate import TranslateSection


def asked_of(
    config: Mapping[str, Any], *, benchmark: str, task: str, language: str, prompt: str | Path
) -> tuple[Asking, dict[str, Price]]:
    """Return what an ``ask`` job asks of whom, and the prices, from the config it was given."""
    given = merge(read_yaml(DEFAULT_CONFIG), config)
    section = parse_benchmark(given["benchmarks"][benchmark])
    found = translation_task(task)
    if found is not None:
        chosen: LlmTaskSection = translating_section(section, task, language)
    else:
        assert isinstance(section, GeneratedBenchmark)
        found, chosen = find_task_of(section, task)
    llms, prices = load_llms(own=given.get("llms")), load_prices(own=given.get("prices"))
    return Asking(found, chosen, chosen.llm, llms[chosen.llm], Path(prompt)), prices


def gathered_of(params: Mapping[str, Any], task: str) -> tuple[LlmTask, LlmTaskSection]:
    """Return a ``gather`` job's task and its section, from its parameters."""
    translating = translation_task(task)
    if translating is not None:
        return translating, TranslateSection.model_validate(params["section"])
    if params["judging"] is not None:
        return JUDGING[params["judging"]](task), LlmTaskSection.model_validate(params["section"])
    annotation = GENERATED_RECIPES[params["recipe"]].model_fields[task].annotation
    assert isinstance(annotation, type)
    assert issubclass(annotation, LlmTaskSection)
    return find_task(params["recipe"], task), annotation.model_validate(params["section"])


def task_tables(domain: Domain, task: LlmTask, given: Mapping[str, Any]) -> dict[str, TablePath]:
    """Return the tables that a task reads of one domain, from a job's inputs."""
    return {name: domain.table(given[name]) for name in task.reads}


@stage("ask", version=3)
def ask(
    *,
    config: Mapping[str, Any],
    benchmark: str,
    task: str,
    language: str,
    prompt: str | Path,
    domains: Sequence[str],
    inputs: Mapping[str, Any],
    store: str,
    outputs: Mapping[str, str],
    shard: str = "0-of-1",
    made: Mapping[str, Any] | None = None,
) -> None:
    """Ask about all domains of a language at once; without shards, make the task's table, too.

    Parameters
    ----------
    config
        The config that the workflow was started with.
    inputs
        The tables that the task reads, by name.
    outputs
        ``outcomes`` and ``usage``; of a job that asks for all shards those of `gather`, too.
    made
        What decides the task's table; not used where there are no outputs of `gather`.
    """
    asking, prices = asked_of(
        config, benchmark=benchmark, task=task, language=language, prompt=prompt
    )
    asked = {name: outputs[name] for name in ("outcomes", "usage")}
    with each_domain(domains, asked) as every:
        run_ask(
            asking,
            [AskedDomain(task_tables(one, asking.task, inputs), **one.outputs) for one in every],
            shard=shard,
            prices=prices,
            store=store,
            check_stop=Stop(job_end_time()).check,
        )
    if rest := {name: path for name, path in outputs.items() if name not in asked}:
        assert made is not None
        gather(
            made=made,
            domains=domains,
            task=task,
            language=language,
            inputs=inputs,
            outcomes=[asked["outcomes"]],
            outputs=rest,
        )


@stage("gather", version=2)
def gather(
    *,
    made: Mapping[str, Any],
    domains: Sequence[str],
    task: str,
    language: str,
    inputs: Mapping[str, Any],
    outcomes: Sequence[str],
    outputs: Mapping[str, str],
    usages: Sequence[str] = (),
) -> None:
    """Gather a task's outcomes, domain by domain; ``inputs`` has the tables it reads.

    ``usages``, of all shards, are added up where ``outputs`` has ``usage``.
    """
    found, section = gathered_of(made, task)
    with each_domain(domains, outputs) as every:
        for domain in every:
            run_gather(
                found,
                section,
                step=made["step"],
                language=language,
                domain=domain.name,
                tables=task_tables(domain, found, inputs),
                outcomes=domain.tables(outcomes),
                usages=domain.tables(usages),
                **domain.outputs,
            )


def answer_folder(store: str | Path, llm: str) -> Path:
    """Return the folder of a language model's answers."""
    return Path(store) / "llm" / llm
