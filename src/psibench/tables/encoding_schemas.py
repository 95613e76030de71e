"""Declared schemas of encoding: what is between a shard and the whole, what services were asked."""

import pyarrow as pa

from psibench.tables.spec import FLOAT64, INT32, INT64, STRING, Column, TableSpec

SHARD_ENCODINGS = TableSpec(
    "shard_encodings",
    (
        Column("key", pa.binary(), "address of the vector in the embedding store"),
        Column("n_tokens", INT32, "tokens the model saw, special tokens included"),
        Column("visible_char_end", INT32, "characters of text the model saw"),
    ),
    key=("key",),
)

EMBEDDING_USAGE = TableSpec(
    "embedding_usage",
    (
        Column("model", STRING, "model id"),
        Column("requests", INT64, "HTTP requests that brought vectors"),
        Column("texts", INT64, "texts of these requests"),
        Column(
            "tokens",
            INT64,
            "tokens as the service counted them, else by our count; of requests that may have "
            "been billed for nothing, at the most",
        ),
        Column("retries", INT64, "HTTP requests that brought nothing"),
        Column("usd", FLOAT64, "cost in US dollars at the price then; null without a price", True),
        Column("seconds", FLOAT64, "time that requests took, those at once added up"),
    ),
    key=("model",),
)
