"""MS MARCO FarRelevant: evidence that begins after the first 512 tokens (Boytsov et al.).

L. Boytsov, D. Akinpelu, N. Katyal, T. Lin, F. Gao, Y. Zhao, J. Huang, E. Nyberg: Positional Bias in
Long-Document Ranking: Impact, Assessment, and Mitigation (arXiv 2207.01262). A document consists of
passages of MS MARCO that are not relevant, and one passage that is relevant to one query. The
collection's layout is described in MSMARCO_FarRelevant.md of the authors' repository
(searchivarius/long_doc_rank_model_analysis_v2): folders with QuestionFields.jsonl,
AnswerFields.jsonl.gz and TREC qrels; `DOCNO` is the id and `text_raw` the text.

The collection has no spans. A document's id is QUERY_PASSAGE, the ids of its query and its relevant
passage in MS MARCO, so psibench searches the passage's text in the document. A query whose passage
is not there exactly once counts in the means but in no position bucket.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import polars as pl

from psibench.config.paths import workflow_path
from psibench.config.sources import FarRelevantSource, RecordSource
from psibench.errors import InputError, MissingError
from psibench.formats.beir import read_qrels
from psibench.generate.loaders.beir import JudgedDataset
from psibench.sources.checks import require_columns, require_id, require_text
from psibench.sources.evidence import Annotation, page_key
from psibench.sources.files import read_jsonl
from psibench.sources.local import dataset_revisions, local_files
from psibench.sources.records import source_records

_ID, _TEXT = "DOCNO", "text_raw"
_TABLES = {"corpus": "AnswerFields", "queries": "QuestionFields"}
_SUFFIXES = (".jsonl", ".jsonl.gz")


class FarRelevant(JudgedDataset):
    """MS MARCO FarRelevant, or a collection in its layout, from local files."""

    recipe: Literal["far_relevant"]
    source: FarRelevantSource
    passages: RecordSource
    """MS MARCO's passages, records of `_id` and `text`, to locate the evidence in documents."""

    def files(self) -> list[str]:
        """List the local files of the collection and of the passages."""
        own = (self._file("corpus"), self._file("queries"), self._qrels())
        return [workflow_path(str(path)) for path in own] + local_files(self.passages)

    def revisions(self) -> dict[str, str]:
        """Return the pinned revision of passages on the hub."""
        return dataset_revisions(self.passages)

    def judgements(self) -> pl.DataFrame:
        """Read the TREC qrels of the split; of a sample, those of its queries."""
        asked = [record["_id"] for _, record in self.records("queries")]
        qrels = read_qrels(self._qrels()).filter(pl.col("query-id").is_in(asked))
        if qrels.is_empty():
            raise InputError(
                f"{self._qrels()}: judges none of the {len(asked)} queries in "
                f"{self._file('queries')}; check `split`"
            )
        return qrels.with_columns(pl.col("score").cast(pl.Int32))

    def records(self, table: Literal["corpus", "queries"]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the records of a table with the names `_id` and `text`."""
        for origin, record in read_jsonl(self._file(table)):
            require_columns(record, (_ID, _TEXT), origin)
            key = require_id(record[_ID], _ID, origin=origin)
            yield origin, {"_id": key, "text": record[_TEXT]}

    def annotations(self, positives: Mapping[str, Sequence[str]]) -> list[Annotation]:
        """Read the relevant passages, which the documents' ids name, of the queries' documents."""
        passage_of = {
            document: document.rpartition("_")[2]
            for documents in positives.values()
            for document in documents
        }
        wanted, texts = set(passage_of.values()), dict[str, str]()
        for origin, record in source_records(self.passages, ("_id", "text")):
            require_columns(record, ("_id", "text"), origin)
            key = require_id(record["_id"], "_id", origin=origin)
            if key in wanted:
                texts[key] = require_text(record["text"], "text", origin=origin)
        return [
            Annotation(query_id, page_key(document), quotes=[texts[passage_of[document]]])
            for query_id, documents in positives.items()
            for document in documents
            if passage_of[document] in texts
        ]

    def _folder(self, split: str) -> Path:
        root = Path(self.source.path)
        folder = root / split
        return folder if folder.is_dir() else root / "input_data" / split

    def _file(self, table: Literal["corpus", "queries"]) -> Path:
        folder = self._folder(self.source.split if table == "queries" else self.source.documents)
        paths = [folder / f"{_TABLES[table]}{suffix}" for suffix in _SUFFIXES]
        for path in paths:
            if path.is_file():
                return path
        raise MissingError(f"{paths[0]}: no such file; allowed endings: {', '.join(_SUFFIXES)}")

    def _qrels(self) -> Path:
        path = self._folder(self.source.split) / "qrels.txt"
        if not path.is_file():
            raise MissingError(f"{path}: no such file")
        return path
