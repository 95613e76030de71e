"""The layouts that a built benchmark is published in: PosIR's release, MTEB, BEIR and TREC.

A corpus is one language and domain, as psibench searches it, in every layout. Its name is LANG, or
LANG-DOMAIN where several domains are written. In a cross-lingual pair the queries of one language
are asked of another's corpus: it is written where a run of it was made, as `QUERY_LANG-CORPUS`,
and has no corpus of its own.

===== ==========================================================================================
posir `LANG/DOMAIN/{corpus,queries,qrels}/test.parquet`, in the columns of PosIR's release; without
      pairs, as there
mteb  `NAME/{corpus,queries,qrels}/test.parquet`; the card's configs `NAME-corpus`, `NAME-queries`
      and `NAME-qrels` are what MTEB's `RetrievalDatasetLoader` asks for (of a pair, `-corpus` is
      the other language's file). Evidence: columns of queries, and where these cannot hold it
      `NAME-evidence`
beir  `NAME/corpus.jsonl`, `queries.jsonl`, `qrels/test.tsv`, as `GenericDataLoader` and
      `HFDataLoader` take them. Evidence: `metadata` of queries
trec  `NAME/corpus.jsonl` (`docno`, `text`), `topics.tsv`, `qrels.trec`, `queries.jsonl` (evidence)
      and `runs/MODEL.trec`
===== ==========================================================================================
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq

from psibench.errors import InputError
from psibench.formats.built import Dataset, Run, find_runs
from psibench.formats.checks import identical_ids_removed
from psibench.formats.posir import COLUMNS
from psibench.formats.tabular import ID_COLUMNS
from psibench.metrics.query_scores import EVIDENCE_LISTS, name_some
from psibench.tables import read_table
from psibench.tables.schemas import RUN

logger = logging.getLogger("psibench")

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
REMOVED_KEY = "identical_ids_removed"
WHITE = r"\s"
QUOTED = r'[\t\r\n"]'


@dataclass(frozen=True)
class Subset:
    """Queries of one language over the corpus of a dataset, with what is judged for them.

    ``language`` is that of the queries; their evidence is that in the dataset's documents. The
    subset has the name of the corpus, that of a pair is QUERY_LANG-CORPUS.
    """

    name: str
    language: str
    dataset: Dataset
    queries: pl.DataFrame
    qrels: pl.DataFrame


@dataclass(frozen=True)
class Written:
    """A file of a table, or of a run; a file that several configs load is one for each.

    ``config`` is the name that it is loaded by (`datasets.load_dataset(folder, config)`), ``path``
    below the folder of the export, ``table`` one of corpus, queries, qrels, evidence, topics, run.
    """

    config: str
    path: Path
    table: str


@dataclass(frozen=True)
class Export:
    """What a layout is written from, and where to.

    Ids of ``stripped`` domains lose the domain in front. With ``extra`` columns are written that
    the layout does not have.
    """

    benchmark: Path
    out: Path
    datasets: tuple[Dataset, ...]
    stripped: frozenset[str] = frozenset()
    extra: bool = False

    def name(self, dataset: Dataset) -> str:
        """Return the name of a dataset's corpus."""
        is_one = len({one.domain for one in self.datasets}) == 1
        return dataset.language if is_one else f"{dataset.language}-{dataset.domain}"

    def read(self, dataset: Dataset, table: str) -> pl.DataFrame:
        """Read a table of a dataset, its ids in the form they are written in."""
        frame = dataset.read(table)
        if dataset.domain not in self.stripped:
            return frame
        ids = [name for name in ID_COLUMNS if name in frame.columns]
        return frame.with_columns(pl.col(ids).str.strip_prefix(f"{dataset.domain}/"))

    def subsets(self, dataset: Dataset) -> Iterator[Subset]:
        """Yield the corpus with its own queries, then with those of other languages.

        Yields nothing for a dataset without queries: a reader could not evaluate it.

        A pair has the queries of the dataset that have a text in the other language; it is left
        out where no run of it was made, or no query has one.
        """
        name, qrels = self.name(dataset), _columns_of(dataset.read("qrels"), "qrels")
        queries = dataset.read("queries").with_columns(domain=pl.lit(dataset.domain))
        queries = _columns_of(queries, "queries")
        if queries.is_empty():
            logger.warning("%s: no query; only its documents are exported", dataset.name)
            return
        yield Subset(name, dataset.language, dataset, queries, qrels)
        pairs = {(run.query_language, run.corpus_language) for run in self.runs}
        for other in self.datasets:
            is_asking = (other.language, dataset.language) in pairs
            if other == dataset or other.domain != dataset.domain or not is_asking:
                continue
            texts = other.read("queries").select("_id", "text")
            asked = queries.drop("text").join(texts, on="_id", maintain_order="left")
            if asked.height:
                judged = qrels.filter(pl.col("query-id").is_in(asked["_id"].implode()))
                pair = f"{other.language}-{name}"
                yield Subset(pair, other.language, dataset, asked.select(queries.columns), judged)

    @cached_property
    def runs(self) -> list[Run]:
        """The runs between the languages that are exported."""
        return find_runs(self.benchmark, list(dict.fromkeys(one.language for one in self.datasets)))


def _write(
    export: Export,
    name: str,
    table: str,
    frame: pl.DataFrame,
    file: str,
    metadata: Mapping[str, str] | None = None,
    **csv: Any,
) -> Written:
    """Write a frame as a file below the folder NAME, in the form that the suffix says.

    ``metadata`` is that of a Parquet file's schema.
    """
    path = Path(name, file)
    place = export.out / path
    place.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".jsonl":
        frame.write_ndjson(place)
    elif path.suffix == ".parquet":
        rows = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
        pq.write_table(rows.replace_schema_metadata(metadata), place, compression="zstd")
    else:
        frame.write_csv(place, quote_style="never", **csv)
    return Written(f"{name.replace('/', '-')}-{table}", path, table)


# --- PosIR -----------------------------------------------------------------------------------


def write_posir(export: Export) -> list[Written]:
    """Write the layout of PosIR's release; see `psibench.formats.posir`."""
    written = []
    for dataset in export.datasets:
        _refuse_lost_evidence(dataset, extra=export.extra)
        folder = f"{dataset.language}/{dataset.domain}"
        for table, columns in COLUMNS.items():
            typed = [pl.col(name).cast(kind) for name, kind in columns.items()]
            more = [pl.exclude(*columns)] if export.extra else []
            frame = export.read(dataset, table).select(*typed, *more)
            written.append(_write(export, folder, table, frame, f"{table}/test.parquet"))
    return written


def _refuse_lost_evidence(dataset: Dataset, *, extra: bool) -> None:
    queries = dataset.read("queries")
    lengths = queries.get_column("pos_token_length")
    if lengths.null_count():
        raise InputError(
            f"{dataset.name}: {lengths.null_count()} queries have no pos_token_length, "
            "which the layout needs"
        )
    without = queries.get_column("pos_char_span").null_count()
    if without and not extra:
        raise InputError(
            f"{dataset.name}: the evidence of {without} queries is not one span, and "
            "the layout has no other place for it; use --extra"
        )


# --- MTEB ------------------------------------------------------------------------------------


def write_mteb(export: Export) -> list[Written]:
    """Write Parquet files that MTEB's loader finds by the configs of the card.

    MTEB puts all columns of queries into batches, and fails at a null and at lists of unlike
    lengths. Where the evidence needs these, queries have the other columns alone, and a config
    `NAME-evidence` has all. The metadata of qrels say, under `REMOVED_KEY`, whether rankings are
    without the document of the query's own id.
    """
    written = []
    for one in export.datasets:
        corpus = _columns_of(one.read("corpus"), "corpus")
        searched = _write(export, export.name(one), "corpus", corpus, "corpus/test.parquet")
        for subset in export.subsets(one):
            written.append(replace(searched, config=f"{subset.name}-corpus"))
            asked = subset.queries
            left_out = [name for name in EVIDENCE if _unfit(asked.get_column(name))]
            frames = {"queries": asked.drop(left_out), "qrels": subset.qrels}
            if any(asked.get_column(name).count() for name in left_out):
                frames["evidence"] = asked.drop("text")
            setting = one.identical_ids
            is_asked = subset.queries["_id"].is_in(corpus["_id"].implode()).any()
            is_removed = str(is_asked and identical_ids_removed(setting, subset.qrels))
            written += [
                _write(
                    *(export, subset.name, table, frame, f"{table}/test.parquet"),
                    metadata={REMOVED_KEY: is_removed} if table == "qrels" else None,
                )
                for table, frame in frames.items()
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
    """Write JSON Lines and tab-separated qrels, a folder for each corpus and pair."""
    written = []
    for one in export.datasets:
        written.append(_write_corpus(export, one, "_id"))
        for subset in export.subsets(one):
            name, qrels = subset.name, subset.qrels
            _refuse_ids(qrels, QUOTED, "tabs, quotes or line ends", "beir", name)
            written.append(_write_queries(export, subset))
            written.append(_write(export, name, "qrels", qrels, "qrels/test.tsv", separator="\t"))
    return written


def _write_corpus(export: Export, dataset: Dataset, id_name: str) -> Written:
    """Write documents as JSON Lines; BEIR's models put a title before the text: it is empty."""
    title = [pl.lit("").alias("title")] if id_name == "_id" else []
    frame = dataset.read("corpus").select(pl.col("_id").alias(id_name), *title, "text")
    return _write(export, export.name(dataset), "corpus", frame, "corpus.jsonl")


def _write_queries(export: Export, subset: Subset) -> Written:
    """Write queries as JSON Lines, their evidence in `metadata`."""
    frame = subset.queries.select("_id", "text", metadata=pl.struct(EVIDENCE))
    return _write(export, subset.name, "queries", frame, "queries.jsonl")


def _refuse_ids(frame: pl.DataFrame, pattern: str, found: str, layout: str, where: str) -> None:
    """Refuse ids that the files of a layout cannot hold."""
    for name in ("query-id", "corpus-id"):
        ids = frame.get_column(name)
        odd = ids.filter(ids.str.contains(pattern) | (ids.str.len_bytes() == 0)).unique()
        if len(odd):
            raise InputError(
                f"{where}: ids with {found} have no place in the layout {layout}: "
                f"{name_some(odd)}; build the benchmark with other ids, or take --layout mteb"
            )


# --- TREC ------------------------------------------------------------------------------------


def write_trec(export: Export) -> list[Written]:
    """Write topics, qrels, documents and the runs that there are, in the files of TREC."""
    written: list[Written] = []
    for one in export.datasets:
        written.append(_write_corpus(export, one, "docno"))
        for subset in export.subsets(one):
            _refuse_ids(subset.qrels, WHITE, "white space", "trec", subset.name)
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
    topics = subset.queries.select(qid="_id", query=one_line)
    qrels = subset.qrels.select("query-id", pl.lit("0").alias("iteration"), "corpus-id", "score")
    files = (("topics", "topics.tsv", topics, "\t"), ("qrels", "qrels.trec", qrels, " "))
    written = [
        _write(export, subset.name, table, frame, file, separator=separator, include_header=False)
        for table, file, frame, separator in files
    ]
    return [*written, _write_queries(export, subset)]


def _write_run(export: Export, subset: Subset, run: Run) -> Written:
    """Write a run of the subset's queries: the tag is the model's id."""
    asked = subset.queries.select(query_id="_id")
    rows = read_table(run.path, RUN).join(asked, on="query_id", how="semi", maintain_order="left")
    if rows.select("query_id", "rank").is_duplicated().any():
        raise InputError(
            f"{run.path}: a query id occurs in two domains; ids must differ between them"
        )
    pairs = rows.select(pl.col("query_id").alias("query-id"), pl.col("doc_id").alias("corpus-id"))
    _refuse_ids(pairs, WHITE, "white space", "trec", subset.name)
    columns = ("query_id", pl.lit("Q0").alias("Q0"), "doc_id", "rank")
    frame = rows.select(*columns, pl.col("score").cast(pl.String), tag=pl.lit(run.model))
    file = f"runs/{run.model}.trec"
    return _write(export, subset.name, "run", frame, file, separator=" ", include_header=False)


LAYOUTS: dict[str, Callable[[Export], list[Written]]] = {
    "posir": write_posir,
    "mteb": write_mteb,
    "beir": write_beir,
    "trec": write_trec,
}
