"""Terminal text of the PSI table, its verdicts, span metrics and human labels."""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import IO

import polars as pl
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from psibench.metrics.constants import (
    FEWEST_BUCKET_GRADED,
    FEWEST_CLUSTERS,
    FEWEST_DOCUMENTS,
    FEWEST_GRADED,
    SIGNIFICANCE_LEVEL,
)
from psibench.report.text_table import TextForm, frame_lines
from psibench.report.verdict import (
    ASSUMPTION,
    CUT_OFF,
    NOT_TESTABLE,
    SENSITIVE,
    UNKNOWN_INPUT,
    VERDICT_LABELS,
    ModelVerdict,
    TableRow,
    cut_text,
    has_flag,
    has_unknown_input,
    shown_psi,
    verdicts,
)
from psibench.report.views import headline_metric, headlines
from psibench.report.wording import (
    SCHEME_TEXTS,
    interval,
    number_text,
    p_text,
    p_value,
    pair_text,
    percent,
)
from psibench.tables.spec import ALL

FORMS: dict[str, TextForm] = {"p": p_value}
WIDE = 200
"""Width of tables, characters, if the output is not a terminal."""
ISOLATES = str.maketrans("", "", "\u2068\u2069")
"""Removes the marks around names, which a terminal shows as boxes."""
STYLES = {SENSITIVE: "bold red", CUT_OFF: "bold yellow", NOT_TESTABLE: "dim"}
BY_PAIR = ("benchmark", "query_lang", "corpus_lang")


def print_glance(table: pl.DataFrame, file: Path | None, stream: IO[str] | None = None) -> None:
    """Print a row and a verdict for each model of a PSI table.

    The rows are over all domains and lengths, in each benchmark's leading language pair and first
    bucket scheme; a model's line names other schemes that disagree. Other language pairs, and
    benchmarks that are views of another one, have one line each. ``file`` is the path of the whole
    table; None if it was not written. ``stream`` receives the text, by default standard output.
    """
    console = Console(file=stream, highlight=False, markup=False, emoji=False)
    is_terminal = stream is None and sys.stdout.isatty()
    console.width = console.width if is_terminal else WIDE
    pooled = table.filter(domain=ALL, length_bucket=ALL, metric=headline_metric(table))
    is_first = pl.col("buckets") == pl.col("buckets").first().over("benchmark")
    rows, others = pooled.filter(is_first), pooled.filter(~is_first)
    leading = headlines(rows)
    shorter = []
    for (name, *pair), group in rows.group_by(BY_PAIR, maintain_order=True):
        is_leading = pair == [leading[name][side] for side in BY_PAIR[1:]]
        is_view = any(name.startswith(f"{other}-") for other in leading)
        of_others = others.filter(**dict(zip(BY_PAIR, (name, *pair), strict=True)))
        found = verdicts(group.to_dicts(), of_others.to_dicts())
        by_model = {row["model"]: row for row in group.filter(evidence="all").to_dicts()}
        title = _title(table, name, *pair)
        if is_leading and not is_view:
            scheme = group["buckets"][0]
            meaning = SCHEME_TEXTS.get(scheme)
            by = scheme if meaning is None else f"{scheme} ({meaning})"
            console.print(f"\n{title}: {group['metric'][0]} by {by}")
            for block in _verdict_tables(found, by_model, width=console.width):
                console.print(block)
        elif is_leading or not is_view:
            shorter.append(f"{title}: {_in_short(found, by_model)}")
    console.print(*(["", *shorter, ""] if shorter else [""]), sep="\n")
    if file is not None:
        console.print(f"Full results: {file}")


def glance_text(table: pl.DataFrame) -> str:
    """Return what `print_glance` prints, without spaces at the ends of lines."""
    stream = StringIO()
    print_glance(table, None, stream)
    return "\n".join(line.rstrip() for line in stream.getvalue().strip("\n").splitlines())


def span_lines(buckets: pl.DataFrame, psi: pl.DataFrame) -> Iterator[str]:
    """Yield the means of span metrics by position, in the first bucket scheme.

    Yields nothing without span metrics. ``buckets`` and ``psi`` are BUCKET_SCORES and PSI_TABLE of
    one benchmark; p is the adjusted one.
    """
    every = {"evidence": "all", "domain": ALL, "length_bucket": ALL}
    of_spans = pl.col("metric").str.starts_with("span-")
    row, scheme = ["metric", "model"], psi["buckets"].head(1).to_list()
    scores = buckets.filter(of_spans & pl.col("buckets").is_in(scheme) & (pl.col("n_queries") > 0))
    if scores.is_empty():
        return
    order = pl.col("metric").cast(pl.Enum(scores["metric"].unique(maintain_order=True)))
    wide = scores.filter(**every).pivot("bucket", index=row, values="mean")
    wide = wide.sort(order, maintain_order=True)
    p = psi.filter(pl.col("buckets").is_in(scheme), **every).select(*row, p="p_adjusted")
    yield "\nEvidence found in the first k chunks:"
    yield from frame_lines(wide.join(p, on=row, maintain_order="left"), FORMS, n_text=2)
    yield ""


def _title(table: pl.DataFrame, name: str, query_lang: str, corpus_lang: str) -> str:
    """Return the benchmark's name, with the language pair if it has several."""
    several = table.filter(benchmark=name).select(BY_PAIR).n_unique() > 1
    return f"{name}, {pair_text(query_lang, corpus_lang)}" if several else name


def _verdict_tables(
    found: Sequence[ModelVerdict], by_model: Mapping[str, TableRow], *, width: int
) -> Iterator[RenderableType]:
    """Yield a table of numbers and labels, its notes, and a table of the models' lines."""
    gap, is_narrow = 2 if width > 90 else 1, width < 80
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    table.add_column("\nmodel", overflow="fold", min_width=8 if is_narrow else None)
    for heading in ("\nmean", "PSI at equal\ndocuments", "\np", "p against\ncontrol", "\nin input"):
        table.add_column(heading, justify="right", no_wrap=not is_narrow)
    table.add_column()
    lines = Table.grid(padding=(0, 2, 0, 0))
    plain = set()
    for one in found:
        row, style = by_model[one.model], STYLES.get(one.label, "")
        name = "psi_same" if row["psi_same"] is not None or row["psi"] is None else "psi"
        plain |= {row["test"]} if name == "psi" else set()
        table.add_row(
            one.model,
            number_text(row["mean"]),
            shown_psi(row, name) + "*" * (name == "psi"),
            p_value(row["p_adjusted"]),
            p_value(row["p_control_adjusted"]),
            percent(row["seen"], 0),
            Text(one.label, style),
        )
        lines.add_row(Text(one.model, style), one.advice.translate(ISOLATES))
    yield table
    notes = []
    if plain:
        note = "* PSI of plain means, which mix position with document difficulty."
        tests_another = " Without an interval, p is from a test within documents."
        notes.append(note + tests_another * ("within" in plain))
    if any(one.label == SENSITIVE for one in found):
        notes.append(ASSUMPTION)
    if any(has_unknown_input(by_model[one.model], one.label) for one in found):
        notes.append(UNKNOWN_INPUT)
    yield "\n".join([*notes, ""]) if notes else ""
    yield lines


def _in_short(found: Sequence[ModelVerdict], by_model: Mapping[str, TableRow]) -> str:
    """Return the number of models per label, the largest PSI of tested models, the largest cut."""
    counts = Counter(one.label for one in found)
    text = ", ".join(f"{label}: {counts[label]}" for label in VERDICT_LABELS if counts[label])
    tested = [by_model[one.model] for one in found if one.label != NOT_TESTABLE]
    sizes = [(row["psi_same"], row["model"]) for row in tested if row["psi_same"] is not None]
    if sizes:
        size, model = max(sizes)
        text += f"; largest PSI {number_text(size)} ({model})"
    if any(has_flag(row, "few_clusters") for row in tested):
        text += "; only for these few clusters"
    if any(has_flag(row, "sections") for row in tested):
        text += "; only for these few documents"
    most = min(by_model.values(), key=lambda row: 1.0 if row["seen"] is None else row["seen"])
    return f"{text}; {cut} ({most['model']})" if (cut := cut_text(most)) else text


def format_labels(
    agreement: pl.DataFrame, corrected: pl.DataFrame, *, metric: str, scheme: str
) -> str:
    """Return text on the agreement of qrels and human grades, and on the corrected means.

    ``agreement`` and ``corrected`` are LABEL_AGREEMENT and CORRECTED_SCORES; the text shows one
    metric and one scheme.
    """
    every = agreement.row(by_predicate=pl.col("buckets") == ALL, named=True)
    placed = agreement.filter(pl.col("buckets") == scheme)
    ends = interval(every["agreement_low"], every["agreement_high"])
    kappa = "" if every["kappa"] is None else f" (Cohen's kappa {every['kappa']:.2f})"
    found = corrected.filter(pl.col("buckets").is_in([ALL, scheme]), metric=metric)
    n_graded = corrected.filter(pl.col("buckets") == ALL)["n_graded"][0]
    return "\n".join(
        [
            f"Labels: people graded {every['n_pairs']} pairs; the qrels agree on "
            f"{every['agreement']:.3f} {ends} of these{kappa}.",
            f"Agreement by {scheme}, for documents that hold the evidence:",
            *frame_lines(
                placed.select(
                    "bucket",
                    graded="n_pairs",
                    relevant="n_human_relevant",
                    agree="agreement",
                    interval=pl.concat_list("agreement_low", "agreement_high"),
                ),
                n_text=1,
            ),
            _agreement_by_position(placed["p_position"][0]),
            f"Estimated {metric} with human grades for all queries:",
            *frame_lines(
                found.select(
                    "model",
                    "bucket",
                    queries="n_queries",
                    graded="n_graded",
                    out="n_out",
                    mean="mean",
                    corrected="corrected",
                    interval=pl.concat_list("corrected_low", "corrected_high"),
                ),
                n_text=2,
            ),
            *_missing_corrections(n_graded, found),
        ]
    )


def _agreement_by_position(p: float | None) -> str:
    if p is None:
        return (
            "Agreement was not tested for a dependence on position: it is the same everywhere, or "
            f"there are fewer than {FEWEST_DOCUMENTS} documents or {FEWEST_CLUSTERS} clusters."
        )
    if p <= SIGNIFICANCE_LEVEL:
        return f"Agreement depends on where the evidence is ({p_text(p)})."
    return f"No evidence that agreement depends on where the evidence is ({p_text(p)})."


def _missing_corrections(n_graded: int, found: pl.DataFrame) -> Iterator[str]:
    if n_graded < FEWEST_GRADED:
        yield f"No corrected values: {n_graded} queries are graded, {FEWEST_GRADED} are needed."
    elif found["corrected"].null_count():
        yield f"-: fewer than {FEWEST_BUCKET_GRADED} queries graded, or no relevant grade."
