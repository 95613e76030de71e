"""What the report asks a workflow for beyond the tables of every benchmark: plain data, paths."""

from typing import Any

from psibench.config.lookup import Lookup

MAX_EXAMPLE_DOMAINS = 3


def language_files(lookup: Lookup) -> list[dict[str, Any]]:
    """Return what is known of each benchmark's languages and domains, by sort.

    A benchmark without any is left out. ``relocation``: of languages translated to;
    ``similarity``: one per language read, of two or more domains, by the first model that encodes;
    ``quality``, ``agreement`` and ``confusion``: where translations are graded; ``translators``:
    where several are compared.
    """
    graded = lookup.translated("quality")
    found = []
    for name in lookup.config.benchmarks:
        files: dict[str, Any] = {"benchmark": name}
        folder = f"results/{name}"
        if lookup.translated_languages(name):
            files["relocation"] = [f"{folder}/relocation.parquet"]
        compared = _compared(lookup, name)
        if compared:
            files["similarity"] = compared
        if name in graded:
            sorts = ("quality", "agreement", "confusion")
            files |= {sort: f"{folder}/translation_{sort}.parquet" for sort in sorts}
        if name in lookup.compared_translators():
            files["translators"] = f"{folder}/translator_quality.parquet"
        if len(files) > 1:
            found.append(files)
    return found


def example_files(lookup: Lookup) -> list[dict[str, str]]:
    """Return the domains that examples are taken from: labels, ``corpus`` and ``queries``.

    Up to three domains per language, spread over the benchmark's.
    """
    found = []
    for labels in lookup.benchmark_languages():
        name, language = labels["benchmark"], labels["lang"]
        for domain in spread(lookup.domains_in(name, language), MAX_EXAMPLE_DOMAINS):
            folder = f"results/{name}/data/{language}/{domain}"
            tables = {table: f"{folder}/{table}.parquet" for table in ("corpus", "queries")}
            found.append({**labels, "domain": domain, **tables})
    return found


def compared_domains(lookup: Lookup, name: str) -> list[tuple[str, str]]:
    """Return by which model the domains of a benchmark are compared, and in which languages.

    The first that makes vectors; languages that it is read in, with two or more domains.
    """
    model = next((model for model in lookup.config.models if lookup.is_vector(model)), None)
    return [
        (model, language)
        for language in lookup.native_languages(name)
        if model is not None and len(lookup.domains_in(name, language)) > 1
    ]


def summary_names(lookup: Lookup) -> list[str]:
    """Return the names of the tables over all benchmarks, as files of results/ are called."""
    names = ["psi_table", "bucket_scores", "comparisons", "position_trend", "language_averages"]
    return names + (["leaderboards"] if lookup.config.leaderboards else [])


def spread(names: list[str], n: int) -> list[str]:
    """Return up to ``n`` names at equal distances, the first and the last among them."""
    if len(names) <= n:
        return names
    return [names[round(place * (len(names) - 1) / (n - 1))] for place in range(n)]


def _compared(lookup: Lookup, name: str) -> list[str]:
    """List the tables of the similarity of a benchmark's domains, a path per language."""
    return [
        f"results/{name}/similarity/{model}/{language}.parquet"
        for model, language in compared_domains(lookup, name)
    ]
