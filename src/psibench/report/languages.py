"""Languages and domains: what a benchmark holds of each, and how good its translations are."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from psibench.metrics.buckets import LENGTH_BUCKETS
from psibench.metrics.statistics import QUERY_TYPE_PREFIX
from psibench.report.plots import draw_heat_map
from psibench.report.published import read_published
from psibench.report.tables import Block, FigureView, Table, slug
from psibench.report.views import BenchmarkInfo
from psibench.report.wording import (
    MISSING,
    count,
    number,
    percent,
)
from psibench.tables import read_table
from psibench.tables.derived import read_all
from psibench.tables.quality_schemas import (
    DOMAIN_SIMILARITY,
    RELOCATION,
    TRANSLATION_AGREEMENT,
    TRANSLATION_CONFUSION,
    TRANSLATION_QUALITY,
    TRANSLATOR_QUALITY,
)
from psibench.tables.spec import POOLED, TableSpec
from psibench.tables.summary_schemas import (
    LANGUAGE_AVERAGES,
    LEADERBOARDS,
    MITIGATIONS,
    POSITION_TREND,
)
from psibench.text.query_types import QUERY_TYPES
from psibench.translate.quality import ANNOTATOR_MEAN, DIMENSIONS, GRADES, OVERALL

STACKED: Mapping[str, TableSpec] = {"relocation": RELOCATION, "similarity": DOMAIN_SIMILARITY}
SINGLE: Mapping[str, TableSpec] = {
    "quality": TRANSLATION_QUALITY,
    "agreement": TRANSLATION_AGREEMENT,
    "confusion": TRANSLATION_CONFUSION,
    "translators": TRANSLATOR_QUALITY,
}
SUMMARY_TABLES: Mapping[str, TableSpec] = {
    "position_trend": POSITION_TREND,
    "language_averages": LANGUAGE_AVERAGES,
    "leaderboards": LEADERBOARDS,
    "mitigations": MITIGATIONS,
}
POSIR_RECIPES = ("posir", "posir_release")


@dataclass(frozen=True)
class LanguageFacts:
    """The languages and domains of one benchmark, as far as known: rows of the tables above."""

    benchmark: str
    relocation: pl.DataFrame | None = None
    similarity: pl.DataFrame | None = None
    quality: pl.DataFrame | None = None
    agreement: pl.DataFrame | None = None
    confusion: pl.DataFrame | None = None
    translators: pl.DataFrame | None = None


@dataclass(frozen=True)
class Summaries:
    """Tables over all benchmarks: rows of POSITION_TREND, LANGUAGE_AVERAGES and so on."""

    position_trend: pl.DataFrame | None = None
    language_averages: pl.DataFrame | None = None
    leaderboards: pl.DataFrame | None = None
    mitigations: pl.DataFrame | None = None


def read_languages(files: Sequence[Mapping[str, Any]]) -> list[LanguageFacts]:
    """Read what is known of benchmarks' languages and domains.

    ``files`` are plain data as `psibench.plan.summaries.language_files` gives them.
    """
    return [
        LanguageFacts(
            one["benchmark"],
            **{name: read_all(one[name], spec) for name, spec in STACKED.items() if name in one},
            **{name: read_table(one[name], spec) for name, spec in SINGLE.items() if name in one},
        )
        for one in files
    ]


def read_summaries(paths: Mapping[str, str | Path]) -> Summaries:
    """Read the tables over all benchmarks, as far as given by name."""
    return Summaries(**{name: read_table(paths[name], SUMMARY_TABLES[name]) for name in paths})


# --- what a benchmark holds by language and domain, as in PosIR's Tables 4 to 6 and Figure 6

Values = Mapping[str, float]
Statistics = Mapping[tuple[str, str], Values]
"""(language, domain) -> name of a statistic -> value."""
TOKENS = ("min", "q1", "median", "q3", "max", "mean")
QUARTILES = frozenset({"q1", "median", "q3"})
SIZE_HEADER = ("documents", "share", "queries", "share")
PUBLISHED_COLUMNS = {"eng": "english", "cmn": "chinese", "zho": "chinese"}
LANGUAGE_NOTE = (
    "To first: mean length beside that of the first language. Quartiles of all languages together "
    "are not computed."
)
TYPE_NOTE = (
    "By the interrogative a query opens with; in Chinese by its first one. CLAIM: asks nothing. "
    "OTHERS: yes/no questions, requests, and questions without an interrogative. The paper's "
    "keyword lists are not published, so ours are others."
)
SHIFT_NOTE = (
    "Found: queries whose evidence was found again in the translation. Shift: how far its relative "
    "position moved, as a share of the document's length; 0.05 is one of twenty bins. Where "
    "sentences were aligned, the whole sentences on both sides are compared."
)
SIMILARITY_NOTE = "Cosine of the means of the domains' document vectors."


def language_blocks(
    statistics: pl.DataFrame, info: BenchmarkInfo, facts: LanguageFacts
) -> list[Block]:
    """Return the tables and figures of a benchmark's languages and domains.

    ``statistics`` are STATISTICS rows of any benchmarks; the order of languages and domains is
    kept. Only what there is something to say about: no table of one language or of one domain. Of
    several figures all but one are folded.
    """
    found: dict[tuple[str, str], dict[str, float]] = {}
    columns = ("language", "domain", "statistic", "value")
    mine = statistics.filter(benchmark=info.id).select(columns)
    for language, domain, name, value in mine.iter_rows():
        found.setdefault((language, domain), {})[name] = value
    blocks: list[Block] = []
    if len({language for language, _ in found}) > 1:
        blocks.append(_language_table(found))
    if len({domain for _, domain in found} - {POOLED}) > 1:
        blocks.append(_domain_table(found))
    types = _query_type_table(found, has_published=info.recipe in POSIR_RECIPES)
    blocks += [] if types is None else [types]
    if facts.relocation is not None and facts.relocation.height:
        blocks.append(_relocation_table(facts.relocation))
    if facts.similarity is not None:
        figures = _similarity_figures(facts.similarity.filter(benchmark=info.id), info.id)
        blocks += [replace(one, is_folded=place > 0) for place, one in enumerate(figures)]
    return blocks


def _language_table(found: Statistics) -> Table:
    """Return a row per language, as PosIR's Table 4, and their mean length beside the first's."""
    pooled = _by_language(found)
    together = _together(list(pooled.values()))
    first = next(iter(pooled.values())).get("passage_tokens_mean")
    rows = []
    for language, values in [*pooled.items(), (POOLED, together)]:
        mean = values.get("passage_tokens_mean") if language != POOLED else None
        ratio = MISSING if not first or mean is None else f"{mean / first:.2f}"
        rows.append((language, *_sizes(values, together), *_tokens(values, TOKENS), ratio))
    return _size_table(
        "Languages", "language", rows, TOKENS, note=LANGUAGE_NOTE, more=("to first",)
    )


def _domain_table(found: Statistics) -> Table:
    """Return a row per domain, as PosIR's Table 5.

    Documents and queries of several languages are added up; quartiles are in the table of one.
    """
    languages = _by_language(found)
    merged = {}
    for domain in dict.fromkeys(domain for _, domain in found if domain != POOLED):
        merged[domain] = _together(
            [found[one, domain] for one in languages if (one, domain) in found]
        )
    merged[POOLED] = _together(list(languages.values()))
    if len(languages) == 1:
        merged = {domain: values for (_, domain), values in found.items() if domain != POOLED}
        (merged[POOLED],) = languages.values()
    shown = [name for name in TOKENS if len(languages) == 1 or name not in QUARTILES]
    rows = [
        (domain, *_sizes(values, merged[POOLED]), *_tokens(values, shown))
        for domain, values in merged.items()
    ]
    note = f"Together: {', '.join(languages)}." if len(languages) > 1 else ""
    return _size_table("Domains", "domain", rows, shown, note=note)


def _size_table(
    title: str,
    what: str,
    rows: Sequence[tuple[str, ...]],
    tokens: Sequence[str],
    *,
    note: str,
    more: tuple[str, ...] = (),
) -> Table:
    names = [{"q1": "Q1", "q3": "Q3"}.get(name, name) for name in tokens]
    groups = (("", 1), ("size", 4), ("tokens per document", len(names) + len(more)))
    header = (what, *SIZE_HEADER, *names, *more)
    return Table(title, header, tuple(rows), n_names=1, groups=groups, note=note)


def _query_type_table(found: Statistics, *, has_published: bool) -> Table | None:
    """Return queries by type, as PosIR's Table 6; None without English or Chinese queries."""
    marker = f"{QUERY_TYPE_PREFIX}{QUERY_TYPES[0]}"
    whole = _by_language(found)
    typed = {language: values for language, values in whole.items() if marker in values}
    if not typed:
        return None
    columns: list[str] = []
    known: dict[str, dict[str, Any]] = {}
    if has_published:
        columns = list(dict.fromkeys(PUBLISHED_COLUMNS[name.partition("-")[0]] for name in typed))
        known = {row["query_type"]: row for row in read_published("posir_table6").rows.to_dicts()}
    rows = []
    for kind in QUERY_TYPES:
        cells = []
        for values in typed.values():
            n, total = values[f"{QUERY_TYPE_PREFIX}{kind}"], values["n_queries"]
            cells += [count(n), percent(n / total if total else None, 2)]
        rows.append((kind, *cells, *(percent(known[kind][name], 2) for name in columns)))
    groups = [("", 1), *((language, 2) for language in typed)]
    groups += [("published: PosIR, table 6", len(columns))] if columns else []
    header = ("type", *("queries", "share") * len(typed), *columns)
    return Table("What queries ask", header, tuple(rows), 1, tuple(groups), TYPE_NOTE)


def _by_language(found: Statistics) -> dict[str, Values]:
    """Return the statistics of each language: the pooled ones, or those of its first domain."""
    whole: dict[str, Values] = {}
    for (language, domain), values in found.items():
        if domain == POOLED or language not in whole:
            whole[language] = values
    return whole


def _together(rows: Sequence[Values]) -> Values:
    """Add up sizes; lengths over the documents of all, quartiles left out."""
    sized = [row for row in rows if row["n_passages"]]
    merged = {name: sum(row[name] for row in rows) for name in ("n_passages", "n_queries")}
    if not sized:
        return merged
    total = sum(row["passage_tokens_mean"] * row["n_passages"] for row in sized)
    lowest = [row["passage_tokens_min"] for row in sized if "passage_tokens_min" in row]
    return merged | {
        **({"passage_tokens_min": min(lowest)} if len(lowest) == len(sized) else {}),
        "passage_tokens_max": max(row["passage_tokens_max"] for row in sized),
        "passage_tokens_mean": total / merged["n_passages"],
    }


def _sizes(values: Values, whole: Values) -> tuple[str, ...]:
    cells: list[str] = []
    for name in ("n_passages", "n_queries"):
        share = values[name] / whole[name] if whole[name] else None
        cells += [count(values[name]), percent(share, 2)]
    return tuple(cells)


def _tokens(values: Values, names: Sequence[str]) -> tuple[str, ...]:
    found = ((name, values.get(f"passage_tokens_{name}")) for name in names)
    return tuple(
        MISSING if value is None else f"{value:,.1f}" if name == "mean" else f"{value:,.0f}"
        for name, value in found
    )


def _relocation_table(relocation: pl.DataFrame) -> Table:
    """Return how often and how far from its place evidence was found again, by language.

    Of a language with pooled domains only these are shown.
    """
    is_pooled = pl.col("domain") == POOLED
    shown = relocation.filter(is_pooled | ~is_pooled.any().over("language"))
    rows = tuple(
        (
            row["language"],
            "all methods" if row["method"] == POOLED else row["method"],
            *(count(row[name]) for name in ("n_queries", "n_located")),
            percent(row["share_located"]),
            number(row["median_shift"]),
            percent(row["share_within_0.05"]),
        )
        for row in shown.iter_rows(named=True)
    )
    header = ("language", "method", "queries", "found", "share", "median shift", "shift ≤ 0.05")
    return Table("Does position survive translation?", header, rows, note=SHIFT_NOTE)


def _similarity_figures(similarity: pl.DataFrame, benchmark: str) -> list[FigureView]:
    """Return a heat map of domains per model and two languages, as PosIR's Figure 6.

    The first language is below the diagonal, the second, if there is one, above. Fewer than two
    domains give none.
    """
    figures = []
    columns = ("language", "domain_a", "domain_b", "cosine")
    for (model,), rows in similarity.group_by("model", maintain_order=True):
        languages = rows["language"].unique(maintain_order=True).to_list()
        for pair in (languages[i : i + 2] for i in range(0, len(languages), 2)):
            mine = rows.filter(pl.col("language").is_in(pair))
            domains = mine["domain_a"].unique(maintain_order=True).to_list()
            if len(domains) < 2:
                continue
            cosines = {tuple(key): value for *key, value in mine.select(columns).iter_rows()}
            sides = [pair[0], None, *pair[1:], None]  # below the diagonal, on it, above it
            values = [
                [cosines.get((sides[(j >= i) + (j > i)], a, b)) for j, b in enumerate(domains)]
                for i, a in enumerate(domains)
            ]
            above = f" Above: {pair[1]}." if len(pair) > 1 else ""
            said = f"{SIMILARITY_NOTE} Below the diagonal: {pair[0]}.{above} Model: {model}."
            about = slug("similarity", benchmark, str(model), *pair), "Similarity of domains", said
            drawn = (domains, domains, values)
            figures.append(_heat_map(*about, "domain", *drawn, shown=number))
    return figures


def _heat_map(
    anchor: str,
    title: str,
    caption: str,
    what: str,
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float | None]],
    *,
    shown: Callable[[float | None], str],
) -> FigureView:
    """Return a heat map with its numbers as ``shown``; ``what`` says what its rows are."""
    return FigureView.drawn(
        draw_heat_map(rows, columns, values),
        anchor,
        title,
        caption,
        css="exact",
        header=(what, *columns),
        rows=tuple((name, *map(shown, own)) for name, own in zip(rows, values, strict=True)),
    )


# --- how good translations are

ALL_TEXTS = {"language": "all languages", "domain": "all domains"}
ANNOTATORS = {POOLED: "each", ANNOTATOR_MEAN: "mean of a document's"}
QUALITY_NOTE = (
    "Mean grades by a language model, 1 (poor) to 5 (flawless), without a reference translation; "
    "overall is the mean of the four. Q1 to Q4: sources of up to 512, 1,024, 1,536 and more tokens."
)
AGREEMENT_NOTE = (
    "Pairs: a person's grade and the language model's of the same document. Within 1: at most one "
    "apart. MAE: mean absolute difference. Unmatched grades by people are not compared."
)
TRANSLATORS_NOTE = (
    "Every translator on the same sample of the source, graded by the same judge, as replied: "
    "nothing is cleaned before. Not graded: documents that it left without a translation, or the "
    "judge without a usable grade; they are in no mean. PosIR's own: its table 7."
)
CONFUSION_NOTE = "Pairs of grades, and below the share of the pairs with that grade by a person."


def quality_blocks(facts: LanguageFacts) -> list[Block]:
    """Return the tables and heat maps of a benchmark's translations; none without grades."""
    quality = facts.quality
    if quality is None or quality.is_empty():
        return []
    blocks: list[Block] = [_quality_table(quality)]
    whole = quality.filter(length_bin=POOLED)
    for table, rows, columns, title in (
        (whole.filter(domain=POOLED), "language", "dimension", "Grades by language"),
        (
            whole.filter(dimension=OVERALL),
            *("domain", "language", "Overall grade by domain and language"),
        ),
    ):
        down, across = (
            table[side].unique(maintain_order=True).to_list() for side in (rows, columns)
        )
        if min(len(set(side) - {POOLED}) for side in (down, across)) < 2:
            continue
        cells = {(a, b): mean for a, b, mean in table.select(rows, columns, "mean").iter_rows()}
        values = [[cells.get((a, b)) for b in across] for a in down]
        shown_down, shown_across = (
            [ALL_TEXTS.get(side, POOLED) if name == POOLED else name for name in found]
            for side, found in ((rows, down), (columns, across))
        )
        caption = f"Mean grade by {rows} and {columns}, 1 to 5."
        about = slug("quality", facts.benchmark, rows, columns), title, caption, rows
        drawn = (shown_down, shown_across, values)
        blocks.append(_heat_map(*about, *drawn, shown=_grade))
    if facts.translators is not None:
        blocks.append(_translator_table(facts.translators))
    if facts.agreement is not None and facts.agreement.height:
        blocks.append(_agreement_table(facts.agreement))
    if facts.confusion is not None and facts.confusion.height:
        blocks.append(_confusion_table(facts.confusion))
    return blocks


def _quality_table(quality: pl.DataFrame) -> Table:
    """Return a row per language: mean of every dimension, and the overall one by length."""
    whole = quality.filter(domain=POOLED)
    columns = ("language", "length_bin", "dimension", "n", "n_unjudged", "mean")
    cells = {row[:3]: row[3:] for row in whole.select(columns).iter_rows()}
    dimensions = (*DIMENSIONS, OVERALL)
    rows = []
    for language in whole["language"].unique(maintain_order=True):
        n, n_unjudged, _ = cells[language, POOLED, OVERALL]
        means = [cells[language, POOLED, name][2] for name in dimensions]
        means += [cells.get((language, b, OVERALL), (0, 0, None))[2] for b in LENGTH_BUCKETS]
        name = ALL_TEXTS["language"] if language == POOLED else language
        rows.append((name, count(n), count(n_unjudged), *map(_grade, means)))
    sizes = (("documents", 2), ("mean grade", len(dimensions)))
    return Table(
        "Quality of the translations",
        ("language", "graded", "not graded", *dimensions, *LENGTH_BUCKETS),
        tuple(rows),
        n_names=1,
        groups=(("", 1), *sizes, ("overall, by length", len(LENGTH_BUCKETS))),
        note=QUALITY_NOTE,
    )


def _translator_table(translators: pl.DataFrame) -> Table:
    """Return the translators side by side by language, as PosIR's Table 7."""
    whole = translators.filter(domain=POOLED, length_bin=POOLED)
    cells = {
        (row["language"], row["translator"], row["dimension"]): row
        for row in whole.iter_rows(named=True)
    }
    names, dimensions = (
        whole["translator"].unique(maintain_order=True).to_list(),
        (*DIMENSIONS, OVERALL),
    )
    rows = []
    for language in whole["language"].unique(maintain_order=True).to_list():
        shown = ALL_TEXTS["language"] if language == POOLED else language
        for name in names:
            found = [cells[language, name, dimension] for dimension in dimensions]
            sizes = (count(found[-1][n]) for n in ("n", "n_unjudged"))
            rows.append((shown, name, *sizes, *(_grade(one["mean"]) for one in found)))
    return Table(
        "Translators side by side",
        ("language", "translator", "graded", "not graded", *dimensions),
        tuple(rows),
        n_names=2,
        groups=(("", 2), ("documents", 2), ("mean grade", len(dimensions))),
        note=TRANSLATORS_NOTE,
    )


def _agreement_table(agreement: pl.DataFrame) -> Table:
    """Return how grades by people and by the language model agree, PosIR's Table 9 beside it.

    Published figures stand beside the same dimensions of all languages and annotators.
    """
    published = read_published("posir_table9").rows
    known = {row["dimension"]: row for row in published.iter_rows(named=True)}
    rows = []
    for row in agreement.iter_rows(named=True):
        is_whole = row["annotator"] == POOLED and row["language"] == POOLED
        theirs = known.get(row["dimension"]) if is_whole else None
        rows.append(
            (
                ALL_TEXTS["language"] if row["language"] == POOLED else row["language"],
                ANNOTATORS.get(row["annotator"], row["annotator"]),
                "the four together" if row["dimension"] == POOLED else row["dimension"],
                *(count(row[name]) for name in ("n", "n_unmatched")),
                percent(row["within_one"]),
                *(_grade(row[name]) for name in ("mae", "mean_human", "mean_llm")),
                percent(theirs["agreement"]) if theirs else MISSING,
                _grade(theirs["mae"]) if theirs else MISSING,
            )
        )
    header = ("language", "annotator", "dimension", "pairs", "unmatched", "within 1", "MAE")
    return Table(
        "Agreement with people",
        (*header, "people", "language model", "within 1", "MAE"),
        tuple(rows),
        n_names=3,
        groups=(("", 3), ("this run", 6), ("published: PosIR, table 9", 2)),
        note=AGREEMENT_NOTE,
    )


def _confusion_table(confusion: pl.DataFrame) -> Table:
    """Return the grades of all languages and dimensions, a row per grade by a person."""
    whole = confusion.filter(language=POOLED, dimension=POOLED)
    columns = ("human", "llm", "n", "share")
    cells = {(h, m): (n, share) for h, m, n, share in whole.select(columns).iter_rows()}
    rows = tuple(
        (str(human), *(f"{count(n)}\n{percent(s)}" for n, s in (cells[human, m] for m in GRADES)))
        for human in GRADES
    )
    return Table(
        "Grades by people and by the language model",
        ("by a person", *map(str, GRADES)),
        rows,
        n_names=1,
        groups=(("", 1), ("by the language model", len(GRADES))),
        note=CONFUSION_NOTE,
    )


def _grade(value: float | None) -> str:
    return MISSING if value is None else f"{value:.2f}"
