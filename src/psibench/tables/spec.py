"""Table schemas: columns with type and meaning, and a key."""

from dataclasses import dataclass

import polars as pl
import pyarrow as pa

STRING, INT32, INT64 = pa.string(), pa.int32(), pa.int64()
FLOAT32, FLOAT64, BOOL = pa.float32(), pa.float64(), pa.bool_()
CHAR_SPAN = pa.list_(pa.int32(), 2)
ALL = "all"
"""Value of a label column in rows over all domains, lengths or languages."""
BY_DOCUMENT = "lower end of its interval; units: documents, or clusters of documents"


@dataclass(frozen=True)
class Column:
    """One column: name, Arrow type, meaning with unit, and whether nulls are allowed."""

    name: str
    type: pa.DataType
    text: str
    nullable: bool = False


@dataclass(frozen=True)
class TableSpec:
    """One table: columns in order, key, and whether further columns are allowed (``open``)."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ("_id",)
    open: bool = False

    @property
    def schema(self) -> pa.Schema:
        """The declared columns as an Arrow schema."""
        return pa.schema([pa.field(c.name, c.type, nullable=c.nullable) for c in self.columns])

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the declared columns, in order."""
        return tuple(c.name for c in self.columns)

    def empty(self) -> pl.DataFrame:
        """Make a frame of the declared columns, without rows."""
        # Not `empty_table()`: pyarrow imports pandas to make an array of a list.
        return pl.DataFrame(pa.RecordBatchReader.from_batches(self.schema, []).read_all())


def with_interval(
    name: str, text: str, *, low: str = "lower end of its interval"
) -> tuple[Column, ...]:
    """Return a column and the columns of its interval, NAME_low and NAME_high; all nullable."""
    return (
        Column(name, FLOAT64, text, True),
        Column(f"{name}_low", FLOAT64, low, True),
        Column(f"{name}_high", FLOAT64, "upper end of its interval", True),
    )
