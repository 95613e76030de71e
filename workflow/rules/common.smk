# The plan of the config, its wildcards, and how rules ask the plan; what has a branch lives in the
# package.
from inspect import signature
from operator import attrgetter
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.io import apply_wildcards

try:
    from psibench.cluster.contents import (
        is_outside,
        outside_content,
        refuse_future_dates,
    )
    from psibench.cluster.head import set_environment, start_head, stop_on_signals
    from psibench.cluster.tables_here import claim_tables
    from psibench.config.base import Section
    from psibench.config.paths import CLEANING
    from psibench.errors import InputError, missing_extra
    from psibench.plan import jobs, paths, summaries
    from psibench.plan.benchmarks import PlannedBenchmark
    from psibench.plan.config import load_config
    from psibench.plan.plan import Plan, make_plan
    from psibench.tables.slices import SLICE
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
    if settings.stand_ins:  # jobs read language models and registry entries here
        resolved = settings.model_dump(mode="json", exclude_unset=True)
        config.clear()
        config.update(resolved)
    plan = make_plan(settings, model_entries)
except InputError as error:
    raise WorkflowError(str(error))
except ModuleNotFoundError as error:
    raise WorkflowError(f"this config {missing_extra(error) or error}")


# Which stages there are, of which versions: one of them is a parameter of every rule.
STAGES = read_stages()

set_environment(settings.store)
patterns = paths.wildcard_patterns(plan)
training_tables = summaries.training_tables(plan)


wildcard_constraints:
    benchmark=patterns["benchmarks"],
    lang=patterns["languages"],
    query_lang=patterns["languages"],
    corpus_lang=patterns["languages"],
    part=patterns["parts"],
    portion=f"(?:/{SLICE})?",
    model=patterns["models"],
    task=patterns["tasks"],
    reranker=patterns["rerankers"],
    training=patterns["trainings"],
    trained=patterns["trained"],
    shard=SLICE,


# A model with a budget is asked by one job at a time, so that what is spent is known.
workflow.register_resource("budgeted_llm", 1)


def asked(value, wildcards):
    """A value as it is; a function's, asked with the job's wildcards."""
    return value(wildcards) if callable(value) else value


def per_job(function, **given):
    """Ask the plan for each job: a job's wildcards are the arguments of the same names.

    `given` are the other arguments, or those in place of wildcards: values, or functions of the
    job's wildcards. The first argument is the plan, unless `given` has it: the `self` of a method
    that is not the plan's.
    """
    whom, *names = signature(function).parameters

    def of_job(wildcards):
        found = {name: wildcards[name] for name in names if name in wildcards.keys()}
        found |= {name: asked(value, wildcards) for name, value in given.items()}
        return function(**{whom: plan, **found})

    return of_job


def needs(least, per_mb=0, minutes=60, of=1, more=0):
    """A job's memory and time, of numbers or functions of its wildcards.

    Memory: `per_mb` MiB for each MB of its inputs, or of the share `of` them that it holds at a time,
    `least` at the least; `more` comes on top. A further attempt asks for half of it more. Minutes are
    times the attempt; at most the longest time that a job may take (`longest_minutes`): it goes on
    where it was.
    """

    def mem_mb(wildcards, input, attempt):
        held = per_mb * input.size_mb * asked(of, wildcards) if per_mb else 0
        mib = max(asked(least, wildcards), held) + asked(more, wildcards)
        return int(mib * (1 + attempt) / 2)

    def runtime(wildcards, attempt):
        return min(asked(minutes, wildcards) * attempt, settings.longest_minutes)

    return {"mem_mb": mem_mb, "runtime": runtime}


def outside(files):
    """Mark inputs that lie outside of results/: their content decides what reruns, not their date.

    `files` are paths, or a function of the job's wildcards that returns them. `complete_rules` adds
    the parameter `content`. Snakemake hashes no file above its limit for checksums, and would rerun
    jobs because of its date: such files are `ancient`.
    """

    def marked(path):
        limit, file = workflow.dag_settings.max_checksum_file_size, Path(path)
        is_large = is_outside(path) and file.exists() and file.stat().st_size > limit
        return ancient(path) if is_large else path

    def of_job(wildcards):
        found = asked(files, wildcards)
        paths = [found] if isinstance(found, str) else list(found)
        refuse_future_dates(filter(is_outside, paths))
        return marked(found) if isinstance(found, str) else [*map(marked, paths)]

    of_job.files = files
    return of_job


def content_of(inputs, output):
    """Ask for the hash of a job's outside files, as its parameter `content`.

    A dry run hashes none for a job whose output is still to be made.
    """

    def of_job(wildcards):
        if workflow.dryrun and not Path(apply_wildcards(output, wildcards)).exists():
            return "to be hashed"
        found = [asked(files, wildcards) for files in inputs]
        return outside_content(
            path for one in found for path in ([one] if isinstance(one, str) else one)
        )

    return of_job


def planned(wildcards):
    """The benchmark or view of a job, with what follows from its section."""
    return plan.named[wildcards.benchmark]


def dump(section, *but):
    """A section as plain data for a job, but for keys that decide nothing of what it makes."""
    return section.model_dump(mode="json", exclude=set(but))


def setting(key, *but):
    """Ask for a key of a job's benchmark or training; a section is dumped, but for some keys."""

    def of_job(wildcards):
        is_training = "training" in wildcards.keys()
        section = (
            settings.training[wildcards.training]
            if is_training
            else planned(wildcards).section
        )
        found = attrgetter(key)(section)
        return dump(found, *but) if isinstance(found, Section) else found

    return of_job


def downloaded(key):
    """Ask what is downloaded of a job's checkpoint."""
    return lambda wildcards: getattr(plan.downloads[wildcards.checkpoint], key)


# What rules ask about that is no wildcard of theirs: the sides of a pair, the language translated
# from, the reranker of a model that has one, the encoder of personas, the pool of a training.
query_lang, corpus_lang = attrgetter("query_lang"), attrgetter("corpus_lang")
source_lang = setting("language")
own_reranker = lambda wildcards: plan.models[wildcards.model].reranker
persona_encoder = setting("personas.model")
pool = {"benchmark": setting("benchmark"), "lang": per_job(Plan.pool_language)}

domains = per_job(paths.domains)
# What a step does about a domain that it empties: no reason to rerun, hence no params. The ledger
# refuses what an earlier run left empty.
on_empty = {"on_empty": per_job(PlannedBenchmark.on_empty, self=planned)}
task_tables = per_job(PlannedBenchmark.task_tables, self=planned)
task_domains = per_job(PlannedBenchmark.asked_about, self=planned)
recall_depth = setting("false_negatives.recall.top_k")
largest_share = per_job(jobs.largest_share)
# Of a job that runs a network. How work is cut, on what it runs: no reason to rerun, hence no params.
on_device = {"gpu": per_job(jobs.gpus), "device": settings.encoding.device}
encoded_before_probe = per_job(paths.encoded_before_probe)


# What is made of all models of a language pair.
scored = {
    "scores": "results/{benchmark}/scores/{query_lang}-{corpus_lang}.parquet",
    **{
        name: f"results/{{benchmark}}/tables/{{query_lang}}-{{corpus_lang}}.{name}.parquet"
        for name in ("buckets", "psi", "comparisons")
    },
}
# The texts of a language, domain by domain.
texts = {
    "corpora": per_job(paths.domain_tables, table="corpus"),
    "queries": per_job(paths.domain_tables, table="queries"),
}


def benchmark_tables(folder):
    """A benchmark's tables of one domain, in a folder."""
    return {name: f"{folder}/{name}.parquet" for name in ("corpus", "queries", "qrels")}


def step_tables(step, *kinds):
    """What a step of a build keeps, and its further tables by kind, as what it dropped."""
    kept = f"results/{{benchmark}}/build/{{lang}}{{part}}/{step}"
    return {
        "rows": f"{kept}.parquet",
        **{kind: f"{kept}.{kind}.parquet" for kind in kinds},
    }


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


def complete_rules(named):
    """Set what follows from a rule's name and inputs: its log, benchmark, stage and `content`.

    By setters of Snakemake's that its documentation does not promise: look here first when its
    version is raised in the lock.
    """
    for name, proxy in named.items():
        made = proxy.rule
        if not made.script:
            continue
        place = paths.job_place(name, made.output, made.wildcard_names)
        made.log_modifier = made.benchmark_modifier = workflow.modifier.path_modifier
        if not made.log:
            made.set_log(f"logs/{place}.log")
        if not made.benchmark:
            made.benchmark = f"benchmarks/{place}.tsv"
        if "stage" not in made.params.keys() and made.output:
            made.set_params(stage=STAGES[name])
        given = [item.files for item in made.input if hasattr(item, "files")]
        if given:
            made.set_params(content=content_of(given, made.output[0]))


def check_start():
    """One run at a time writes to a store and a working directory, one config its tables."""
    try:
        start_head(settings.store, Path.cwd(), executor=workflow.executor_plugin.name)
        claim_tables(
            {str(path) for job in workflow.dag.needrun_jobs() for path in job.output},
            benchmarks=plan.named,
            configs=workflow.configfiles,
            stand_ins=settings.stand_ins,
        )
        # Later than Snakemake's own handler, which its scheduler has set by now.
        stop_on_signals()
    except InputError as error:
        raise WorkflowError(str(error))
