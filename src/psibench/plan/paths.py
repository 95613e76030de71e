"""The paths of a run: patterns of wildcards, and the input files of jobs.

The arguments of a function are the wildcards of a job: ``benchmark`` (or view), ``lang``,
``query_lang``, ``corpus_lang``, ``model``, ``reranker``, ``task``, ``training``,
``trained``, ``probe``, and ``number`` (of a judge). ``part`` is a slice of a language's domains and
``portion`` a slice of a filter's queries, both written ``/N-of-M``, or ``""`` for all; ``shard``,
written ``N-of-M``, is a slice of a task or an encoding. Functions return tables as paths relative
to the working directory; an empty list means that a job reads none. workflow/Snakefile documents
all paths.
"""

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from psibench.config.embedding_apis import EmbeddingApiModel
from psibench.config.model_base import Chunks, EncoderModel, ModelBase
from psibench.config.models import Bm25Model, FusionModel, RerankModel, RunFilesModel
from psibench.config.rerankers import BiEncoderReranker, RerankerBase
from psibench.filters.negatives import FinewebNegatives, judge_name
from psibench.filters.verify import VerifyMargin, VerifySection
from psibench.generate.benchmarks import (
    RAW_VIEW,
    view_id,
)
from psibench.generate.recipes import GRADE_ROUNDS
from psibench.models.checkpoints import checkpoint_files, tokenizer_files
from psibench.models.run_files import run_files
from psibench.plan.benchmarks import JUDGE_TRANSLATOR, PlannedBenchmark
from psibench.plan.plan import WORDS, Plan, downloads_of
from psibench.plan.work import encoding_jobs, portions
from psibench.probes.settings import OF_QUERIES, SEARCHING
from psibench.tables.slices import Slice

SCORE_FOLDERS = {"verify": "scores", "false_negatives": "pair_scores"}
"""Folder of the rerankers' scores, by the filter's key in a benchmark's section."""
BENCHMARK_TABLES = ("corpus", "queries", "qrels")
NEVER_MATCHES = r"(?!)none"
"""A pattern that matches nothing, not even the empty string."""

# Wildcards


def wildcard_patterns(plan: Plan) -> dict[str, str]:
    """Return a regular expression for each kind of id, to constrain wildcards."""
    return {kind: any_of(ids) for kind, ids in _ids(plan).items()} | {"parts": _parts(plan)}


def any_of(ids: Iterable[str]) -> str:
    """Return a regular expression that matches exactly these ids."""
    # Reverse order puts an id before its prefixes, so that the longer id matches first.
    return "|".join(map(re.escape, sorted(set(ids), reverse=True))) or NEVER_MATCHES


def _parts(plan: Plan) -> str:
    every = [list(parts) for one in plan.benchmarks.values() for parts in one.parts.values()]
    return f"(?:{any_of(part for parts in every for part in parts if part)})?"


def _ids(plan: Plan) -> dict[str, list[str]]:
    """Return the ids of each kind, possibly with repeats."""
    every = plan.benchmarks.values()

    def models(kind: type | tuple[type, ...]) -> list[str]:
        return [model for model, entry in plan.models.items() if isinstance(entry, kind)]

    margin = [one.id for one in every if isinstance(_verify_of(one), VerifyMargin)]
    return {
        "benchmarks and views": list(plan.named),
        "benchmarks": list(plan.benchmarks),
        "languages": [language for one in every for language in one.languages],
        "tasks": [task for planned in every for task in planned.tasks],
        "downloads": list(plan.downloads),
        "rerankers": list(plan.rerankers),
        "models": list(plan.models),
        "trainings": list(plan.config.training),
        "trained": list(plan.config.trained),
        "lexical": models(Bm25Model),
        "vector": [model for model in plan.models if plan.is_vector(model)],
        "encoded": [model for model in models(EncoderModel) if not plan.is_chunked(model)],
        "chunked": [model for model in plan.models if plan.is_chunked(model)],
        "api": models(EmbeddingApiModel),
        "reranking": models(RerankModel),
        "fused": models(FusionModel),
        "external runs": models(RunFilesModel),
        "generated": [planned.id for planned in every if planned.is_generated],
        "raw": [name for name, planned in plan.views.items() if planned.view == RAW_VIEW],
        "margin": margin,
        "verified": [one.id for one in every if _verify_of(one) and one.id not in margin],
    }


def _verify_of(planned: PlannedBenchmark) -> VerifySection | None:
    section: VerifySection | None = getattr(planned.section, "verify", None)
    return section


# Tables of a benchmark, one per part of a language's domains


def domains(
    plan: Plan,
    benchmark: str,
    lang: str | None = None,
    query_lang: str | None = None,
    corpus_lang: str | None = None,
    part: str = "",
) -> list[str]:
    """List the domains of ``lang`` (or a part), or the domains in both languages of a pair."""
    return plan.named[benchmark].domains(str(query_lang or lang), corpus_lang, part)


def domain_tables(
    plan: Plan,
    benchmark: str,
    lang: str,
    query_lang: str | None = None,
    corpus_lang: str | None = None,
    part: str = "",
    *,
    table: str,
    view: str = "",
) -> list[str]:
    """List one table in ``lang``, of the parts with the `domains`; ``view`` selects a view."""
    name = view_id(benchmark, view) if view else benchmark
    among = domains(plan, name, lang, query_lang, corpus_lang, part)
    return plan.named[name].tables(lang, table, domains=among)


def language_tables(
    plan: Plan, benchmark: str, *, table: str, translated: bool = False
) -> list[str]:
    """List one table of all languages of a benchmark, or of its translations."""
    planned = plan.named[benchmark]
    languages = planned.translated if translated else planned.languages
    return [path for lang in languages for path in planned.tables(lang, table)]


def tables_by_language(plan: Plan, benchmark: str) -> list[dict[str, Any]]:
    """List a benchmark's languages in order, with their domains and tables.

    Each item has the keys ``lang``, ``domains``, ``corpora``, ``queries`` and ``qrels``.
    """
    planned = plan.named[benchmark]
    return [
        {"lang": lang, "domains": planned.domains(lang)}
        | {
            name: planned.tables(lang, table)
            for name, table in (("corpora", "corpus"), ("queries", "queries"), ("qrels", "qrels"))
        }
        for lang in planned.languages
    ]


def built(plan: Plan, benchmark: str, lang: str, part: str = "", *, table: str) -> list[str]:
    """List the files of a table in the folder build of a benchmark, for one part of a language."""
    return plan.named[benchmark].built(lang, part, table)


def built_of_all(plan: Plan, benchmark: str, lang: str, *, table: str) -> list[str]:
    """List the files of a table in the folder build of a benchmark, for all parts of a language."""
    planned = plan.named[benchmark]
    return [path for part in planned.parts[lang] for path in planned.built(lang, part, table)]


# External inputs: sources, checkpoints, runs


def sources_of(plan: Plan, benchmark: str, lang: str, part: str = "") -> list[str]:
    """List the local source files of the domains of a language (or a part)."""
    chosen = domains(plan, benchmark, lang, part=part)
    files_of_each = (plan.sources[benchmark, lang, name] for name in chosen)
    return list(dict.fromkeys(path for files in files_of_each for path in files))


@cache
def model_inputs(plan: Plan, model: str) -> list[str]:
    """List the local checkpoint files of a model, or the manifest of its download or training.

    Also the files that the command of its `chunks` names. Looks at the disk once per model, because
    a model may have thousands of jobs.
    """
    if model in plan.config.trained:
        return [f"{plan.config.trained[model].folder}/model.json"]
    chunks: Chunks | None = getattr(plan.models[model], "chunks", None)
    named = [one for one in chunks.command if Path(one).is_file()] if chunks else []
    return [*_files_of(plan, plan.models[model]), *named]


@cache
def reranker_inputs(plan: Plan, reranker: str) -> list[str]:
    """List the local checkpoint files of a reranker, or its download's manifest; looks once."""
    return _files_of(plan, plan.rerankers[reranker])


def tokenizer_inputs(plan: Plan) -> list[str]:
    """List the files of the tokenizer for token lengths, or its download's manifest."""
    return _files_of(plan, plan.config.length_tokenizer)


def _files_of(plan: Plan, entry: ModelBase | RerankerBase | str) -> list[str]:
    """List the local files of an entry or a tokenizer, and its download's manifest, if any."""
    manifests = [f"{plan.config.store}/checkpoints/{one.name}.json" for one in downloads_of(entry)]
    match entry:
        case str():
            files = [] if entry == WORDS else tokenizer_files(entry)
        case EmbeddingApiModel():
            files = tokenizer_files(entry.tokenizer)
        case BiEncoderReranker():
            files = checkpoint_files(entry.encoder.checkpoint)
        case _:
            checkpoint = getattr(entry, "checkpoint", "")
            files = checkpoint_files(checkpoint) if checkpoint else []
    return files + manifests


def external_run_files(
    plan: Plan, benchmark: str, model: str, query_lang: str, corpus_lang: str
) -> list[str]:
    """List the user's run files of a model on a language pair."""
    entry = plan.models[model]
    assert isinstance(entry, RunFilesModel)
    return run_files(
        entry,
        benchmark=benchmark,
        query_lang=query_lang,
        corpus_lang=corpus_lang,
        domains=plan.named[benchmark].domains(query_lang, corpus_lang),
    )


# Training: the pool, the texts that it must not contain, and the models


def held_out(plan: Plan, training: str, *, table: str) -> list[str]:
    """List the corpora (or qrels) on which the models of a training are evaluated or probed.

    The training excludes the texts of these tables. ``table`` is corpus or qrels, in the language
    of the pool.
    """
    models = {name for name, model in plan.config.trained.items() if model.training == training}
    language = plan.pool_language(training)
    evaluated = [(run["benchmark"], run["model"], run["corpus_lang"]) for run in plan.runs]
    evaluated += [(job["benchmark"], job["model"], job["lang"]) for job in plan.probed]
    tested = dict.fromkeys(
        name for name, model, lang in evaluated if model in models and lang == language
    )
    return [path for name in tested for path in domain_tables(plan, name, language, table=table)]


def unevaluated_model_manifests(plan: Plan) -> list[str]:
    """List the manifests of the trained models that no benchmark evaluates."""
    return [f"{model.folder}/model.json" for model in plan.unevaluated_models.values()]


def base_inputs(plan: Plan, trained: str) -> list[str]:
    """List the checkpoint files of the base model of a training, or its download's manifest."""
    return _files_of(plan, plan.config.trained[trained].base_entry)


# A benchmark's build: tasks, scores, judges


def task_tables(plan: Plan, benchmark: str, lang: str, part: str = "", *, task: str) -> list[str]:
    """List the files of a task's table; empty if the benchmark does not have the task."""
    planned = plan.benchmarks[benchmark]
    return planned.built(lang, part, task) if task in planned.tasks else []


def translators_of(planned: PlannedBenchmark) -> list[str]:
    """List the names of the translators that are compared on a benchmark."""
    translate = planned.section.translate
    quality = translate and translate.quality
    return list((quality and quality.translators) or ())


def translator_grades(plan: Plan, benchmark: str) -> list[str]:
    """List the tables with the grades of each translator's sample, one per language."""
    planned = plan.benchmarks[benchmark]
    return [
        path
        for number, _ in enumerate(translators_of(planned), start=1)
        for language in planned.translated
        for path in planned.built(language, "", f"{JUDGE_TRANSLATOR}{number}")
    ]


def candidates_before(
    plan: Plan, benchmark: str, lang: str, part: str = "", *, step: str | None = None
) -> list[str]:
    """List the tables of candidates that ``step`` reads; None selects the final candidates."""
    planned = plan.benchmarks[benchmark]
    return planned.built(lang, part, planned.candidates_before(step))


def score_tables(
    plan: Plan,
    benchmark: str,
    lang: str,
    part: str = "",
    reranker: str | None = None,
    portion: str | None = None,
    *,
    of: str,
) -> list[str]:
    """List the score tables of a filter's rerankers, in order.

    ``reranker`` selects the rerankers before it, ``portion`` one portion. ``of`` is the filter:
    ``verify`` or ``false_negatives``.
    """
    panel = getattr(plan.benchmarks[benchmark].section, of).rerankers
    if reranker is not None:
        panel = panel[: panel.index(reranker)]
    folder, planned = SCORE_FOLDERS[of], plan.benchmarks[benchmark]
    chosen = portions(plan, benchmark, lang, of) if portion is None else [portion]
    return [
        path
        for name in panel
        for one in chosen
        for path in planned.built(lang, part, f"{folder}/{name}{one}")
    ]


def recall_table(plan: Plan, benchmark: str, lang: str, part: str = "") -> str:
    """Return the run whose top documents are the possible false negatives.

    This is the run of the raw view if that serves (`Plan.recalls_by_run`), else a separate run.
    """
    model = plan.benchmarks[benchmark].negatives.recall.model
    folder = "runs" if plan.recalls_by_run(benchmark) else "recall"
    return f"results/{benchmark}-raw/{folder}/{model}/{lang}-{lang}{part}.parquet"


def grades(
    plan: Plan, benchmark: str, lang: str, part: str = "", task: str | None = None
) -> list[str]:
    """List the tables of grades of all rounds of grading, or of the rounds before ``task``."""
    rounds = GRADE_ROUNDS if task is None else GRADE_ROUNDS[: GRADE_ROUNDS.index(task)]
    planned = plan.benchmarks[benchmark]
    return [path for one in rounds for path in planned.built(lang, part, one)]


def judge_tables(
    plan: Plan, benchmark: str, lang: str, part: str = "", number: str | None = None
) -> dict[str, list[str]]:
    """Return the tables of the judges of false negatives, by judge.

    ``number``, from 1, selects the judges before it.
    """
    planned = plan.benchmarks[benchmark]
    section = planned.negatives
    n_judges = len(section.judges) if isinstance(section, FinewebNegatives) else 0
    until = n_judges if number is None else min(int(number) - 1, n_judges)
    names = map(judge_name, range(1, until + 1))
    return {name: planned.built(lang, part, name) for name in names}


def data_inputs(plan: Plan, benchmark: str, lang: str, part: str = "") -> dict[str, list[str]]:
    """Return, by name, the inputs of the stage that makes a language's (or part's) tables.

    `Plan.data_stage` describes the four stages.
    """
    planned, tokenizer = plan.benchmarks[benchmark], {"tokenizer": tokenizer_inputs(plan)}
    among = planned.domains(lang, part=part)

    def tables(of: PlannedBenchmark, language: str) -> dict[str, list[str]]:
        return {one: of.tables(language, one, domains=among) for one in BENCHMARK_TABLES}

    match plan.data_stage(benchmark, lang):
        case "build":
            return {"sources": sources_of(plan, benchmark, lang, part)} | tokenizer
        case "assemble":
            return {
                "documents": planned.built(lang, part, "documents"),
                "candidates": candidates_before(plan, benchmark, lang, part),
            } | tokenizer
        case "remove_negatives":
            return {
                **tables(plan.views[view_id(benchmark, RAW_VIEW)], lang),
                "negatives": planned.built(lang, part, "negatives"),
                **judge_tables(plan, benchmark, lang, part),
            }
        case "clean_translations":
            source = tables(planned, planned.section.language)
            return {
                **{f"source_{name}": paths for name, paths in source.items()},
                "translated": planned.built(lang, part, "translated"),
                "verdicts": task_tables(plan, benchmark, lang, part, task="judge_refusals"),
            } | tokenizer


# Vectors and runs


def encodings(plan: Plan, benchmark: str, model: str, lang: str) -> list[str]:
    """List the encodings tables of a benchmark's (or view's) texts in a language, one per shard.

    The tables may belong to a view with more texts (`Plan.encoding_source`).
    """
    name = plan.encoding_source(benchmark, model, lang)
    slices = Slice.every(encoding_jobs(plan, name, model, lang))
    return [f"results/{name}/encodings/{model}/{lang}{one.folder}.parquet" for one in slices]


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
    """List the tables that select a benchmark's texts in an encodings table with more texts.

    Empty if the encodings have exactly the benchmark's texts, i.e. belong to it and no ``part`` is
    given. For a pair, lists the parts with domains of both languages.
    """
    if plan.encoding_source(benchmark, model, lang) == benchmark and not part:
        return []
    among = domains(plan, benchmark, lang, query_lang, corpus_lang, part)
    return plan.named[benchmark].tables(lang, table, domains=among)


def first_stage(plan: Plan, benchmark: str, model: str, query_lang: str, corpus_lang: str) -> str:
    """Return the run that a reranker reranks."""
    first = plan.first_stage(model, benchmark)
    return f"results/{benchmark}/runs/{first}/{query_lang}-{corpus_lang}.parquet"


def fused_encodings(plan: Plan, benchmark: str, model: str, corpus_lang: str) -> list[str]:
    """List the encodings that record how much of each document the fused models read."""
    return [
        path
        for component in plan.component_models(model, benchmark)
        if plan.visibility_source(component) == "encoded"
        for path in encodings(plan, benchmark, component, corpus_lang)
    ]


def reads_all(plan: Plan, benchmark: str, model: str) -> bool:
    """Return whether one of the fused models reads whole documents."""
    components = plan.component_models(model, benchmark)
    return any(plan.visibility_source(component) == "all" for component in components)


def compared_models(
    plan: Plan, benchmark: str, query_lang: str, corpus_lang: str
) -> list[dict[str, Any]]:
    """List the models evaluated on a language pair, with the inputs of their scoring.

    ``run`` is a model's run, or the run of a wider view (`Plan.run_source`). ``encodings`` or
    ``seen`` are the tables that record how much of each document the model reads; both are empty if
    it reads all, or if this is unknown (``reading_known``). Models with chunks also have
    ``chunks``, their run of chunks.
    """
    pair, models = f"{query_lang}-{corpus_lang}", list[dict[str, Any]]()
    searched = plan.run_source(benchmark, query_lang, corpus_lang)
    for model in plan.models_of(benchmark, query_lang, corpus_lang):
        run, reads = f"results/{searched}/runs/{model}/{pair}", plan.visibility_source(model)
        if isinstance(plan.models[model], RunFilesModel):
            run = f"results/{benchmark}/runs/{model}/{pair}"  # the user's files are for one view
        is_encoded = reads in ("encoded", "chunks")
        models.append(
            {
                "model": model,
                "kind": plan.models[model].kind,
                "run": f"{run}.parquet",
                "encodings": encodings(plan, benchmark, model, corpus_lang) if is_encoded else [],
                "seen": f"{run}.seen.parquet" if reads == "seen" else None,
                "reading_known": reads != "unknown",
                "on_filter_panel": plan.on_filter_panel(benchmark, model),
                "is_truncating": plan.models[model].control == "truncating",
            }
            | ({"chunks": f"{run}.chunks.parquet"} if reads == "chunks" else {})
        )
    return models


def scoring_inputs(plan: Plan, benchmark: str, query_lang: str, corpus_lang: str) -> list[str]:
    """List the runs and the reading tables that the scoring of a language pair reads."""
    compared = compared_models(plan, benchmark, query_lang, corpus_lang)
    read = [(one["run"], *one["encodings"], one["seen"], one.get("chunks")) for one in compared]
    return [path for paths in read for path in paths if path is not None]


# Probes


def probe_psi(plan: Plan) -> list[str]:
    """List the PSI tables of probed benchmarks with queries; empty without `probes.psi`."""
    if not plan.config.probes.psi:
        return []
    path = "results/{benchmark}/tables/{lang}-{lang}.psi.parquet"
    jobs = (labels for labels in plan.probed if labels["benchmark"] in plan.queried)
    return list(dict.fromkeys(path.format(**labels) for labels in jobs))


def probe_queries(plan: Plan, benchmark: str, lang: str, probe: str, *, table: str) -> list[str]:
    """List the queries or qrels of a language if the probe reads queries; else empty."""
    return domain_tables(plan, benchmark, lang, table=table) if probe in OF_QUERIES else []


def probe_encodings(plan: Plan, benchmark: str, model: str, lang: str, probe: str) -> list[str]:
    """List the encodings of the corpus that a probe searches; empty if it does not search."""
    return encodings(plan, benchmark, model, lang) if probe in SEARCHING else []
