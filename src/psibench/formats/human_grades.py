"""CSV files with people's grades of translations."""

import re
from collections.abc import Collection, Sequence
from pathlib import Path

import polars as pl

from psibench.build.agreement import RESERVED
from psibench.build.quality import DIMENSIONS
from psibench.errors import InputError
from psibench.formats.text import read_delimited

REQUIRED = ("language", "domain", "doc_id", *DIMENSIONS)
ANNOTATOR = "annotator"
SCHEMA: dict[str, type[pl.DataType]] = {
    ANNOTATOR: pl.String,
    **dict.fromkeys(REQUIRED[:3], pl.String),
    **dict.fromkeys(DIMENSIONS, pl.Int64),
}
_GRADE = re.compile(r"[1-5]")


def read_human_grades(
    paths: Sequence[str | Path], *, languages: Collection[str], domains: Collection[str]
) -> pl.DataFrame:
    """Read grades by people: ``annotator`` (null where not named), document, four grades.

    Further columns (the texts, say) are left out. Whether a document was graded by the language
    model as well is not looked at.

    Raises
    ------
    InputError
        If a file cannot be read, has no row or lacks a column, a language or domain is none of
        those given, a grade is no whole number from 1 to 5, an annotator is called all or mean, or
        an annotator graded a document twice (over all files).
    """
    rows: list[tuple[str | int | None, ...]] = []
    seen: dict[tuple[str | int | None, ...], str] = {}
    allowed = {"language": languages, "domain": domains}
    for path in map(Path, paths):
        n_before = len(rows)
        for line, record in read_delimited(path, ","):
            where = f"{path}, line {line}"
            row = _row(record, allowed, where)
            if row[:4] in seen:
                raise InputError(
                    f"{where}: document {record['doc_id']!r} ({record['language']}, "
                    f"{record['domain']}) has grades by the same annotator in {seen[row[:4]]}; "
                    "give each once, or name the annotators in a column 'annotator'"
                )
            seen[row[:4]] = where
            rows.append(row)
        if len(rows) == n_before:
            raise InputError(f"{path}: no grades; expected a header and a row per document")
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _row(
    record: dict[str, str], allowed: dict[str, Collection[str]], where: str
) -> tuple[str | int | None, ...]:
    missing = [name for name in REQUIRED if name not in record]
    if missing:
        raise InputError(
            f"{where}: no column {', '.join(missing)}; found {', '.join(record)}; expected "
            f"{', '.join(REQUIRED)} and, if several people graded, {ANNOTATOR}"
        )
    fields = {name: text.strip() for name, text in record.items()}
    for name, values in allowed.items():
        if fields[name] not in values:
            raise InputError(
                f"{where}: column {name!r} is {fields[name]!r}; allowed: "
                f"{', '.join(sorted(values))}"
            )
    annotator = fields.get(ANNOTATOR) or None
    if annotator in RESERVED:
        raise InputError(
            f"{where}: column {ANNOTATOR!r} is {annotator!r}, which means something else in the "
            "tables; use another name"
        )
    grades = [_grade(fields[name], name, where) for name in DIMENSIONS]
    return (annotator, fields["language"], fields["domain"], fields["doc_id"], *grades)


def _grade(text: str, column: str, where: str) -> int:
    if not _GRADE.fullmatch(text):
        raise InputError(f"{where}: column {column!r} is {text!r}; allowed: whole numbers 1 to 5")
    return int(text)
