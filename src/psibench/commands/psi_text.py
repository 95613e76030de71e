"""The PSI table and what it says, as text for a terminal."""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from psibench.commands.text_table import Form, frame_lines
from psibench.metrics.constants import (
    FEWEST_BUCKET_GRADED,
    FEWEST_CLUSTERS,
    FEWEST_DOCUMENTS,
    FEWEST_GRADED,
)
from psibench.report.verdict import (
    ASSUMPTION,
    SCHEME_RULE,
    WORDS,
    Row,
    Verdict,
    cut_words,
    has_flag,
    shown_psi,
    verdicts,
)
from psibench.report.views import headline_metric, headlines
from psibench.report.wording import (
    ALPHA,
    interval,
    number,
    p_text,
    p_value,
    pair_text,
    percent,
)
from psibench.tables.spec import ALL

FORMS: dict[str, Form] = {"p": p_value}
WIDE = 200
"""Columns of tables where no terminal says how many it has."""
ISOLATES = str.maketrans("", "", "\u2068\u2069")
"""Marks around names that are for pages; a terminal shows them as boxes."""
STYLES = {"sensitive": "bold red", "truncation": "bold yellow", "not testable": "dim"}
BY_PAIR = ("benchmark", "query_lang", "corpus_lang")


def print_glance(table: pl.DataFrame, file: Path | None) -> None:
    """Print what a PSI table comes to: by model a row that ends in a word, and what to do.

    This is of the slices that a page leads with, by each benchmark's first bucket scheme; a model's
    line names other schemes that differ. Each other language pair is a line, and each
    benchmark that is a view of another one. Colour and width are the terminal's. ``file`` is where
    the whole table is; None where it is not kept.
    """
    console = Console(highlight=False, markup=False, emoji=False)
    console.width = console.width if sys.stdout.isatty() else WIDE
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
            console.print(f"\n{title}: {group['metric'][0]} by {group['buckets'][0]}")
            for block in _word_tables(found, by_model, width=console.width):
                console.print(block)
        elif is_leading or not is_view:
            shorter.append(f"{title}: {_in_short(found, by_model)}")
    console.print(*(["", *shorter, ""] if shorter else [""]), sep="\n")
    if file is not None:
        console.print(f"All views of the evidence, tests and flags: {file}")


def span_lines(buckets: pl.DataFrame, psi: pl.DataFrame) -> Iterator[str]:
    """Yield means of the metrics of spans by position, in the first bucket scheme, if any.

    ``buckets`` and ``psi`` are BUCKET_SCORES and PSI_TABLE of one benchmark; p is the adjusted one.
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


def _title(table: pl.DataFrame, name: str, asked: str, searched: str) -> str:
    """Name a benchmark, and where it has several the language pair."""
    several = table.filter(benchmark=name).select(BY_PAIR).n_unique() > 1
    return f"{name}, {pair_text(asked, searched)}" if several else name


def _word_tables(
    found: Sequence[Verdict], by_model: Mapping[str, Row], *, width: int
) -> Iterator[RenderableType]:
    """Yield the figures that the words rest on, a row per model, and a line per model on each."""
    gap, is_narrow = 2 if width > 90 else 1, width < 80
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    table.add_column("\nmodel", overflow="fold", min_width=8 if is_narrow else None)
    for heading in ("\nmean", "PSI at equal\ndocuments", "\np", "p against\ncontrol", "\ngiven"):
        table.add_column(heading, justify="right", no_wrap=not is_narrow)
    table.add_column(no_wrap=not is_narrow)
    lines = Table.grid(padding=(0, 2, 0, 0))
    plain = set()
    for one in found:
        row, style = by_model[one.model], STYLES.get(one.word, "")
        name = "psi_same" if row["psi_same"] is not None or row["psi"] is None else "psi"
        plain |= {row["test"]} if name == "psi" else set()
        table.add_row(
            one.model,
            number(row["mean"]),
            shown_psi(row, name) + "*" * (name == "psi"),
            p_value(row["p_adjusted"]),
            p_value(row["p_control_adjusted"]),
            percent(row["seen"], 0),
            Text(one.word, style),
        )
        lines.add_row(Text(one.model, style), one.advice.translate(ISOLATES))
    yield table
    notes = []
    if plain:
        note = "* Of plain means, which mix position with document."
        tests_another = " Without interval: p is of another test, within documents."
        notes.append(note + tests_another * ("within" in plain))
    if any(one.word == "sensitive" for one in found):
        notes.append(ASSUMPTION)
    if any(one.is_disputed for one in found):
        notes.append(SCHEME_RULE)
    yield "\n".join([*notes, ""]) if notes else ""
    yield lines


def _in_short(found: Sequence[Verdict], by_model: Mapping[str, Row]) -> str:
    """Return how many models have which word, the largest PSI of those tested, the largest cut.

    Where clusters are few, that it holds in these.
    """
    counts = Counter(one.word for one in found)
    said = ", ".join(f"{counts[word]} {word}" for word in WORDS if counts[word])
    tested = [by_model[one.model] for one in found if one.word != "not testable"]
    sizes = [(row["psi_same"], row["model"]) for row in tested if row["psi_same"] is not None]
    if sizes:
        size, model = max(sizes)
        said += f"; largest PSI {number(size)} ({model})"
    if any(has_flag(row, "few_clusters") for row in tested):
        said += "; in these few clusters alone"
    most = min(by_model.values(), key=lambda row: 1.0 if row["seen"] is None else row["seen"])
    return f"{said}; {cut} ({most['model']})" if (cut := cut_words(most)) else said


def format_labels(
    agreement: pl.DataFrame, corrected: pl.DataFrame, *, metric: str, scheme: str
) -> str:
    """Lay out how qrels and human grades agree, and the means that the grades lead to.

    ``agreement`` and ``corrected`` are LABEL_AGREEMENT and CORRECTED_SCORES, of which one metric
    and one scheme are shown.
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
            f"{every['agreement']:.3f} {ends} of them{kappa}.",
            f"Agreement by {scheme}, where the document holds the evidence:",
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
            _of_agreement(placed["p_position"][0]),
            f"{metric} if people had graded all queries:",
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
            *_of_few(n_graded, found),
        ]
    )


def _of_agreement(p: float | None) -> str:
    if p is None:
        return (
            "Whether agreement depends on position is not tested: it is the same everywhere, or of "
            f"fewer than {FEWEST_DOCUMENTS} documents or {FEWEST_CLUSTERS} clusters of them."
        )
    if p <= ALPHA:
        return f"Agreement depends on where the evidence is ({p_text(p)})."
    return f"No evidence that agreement depends on where the evidence is ({p_text(p)})."


def _of_few(n_graded: int, found: pl.DataFrame) -> Iterator[str]:
    """Say what has no corrected value."""
    if n_graded < FEWEST_GRADED:
        yield f"{n_graded} queries graded: no corrected values, {FEWEST_GRADED} are needed."
    elif found["corrected"].null_count():
        yield f"-: fewer than {FEWEST_BUCKET_GRADED} graded, or none of them relevant."
