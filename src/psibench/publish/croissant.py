"""Croissant metadata of an export: its files with their hashes, and the columns of its tables.

JSON-LD after the Croissant format specification 1.0 of MLCommons
(http://mlcommons.org/croissant/1.0). Tables whose files have no header (TREC's) are files alone.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from psibench import __version__
from psibench.formats.built import TABLES
from psibench.publish.card import Facts, Licence
from psibench.publish.layouts import Written
from psibench.tables import hash_file

CONTEXT = Path(__file__).with_name("croissant_context.json")
"""The specification's own context."""
ENCODINGS = {
    ".parquet": "application/x-parquet",
    ".jsonl": "application/jsonlines",
    ".tsv": "text/tab-separated-values",
    ".trec": "text/plain",
}


def croissant(
    name: str, facts: Facts, written: Sequence[Written], *, folder: Path, licence: Licence
) -> str:
    """Return the metadata of the files in a folder, as JSON."""
    files = list({one.path: one for one in reversed(written)}.values())[::-1]
    tables = [one for one in files if one.table != "topics" and one.path.suffix != ".trec"]
    described: dict[str, Any] = {
        "@context": json.loads(CONTEXT.read_text(encoding="utf-8")),
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": name,
        "description": (
            f"{name}: a retrieval benchmark that says where in its document each query's evidence "
            f"is; {facts.counts['queries'].sum():,} queries over "
            f"{facts.counts['documents'].sum():,} documents. "
            f"Made with psibench {__version__}."
        ),
        "license": licence.link or licence.id,
        "inLanguage": sorted(set(facts.counts["language"])),
        "version": "1.0.0",
        "distribution": [_file(one, folder) for one in files],
        "recordSet": [_records(one) for one in tables],
    }
    if facts.days:
        described["datePublished"] = facts.days[-1]
    return json.dumps(described, indent=2, ensure_ascii=False) + "\n"


def _file(one: Written, folder: Path) -> dict[str, Any]:
    path = folder / one.path
    return {
        "@type": "cr:FileObject",
        "@id": one.path.as_posix(),
        "name": one.path.as_posix(),
        "contentUrl": one.path.as_posix(),
        "contentSize": f"{path.stat().st_size} B",
        "encodingFormat": ENCODINGS[one.path.suffix],
        "sha256": hash_file(path).removeprefix("sha256:"),
    }


def _records(one: Written) -> dict[str, Any]:
    """Describe the rows of a file; columns of lists of lists and of fields are left to its card."""
    kept = {column: kind for column, kind in one.columns.items() if _type(kind)}
    spec = TABLES.get(one.table)
    texts = {column.name: column.text for column in spec.columns} if spec else {}
    identifier = f"{one.path.parent.as_posix()}/{one.path.stem}"
    return {
        "@type": "cr:RecordSet",
        "@id": identifier,
        "name": identifier,
        "description": f"{one.table} of {one.collection}, {one.n_rows:,} rows",
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"{identifier}/{column}",
                "name": column,
                **({"description": texts[column]} if column in texts else {}),
                "dataType": _type(kind),
                **({"repeated": True} if kind.is_nested() else {}),
                "source": {
                    "fileObject": {"@id": one.path.as_posix()},
                    "extract": {"column": column},
                },
            }
            for column, kind in kept.items()
        ],
    }


def _type(kind: pl.DataType) -> str | None:
    """Name schema.org's type of a column; None of what it has no word for."""
    inner = getattr(kind, "inner", kind)
    if inner == pl.String:
        return "sc:Text"
    if inner.is_integer():
        return "sc:Integer"
    if inner.is_float():
        return "sc:Float"
    return "sc:Boolean" if inner == pl.Boolean else None
