"""The layouts that a built benchmark is published in: PosIR's release, MTEB, BEIR and TREC.

A collection is what a retriever searches as a whole. Retrieval by psibench keeps to the domain of
a query, PosIR's layout has a collection for each language and domain, too. In the other layouts the
domains of a language are pooled into one collection, or kept apart by choice. Languages are never
pooled. In a cross-lingual pair the queries of one language are asked of another's collection: it is
written where a run of it was made, as `QUERY_LANG-CORPUS_LANG`, and has no corpus of its own.

===== ==========================================================================================
posir `LANG/DOMAIN/{corpus,queries,qrels}/test.parquet`, in the columns of PosIR's release; without
      pairs, as there
mteb  `LANG/{corpus,queries,qrels}/test.parquet`; the card's configs `LANG-corpus`, `LANG-queries`
      and `LANG-qrels` are what MTEB's `RetrievalDatasetLoader` asks for (of a pair, `-corpus` is
      the other language's file). Evidence: columns of queries, and where these cannot hold it
      `LANG-evidence`
beir  `LANG/corpus.jsonl`, `queries.jsonl`, `qrels/test.tsv`, as `GenericDataLoader` and
      `HFDataLoader` take them. Evidence: `metadata` of queries
trec  `LANG/corpus.jsonl` (`docno`, `text`), `topics.tsv`, `qrels.trec`, `queries.jsonl` (evidence)
      and `runs/MODEL.trec`
===== ==========================================================================================
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq

from psibench.errors import InputError
from psibench.formats.built import Dataset, Run, find_runs
from psibench.formats.posir import COLUMNS
from psibench.formats.tabular import ID_COLUMNS
from psibench.metrics.query_scores import EVIDENCE_LISTS, name_some
from psibench.tables import read_table
from psibench.tables.schemas import RUN

EVIDENCE = (
    "domain",
    "pos_corpus_id",
    "pos_char_span",
    "pos_char_length",
    "pos_token_length",
    "target_position",
    *EVIDENCE_LISTS,
)
"""Columns of queries that say where their evidence is, in the order they are written."""
WHITE = r"\s"
QUOTED = r'[\t\r\n"]'


@dataclass(frozen=True)
class Collection:
    """What is searched as a whole: a language's datasets, or one of them."""

    name: str
    language: str
    datasets: tuple[Dataset, ...]


@dataclass(frozen=True)
class Subset:
    """Queries of one language over a collection, with what is judged for them.

    A pair is named QUERY_LANG-COLLECTION. ``language`` is that of the queries, which are a frame
    for each domain, their evidence that in the collection's documents.
    """

    name: str
    language: str
    collection: Collection
    queries: tuple[pl.DataFrame, ...]
    qrels: pl.DataFrame


@dataclass(frozen=True)
class Written:
    """A file of a table, or of a run; a file that several configs load stands there for each.

    ``config`` is the name that it is loaded by (`datasets.load_dataset(folder, config)`), ``path``
    below the folder of the export, ``table`` one of corpus, queries, qrels, evidence, topics, run.
    """

    config: str
    path: Path
    table: str
    collection: str


@dataclass(frozen=True)
class Export:
    """What a layout is written from, and where to.

    Ids of ``prefixed`` domains get the domain in front, those of ``stripped`` domains lose it.
    With ``extra`` columns are written that the layout does not have.
    """

    benchmark: Path
    out: Path
    collections: tuple[Collection, ...]
    prefixed: frozenset[str] = frozenset()
    stripped: frozenset[str] = frozenset()
    extra: bool = False

    def frames(self, collection: Collection, table: str) -> Iterator[pl.DataFrame]:
        """Read a table of a collection, a frame for each domain."""
        for dataset in collection.datasets:
            yield self.renamed(dataset.read(table), dataset.domain)

    def renamed(self, frame: pl.DataFrame, domain: str) -> pl.DataFrame:
        """Give ids of a domain the form they are written in."""
        prefix = f"{domain}/"
        ids = [name for name in ID_COLUMNS if name in frame.columns]
        if domain in self.prefixed:
            return frame.with_columns((pl.lit(prefix) + pl.col(name)).alias(name) for name in ids)
        if domain in self.stripped:
            return frame.with_columns(pl.col(name).str.strip_prefix(prefix) for name in ids)
        return frame

    def subsets(self, collection: Collection) -> Iterator[Subset]:
        """Yield the collection with its own queries, then with those of other languages.

        A pair has the queries of the collection that have a text in the other language; it is left
        out where no run of it was made, or no query has one.
        """
        qrels = pl.concat([_columns_of(one, "qrels") for one in self.frames(collection, "qrels")])
        own = tuple(
            _columns_of(frame.with_columns(domain=pl.lit(dataset.domain)), "queries")
            for dataset, frame in zip(
                collection.datasets, self.frames(collection, "queries"), strict=True
            )
        )
        yield Subset(collection.name, collection.language, collection, own, qrels)
        over = [run for run in self.runs if run.corpus_language == collection.language]
        asking = dict.fromkeys(run.query_language for run in over)
        for language in (name for name in asking if name != collection.language):
            texts = self._texts(collection, language)
            asked = tuple(
                frame.drop("text")
                .join(texts, on="_id", how="inner", maintain_order="left")
                .select(frame.columns)
                for frame in own
            )
            ids = pl.concat([frame.get_column("_id") for frame in asked])
            if len(ids):
                judged = qrels.filter(pl.col("query-id").is_in(ids.implode()))
                yield Subset(f"{language}-{collection.name}", language, collection, asked, judged)

    @cached_property
    def runs(self) -> list[Run]:
        """The runs between the languages that are exported."""
        return find_runs(
            self.benchmark, list(dict.fromkeys(one.language for one in self.collections))
        )

    def _texts(self, collection: Collection, language: str) -> pl.DataFrame:
        """Read the queries of a collection's domains in another language: `_id` and `text`."""
        domains = {dataset.domain for dataset in collection.datasets}
        found = [
            self.renamed(dataset.read("queries").select("_id", "text"), dataset.domain)
            for other in self.collections
            for dataset in other.datasets
            if other.language == language and dataset.domain in domains
        ]
        empty = pl.DataFrame(schema={"_id": pl.String, "text": pl.String})
        return pl.concat([empty, *found])


def collections_of(datasets: Sequence[Dataset], *, by_domain: bool) -> tuple[Collection, ...]:
    """Pool the domains of each language, or leave every dataset a collection of its own.

    A collection is named after its language; where domains are kept apart `LANG-DOMAIN`.
    """
    if by_domain:
        return tuple(
            Collection(f"{one.language}-{one.domain}", one.language, (one,)) for one in datasets
        )
    languages = dict.fromkeys(one.language for one in datasets)
    return tuple(
        Collection(name, name, tuple(one for one in datasets if one.language == name))
        for name in languages
    )


def _write(
    export: Export,
    part: Collection | Subset,
    table: str,
    frames: Iterable[pl.DataFrame],
    file: str,
    *,
    folder: str = "",
    **csv: Any,
) -> Written:
    """Write frames of the same columns one after the other, in the form that the suffix says.

    ``folder`` is where the file lies, else that of the part's name.
    """
    path = Path(folder or part.name, file)
    (export.out / path).parent.mkdir(parents=True, exist_ok=True)
    writer = None
    with ExitStack() as stack:
        stream = stack.enter_context((export.out / path).open("wb"))
        for frame in frames:
            if path.suffix == ".jsonl":
                frame.write_ndjson(stream)
            elif path.suffix == ".parquet":
                rows = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
                if writer is None:
                    opened = pq.ParquetWriter(stream, rows.schema, compression="zstd")
                    writer = stack.enter_context(opened)
                writer.write_table(rows.cast(writer.schema))
            else:
                frame.write_csv(stream, quote_style="never", **csv)
    collection = part.collection if isinstance(part, Subset) else part
    return Written(f"{part.name}-{table}", path, table, collection.name)


# --- PosIR -----------------------------------------------------------------------------------


def write_posir(export: Export) -> list[Written]:
    """Write the layout of PosIR's release; see `psibench.formats.posir`."""
    written = []
    for collection in export.collections:
        (dataset,) = collection.datasets
        _refuse_lost_evidence(dataset, extra=export.extra)
        folder = f"{dataset.language}/{dataset.domain}"
        for table, columns in COLUMNS.items():
            own = [pl.col(name).cast(kind) for name, kind in columns.items()]
            more = [pl.exclude(*columns)] if export.extra else []
            frames = (frame.select(*own, *more) for frame in export.frames(collection, table))
            file = f"{table}/test.parquet"
            written.append(_write(export, collection, table, frames, file, folder=folder))
    return written


def _refuse_lost_evidence(dataset: Dataset, *, extra: bool) -> None:
    queries = dataset.read("queries")
    lengths = queries.get_column("pos_token_length")
    if lengths.null_count():
        raise InputError(
            f"{dataset.path('queries')}: {lengths.null_count()} queries have no pos_token_length, "
            "which the layout needs"
        )
    without = queries.get_column("pos_char_span").null_count()
    if without and not extra:
        raise InputError(
            f"{dataset.path('queries')}: the evidence of {without} queries is not one span, and "
            "the layout has no other place for it; use --extra"
        )


# --- MTEB ------------------------------------------------------------------------------------


def write_mteb(export: Export) -> list[Written]:
    """Write Parquet files that MTEB's loader finds by the configs of the card.

    MTEB puts all columns of queries into batches, and fails at a null and at lists of unlike
    lengths. Where the evidence needs these, queries have the other columns alone, and a config
    `LANG-evidence` has all.
    """
    written = []
    for one in export.collections:
        corpus = (_columns_of(frame, "corpus") for frame in export.frames(one, "corpus"))
        searched = _write(export, one, "corpus", corpus, "corpus/test.parquet")
        for subset in export.subsets(one):
            written.append(replace(searched, config=f"{subset.name}-corpus"))
            left_out = [
                name for name in EVIDENCE if any(_unfit(f.get_column(name)) for f in subset.queries)
            ]
            frames: dict[str, Iterable[pl.DataFrame]] = {
                "queries": (frame.drop(left_out) for frame in subset.queries),
                "qrels": [subset.qrels],
            }
            if any(frame.get_column(name).count() for frame in subset.queries for name in left_out):
                frames["evidence"] = (frame.drop("text") for frame in subset.queries)
            written += [
                _write(export, subset, table, own, f"{table}/test.parquet")
                for table, own in frames.items()
            ]
    return written


def _unfit(column: pl.Series) -> bool:
    """Say whether MTEB cannot put values of a column into one batch."""
    return column.null_count() > 0 or column.name in EVIDENCE_LISTS


def _columns_of(frame: pl.DataFrame, table: str) -> pl.DataFrame:
    """Choose what is published of a table; evidence that no query has in a form is null."""
    if table == "corpus":
        return frame.select("_id", "text")
    if table == "qrels":
        return frame.select("query-id", "corpus-id", pl.col("score").cast(pl.Int32))
    lists = {"pos_char_span": pl.List(pl.Int32), "positions": pl.List(pl.String)}
    kinds: dict[str, Any] = lists | {"pos_char_spans": pl.List(pl.List(pl.Int32))}
    chosen = [
        (pl.col(name) if name in frame.columns else pl.lit(None).alias(name)).cast(
            kinds.get(name, frame.schema.get(name, pl.String))
        )
        for name in EVIDENCE
    ]
    return frame.select("_id", "text", *chosen)


# --- BEIR ------------------------------------------------------------------------------------


def write_beir(export: Export) -> list[Written]:
    """Write JSON Lines and tab-separated qrels, a folder for each collection and pair."""
    written = []
    for one in export.collections:
        written.append(_write_corpus(export, one, "_id"))
        for subset in export.subsets(one):
            _refuse_ids(subset.qrels, QUOTED, "tabs, quotes or line ends", "beir", one)
            written += [
                _write_queries(export, subset),
                _write(export, subset, "qrels", [subset.qrels], "qrels/test.tsv", separator="\t"),
            ]
    return written


def _write_corpus(export: Export, collection: Collection, id_name: str) -> Written:
    """Write documents as JSON Lines; BEIR's models put a title before the text: it is empty."""
    title = [pl.lit("").alias("title")] if id_name == "_id" else []
    frames = (
        frame.select(pl.col("_id").alias(id_name), *title, "text")
        for frame in export.frames(collection, "corpus")
    )
    return _write(export, collection, "corpus", frames, "corpus.jsonl")


def _write_queries(export: Export, subset: Subset) -> Written:
    """Write queries as JSON Lines, their evidence in `metadata`."""
    frames = (frame.select("_id", "text", metadata=pl.struct(EVIDENCE)) for frame in subset.queries)
    return _write(export, subset, "queries", frames, "queries.jsonl")


def _refuse_ids(
    frame: pl.DataFrame, pattern: str, found: str, layout: str, collection: Collection
) -> None:
    """Refuse ids that the files of a layout cannot hold."""
    for name in ("query-id", "corpus-id"):
        ids = frame.get_column(name)
        odd = ids.filter(ids.str.contains(pattern) | (ids.str.len_bytes() == 0)).unique()
        if len(odd):
            raise InputError(
                f"{collection.name}: ids with {found} have no place in the layout {layout}: "
                f"{name_some(odd)}; build the benchmark with other ids, or take --layout mteb"
            )


# --- TREC ------------------------------------------------------------------------------------


def write_trec(export: Export) -> list[Written]:
    """Write topics, qrels, documents and the runs that there are, in the files of TREC.

    Runs of one domain's documents are right for pooled domains too: a query's documents are those
    of its own domain.
    """
    written: list[Written] = []
    for one in export.collections:
        written.append(_write_corpus(export, one, "docno"))
        for subset in export.subsets(one):
            _refuse_ids(subset.qrels, WHITE, "white space", "trec", one)
            written += _write_topics(export, subset)
            written += [
                _write_run(export, subset, run)
                for run in export.runs
                if (run.query_language, run.corpus_language) == (subset.language, one.language)
            ]
    return written


def _write_topics(export: Export, subset: Subset) -> list[Written]:
    """Write topics (query id, tab, text in one line), qrels and the queries with their evidence."""
    one_line = pl.col("text").str.replace_all(r"\s+", " ").str.strip_chars()
    asked = [frame.select(qid="_id", query=one_line) for frame in subset.queries]
    qrels = subset.qrels.select("query-id", pl.lit("0").alias("iteration"), "corpus-id", "score")
    files = (
        ("topics", "topics.tsv", pl.concat(asked), "\t"),
        ("qrels", "qrels.trec", qrels, " "),
    )
    written = [
        _write(export, subset, table, [frame], file, separator=separator, include_header=False)
        for table, file, frame, separator in files
    ]
    return [*written, _write_queries(export, subset)]


def _write_run(export: Export, subset: Subset, run: Run) -> Written:
    """Write a run of the subset's queries: the tag is the model's id."""
    frame = read_table(run.path, RUN)
    known = []
    for dataset, asked in zip(subset.collection.datasets, subset.queries, strict=True):
        ids = dataset.read("queries").select(query_id="_id")
        own = frame.join(ids, on="query_id", how="semi", maintain_order="left")
        named = export.renamed(own, dataset.domain)
        asking = asked.select(query_id="_id")
        known.append(named.join(asking, on="query_id", how="semi", maintain_order="left"))
    rows = pl.concat(known)
    if rows.select("query_id", "rank").is_duplicated().any():
        raise InputError(
            f"{run.path}: a query id occurs in two domains; ids must differ between them"
        )
    pairs = rows.select(pl.col("query_id").alias("query-id"), pl.col("doc_id").alias("corpus-id"))
    _refuse_ids(pairs, WHITE, "white space", "trec", subset.collection)
    columns = ("query_id", pl.lit("Q0").alias("Q0"), "doc_id", "rank")
    named = rows.select(*columns, pl.col("score").cast(pl.String), tag=pl.lit(run.model))
    file = f"runs/{run.model}.trec"
    return _write(export, subset, "run", [named], file, separator=" ", include_header=False)


LAYOUTS: dict[str, Callable[[Export], list[Written]]] = {
    "posir": write_posir,
    "mteb": write_mteb,
    "beir": write_beir,
    "trec": write_trec,
}
