"""Stage ``import_run``: imports the run of an external system and ranks it by psibench's rule."""

import logging
from dataclasses import replace
from pathlib import Path

import polars as pl

from psibench.config.model_params import retrieval_params
from psibench.config.models import RunFilesModel
from psibench.formats.runs import rank_file, read_run
from psibench.models.run_files import is_per_domain, run_files
from psibench.tables import hash_file
from psibench.tables.job import Job
from psibench.tables.ranking import NOTHING_FOUND, rank_documents, removed_text
from psibench.tables.schemas import QUERIES, RUN
from psibench.tables.stage import stage

logger = logging.getLogger("psibench")


@stage("import_run", version=3)
def run_import_run(job: Job) -> None:
    """Read the run of one language pair on all domains, rank it and write it.

    Inputs: ``queries`` in the query language, and ``judged``, the same queries in the corpus
    language with the ids of their positives there. Parameters: ``top_k``, the documents to keep per
    query; ``prefix_ids``, whether the benchmark puts ``{domain}/`` before its ids;
    ``remove_identical_ids``, whether to remove the document with the query's id, so that the next
    ones move up. A file of one domain may have the published ids: if the benchmark has none of its
    query ids, ids of queries and documents get the prefix.

    Raises InputError if a file cannot be read, or has none of the queries or none of their
    positives, or has queries that the benchmark lacks and the entry does not ignore them.
    """
    entry, model = job.section(RunFilesModel, "entry"), job.value("model", str)
    decides = {
        "top_k": job.value("top_k", int),
        "prefix_ids": job.value("prefix_ids", bool),
        "remove_identical_ids": job.value("remove_identical_ids", bool),
    }
    labels = {name: job.value(name, str) for name in ("benchmark", "query_lang", "corpus_lang")}
    per_domain = is_per_domain(entry)
    files = run_files(entry, **labels, domains=job.domain_names)
    known_pairs = {"query_id": "_id", "doc_id": "pos_corpus_id"}
    parts = [
        (
            domain.name,
            domain.columns("queries", QUERIES, ["_id"]),
            domain.columns("judged", QUERIES, list(known_pairs.values())).select(**known_pairs),
        )
        for domain in job.domains()
    ]
    if not per_domain:
        _, queries, positives = zip(*parts, strict=True)
        parts = [("", pl.concat(queries), pl.concat(positives))]
    frames, n_removed = [], 0
    for path, (name, known, wanted) in zip(files, parts, strict=True):
        if known.is_empty():  # the language lacks this domain
            continue
        part = None if entry.part is None else entry.part.format(**labels, domain=name)
        file = read_run(Path(path), run_format=entry.format, part=part)
        if decides["prefix_ids"] and per_domain:
            file = replace(file, frame=_prefixed(file.frame, known, name))
        ranked = rank_file(
            file,
            known,
            wanted,
            source=path,
            remove_identical_ids=decides["remove_identical_ids"],
            ignore_unknown=entry.ignore_unknown,
            remedy="leave them out with `ignore_unknown: true` in the model's entry",
            of_distances="store distances with the sign changed",
        )
        for warning in ranked.warnings:
            logger.warning("%s, %s: %s", model, path, warning)
        n_removed += ranked.n_removed
        # Of a run of chunks, `top_k` counts documents, each with the score of its best chunk.
        frames.append(ranked.run.filter(pl.col("rank") <= decides["top_k"]))
    if decides["remove_identical_ids"]:
        logger.info("%s: %s", model, removed_text(n_removed))
    job.write(
        "run",
        rank_documents(pl.concat([NOTHING_FOUND, *frames], how="diagonal_relaxed")),
        RUN,
        params=retrieval_params(entry) | decides,
        files={path: hash_file(path) for path in files},
        revisions={f"model:{model}": "runs from outside"},
    )


def _prefixed(run: pl.DataFrame, known: pl.DataFrame, domain: str) -> pl.DataFrame:
    """Put the domain before all ids of a run that has none of the known query ids."""
    if run.get_column("query_id").is_in(known.get_column("_id").implode()).any():
        return run
    return run.with_columns(
        pl.concat_str(pl.lit(f"{domain}/"), pl.col(column)).alias(column)
        for column in ("query_id", "doc_id")
    )
