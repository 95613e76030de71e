"""Languages and domains: what a benchmark holds of each, and how good its translations are."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from psibench.metrics.buckets import LENGTH_BUCKETS
from psibench.metrics.statistics import QUERY_TYPE_PREFIX
from psibench.report.plots import draw_heat_map
from psibench.report.published import read_published
from psibench.report.tables import (
    Block,
    Columns,
    FigureView,
    Form,
    Table,
    figure_of,
    slug,
    table_of,
)
from psibench.report.views import BenchmarkInfo
from psibench.report.wording import MISSING, STATISTIC_TEXTS, count, percent
from psibench.tables.build_schemas import (
    RELOCATION,
    TRANSLATION_AGREEMENT,
    TRANSLATION_QUALITY,
    TRANSLATOR_QUALITY,
)
from psibench.tables.derived import read_all
from psibench.tables.schemas import DOMAIN_SIMILARITY
from psibench.tables.spec import POOLED, TableSpec
from psibench.text.query_types import QUERY_TYPES
from psibench.translate.quality import ANNOTATOR_MEAN, DIMENSIONS, OVERALL

LANGUAGE_SPECS: Mapping[str, TableSpec] = {
    "relocation": RELOCATION,
    "similarity": DOMAIN_SIMILARITY,
    "quality": TRANSLATION_QUALITY,
    "agreement": TRANSLATION_AGREEMENT,
    "translators": TRANSLATOR_QUALITY,
}
POSIR_RECIPES = ("posir", "posir_release")
Cells = dict[tuple[str, str], float | None]
"""(row, column) -> a value of a heat map."""
LanguageTables = Mapping[str, pl.DataFrame]
"""Rows of those tables of `LANGUAGE_SPECS` that a benchmark has, by name."""


def read_languages(files: Sequence[Mapping[str, Any]]) -> dict[str, LanguageTables]:
    """Read what is known of benchmarks' languages and domains, by benchmark.

    ``files`` are plain data as `psibench.plan.summaries.language_files` gives them.
    """
    return {
        one["benchmark"]: {
            name: read_all([one[name]] if isinstance(one[name], str) else one[name], spec)
            for name, spec in LANGUAGE_SPECS.items()
            if name in one
        }
        for one in files
    }


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
        blocks += [] if ratios is None else [replace(ratios, is_folded=True)]
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
    cells: Cells = {}
    for name in domains:
        if first := means.get((languages[0], name)):
            own = {(name, one): means.get((one, name)) for one in languages}
            cells |= {place: None if mean is None else mean / first for place, mean in own.items()}
    said = f"Mean tokens per document over those of {languages[0]}, by domain."
    return _heat_map(slug("ratio", benchmark), "Length beside the first language", said, cells)


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
    rows = relocation.filter(is_pooled | ~is_pooled.any().over("language"))
    shown: Columns = {
        "language": "language",
        "method": pl.col("method").replace(POOLED, "all methods"),
        "queries": "n_queries",
        "found": "n_located",
        "share": "share_located",
        "median shift": "median_shift",
        "shift ≤ 0.05": "share_within_0.05",
    }
    forms: dict[str, Form] = dict.fromkeys(("share", "shift ≤ 0.05"), percent)
    return table_of("Does position survive translation?", rows, shown, forms=forms, note=SHIFT_NOTE)


def _similarity_figures(similarity: pl.DataFrame, benchmark: str) -> list[FigureView]:
    """Return a heat map of domains per model and two languages, as PosIR's Figure 6.

    The first language is below the diagonal, the second, if there is one, above. Fewer than two
    domains give none.
    """
    figures = []
    for (model,), rows in similarity.group_by("model", maintain_order=True):
        domains = rows["domain_a"].unique(maintain_order=True).to_list()
        place = {name: number for number, name in enumerate(domains)}
        languages = rows["language"].unique(maintain_order=True).to_list()
        for pair in (languages[i : i + 2] for i in range(0, len(languages), 2)):
            cells: Cells = {(a, b): None for a in domains for b in domains}
            columns = ("language", "domain_a", "domain_b", "cosine")
            for language, a, b, cosine in rows.select(columns).iter_rows():
                if (
                    language in pair
                    and (place[a] > place[b], place[a] < place[b])[pair.index(language)]
                ):
                    cells[a, b] = cosine
            above = f" Above: {pair[1]}." if len(pair) > 1 else ""
            said = f"{SIMILARITY_NOTE} Below the diagonal: {pair[0]}.{above} Model: {model}."
            anchor = slug("similarity", benchmark, str(model), *pair)
            figure = _heat_map(anchor, "Similarity of domains", said, cells)
            figures += [] if figure is None else [figure]
    return figures


def _heat_map(anchor: str, title: str, caption: str, cells: Cells) -> FigureView | None:
    """Return a heat map with its numbers in the cells; None with fewer than two rows or columns."""
    rows, columns = (list(dict.fromkeys(place[side] for place in cells)) for side in (0, 1))
    if min(len(rows), len(columns)) < 2:
        return None
    drawn = draw_heat_map(rows, columns, [[cells.get((a, b)) for b in columns] for a in rows])
    return figure_of(drawn, anchor, title, caption, css="exact")


# --- how good translations are

FAMILIES = {
    **{"ara": "Semitic", "deu": "Germanic", "kor": "Koreanic", "rus": "Slavic"},
    **dict.fromkeys(("fra", "ita", "por", "spa"), "Romance"),
}
"""Family of a language by the first part of its name, those that PosIR was translated to."""
EVERY_LANGUAGE = pl.col("language").replace(POOLED, "all languages")
ANNOTATORS = {POOLED: "each", ANNOTATOR_MEAN: "mean of a document's"}
GRADED = (*DIMENSIONS, OVERALL)
GRADE: Form = "{:.2f}".format
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


def quality_blocks(tables: LanguageTables, benchmark: str) -> list[Block]:
    """Return the tables and heat maps of a benchmark's translations; none without grades."""
    quality = tables.get("quality")
    if quality is None or quality.is_empty():
        return []
    blocks: list[Block] = [_quality_table(quality)]
    for name, made in (("translators", _translator_blocks), ("agreement", _agreement_blocks)):
        if name in tables and tables[name].height:
            blocks += made(tables[name], benchmark)
    return blocks


def _graded(whole: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """Return documents graded and not, and the mean of every dimension, a row per key."""
    sizes = whole.filter(dimension=OVERALL).select(
        *keys, **{"documents|graded": "n", "documents|not graded": "n_unjudged"}
    )
    means = whole.select(*keys, "mean", dimension=pl.format("mean grade|{}", "dimension")).pivot(
        "dimension", index=list(keys), values="mean"
    )
    columns = [f"mean grade|{name}" for name in GRADED]
    found = sizes.join(means, on=keys, maintain_order="left")
    return found.select(*keys, "documents|graded", "documents|not graded", *columns)


def _quality_table(quality: pl.DataFrame) -> Table:
    """Return a row per language: mean of every dimension, and the overall one by length."""
    whole = quality.filter(domain=POOLED)
    graded = _graded(whole.filter(length_bin=POOLED), "language")
    overall = whole.filter(dimension=OVERALL).select("language", "length_bin", "mean")
    by_length = overall.pivot("length_bin", index="language", values="mean")
    lengths = [
        (pl.col(name) if name in by_length.columns else pl.lit(None, pl.Float64)).alias(
            f"overall, by length|{name}"
        )
        for name in LENGTH_BUCKETS
    ]
    shown = graded.join(by_length, on="language", maintain_order="left").select(
        EVERY_LANGUAGE, pl.col("^(documents|mean grade)[|].*$"), *lengths
    )
    title, forms = "Quality of the translations", dict.fromkeys(shown.columns[3:], GRADE)
    return table_of(title, shown, forms=forms, n_names=1, note=QUALITY_NOTE)


def _translator_blocks(translators: pl.DataFrame, benchmark: str) -> list[Block]:
    """Return the translators side by side by language, as PosIR's Table 7, and its Figure 7.

    The figure is the overall grade by translator and language family, the mean of its languages.
    """
    whole = translators.filter(domain=POOLED, length_bin=POOLED)
    by_language = whole.group_by("language", maintain_order=True)
    graded = _graded(pl.concat([own for _, own in by_language]), "language", "translator")
    table = table_of(
        "Translators side by side",
        graded.with_columns(EVERY_LANGUAGE),
        forms=dict.fromkeys(graded.columns[4:], GRADE),
        note=TRANSLATORS_NOTE,
    )
    family = pl.col("language").str.head(3).replace_strict(FAMILIES, default="other")
    overall = whole.filter(pl.col("language") != POOLED, dimension=OVERALL)
    by_family = overall.group_by("translator", family.alias("family"), maintain_order=True).agg(
        pl.col("mean").mean()
    )
    title = "Overall grade by translator and language family"
    said = "Mean over the languages of a family of the overall grade, 1 to 5; as PosIR's Figure 7."
    cells: Cells = {(name, of): mean for name, of, mean in by_family.iter_rows()}
    figure = _heat_map(slug("families", benchmark), title, said, cells)
    return [table] if figure is None else [table, figure]


def _agreement_blocks(agreement: pl.DataFrame, benchmark: str) -> list[Block]:
    """Return how grades by people and by the language model agree, PosIR's Table 9 beside it.

    Published figures stand beside the same dimensions of all languages and annotators. Then the
    mean grades of both by language and dimension, as PosIR's Figure 8 draws them.
    """
    published = read_published("posir_table9").rows.select(
        "dimension", published_within="agreement", published_mae="mae"
    )
    is_whole = (pl.col("annotator") == POOLED) & (pl.col("language") == POOLED)
    rows = agreement.with_columns(beside=pl.when(is_whole).then("dimension")).join(
        published, left_on="beside", right_on="dimension", how="left", maintain_order="left"
    )
    theirs = "published: PosIR, table 9"
    shown: Columns = {
        "language": EVERY_LANGUAGE,
        "annotator": pl.col("annotator").replace(ANNOTATORS),
        "dimension": pl.col("dimension").replace(POOLED, "the four together"),
        "this run|pairs": "n",
        "this run|unmatched": "n_unmatched",
        "this run|within 1": "within_one",
        "this run|MAE": "mae",
        "this run|people": "mean_human",
        "this run|language model": "mean_llm",
        f"{theirs}|within 1": "published_within",
        f"{theirs}|MAE": "published_mae",
    }
    forms = {name: percent if name.endswith("within 1") else GRADE for name in [*shown][5:]}
    name, note = "Agreement with people", AGREEMENT_NOTE
    table = table_of(name, rows, shown, forms=forms, n_names=3, note=note)
    of_language = agreement.filter(pl.col("language") != POOLED, annotator=POOLED)
    graders = {"mean_human": "people", "mean_llm": "language model"}
    cells: Cells = {
        (f"{row['language']}, {who}", row["dimension"]): row[name]
        for row in of_language.iter_rows(named=True)
        for name, who in graders.items()
        if row["dimension"] in DIMENSIONS
    }
    title = "Grades by people and by the language model, by language"
    said = "Mean grade of the same documents, 1 to 5; as PosIR's Figure 8."
    figure = _heat_map(slug("graders", benchmark), title, said, cells)
    return [table] if figure is None else [table, figure]
