"""Languages and domains: what a benchmark holds of each, and how good its translations are."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from psibench.metrics.buckets import LENGTH_BUCKETS
from psibench.metrics.statistics import QUERY_TYPE_PREFIX
from psibench.report.plots import draw_heat_map
from psibench.report.published import read_published
from psibench.report.tables import Block, FigureView, Table, each, slug, text_rows
from psibench.report.views import BenchmarkInfo
from psibench.report.wording import (
    MISSING,
    STATISTIC_TEXTS,
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

LANGUAGE_SPECS: Mapping[str, TableSpec] = {
    "relocation": RELOCATION,
    "similarity": DOMAIN_SIMILARITY,
    "quality": TRANSLATION_QUALITY,
    "agreement": TRANSLATION_AGREEMENT,
    "confusion": TRANSLATION_CONFUSION,
    "translators": TRANSLATOR_QUALITY,
}
SUMMARY_SPECS: Mapping[str, TableSpec] = {
    "position_trend": POSITION_TREND,
    "language_averages": LANGUAGE_AVERAGES,
    "leaderboards": LEADERBOARDS,
    "mitigations": MITIGATIONS,
}
POSIR_RECIPES = ("posir", "posir_release")
LanguageTables = Mapping[str, pl.DataFrame]
"""Rows of those tables of `LANGUAGE_SPECS` that a benchmark has, by name."""


def read_languages(files: Sequence[Mapping[str, Any]]) -> dict[str, LanguageTables]:
    """Read what is known of benchmarks' languages and domains, by benchmark.

    ``files`` are plain data as `psibench.plan.summaries.language_files` gives them.
    """
    return {
        one["benchmark"]: {
            name: read_all([paths] if isinstance(paths, str) else paths, LANGUAGE_SPECS[name])
            for name, paths in one.items()
            if name != "benchmark"
        }
        for one in files
    }


def read_summaries(paths: Mapping[str, str | Path]) -> dict[str, pl.DataFrame]:
    """Read the tables over all benchmarks, as far as given by name."""
    return {name: read_table(path, SUMMARY_SPECS[name]) for name, path in paths.items()}


# --- what a benchmark holds by language and domain, as in PosIR's Tables 4 to 6 and Figure 6

Values = Mapping[str, float]
Statistics = Mapping[tuple[str, str], Values]
"""(language, domain) -> name of a statistic -> value."""
TOKENS = ("min", "q1", "median", "q3", "max", "mean")
QUARTILES = frozenset({"q1", "median", "q3"})
PUBLISHED_COLUMNS = {"eng": "english", "cmn": "chinese", "zho": "chinese"}
SIZED = {"squad_posq": "squad", "fineweb_posq": "fineweb", "fineweb_posq_release": "fineweb"}
SIZE_TABLES = ("posq_table2", "myopic_table2")
SIZES_NOTE = (
    "Words are split on one space. The papers differ on the same 13,902 passages, and PosQ's count "
    "of the tiny subset's last bucket cannot be: docs/papers.md."
)
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
    statistics: pl.DataFrame, info: BenchmarkInfo, tables: LanguageTables
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
    whole = _by_language(found)
    domains = dict.fromkeys(domain for _, domain in found if domain != POOLED)
    blocks: list[Block] = _sizes_beside(whole, info)
    if len(whole) > 1:
        rows = whole | {POOLED: _together(list(whole.values()))}
        blocks.append(_size_table("Languages", rows, TOKENS, LANGUAGE_NOTE, beside_first=True))
    if len(domains) > 1 and len(whole) == 1:
        rows = {domain: found[language, domain] for language in whole for domain in domains}
        (rows[POOLED],) = whole.values()
        blocks.append(_size_table("Domains", rows, TOKENS))
    elif len(domains) > 1:
        rows = {
            domain: _together([found[one, domain] for one in whole if (one, domain) in found])
            for domain in domains
        }
        rows[POOLED] = _together(list(whole.values()))
        tokens = [name for name in TOKENS if name not in QUARTILES]
        blocks.append(_size_table("Domains", rows, tokens, f"Together: {', '.join(whole)}."))
        ratios = _ratio_figure(found, domains, info.id)
        blocks += [] if ratios is None else [ratios]
    types = _query_type_table(whole, has_published=info.recipe in POSIR_RECIPES)
    blocks += [] if types is None else [types]
    if "relocation" in tables and tables["relocation"].height:
        blocks.append(_relocation_table(tables["relocation"]))
    if "similarity" in tables:
        figures = _similarity_figures(tables["similarity"].filter(benchmark=info.id), info.id)
        blocks += [replace(one, is_folded=place > 0) for place, one in enumerate(figures)]
    return blocks


def _sizes_beside(whole: Mapping[str, Values], info: BenchmarkInfo) -> list[Block]:
    """Return a benchmark's sizes beside PosQ's and Myopic's Table 2; nothing where it is another's.

    The column of the full or of the tiny data is taken by the benchmark's subset.
    """
    data = SIZED.get(info.recipe)
    if data is None or not whole:
        return []
    own = next(iter(whole.values()))
    column = f"{data}_{info.subset.lower() or 'full'}"
    papers = [read_published(name) for name in SIZE_TABLES]
    printed = [dict(one.texts.select("statistic", column).iter_rows()) for one in papers]
    rows = []
    for name in printed[0]:
        theirs = [
            f"{int(text):,}" if text.isdigit() else text for text in (d[name] for d in printed)
        ]
        if any(theirs):
            what = STATISTIC_TEXTS.get(name, name.replace("bucket:", "queries: "))
            mine = MISSING if name not in own else count(own[name])
            rows.append((what, mine, *(text or MISSING for text in theirs)))
    groups = (("", 1), ("this run", 1), *((one.source, 1) for one in papers))
    header = ("", "", *[column.replace("_", ", ")] * len(papers))
    return [Table("Sizes beside the published ones", header, tuple(rows), 1, groups, SIZES_NOTE)]


def _size_table(
    title: str,
    rows: Mapping[str, Values],
    tokens: Sequence[str],
    note: str = "",
    *,
    beside_first: bool = False,
) -> Table:
    """Return documents, queries and lengths by language or domain, as PosIR's Tables 4 and 5.

    Shares are of the row `all`. Of several languages or domains together there are no quartiles.
    """
    first = next(iter(rows.values())).get("passage_tokens_mean")
    lines = []
    for name, values in rows.items():
        cells = [name]
        for size in ("n_passages", "n_queries"):
            total = rows[POOLED][size]
            cells += [count(values[size]), percent(values[size] / total if total else None, 2)]
        cells.append(_tokens(values.get("query_tokens_mean")))
        lengths = {token: values.get(f"passage_tokens_{token}") for token in tokens}
        cells += [
            f"{n:,.0f}" if n is not None and token != "mean" else _tokens(n)
            for token, n in lengths.items()
        ]
        mean = lengths["mean"] if name != POOLED else None
        ratio = MISSING if not first or mean is None else f"{mean / first:.2f}"
        lines.append((*cells, *[ratio] * beside_first))
    names = [*({"q1": "Q1", "q3": "Q3"}.get(n, n) for n in tokens), *["to first"] * beside_first]
    groups = (("", 1), ("size", 4), ("tokens per query", 1), ("tokens per document", len(names)))
    header = (title.lower()[:-1], "documents", "share", "queries", "share", "mean", *names)
    return Table(title, header, tuple(lines), n_names=1, groups=groups, note=note)


def _tokens(mean: float | None) -> str:
    return MISSING if mean is None else f"{mean:,.1f}"


def _ratio_figure(found: Statistics, domains: Iterable[str], benchmark: str) -> FigureView | None:
    """Return mean length by domain and language over the first language's, PosIR's Tables 13-43.

    None where a domain or the first language is alone.
    """
    languages = list(dict.fromkeys(language for language, _ in found))
    means = {place: values.get("passage_tokens_mean") for place, values in found.items()}
    rows = [name for name in domains if means.get((languages[0], name))]
    if len(languages) < 2 or len(rows) < 2:
        return None

    def ratio(language: str, domain: str) -> float | None:
        mean, first = means.get((language, domain)), means[languages[0], domain]
        return None if mean is None or first is None else mean / first

    values = [[ratio(language, name) for language in languages] for name in rows]
    said = f"Mean tokens per document over those of {languages[0]}, by domain."
    anchor = slug("ratio", benchmark)
    drawn = (rows, languages, values)
    figure = _heat_map(
        anchor, "Length beside the first language", said, "domain", *drawn, shown=_grade
    )
    return replace(figure, is_folded=True)


def _query_type_table(whole: Mapping[str, Values], *, has_published: bool) -> Table | None:
    """Return queries by type, as PosIR's Table 6; None without English or Chinese queries."""
    marker = f"{QUERY_TYPE_PREFIX}{QUERY_TYPES[0]}"
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
    asked = [row for row in rows if "query_tokens_mean" in row]
    if asked:
        tokens = sum(row["query_tokens_mean"] * row["n_queries"] for row in asked)
        merged["query_tokens_mean"] = tokens / sum(row["n_queries"] for row in asked)
    if not sized:
        return merged
    lowest = [row["passage_tokens_min"] for row in sized if "passage_tokens_min" in row]
    if len(lowest) == len(sized):
        merged["passage_tokens_min"] = min(lowest)
    merged["passage_tokens_max"] = max(row["passage_tokens_max"] for row in sized)
    total = sum(row["passage_tokens_mean"] * row["n_passages"] for row in sized)
    return merged | {"passage_tokens_mean": total / merged["n_passages"]}


def _relocation_table(relocation: pl.DataFrame) -> Table:
    """Return how often and how far from its place evidence was found again, by language.

    Of a language with pooled domains only these are shown.
    """
    is_pooled = pl.col("domain") == POOLED
    rows = text_rows(
        relocation.filter(is_pooled | ~is_pooled.any().over("language")),
        "language",
        lambda row: "all methods" if row["method"] == POOLED else row["method"],
        *each(count, "n_queries", "n_located"),
        *each(percent, "share_located"),
        *each(number, "median_shift"),
        *each(percent, "share_within_0.05"),
    )
    header = ("language", "method", "queries", "found", "share", "median shift", "shift ≤ 0.05")
    return Table("Does position survive translation?", header, rows, note=SHIFT_NOTE)


def _similarity_figures(similarity: pl.DataFrame, benchmark: str) -> list[FigureView]:
    """Return a heat map of domains per model and two languages, as PosIR's Figure 6.

    The first language is below the diagonal, the second, if there is one, above. Fewer than two
    domains give none.
    """
    figures = []
    for (model,), rows in similarity.group_by("model", maintain_order=True):
        languages = rows["language"].unique(maintain_order=True).to_list()
        for pair in (languages[i : i + 2] for i in range(0, len(languages), 2)):
            mine = rows.filter(pl.col("language").is_in(pair))
            domains = mine["domain_a"].unique(maintain_order=True).to_list()
            if len(domains) < 2:
                continue
            keys = ("language", "domain_a", "domain_b")
            cosines = mine.rows_by_key(keys, named=True, unique=True)
            sides = [pair[0], None, *pair[1:], None]  # below the diagonal, on it, above it
            values = [
                [
                    cosines.get((sides[(j >= i) + (j > i)], a, b), {}).get("cosine")
                    for j, b in enumerate(domains)
                ]
                for i, a in enumerate(domains)
            ]
            above = f" Above: {pair[1]}." if len(pair) > 1 else ""
            said = f"{SIMILARITY_NOTE} Below the diagonal: {pair[0]}.{above} Model: {model}."
            anchor = slug("similarity", benchmark, str(model), *pair)
            drawn = (domains, domains, values)
            figures.append(
                _heat_map(anchor, "Similarity of domains", said, "domain", *drawn, shown=number)
            )
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

FAMILIES = {
    **{"ara": "Semitic", "deu": "Germanic", "kor": "Koreanic", "rus": "Slavic"},
    **dict.fromkeys(("fra", "ita", "por", "spa"), "Romance"),
}
"""Family of a language by the first part of its name, those that PosIR was translated to."""
ALL_TEXTS = {"language": "all languages", "domain": "all domains"}
ANNOTATORS = {POOLED: "each", ANNOTATOR_MEAN: "mean of a document's"}
GRADED = (*DIMENSIONS, OVERALL)
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


def quality_blocks(tables: LanguageTables, benchmark: str) -> list[Block]:
    """Return the tables and heat maps of a benchmark's translations; none without grades."""
    quality = tables.get("quality")
    if quality is None or quality.is_empty():
        return []
    blocks: list[Block] = [_quality_table(quality)]
    whole = quality.filter(length_bin=POOLED)
    by_domain = "Overall grade by domain and language"
    for table, rows, columns, title in (
        (whole.filter(domain=POOLED), "language", "dimension", "Grades by language"),
        (whole.filter(dimension=OVERALL), "domain", "language", by_domain),
    ):
        cells = {(a, b): mean for a, b, mean in table.select(rows, columns, "mean").iter_rows()}
        down, across = (dict.fromkeys(side) for side in zip(*cells, strict=True))
        if min(len(side.keys() - {POOLED}) for side in (down, across)) < 2:
            continue
        names_down, names_across = (
            [ALL_TEXTS.get(side, POOLED) if name == POOLED else name for name in found]
            for side, found in ((rows, down), (columns, across))
        )
        drawn = names_down, names_across, [[cells.get((a, b)) for b in across] for a in down]
        caption = f"Mean grade by {rows} and {columns}, 1 to 5."
        anchor = slug("quality", benchmark, rows, columns)
        blocks.append(_heat_map(anchor, title, caption, rows, *drawn, shown=_grade))
    for name, made in (("translators", _translator_blocks), ("agreement", _agreement_blocks)):
        if name in tables and tables[name].height:
            blocks += made(tables[name], benchmark)
    if "confusion" in tables and tables["confusion"].height:
        blocks.append(_confusion_table(tables["confusion"]))
    return blocks


def _quality_table(quality: pl.DataFrame) -> Table:
    """Return a row per language: mean of every dimension, and the overall one by length."""
    whole = quality.filter(domain=POOLED)
    columns = ("language", "length_bin", "dimension", "n", "n_unjudged", "mean")
    cells = {row[:3]: row[3:] for row in whole.select(columns).iter_rows()}
    rows = []
    for language in whole["language"].unique(maintain_order=True):
        n, n_unjudged, _ = cells[language, POOLED, OVERALL]
        means = [cells[language, POOLED, name][2] for name in GRADED]
        means += [cells.get((language, b, OVERALL), (0, 0, None))[2] for b in LENGTH_BUCKETS]
        rows.append((_language(language), count(n), count(n_unjudged), *map(_grade, means)))
    sizes = (("documents", 2), ("mean grade", len(GRADED)))
    return Table(
        "Quality of the translations",
        ("language", "graded", "not graded", *GRADED, *LENGTH_BUCKETS),
        tuple(rows),
        n_names=1,
        groups=(("", 1), *sizes, ("overall, by length", len(LENGTH_BUCKETS))),
        note=QUALITY_NOTE,
    )


def _translator_blocks(translators: pl.DataFrame, benchmark: str) -> list[Block]:
    """Return the translators side by side by language, as PosIR's Table 7, and its Figure 7.

    The figure is the overall grade by translator and language family, the mean of its languages.
    """
    whole = translators.filter(domain=POOLED, length_bin=POOLED)
    cells = whole.rows_by_key(("language", "translator", "dimension"), named=True, unique=True)
    rows = []
    for language in whole["language"].unique(maintain_order=True):
        for name in whole["translator"].unique(maintain_order=True):
            found = [cells[language, name, dimension] for dimension in GRADED]
            sizes = (count(found[-1][n]) for n in ("n", "n_unjudged"))
            means = (_grade(one["mean"]) for one in found)
            rows.append((_language(language), name, *sizes, *means))
    table = Table(
        "Translators side by side",
        ("language", "translator", "graded", "not graded", *GRADED),
        tuple(rows),
        groups=(("", 2), ("documents", 2), ("mean grade", len(GRADED))),
        note=TRANSLATORS_NOTE,
    )
    family = pl.col("language").str.head(3).replace_strict(FAMILIES, default="other")
    overall = whole.filter(pl.col("language") != POOLED, dimension=OVERALL)
    by_family = overall.group_by("translator", family.alias("family"), maintain_order=True).agg(
        pl.col("mean").mean()
    )
    of_family = {(name, of): mean for name, of, mean in by_family.iter_rows()}
    names, families = (list(dict.fromkeys(side)) for side in zip(*of_family, strict=True))
    if min(len(names), len(families)) < 2:
        return [table]
    drawn = names, families, [[of_family.get((name, of)) for of in families] for name in names]
    title = "Overall grade by translator and language family"
    said = "Mean over the languages of a family of the overall grade, 1 to 5; as PosIR's Figure 7."
    anchor = slug("families", benchmark)
    return [table, _heat_map(anchor, title, said, "translator", *drawn, shown=_grade)]


def _agreement_blocks(agreement: pl.DataFrame, benchmark: str) -> list[Block]:
    """Return how grades by people and by the language model agree, PosIR's Table 9 beside it.

    Published figures stand beside the same dimensions of all languages and annotators. Then the
    mean grades of both by language and dimension, as PosIR's Figure 8 draws them.
    """
    published = read_published("posir_table9").rows.select(
        "dimension", published_within="agreement", published_mae="mae"
    )
    is_whole = (pl.col("annotator") == POOLED) & (pl.col("language") == POOLED)
    beside = pl.when(is_whole).then("dimension").alias("beside")
    rows = agreement.with_columns(beside).join(
        published, left_on="beside", right_on="dimension", how="left", maintain_order="left"
    )
    texts = text_rows(
        rows,
        lambda row: _language(row["language"]),
        lambda row: ANNOTATORS.get(row["annotator"]) or row["annotator"],
        lambda row: "the four together" if row["dimension"] == POOLED else row["dimension"],
        *each(count, "n", "n_unmatched"),
        *each(percent, "within_one"),
        *each(_grade, "mae", "mean_human", "mean_llm"),
        *each(percent, "published_within"),
        *each(_grade, "published_mae"),
    )
    header = ("language", "annotator", "dimension", "pairs", "unmatched", "within 1", "MAE")
    table = Table(
        "Agreement with people",
        (*header, "people", "language model", "within 1", "MAE"),
        texts,
        n_names=3,
        groups=(("", 3), ("this run", 6), ("published: PosIR, table 9", 2)),
        note=AGREEMENT_NOTE,
    )
    of_language = agreement.filter(pl.col("language") != POOLED, annotator=POOLED)
    graders = {"mean_human": "people", "mean_llm": "language model"}
    cells = {
        (f"{row['language']}, {who}", row["dimension"]): row[name]
        for row in of_language.iter_rows(named=True)
        for name, who in graders.items()
        if row["dimension"] in DIMENSIONS
    }
    if not cells:
        return [table]
    names = list(dict.fromkeys(name for name, _ in cells))
    values = [[cells.get((name, dimension)) for dimension in DIMENSIONS] for name in names]
    title = "Grades by people and by the language model, by language"
    said = "Mean grade of the same documents, 1 to 5; as PosIR's Figure 8."
    anchor = slug("graders", benchmark)
    drawn = (names, DIMENSIONS, values)
    return [table, _heat_map(anchor, title, said, "by", *drawn, shown=_grade)]


def _confusion_table(confusion: pl.DataFrame) -> Table:
    """Return the grades of all languages and dimensions, a row per grade by a person."""
    whole = confusion.filter(language=POOLED, dimension=POOLED)
    cells = {
        (human, llm): f"{count(n)}\n{percent(share)}"
        for human, llm, n, share in whole.select("human", "llm", "n", "share").iter_rows()
    }
    return Table(
        "Grades by people and by the language model",
        ("by a person", *map(str, GRADES)),
        tuple((str(human), *(cells[human, grade] for grade in GRADES)) for human in GRADES),
        n_names=1,
        groups=(("", 1), ("by the language model", len(GRADES))),
        note=CONFUSION_NOTE,
    )


def _language(name: str) -> str:
    return ALL_TEXTS["language"] if name == POOLED else name


def _grade(value: float | None) -> str:
    return MISSING if value is None else f"{value:.2f}"
