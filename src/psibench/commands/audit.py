"""`psibench audit`: how much of a corpus a model reads; needs no queries."""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl

from psibench import __version__
from psibench.commands.base import refuse_below, refuse_file, share, whole, write_result
from psibench.commands.json_output import add_json, messages_to_stderr, print_json
from psibench.commands.probe import add_model_and_corpus, find_model
from psibench.config.embedding_apis import EmbeddingApiModel
from psibench.config.models import EncoderModel
from psibench.config.sections import Encoding
from psibench.encode.job import revisions_of
from psibench.errors import InputError
from psibench.models.checkpoints import EMBEDDED_PREFIX
from psibench.models.counting import counter_of, token_counter
from psibench.models.load import load_tokens_only
from psibench.models.protocols import Role
from psibench.probes.encoding import ProbeEncoder
from psibench.probes.endpoints import EncoderEndpoint, ServiceEndpoint, endpoint_entry
from psibench.probes.measuring import (
    MOST_REQUESTS,
    Limit,
    Measured,
    RefusedError,
    measure,
)
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
from psibench.report.text_table import frame_lines
from psibench.sources.documents import read_document_files
from psibench.tables import Provenance, content_hash

SAMPLE_SEED = 42
MOST_WORDS = 8192
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
    add_model_and_corpus(parser, needs_corpus=False)
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
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="folder for the tables, or for measured.json"
    )
    add_json(parser)
    group = parser.add_argument_group(
        "measure", "Ask the model itself how much it reads; needs no corpus and no tokenizer."
    )
    group.add_argument(
        "--measure",
        action="store_true",
        help="measure the input length, which end is cut, and windows, in at most "
        f"{MOST_REQUESTS} requests; MODEL may also be the address of a service (OpenAI's API, or "
        "TEI's /embed)",
    )
    group.add_argument(
        "--at-least",
        type=whole,
        metavar="N",
        help=f"for CI: exit with {EXIT_ABOVE} if fewer tokens of a document are read",
    )
    group.add_argument(
        "--up-to", type=whole, metavar="WORDS", help="longest text to try (default: 8192)"
    )
    group.add_argument("--name", default="model", help="with an address: the service's model name")
    group.add_argument(
        "--key-env", metavar="VARIABLE", help="with an address: variable with the API key"
    )


def run(args: argparse.Namespace) -> int:
    """Print how much of the corpus the model reads; return the exit code."""
    with messages_to_stderr(args.json):
        code, content = _audit(args)
    if args.json:
        print_json("audit", {"model": args.model} | content)
    return code


def _audit(args: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    """Print the result (without --json); return the exit code and the document's content."""
    refuse_below(args, {"n": 0, "max_tokens": 8, "at_least": 1, "up_to": 64})
    refuse_file("--out", args.out)
    if args.measure:
        return run_measure(args)
    if args.corpus is None:
        raise InputError("CORPUS is missing: give documents, or --measure")
    if args.at_least is not None:
        raise InputError("--at-least needs --measure")
    entry = find_model(args.model, max_tokens=args.max_tokens)
    if reason := NOT_AUDITABLE.get(entry.backend):
        raise InputError(f"model {args.model!r} cannot be audited: {reason}")
    documents = read_document_files([args.corpus], text_column=args.text_column)
    if entry.backend == "bm25s":
        text = f"indexes all words of all {documents.height:,} documents: nothing is cut off."
        print(f"{args.model} {text}")  # with --json on standard error
        return 0, {"n_documents": documents.height, "cut": 0.0, "never_embedded": 0.0}
    with tempfile.TemporaryDirectory(prefix="psibench-audit-") as folder:
        rows, why_no_vectors, limit = audit(entry, documents, args, store=Path(folder))
    table = summarise(rows)
    if not args.json:
        print(*audit_lines(rows, table, why_no_vectors, entry, args, limit=limit), sep="\n")
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
    cut, everything = share_cut(rows), table.row(0, named=True)
    content = {name: everything[name] for name in ("n_documents", "n_tokens", "cut")} | {
        "never_embedded": everything["never_embedded"],
        "max_tokens": limit,
        "no_vectors_because": why_no_vectors or None,
        "by_length": table,
    }
    if args.max_cut is not None and cut > args.max_cut:
        print(
            f"psibench audit: {cut:.1%} of the documents are cut, more than --max-cut "
            f"{args.max_cut:.1%}",
            file=sys.stderr,
        )
        return EXIT_ABOVE, content
    return 0, content


def run_measure(args: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    """Measure how much a model reads and print it, like `_audit`."""
    if args.corpus is not None or args.max_cut is not None:
        raise InputError("--measure uses texts of its own; leave out CORPUS and --max-cut")
    if "://" in args.model:
        entry = endpoint_entry(args.model, args.name, args.key_env)
    else:
        entry = find_model(args.model, max_tokens=args.max_tokens)
    endpoint: ServiceEndpoint | EncoderEndpoint
    if isinstance(entry, EmbeddingApiModel):
        endpoint = ServiceEndpoint(entry, args.model)
        differs = bool(entry.query_fields or entry.document_fields)
    elif isinstance(entry, EncoderModel):
        endpoint = EncoderEndpoint(entry)
        differs = True
    else:
        raise InputError(
            f"model {args.model!r} cannot be measured: backend {entry.backend} embeds no texts"
        )
    most = args.up_to or max(MOST_WORDS, 2 * (args.at_least or 0))
    roles: list[Role] = ["document", "query"] if differs else ["document"]
    try:
        found = measure(endpoint, roles=roles, most_words=most)
    except RefusedError as error:
        raise InputError(f"{args.model} refuses even short texts: {error}") from None
    if not args.json:
        print(*measured_lines(args.model, found), sep="\n")
    content = {"measured": asdict(found)}
    if args.out is not None:
        args.out.mkdir(parents=True, exist_ok=True)
        path = args.out / "measured.json"
        record = {"model": args.model, "psibench": __version__} | content["measured"]
        path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        print(f"\nWritten to {path}; `psibench score --max-tokens {path}` uses it")
    read = found.document
    if args.at_least is not None and read.words is not None:
        n = read.words if read.tokens is None else read.tokens
        if n < args.at_least:
            print(
                f"psibench audit: the model reads {n:,} tokens of a document, fewer than "
                f"--at-least {args.at_least:,}",
                file=sys.stderr,
            )
            return EXIT_ABOVE, content
    return 0, content


def measured_lines(model: str, found: Measured) -> Iterator[str]:
    """Yield the lines about a measured model."""
    yield f"{model}: measured with {found.n_requests} requests in {found.seconds:.1f} s."
    yield f"  documents: {_limit_text(found.document)}"
    if found.query is None:
        yield "  queries: sent in the same way"
    else:
        same = found.query == found.document
        yield f"  queries: {'the same' if same else _limit_text(found.query)}"
    if found.window_words == 1:
        yield "  order: the order of words has no effect (word vectors are added)"
    elif found.window_words is not None:
        yield (
            f"  windows: the vectors of windows are added; the first has {found.window_words:,} "
            "words"
        )
    else:
        yield "  windows: none; the text is read as a whole"
    unit = "length 1" if found.unit else "other lengths than 1"
    noise = f"differ by up to {found.noise:.1e}" if found.noise else "are identical"
    yield f"  vectors: {unit}; vectors of equal texts {noise}"


def _limit_text(limit: Limit) -> str:
    if limit.cut == "none":
        return f"all {limit.tried:,} words are read; nothing is cut up to this length"
    if limit.cut == "middle" or limit.words is None:
        return f"start and end of {limit.tried:,} words are read, the middle is not"
    counted = f" ({limit.tokens:,} tokens as the model counts)" if limit.tokens else ""
    about = "" if limit.exact else "at least "
    if limit.cut == "refused":
        accepted = f"texts of up to {limit.words:,} words{counted} are accepted"
        return f"{accepted}; longer ones are refused"
    part = "first" if limit.cut == "end" else "last"
    rest = "the end" if limit.cut == "end" else "the start"
    hidden = "" if limit.exact else "; noise hides the exact number"
    return f"{about}the {part} {limit.words:,} words{counted} are read; {rest} is cut{hidden}"


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
