"""What a page is told of languages: tables of one benchmark, and summaries over all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

import polars as pl

from psibench.tables.io import conform
from psibench.tables.spec import TableSpec
from psibench.tables.summary_schemas import LANGUAGE_AVERAGES, LEADERBOARDS, POSITION_TREND


@dataclass(frozen=True)
class LanguageFacts:
    """The languages and domains of one benchmark, as far as known.

    Attributes
    ----------
    relocation, similarity
        RELOCATION and DOMAIN_SIMILARITY rows.
    quality, agreement, confusion
        TRANSLATION_QUALITY, TRANSLATION_AGREEMENT and TRANSLATION_CONFUSION rows.
    """

    benchmark: str
    relocation: pl.DataFrame | None = None
    similarity: pl.DataFrame | None = None
    quality: pl.DataFrame | None = None
    agreement: pl.DataFrame | None = None
    confusion: pl.DataFrame | None = None


@dataclass(frozen=True)
class Summaries:
    """Tables over all benchmarks: POSITION_TREND, LANGUAGE_AVERAGES and LEADERBOARDS rows."""

    position_trend: pl.DataFrame | None = None
    language_averages: pl.DataFrame | None = None
    leaderboards: pl.DataFrame | None = None

    def checked(self) -> "Summaries":
        """Return the same with every table cast to its declared schema.

        Raises
        ------
        InputError
            If a table does not follow its schema.
        """
        found = {name: getattr(self, name) for name in SUMMARY_TABLES}
        return replace(
            self,
            **{
                name: pl.DataFrame(conform(frame, spec, where=f"report input {spec.name}"))
                for name, spec in SUMMARY_TABLES.items()
                if (frame := found[name]) is not None
            },
        )

    def without(self, benchmarks: Sequence[str]) -> "Summaries":
        """Return the same without the rows of some benchmarks."""
        return replace(
            self,
            **{
                field.name: frame.filter(~pl.col("benchmark").is_in(list(benchmarks)))
                for field in fields(self)
                if (frame := getattr(self, field.name)) is not None
            },
        )


SUMMARY_TABLES: Mapping[str, TableSpec] = {
    "position_trend": POSITION_TREND,
    "language_averages": LANGUAGE_AVERAGES,
    "leaderboards": LEADERBOARDS,
}
