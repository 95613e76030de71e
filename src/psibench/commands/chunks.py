"""`psibench chunks`: which splitter, chunk size and overlap finds the evidence."""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, get_args

import polars as pl
from pydantic import ValidationError

from psibench.commands.base import refuse_below, refuse_file, whole
from psibench.config.model_base import ChunkContext, Chunks, EncoderModel, Splitter
from psibench.errors import InputError
from psibench.formats.placed import (
    read_placed_queries,
    read_unchanged_documents,
    without_outer_space,
)
from psibench.metrics.chunking import (
    SettingResult,
    edge_recall,
    grid_table,
    score_setting,
)
from psibench.metrics.sections import section_lines
from psibench.reading import whole_number
from psibench.report.text_table import frame_lines
from psibench.tables.atomic import write_text

DEFAULT_MODEL = "all-minilm-l6-v2"
DOCUMENTS = 10
"""Documents to find for each query, for ndcg@10."""
PASSAGE_CHARS = 4000
"""Known-item queries are made for passages of up to this many characters."""


def run(args: argparse.Namespace) -> None:
    """Build the grid, print its table, and write tables, runs and a picture with --out."""
    refuse_file("--out", args.out)
    refuse_below(args, {"tokens": 1, "max_queries": 30, "seed": 0})
    entry = _encoder_entry(args)
    settings = _settings(args, getattr(entry, "chunks", None))
    documents = read_unchanged_documents(args.corpus, text_column=args.text_column)
    queries, source = _read_queries(args, documents)
    results = list(_measure(args, entry, settings, documents, queries))
    table, curves = grid_table(results, budget=args.tokens)
    print(f"\n{len(results)} settings, {documents.height} documents, {source}")
    print("\n".join(_text(results, table, args)))
    if args.out is not None:
        _write(args, results, table, curves, queries)
        print(f"\nWritten to {args.out}")


# --- The grid and its inputs


def _encoder_entry(args: argparse.Namespace) -> EncoderModel:
    from psibench.commands.probe import find_model

    entry = find_model(args.model, max_tokens=args.max_tokens)
    if not isinstance(entry, EncoderModel):
        raise InputError(f"--model {args.model!r} does not encode texts; name an encoder")
    return entry


def _settings(args: argparse.Namespace, of_model: Chunks | None) -> dict[str, Chunks]:
    """Return the settings by name, from the grid, --setting and the model's entry."""
    rows: list[tuple[str, ...]] = []
    if args.sizes or not (args.setting or args.program or of_model):
        sizes = args.sizes or ("128", "256", "512")
        rows += product(args.splitters, sizes, args.overlaps, args.contexts)
    rows += [tuple(one.split(",")) for one in args.setting]
    found: dict[str, Chunks] = {}
    for row in rows:
        where = f"setting {','.join(row)}"
        if len(row) not in (3, 4):
            raise InputError(f"{where}: give SPLITTER,SIZE,OVERLAP, and maybe ,CONTEXT")
        splitter, *numbers = row[:3]
        size, overlap = (whole_number(text, least=0) for text in numbers)
        if size is None or overlap is None:
            raise InputError(f"{where}: size and overlap must be whole numbers, e.g. 256,64")
        values: dict[str, Any] = {"splitter": splitter, "size": size, "overlap": overlap}
        values |= {"unit": args.unit, "context": row[3] if len(row) == 4 else "none"}
        try:
            chunks = Chunks(**values)
        except ValidationError as error:
            told = "; ".join(str(one["msg"]) for one in error.errors())
            raise InputError(f"{where}: {told}") from error
        found[setting_name(chunks)] = chunks
    if of_model:
        found[setting_name(of_model)] = of_model
    if args.program:
        chunks = Chunks(splitter="command", command=args.program)
        found[setting_name(chunks)] = chunks
    return found


def setting_name(chunks: Chunks) -> str:
    """Return a short name, e.g. ``recursive 256/64`` or ``recursive 800/0 characters, late``."""
    if chunks.splitter == "command":
        name = f"command {Path(chunks.command[-1]).name}"
    else:
        name = f"{chunks.splitter} {chunks.size}/{chunks.overlap}"
        if chunks.measure == "characters" and chunks.splitter != "characters":
            name += " characters"
    return name if chunks.context == "none" else f"{name}, {chunks.context}"


def _read_queries(args: argparse.Namespace, documents: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """Return queries with ``text`` and evidence in QUERY_SCHEMA's columns, and their source."""
    if args.queries is None:
        queries = known_items(documents, seed=args.seed, most=args.max_queries)
        return queries, f"{queries.height} simulated known-item queries"
    queries = read_placed_queries(args.queries, documents, corpus=args.corpus)
    queries = without_outer_space(queries, dict(documents.select("_id", "text").iter_rows()))
    return queries, f"{queries.height} queries of {args.queries}"


def known_items(documents: pl.DataFrame, *, seed: int, most: int) -> pl.DataFrame:
    """Simulate known-item queries for passages, with spans in the documents.

    Documents are cut into passages of at most `PASSAGE_CHARS` characters, so that also a few long
    documents give queries from everywhere. A query's terms occur together in no other passage.
    """
    from psibench.formats.beir import QUERY_SCHEMA
    from psibench.generate.loaders.known_item import simulate_known_items, why_no_query
    from psibench.text.splitting import Ruler, split_text

    rows = [
        (f"{doc_id}@{start}", text[start:end], doc_id, start, len(text))
        for doc_id, text in documents.select("_id", "text").iter_rows()
        for start, end in split_text(
            text, Ruler.of_characters(text), splitter="recursive", size=PASSAGE_CHARS, overlap=0
        )
    ]
    passages = pl.DataFrame(rows, ["_id", "text", "document", "offset", "length"], orient="row")
    made, dropped = simulate_known_items(passages.select("_id", "text"), seed=seed)
    if made.is_empty():
        raise InputError(f"{why_no_query(passages, dropped)} Give your own with --queries.")
    chosen = made["pos_corpus_id"].unique(maintain_order=True)
    if made.height > most:
        chosen = chosen.sample(most // 3, seed=seed)
    placed = made.filter(pl.col("pos_corpus_id").is_in(chosen.implode())).join(
        passages.select("document", "offset", "length", pos_corpus_id="_id"),
        on="pos_corpus_id",
        maintain_order="left",
    )
    span = pl.col("pos_char_span").cast(pl.List(pl.Int64))
    found = placed.select(
        "_id",
        "text",
        pos_corpus_id="document",
        pos_char_span=pl.concat_list(
            span.list.get(0) + pl.col("offset"), span.list.get(1) + pl.col("offset")
        ),
        pos_char_length="length",
    )
    absent = {name: kind for name, kind in QUERY_SCHEMA.items() if name not in found.columns}
    found = found.with_columns(pl.lit(None, kind).alias(name) for name, kind in absent.items())
    return found.select("text", *(pl.col(name).cast(kind) for name, kind in QUERY_SCHEMA.items()))


# --- Measuring


def _measure(
    args: argparse.Namespace,
    entry: EncoderModel,
    settings: dict[str, Chunks],
    documents: pl.DataFrame,
    queries: pl.DataFrame,
) -> Iterator[SettingResult]:
    """Cut, encode, search and score the corpus with each setting."""
    from psibench.config.sections import Encoding
    from psibench.encode.batches import EncodeStats, encode_texts
    from psibench.encode.chunks import Rulers, cut_documents, encode_chunks, with_tokens
    from psibench.encode.job import open_encoder
    from psibench.encode.store import EmbeddingStore, text_key
    from psibench.models.counting import load_tokenizer
    from psibench.search.chunks import search_chunks
    from psibench.text.splitting import after_space

    encoding = Encoding(device=args.device)
    encoder, _ = open_encoder(entry, encoding, needs_torch=True)
    counted = sizes = Rulers(load_tokenizer(entry.checkpoint, option="--model"))
    if args.tokenizer is not None:
        counted = Rulers(load_tokenizer(args.tokenizer, option="--tokenizer"))
    texts = dict(documents.select("_id", "text").iter_rows())
    budgets = sorted({int(args.tokens * share) for share in (0.25, 0.5, 1, 2, 4)} - {0})
    with tempfile.TemporaryDirectory(prefix="psibench-chunks-") as folder:
        store = EmbeddingStore(folder, encoder.fingerprint)
        texts_of_queries, salt = queries["text"].to_list(), encoder.salt("query")
        encode_texts(
            encoder, texts_of_queries, "query",
            store=store, settings=encoding, description="queries",
        )  # fmt: skip
        asked = store.load([text_key(text, salt=salt) for text in texts_of_queries])
        total = EncodeStats()
        for number, (name, chunks) in enumerate(settings.items(), 1):
            cut = with_tokens(cut_documents(documents, chunks, sizes), texts, counted)
            encoded = encode_chunks(
                encoder, store, documents, cut, encoding, context=chunks.context
            )
            stats, vectors = encoded.stats, store.load(encoded.keys)
            if stats.tokens:
                total.add(stats)
            print(
                f"{number}/{len(settings)} {name}: {cut.height:,} chunks, {stats.texts:,} encoded "
                f"in {stats.seconds:.1f} s",
                file=sys.stderr,
                flush=True,
            )
            speed = stats if stats.tokens else total  # all chunks may be in the store
            tokens_of = dict(zip(encoded.keys, encoded.n_tokens.tolist(), strict=True))
            ends = [after_space(texts[doc], end) for doc, end in cut["doc_id", "end"].iter_rows()]
            yield score_setting(
                search_chunks(
                    entry.scores_by, asked, vectors, queries["_id"], cut,
                    tokens=max(budgets), documents=DOCUMENTS,
                ),
                cut.with_columns(reach=pl.Series(ends, dtype=pl.Int64)),
                queries,
                name=name,
                setting=chunks.model_dump() | {"unit": chunks.measure},
                budgets=budgets,
                costs={
                    "chunks": cut.height,
                    "distinct": len(tokens_of),
                    "index_tokens": int(cut["tokens"].sum()),
                    "index_mb": vectors.values.nbytes / 1e6,
                    "seconds": speed.seconds * sum(tokens_of.values()) / speed.tokens,
                    "beyond_input": encoded.n_cut / cut.height,
                },
            )  # fmt: skip


# --- Output


def _text(
    results: Sequence[SettingResult], table: pl.DataFrame, args: argparse.Namespace
) -> Iterator[str]:
    scores = results[0].scores
    metric = f"span-recall@{args.tokens}tokens"
    tokenizer = args.tokenizer or args.model
    yield (
        f"Share of the evidence in the first {args.tokens:,} tokens of ranked chunks "
        f"({metric}; tokens of {tokenizer}):"
    )
    yield ""
    columns = {
        "setting": "setting",
        "found": "mean",
        "within": pl.concat_list("low", "high"),
        "best": "mark",
        "less": "difference",
        "between": pl.concat_list("difference_low", "difference_high"),
        **{one: one for one in ("beginning", "middle", "end")},
        "precision": "span-precision@5",
        "IoU": "span-iou@5",
        "recall5": "span-recall@5",
        "cut": "cut",
        "beyond": "beyond_input",
        "chunks": "chunks",
        "MB": "index_mb",
        "s": "seconds",
    }
    named = {"within": "interval", "less": "to best", "between": "interval", "recall5": "recall@5"}
    heads = [named.get(column, column) for column in columns]
    percent, signed, tenth = ".0%", "+.3f", ".1f"
    forms = {"less": signed, "between": signed, "cut": percent, "beyond": percent}
    shown = table.sort("mean", descending=True).select(**columns)
    yield from frame_lines(shown, forms | {"MB": tenth, "s": tenth}, n_text=1, heads=heads)
    yield ""
    yield (
        "best: the best setting (1), and settings that cannot be distinguished from it (=): the "
        "95 % interval of the difference, simultaneous over all pairs, includes 0."
    )
    if table["difference_low"].null_count():
        yield "No intervals: fewer than 30 documents, and too few queries to form sections."
    yield from section_lines(scores)
    yield (
        "precision, IoU and recall@5: of the first 5 chunks, in characters. cut: evidence spans in "
        "no single chunk. beyond: chunks longer than the model's input. s: seconds to encode all "
        "chunks of this setting, without sharing."
    )
    yield ""
    yield "Recall by the place of the evidence in the chunk that holds it best:"
    edges = pl.DataFrame([edge_recall(one, metric) for one in results])
    edges = edges.join(shown.select("setting"), on="setting", maintain_order="right")
    yield from frame_lines(edges, {"cut spans": percent}, n_text=1)
    yield (
        "edge, between, centre: the middle of the evidence lies in the outer, second or inner "
        "third of the way from the chunk's nearer end to its centre; cut: in no single chunk. "
        "Queries with one span."
    )


def _write(
    args: argparse.Namespace,
    results: Sequence[SettingResult],
    table: pl.DataFrame,
    curves: pl.DataFrame,
    queries: pl.DataFrame,
) -> None:
    from psibench.report.chunks import draw_grid

    folder = args.out
    (folder / "runs").mkdir(parents=True, exist_ok=True)
    table.write_csv(folder / "grid.csv")
    curves.write_csv(folder / "curves.csv")
    queries.write_ndjson(folder / "queries.jsonl")
    qrels = ["query-id\tcorpus-id\tscore"]
    qrels += [f"{i}\t{doc}\t1" for i, doc in queries.select("_id", "pos_corpus_id").iter_rows()]
    write_text("\n".join(qrels) + "\n", folder / "qrels.tsv")
    for one in results:
        name = one.name.replace("/", "-").replace(", ", "-").replace(" ", "-")
        one.run.write_ndjson(folder / "runs" / f"{name}.jsonl")
    draw_grid(table, curves, folder / "chunks.png", budget=args.tokens)


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `psibench chunks`."""
    parser.add_argument(
        "corpus", type=Path, metavar="CORPUS", help="documents: a folder of files, or one file"
    )
    parser.add_argument(
        "--model",
        default=DEFAULT_MODEL,
        help="encoder: id of the registry, or a folder with a checkpoint (default: "
        f"{DEFAULT_MODEL})",
    )
    grid = parser.add_argument_group("settings, all combinations of")
    grid.add_argument(
        "--splitters",
        type=_listed,
        default=("recursive",),
        metavar="A,B",
        help=f"{', '.join(get_args(Splitter)[:-1])} (default: recursive)",
    )
    grid.add_argument(
        "--sizes", type=_listed, metavar="N,N", help="most units of a chunk (default: 128,256,512)"
    )
    grid.add_argument(
        "--overlaps", type=_listed, default=("0",), metavar="N,N", help="units (default: 0)"
    )
    grid.add_argument(
        "--contexts",
        type=_listed,
        default=("none",),
        metavar="A,B",
        help=f"{', '.join(get_args(ChunkContext))} (default: none)",
    )
    grid.add_argument(
        "--unit",
        choices=("tokens", "characters"),
        default="tokens",
        help="unit of sizes and overlaps; tokens of the model's tokenizer (default)",
    )
    grid.add_argument(
        "--setting",
        action="append",
        default=[],
        metavar="SPLITTER,SIZE,OVERLAP[,CONTEXT]",
        help="a further setting; may be repeated. With it, the grid is only built with --sizes",
    )
    grid.add_argument(
        "--program",
        nargs="+",
        metavar="WORD",
        help="also the chunks of a program: see chunks.command in docs/config.md",
    )
    measured = parser.add_argument_group("what is measured")
    measured.add_argument(
        "--queries",
        type=Path,
        metavar="FILE",
        help="queries with text, pos_corpus_id and pos_char_span or pos_char_spans (default: "
        "simulated known-item queries)",
    )
    measured.add_argument(
        "--tokens",
        type=whole,
        default=1000,
        metavar="N",
        help="tokens of ranked chunks that are handed on (default: 1000)",
    )
    measured.add_argument(
        "--tokenizer",
        metavar="NAME",
        help="tokenizer that counts the tokens handed on, the same for all settings (default: the "
        "model's)",
    )
    measured.add_argument(
        "--max-queries", type=whole, default=1200, metavar="N", help="most known-item queries"
    )
    measured.add_argument("--seed", type=whole, default=42, help="of the known-item queries")
    parser.add_argument(
        "--text-column", default="text", help="field with the texts (default: text)"
    )
    parser.add_argument("--max-tokens", type=whole, help="input length for a folder's checkpoint")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="folder for grid.csv, curves.csv, chunks.png, queries, qrels and runs",
    )


DESCRIPTION = (
    "Cut a corpus in many ways, search each with one model, and measure how much of the evidence "
    "the first N tokens of ranked chunks hold: by splitter, size and overlap, and by the position "
    "of the evidence. Settings that cannot be distinguished from the best one are marked."
)
