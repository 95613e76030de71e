# Config, wildcards and the few lookups that rules share. What has a branch lives in the package.
from pathlib import Path

from snakemake.exceptions import WorkflowError

try:
    from psibench.cluster.environment import set_environment
    from psibench.cluster.head import start_head
    from psibench.config import load_config
    from psibench.config.lookup import Lookup
    from psibench.config.lookup_report import (
        example_files,
        language_files,
        summary_names,
    )
    from psibench.config.model_params import retrieval_params
    from psibench.config.paths import CLEANING, PUBLISHED
    from psibench.config.published import published_facts
    from psibench.config.reranker_registry import reranker_params
    from psibench.errors import InputError
    from psibench.models.versions import MODEL_VERSIONS
    from psibench.generate.recipes import build_params
    from psibench.report.published import has_counterparts
    from psibench.stages.llm_job import ask_params, gather_params, place_params
    from psibench.tables.stage import read_stages
except ImportError as error:
    raise WorkflowError(
        f"{error}. Run `make setup` in the psibench folder and use the snakemake in its .venv "
        "(`source .venv/bin/activate`)."
    )

try:
    settings, model_entries = load_config(
        f"{workflow.basedir}/config/config.yaml",
        config,
        registry=f"{workflow.basedir}/config/models.yaml",
    )
    lookup = Lookup(settings, model_entries)
except InputError as error:
    raise WorkflowError(str(error))


# Which stages there are, of which versions: one of them is a parameter of every rule.
STAGES = read_stages()

set_environment(workflow.basedir, settings.store, settings.encoding.node_cache)


wildcard_constraints:
    benchmark=lookup.pattern("benchmarks"),
    lang=lookup.pattern("languages"),
    query_lang=lookup.pattern("languages"),
    corpus_lang=lookup.pattern("languages"),
    domain=lookup.pattern("domains"),
    model=lookup.pattern("models"),
    task=lookup.pattern("tasks"),
    shard=r"[0-9]+-of-[0-9]+",


# A model with a budget is asked by one job at a time, so that what is spent is known.
workflow.register_resource("budgeted_llm", 1)


def build_domains(wildcards):
    """The domains of a language that a job on the way to a benchmark goes through, in order."""
    return lookup.domains_in(wildcards.benchmark, wildcards.lang)


def task_domains(wildcards):
    """The domains that a task is asked about; one of its own where it is asked about a sample."""
    return lookup.task_domains(wildcards.benchmark, wildcards.task, wildcards.lang)


def llm_of(wildcards):
    """The id of the language model that does a task."""
    return lookup.task_section(wildcards.benchmark, wildcards.task).llm


def domain_tables(table, view=""):
    """Input function: one table of all domains of a language, in the order of the domains."""

    def paths(wildcards):
        folder = "results/{benchmark}{view}/data/{lang}".format(
            view=view and f"-{view}", **wildcards
        )
        domains = lookup.domains(wildcards.benchmark, wildcards.lang)
        return [f"{folder}/{domain}/{table}.parquet" for domain in domains]

    return paths


def domain_share(wildcards):
    """Bound the share of one domain among those of a language, likewise."""
    return min(1, 3 / len(lookup.domains(wildcards.benchmark, wildcards.lang)))


def benchmark_domains(wildcards):
    """The domains of each language of a benchmark, in order."""
    return {
        language: lookup.domains_in(wildcards.benchmark, language)
        for language in lookup.languages(wildcards.benchmark)
    }


def language_tables(table):
    """Input function: one table of all domains of all languages of a benchmark, in their order."""

    def paths(wildcards):
        folder = f"results/{wildcards.benchmark}/data"
        return [
            f"{folder}/{language}/{domain}/{table}.parquet"
            for language, domains in benchmark_domains(wildcards).items()
            for domain in domains
        ]

    return paths


def pair_domains(wildcards):
    """The domains of a language pair, in order."""
    return lookup.domains(
        wildcards.benchmark, wildcards.query_lang, wildcards.corpus_lang
    )


def pair_tables(table, side):
    """Input function: one table of all domains of a pair, of its query_lang or corpus_lang."""

    def paths(wildcards):
        folder = f"results/{wildcards.benchmark}/data/{getattr(wildcards, side)}"
        domains = pair_domains(wildcards)
        return [f"{folder}/{domain}/{table}.parquet" for domain in domains]

    return paths


def encodings(side):
    """Input function: a model's encodings that have the texts of ``side``'s language."""

    def path(wildcards):
        language = getattr(wildcards, side)
        name = lookup.encoded_as(wildcards.benchmark, language)
        return f"results/{name}/encodings/{wildcards.model}/{language}.parquet"

    return path


def own_texts(table, side):
    """Input function: the tables of such texts, domain by domain, where others are there too."""

    def paths(wildcards):
        name, language = wildcards.benchmark, getattr(wildcards, side)
        if lookup.encoded_as(name, language) == name:
            return []
        # Of a pair, the domains that are in both languages.
        of_pair = "corpus_lang" in wildcards.keys()
        own = pair_domains(wildcards) if of_pair else lookup.domains(name, language)
        return [
            f"results/{name}/data/{language}/{domain}/{table}.parquet" for domain in own
        ]

    return paths


def wider_runs(wildcards):
    """Input function: the runs of a wider view that a benchmark or view takes its own from."""
    name = lookup.searched_as(*pair_of(wildcards))
    return [
        f"results/{name}/runs/{path}".format(**wildcards)
        for path in lookup.shared_runs()
    ]


def read_of_models(wildcards):
    """Input function: what the models of a pair are scored by, but what the job itself writes."""
    found = [
        model[kind]
        for model in lookup.compared_models(*pair_of(wildcards))
        for kind in ("run", "encodings", "seen")
        if model[kind]
    ]
    if lookup.searched_as(*pair_of(wildcards)) == wildcards.benchmark:
        return found
    made = {
        f"results/{wildcards.benchmark}/runs/{path}".format(**wildcards)
        for path in lookup.shared_runs()
    }
    return [path for path in found if path not in made]


def per_benchmark(path):
    """Expand a path with {benchmark} over all benchmarks."""
    return [path.format(benchmark=name) for name in settings.benchmarks]


def per_pair(path):
    """Expand a path with {benchmark}, {query_lang}, {corpus_lang} over all language pairs."""
    return [path.format(**labels) for labels in lookup.evaluated_pairs()]


def pair_of(wildcards):
    """Name a job's benchmark and language pair."""
    return wildcards.benchmark, wildcards.query_lang, wildcards.corpus_lang


def pair_models(wildcards):
    """List the models evaluated on a job's language pair."""
    return lookup.models_of(*pair_of(wildcards))


def task_tables(wildcards):
    """Input function: the tables a task's items are made of, by name."""
    return lookup.task_tables(wildcards.benchmark, wildcards.task, wildcards.lang)


def task_shards(table):
    """Input function: one table of all shards of a task, in order."""

    def paths(wildcards):
        folder = "results/{benchmark}/build/{lang}/{task}".format(**wildcards)
        return [
            f"{folder}/{shard}.{table}.parquet"
            for shard in lookup.shards_of(wildcards.benchmark, wildcards.task)
        ]

    return paths


def build_table(name_of):
    """Input function: the table of a benchmark's build folder that ``name_of`` names."""

    def path(wildcards):
        folder = "results/{benchmark}/build/{lang}".format(**wildcards)
        return f"{folder}/{name_of(wildcards.benchmark)}.parquet"

    return path


def score_tables(panel_of, folder, until=None):
    """Input function: scores of a panel in order; those before the wildcard ``until``."""

    def paths(wildcards):
        panel = panel_of(wildcards.benchmark)
        if until:
            panel = panel[: panel.index(getattr(wildcards, until))]
        place = "results/{benchmark}/build/{lang}".format(**wildcards)
        return [f"{place}/{folder}/{reranker}.parquet" for reranker in panel]

    return paths


def recall_table(wildcards):
    """Input function: a run whose first documents are possible false negatives."""
    model = lookup.negatives(wildcards.benchmark).recall.model
    folder = "runs" if lookup.recalls_by_run(wildcards.benchmark) else "recall"
    return "results/{benchmark}-raw/{folder}/{model}/{lang}-{lang}.parquet".format(
        **wildcards, model=model, folder=folder
    )


def judge_tables(until=None):
    """Input function: grades of the judges of false negatives; those before ``until``."""

    def paths(wildcards):
        judges = lookup.judges(wildcards.benchmark)
        if until:
            judges = judges[: int(getattr(wildcards, until)) - 1]
        folder = "results/{benchmark}/build/{lang}".format(**wildcards)
        return [f"{folder}/{judge}.parquet" for judge in judges]

    return paths


def ledger_tables(kind):
    """Input function: tables of all places of a benchmark that its ledger joins, of one kind."""
    return lambda wildcards: [
        path
        for place in lookup.ledger_places(wildcards.benchmark)
        for path in paths_in(place[kind])
    ]


def verification_files():
    """Tables of each generated language that the report shows of its filters, by sort."""
    return [
        lookup.verification_files(labels) for labels in lookup.generated_languages()
    ]


def published_tables():
    """The papers' figures that stand beside one's own, and what is said of them."""
    files = [*PUBLISHED.glob("*.csv"), *PUBLISHED.glob("*.yaml")]
    return sorted(map(str, files))


def published_page():
    """The page of the papers' figures beside one's own, where any of them can be."""
    facts = published_facts(settings.benchmarks)
    return ["results/published.html"] if has_counterparts(facts, lookup.runs()) else []


def paths_in(files):
    """The paths among a language's labels and tables."""
    if isinstance(files, dict):
        labels = ("lang", "domains", "benchmark", "domain")
        files = [value for name, value in files.items() if name not in labels]
    return [files] if isinstance(files, str) else sum(map(paths_in, files), [])


def study_scores(wildcards):
    """Input function: every reranker's scores of all candidates, in the panel's order."""
    folder = "results/{benchmark}/study/{lang}/scores/".format(**wildcards)
    return [
        f"{folder}{reranker}.parquet" for reranker in lookup.panel(wildcards.benchmark)
    ]


def candidate_scores(wildcards):
    """Input function: all models' per-query scores on all candidates."""
    return "results/{benchmark}-candidates/scores/{lang}-{lang}.parquet".format(
        **wildcards
    )


def check_start():
    """One run at a time writes to a store and a working directory."""
    try:
        start_head(settings.store, Path.cwd(), executor=workflow.executor_plugin.name)
    except InputError as error:
        raise WorkflowError(str(error))


def model_threads(wildcards):
    """Threads of a job that runs a model over a benchmark's texts."""
    language = wildcards.get("lang") or wildcards.corpus_lang
    return lookup.threads(wildcards.benchmark, language)


def chain_threads(wildcards):
    """Threads of such a job that comes after another of its sort: two at least.

    Nothing of its benchmark runs beside it.
    """
    return max(2, model_threads(wildcards))


def largest_share(wildcards):
    """Bound the share of the largest domain: three times that of domains of one size."""
    return min(1, 3 / len(pair_domains(wildcards)))


def source_table(table):
    """Input function: a table of the benchmark in the language it is translated from."""

    def path(wildcards):
        language = lookup.source_language(wildcards.benchmark)
        return f"results/{wildcards.benchmark}/{table}".format(
            lang=language, domain=wildcards.get("domain")
        )

    return path


def source_tables(table):
    """Input function: one table of all domains, in the language translated from."""

    def paths(wildcards):
        language = lookup.source_language(wildcards.benchmark)
        return [
            f"results/{wildcards.benchmark}/data/{language}/{domain}/{table}.parquet"
            for domain in lookup.domains(wildcards.benchmark, language)
        ]

    return paths


def where_asked(benchmarks, path):
    """Input function: a table of those benchmarks that have it, nothing for others."""
    return lambda wildcards: (
        path.format(**wildcards) if wildcards.benchmark in benchmarks else []
    )
