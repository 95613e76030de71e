"""Layouts of an exported benchmark: PosIR's release, MTEB, BEIR and TREC.

In every layout a corpus has one language and domain. Its name is LANG, or LANG-DOMAIN if several
domains are exported. In a cross-lingual pair, queries of one language search the corpus of another.
A pair is exported as `QUERY_LANG-CORPUS` if the benchmark has a run of it; it reuses the corpus.

===== ==========================================================================================
posir `LANG/DOMAIN/{corpus,queries,qrels}/test.parquet`, with the columns of PosIR's release;
      without pairs, like the release
mteb  `NAME/{corpus,queries,qrels}/test.parquet`; MTEB's `RetrievalDatasetLoader` loads the card's
      configs `NAME-corpus`, `NAME-queries` and `NAME-qrels` (`-corpus` of a pair is the file of
      the searched language). Evidence: columns of queries, or `NAME-evidence` if MTEB cannot load
      them
beir  `NAME/corpus.jsonl`, `queries.jsonl`, `qrels/test.tsv`, for `GenericDataLoader` and
      `HFDataLoader`. Evidence: `metadata` of queries
trec  `NAME/corpus.jsonl` (`docno`, `text`), `topics.tsv`, `qrels.trec`, `queries.jsonl` (evidence)
      and `runs/MODEL.trec`
===== ==========================================================================================
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq

from psibench.errors import InputError
from psibench.formats.built import BuiltRun, Dataset, find_runs
from psibench.formats.checks import identical_ids_removed
from psibench.formats.posir import RELEASE_COLUMNS
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
"""Columns of queries that describe their evidence, in the order of the files."""
REMOVED_KEY = "identical_ids_removed"


@dataclass(frozen=True)
class Subset:
    """Queries of one language for the corpus of a dataset, with their qrels.

    ``language`` is the language of the queries; their evidence refers to the dataset's documents.
    ``name`` is the name of the corpus, or QUERY_LANG-CORPUS for a pair.
    """

    name: str
    language: str
    dataset: Dataset
    queries: pl.DataFrame
    qrels: pl.DataFrame


@dataclass(frozen=True)
class Written:
    """A written file and a config that loads it; a file with several configs has several entries.

    ``config`` is for `datasets.load_dataset(folder, config)`; ``path`` is relative to the folder of
    the export; ``table`` is one of corpus, queries, qrels, evidence, topics, run.
    """

    config: str
    path: Path
    table: str


@dataclass(frozen=True)
class Export:
    """Source and destination of an export.

    Ids in ``stripped`` domains lose the domain in front. With ``extra`` the files also have columns
    that the layout lacks.
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
        """Read a table of a dataset, with ids as exported."""
        frame = dataset.read(table)
        if dataset.domain not in self.stripped:
            return frame
        ids = [name for name in ID_COLUMNS if name in frame.columns]
        return frame.with_columns(pl.col(ids).str.strip_prefix(f"{dataset.domain}/"))

    def subsets(self, dataset: Dataset) -> Iterator[Subset]:
        """Yield the corpus with queries of its language, then with queries of other languages.

        Yields nothing for a dataset without queries, because nobody could evaluate it.

        A pair has the queries that also have a text in the other language. Pairs without a run and
        pairs without queries are omitted.
        """
        name, qrels = self.name(dataset), _columns_of(dataset.read("qrels"), "qrels")
        queries = dataset.read("queries").with_columns(domain=pl.lit(dataset.domain))
        queries = _columns_of(queries, "queries")
        if queries.is_empty():
            logger.warning("%s: no queries; exporting only its documents", dataset.name)
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
    def runs(self) -> list[BuiltRun]:
        """Runs between the exported languages."""
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
    """Write a frame to NAME/FILE in the format of the suffix.

    ``metadata`` is for the schema of a Parquet file.
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
        for table, columns in RELEASE_COLUMNS.items():
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
            "which the layout requires"
        )
    without = queries.get_column("pos_char_span").null_count()
    if without and not extra:
        raise InputError(
            f"{dataset.name}: the evidence of {without} queries is not one span, and "
            "the layout has no column for it; use --extra"
        )


# --- MTEB ------------------------------------------------------------------------------------


def write_mteb(export: Export) -> list[Written]:
    """Write Parquet files that MTEB's loader finds by the configs of the card.

    MTEB puts all columns of queries into batches, and fails on nulls and on lists of different
    lengths. Columns of evidence with such values are therefore only in the config `NAME-evidence`,
    which has all columns. The metadata of qrels record under `REMOVED_KEY` whether rankings exclude
    the document with the query's id.
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
    """Return whether MTEB fails to put a column into batches."""
    return column.null_count() > 0 or column.name in EVIDENCE_LISTS


def _columns_of(frame: pl.DataFrame, table: str) -> pl.DataFrame:
    """Select the exported columns of a table; missing columns of evidence become null."""
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


# --- BEIR and TREC ---------------------------------------------------------------------------

TextFile = tuple[str, Sequence[pl.Expr], Mapping[str, Any]]
"""Path of a file in the folder of a corpus, its columns, and arguments of `write_csv`."""

_ID, _TEXT, _GRADE = pl.col("_id"), pl.col("text"), pl.col("score")
_QUERY_ID, _DOCUMENT_ID = pl.col("query-id"), pl.col("corpus-id")
_QUERIES: TextFile = ("queries.jsonl", (_ID, _TEXT, pl.struct(EVIDENCE).alias("metadata")), {})
_ONE_LINE = _TEXT.str.replace_all(r"\s+", " ").str.strip_chars()
_SPACED = {"separator": " ", "include_header": False}
_TABBED = {"separator": "\t", "include_header": False}

PAIR_IDS = ("query-id", "corpus-id")
TEXT_FILES: Mapping[str, Mapping[str, TextFile]] = {
    "beir": {
        # BEIR's models put the title before the text
        "corpus": ("corpus.jsonl", (_ID, pl.lit("").alias("title"), _TEXT), {}),
        "queries": _QUERIES,
        "qrels": ("qrels/test.tsv", (_QUERY_ID, _DOCUMENT_ID, _GRADE), {"separator": "\t"}),
    },
    "trec": {
        "corpus": ("corpus.jsonl", (_ID.alias("docno"), _TEXT), {}),
        "topics": ("topics.tsv", (_ID, _ONE_LINE), _TABBED),
        "queries": _QUERIES,
        "qrels": ("qrels.trec", (_QUERY_ID, pl.lit("0"), _DOCUMENT_ID, _GRADE), _SPACED),
        "run": (
            "runs/{model}.trec",
            # the shortest text that reads back as the same number
            (
                _QUERY_ID,
                pl.lit("Q0"),
                _DOCUMENT_ID,
                pl.col("rank"),
                _GRADE.cast(pl.String),
                pl.col("tag"),
            ),
            _SPACED,
        ),
    },
}
"""Layout -> table -> file."""
ODD_IDS = {"beir": (r'[\t\r\n"]', "tabs, quotes or line ends"), "trec": (r"\s", "white space")}
"""Layout -> pattern of ids that its files cannot hold, and the name of the characters."""


def write_text_files(export: Export, layout: str) -> list[Written]:
    """Write the files of `TEXT_FILES`, one folder per corpus and pair."""
    written: list[Written] = []
    for one in export.datasets:
        corpus = {"corpus": one.read("corpus")}
        written += _write_tables(export, layout, export.name(one), corpus)
        for subset in export.subsets(one):
            asked = subset.queries
            tables = {"topics": asked, "queries": asked, "qrels": subset.qrels}
            written += _write_tables(export, layout, subset.name, tables)
            for run in export.runs if "run" in TEXT_FILES[layout] else ():
                if (run.query_language, run.corpus_language) == (subset.language, one.language):
                    rows = {"run": _run_rows(run, asked)}
                    written += _write_tables(export, layout, subset.name, rows, model=run.model)
    return written


def _write_tables(
    export: Export, layout: str, name: str, tables: Mapping[str, pl.DataFrame], *, model: str = ""
) -> Iterator[Written]:
    """Write the tables that the layout has; InputError if it cannot hold an id."""
    pattern, found = ODD_IDS[layout]
    for table, (file, columns, csv) in TEXT_FILES[layout].items():
        if table not in tables:
            continue
        frame = tables[table]
        for ids in (frame[column] for column in PAIR_IDS if column in frame.columns):
            odd = ids.filter(ids.str.contains(pattern) | (ids.str.len_bytes() == 0)).unique()
            if len(odd):
                raise InputError(
                    f"{name}: the layout {layout} cannot hold ids that are empty or have {found}: "
                    f"{name_some(odd)}; build the benchmark with other ids or use --layout mteb"
                )
        path = file.format(model=model)
        yield _write(export, name, table, frame.select(columns), path, **csv)


def _run_rows(run: BuiltRun, queries: pl.DataFrame) -> pl.DataFrame:
    """Read a run's rows for some queries, with the id columns of qrels and the model as tag."""
    asked = queries.select(query_id="_id")
    rows = read_table(run.path, RUN).join(asked, on="query_id", how="semi", maintain_order="left")
    if rows.select("query_id", "rank").is_duplicated().any():
        raise InputError(
            f"{run.path}: a query id occurs in two domains; ids must differ between domains"
        )
    named = rows.rename({"query_id": "query-id", "doc_id": "corpus-id"})
    return named.with_columns(tag=pl.lit(run.model))


LAYOUTS: dict[str, Callable[[Export], list[Written]]] = {
    "posir": write_posir,
    "mteb": write_mteb,
    **{name: partial(write_text_files, layout=name) for name in TEXT_FILES},
}
