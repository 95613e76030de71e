"""`psibench audit`: what a model reads of a corpus, without queries."""

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

SEED = 42
"""Seed of the samples."""
ABOVE = 1
"""Exit code where more is cut than --max-cut allows."""
UNREADABLE = {
    "rerank": "it reads a document together with a query; audit its first stage",
    "fusion": "it is made of other models' runs; audit each of these",
    "runs": "it is known by its runs alone; what was read is not in them",
}
"""What cannot be audited, by backend, and why."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the model, the corpus, and what to ask."""
    add_model_and_corpus(parser)
    parser.add_argument(
        "--max-cut",
        type=share,
        metavar="SHARE",
        help=f"as 5%% or 0.05: exit with {ABOVE} where more of the documents are cut, for CI",
    )
    parser.add_argument(
        "--n",
        type=whole,
        default=200,
        help="documents whose thirds are held against the whole; 0: none, and no vectors (200)",
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="for the tables")


def run(args: argparse.Namespace) -> int:
    """Read the corpus as the model would, say what it is not given, and return the exit code."""
    refuse_below(args, {"n": 0, "max_tokens": 8})
    refuse_file("--out", args.out)
    entry = find_model(args.model, max_tokens=args.max_tokens)
    if reason := UNREADABLE.get(entry.backend):
        raise InputError(f"model {args.model!r} cannot be audited: {reason}")
    documents = read_document_files([args.corpus], text_column=args.text_column)
    if entry.backend == "bm25s":
        print(
            f"{args.model} indexes every word of all {documents.height:,} documents: none is cut."
        )
        return 0
    with tempfile.TemporaryDirectory(prefix="psibench-audit-") as folder:
        rows, why_no_vectors = audit(entry, documents, args, store=Path(folder))
    table = summarise(rows)
    for line in audit_lines(rows, table, why_no_vectors, entry, args):
        print(line)
    if args.out is not None:
        origin = Provenance(
            stage="audit",
            stage_version=1,
            params={"model": args.model, "n": args.n, "seed": SEED},
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
        return ABOVE
    return 0


def audit(
    entry: Any, documents: pl.DataFrame, args: argparse.Namespace, *, store: Path
) -> tuple[pl.DataFrame, str]:
    """Audit an encoder or an embedding API on documents (`_id`, `text`).

    Returns DOCUMENT_READING rows, and why no vectors were compared: empty if they were. Raises
    InputError if the model cannot be loaded.
    """
    model = Path(args.model).absolute().name
    why = why_not(entry) or ("" if args.n else "none were asked for (--n 0)")
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
        chosen = sample_ids(documents["_id"].to_list(), args.n, SEED)
        rows = with_cosines(rows, documents.filter(pl.col("_id").is_in(list(chosen))), encoder)
    return rows, why


def _tokenizer_of(reader: Any) -> Any:
    """Return the tokenizer of an encoder for documents."""
    if hasattr(reader, "inputs"):  # a learned sparse one
        return reader.inputs["document"].tokenizer
    return getattr(reader, "tokenizer", None) or reader.model.tokenizer


# --- What is said ---------------------------------------------------------------------------


def audit_lines(
    rows: pl.DataFrame, table: pl.DataFrame, why: str, entry: Any, args: argparse.Namespace
) -> Iterator[str]:
    """Yield what is printed: what is read by length, and cosines with the thirds or ``why`` not."""
    everything = table.row(0, named=True)
    windows = getattr(entry, "windows", None)
    limit = getattr(entry, "max_tokens", None)
    how = f"at most {limit:,} tokens of a text" if limit else "a text to its end"
    how = f"documents in windows of {windows.tokens:,} tokens" if windows else how
    yield f"{args.model} reads {how}. {args.corpus}: {everything['n_documents']:,} documents."
    yield (
        f"Cut: {everything['cut']:.1%} of the documents. Never embedded: "
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
            "Cosines compare a document's vector with the vectors of its thirds. Each of these "
            "texts is cut at the input, so a first third that fills it has a cosine of 1."
        )
        if rows.filter(pl.col("read_chars") == pl.col("n_chars")).drop_nulls().is_empty():
            yield (
                "None of the documents compared is read whole: head - tail is what the cut takes "
                "away, and says nothing of how the model weighs what it reads."
            )


DESCRIPTION = (
    "Say what a model is not given of a corpus, in seconds and without queries: the share of "
    "documents cut at its input length, the share of tokens never embedded, by length, and how "
    "alike the vector of a whole document is to those of its head, middle and tail."
)
