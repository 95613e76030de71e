"""Share of a corpus that a model reads, measured without queries or labels.

A model with a limited input cuts longer texts silently. This module tokenizes each document as
model input and again without the limit. For a sample it also compares the vector of the whole
document with the vectors of its thirds (PosQ, section 5; probe `segments`): a model that neglects
late text has a higher cosine with the first third than with the last.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl

from psibench.models.protocols import Role, TokenizedText
from psibench.probes.cosines import measure
from psibench.probes.encoding import ProbeEncoder
from psibench.probes.settings import Probes, priority
from psibench.probes.tables import EMPTY_QUERIES, Texts, mean_row
from psibench.progress import Progress
from psibench.tables.spec import ALL, FLOAT64, INT32, INT64, STRING, Column, TableSpec
from psibench.text.lengths import TokenCounter, count_whitespace_tokens

PLACES = ("head", "middle", "tail")
LENGTH_LIMITS = (128, 256, 512, 1024, 2048, 4096, 8192, 16384)
"""Upper limits in tokens of the length groups; longer documents form a last group."""
TEXTS_PER_CALL = 1024
"""Texts tokenized in one call."""

DOCUMENT_READING = TableSpec(
    "document_reading",
    (
        Column("model", STRING, "model id"),
        Column("document_id", STRING, "document id"),
        Column("n_chars", INT32, "characters of the document"),
        Column("read_chars", INT32, "characters up to the last one that the model reads"),
        Column("n_tokens", INT32, "tokens of the whole document, without special tokens"),
        Column("read_tokens", INT32, "tokens of the document that the model reads"),
        *(
            Column(
                f"cosine_{place}",
                FLOAT64,
                f"cosine of the vectors of the whole text and its {place} third, by characters; "
                "null: not computed",
                True,
            )
            for place in PLACES
        ),
    ),
    key=("model", "document_id"),
)
READING_TABLE = TableSpec(
    "reading_table",
    (
        Column("model", STRING, "model id"),
        Column("tokens", STRING, "document length in tokens, e.g. 129-256 or 16385-; or all"),
        Column("n_documents", INT32, "documents of this length"),
        Column("cut", FLOAT64, "share of the documents that the model reads only in part"),
        Column("n_tokens", INT64, "tokens of the documents, without special tokens"),
        Column("never_embedded", FLOAT64, "share of the tokens that the model does not read"),
        Column("n_compared", INT32, "documents with cosines of their thirds"),
        *(
            Column(f"cosine_{place}", FLOAT64, f"mean of cosine_{place} over n_compared", True)
            for place in PLACES
        ),
        Column("gap", FLOAT64, "mean of cosine_head minus cosine_tail", True),
        Column("gap_low", FLOAT64, "lower end of its interval, documents as units", True),
        Column("gap_high", FLOAT64, "upper end", True),
    ),
    key=("model", "tokens"),
)


def read_corpus(
    tokenize: Callable[[Sequence[str], Role], list[TokenizedText]],
    count_tokens: TokenCounter,
    documents: pl.DataFrame,
    *,
    model: str,
) -> pl.DataFrame:
    """Return DOCUMENT_READING rows without cosines, in the order of the documents (`_id`, `text`).

    ``read_tokens`` counts the tokens of the text up to the last character read. ``tokenize`` is the
    model's, see `psibench.models.protocols.Encoder`; ``count_tokens`` counts whole texts with the
    same tokenizer, without special tokens.
    """
    texts = documents["text"].to_list()
    ends, totals, read = [], [], []
    with Progress(f"tokenizing for {model}", total=len(texts), unit="documents") as progress:
        for start in range(0, len(texts), TEXTS_PER_CALL):
            part = texts[start : start + TEXTS_PER_CALL]
            given = [item.visible_char_end for item in tokenize(part, "document")]
            whole = count_tokens(part)
            cut = [number for number, text in enumerate(part) if given[number] < len(text)]
            given_tokens = whole.copy()
            given_tokens[cut] = count_tokens([part[number][: given[number]] for number in cut])
            ends += given
            totals.append(whole)
            read.append(np.minimum(given_tokens, whole))
            progress.advance(len(part))
    return pl.DataFrame(
        {
            "model": [model] * len(texts),
            "document_id": documents["_id"],
            "n_chars": documents["text"].str.len_chars(),
            "read_chars": ends,
            "n_tokens": np.concatenate([np.empty(0, np.int32), *totals]),
            "read_tokens": np.concatenate([np.empty(0, np.int32), *read]),
            **{f"cosine_{place}": None for place in PLACES},
        },
        schema=DOCUMENT_READING.empty().schema,
    )


def sample_ids(ids: Sequence[str], n: int, seed: int) -> set[str]:
    """Draw ``n`` ids by a hash of seed and id, which is independent of the other ids."""
    return set(sorted(ids, key=lambda one: priority(seed, one))[:n])


def with_cosines(
    rows: pl.DataFrame, documents: pl.DataFrame, encoder: ProbeEncoder
) -> pl.DataFrame:
    """Add the cosines of ``documents`` (`_id`, `text`) with their thirds to DOCUMENT_READING rows.

    The cosines are null for other documents, and for documents with a blank third.
    """
    asked = documents.select("text", domain=pl.lit(ALL), document_id="_id")
    found = measure(
        "segments",
        Texts(asked, EMPTY_QUERIES),
        encoder,
        settings=Probes(segments=[len(PLACES)]),
        count_tokens=count_whitespace_tokens,
    )
    known = found.group_by("document_id").agg(
        pl.col("cosine").filter(pl.col("place") == k).first().alias(f"cosine_{place}")
        for k, place in enumerate(PLACES, 1)
    )
    bare = rows.drop(f"cosine_{place}" for place in PLACES)
    return bare.join(known, on="document_id", how="left", maintain_order="left")


def summarise(rows: pl.DataFrame, *, level: float = 0.95) -> pl.DataFrame:
    """Return READING_TABLE: all documents, then each length group that has documents.

    The gap has Student's interval over documents; it is null for a single document.
    """
    edges = [0, *(length + 1 for length in LENGTH_LIMITS)]
    labels = [f"{low}-{high}" for low, high in zip(edges, LENGTH_LIMITS, strict=False)]
    labels.append(f"{edges[-1]}-")
    lengths = pl.col("n_tokens").cut(LENGTH_LIMITS, labels=labels).cast(pl.String).alias("tokens")
    by_length = rows.with_columns(lengths).partition_by("tokens", as_dict=True)
    groups = [rows.with_columns(tokens=pl.lit(ALL))]
    groups += [by_length[label,] for label in labels if (label,) in by_length]
    columns = READING_TABLE.empty().schema
    return pl.from_dicts([_summary(group, level) for group in groups], schema=columns)


def _summary(rows: pl.DataFrame, level: float) -> dict[str, Any]:
    compared = rows.drop_nulls([f"cosine_{place}" for place in PLACES])
    n_tokens, n_read = (pl.col(name).cast(pl.Int64).sum() for name in ("n_tokens", "read_tokens"))
    found = rows.select(
        pl.col("model", "tokens").first(),
        pl.len().alias("n_documents"),
        n_tokens,
        never_embedded=1 - n_read / n_tokens.clip(1),
        cut=pl.lit(share_cut(rows)),
        n_compared=pl.lit(compared.height),
    ).row(0, named=True)
    if not compared.is_empty():
        found |= compared.select(f"cosine_{place}" for place in PLACES).mean().row(0, named=True)
        gaps = (compared["cosine_head"] - compared["cosine_tail"]).to_numpy()
        gap = mean_row(gaps, level=level)
        found |= {"gap": gap["value"], "gap_low": gap["low"], "gap_high": gap["high"]}
    return found


def share_cut(rows: pl.DataFrame) -> float:
    """Return the share of DOCUMENT_READING rows whose document the model reads only in part."""
    return rows.filter(pl.col("read_chars") < pl.col("n_chars")).height / rows.height
