"""Declared tables: schemas, checked reading and writing, provenance."""

from psibench.tables.atomic import atomic_path, write_text
from psibench.tables.hashing import hash_file, hash_rows
from psibench.tables.io import (
    conform,
    content_hash,
    read_any_table,
    read_provenance,
    read_table,
    write_csv,
    write_table,
)
from psibench.tables.provenance import Provenance, hash_params
from psibench.tables.spec import TableSpec

__all__ = [
    "Provenance",
    "TableSpec",
    "atomic_path",
    "conform",
    "content_hash",
    "hash_file",
    "hash_params",
    "hash_rows",
    "read_any_table",
    "read_provenance",
    "read_table",
    "write_csv",
    "write_table",
    "write_text",
]
