"""Chunks of documents and their vectors, each distinct input encoded once."""

import json
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from psibench.config.model_base import Chunks
from psibench.config.sections import Encoding
from psibench.encode.batches import EncodeStats, TextEncoding
from psibench.encode.store import EmbeddingStore, text_key
from psibench.errors import InputError
from psibench.models.protocols import Encoder, TokenizedText
from psibench.models.tokenizing import token_offsets
from psibench.tables.chunks import CHUNK_COLUMNS, refuse_beyond, refuse_invalid_chunks
from psibench.text.lengths import in_blocks
from psibench.text.splitting import Ruler, split_text

BLOCK_CHARS = 4_000_000
"""Characters whose tokens are in memory at once."""
HEADING = re.compile(r"\s*#{1,6}\s+(\S[^\n]*?)\s*#*\s*(?:\n|$)")


class Rulers:
    """Rulers of documents in characters, and in the tokens of one tokenizer, each made once.

    Parameters
    ----------
    tokenizer
        A fast tokenizer of transformers.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._known: dict[tuple[str, str], Ruler] = {}

    def of(self, text: str, unit: str) -> Ruler:
        """Return the ruler of a text in ``tokens`` or ``characters``."""
        if (unit, text) not in self._known:
            if unit == "tokens":
                (offsets,) = token_offsets(self._tokenizer, [text])
                self._known[unit, text] = Ruler.of_tokens(text, offsets)
            else:
                self._known[unit, text] = Ruler.of_characters(text)
        return self._known[unit, text]


def cut_documents(documents: pl.DataFrame, chunks: Chunks, rulers: Rulers) -> pl.DataFrame:
    """Cut documents into chunks.

    ``documents`` has ``_id`` and ``text``. Returns (n_chunks, 3) doc_id, start, end (Int64), in the
    order of the documents, then by start and end.

    Raises InputError if a command fails or returns chunks outside their documents, or if a document
    has no chunk.
    """
    if chunks.splitter == "command":
        rows = _cut_by_command(documents, chunks.command)
    else:
        how: dict[str, Any] = {"splitter": chunks.splitter, "overlap": chunks.overlap}
        how["size"] = chunks.size
        rows = [
            (doc_id, *chunk)
            for doc_id, text in documents.select("_id", "text").iter_rows()
            for chunk in split_text(text, rulers.of(text, chunks.measure), **how)
        ]
    schema = dict(zip(CHUNK_COLUMNS, (pl.String, pl.Int64, pl.Int64), strict=True))
    cut = pl.DataFrame(rows, schema=schema, orient="row")
    without = documents.join(cut, left_on="_id", right_on="doc_id", how="anti")["_id"]
    if len(without):
        raise InputError(
            f"splitter {chunks.splitter}: no chunk of {len(without)} documents, e.g. "
            f"{without[0]!r}; every document needs one"
        )
    order = pl.DataFrame({"doc_id": documents["_id"], "number": np.arange(documents.height)})
    return cut.join(order, on="doc_id").sort("number", "start", "end").drop("number")


def _cut_by_command(documents: pl.DataFrame, command: Sequence[str]) -> list[tuple[str, int, int]]:
    """Let a program cut the documents, see `Chunks.command`; equal chunks count once."""
    texts = dict(documents.select("_id", "text").iter_rows())
    lines = "".join(json.dumps({"_id": i, "text": t}) + "\n" for i, t in texts.items())
    name = " ".join(command)
    try:
        done = subprocess.run(command, input=lines, capture_output=True, text=True, check=False)
    except OSError as error:
        raise InputError(f"splitter command {name!r}: {error.strerror or error}") from error
    if done.returncode:
        told = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise InputError(f"splitter command {name!r} ended with {done.returncode}: {told[0]}")
    found: dict[tuple[str, int, int], None] = {}
    for number, line in enumerate(done.stdout.splitlines(), 1):
        where = f"splitter command {name!r}, line {number}"
        try:
            row = json.loads(line)
            doc_id, start, end = str(row["_id"]), row["start"], row["end"]
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f'{where}: {line[:80]!r}; expected {{"_id": ..., "start": ..., "end": ...}}'
            ) from error
        if doc_id not in texts:
            raise InputError(f"{where}: document {doc_id!r} is not in the corpus")
        text = texts[doc_id]
        table = {"doc_id": [doc_id], "start": [start], "end": [end]}
        if not all(type(one) is int for one in (start, end)):
            raise InputError(f"{where}: start {start!r} and end {end!r} must be whole numbers")
        chunk = pl.DataFrame(table)
        refuse_invalid_chunks(chunk, source=where)
        refuse_beyond(
            chunk, pl.DataFrame({"doc_id": [doc_id], "length": [len(text)]}), source=where
        )
        if row.get("text") is not None and row["text"] != text[start:end]:
            raise InputError(
                f"{where}: the characters {start} to {end} of document {doc_id!r} are "
                f"{text[start:end][:60]!r}, but the chunk's text is {str(row['text'])[:60]!r}; "
                "start and end must be characters of the document, end exclusive"
            )
        found[doc_id, start, end] = None
    return list(found)


def with_tokens(cut: pl.DataFrame, texts: Mapping[str, str], rulers: Rulers) -> pl.DataFrame:
    """Add ``tokens``: the tokens of the document that start in each chunk, Int64."""
    counts = [rulers.of(texts[i], "tokens").length(a, b) for i, a, b in cut.iter_rows()]
    return cut.with_columns(tokens=pl.Series(counts, dtype=pl.Int64))


def titles_of(documents: pl.DataFrame) -> dict[str, str]:
    """Return each document's title: the column ``title``, else a heading in the first line.

    Documents without a title have an empty one.
    """
    given = documents["title"] if "title" in documents.columns else [None] * documents.height
    return {
        doc_id: title_of(text, title)
        for (doc_id, text), title in zip(
            documents.select("_id", "text").iter_rows(), given, strict=True
        )
    }


def title_of(text: str, given: str | None) -> str:
    """Return the given title of a document, else a heading in its first line, else nothing."""
    heading = HEADING.match(text)
    return (given or "").strip() or (heading[1] if heading else "")


def refuse_no_titles(titles: Iterable[str]) -> None:
    """Raise InputError if all titles are empty."""
    if not any(titles):
        raise InputError(
            "context: title, but no document has a title: give the field title, or begin the texts "
            "with a heading (# Title)"
        )


@dataclass(frozen=True)
class EncodedChunks:
    """The addresses of the chunks' vectors, and how much the model read.

    Attributes
    ----------
    keys
        (n_chunks,) addresses in the store, one vector each; equal inputs have equal addresses.
    n_tokens
        (n_chunks,) int64: tokens that the model read for the chunk, special tokens included. For
        late chunking the tokens of the document's windows, shared equally by its chunks.
    read_chars
        (n_chunks,) int64: leading characters of the chunk that the model read.
    n_cut
        Number of chunks whose end the model did not read.
    stats
        Counts and times of the chunks that the store lacked.
    """

    keys: list[bytes]
    n_tokens: np.ndarray
    read_chars: np.ndarray
    n_cut: int
    stats: EncodeStats


def encode_chunks(
    encoder: Encoder,
    store: EmbeddingStore,
    documents: pl.DataFrame,
    cut: pl.DataFrame,
    settings: Encoding,
    *,
    context: str = "none",
    titles: Mapping[str, str] | None = None,
    **options: Any,
) -> EncodedChunks:
    """Encode chunks into a store, each distinct input once.

    Parameters
    ----------
    documents, cut
        As in `cut_documents`.
    context
        none, title or late; see `Chunks.context`.
    titles
        Titles by document for ``context: title``, at least one not empty; None: `titles_of`.
    options
        ``stop``, ``expect`` and ``advance`` of `TextEncoding`.

    Raises
    ------
    InputError
        If the context does not fit the encoder or the documents, or a text does not fit into the
        memory.
    """
    if context == "late":
        return _encode_late(encoder, store, documents, cut, settings, **options)
    encoding = TextEncoding(encoder, store, settings, **options)
    if context != "title":
        titles = {}
    elif titles is None:
        titles = titles_of(documents)
        refuse_no_titles(titles.values())
    texts = dict(documents.select("_id", "text").iter_rows())
    salt = encoder.salt("document")
    inputs, title_chars = list[str](), list[int]()
    for doc_id, start, end in cut.select(CHUNK_COLUMNS).iter_rows():
        title = f"{title}\n\n" if (title := titles.get(doc_id, "")) else ""
        inputs.append(title + texts[doc_id][start:end])
        title_chars.append(len(title))
    keys = [text_key(one, salt=salt) for one in inputs]
    read: dict[bytes, tuple[int, int, bool]] = {}
    new = ((key, text) for key, text in dict(zip(keys, inputs, strict=True)).items())
    for block in in_blocks(new, lambda keyed: len(keyed[1]), BLOCK_CHARS):
        own, block_texts = map(list, zip(*block, strict=True))
        items = encoder.tokenize(block_texts, "document")
        for key, text, item in zip(own, block_texts, items, strict=True):
            end = item.visible_char_end
            read[key] = item.n_tokens, end, end < len(text.rstrip())
        encoding.add(own, items)
    encoding.finish()
    n_tokens, ends, n_cut = np.array([read[key] for key in keys], dtype=np.int64).reshape(-1, 3).T
    read_chars = np.maximum(0, ends - np.array(title_chars, dtype=np.int64))
    return EncodedChunks(keys, n_tokens, read_chars, int(n_cut.sum()), encoding.stats)


def _encode_late(
    encoder: Any,
    store: EmbeddingStore,
    documents: pl.DataFrame,
    cut: pl.DataFrame,
    settings: Encoding,
    **options: Any,
) -> EncodedChunks:
    if not hasattr(encoder, "tokenize_late"):
        raise InputError(
            f"context: late needs token vectors, which {type(encoder).__name__} does not pool; use "
            "a model of the backend sentence-transformers with mean pooling, or context: none"
        )
    texts = dict(documents.select("_id", "text").iter_rows())
    parts_of: dict[str, list[tuple[int, int]]] = {}
    for doc_id, start, end in cut.select(CHUNK_COLUMNS).iter_rows():
        parts_of.setdefault(doc_id, []).append((start, end))
    (probe,) = encoder.tokenize(["a"], "document")
    room = encoder.entry.max_tokens - len(probe.windows[0]) + int(probe.content[0].sum())
    into = _ByDocument(store)
    encoding = TextEncoding(encoder, into, settings, **options)  # type: ignore[arg-type]
    keys, n_tokens, read_chars, n_cut = list[bytes](), list[float](), list[int](), 0
    new: dict[bytes, TokenizedText] = {}
    n_chars = 0
    for doc_id, parts in parts_of.items():
        text = texts[doc_id]
        # All chunks of a document decide its windows.
        salt = f"{encoder.salt('document')}\0late\0{parts}"
        key = text_key(text, salt=salt)
        own = [text_key(text, salt=f"{salt}\0{number}") for number in range(len(parts))]
        (item,) = encoder.tokenize_late([text], [parts])
        if key not in into.keys:
            into.keys[key], new[key] = own, item
            n_chars += len(text)
        if n_chars > BLOCK_CHARS:
            encoding.add([*new], [*new.values()])
            new, n_chars = {}, 0
        (offsets,) = token_offsets(encoder.model.tokenizer, [text])
        ends = np.searchsorted(offsets[:, 0], np.array(parts))
        beyond = ends[:, 1] - ends[:, 0] > room
        n_cut += int(beyond.sum())
        read_chars += [
            int(offsets[first + room - 1, 1]) - start if is_cut else end - start
            for (start, end), first, is_cut in zip(parts, ends[:, 0], beyond, strict=True)
        ]
        keys += own
        n_tokens += [item.n_tokens / len(parts)] * len(parts)
    encoding.add([*new], [*new.values()])
    encoding.finish()
    return EncodedChunks(
        keys,
        np.rint(n_tokens).astype(np.int64),
        np.array(read_chars, dtype=np.int64),
        n_cut,
        encoding.stats,
    )


class _ByDocument:
    """Stores the vectors of each document's chunks under the addresses of the chunks."""

    def __init__(self, store: EmbeddingStore) -> None:
        self.keys: dict[bytes, list[bytes]] = {}
        self._store = store

    def missing(self, keys: Sequence[bytes]) -> list[int]:
        """Return the indices of the documents with a chunk that is not stored."""
        return [i for i, key in enumerate(keys) if self._store.missing(self.keys[key])]

    def add(self, keys: Sequence[bytes], vectors: Sequence[np.ndarray]) -> None:
        """Store each document's (n_chunks, dim) vectors."""
        pairs = [
            (key, row[None])
            for document, rows in zip(keys, vectors, strict=True)
            for key, row in zip(self.keys[document], rows, strict=True)
        ]
        own, each = zip(*pairs, strict=True)
        self._store.add(own, each)
