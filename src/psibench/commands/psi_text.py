"""The PSI table and what it says, as text for a terminal."""

import textwrap
from collections.abc import Iterator, Mapping

import polars as pl

from psibench.commands.text_table import UNDEFINED, Form, frame_lines
from psibench.llm.sections import STAND_IN_PREFIX
from psibench.metrics.labels import FEWEST_GRADED, FEWEST_OF_A_BUCKET
from psibench.metrics.psi import FLAGS
from psibench.report.verdict import verdicts
from psibench.report.wording import ALPHA, interval, p_text, p_value
from psibench.tables.spec import POOLED

AUTHORS = {
    "simulation": "simulated known-item queries; no person and no language model wrote them",
    "people": "questions written by people",
}
STAND_IN_AUTHOR = (
    "{model}, a rule-based program in a language model's place; they compare positions, not models"
)
COLUMNS = {
    **{name: name for name in ("model", "domain")},
    "length": "length_bucket",
    **{name: name for name in ("metric", "buckets", "evidence")},
    "queries": "n_queries",
    "docs": "n_documents",
    "mean": "mean",
    "PSI": "psi",
    "same-doc": "psi_same",
    "interval": pl.concat_list("psi_same_low", "psi_same_high"),
    "p": "p_adjusted",
    "p control": "p_control_adjusted",
    "given": "seen",
    "drop": "drop",
    "flags": pl.col("flags").replace("", None),
}
"""Heading -> column."""


def _from_to(ends: list[float | None]) -> str:
    low, high = ends
    return UNDEFINED if low is None else f"{low:.3f}-{high:.3f}"


FORMS: dict[str, Form] = {"interval": _from_to, "p": p_value, "p control": p_value, "given": ".0%"}
WIDTH = 100


def format_psi_table(table: pl.DataFrame) -> str:
    """Lay out a PSI table in aligned columns, numbers with three decimals.

    ``same-doc`` and ``interval`` are the PSI at equal documents, ``p`` and ``p control`` the
    adjusted ones, ``given`` the share of queries whose evidence the model was given. A row of
    another evidence view that is about the same queries as the row of `all` is left out. What is
    undefined is shown as ``-``.
    """
    is_all, n_queries = pl.col("evidence") == "all", pl.col("n_queries")
    of_all = pl.when(is_all).then(n_queries).forward_fill()
    kept = table.filter(is_all | (n_queries != of_all))
    return "\n".join(frame_lines(kept.select(**COLUMNS), FORMS, n_text=6))


def format_flags(table: pl.DataFrame) -> str:
    """Say what the flags that occur in a PSI table mean, a line each."""
    raised = {name for flags in table["flags"] for name in flags.split(", ") if name}
    return "\n".join(f"{name}: {text}" for name, text in FLAGS.items() if name in raised)


def format_verdicts(table: pl.DataFrame, controls: Mapping[str, str | None]) -> str:
    """Say what the rows of one benchmark, language pair, metric and scheme allow to conclude."""
    pooled = table.filter(domain="all", length_bucket="all")
    lines = [
        textwrap.fill(f"{one.model}: {' '.join(one.sentences)}", WIDTH, subsequent_indent="  ")
        for one in verdicts(pooled.to_dicts(), controls=controls)
    ]
    isolates = str.maketrans("", "", "\u2068\u2069")  # for pages; a terminal shows them as boxes
    return "\n".join(lines).translate(isolates)


def format_labels(
    agreement: pl.DataFrame, corrected: pl.DataFrame, *, metric: str, scheme: str
) -> str:
    """Lay out how qrels and human grades agree, and the means that the grades lead to.

    ``agreement`` and ``corrected`` are LABEL_AGREEMENT and CORRECTED_SCORES, of which one metric
    and one scheme are shown.
    """
    every = agreement.row(by_predicate=pl.col("buckets") == POOLED, named=True)
    placed = agreement.filter(pl.col("buckets") == scheme)
    ends = interval(every["agreement_low"], every["agreement_high"])
    kappa = "" if every["kappa"] is None else f" (Cohen's kappa {every['kappa']:.2f})"
    found = corrected.filter(pl.col("buckets").is_in([POOLED, scheme]), metric=metric)
    n_graded = corrected.filter(pl.col("buckets") == POOLED)["n_graded"][0]
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
            f"{metric} had people graded all queries:",
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
        return "Whether agreement depends on position cannot be told: it does not vary."
    if p <= ALPHA:
        return f"Agreement depends on where the evidence is ({p_text(p)})."
    return f"No evidence that agreement depends on where the evidence is ({p_text(p)})."


def _of_few(n_graded: int, found: pl.DataFrame) -> Iterator[str]:
    """Say what has no corrected value."""
    if n_graded < FEWEST_GRADED:
        yield f"{n_graded} queries graded: no corrected values, {FEWEST_GRADED} are needed."
    elif found["corrected"].null_count():
        yield f"-: fewer than {FEWEST_OF_A_BUCKET} graded, or none of them relevant."


def author_text(author: str) -> str:
    """Say in words who wrote queries, from the name that provenance gives."""
    model = author.removeprefix("llm:")
    if model.startswith(STAND_IN_PREFIX):
        return STAND_IN_AUTHOR.format(model=model)
    return AUTHORS.get(author) or (f"written by {model}" if model != author else author)
