"""`psibench score`: nDCG and PSI of any retriever's run over queries whose evidence has a place."""

import argparse
import os
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import polars as pl

from psibench import __version__
from psibench.commands.base import refuse_file, refuse_unwritable, write_result
from psibench.commands.psi_text import format_labels, print_glance, span_lines
from psibench.commands.score_example import with_example
from psibench.commands.score_options import add_arguments as add_arguments
from psibench.commands.score_options import token_limits, visible_ends
from psibench.errors import InputError
from psibench.formats.beir import BY_SPAN, read_qrels, read_query_file
from psibench.formats.built import identical_ids_of
from psibench.formats.checks import (
    IdenticalIds,
    check_queries,
    evidence_doubts,
    identical_ids_removed,
    identical_positives,
    keep_known,
    match_qrels,
    without_repeated_rows,
)
from psibench.formats.runs import rank_file, read_run
from psibench.metrics.aggregate import Evaluated, ResultTables, RowLabels, result_tables
from psibench.metrics.buckets import (
    DEFAULT_SCHEMES,
    bucket_scheme,
    edges_of,
    fitting_schemes,
    refuse_odd_edges,
)
from psibench.metrics.chunks import (
    SPAN_KINDS,
    SPAN_METRICS,
    document_metrics,
    score_queries,
)
from psibench.metrics.labels import corrected_scores, human_qrels, label_agreement, sampling_doubt
from psibench.metrics.query_scores import evidence_documents, name_some
from psibench.metrics.ranking import HEADLINE_METRICS, parse_metrics, ranking_metrics
from psibench.report.views import author_texts
from psibench.tables import Provenance, content_hash, write_table
from psibench.tables.atomic import write_text
from psibench.tables.derived import queries_by
from psibench.tables.provenance import now
from psibench.tables.ranking import removed_text
from psibench.tables.schemas import (
    BUCKET_SCORES,
    CORRECTED_SCORES,
    LABEL_AGREEMENT,
    PSI_TABLE,
    QUERY_SCORES,
)
from psibench.tables.spec import ALL
from psibench.tables.stage import version_of


def run(args: argparse.Namespace) -> None:
    """Score every run, write the tables and the page, print what the PSI table comes to."""
    args = with_example(args) if args.example else args
    args.length_buckets = args.length_buckets is not False
    limits = _check_options(args)
    queries, qrels = read_judgements(args)
    schemes: tuple[str, ...] = (args.buckets,)
    if args.buckets == "all":
        schemes = fitting_schemes(queries.get_column("pos_char_span"))
        if schemes != DEFAULT_SCHEMES:
            named = f"no query has one evidence span; buckets: {', '.join(schemes)}"
            print(f"{_names(args.queries)}: {named}", file=sys.stderr)
    ends: Sequence[pl.DataFrame | None] = args.ends or [None] * len(args.run)
    tokenizer = None
    if limits is not None:
        ends, tokenizer = visible_ends(limits, queries, qrels, args)
    grades = _read_grades(args, queries)
    evaluated, under_grades = _evaluate(args, queries, qrels, ends, grades)
    args.metrics = args.metrics or _common_metrics(evaluated.values())
    author = _queries_by(args.queries)
    tables = result_tables(
        list(evaluated.values()),
        labels=RowLabels(args.benchmark, args.language, args.language, author),
        metrics=args.metrics,
        schemes=schemes,
        length_buckets=args.length_buckets is not False,
        domains=args.by_domain,
        control=args.control,
    )
    origin = _provenance(args, tokenizer, schemes, author)
    if args.out is not None:
        for model, file in query_score_files(list(evaluated)).items():
            frame = evaluated[model].scores.select(pl.lit(model).alias("model"), pl.all())
            write_table(frame, args.out / file, QUERY_SCORES, provenance=origin)
        for frame, spec in ((tables.buckets, BUCKET_SCORES), (tables.psi, PSI_TABLE)):
            write_result(frame, spec, args.out / spec.name, provenance=origin)
    kept = None if args.out is None else args.out / f"{PSI_TABLE.name}.csv"
    print_glance(tables.psi, kept)
    for line in span_lines(tables.buckets, tables.psi):
        print(line)
    if grades is not None:
        scored = {name: (one.scores, under_grades[name]) for name, one in evaluated.items()}
        print(f"\n{_correct(scored, grades, qrels, schemes, origin, args)}\n")
    print(*author_texts(author).values(), sep="\n")
    print(
        "Nothing written: with --out DIR the tables are, with all views of the evidence"
        if args.out is None
        else f"Tables written to {args.out}"
    )
    if args.report is not None:
        write_text(_page(evaluated.values(), tables, origin, args), args.report)
        print(f"Page written to {args.report}")


def _correct(
    scored: dict[str, tuple[pl.DataFrame, pl.DataFrame]],
    grades: pl.DataFrame,
    qrels: pl.DataFrame,
    schemes: Sequence[str],
    origin: Provenance,
    args: argparse.Namespace,
) -> str:
    """Write, with --out, what the grades of --labelled say of labels; return the short of it."""
    scores, _ = next(iter(scored.values()))
    agreement = label_agreement(grades, qrels, scores, schemes=schemes)
    metrics = document_metrics(args.metrics)
    corrected = corrected_scores(scored, grades, metrics=metrics, schemes=schemes)
    if args.out is not None:
        for frame, spec in ((agreement, LABEL_AGREEMENT), (corrected, CORRECTED_SCORES)):
            write_result(frame, spec, args.out / spec.name, provenance=origin)
    if doubt := sampling_doubt(corrected, scheme=schemes[0]):
        print(f"warning: {args.labelled}: {doubt}", file=sys.stderr)
    return format_labels(agreement, corrected, metric=metrics[0], scheme=schemes[0])


def _evaluate(
    args: argparse.Namespace,
    queries: pl.DataFrame,
    qrels: pl.DataFrame,
    ends: Sequence[pl.DataFrame | None],
    grades: pl.DataFrame | None,
) -> tuple[dict[str, Evaluated], dict[str, pl.DataFrame]]:
    """Score every run, of graded queries under these grades too; by the name of its model."""
    evaluated: dict[str, Evaluated] = {}
    under_grades: dict[str, pl.DataFrame] = {}
    for path, end in zip(args.run, ends, strict=True):
        model, scores, run = score_run(path, queries, qrels, args, ends=end)
        if model in evaluated:
            raise InputError(f"{path}: a second run of the model {model!r}; rename the file")
        evaluated[model] = Evaluated(
            model,
            args.kinds.get(model, "run"),
            scores,
            # What a foreign model was given of a document is known only if it is said.
            reading_known=end is not None,
            on_filter_panel=model in args.on_filter_panel,
        )
        if grades is not None:
            human, metrics = human_qrels(qrels, grades), args.metrics or HEADLINE_METRICS
            under_grades[model] = ranking_metrics(run, human, metrics=document_metrics(metrics))
    if args.control is not None and args.control not in evaluated:
        raise InputError(
            f"--control {args.control!r} is none of the models scored: {', '.join(evaluated)}"
        )
    return evaluated, under_grades


def _common_metrics(evaluated: Iterable[Evaluated]) -> list[str]:
    """Return the default metrics that all runs have; say so where some are of chunks, some not."""
    of_chunks = {one.model: SPAN_METRICS[0] in one.scores.columns for one in evaluated}
    if all(of_chunks.values()):
        return [*HEADLINE_METRICS, *SPAN_METRICS]
    if any(of_chunks.values()):
        others = ", ".join(name for name, found in of_chunks.items() if not found)
        print(
            f"no chunks in {others}: nothing of spans is reported; name {SPAN_METRICS[1]} among "
            "--metrics to have documents count as one chunk each",
            file=sys.stderr,
        )
    return list(HEADLINE_METRICS)


def _check_options(args: argparse.Namespace) -> list[int | None] | None:
    """Check before anything is read what can be checked then; return `token_limits`."""
    needed = ("run", "queries", "qrels")
    if lacking := [f"--{name}" for name in needed if getattr(args, name) is None]:
        raise InputError(
            f"{', '.join(lacking)}: not given; name your files, or try --example, whose files "
            "ship with psibench"
        )
    if args.report is not None and args.out is None:
        raise InputError("--report needs --out DIR: the page names the tables there")
    if args.report is not None and args.report.parent != args.out:  # which is made
        refuse_unwritable("--report", args.report)
    if args.metrics is not None:
        parse_metrics(args.metrics, also=SPAN_KINDS)
        if args.labelled is not None and not document_metrics(args.metrics):
            raise InputError("--labelled corrects metrics of documents; name one, e.g. ndcg@10")
    if args.buckets != "all":
        bucket_scheme(args.buckets)
    if args.length_edges is not None:
        if not args.length_buckets:
            raise InputError("--length-edges and --no-length-buckets: give one of them")
        args.length_buckets = refuse_odd_edges(args.length_edges)
    refuse_file("--out", args.out)
    return None if args.example else token_limits(args)


def read_judgements(args: argparse.Namespace) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Read and check the queries and qrels of the options: queries with a positive, and theirs."""
    queries = pl.concat(read_query_file(path) for path in args.queries)
    check_queries(queries, source=_names(args.queries))
    qrels = pl.concat(read_qrels(path) for path in args.qrels)
    judged, kept = match_qrels(
        queries,
        qrels,
        source=_names(args.qrels),
        ignore_unknown=args.ignore_unknown,
        ignore_unjudged=args.ignore_unjudged,
    )
    for doubt in evidence_doubts(judged, kept):
        print(f"warning: {_names(args.queries)}: {doubt}", file=sys.stderr)
    args.identical_ids = _identical_ids(args)
    relevant = identical_positives(kept)
    if args.identical_ids == "auto" and len(relevant):
        print(
            f"{_names(args.qrels)}: the relevant document has the query's own id: "
            f"{name_some(relevant)}. Such results are kept; BEIR removes them "
            "(--identical-ids remove)",
            file=sys.stderr,
        )
    return judged, kept


def _identical_ids(args: argparse.Namespace) -> IdenticalIds:
    """Return --identical-ids; for auto what the queries, if psibench built them, have recorded."""
    tables = [path for path in args.queries if path.suffix.lower() == ".parquet"]
    recorded = {identical_ids_of(path) for path in tables}
    is_recorded = args.identical_ids == "auto" and len(tables) == len(args.queries)
    given: IdenticalIds = args.identical_ids
    return recorded.pop() if is_recorded and len(recorded) == 1 else given


def _read_grades(args: argparse.Namespace, queries: pl.DataFrame) -> pl.DataFrame | None:
    """Read and check the human grades of --labelled, as qrels; None if none are given."""
    if args.labelled is None:
        return None
    source = str(args.labelled)
    grades = read_qrels(args.labelled)
    grades = without_repeated_rows(grades, source=source)
    known = keep_known(
        grades.rename({"query-id": "query_id"}),
        queries,
        source=source,
        ignore_unknown=args.ignore_unknown,
    )
    return known.rename({"query_id": "query-id"})


def score_run(
    path: Path,
    queries: pl.DataFrame,
    qrels: pl.DataFrame,
    args: argparse.Namespace,
    *,
    ends: pl.DataFrame | None = None,
) -> tuple[str, pl.DataFrame, pl.DataFrame]:
    """Return the name that a run's file has for its model, its per-query scores, and the run.

    `ends`: how far the model read into each query's positive; None: not known.
    """
    file = read_run(path, run_format=args.run_format, part=args.run_part)
    if args.lower_is_better:
        turned = -pl.col("score").cast(pl.Float64)
        file = replace(file, frame=file.frame.with_columns(score=turned))
    sizes = queries.select(query_id="_id", length="pos_char_length")
    held = evidence_documents(queries, qrels).join(sizes, on="query_id")
    relevant = qrels.filter(pl.col("score") > 0).select(query_id="query-id", doc_id="corpus-id")
    ranked = rank_file(
        file,
        queries,
        relevant,
        source=str(path),
        lengths=held.select("length", doc_id="document_id"),
        judged=qrels.get_column("corpus-id"),
        remove_identical_ids=identical_ids_removed(args.identical_ids, qrels),
        ignore_unknown=args.ignore_unknown,
    )
    if ranked.n_removed:
        print(
            f"{path}: {removed_text(ranked.n_removed)}; to keep them: --identical-ids keep",
            file=sys.stderr,
        )
    metrics = args.metrics or list(HEADLINE_METRICS)
    if ranked.chunks is not None:
        if ends is not None:
            raise InputError(f"{path}: a run of chunks; --max-tokens is of documents read whole")
        if not args.metrics and any(queries[name].count() for name in BY_SPAN):
            metrics = [*HEADLINE_METRICS, *SPAN_METRICS]
    scores = score_queries(
        ranked.run,
        ranked.chunks,
        queries,
        qrels,
        metrics=metrics,
        domain=ALL,
        visible_char_end=ends,
        length_edges=edges_of(args.length_buckets),
    )
    for warning in ranked.warnings:
        print(f"warning: {path}: {warning}", file=sys.stderr)
    scores = scores.update(queries.select("domain", query_id="_id"), on="query_id")
    return file.model, scores, ranked.run


def _provenance(
    args: argparse.Namespace, tokenizer: str | None, schemes: Sequence[str], author: str
) -> Provenance:
    files: dict[str, Path] = {}
    for name in ("queries", "qrels", "corpus"):
        given = getattr(args, name) or []
        files |= {f"{name}:{i}" if len(given) > 1 else name: path for i, path in enumerate(given)}
    files |= {f"run:{path.name}": path for path in args.run}
    files |= {} if args.labelled is None else {"labelled": args.labelled}
    options = (
        *("benchmark", "language", "metrics", "length_buckets"),
        *("by_domain", "run_part", "control", "lower_is_better", "max_tokens"),
        *("ignore_unknown", "ignore_unjudged", "identical_ids"),
    )
    params = {name: getattr(args, name) for name in options}
    return Provenance(
        stage="score",
        stage_version=version_of("score"),
        params=params | {"tokenizer": tokenizer, "schemes": list(schemes)},
        inputs={name: content_hash(path) for name, path in files.items()},
        queries_by=author,
    )


def _page(
    evaluated: Iterable[Evaluated],
    tables: ResultTables,
    origin: Provenance,
    args: argparse.Namespace,
) -> str:
    """Return the page of --report."""
    from psibench.report.scores import Scored, render_scores
    from psibench.report.views import BenchmarkInfo, ModelInfo, simulation_note

    author = str(origin.queries_by)
    folder = Path(os.path.relpath(args.out, args.report.parent)).as_posix()
    blind: Literal["position-blind"] = "position-blind"
    return render_scores(
        Scored(
            tables.psi,
            tables.buckets,
            [BenchmarkInfo(args.benchmark, recipe="", note=simulation_note(author))],
            [
                ModelInfo(m.model, m.kind, control=blind if m.model == args.control else None)
                for m in evaluated
            ],
            provenance={"psibench": __version__, "queries by": author, **origin.inputs},
            title=f"Position sensitivity on {args.benchmark}",
            created=now(),
            csv_folder="" if folder == "." else f"{folder}/",
        )
    )


def _names(paths: Sequence[Path]) -> str:
    return ", ".join(str(path) for path in paths)


def _queries_by(paths: Sequence[Path]) -> str:
    """Return who wrote the queries, where the files say so."""
    found = {queries_by(p) if p.suffix.lower() == ".parquet" else "not recorded" for p in paths}
    return ", ".join(sorted(found))


def query_score_files(models: Sequence[str]) -> dict[str, str]:
    """Return the file name of every model's per-query scores; a clash gets a number."""
    if len(models) == 1:
        return {models[0]: "query_scores.parquet"}
    names: dict[str, str] = {}
    for model in models:
        slug = re.sub(r"[^a-z0-9._-]+", "-", model.lower()).strip("-.") or "model"
        name, count = f"query_scores-{slug}.parquet", 1
        while name in names.values():
            count += 1
            name = f"query_scores-{slug}-{count}.parquet"
        names[model] = name
    return names


DESCRIPTION = (
    "Score runs over queries of which it is known where their evidence is, by span or "
    "by class: prints the PSI table and "
    "what it says, and with --out writes psi_table and bucket_scores (.csv and .parquet) and "
    "per-query scores. Documents "
    "are ranked by score, ties by document id, the last first, as in trec_eval; a rank column is "
    "not used. Scores that contradict the ranks or the order of the file, and scores that are "
    "mostly tied, are warned of."
)
