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
"""Columns of queries that say where their evidence is, in the order they are written."""
REMOVED_KEY = "identical_ids_removed"


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
    def runs(self) -> list[BuiltRun]:
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


# --- BEIR and TREC ---------------------------------------------------------------------------

TextFile = tuple[str, Sequence[pl.Expr], Mapping[str, Any]]
"""Path of a file in the folder of a corpus, its columns, and how `write_csv` writes it."""

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
            # the score as its shortest text, which reads back as the same number
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
"""Layout -> table -> its file."""
ODD_IDS = {"beir": (r'[\t\r\n"]', "tabs, quotes or line ends"), "trec": (r"\s", "white space")}
"""Layout -> pattern of ids that its files cannot hold, and what these have in them."""


def write_text_files(export: Export, layout: str) -> list[Written]:
    """Write the files that `TEXT_FILES` describes, a folder for each corpus and pair."""
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
    """Write those of some tables that the layout has; InputError if it cannot hold an id."""
    pattern, found = ODD_IDS[layout]
    for table, (file, columns, csv) in TEXT_FILES[layout].items():
        if table not in tables:
            continue
        frame = tables[table]
        for ids in (frame[column] for column in PAIR_IDS if column in frame.columns):
            odd = ids.filter(ids.str.contains(pattern) | (ids.str.len_bytes() == 0)).unique()
            if len(odd):
                raise InputError(
                    f"{name}: ids with {found} have no place in the layout {layout}: "
                    f"{name_some(odd)}; build the benchmark with other ids, or take --layout mteb"
                )
        path = file.format(model=model)
        yield _write(export, name, table, frame.select(columns), path, **csv)


def _run_rows(run: BuiltRun, queries: pl.DataFrame) -> pl.DataFrame:
    """Read the rows of a run for some queries, with ids named as in qrels and the model as tag."""
    asked = queries.select(query_id="_id")
    rows = read_table(run.path, RUN).join(asked, on="query_id", how="semi", maintain_order="left")
    if rows.select("query_id", "rank").is_duplicated().any():
        raise InputError(
            f"{run.path}: a query id occurs in two domains; ids must differ between them"
        )
    named = rows.rename({"query_id": "query-id", "doc_id": "corpus-id"})
    return named.with_columns(tag=pl.lit(run.model))


LAYOUTS: dict[str, Callable[[Export], list[Written]]] = {
    "posir": write_posir,
    "mteb": write_mteb,
    **{name: partial(write_text_files, layout=name) for name in TEXT_FILES},
}
