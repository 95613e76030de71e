"""Stage ``import_run``: the run of a system outside psibench, ranked by the project's own rule."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from psibench.config.model_params import retrieval_params
from psibench.config.models import RunFilesModel
from psibench.formats.runs import rank_file, read_run
from psibench.models.run_files import is_per_domain, run_files
from psibench.tables import hash_file, read_table, write_table
from psibench.tables.derived import derived
from psibench.tables.ranking import NOTHING_FOUND, rank_documents, removed_text
from psibench.tables.schemas import QUERIES, RUN
from psibench.tables.stage import stage

logger = logging.getLogger("psibench")


@stage("import_run", version=2)
def run_import_run(
    entry: RunFilesModel,
    *,
    model: str,
    benchmark: str,
    query_lang: str,
    corpus_lang: str,
    domains: Sequence[str],
    queries: Sequence[str | Path],
    judged: Sequence[str | Path],
    prefix_ids: bool,
    top_k: int,
    output: str | Path,
    remove_identical_ids: bool = False,
) -> None:
    """Read the run of one language pair on all domains, rank it and write it.

    Raises InputError if a file cannot be read, holds none of the queries or none of their
    positives, or has queries the benchmark lacks and the entry does not ignore them.

    Parameters
    ----------
    queries : QUERIES tables of the query language, in the order of ``domains``: who asks.
    judged : QUERIES tables of the corpus language, likewise: what the positives are called there.
    prefix_ids : whether the benchmark puts ``{domain}/`` before its ids. A file of one domain may
        then have its ids as published: where none of its query ids is known as it stands, ids of
        queries and documents get the prefix.
    top_k : documents kept per query.
    remove_identical_ids : whether a query's ranking is without the document of the same id; the
        file's next ones move up.
    """
    labels = {"benchmark": benchmark, "query_lang": query_lang, "corpus_lang": corpus_lang}
    asked = [read_table(path, QUERIES).select("_id") for path in queries]
    known_pairs = {"query_id": "_id", "doc_id": "pos_corpus_id"}
    positives = [read_table(path, QUERIES).select(**known_pairs) for path in judged]
    per_domain = is_per_domain(entry)
    files = run_files(entry, **labels, domains=domains)
    parts = list(zip(domains, asked, positives, strict=True))
    if not per_domain:
        parts = [("", pl.concat(asked), pl.concat(positives))]
    frames, n_removed = [], 0
    for path, (domain, known, wanted) in zip(files, parts, strict=True):
        if known.is_empty():  # the domain was left out in this language
            continue
        part = None if entry.part is None else entry.part.format(**labels, domain=domain)
        file = read_run(Path(path), run_format=entry.format, part=part)
        if prefix_ids and per_domain:
            file = replace(file, frame=_prefixed(file.frame, known, domain))
        ranked = rank_file(
            file,
            known,
            wanted,
            source=path,
            top_k=top_k,
            remove_identical_ids=remove_identical_ids,
            ignore_unknown=entry.ignore_unknown,
            remedy="leave them out with `ignore_unknown: true` in the model's entry",
            of_distances="store distances with the sign changed",
        )
        for warning in ranked.warnings:
            logger.warning("%s, %s: %s", model, path, warning)
        n_removed += ranked.n_removed
        frames.append(ranked.run)
    run = rank_documents(pl.concat([NOTHING_FOUND, *frames], how="diagonal_relaxed"))
    if remove_identical_ids:
        logger.info("%s: %s", model, removed_text(n_removed))
    source = derived(
        "import_run",
        list(dict.fromkeys(map(str, [*queries, *judged]))),
        params={
            **retrieval_params(entry),
            "top_k": top_k,
            "prefix_ids": prefix_ids,
            "remove_identical_ids": remove_identical_ids,
        },
        files={path: hash_file(path) for path in files},
        revisions={f"model:{model}": "runs from outside"},
    )
    write_table(run, output, RUN, provenance=source)


def _prefixed(found: pl.DataFrame, known: pl.DataFrame, domain: str) -> pl.DataFrame:
    """Put the domain before all ids of a run that knows no query as it stands."""
    if found.get_column("query_id").is_in(known.get_column("_id").implode()).any():
        return found
    return found.with_columns(
        pl.concat_str(pl.lit(f"{domain}/"), pl.col(column)).alias(column)
        for column in ("query_id", "doc_id")
    )
