"""What a model reads of a corpus, asked of the texts alone: no queries, no labels.

A model with a longest input cuts what is longer and says nothing. Here each document is tokenized
as the model would be given it, and again whole; and the vector of the whole text is held against
those of its thirds (PosQ, section 5; the probe `segments`).
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
LENGTHS = (128, 256, 512, 1024, 2048, 4096, 8192, 16384)
"""Most tokens of the documents of a row; what is longer has one of its own."""
TEXTS = 1024
"""Texts that are tokenized at once."""

DOCUMENT_READING = TableSpec(
    "document_reading",
    (
        Column("model", STRING, "model id"),
        Column("document_id", STRING, "document id"),
        Column("n_chars", INT32, "characters of the document"),
        Column("read_chars", INT32, "of them, up to the last that the model is given"),
        Column("n_tokens", INT32, "tokens of the whole document, special ones left out"),
        Column("read_tokens", INT32, "of them, those that the model is given"),
        *(
            Column(
                f"cosine_{place}",
                FLOAT64,
                f"cosine of the vectors of the whole text and its {place} third, by characters; "
                "null: not asked",
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
        Column("tokens", STRING, "lengths of the documents, as 129-256 or 16385-; all: any"),
        Column("n_documents", INT32, "documents of these lengths"),
        Column("cut", FLOAT64, "share of the documents that the model is not given whole"),
        Column("n_tokens", INT64, "tokens of the documents, special ones left out"),
        Column("never_embedded", FLOAT64, "share of the tokens that the model is not given"),
        Column("n_compared", INT32, "documents whose thirds were held against the whole"),
        *(
            Column(f"cosine_{place}", FLOAT64, f"mean over these of cosine_{place}", True)
            for place in PLACES
        ),
        Column("gap", FLOAT64, "mean of cosine_head less cosine_tail", True),
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

    The tokens given are those of the text up to the last character given. ``tokenize`` is the
    model's, see `psibench.models.protocols.Encoder`; ``count_tokens`` counts whole texts by the
    same tokenizer, special tokens left out.
    """
    texts = documents["text"].to_list()
    ends, totals, read = [], [], []
    with Progress(f"tokenizing for {model}", total=len(texts), unit="documents") as progress:
        for start in range(0, len(texts), TEXTS):
            part = texts[start : start + TEXTS]
            given = [item.visible_char_end for item in tokenize(part, "document")]
            whole = count_tokens(part)
            cut = [place for place, text in enumerate(part) if given[place] < len(text)]
            given_tokens = whole.copy()
            given_tokens[cut] = count_tokens([part[place][: given[place]] for place in cut])
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
    """Draw ids by a hash of seed and id: further documents change nothing about the others."""
    return set(sorted(ids, key=lambda one: priority(seed, one))[:n])


def with_cosines(
    rows: pl.DataFrame, documents: pl.DataFrame, encoder: ProbeEncoder
) -> pl.DataFrame:
    """Return DOCUMENT_READING rows with the cosines of some documents with their thirds.

    ``documents`` has `_id` and `text` of those that are asked. Documents with a third of white
    space alone have none.
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
    """Return READING_TABLE: all documents, then by length; lengths without documents left out.

    The interval of the gap is Student's, over documents; none of one document.
    """
    edges = [0, *(length + 1 for length in LENGTHS)]
    labels = [f"{low}-{high}" for low, high in zip(edges, LENGTHS, strict=False)]
    labels.append(f"{edges[-1]}-")
    lengths = pl.col("n_tokens").cut(LENGTHS, labels=labels).cast(pl.String).alias("tokens")
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
    """Return the share of documents that are not given whole, of DOCUMENT_READING rows."""
    return rows.filter(pl.col("read_chars") < pl.col("n_chars")).height / rows.height
