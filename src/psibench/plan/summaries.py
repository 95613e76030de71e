"""Inputs of the tables and the report over all benchmarks, as plain data and paths."""

from collections.abc import Iterable
from typing import Any

from psibench.filters.verify import VerifyMargin
from psibench.plan.paths import (
    built_of_all,
    translators_of,
)
from psibench.plan.plan import Plan
from psibench.text.segments import POSITIONS
from psibench.translate.quality import JUDGE_TRANSLATION


def summary_names(plan: Plan) -> list[str]:
    """Return the names of the tables over all benchmarks; their files in results/ have them."""
    names = ["psi_table", "bucket_scores", "comparisons", "position_trend", "language_averages"]
    return names + (["leaderboards"] if plan.config.leaderboards else [])


def training_runs(plan: Plan) -> list[dict[str, Any]]:
    """List the evaluated trained models with training, base, distribution and seed.

    ``balanced`` is true if the distribution has equal shares of all positions.
    """
    tested = {run["model"] for run in plan.runs}
    found = []
    for name, one in plan.config.trained.items():
        if name not in tested:
            continue
        parts = plan.config.training[one.training].distributions.get(one.distribution, {})
        is_balanced = len(set(parts.values())) == 1 and len(parts) == len(POSITIONS)
        labels = {key: getattr(one, key) for key in ("training", "base", "distribution", "seed")}
        found.append({"model": name, **labels, "balanced": is_balanced})
    return found


def training_evaluations(plan: Plan) -> list[dict[str, Any]]:
    """List the language pairs that evaluate trained models, with scores, schemes and models."""
    found = []
    for pair in evaluated_pairs(plan):
        trained = plan.config.trained
        if models := [model for model in plan.models_of(**pair) if model in trained]:
            scores = "results/{benchmark}/scores/{query_lang}-{corpus_lang}.parquet"
            schemes = plan.named[pair["benchmark"]].section.buckets
            found.append(
                {**pair, "scores": scores.format(**pair), "schemes": schemes, "models": models}
            )
    return found


def evaluated_pairs(plan: Plan) -> list[dict[str, str]]:
    """List the labels of every language pair with an evaluated model."""
    names = ("benchmark", "query_lang", "corpus_lang")
    pairs = dict.fromkeys(tuple(run[name] for name in names) for run in plan.runs)
    return [dict(zip(names, pair, strict=True)) for pair in pairs]


def ledger_places(plan: Plan, benchmark: str) -> list[dict[str, Any]]:
    """List the parts of a benchmark's languages with the tables that its ledger joins, in order.

    Each item has ``lang`` and ``domains``, and lists of the tables ``documents``, ``dropped``,
    ``flow``, ``usage`` and ``queries`` (empty without queries). Translations come last.
    """
    planned, places = plan.benchmarks[benchmark], []
    every = [(lang, *part) for lang in planned.languages for part in planned.parts[lang].items()]
    for lang, part, domains in every:
        place: dict[str, Any] = {"lang": lang, "domains": domains, "documents": []}
        asked = planned.tables(lang, "queries", domains=domains)
        place["queries"] = asked if planned.has_queries else []
        if planned.asks(lang):
            native = planned.section.language if lang in planned.translated else lang
            if planned.is_generated:
                place["documents"] = planned.built(native, part, "documents")
            for table in ("dropped", "flow", "usage"):
                place[table] = [
                    path
                    for step in planned.steps(lang, table)
                    for path in planned.built(lang, part, step, table)
                ]
        else:
            place["usage"] = []
            for table in ("dropped", "flow"):
                place[table] = planned.built(lang, part, "data", table)
        places.append(place)
    return places


def ledger_tables(plan: Plan, benchmark: str, *, kind: str) -> list[str]:
    """List the tables that a benchmark's ledger joins, of one kind."""
    return [path for place in ledger_places(plan, benchmark) for path in paths_in(place[kind])]


def asked_languages(plan: Plan) -> list[dict[str, Any]]:
    """List every language that a language model writes or translates, translations last.

    Each item has ``benchmark``, ``lang`` and ``domains``.
    """
    every = [(planned, lang) for planned in plan.benchmarks.values() for lang in planned.languages]
    every.sort(key=lambda one: one[1] in one[0].translated)
    return [
        {"benchmark": planned.id, "lang": lang, "domains": planned.domains(lang)}
        for planned, lang in every
        if planned.asks(lang)
    ]


def verification_files(plan: Plan) -> list[dict[str, Any]]:
    """List the tables on the filters of each generated language for the report.

    Each item has ``benchmark``, ``lang`` and ``domains``, and a list of paths for each table.
    """
    return [
        _filter_files(plan, labels)
        for labels in asked_languages(plan)
        if labels["lang"] not in plan.benchmarks[labels["benchmark"]].translated
    ]


def _filter_files(plan: Plan, labels: dict[str, Any]) -> dict[str, Any]:
    name, lang = labels["benchmark"], labels["lang"]
    planned = plan.benchmarks[name]
    files: dict[str, Any] = dict(labels)
    files["queries"] = planned.tables(lang, "queries")
    built = []
    if isinstance(planned.generated.verify, VerifyMargin):
        built += ["margin_table", "cell_table"]
    if planned.generated.audit is not None:
        built += ["audit_table"]
    files |= {table: built_of_all(plan, name, lang, table=table) for table in built}
    if planned.generated.false_negatives is not None:
        files["judgements"] = built_of_all(plan, name, lang, table="judgements")
    return files


def language_files(plan: Plan) -> list[dict[str, Any]]:
    """List the tables on each benchmark's languages and domains for the report.

    Each item has ``benchmark`` and lists of paths: ``similarity`` of domains (one table per native
    language with several domains, by the first model with vectors), ``quality`` and ``agreement``
    of graded translations, and ``translators`` that are compared. Benchmarks without such tables
    are omitted.
    """
    found = []
    for name, planned in plan.benchmarks.items():
        files: dict[str, Any] = {"benchmark": name}
        folder = f"results/{name}"
        compared = [
            f"{folder}/similarity/{model}/{lang}.parquet"
            for model, lang in plan.similarity_jobs(name)
        ]
        if compared:
            files["similarity"] = compared
        if JUDGE_TRANSLATION.name in planned.tasks:
            tables = ("quality", "agreement")
            files |= {table: [f"{folder}/translation_{table}.parquet"] for table in tables}
        if translators_of(planned):
            files["translators"] = [f"{folder}/translator_quality.parquet"]
        if len(files) > 1:
            found.append(files)
    return found


def example_files(plan: Plan) -> list[dict[str, str]]:
    """List the sources of examples: labels and tables of each language's first domain."""
    found = []
    for name, planned in plan.queried.items():
        for lang in planned.languages:
            domain = planned.domains(lang)[0]
            tables = {
                table: planned.tables(lang, table, domains=[domain])[0]
                for table in ("corpus", "queries")
            }
            found.append({"benchmark": name, "lang": lang, "domain": domain, **tables})
    return found


def paths_in(files: Any) -> list[str]:
    """List the paths in nested lists of labels and tables, each once."""
    if isinstance(files, str):
        return [files] if "/" in files else []
    if isinstance(files, dict):
        files = files.values()
    if not isinstance(files, Iterable):
        return []
    return list(dict.fromkeys(path for one in files for path in paths_in(one)))
