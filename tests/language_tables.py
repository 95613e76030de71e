"""Tables of all domains of a language, as jobs write them; and the texts of one domain."""

from pathlib import Path

import polars as pl

from psibench.tables import Provenance, TableSpec, write_table
from psibench.tables.io import DomainWriter
from psibench.tables.schemas import CORPUS, QUERIES
from psibench.text.lengths import count_whitespace_tokens, with_lengths

SOURCE = Provenance(stage="build", stage_version=1, queries_by="people")
DOCUMENTS = {
    "d3": "The cat sat on the mat and slept.",
    "d1": "Rivers carry water from the mountains to the sea.",
    "d2": "A guitar has six strings and a hollow body.",
    "d0": "Rivers carry water from the mountains to the sea.",
}
QUESTIONS = {"q2": "which animal slept", "q1": "where does river water go"}


def write_domains(
    frames: dict[str, pl.DataFrame], path: str | Path, spec: TableSpec, *, provenance: Provenance
) -> None:
    """Write the rows of each domain to one table."""
    writer = DomainWriter(path, "eng-Latn")
    *_, last = frames
    for domain, frame in frames.items():
        writer.add(domain, frame, spec, provenance, last=domain == last)
    writer.write()
    writer.discard()


def write_texts(
    folder: Path,
    documents: dict[str, str] = DOCUMENTS,
    questions: dict[str, str] = QUESTIONS,
    *,
    positives: dict[str, str] | None = None,
    domain: str | None = None,
) -> tuple[Path, Path]:
    """Write corpus and queries of one domain, by id; returns the two paths.

    A query's positive is d1, or its document in ``positives``. Rows name the domain if it is given,
    like a benchmark's rows.
    """
    folder.mkdir(parents=True, exist_ok=True)
    schema = {"_id": pl.String, "text": pl.String}
    texts = pl.DataFrame(list(documents.items()), schema=schema, orient="row")
    corpus = with_lengths(texts, count_tokens=count_whitespace_tokens)
    asked = {"pos_char_span": [0, 3], "pos_char_length": 9, "pos_token_length": 3}
    rows = [
        {"_id": i, "text": t, "pos_corpus_id": (positives or {}).get(i, "d1")} | asked
        for i, t in questions.items()
    ]
    queries = pl.DataFrame(rows, schema=QUERIES.empty().schema)
    for frame, spec in ((corpus, CORPUS), (queries, QUERIES)):
        path = folder / f"{spec.name}.parquet"
        if domain is None:
            write_table(frame, path, spec, provenance=SOURCE)
        else:
            write_domains({domain: frame}, path, spec, provenance=SOURCE)
    return folder / "corpus.parquet", folder / "queries.parquet"
