"""A small built benchmark: two languages, two domains, evidence in each third, runs of BM25."""

from pathlib import Path

import jobs
import numpy as np
import polars as pl

from psibench.config.models import Bm25Model
from psibench.formats.built import DATASET_TABLES
from psibench.formats.posir import RELEASE_COLUMNS
from psibench.search.runs import run_lexical_search
from psibench.tables import Provenance, read_table, write_table
from psibench.tables.domains import by_place
from psibench.tables.job import Job
from psibench.tables.schemas import CORPUS, QRELS, QUERIES, RUN
from psibench.text.lengths import count_whitespace_tokens, with_lengths

LANGUAGES = ("deu-Latn", "eng-Latn")
DOMAINS = ("game", "mining")
THIRDS = ("beginning", "middle", "end")
N_DOCUMENTS = 36
SOURCE = Provenance(stage="build", stage_version=2, queries_by="llm:writer-1")


def make_benchmark(
    root: Path,
    *,
    languages=LANGUAGES,
    domains=DOMAINS,
    ids: str = "d{}",
    n_documents: int = N_DOCUMENTS,
) -> Path:
    """Write `data/` and `runs/bm25/`; return the folder."""
    for language in languages:
        job = Job(
            "build",
            2,
            outputs={
                name: str(root / "data" / language / f"{name}.parquet") for name in DATASET_TABLES
            },
            values={"lang": language, "domains": list(domains)},
        )
        for domain in job.domains():
            names = [f"{domain.name}/" + ids.format(n) for n in range(n_documents)]
            _write_dataset(domain, [LANGUAGES.index(language), domain.number], names)
        for asking in languages:
            _write_run(root, asking, language, domains)
    return root


def _write_dataset(place, seed, names):
    language, domain = place.language, place.name
    made = np.random.default_rng(seed)
    documents, queries = [], []
    for document in names:
        parts = [[f"{domain}{w}" for w in made.integers(0, 900, 20)] for _ in THIRDS]
        texts = [" ".join(part) for part in parts]
        documents.append((document, " ".join(texts)))
        start = 0
        for third, part, text in zip(THIRDS, parts, texts, strict=True):
            query = f"{document}-{third}"
            span = [start, start + len(text)]
            asked = f'{part[3]}  {part[7]}\t"{language}"'
            queries.append((query, asked, document, span, len(" ".join(texts)), 60, None))
            start += len(text) + 1
    corpus = pl.DataFrame(documents, schema={"_id": pl.String, "text": pl.String}, orient="row")
    asked = pl.DataFrame(queries, schema=QUERIES.empty().schema, orient="row")
    qrels = asked.select(
        pl.col("_id").alias("query-id"),
        pl.col("pos_corpus_id").alias("corpus-id"),
        pl.lit(1, pl.Int32).alias("score"),
    )
    corpus = with_lengths(corpus, count_tokens=count_whitespace_tokens)
    for frame, spec in ((corpus, CORPUS), (asked, QUERIES), (qrels, QRELS)):
        place.write(spec.name, frame, spec, queries_by=SOURCE.queries_by)


def _write_run(root, asking, language, domains):
    at = root / "data"
    if not (at / asking / "queries.parquet").exists():
        return
    path = root / "runs" / "bm25" / f"{asking}-{language}.parquet"
    jobs.run(
        run_lexical_search,
        {
            "corpora": [at / language / "corpus.parquet"],
            "queries": [at / asking / "queries.parquet"],
        },
        {"run": path},
        entry=Bm25Model(backend="bm25s"),
        model="bm25",
        domains=list(domains),
        corpus_lang=language,
        top_k=8,
    )
    # No two scores tie: that is what tools order in their own ways.
    apart = read_table(path, RUN).with_columns(pl.col("score") - pl.col("rank") / 1000)
    write_table(apart.cast({"score": pl.Float32}), path, RUN, provenance=SOURCE)


def table(root: Path, language: str, name: str, domain: str = "*") -> pl.DataFrame:
    """A table of a domain of a language, or of all, as it was built."""
    rows = pl.read_parquet(root / "data" / language / f"{name}.parquet")
    rows = rows if domain == "*" else rows.filter(domain=domain)
    return rows.drop("language", "domain")


def change(root, language, name, domain, function, *, provenance=SOURCE):
    """Replace a domain's rows by the result of a function; language and domain are kept."""
    path, spec = root / "data" / language / f"{name}.parquet", by_place(DATASET_TABLES[name])
    parts = pl.read_parquet(path).partition_by("domain", maintain_order=True)
    made = [function(part) if part["domain"][0] == domain else part for part in parts]
    write_table(pl.concat(made, how="diagonal"), path, spec, provenance=provenance)


def write_release(folder, **tables):
    """Write the tables of one dataset of a release, in the published types."""
    for name, frame in tables.items():
        path = folder / name / "test.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        frame.cast(RELEASE_COLUMNS[name]).write_parquet(path)
