# The plan of the config, its wildcards, and how rules ask the plan; what has a branch lives in the
# package.
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
    from psibench.config.paths import CLEANING
    from psibench.errors import InputError, missing_extra
    from psibench.plan import jobs, paths, summaries
    from psibench.plan.config import load_config, plain_config
    from psibench.plan.plan import make_plan
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
    plan = make_plan(settings, model_entries)
except InputError as error:
    raise WorkflowError(str(error))
except ModuleNotFoundError as error:
    raise WorkflowError(f"this config {missing_extra(error) or error}")

# From here on `config` is the whole config, composed and validated: jobs are given it, too.
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
# Which stages there are, of which versions: one of them is a parameter of every rule.
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


# A model with a budget is asked by one job at a time, so that what is spent is known.
workflow.register_resource("budgeted_llm", 1)


def having(*keys):
    """Match the benchmarks whose section has a key, or a key in it, as a wildcard's constraint."""

    def has(section):
        for key in keys:
            section = (section or {}).get(key)
        return bool(section)

    return paths.any_of(name for name, one in config["benchmarks"].items() if has(one))


# Resources


def asked(value, wildcards):
    """A value as it is; a function's, asked with the job's wildcards."""
    return value(wildcards) if callable(value) else value


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


def largest_share(w):
    """Bound the share of the largest of a job's domains: three times an equal one."""
    return min(1, 3 / len(domains(w)))


def share_of_data(w):
    """A source is read as a whole, a table domain by domain."""
    is_source = plan.data_stage(w.benchmark, w.lang) == "build"
    return 1 if is_source else largest_share(w)


def threads(w):
    """The threads of a job that runs a model over texts."""
    lang = w.get("lang") or w.get("corpus_lang")
    return jobs.threads(plan, w.benchmark, lang) if lang else 1


def chain_threads(w):
    """The threads of a model job whose jobs run one after another."""
    return jobs.chain_threads(plan, w.benchmark, w.lang)


def encode_priority(lang=attrgetter("lang")):
    """The longer a model's encodings and searches take, the earlier they start."""
    return lambda w: jobs.encode_priority(plan, w.benchmark, w.model, lang(w))


def scoring_minutes(of):
    """The minutes of a job of a filter's reranker."""
    return lambda w: jobs.scoring_minutes(plan, w.benchmark, w.lang, w.reranker, of=of)


# What a step does about a domain that it empties: no reason to rerun, hence no params. The ledger
# refuses what an earlier run left empty.
on_empty = {"on_empty": lambda w: planned(w).on_empty(w.lang)}
# Of a job that runs a network. How work is cut, on what it runs: no reason to rerun, hence no params.
on_device = {"gpu": jobs.gpus(plan), "device": settings.encoding.device}


# Inputs


def outside(files):
    """Mark inputs that lie outside of results/: their content decides what reruns, not their date.

    `files` are paths, or a function of the job's wildcards that returns them. The parameter
    `content` has their hash. Snakemake hashes no file above its limit for checksums, and would rerun
    jobs because of its date: such files are `ancient`.
    """

    def marked(path):
        limit, file = workflow.dag_settings.max_checksum_file_size, Path(path)
        is_large = is_outside(path) and file.exists() and file.stat().st_size > limit
        return ancient(path) if is_large else path

    def of_job(wildcards):
        found = asked(files, wildcards)
        every = [found] if isinstance(found, str) else list(found)
        refuse_future_dates(filter(is_outside, every))
        return marked(found) if isinstance(found, str) else [*map(marked, every)]

    of_job.is_outside = True
    return of_job


def content(rule, *files):
    """Ask for the hash of the outside files of a rule's job, its parameter `content`.

    A dry run hashes none for a job whose output is still to be made. The function takes no `input`:
    Snakemake compares no parameter that a function derives from inputs.
    """

    def of_job(wildcards):
        made = apply_wildcards(getattr(rules, rule).output[0], wildcards)
        if workflow.dryrun and not Path(made).exists():
            return "to be hashed"
        found = [asked(one, wildcards) for one in files]
        return outside_content(
            path for one in found for path in ([one] if isinstance(one, str) else one)
        )

    return of_job


def planned(w):
    """The benchmark or view of a job, with what follows from its section."""
    return plan.named[w.benchmark]


def leaf(*keys, without=()):
    """Ask for a leaf of a job's benchmark, or of its training; some keys of a section left out.

    Not Snakemake's `lookup`: that walks through the whole config for each job (4.6 ms for PosIR's).
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
    """The domains of a job: of its language, of a part of it, or of both languages of a pair."""
    lang = w.get("query_lang") or w.get("lang") or source_lang(w)
    return planned(w).domains(lang, w.get("corpus_lang"), w.get("part", ""))


def tables(table, lang=attrgetter("lang"), view=""):
    """Ask for one table of a benchmark in a language: of the parts with the job's domains."""

    def of_job(w):
        name = paths.view_id(w.benchmark, view) if view else w.benchmark
        return plan.named[name].tables(lang(w), table, domains=domains(w))

    return of_job


def all_languages(table, **chosen):
    """Ask for one table of all languages of a benchmark."""
    return lambda w: paths.language_tables(plan, w.benchmark, table=table, **chosen)


def built(table, lang=attrgetter("lang")):
    """Ask for the files of a table on the way to a benchmark."""
    return lambda w: planned(w).built(lang(w), w.part, table)


def candidates_before(step):
    """Ask for the candidates that a filter reads; for None, those that become queries."""
    return lambda w: paths.candidates_before(
        plan, w.benchmark, w.lang, w.part, step=step
    )


def scores(of):
    """Ask for the scores of all rerankers of a filter."""
    return lambda w: paths.score_tables(plan, w.benchmark, w.lang, w.part, of=of)


def earlier_scores(of):
    """Ask for the scores of the rerankers before a job's."""
    return lambda w: paths.score_tables(
        plan, w.benchmark, w.lang, w.part, w.reranker, w.portion, of=of
    )


def recall_table(w):
    """The run of the first-stage search whose top documents may be false negatives."""
    return paths.recall_table(plan, w.benchmark, w.lang, w.part)


def encodings(lang=attrgetter("lang")):
    """Ask for the encodings of a language's texts by a job's model."""
    return lambda w: paths.encodings(plan, w.benchmark, w.model, lang(w))


def own_texts(table, lang=attrgetter("lang")):
    """Ask for the benchmark's texts, where the encodings are those of a view with more."""
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
    """Ask for one table of the benchmark that a training draws from."""

    def of_job(w):
        benchmark, lang = leaf("benchmark")(w), plan.pool_language(w.training)
        return plan.named[benchmark].tables(lang, table)

    return of_job


def pool_domains(w):
    """The domains of the benchmark that a training draws from."""
    return plan.named[leaf("benchmark")(w)].domains(plan.pool_language(w.training))


def probe_queries(table):
    """Ask for a table of the queries, if the probe reads queries."""
    return lambda w: paths.probe_queries(
        plan, w.benchmark, w.lang, w.probe, table=table
    )


def ledger(kind):
    """Ask for the tables that a benchmark's ledger joins, of one kind."""
    return lambda w: summaries.ledger_tables(plan, w.benchmark, kind=kind)


def length_tokenizer(w):
    """What tokens are counted with: a tokenizer's files, or its download's manifest."""
    return paths.tokenizer_inputs(plan)


def model_files(w):
    """What a job's model is loaded from."""
    return paths.model_inputs(plan, w.model)


def sources(w):
    """The local files that a job's domains are read from."""
    return paths.sources_of(plan, w.benchmark, w.lang, w.part)


def reranker_files(w):
    """What a job's reranker is loaded from."""
    return paths.reranker_inputs(plan, w.reranker)


def own_reranker_files(w):
    """What the reranker of a job's model is loaded from."""
    return paths.reranker_inputs(plan, own_reranker(w))


def base_files(w):
    """What a training starts from."""
    return paths.base_inputs(plan, w.trained)


def persona_files(w):
    """The file with the personas of a benchmark."""
    return plan.personas[w.benchmark]


def persona_encoder_files(w):
    """What the encoder of personas is loaded from."""
    return paths.model_inputs(plan, persona_encoder(w))


def external_run_files(w):
    """The user's run files of a model on a language pair."""
    return paths.external_run_files(
        plan, w.benchmark, w.model, w.query_lang, w.corpus_lang
    )


# Phrases that language models add to translations; files with grades by people.
prefix_list, refusal_list = (
    str(CLEANING / f"{name}.yaml") for name in ("prefixes", "refusals")
)
human_grades = leaf("translate", "quality", "human")


def data_files(w):
    """The files outside of results/ that a benchmark's tables are made of."""
    found = paths.data_inputs(plan, w.benchmark, w.lang, w.part)
    return [path for name in ("sources", "tokenizer") for path in found.get(name, ())]


def data_inputs(w):
    """What a benchmark's tables are made of, by name: see `Plan.data_stage`."""
    found = paths.data_inputs(plan, w.benchmark, w.lang, w.part)
    return {
        name: outside(files)(w) if name in ("sources", "tokenizer") else files
        for name, files in found.items()
    }


# Parameters


def entry(w):
    """The fields of a job's model that change its results."""
    return jobs.entry(plan, w.model)


def model_version(w):
    """The version of the computation of a model's backend."""
    return jobs.model_version(plan, w.model)


def remove_identical_ids(w):
    """Whether the document that has a query's own id is left out of its ranking."""
    return jobs.remove_identical_ids(plan, w.benchmark)


def own_reranker(w):
    """The reranker of a job's model."""
    return plan.models[w.model].reranker


def counted(step):
    """Ask where a filter's counts go in FLOW, and what a candidate is called there."""
    return lambda w: jobs.counted(plan, w.benchmark, step=step)


persona_encoder = leaf("personas", "model")


# Outputs


# What is made of all models of a language pair.
scored = {
    "scores": "results/{benchmark}/scores/{query_lang}-{corpus_lang}.parquet",
    **{
        name: f"results/{{benchmark}}/tables/{{query_lang}}-{{corpus_lang}}.{name}.parquet"
        for name in ("buckets", "psi", "comparisons")
    },
}


def benchmark_tables(folder):
    """A benchmark's tables, in a folder."""
    return {name: f"{folder}/{name}.parquet" for name in ("corpus", "queries", "qrels")}


def step_tables(step, *kinds):
    """What a step of a build keeps, and its further tables by kind, as what it dropped."""
    kept = f"results/{{benchmark}}/build/{{lang}}{{part}}/{step}"
    return {
        "rows": f"{kept}.parquet",
        **{kind: f"{kept}.{kind}.parquet" for kind in kinds},
    }


def per_pair(path):
    """Expand a path with {benchmark}, {query_lang}, {corpus_lang} over all language pairs."""
    return [path.format(**labels) for labels in summaries.evaluated_pairs(plan)]


def in_report(path):
    """A table or a page that `snakemake --report` holds, too."""
    is_page = path.endswith(".html")
    kind, what = ("Pages with figures", "page") if is_page else ("Tables", "table")
    return report(path, category=kind, labels={what: Path(path).stem})


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
