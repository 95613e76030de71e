# The plan of the config, its wildcards, and how rules ask the plan; what has a branch lives in the
# package.
from inspect import signature
from pathlib import Path

from snakemake.exceptions import WorkflowError

try:
    from psibench.cluster.head import set_environment, start_head
    from psibench.config.paths import CLEANING
    from psibench.errors import InputError, missing_extra
    from psibench.plan import jobs, paths, summaries
    from psibench.plan.config import load_config
    from psibench.plan.plan import Plan, make_plan
    from psibench.tables.stage import read_stages
except ImportError as error:
    raise WorkflowError(
        f"{error}. psibench has to be installed where this snakemake is: `pip install "
        "'psibench[all]'`; of a checkout, `make setup` and the snakemake in its .venv."
    )

if (
    workflow.modifier.path_modifier.prefix
    or workflow.modifier.path_modifier.modifies_prefixes
):
    raise WorkflowError(
        "psibench as a module takes no `prefix` and no `replace_prefix`: jobs find tables by the "
        "paths in their parameters, too. Leave it out: psibench writes results/ and store/."
    )

try:
    settings, model_entries = load_config(config)
    plan = make_plan(settings, model_entries)
except InputError as error:
    raise WorkflowError(str(error))
except ModuleNotFoundError as error:
    raise WorkflowError(f"this config {missing_extra(error) or error}")


# Which stages there are, of which versions: one of them is a parameter of every rule.
STAGES = read_stages()

set_environment(settings.store, settings.encoding.node_cache)
patterns = paths.wildcard_patterns(plan)
published_page = summaries.published_page(plan)
training_tables = list(summaries.training_tables(plan).values())


wildcard_constraints:
    benchmark=patterns["benchmarks"],
    lang=patterns["languages"],
    query_lang=patterns["languages"],
    corpus_lang=patterns["languages"],
    domain=patterns["domains"],
    part=patterns["parts"],
    portion=r"(?:/[0-9]+-of-[0-9]+)?",
    model=patterns["models"],
    task=patterns["tasks"],
    shard=r"[0-9]+-of-[0-9]+",


# A model with a budget is asked by one job at a time, so that what is spent is known.
workflow.register_resource("budgeted_llm", 1)


def per_job(function, side=None, **fixed):
    """Ask the plan for each job: a job's wildcards are the arguments of the same names.

    `side` is the wildcard that is given as `lang`, of rules about a pair of languages.
    """
    names = signature(function).parameters

    def asked(wildcards):
        given = {name: wildcards[name] for name in names if name in wildcards.keys()}
        if side is not None:
            given["lang"] = wildcards[side]
        return function(plan, **{**given, **fixed})

    return asked


def minutes(planned):
    """Ask for a job's minutes, given or asked of its wildcards, times the attempt.

    At most for the longest time that a job may take (`longest_minutes`): it goes on where it was.
    """

    def asked(wildcards, attempt):
        least = planned(wildcards) if callable(planned) else planned
        return min(least * attempt, settings.longest_minutes)

    return asked


def mib(least, per_mb=0, of=None, more=0):
    """Ask for a job's memory: `per_mb` MiB for each MB of its inputs, `least` at the least.

    `of` is the share of the inputs that it holds at a time, `more` comes on top. A further attempt
    asks for half of it more.
    """

    def asked(wildcards, input, attempt):
        base = least(wildcards) if callable(least) else least
        held = input.size_mb * (1 if of is None else of(wildcards)) if per_mb else 0
        return int((max(base, per_mb * held) + more) * (1 + attempt) / 2)

    return asked


def own(wildcards):
    """The benchmark or view of a job, with what follows from its section."""
    return plan.named[wildcards.benchmark]


def task_tables(wildcards):
    """The tables that the items of a job's task are made of, by name."""
    return own(wildcards).task_tables(wildcards.task, wildcards.lang, wildcards.part)


def task_domains(wildcards):
    """The domains that a job's task is asked about; one of its own where it is a sample."""
    return own(wildcards).asked_about(wildcards.task, wildcards.lang, wildcards.part)


def dump(section, *but):
    """A section as plain data for a job, but for keys that decide nothing of what it makes."""
    return section.model_dump(mode="json", exclude=set(but))


domains = per_job(paths.domains)
largest_share = per_job(jobs.largest_share)
encode_minutes = per_job(jobs.encode_minutes)
prior_encodings = per_job(paths.prior_encodings)
encoded_before_probe = per_job(paths.encoded_before_probe)


def per_benchmark(path):
    """Expand a path with {benchmark} over all benchmarks that have queries."""
    return [path.format(benchmark=name) for name in plan.queried]


def per_pair(path):
    """Expand a path with {benchmark}, {query_lang}, {corpus_lang} over all language pairs."""
    return [path.format(**labels) for labels in summaries.evaluated_pairs(plan)]


def in_report(path):
    """A table or a page that `snakemake --report` holds, too."""
    is_page = path.endswith(".html")
    kind, what = ("Pages with figures", "page") if is_page else ("Tables", "table")
    return report(path, category=kind, labels={what: Path(path).stem})


def tables_and_csv(names):
    """The files of tables over all benchmarks."""
    files = []
    for name in names:
        files += [f"results/{name}.parquet", in_report(f"results/{name}.csv")]
    return files


def check_start():
    """One run at a time writes to a store and a working directory."""
    try:
        start_head(settings.store, Path.cwd(), executor=workflow.executor_plugin.name)
    except InputError as error:
        raise WorkflowError(str(error))
