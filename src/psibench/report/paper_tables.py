"""Tables for papers in LaTeX and Markdown: a row per model, a column per bucket, mean and PSI.

The layout follows PosQ's table 1: means in percent with two decimals, PSI with three, models
under a heading per kind.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import polars as pl

from psibench.report.verdict import has_flag, is_control, shown_interval
from psibench.report.views import PAIR_COLUMN, TableRow
from psibench.report.wording import SCHEME_TEXTS
from psibench.tables.spec import ALL

Best = Literal["highest", "lowest"]
KIND_TEXTS = {
    "sparse": "Sparse models",
    "dense": "Dense models",
    "late-interaction": "Late-interaction models",
    "reranker": "Rerankers",
    "fusion": "Fused runs",
    "control": "Controls",
}
"""Heading above the models of a kind."""
NO_VALUE = "\N{EN DASH}"


@dataclass(frozen=True)
class PaperColumn:
    """A column of numbers under a group heading; ``best`` is the end of its range in bold."""

    group: str
    heading: str
    best: Best
    scale: int = 100
    decimals: int = 2


@dataclass(frozen=True)
class Number:
    """A value with its interval, not scaled; null if undefined. ``can_be_best``: may be bold."""

    value: float | None
    low: float | None = None
    high: float | None = None
    can_be_best: bool = True


@dataclass(frozen=True)
class PaperTable:
    """A table of a paper.

    ``rows`` have the heading above the row, the model's name and a `Number` per column.
    """

    caption: str
    label: str
    columns: tuple[PaperColumn, ...]
    rows: tuple[tuple[str, str, tuple[Number, ...]], ...]


def paper_tables(
    psi: pl.DataFrame, buckets: pl.DataFrame, *, equal_documents: bool = False
) -> list[PaperTable]:
    """Return a table for each benchmark and language pair.

    Models keep the order of the rows within their kind; controls are last and never bold. The PSI
    of a model that finds almost nothing is never bold.

    Parameters
    ----------
    psi, buckets
        PSI_TABLE and BUCKET_SCORES rows of one metric and of one scheme per benchmark. Only rows
        of all evidence, domains and lengths are used.
    equal_documents
        Show bucket means and PSI at equal documents instead of plain means and the published PSI.
    """
    prefix, name = ("same_", "psi_same") if equal_documents else ("", "psi")
    every = {"evidence": "all", "domain": ALL, "length_bucket": ALL}
    rows, by_pair = psi.filter(**every), ("benchmark", "query_lang", "corpus_lang")
    tables = []
    for (benchmark, query_lang, corpus_lang), mine in rows.group_by(by_pair, maintain_order=True):
        about = {"query_lang": query_lang, "corpus_lang": corpus_lang, "benchmark": benchmark}
        row = mine.row(0, named=True)
        metric, scheme = row["metric"], row["buckets"]
        cells = buckets.filter(**every, **about, metric=metric, buckets=scheme)
        order = cells.unique("bucket").sort("bucket_low", "bucket_high", "bucket")
        labels = order["bucket"].to_list()
        means = {(one["model"], one["bucket"]): one for one in cells.iter_rows(named=True)}
        columns = [PaperColumn("", label, "highest") for label in labels]
        columns += [PaperColumn("", "mean", "highest")]
        columns += [PaperColumn("", "PSI", "lowest", scale=1, decimals=3)]
        found = []
        for one in sorted(mine.to_dicts(), key=_kind_order):
            is_ranked = not is_control(one)
            ends = shown_interval(one, name)
            numbers = [
                _bucket_number(means.get((one["model"], label), {}), prefix, is_ranked)
                for label in labels
            ]
            numbers.append(Number(one["mean"], can_be_best=is_ranked))
            has_psi = is_ranked and not has_flag(one, "at_floor")
            numbers.append(Number(one[name], *ends, can_be_best=has_psi))
            kind = "control" if is_control(one) else one["kind"]
            found.append((KIND_TEXTS.get(kind, kind.capitalize()), one["model"], tuple(numbers)))
        pair = mine.select(PAIR_COLUMN).item(0, 0)
        where = benchmark if pair == "und" else f"{benchmark}, {pair}"
        kind_of_mean = "at equal documents" if equal_documents else "plain means"
        has_control = any(map(is_control, mine.to_dicts()))
        best = f"Bold: the best of a column{', without controls' if has_control else ''}."
        caption = (
            f"{metric} (in %) by {SCHEME_TEXTS.get(scheme, scheme)} ({kind_of_mean}) on {where}, "
            f"{row['n_queries']:,} queries. PSI: 1 \N{MINUS SIGN} lowest / highest of these means. "
            f"{best}"
        )
        label = label_of_names(benchmark, query_lang, corpus_lang, scheme)
        tables.append(PaperTable(caption, label, tuple(columns), tuple(found)))
    return tables


def label_of_names(*names: str) -> str:
    """Return a label for LaTeX: the names with hyphens instead of other characters."""
    return "-".join(re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-") for name in names if name)


def _kind_order(row: TableRow) -> int:
    kinds = [*KIND_TEXTS]
    kind = "control" if is_control(row) else row["kind"]
    return kinds.index(kind) if kind in kinds else len(kinds) - 2


def _bucket_number(cell: Mapping[str, float | None], prefix: str, is_ranked: bool) -> Number:
    mean, low, high = (cell.get(f"{prefix}{name}") for name in ("mean", "low", "high"))
    return Number(mean, low, high, is_ranked)


# --- Text


def _shown(value: float | None, column: PaperColumn) -> str:
    """Return a value as text without sign for a rounded zero; a dash for None."""
    if value is None:
        return NO_VALUE
    text = f"{value * column.scale:.{column.decimals}f}"
    return text.removeprefix("-") if not float(text) else text


def _best_texts(table: PaperTable) -> list[str | None]:
    """Return the printed best value of each column; None without values."""
    found: list[str | None] = []
    for place, column in enumerate(table.columns):
        texts = [
            _shown(one.value, column)
            for one in (numbers[place] for *_, numbers in table.rows)
            if one.can_be_best and one.value is not None
        ]
        choose = max if column.best == "highest" else min
        found.append(choose(texts, key=float) if len(texts) > 1 else None)
    return found


def _cells(
    numbers: Sequence[Number],
    table: PaperTable,
    *,
    bold: str,
    interval: str | None,
) -> list[str]:
    """Return the cells of a row; ``bold`` and ``interval`` are formats, None: no intervals."""
    cells = []
    for one, column, best in zip(numbers, table.columns, _best_texts(table), strict=True):
        text = _shown(one.value, column)
        is_best = one.can_be_best and text == best
        cell = bold.format(text) if is_best else text
        if interval is not None and one.low is not None and one.high is not None:
            cell += interval.format(_shown(one.low, column), _shown(one.high, column))
        cells.append(cell)
    return cells


def _sections(table: PaperTable) -> list[tuple[str, list[tuple[str, tuple[Number, ...]]]]]:
    """Return the rows under their headings; headings are empty if all rows have the same."""
    found = [
        (heading, [(name, numbers) for _, name, numbers in rows])
        for heading, rows in groupby(table.rows, key=lambda row: row[0])
    ]
    return found if len(found) > 1 else [("", rows) for _, rows in found]


def _groups(table: PaperTable) -> list[tuple[str, int]]:
    """Return the group headings with their numbers of columns."""
    return [(name, len([*some])) for name, some in groupby(one.group for one in table.columns)]


def _caption(table: PaperTable, intervals: bool) -> str:
    return table.caption + " Brackets: intervals over documents." * intervals


# --- LaTeX

LATEX_PREAMBLE = "% needs \\usepackage{booktabs}"
MOST_OF_A_COLUMN = 6
"""Largest number of columns of a table that is not set over both columns of a page."""
RANGE = re.compile(r"(?<=\d)-(?=\d)")
LATEX_ESCAPES = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\char34{}",
    "`": r"\char96{}",
    "[": "{[}",  # after \\ it would begin an option
    "]": "{]}",
    "*": "{*}",
    NO_VALUE: "--",
    "\N{EM DASH}": "---",
    "\N{MINUS SIGN}": "$-$",
    "\N{RIGHTWARDS ARROW}": r"$\rightarrow$",
    "\N{LEFT DOUBLE QUOTATION MARK}": "``",
    "\N{RIGHT DOUBLE QUOTATION MARK}": "''",
    "\N{INFINITY}": r"$\infty$",
    **{char: f"\\{char}" for char in "{}$&#_%"},
}
LIGATURES = re.compile(r"([-'?!,])(?=[-'\x60,])")
"""The first of two characters that LaTeX would print as one, e.g. two hyphens as a dash."""
UNPRINTED = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069]+")
"""White space, control characters and marks of text direction."""


def latex_text(text: str) -> str:
    """Escape a text for LaTeX; white space and control characters become one space.

    Other characters outside ASCII are kept; the document's font must have them (pdfLaTeX has fewer
    characters than XeLaTeX and LuaLaTeX).
    """
    text = UNPRINTED.sub(" ", text).strip()
    escaped = (LATEX_ESCAPES.get(char, char) for char in text)
    apart = {found.start() for found in LIGATURES.finditer(text)}
    return "".join(f"{one}{{}}" if i in apart else one for i, one in enumerate(escaped))


def latex(table: PaperTable, *, intervals: bool = False) -> str:
    """Return a table as LaTeX for the package booktabs; its label is ``tab:`` and the label."""
    groups, width = _groups(table), len(table.columns) + 1
    edges, start = [], 2
    for _, size in groups:
        edges.append((start, start + size - 1))
        start += size
    is_wide = len(table.columns) > MOST_OF_A_COLUMN
    floating = "table*" if is_wide else "table"
    lines = [
        LATEX_PREAMBLE,
        rf"\begin{{{floating}}}[t]",
        r"\centering",
        rf"\caption{{{latex_text(_caption(table, intervals))}}}",
        rf"\label{{tab:{table.label}}}",
        r"\smallskip",
        *([r"\footnotesize", r"\setlength{\tabcolsep}{3pt}"] if is_wide else []),
        *([r"\small"] if intervals and not is_wide else []),
        rf"\begin{{tabular}}{{l{'r' * len(table.columns)}}}",
        r"\toprule",
    ]
    if any(name for name, _ in groups):
        spans = [rf"\multicolumn{{{size}}}{{c}}{{{latex_text(name)}}}" for name, size in groups]
        lines.append(f" & {' & '.join(spans)} \\\\")
        lines += [rf"\cmidrule(lr){{{first}-{last}}}" for first, last in edges]
    headings = [RANGE.sub(NO_VALUE, one.heading) for one in table.columns]
    lines.append(_latex_row("Model", [latex_text(heading) for heading in headings]))
    for heading, rows in _sections(table):
        lines.append(r"\midrule")
        if heading:
            lines.append(rf"\multicolumn{{{width}}}{{l}}{{\emph{{{latex_text(heading)}}}}} \\")
        for name, numbers in rows:
            interval = r" {{\scriptsize[{}, {}]}}" if intervals else None
            cells = _cells(numbers, table, bold=r"\textbf{{{}}}", interval=interval)
            lines.append(_latex_row(name, [cell.replace(NO_VALUE, "--") for cell in cells]))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", rf"\end{{{floating}}}"])


def _latex_row(name: str, cells: Sequence[str]) -> str:
    return f"{' & '.join([latex_text(name), *cells])} \\\\"


# --- Markdown

MARKDOWN_SPECIAL = re.compile(r"([\\`*_\[\]<>|~&$])")


def markdown_text(text: str) -> str:
    """Escape a text for a cell of a Markdown table (GitHub's); white space becomes one space."""
    return MARKDOWN_SPECIAL.sub(r"\\\1", UNPRINTED.sub(" ", text).strip())


def markdown(table: PaperTable, *, intervals: bool = False) -> str:
    """Return a table as Markdown, under its caption; the heading of a kind is a row."""
    several = any(name for name, _ in _groups(table))
    headings = [
        f"{one.group}: {one.heading}" if several and one.group else one.heading
        for one in table.columns
    ]
    lines = [
        markdown_text(_caption(table, intervals)),
        "",
        _markdown_row(["Model", *map(markdown_text, headings)]),
        _markdown_row(["---", *["---:"] * len(headings)]),
    ]
    for heading, rows in _sections(table):
        if heading:
            lines.append(_markdown_row([f"*{markdown_text(heading)}*", *[""] * len(headings)]))
        for name, numbers in rows:
            interval = r" \[{}, {}\]" if intervals else None
            cells = _cells(numbers, table, bold="**{}**", interval=interval)
            lines.append(_markdown_row([markdown_text(name), *cells]))
    return "\n".join(lines)


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
