# The plan of the config, wildcard constraints, and the functions that rules use for inputs,
# parameters and resources. Their logic is in the package (psibench.plan).
import sys
from collections import Counter
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
    from psibench.cluster.head import (
        refuse_endless_arrays,
        set_environment,
        start_head,
        stop_on_signals,
    )
    from psibench.cluster.tables_here import claim_tables, refuse_unrecorded_tables
    from psibench.config.paths import CLEANING
    from psibench.errors import InputError, missing_extra
    from psibench.plan import jobs, paths, summaries
    from psibench.plan.config import load_config, plain_config
    from psibench.plan.plan import make_plan
    from psibench.tables.slices import SLICE
    from psibench.tables.stage import read_stages
except ImportError as error:
    raise WorkflowError(
        f"{error}. Install psibench in the environment of this snakemake: `pip install "
        "'psibench-ir[all]'`. In a checkout, run `make setup` and use the snakemake in .venv."
    )

if (
    workflow.modifier.path_modifier.prefix
    or workflow.modifier.path_modifier.modifies_prefixes
):
    raise WorkflowError(
        "psibench as a module takes no `prefix` and no `replace_prefix`, because the parameters of "
        "jobs contain paths. Remove it; psibench writes to results/ and store/."
    )

try:
    settings, model_entries = load_config(config)
    plan = make_plan(settings, model_entries)
    if (
        workflow.is_main_process
        and not workflow.workflow_settings.persistence_backend_db_url
    ):
        refuse_unrecorded_tables(plan.named)
except InputError as error:
    raise WorkflowError(str(error))
except ModuleNotFoundError as error:
    raise WorkflowError(f"this config {missing_extra(error) or error}")

# From here on, `config` is the whole merged and validated config, also in jobs.
config.update(
    plain_config(
        settings,
        {
            "registry": plan.models,
            "llms": plan.llms,
            "rerankers": plan.rerankers,
        },
    )
)
# Stages with their versions; every rule has its stage as a parameter.
STAGES = read_stages()

set_environment(settings.store)
patterns = paths.wildcard_patterns(plan)
has_training = bool(summaries.training_runs(plan))


wildcard_constraints:
    benchmark=patterns["benchmarks and views"],
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


# Only one job at a time sends requests to models with a budget, so that the spending is known.
workflow.register_resource("budgeted_llm", 1)


def having(*keys):
    """Return a wildcard constraint that matches benchmarks whose section has a (nested) key."""

    def has(section):
        for key in keys:
            section = (section or {}).get(key)
        return bool(section)

    return paths.any_of(name for name, one in config["benchmarks"].items() if has(one))


# Resources


def resolved(value, wildcards):
    """Return a value, or the result of a function of the job's wildcards."""
    return value(wildcards) if callable(value) else value


def needs(least, per_mb=0, minutes=60, of=1, more=0):
    """Return a job's memory and time limit; arguments are numbers or functions of its wildcards.

    Memory is `per_mb` MiB per MB of the inputs (times the share `of` them that the job holds at
    once), at least `least`, plus `more`. Each further attempt requests half of it more. The time
    limit is `minutes` times the attempt, at most `longest_minutes`; a stopped job continues from
    where it was.
    """

    def mem_mb(wildcards, input, attempt):
        held = per_mb * input.size_mb * resolved(of, wildcards) if per_mb else 0
        mib = max(resolved(least, wildcards), held) + resolved(more, wildcards)
        return int(mib * (1 + attempt) / 2)

    def runtime(wildcards, attempt):
        return min(resolved(minutes, wildcards) * attempt, settings.longest_minutes)

    return {"mem_mb": mem_mb, "runtime": runtime}


def largest_share(w):
    """Return a bound on the share of a job's largest domain: three times the mean."""
    return min(1, 3 / len(domains(w)))


def share_of_data(w):
    """Return the share of inputs held at once: sources are read whole, tables by domain."""
    is_source = plan.data_stage(w.benchmark, w.lang) == "build"
    return 1 if is_source else largest_share(w)


def threads(w):
    """Return the threads of a job that runs a model over texts."""
    lang = w.get("lang") or w.get("corpus_lang")
    return jobs.threads(plan, w.benchmark, lang) if lang else 1


def chain_threads(w):
    """Return the threads of a model job that runs while no other job of its benchmark can."""
    return jobs.chain_threads(plan, w.benchmark, w.lang)


def encode_priority(lang=attrgetter("lang")):
    """Return a job's priority: longer encodings and searches start earlier."""
    return lambda w: jobs.encode_priority(plan, w.benchmark, w.model, lang(w))


def scoring_minutes(of):
    """Return the time limit of a job of a filter's reranker, in minutes."""
    return lambda w: jobs.scoring_minutes(plan, w.benchmark, w.lang, w.reranker, of=of)


# A resource, not a parameter, because a change must not rerun the step: what it does if a domain
# becomes empty. The ledger refuses a domain that an earlier run left empty.
on_empty = {"on_empty": lambda w: planned(w).on_empty(w.lang)}
# Resources of jobs with a network; the device is not a parameter, so a change does not rerun jobs.
on_device = {"gpu": jobs.gpus(plan), "device": settings.encoding.device}


# Inputs


def outside(files):
    """Mark inputs outside of results/; their content, not their date, decides what reruns.

    `files` are paths, or a function of the job's wildcards that returns paths. The parameter
    `content` is their hash. Snakemake does not hash files above its checksum limit and would rerun
    jobs because of their dates, so these files become `ancient`.
    """

    def marked(path):
        limit, file = workflow.dag_settings.max_checksum_file_size, Path(path)
        is_large = is_outside(path) and file.exists() and file.stat().st_size > limit
        return ancient(path) if is_large else path

    def of_job(wildcards):
        found = resolved(files, wildcards)
        every = [found] if isinstance(found, str) else list(found)
        refuse_future_dates(filter(is_outside, every))
        return marked(found) if isinstance(found, str) else [*map(marked, every)]

    of_job.is_outside = True
    return of_job


def content(rule, *files):
    """Return a function for the parameter `content`: the hash of a job's outside files.

    A dry run does not hash files for a job without output. The function does not take `input`,
    because Snakemake does not compare parameters that depend on inputs.
    """

    def of_job(wildcards):
        made = apply_wildcards(getattr(rules, rule).output[0], wildcards)
        if workflow.dryrun and not Path(made).exists():
            return "to be hashed"
        found = [resolved(one, wildcards) for one in files]
        return outside_content(
            path for one in found for path in ([one] if isinstance(one, str) else one)
        )

    return of_job


def planned(w):
    """Return the planned benchmark or view of a job."""
    return plan.named[w.benchmark]


def leaf(*keys, without=()):
    """Return a function that looks up a config leaf of a job's training or benchmark.

    `without` omits keys of a section. Snakemake's `lookup` is slower, because it walks through the
    whole config for each job (4.6 ms for PosIR).
    """

    def of_job(w):
        if "training" in w.keys():
            found = config["training"][w.training]
        else:
            found = config["benchmarks"][planned(w).base]
        for key in keys:
            found = found[key]
        if without:
            return {key: value for key, value in found.items() if key not in without}
        return found

    return of_job


query_lang, corpus_lang = attrgetter("query_lang"), attrgetter("corpus_lang")
source_lang = leaf("language")


def domains(w):
    """Return the domains of a job: of its language (or part), or of both languages of a pair."""
    lang = w.get("query_lang") or w.get("lang") or source_lang(w)
    return planned(w).domains(lang, w.get("corpus_lang"), w.get("part", ""))


def tables(table, lang=attrgetter("lang"), view=""):
    """Return a function that lists one table in a language, for the parts with a job's domains."""

    def of_job(w):
        name = paths.view_id(w.benchmark, view) if view else w.benchmark
        return plan.named[name].tables(lang(w), table, domains=domains(w))

    return of_job


def all_languages(table, **chosen):
    """Return a function that lists one table of all languages of a benchmark."""
    return lambda w: paths.language_tables(plan, w.benchmark, table=table, **chosen)


def built(table, lang=attrgetter("lang")):
    """Return a function that lists the files of an intermediate table."""
    return lambda w: planned(w).built(lang(w), w.part, table)


def candidates_before(step):
    """Return a function that lists the candidates that a filter reads; None: the final ones."""
    return lambda w: paths.candidates_before(
        plan, w.benchmark, w.lang, w.part, step=step
    )


def scores(of):
    """Return a function that lists the scores of all rerankers of a filter."""
    return lambda w: paths.score_tables(plan, w.benchmark, w.lang, w.part, of=of)


def earlier_scores(of):
    """Return a function that lists the scores of the rerankers before a job's reranker."""
    return lambda w: paths.score_tables(
        plan, w.benchmark, w.lang, w.part, w.reranker, w.portion, of=of
    )


def recall_table(w):
    """Return the run whose top documents are the possible false negatives."""
    return paths.recall_table(plan, w.benchmark, w.lang, w.part)


def encodings(lang=attrgetter("lang")):
    """Return a function that lists the encodings of a language's texts by a job's model."""
    return lambda w: paths.encodings(plan, w.benchmark, w.model, lang(w))


def own_texts(table, lang=attrgetter("lang")):
    """Return a function that lists a benchmark's texts if the encodings have more texts."""
    return lambda w: paths.text_filter_tables(
        plan,
        w.benchmark,
        w.model,
        lang(w),
        w.get("query_lang"),
        w.get("corpus_lang"),
        w.get("part", ""),
        table=table,
    )


def pool(table):
    """Return a function that lists one table of the benchmark that a training samples from."""

    def of_job(w):
        benchmark, lang = leaf("benchmark")(w), plan.pool_language(w.training)
        return plan.named[benchmark].tables(lang, table)

    return of_job


def pool_domains(w):
    """Return the domains of the benchmark that a training samples from."""
    return plan.named[leaf("benchmark")(w)].domains(plan.pool_language(w.training))


def probe_queries(table):
    """Return a function that lists queries or qrels if the probe reads queries."""
    return lambda w: paths.probe_queries(
        plan, w.benchmark, w.lang, w.probe, table=table
    )


def ledger(kind):
    """Return a function that lists the tables of one kind that a ledger joins."""
    return lambda w: summaries.ledger_tables(plan, w.benchmark, kind=kind)


def length_tokenizer(w):
    """Return the files of the tokenizer for token lengths, or its download's manifest."""
    return paths.tokenizer_inputs(plan)


def model_files(w):
    """Return the files of a job's model."""
    return paths.model_inputs(plan, w.model)


def sources(w):
    """Return the local source files of a job's domains."""
    return paths.sources_of(plan, w.benchmark, w.lang, w.part)


def reranker_files(w):
    """Return the files of a job's reranker."""
    return paths.reranker_inputs(plan, w.reranker)


def own_reranker_files(w):
    """Return the files of the reranker of a job's model."""
    return paths.reranker_inputs(plan, own_reranker(w))


def base_files(w):
    """Return the files of the base model of a training."""
    return paths.base_inputs(plan, w.trained)


def persona_files(w):
    """Return the files with the personas of a benchmark."""
    return plan.personas[w.benchmark]


def persona_encoder_files(w):
    """Return the files of the encoder of personas."""
    return paths.model_inputs(plan, persona_encoder(w))


def external_run_files(w):
    """Return the user's run files of a model on a language pair."""
    return paths.external_run_files(
        plan, w.benchmark, w.model, w.query_lang, w.corpus_lang
    )


# Phrases that language models add to translations; files with grades by people.
prefix_list, refusal_list = (
    str(CLEANING / f"{name}.yaml") for name in ("prefixes", "refusals")
)
human_grades = leaf("translate", "quality", "human")


def data_files(w):
    """Return the inputs of a benchmark's tables that are outside of results/."""
    found = paths.data_inputs(plan, w.benchmark, w.lang, w.part)
    return [path for name in ("sources", "tokenizer") for path in found.get(name, ())]


def data_inputs(w):
    """Return the inputs of a benchmark's tables by name: see `Plan.data_stage`."""
    found = paths.data_inputs(plan, w.benchmark, w.lang, w.part)
    return {
        name: outside(files)(w) if name in ("sources", "tokenizer") else files
        for name, files in found.items()
    }


# Parameters


def entry(w):
    """Return the fields of a job's model that change its results."""
    return jobs.entry(plan, w.model)


def model_version(w):
    """Return the version of the code of a model's backend."""
    return jobs.model_version(plan, w.model)


def remove_identical_ids(w):
    """Return whether a document with the same id as the query is removed from its ranking."""
    return jobs.remove_identical_ids(plan, w.benchmark)


def own_reranker(w):
    """Return the reranker of a job's model."""
    return plan.models[w.model].reranker


def counted(step):
    """Return a function for the number of a filter's step in FLOW and its unit."""
    return lambda w: jobs.counted(plan, w.benchmark, step=step)


persona_encoder = leaf("personas", "model")


# Outputs


# Tables over all models of a language pair.
scored = {
    "scores": "results/{benchmark}/scores/{query_lang}-{corpus_lang}.parquet",
    **{
        name: f"results/{{benchmark}}/tables/{{query_lang}}-{{corpus_lang}}.{name}.parquet"
        for name in ("buckets", "psi", "comparisons")
    },
}


def benchmark_tables(folder):
    """Return the tables of a benchmark in a folder."""
    return {name: f"{folder}/{name}.parquet" for name in ("corpus", "queries", "qrels")}


def step_tables(step, *kinds):
    """Return the table that a step keeps, and its other tables by kind, e.g. dropped."""
    kept = f"results/{{benchmark}}/build/{{lang}}{{part}}/{step}"
    return {
        "rows": f"{kept}.parquet",
        **{kind: f"{kept}.{kind}.parquet" for kind in kinds},
    }


def per_pair(path):
    """Expand a path with {benchmark}, {query_lang}, {corpus_lang} over all language pairs."""
    return [path.format(**labels) for labels in summaries.evaluated_pairs(plan)]


def in_report(path):
    """Add a table or a page to `snakemake --report`."""
    is_page = path.endswith(".html")
    category, label = ("Pages with charts", "page") if is_page else ("Tables", "table")
    return report(path, category=category, labels={label: Path(path).stem})


def check_start():
    """Refuse to start if another run uses the store or folder, or to replace other tables."""
    try:
        refuse_endless_arrays(
            getattr(workflow.executor_settings, "array_jobs", None),
            Counter(job.rule.name for job in workflow.dag.needrun_jobs()),
            limit=workflow.resource_settings.nodes or 1,
        )
        start_head(settings.store, Path.cwd(), executor=workflow.executor_plugin.name)
        claim_tables(
            {str(path) for job in workflow.dag.needrun_jobs() for path in job.output},
            benchmarks=plan.named,
            configs=workflow.configfiles,
            stand_ins=settings.stand_ins,
        )
        # Replaces the signal handler that Snakemake's scheduler has set by now.
        stop_on_signals()
    except InputError as error:
        raise WorkflowError(str(error))


def keep_ledgers():
    """Write the ledgers of benchmarks of which nothing is left, from the tables that exist."""
    from psibench.tables.ledger import write_unfinished

    for name in plan.benchmarks:
        places = summaries.ledger_places(plan, name)
        try:
            write_unfinished(Path("results", name), places)
        except (
            InputError,
            OSError,
        ) as error:  # the run has failed: its message comes first
            print(f"psibench: no ledger of {name}: {error}", file=sys.stderr)
