"""Render a run's figures beside the papers' as one HTML file that needs nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from markupsafe import Markup

from psibench import __version__
from psibench.report.comparison_sections import Section, sections
from psibench.report.plain import Table
from psibench.report.printed import printed_table
from psibench.report.published_figures import DATA_TEXTS
from psibench.report.published_others import OTHER_SPECS
from psibench.report.templating import TEMPLATES, environment
from psibench.tables.atomic import write_text

TITLE = "Published figures and this run's"


@dataclass(frozen=True)
class ComparisonInput:
    """What the page is about.

    Attributes
    ----------
    figures, found
        As `published_figures` and `compare` return them.
    facts
        As `published_facts` returns them.
    folder
        Where the published tables lie.
    provenance
        Facts to make the page again from, by name.
    """

    figures: pl.DataFrame
    found: pl.DataFrame
    facts: Mapping[str, Mapping[str, str]]
    folder: Path
    provenance: Mapping[str, str]
    created: str = ""


def write_comparison(inputs: ComparisonInput, path: str | Path) -> None:
    """Write the page to ``path``, whole or not at all."""
    write_text(render_comparison(inputs), path)


def render_comparison(inputs: ComparisonInput) -> str:
    """Return the page as HTML: the same inputs give the same text."""
    styles = [(TEMPLATES / name).read_text(encoding="utf-8") for name in _STYLES]
    shown = sections(inputs.figures, inputs.found)
    return (
        environment()
        .get_template("published.html")
        .render(
            title=TITLE,
            created=inputs.created,
            version=__version__,
            style=Markup("\n".join(styles)),
            sections=shown,
            benchmarks=[
                (name, DATA_TEXTS[fact["data"]], fact["differs"])
                for name, fact in inputs.facts.items()
            ],
            summary=_summary(shown),
            tables=[printed_table(spec, inputs.folder) for spec in OTHER_SPECS],
            provenance=dict(inputs.provenance),
        )
        + "\n"
    )


_STYLES = ("report.css", "published.css")


def _summary(shown: list[Section]) -> Table:
    """Count, table by table, what a run has of the published figures."""
    header = (
        "Table",
        "What",
        "Published figures",
        "Run here",
        "Not run here",
        "Comparisons",
        "With an interval",
        "Published inside it",
    )
    rows = tuple(
        (
            section.source,
            section.title,
            f"{section.n_figures:,}",
            f"{section.n_compared:,}",
            f"{section.n_figures - section.n_compared:,}",
            f"{section.n_comparisons:,}",
            f"{section.n_with_interval:,}",
            f"{section.n_inside:,}",
        )
        for section in shown
    )
    return Table("What was run here", header, rows, n_names=2)
