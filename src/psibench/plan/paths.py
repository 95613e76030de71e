"""The paths of a run: what wildcards may stand for, and the files that jobs read.

Functions are asked with the wildcards of a job by their names: ``benchmark`` (or view), ``lang``,
``query_lang``, ``corpus_lang``, ``part`` (of a language's domains, ``""`` for all), ``domain``,
``model``, ``reranker``, ``task``. Paths are relative to the working directory; the Snakefile has
their grammar.
"""

import re
from collections.abc import Callable, Iterable

from psibench.config.embedding_apis import EmbeddingApiModel
from psibench.config.encoders import VllmModel
from psibench.config.model_base import EncoderModel, ModelBase
from psibench.config.models import Bm25Model, FusionModel, RerankModel, RunFilesModel
from psibench.config.rerankers import checkpoint_of
from psibench.filters.negatives import FinewebNegatives
from psibench.filters.verify import VerifyMargin
from psibench.generate.benchmarks import (
    GENERATED_RECIPES,
    RAW,
    Benchmark,
    Documents,
    FinewebPosqRelease,
    view_id,
)
from psibench.generate.recipes import judge_name
from psibench.models.checkpoints import checkpoint_files
from psibench.models.run_files import run_files
from psibench.plan.benchmarks import JUDGE_TRANSLATOR, PlannedBenchmark
from psibench.plan.plan import (
    Download,
    Plan,
    model_downloads,
    reranker_downloads,
    tokenizer_downloads,
)
from psibench.probes.settings import OF_QUERIES, SEARCHING, why_not
from psibench.translate.quality import JUDGE_TRANSLATION

SCORES = {"verify": "scores", "false_negatives": "pair_scores"}
"""Folders of what rerankers say for a filter, by the key of its section."""
NEVER_MATCHES = r"(?!)none"
"""Matches nothing, not even the empty string."""
PAIR = "{query_lang}-{corpus_lang}"
KEYS = sorted({key for section in GENERATED_RECIPES.values() for key in section.model_fields})
"""Keys of generated benchmarks' sections: ``having KEY`` are the benchmarks that have one."""

# Wildcards


def wildcard_patterns(plan: Plan) -> dict[str, str]:
    """Return a regular expression for each sort of a config's own ids, by the sort's name.

    ``having KEY``: the benchmarks whose section has a key that is not null. Those of a benchmark at
    some paths alone end in a look at what comes next: ``native ...`` and
    ``translations`` at the languages that it is read in or translated to, ``encoded ...``,
    ``asked ...``, ``searched`` and ``shared`` where a job does it so.
    """
    # The longer of two ids that begin alike comes first.
    patterns = {sort: _any_of(sorted(set(ids), reverse=True)) for sort, ids in _ids(plan).items()}
    sorts: dict[str, Callable[[PlannedBenchmark], bool]] = {
        "direct": lambda one: not one.is_generated,
        "having false_negatives": lambda one: _has(one.section, "false_negatives"),
        "unpurged": lambda one: one.is_generated and not _has(one.section, "false_negatives"),
    }
    for sort, fits in sorts.items():
        own = [one for one in plan.benchmarks.values() if fits(one)]
        patterns[f"native {sort}"] = _at_languages((one.id, one.native) for one in own)
    patterns["translations"] = _at_languages((b.id, b.translated) for b in plan.benchmarks.values())
    patterns["parts"] = f"(?:{patterns['parts']})?"
    for name, in_shards in (("whole", False), ("in shards", True)):
        patterns[f"encoded {name}"] = _encoded(plan, in_shards=in_shards)
        patterns[f"asked {name}"] = _asked(plan, in_shards=in_shards)
        patterns[f"asked {name} by vllm"] = _asked(plan, in_shards=in_shards, by_vllm=True)
        patterns[f"asked {name} without vllm"] = _asked(plan, in_shards=in_shards, by_vllm=False)
    patterns["shared"] = _where(
        (one.id, f"(?:runs/[^/]+|scores|tables)/{language}-{language}[.]")
        for one in plan.evaluated
        for language in one.native
        if plan.run_source(one.id, language, language) != one.id
    )
    patterns["searched"] = f"(?!{patterns['shared']})(?:{patterns['benchmarks']})"
    return patterns


def _ids(plan: Plan) -> dict[str, list[str]]:
    """Return the ids of each sort."""
    every = plan.benchmarks.values()

    def models(kind: type | tuple[type, ...], but: type | tuple[()] = ()) -> list[str]:
        own = plan.models.items()
        return [m for m, entry in own if isinstance(entry, kind) and not isinstance(entry, but)]

    def having(key: str) -> list[str]:
        return [one.id for one in every if _has(one.section, key)]

    checked = {name: getattr(plan.benchmarks[name].section, "verify") for name in having("verify")}  # noqa: B009
    margin = [name for name, section in checked.items() if isinstance(section, VerifyMargin)]
    return {
        "benchmarks": list(plan.named),
        "own": list(plan.benchmarks),
        "languages": [language for one in every for language in one.languages],
        "domains": [place.domain for one in every for place in one.places],
        "parts": [part for one in every for own in one.parts.values() for part in own if part],
        "tasks": [task for one in every for task in one.tasks],
        "downloads": list(plan.downloads),
        "rerankers": list(plan.rerankers),
        "models": list(plan.models),
        "trainings": list(plan.config.training),
        "trained": list(plan.config.trained),
        "lexical": models(Bm25Model),
        "vector": models((EncoderModel, EmbeddingApiModel)),
        "encoded": models(EncoderModel),
        "encoded by vllm": models(VllmModel),
        "encoded without vllm": models(EncoderModel, but=VllmModel),
        "api": models(EmbeddingApiModel),
        "reranking": models(RerankModel),
        "fused": models(FusionModel),
        "external runs": models(RunFilesModel),
        "generated": [one.id for one in every if one.is_generated],
        "raw": [name for name, one in plan.views.items() if one.view == RAW],
        **{f"having {key}": having(key) for key in KEYS},
        "studied": [name for name, section in checked.items() if len(section.rerankers) > 1],
        "margin": margin,
        "verified": [name for name in checked if name not in margin],
        "translated": having("translate"),
        "quality": [one.id for one in every if JUDGE_TRANSLATION.name in one.tasks],
        "compared_translators": [one.id for one in every if translators_of(one)],
    }


def _has(section: Benchmark, key: str) -> bool:
    return getattr(section, key, None) is not None


def _any_of(names: Iterable[str]) -> str:
    return "|".join(map(re.escape, names)) or NEVER_MATCHES


def _where(ends: Iterable[tuple[str, str]]) -> str:
    """Match benchmarks where their paths go on as the patterns given with them say."""
    every = sorted(ends, key=lambda one: one[0], reverse=True)
    return "|".join(f"{re.escape(name)}(?=/{end})" for name, end in every) or NEVER_MATCHES


def _at_languages(languages: Iterable[tuple[str, Iterable[str]]]) -> str:
    """Match a benchmark where its path goes on /data/{lang}/ or /build/{lang}/ of these languages.

    A language may be native in one benchmark and a translation in another.
    """
    return _where((name, f"(?:data|build)/(?:{_any_of(own)})/") for name, own in languages if own)


def _asked(plan: Plan, *, in_shards: bool, by_vllm: bool | None = None) -> str:
    """Match a benchmark where its path goes on /build/{lang}{part}/{task}: of tasks asked so."""
    ends = []
    for name, planned in plan.benchmarks.items():
        for lang in planned.languages:
            tasks = [
                task
                for task, own in planned.tasks.items()
                if (len(planned.task_shards(task, lang)) > 1) is in_shards
                and by_vllm in (None, plan.llms[own.section.llm].backend == "vllm")
            ]
            if tasks:
                parts = "(?:/[0-9]+-of-[0-9]+)?"
                ends.append((name, f"build/{re.escape(lang)}{parts}/(?:{_any_of(tasks)})[./]"))
    return _where(ends)


def _encoded(plan: Plan, *, in_shards: bool) -> str:
    """Match a benchmark where its path goes on /encodings/{model}/{lang}: of encodings made so."""
    made: dict[str, list[str]] = {}
    for (name, model, language), shards in plan.shards.items():
        if isinstance(plan.models[model], EncoderModel) and (len(shards) > 1) is in_shards:
            made.setdefault(name, []).append(f"{re.escape(model)}/{re.escape(language)}")
    return _where((name, f"encodings/(?:{'|'.join(own)})[./]") for name, own in made.items())


# Tables of a benchmark, domain by domain


def domains(
    plan: Plan,
    benchmark: str,
    lang: str | None = None,
    query_lang: str | None = None,
    corpus_lang: str | None = None,
    part: str = "",
) -> list[str]:
    """List the domains of a language or a part of it, or those in both languages of a pair."""
    return plan.named[benchmark].domains(str(query_lang or lang), corpus_lang, part)


def domain_tables(
    plan: Plan, benchmark: str, lang: str, part: str = "", *, table: str, view: str = ""
) -> list[str]:
    """List one table of the domains of a language, of a benchmark or of a view of it."""
    own = plan.named[view_id(benchmark, view) if view else benchmark]
    return own.tables(lang, table, domains=own.domains(lang, part=part))


def language_tables(
    plan: Plan, benchmark: str, part: str = "", *, table: str, of: str = "all"
) -> list[str]:
    """List one table of the domains of languages of a benchmark, in their order.

    ``of``: ``all`` languages, the one that it is translated from (``source``), or those that it is
    ``translated`` to.
    """
    own = plan.named[benchmark]
    languages = {
        "all": own.languages,
        "source": [own.section.language],
        "translated": own.translated,
    }
    return [
        path
        for language in languages[of]
        for path in own.tables(language, table, domains=own.domains(language, part=part))
    ]


def language_domains(plan: Plan, benchmark: str) -> dict[str, list[str]]:
    """Return the domains of each language of a benchmark, in order."""
    own = plan.named[benchmark]
    return {language: own.domains(language) for language in own.languages}


def pair_tables(
    plan: Plan,
    benchmark: str,
    query_lang: str,
    corpus_lang: str,
    lang: str,
    part: str = "",
    *,
    table: str,
) -> list[str]:
    """List one table of the domains of a pair, in ``lang``: one of the two."""
    own = plan.named[benchmark]
    return own.tables(lang, table, domains=own.domains(query_lang, corpus_lang, part))


def build_table(
    plan: Plan, benchmark: str, lang: str, part: str = "", domain: str | None = None, *, table: str
) -> str:
    """Return a table on the way to a benchmark, of a part of a language or of a domain's part."""
    if domain is not None:
        part = plan.named[benchmark].part_of(lang, domain)
    return f"results/{plan.named[benchmark].base}/build/{lang}{part}/{table}.parquet"


def source_table(
    plan: Plan, benchmark: str, part: str = "", domain: str | None = None, *, table: str
) -> str:
    """Return a table in the language translated from, of a part of it or a domain's own."""
    own = plan.named[benchmark]
    if domain is None:
        return build_table(plan, benchmark, own.section.language, part, table=table)
    return own.tables(own.section.language, table, domains=[domain])[0]


def text_parts_of_domains(plan: Plan, benchmark: str) -> list[str]:
    """List the texts to translate by domain: the table that has those of each."""
    own = plan.named[benchmark]
    lang = own.section.language
    return [
        build_table(plan, benchmark, lang, domain=domain, table="text_parts")
        for domain in own.domains(lang)
    ]


# What is read of the world: sources, checkpoints, runs


def sources_of(
    plan: Plan, benchmark: str, lang: str, part: str = "", domain: str | None = None
) -> list[str]:
    """List the local files that domains of a benchmark in a language, or one, are read from."""
    own = [domain] if domain is not None else domains(plan, benchmark, lang, part=part)
    every = (plan.sources[benchmark, lang, one] for one in own)
    return list(dict.fromkeys(path for files in every for path in files))


def model_inputs(plan: Plan, model: str) -> list[str]:
    """List what a model's encoding waits for: its checkpoint's files, its download, or training."""
    if model in plan.config.trained:
        return [f"{plan.config.trained[model].folder}/model.json"]
    return _checkpoint_inputs(plan, plan.models[model])


def reranker_inputs(plan: Plan, reranker: str) -> list[str]:
    """List what a reranker's scoring waits for, likewise."""
    entry = plan.rerankers[reranker]
    files = checkpoint_files(checkpoint_of(entry)[0])
    return files + _manifests(plan, reranker_downloads(entry))


def persona_encoder_inputs(plan: Plan, benchmark: str) -> list[str]:
    """List what the choice of a benchmark's personas waits for, likewise."""
    return _checkpoint_inputs(plan, plan.encoders[benchmark])


def tokenizer_inputs(plan: Plan) -> list[str]:
    """List what counting tokens waits for: the download of its tokenizer, or nothing."""
    return _manifests(plan, tokenizer_downloads(plan.config.length_tokenizer))


def _checkpoint_inputs(plan: Plan, entry: ModelBase) -> list[str]:
    files = checkpoint_files(entry.checkpoint) if isinstance(entry, EncoderModel) else []
    return files + _manifests(plan, model_downloads(entry))


def _manifests(plan: Plan, downloads: Iterable[Download]) -> list[str]:
    return [f"{plan.config.store}/checkpoints/{one.name}.json" for one in downloads]


def external_run_files(
    plan: Plan, benchmark: str, model: str, query_lang: str, corpus_lang: str
) -> list[str]:
    """List the files of the user's that are a model's run on a language pair."""
    entry = plan.models[model]
    assert isinstance(entry, RunFilesModel)
    return run_files(
        entry,
        benchmark=benchmark,
        query_lang=query_lang,
        corpus_lang=corpus_lang,
        domains=plan.named[benchmark].domains(query_lang, corpus_lang),
    )


# Training: the pool, what is not trained on, and what is trained


def pool_tables(plan: Plan, training: str, *, table: str) -> list[str]:
    """List one table of all domains of the pool of a training."""
    section = plan.config.training[training]
    return domain_tables(plan, section.benchmark, plan.pool_language(training), table=table)


def pool_domains(plan: Plan, training: str) -> list[str]:
    """List the domains of the pool of a training, in the order of `pool_tables`."""
    section = plan.config.training[training]
    return domains(plan, section.benchmark, plan.pool_language(training))


def held_out(plan: Plan, training: str, *, table: str) -> list[str]:
    """List a table of what its models are evaluated or probed on, in the language of the pool.

    ``table``: corpus, or qrels.
    """
    models = {name for name, one in plan.config.trained.items() if one.training == training}
    language = plan.pool_language(training)
    tested = dict.fromkeys(
        one["benchmark"]
        for one in [*plan.runs, *probed(plan)]
        if one["model"] in models and one.get("lang", one.get("corpus_lang")) == language
    )
    return [path for name in tested for path in domain_tables(plan, name, language, table=table)]


def unevaluated_model_manifests(plan: Plan) -> list[str]:
    """List the models that are trained and evaluated nowhere."""
    return [f"{one.folder}/model.json" for one in plan.unevaluated_models.values()]


def base_inputs(plan: Plan, trained: str) -> list[str]:
    """List what the training of a model waits for: its base's files, or its download."""
    return _checkpoint_inputs(plan, plan.config.trained[trained].base_entry)


# On the way to a benchmark: tasks, scores, judges


def task_shards(
    plan: Plan, benchmark: str, task: str, lang: str, part: str = "", *, table: str
) -> list[str]:
    """List one table of all shards of a task in a part of a language, in order."""
    folder = f"results/{benchmark}/build/{lang}{part}/{task}"
    shards = plan.benchmarks[benchmark].task_shards(task, lang)
    return [f"{folder}/{shard}.{table}.parquet" for shard in shards]


def task_table(plan: Plan, benchmark: str, lang: str, domain: str, *, task: str) -> str | list[str]:
    """Return the table with a domain's rows of a task, nothing where there is no such task."""
    has = task in plan.benchmarks[benchmark].tasks
    return build_table(plan, benchmark, lang, domain=domain, table=task) if has else []


def judged_translations(plan: Plan, benchmark: str) -> list[str]:
    """List the grades of all languages that a benchmark is translated to."""
    folder, own = f"results/{benchmark}/build", plan.named[benchmark].translated
    return [f"{folder}/{language}/{JUDGE_TRANSLATION.name}.parquet" for language in own]


def translators_of(planned: PlannedBenchmark) -> list[str]:
    """List the names of the translators that are compared on a benchmark; none where none are."""
    translate = planned.section.translate
    quality = translate and translate.quality
    return list((quality and quality.translators) or ())


def translator_grades(plan: Plan, benchmark: str) -> dict[str, list[str]]:
    """Return the tables of each translator's grades on a sample, one per language, by name."""
    planned, folder = plan.benchmarks[benchmark], f"results/{benchmark}/build"
    return {
        one: [
            f"{folder}/{language}/{JUDGE_TRANSLATOR}{number}.parquet"
            for language in planned.translated
        ]
        for number, one in enumerate(translators_of(planned), start=1)
    }


def candidates_before(
    plan: Plan,
    benchmark: str,
    lang: str,
    part: str = "",
    domain: str | None = None,
    *,
    step: str | None = None,
) -> str:
    """Return the table with the candidates that a filter is given, or that become the queries."""
    name = plan.benchmarks[benchmark].candidates_before(step)
    return build_table(plan, benchmark, lang, part, domain, table=name)


def score_tables(
    plan: Plan,
    benchmark: str,
    lang: str,
    part: str = "",
    domain: str | None = None,
    reranker: str | None = None,
    portion: str | None = None,
    *,
    of: str,
) -> list[str]:
    """List the scores of the rerankers of a filter, in order: all portions of all of them.

    With a ``reranker`` and a ``portion`` those before it, of this portion. ``of`` is ``verify`` or
    ``false_negatives``.
    """
    panel = getattr(plan.benchmarks[benchmark].section, of).rerankers
    if reranker is not None:
        panel = panel[: panel.index(reranker)]
    folder = SCORES[of]
    shares = plan.portions(benchmark, lang, of) if portion is None else [portion]
    return [
        build_table(plan, benchmark, lang, part, domain, table=f"{folder}/{one}{share}")
        for one in panel
        for share in shares
    ]


def study_scores(plan: Plan, benchmark: str, lang: str, part: str = "") -> list[str]:
    """List every reranker's scores of all candidates, in the panel's order."""
    panel = plan.benchmarks[benchmark].generated.verify.rerankers  # type: ignore[union-attr]
    return [f"results/{benchmark}/study/{lang}{part}/scores/{one}.parquet" for one in panel]


def study_tables(plan: Plan, tables: Iterable[str]) -> list[str]:
    """List the tables of every filter study: of benchmarks with two rerankers or more."""
    return [
        f"results/{name}/study/{language}{part}/{table}.csv"
        for name in _ids(plan)["studied"]
        for language in plan.benchmarks[name].native
        for part in plan.benchmarks[name].parts[language]
        for table in tables
    ]


def recall_table(plan: Plan, benchmark: str, lang: str, part: str = "") -> str:
    """Return the run whose first documents are possible false negatives."""
    model = plan.benchmarks[benchmark].negatives.recall.model
    folder = "runs" if plan.recalls_by_run(benchmark) else "recall"
    return f"results/{benchmark}-raw/{folder}/{model}/{lang}-{lang}{part}.parquet"


def judge_tables(
    plan: Plan,
    benchmark: str,
    lang: str,
    part: str = "",
    domain: str | None = None,
    number: str | None = None,
) -> list[str]:
    """List the grades of the judges of false negatives; those before judge ``number``."""
    section = plan.benchmarks[benchmark].negatives
    n_judges = len(section.judges) if isinstance(section, FinewebNegatives) else 0
    until = n_judges if number is None else min(int(number) - 1, n_judges)
    names = map(judge_name, range(1, until + 1))
    return [build_table(plan, benchmark, lang, part, domain, table=name) for name in names]


# Vectors and runs


def encodings(plan: Plan, benchmark: str, model: str, lang: str) -> str:
    """Return a model's encodings that have the texts of a benchmark or view in a language."""
    return (
        f"results/{plan.encoding_source(benchmark, model, lang)}/encodings/{model}/{lang}.parquet"
    )


def prior_encodings(plan: Plan, benchmark: str, model: str, lang: str) -> list[str]:
    """List the encodings that share texts with one, and are made before it: none, or one."""
    names = plan.prior_encoding_source(benchmark, model, lang)
    return [f"results/{name}/encodings/{model}/{lang}.parquet" for name in names]


def encoding_shards(plan: Plan, benchmark: str, model: str, lang: str) -> list[str]:
    """List the parts of an encoding that several jobs share."""
    shards = plan.shards[benchmark, model, lang]
    return [f"results/{benchmark}/encodings/{model}/{lang}/{shard}.parquet" for shard in shards]


def text_filter_tables(
    plan: Plan,
    benchmark: str,
    model: str,
    lang: str,
    query_lang: str | None = None,
    corpus_lang: str | None = None,
    part: str = "",
    *,
    table: str,
) -> list[str]:
    """List the tables of a benchmark's own texts, where its encodings have others' too.

    Of a pair, the domains that are in both languages; of a part, its own.
    """
    if plan.encoding_source(benchmark, model, lang) == benchmark and not part:
        return []
    among = domains(plan, benchmark, lang, query_lang, corpus_lang, part)
    return plan.named[benchmark].tables(lang, table, domains=among)


def first_stage(plan: Plan, benchmark: str, model: str, query_lang: str, corpus_lang: str) -> str:
    """Return the run that a reranker reranks."""
    first = plan.first_stage(model, benchmark)
    return f"results/{benchmark}/runs/{first}/{query_lang}-{corpus_lang}.parquet"


def fused_runs(
    plan: Plan, benchmark: str, model: str, query_lang: str, corpus_lang: str
) -> list[str]:
    """List the runs that a model is fused of."""
    pair = f"{query_lang}-{corpus_lang}"
    every = plan.component_models(model, benchmark)
    return [f"results/{benchmark}/runs/{one}/{pair}.parquet" for one in every]


def fused_encodings(plan: Plan, benchmark: str, model: str, corpus_lang: str) -> list[str]:
    """List the encodings of documents that say what the models fused read of them."""
    every = plan.component_models(model, benchmark)
    return [
        encodings(plan, benchmark, one, corpus_lang)
        for one in every
        if plan.visibility_source(one) == "encoded"
    ]


def reads_all(plan: Plan, benchmark: str, model: str) -> bool:
    """Say whether one of the models fused reads whole documents."""
    return any(
        plan.visibility_source(one) == "all" for one in plan.component_models(model, benchmark)
    )


def run_path_templates(plan: Plan) -> list[str]:
    """List what a job takes from another view's runs: paths of runs/, {model}/{pair}.

    Of every model that searches; those of rerankers and fused models have what they saw beside.
    """
    return [
        path
        for model in plan.config.models
        if not isinstance(plan.models[model], RunFilesModel)
        for path in [f"{model}/{PAIR}.parquet"]
        + [f"{model}/{PAIR}.seen.parquet"]
        * isinstance(plan.models[model], RerankModel | FusionModel)
    ]


def source_runs(plan: Plan, benchmark: str, query_lang: str, corpus_lang: str) -> list[str]:
    """List the runs of a wider view that a benchmark or view takes its own from."""
    name = plan.run_source(benchmark, query_lang, corpus_lang)
    return [
        f"results/{name}/runs/{path.format(query_lang=query_lang, corpus_lang=corpus_lang)}"
        for path in run_path_templates(plan)
    ]


def compared_models(
    plan: Plan, benchmark: str, query_lang: str, corpus_lang: str
) -> list[dict[str, str | bool | None]]:
    """List the models of a language pair: their tables, and what a reader has to know."""
    pair, found = f"{query_lang}-{corpus_lang}", list[dict[str, str | bool | None]]()
    for model in plan.models_of(benchmark, query_lang, corpus_lang):
        run, reads = f"results/{benchmark}/runs/{model}/{pair}", plan.visibility_source(model)
        vectors = encodings(plan, benchmark, model, corpus_lang)
        found.append(
            {
                "model": model,
                "kind": plan.models[model].kind,
                "run": f"{run}.parquet",
                "encodings": vectors if reads == "encoded" else None,
                "seen": f"{run}.seen.parquet" if reads == "seen" else None,
                "reading_known": reads != "unknown",
                "on_filter_panel": plan.on_filter_panel(benchmark, model),
            }
        )
    return found


def scoring_inputs(plan: Plan, benchmark: str, query_lang: str, corpus_lang: str) -> list[str]:
    """List what the models of a pair are scored by, less what the scoring itself writes."""
    pair = benchmark, query_lang, corpus_lang
    found = [
        str(model[kind])
        for model in compared_models(plan, *pair)
        for kind in ("run", "encodings", "seen")
        if model[kind]
    ]
    if plan.run_source(*pair) == benchmark:
        return found
    labels = {"query_lang": query_lang, "corpus_lang": corpus_lang}
    made = {
        f"results/{benchmark}/runs/{path}".format(**labels) for path in run_path_templates(plan)
    }
    return [path for path in found if path not in made]


def domain_similarity_jobs(plan: Plan, benchmark: str) -> list[tuple[str, str]]:
    """Return by which model the domains of a benchmark are compared, and in which languages.

    The first that makes vectors; languages that it is read in, with two or more domains. Documents
    without queries are not evaluated, nor compared.
    """
    model = next((model for model in plan.config.models if plan.is_vector(model)), None)
    native = plan.benchmarks[benchmark].native if benchmark in plan.queried else {}
    return [(model, lang) for lang, own in native.items() if model is not None and len(own) > 1]


# Probes


def probed(plan: Plan) -> list[dict[str, str]]:
    """List the jobs of all probes: probe, benchmark, model and lang.

    Of models that have one vector per text and are evaluated on the language, of services those
    that are named. Evidence known by class alone is not moved, and documents alone have none.
    """
    asked = plan.config.probes
    own = [name for name in plan.benchmarks if asked.benchmarks is None or name in asked.benchmarks]
    return [
        {"probe": probe, "benchmark": name, "model": model, "lang": lang}
        for probe in asked.names
        for name in own
        if probe not in OF_QUERIES
        or not isinstance(plan.benchmarks[name].section, FinewebPosqRelease | Documents)
        for lang in plan.benchmarks[name].languages
        for model in plan.models_of(name, lang, lang)
        if (not plan.is_api(model) if asked.models is None else model in asked.models)
        and why_not(plan.models[model], probe) is None
    ]


def probe_tables(plan: Plan) -> list[str]:
    """List the summaries of all probes."""
    path = "results/probes/{probe}/{benchmark}/{model}/{lang}.summary.parquet"
    return [path.format(**labels) for labels in probed(plan)]


def compared_probes(plan: Plan) -> list[dict[str, str]]:
    """List the jobs of probes whose model is compared: their labels, and the ``other`` model."""
    every = probed(plan)
    return [
        labels | {"other": other}
        for labels in every
        if (other := plan.config.probes.compare.get(labels["model"])) is not None
        and labels | {"model": other} in every
    ]


def compared_rows(plan: Plan, side: str) -> list[str]:
    """List the probes' own tables that are compared, of the ``model`` or the ``other``."""
    path = "results/probes/{probe}/{benchmark}/{model}/{lang}.parquet"
    return [path.format(**one | {"model": one[side]}) for one in compared_probes(plan)]


def probe_psi(plan: Plan) -> list[str]:
    """List the PSI tables of what is probed and has queries, where they stand beside."""
    path = "results/{benchmark}/tables/{lang}-{lang}.psi.parquet"
    own = [
        one for one in probed(plan) if plan.config.probes.psi and one["benchmark"] in plan.queried
    ]
    return list(dict.fromkeys(path.format(**labels) for labels in own))


def probe_queries(plan: Plan, benchmark: str, lang: str, probe: str, *, table: str) -> list[str]:
    """List the queries or qrels of a language that a probe asks; none where it asks none."""
    return domain_tables(plan, benchmark, lang, table=table) if probe in OF_QUERIES else []


def encoded_before_probe(
    plan: Plan, benchmark: str, model: str, lang: str, probe: str
) -> list[str]:
    """List the encodings of the corpus that a probe searches, which are made before it."""
    return [encodings(plan, benchmark, model, lang)] if probe in SEARCHING else []
