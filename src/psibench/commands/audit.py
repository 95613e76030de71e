"""`psibench audit`: how much of a corpus a model reads; needs no queries."""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from psibench.commands.base import refuse_below, refuse_file, share, whole, write_result
from psibench.commands.probe import add_model_and_corpus, find_model
from psibench.commands.text_table import frame_lines
from psibench.config.embedding_apis import EmbeddingApiModel
from psibench.config.models import EncoderModel
from psibench.config.sections import Encoding
from psibench.encode.job import revisions_of
from psibench.errors import InputError
from psibench.models.checkpoints import EMBEDDED_PREFIX
from psibench.models.counting import counter_of, token_counter
from psibench.models.load import load_tokens_only
from psibench.probes.encoding import ProbeEncoder
from psibench.probes.reading import (
    DOCUMENT_READING,
    PLACES,
    READING_TABLE,
    read_corpus,
    sample_ids,
    share_cut,
    summarise,
    with_cosines,
)
from psibench.probes.settings import why_not
from psibench.sources.documents import read_document_files
from psibench.tables import Provenance, content_hash

SAMPLE_SEED = 42
EXIT_ABOVE = 1
"""Exit code if more documents are cut than --max-cut allows."""
NOT_AUDITABLE = {
    "rerank": "it reads a document together with a query; audit its first stage",
    "fusion": "it combines runs of other models; audit each model",
    "runs": "run files do not show how much the model read",
}
"""The reason, by backend that cannot be audited."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `psibench audit`."""
    add_model_and_corpus(parser)
    parser.add_argument(
        "--max-cut",
        type=share,
        metavar="SHARE",
        help=f"for CI: exit with {EXIT_ABOVE} if a larger share of documents is cut, e.g. 5%% or "
        "0.05",
    )
    parser.add_argument(
        "--n",
        type=whole,
        default=200,
        help="number of documents whose vector is compared with the vectors of its thirds; 0: none "
        "(default: 200)",
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for the tables")


def run(args: argparse.Namespace) -> int:
    """Print how much of the corpus the model reads; return the exit code."""
    refuse_below(args, {"n": 0, "max_tokens": 8})
    refuse_file("--out", args.out)
    entry = find_model(args.model, max_tokens=args.max_tokens)
    if reason := NOT_AUDITABLE.get(entry.backend):
        raise InputError(f"model {args.model!r} cannot be audited: {reason}")
    documents = read_document_files([args.corpus], text_column=args.text_column)
    if entry.backend == "bm25s":
        print(
            f"{args.model} indexes all words of all {documents.height:,} documents: nothing is cut "
            "off."
        )
        return 0
    with tempfile.TemporaryDirectory(prefix="psibench-audit-") as folder:
        rows, why_no_vectors, limit = audit(entry, documents, args, store=Path(folder))
    table = summarise(rows)
    for line in audit_lines(rows, table, why_no_vectors, entry, args, limit=limit):
        print(line)
    if args.out is not None:
        origin = Provenance(
            stage="audit",
            stage_version=1,
            params={"model": args.model, "n": args.n, "seed": SAMPLE_SEED},
            inputs={args.corpus.name: content_hash(args.corpus)} if args.corpus.is_file() else {},
            revisions=revisions_of(args.model, entry) if hasattr(entry, "checkpoint") else {},
        )
        for frame, spec in ((table, READING_TABLE), (rows, DOCUMENT_READING)):
            write_result(frame, spec, args.out / spec.name, provenance=origin)
        print(f"\nTables written to {args.out}")
    cut = share_cut(rows)
    if args.max_cut is not None and cut > args.max_cut:
        print(
            f"psibench audit: {cut:.1%} of the documents are cut, more than --max-cut "
            f"{args.max_cut:.1%}",
            file=sys.stderr,
        )
        return EXIT_ABOVE
    return 0


def audit(
    entry: Any, documents: pl.DataFrame, args: argparse.Namespace, *, store: Path
) -> tuple[pl.DataFrame, str, int | None]:
    """Audit an encoder or an embedding API on documents (columns ``_id`` and ``text``).

    Returns DOCUMENT_READING rows; the reason if no vectors were compared, else an empty text; and
    the most tokens of a text that the model reads, None if it has no limit.
    Raises InputError if the model cannot be loaded.
    """
    model = Path(args.model).absolute().name
    why = why_not(entry) or ("" if args.n else "--n is 0")
    encoder = None if why else ProbeEncoder(entry, model=model, store=store, settings=Encoding())
    reader: Any
    if isinstance(entry, EmbeddingApiModel):
        from psibench.encode.api_texts import load_api_texts

        reader = load_api_texts(entry, model=model)
        count = token_counter(entry.tokenizer)
    else:
        assert isinstance(entry, EncoderModel)
        reader = encoder.encoder if encoder else load_tokens_only(entry)
        name = entry.checkpoint
        embedded = name.startswith(EMBEDDED_PREFIX)
        count = token_counter(name) if embedded else counter_of(_tokenizer_of(reader))
    rows = read_corpus(reader.tokenize, count, documents, model=model)
    if encoder is not None:
        chosen = sample_ids(documents["_id"].to_list(), args.n, SAMPLE_SEED)
        rows = with_cosines(rows, documents.filter(pl.col("_id").is_in(list(chosen))), encoder)
    limit: int | None = getattr(entry, "max_tokens", getattr(reader, "max_tokens", None))
    return rows, why, limit


def _tokenizer_of(reader: Any) -> Any:
    if hasattr(reader, "inputs"):  # a learned sparse model
        return reader.inputs["document"].tokenizer
    return getattr(reader, "tokenizer", None) or reader.model.tokenizer


# --- Output ---------------------------------------------------------------------------------


def audit_lines(
    rows: pl.DataFrame,
    table: pl.DataFrame,
    why: str,
    entry: Any,
    args: argparse.Namespace,
    *,
    limit: int | None,
) -> Iterator[str]:
    """Yield the lines of the summary; ``why`` and ``limit`` are those of ``audit``."""
    everything = table.row(0, named=True)
    windows = getattr(entry, "windows", None)
    how = f"at most {limit:,} tokens of a text" if limit else "texts of any length"
    how = f"documents in windows of {windows.tokens:,} tokens" if windows else how
    yield f"{args.model} reads {how}. {args.corpus}: {everything['n_documents']:,} documents."
    yield (
        f"Cut off: {everything['cut']:.1%} of the documents. Never embedded: "
        f"{everything['never_embedded']:.1%} of {everything['n_tokens']:,} tokens."
    )
    yield ""
    shown: dict[str, Any] = {"tokens": "tokens", "documents": "n_documents"}
    shown |= {"cut": "cut", "never embedded": "never_embedded"}
    if not why:
        shown |= {f"{place} cosine": f"cosine_{place}" for place in PLACES}
        shown |= {"head - tail": "gap", "interval": pl.concat_list("gap_low", "gap_high")}
        shown["compared"] = "n_compared"
    forms = {"cut": ".1%", "never embedded": ".1%", "head - tail": "+.3f", "interval": "+.3f"}
    yield from frame_lines(table.select(**shown), forms, n_text=1)
    yield ""
    if why:
        yield f"No vectors were compared: {why}."
    else:
        yield (
            "Cosines compare a document's vector with the vectors of its thirds. All these texts "
            "are cut at the input length, so a first third that fills the input has a cosine of 1."
        )
        if rows.filter(pl.col("read_chars") == pl.col("n_chars")).drop_nulls().is_empty():
            yield (
                "The model reads none of the compared documents completely: head - tail shows the "
                "effect of the cut, not how the model weighs the text that it reads."
            )


DESCRIPTION = (
    "Measure in seconds, without queries, how much of a corpus a model does not read: the share of "
    "documents cut at its input length, the share of tokens never embedded, both by length, and "
    "how similar a document's vector is to the vectors of its head, middle and tail."
)
