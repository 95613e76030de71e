"""Stage ``quality``: how good a benchmark's translations are, and whether people agree."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from psibench.build.agreement import DOCUMENT, agreement_table, confusion_table
from psibench.build.quality import graded, quality_table
from psibench.errors import InputError
from psibench.formats.human_grades import read_human_grades
from psibench.stages.tables import derived
from psibench.tables import hash_file, read_table, write_table
from psibench.tables.quality_schemas import (
    TRANSLATION_AGREEMENT,
    TRANSLATION_CONFUSION,
    TRANSLATION_QUALITY,
)
from psibench.tables.translation_schemas import TRANSLATION_GRADES

logger = logging.getLogger("psibench")


def run_quality(
    *,
    languages: Sequence[str],
    grades: Sequence[str | Path],
    human: Sequence[str | Path],
    quality: str | Path,
    agreement: str | Path,
    confusion: str | Path | None = None,
) -> None:
    """Write the quality table and how the grades agree with people's.

    ``grades`` has one TRANSLATION_GRADES table per language, in their order; ``human`` are CSV
    files as `read_human_grades` takes them. Without any, agreement and confusion have no rows.

    Raises
    ------
    InputError
        If a CSV does not fit, or none of its documents was graded by the language model.
    """
    frames = {
        language: read_table(path, TRANSLATION_GRADES)
        for language, path in zip(languages, grades, strict=True)
    }
    every = graded(frames)
    people = _people(human, every, languages)
    files = {str(path): hash_file(path) for path in human}
    origin = derived("quality", grades, params={}, files=files)
    write_table(quality_table(frames), quality, TRANSLATION_QUALITY, provenance=origin)
    table = agreement_table(every, people)
    write_table(table, agreement, TRANSLATION_AGREEMENT, provenance=origin)
    if confusion is not None:
        cells = confusion_table(every, people)
        write_table(cells, confusion, TRANSLATION_CONFUSION, provenance=origin)


def _people(
    paths: Sequence[str | Path], every: pl.DataFrame, languages: Sequence[str]
) -> pl.DataFrame:
    """Read people's grades; a file of which no document was graded is refused."""
    domains = set(every.get_column("domain"))
    read: Mapping[str | Path, pl.DataFrame] = {
        path: read_human_grades([path], languages=languages, domains=domains) for path in paths
    }
    for path, rows in read.items():
        odd = rows.join(every, on=DOCUMENT, how="anti")
        if odd.height == rows.height:
            raise InputError(
                f"{path}: none of its {rows.height} documents is in the quality sample; found "
                f"{odd.item(0, 'doc_id')!r} first. Grade the documents of quality_sample.parquet "
                "(its doc_id is the one to give)."
            )
        if odd.height:
            logger.warning(
                "%s: %d of %d documents are not in the quality sample and are not compared; "
                "first: %s",
                path,
                odd.height,
                rows.height,
                odd.item(0, "doc_id"),
            )
    return read_human_grades(paths, languages=languages, domains=domains)
