"""`psibench score`: nDCG and PSI of retrievers' runs, for queries with known evidence positions."""

import argparse
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import polars as pl

from psibench import __version__
from psibench.commands.base import refuse_file, refuse_unwritable, write_result
from psibench.commands.json_output import messages_to_stderr, print_json
from psibench.commands.score_control import control_run, wants_builtin
from psibench.commands.score_example import with_example
from psibench.commands.score_options import add_arguments as add_arguments
from psibench.commands.score_options import ends_from_limits, token_limits
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
from psibench.formats.runs import LOWER_IS_BETTER, NOT_LOWER, RunFile, rank_file, read_run
from psibench.metrics.aggregate import Evaluated, ResultTables, RowLabels, result_tables
from psibench.metrics.buckets import (
    DEFAULT_SCHEMES,
    bucket_scheme,
    edges_of,
    fitting_schemes,
    refuse_odd_edges,
)
from psibench.metrics.chunks import (
    LENGTH_METRICS,
    SPAN_KINDS,
    SPAN_METRICS,
    TOKEN_METRIC,
    default_metrics,
    document_metrics,
    score_queries,
    short_lists,
)
from psibench.metrics.labels import corrected_scores, human_qrels, label_agreement, sampling_doubt
from psibench.metrics.query_scores import evidence_documents, name_some
from psibench.metrics.ranking import HEADLINE_METRICS, parse_metrics, ranking_metrics
from psibench.metrics.sections import section_lines, with_sections
from psibench.publish.control import BUILTIN
from psibench.report.psi_text import format_labels, print_glance, span_lines
from psibench.report.summary import summaries
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
    """Score every run, write tables and page, and print the PSI table with verdicts."""
    with messages_to_stderr(args.json):
        content = _score(args)
    if args.json:
        print_json("score", content)


def _score(args: argparse.Namespace) -> dict[str, Any]:
    """Print the result (with --json only messages); return the document's content."""
    args = with_example(args) if args.example else args
    args.length_buckets = args.length_buckets is not False
    limits = _check_options(args)
    queries, qrels = read_judgements(args)
    schemes: tuple[str, ...] = (args.buckets,)
    if args.buckets == "all":
        schemes = fitting_schemes(queries.get_column("pos_char_span"))
        if schemes != DEFAULT_SCHEMES:
            named = f"no query has a single evidence span; buckets: {', '.join(schemes)}"
            print(f"{_names(args.queries)}: {named}", file=sys.stderr)
    ends: Sequence[pl.DataFrame | None] = args.ends or [None] * len(args.run)
    tokenizer = None
    if limits is not None:
        ends, tokenizer = ends_from_limits(limits, queries, qrels, args)
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
    _write_tables(evaluated, tables, origin, args)
    csv = None if args.out is None else args.out / f"{PSI_TABLE.name}.csv"
    labels = None
    if grades is not None:
        scored = {name: (one.scores, under_grades[name]) for name, one in evaluated.items()}
        labels = _correct(scored, grades, qrels, schemes, origin, args)
    if not args.json:
        print_glance(tables.psi, csv)
        sections = section_lines(next(iter(evaluated.values())).scores)
        for line in (*sections, *span_lines(tables.buckets, tables.psi)):
            print(line)
        if labels is not None:
            metric = document_metrics(args.metrics)[0]
            print(f"\n{format_labels(*labels, metric=metric, scheme=schemes[0])}\n")
        for line in (*author_texts(author).values(), *filter(None, [args.searched])):
            print(line)
    print(
        "No files written; use --out DIR" if args.out is None else f"Tables written to {args.out}"
    )
    if args.report is not None:
        write_text(_page(evaluated.values(), tables, origin, args), args.report)
        print(f"Page written to {args.report}")
    return {
        "results": summaries(tables.psi, tables.buckets),
        "psi_table": tables.psi,
        "queries_by": author,
        "control_searched": args.searched,
        "labels": labels and dict(zip(("agreement", "corrected"), labels, strict=True)),
    }


def _write_tables(
    evaluated: Mapping[str, Evaluated],
    tables: ResultTables,
    origin: Provenance,
    args: argparse.Namespace,
) -> None:
    """Write per-query scores, bucket scores and the PSI table to --out, if given."""
    if args.out is None:
        return
    for model, file in query_score_files(list(evaluated)).items():
        frame = evaluated[model].scores.select(pl.lit(model).alias("model"), pl.all())
        write_table(frame, args.out / file, QUERY_SCORES, provenance=origin)
    for frame, spec in ((tables.buckets, BUCKET_SCORES), (tables.psi, PSI_TABLE)):
        write_result(frame, spec, args.out / spec.name, provenance=origin)


def _correct(
    scored: dict[str, tuple[pl.DataFrame, pl.DataFrame]],
    grades: pl.DataFrame,
    qrels: pl.DataFrame,
    schemes: Sequence[str],
    origin: Provenance,
    args: argparse.Namespace,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Compare the qrels with the grades of --labelled, and write both tables (--out).

    Returns LABEL_AGREEMENT and CORRECTED_SCORES.
    """
    scores, _ = next(iter(scored.values()))
    agreement = label_agreement(grades, qrels, scores, schemes=schemes)
    metrics = document_metrics(args.metrics)
    corrected = corrected_scores(scored, grades, metrics=metrics, schemes=schemes)
    if args.out is not None:
        for frame, spec in ((agreement, LABEL_AGREEMENT), (corrected, CORRECTED_SCORES)):
            write_result(frame, spec, args.out / spec.name, provenance=origin)
    if doubt := sampling_doubt(corrected, scheme=schemes[0]):
        print(f"warning: {args.labelled}: {doubt}", file=sys.stderr)
    return agreement, corrected


def _evaluate(
    args: argparse.Namespace,
    queries: pl.DataFrame,
    qrels: pl.DataFrame,
    ends: Sequence[pl.DataFrame | None],
    grades: pl.DataFrame | None,
) -> tuple[dict[str, Evaluated], dict[str, pl.DataFrame]]:
    """Score every run, by model name; with grades, also score the graded queries under these."""
    evaluated: dict[str, Evaluated] = {}
    under_grades: dict[str, pl.DataFrame] = {}
    human = None if grades is None else human_qrels(qrels, grades)
    runs: list[pl.DataFrame] = []

    def add(model: str, scores: pl.DataFrame, run: pl.DataFrame, *, kind: str, known: bool) -> None:
        on_panel = model in args.on_filter_panel
        evaluated[model] = Evaluated(
            model, kind, scores, reading_known=known, on_filter_panel=on_panel
        )
        runs.append(run.select("query_id", "doc_id"))
        if human is not None:
            metrics = document_metrics(args.metrics or HEADLINE_METRICS)
            under_grades[model] = ranking_metrics(run, human, metrics=metrics)

    for path, end in zip(args.run, ends, strict=True):
        model, scores, run = score_run(path, queries, qrels, args, ends=end)
        if model in evaluated:
            raise InputError(f"{path}: a second run of the model {model!r}; rename the file")
        add(model, scores, run, kind=args.kinds.get(model, "run"), known=end is not None)
    if wants_builtin(args):
        of_chunks = all(SPAN_METRICS[0] in one.scores.columns for one in evaluated.values())
        metrics = args.metrics or HEADLINE_METRICS
        positives = qrels.filter(pl.col("score") > 0)["corpus-id"]
        lengths = queries.select(query_id="_id", length="pos_char_length")
        evidence = evidence_documents(queries, qrels).join(lengths, on="query_id")
        file, args.searched = control_run(
            args, queries, runs, positives, evidence, metrics, of_chunks=of_chunks
        )
        args.control = file.model
        if file.model in evaluated:
            raise InputError(f"--run: a model is named {file.model!r}, like the built-in control")
        known = not (of_chunks or queries["pos_char_length"].null_count())  # it reads whole texts
        lengths = queries.select(query_id="_id", visible_char_end="pos_char_length")
        scored = _score_file(
            file, queries, qrels, args, source=file.model, ends=lengths if known else None
        )
        add(file.model, *scored, kind="control", known=known)
    if args.control is not None and args.control not in evaluated:
        raise InputError(
            f"--control {args.control!r} is not a scored model; allowed: {', '.join(evaluated)}, "
            f"{BUILTIN}"
        )
    return evaluated, under_grades


def _common_metrics(evaluated: Iterable[Evaluated]) -> list[str]:
    """Return the default metrics that all runs have; print a note if only some have chunks."""
    columns = {one.model: set(one.scores.columns) for one in evaluated}
    others = ", ".join(name for name, found in columns.items() if SPAN_METRICS[0] not in found)
    if others and any(SPAN_METRICS[0] in found for found in columns.values()):
        print(
            f"no chunks in {others}: span metrics are not reported; add {SPAN_METRICS[0]} to "
            "--metrics to count each document as one chunk",
            file=sys.stderr,
        )
    possible = (TOKEN_METRIC, *SPAN_METRICS, *LENGTH_METRICS, *HEADLINE_METRICS)
    return [name for name in possible if all(name in found for found in columns.values())]


def _check_options(args: argparse.Namespace) -> list[int | None] | None:
    """Check the options before reading files; return `token_limits`."""
    needed = ("run", "queries", "qrels")
    if lacking := [f"--{name}" for name in needed if getattr(args, name) is None]:
        raise InputError(
            f"missing {', '.join(lacking)}: name your files, or try --example with the files "
            "that ship with psibench"
        )
    if args.report is not None and args.out is None:
        raise InputError("--report needs --out DIR: the page links to the tables there")
    if args.report is not None and args.report.parent != args.out:  # --out is created
        refuse_unwritable("--report", args.report)
    if args.metrics is not None:
        parse_metrics(args.metrics, also=SPAN_KINDS)
        if args.labelled is not None and not document_metrics(args.metrics):
            raise InputError(
                "--labelled corrects metrics of documents; add one to --metrics, e.g. ndcg@10"
            )
    if args.buckets != "all":
        bucket_scheme(args.buckets)
    if args.length_edges is not None:
        if not args.length_buckets:
            raise InputError(
                "--length-edges and --no-length-buckets exclude each other; give only one"
            )
        args.length_buckets = refuse_odd_edges(args.length_edges)
    refuse_file("--out", args.out)
    return None if args.example else token_limits(args)


def read_judgements(args: argparse.Namespace) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Read and check --queries and --qrels; return the queries with a positive, and their qrels."""
    queries = pl.concat(read_query_file(path) for path in args.queries)
    check_queries(queries, source=_names(args.queries))
    qrels = pl.concat(read_qrels(path) for path in args.qrels)
    judged, judgements = match_qrels(
        queries,
        qrels,
        source=_names(args.qrels),
        ignore_unknown=args.ignore_unknown,
        ignore_unjudged=args.ignore_unjudged,
    )
    for doubt in evidence_doubts(judged, judgements):
        print(f"warning: {_names(args.queries)}: {doubt}", file=sys.stderr)
    args.identical_ids = _identical_ids(args)
    relevant = identical_positives(judgements)
    if args.identical_ids == "auto" and len(relevant):
        print(
            f"{_names(args.qrels)}: query and relevant document have the same id: "
            f"{name_some(relevant)}. Such results are kept; BEIR removes them "
            "(--identical-ids remove)",
            file=sys.stderr,
        )
    return judged, judgements


def _identical_ids(args: argparse.Namespace) -> IdenticalIds:
    """Return --identical-ids; for auto the recorded value of queries that psibench built."""
    tables = [path for path in args.queries if path.suffix.lower() == ".parquet"]
    recorded = {identical_ids_of(path) for path in tables}
    is_recorded = args.identical_ids == "auto" and len(tables) == len(args.queries)
    option: IdenticalIds = args.identical_ids
    return recorded.pop() if is_recorded and len(recorded) == 1 else option


def _read_grades(args: argparse.Namespace, queries: pl.DataFrame) -> pl.DataFrame | None:
    """Read and check the human grades of --labelled, as qrels; None without the option."""
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
    """Return a run's model name, its per-query scores, and its ranks.

    ``ends``: last character of each query's positive that the model read; None: unknown.
    """
    file = read_run(path, run_format=args.run_format, part=args.run_part)
    if args.lower_is_better:
        turned = -pl.col("score").cast(pl.Float64)
        file = replace(file, frame=file.frame.with_columns(score=turned))
    return file.model, *_score_file(file, queries, qrels, args, source=str(path), ends=ends)


def _score_file(
    file: RunFile,
    queries: pl.DataFrame,
    qrels: pl.DataFrame,
    args: argparse.Namespace,
    *,
    source: str,
    ends: pl.DataFrame | None,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return a run's per-query scores and its ranks; ``source`` names it in messages."""
    sizes = queries.select(query_id="_id", length="pos_char_length")
    positives = evidence_documents(queries, qrels).join(sizes, on="query_id")
    relevant = qrels.filter(pl.col("score") > 0).select(query_id="query-id", doc_id="corpus-id")
    ranked = rank_file(
        file,
        queries,
        relevant,
        source=source,
        lengths=positives.select("length", doc_id="document_id"),
        judged=qrels.get_column("corpus-id"),
        remove_identical_ids=identical_ids_removed(args.identical_ids, qrels),
        ignore_unknown=args.ignore_unknown,
        of_distances=NOT_LOWER if args.lower_is_better else LOWER_IS_BETTER,
    )
    if ranked.n_removed:
        print(
            f"{source}: {removed_text(ranked.n_removed)}; to keep them: --identical-ids keep",
            file=sys.stderr,
        )
    metrics = args.metrics or list(HEADLINE_METRICS)
    if ranked.chunks is not None:
        if ends is not None:
            raise InputError(
                f"{source} is a run of chunks; --max-tokens applies only to runs of whole documents"
            )
        if not args.metrics and any(queries[name].count() for name in BY_SPAN):
            metrics = default_metrics(ranked.chunks)
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
        print(f"warning: {source}: {warning}", file=sys.stderr)
    n_short, budget = (0, 0) if ranked.chunks is None else short_lists(ranked.chunks, metrics)
    if n_short:
        print(
            f"warning: {source}: the chunks of {n_short} queries have fewer than {budget} tokens "
            "in all, so other runs may hand on more; give more chunks per query",
            file=sys.stderr,
        )
    scores = scores.update(queries.select("domain", query_id="_id"), on="query_id")
    return with_sections(scores, queries), ranked.run


def _provenance(
    args: argparse.Namespace, tokenizer: str | None, schemes: Sequence[str], author: str
) -> Provenance:
    files: dict[str, Path] = {}
    for name in ("queries", "qrels", "corpus"):
        paths = getattr(args, name) or []
        files |= {f"{name}:{i}" if len(paths) > 1 else name: path for i, path in enumerate(paths)}
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
    searched = args.searched or ""
    return render_scores(
        Scored(
            tables.psi,
            tables.buckets,
            [BenchmarkInfo(args.benchmark, recipe="", note=simulation_note(author))],
            [
                ModelInfo(m.model, m.kind, searched, control=blind)
                if m.model == args.control
                else ModelInfo(m.model, m.kind)
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
    """Return the authors of the queries, as recorded in the files."""
    found = {queries_by(p) if p.suffix.lower() == ".parquet" else "not recorded" for p in paths}
    return ", ".join(sorted(found))


def query_score_files(models: Sequence[str]) -> dict[str, str]:
    """Return the file name of each model's per-query scores; a number resolves clashes."""
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
    "Score runs on queries with known evidence positions (a span, or beginning, middle or end). "
    "Prints the PSI table and a verdict per model; with --out also writes psi_table and "
    "bucket_scores (.csv and .parquet) and per-query scores. Documents are ranked by score, ties "
    "by document id in descending order, as in trec_eval; a rank column is not used. Warns if "
    "scores contradict the ranks or the order of the file, or if most scores are tied."
)
