"""`psibench compare`: differences of systems' means and of their profiles over positions."""

import argparse
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from psibench.commands.base import refuse_file, write_result
from psibench.commands.gate import (
    Gate,
    add_gates,
    check_gate_options,
    exit_code,
    gate_lines,
    gate_record,
    junit_text,
    report,
    run_gate,
)
from psibench.commands.json_output import add_json, messages_to_stderr, print_json
from psibench.commands.score import read_judgements, score_run
from psibench.commands.score_options import add_judgements, add_tolerance
from psibench.config.paths import RESULTS_FOLDER
from psibench.errors import InputError
from psibench.formats.runs import RUN_FORMATS
from psibench.metrics.aggregate import Evaluated, RowLabels, holm, result_tables
from psibench.metrics.buckets import assign, bucket_scheme, fitting_schemes
from psibench.metrics.chunks import CUT_METRIC, SPAN_KINDS
from psibench.metrics.comparison import step_down_p
from psibench.metrics.constants import FEWEST_CLUSTERS
from psibench.metrics.inference import IntArray
from psibench.metrics.psi import mean_interval
from psibench.metrics.query_scores import CLUSTER, document_numbers, unit_numbers
from psibench.metrics.ranking import parse_metrics
from psibench.metrics.sections import section_lines
from psibench.report.comparison import (
    MEANS_NOTE,
    PROFILES_NOTE,
    PSI_HEAD,
    Ranked,
    comparison_section,
    ranked,
    render_comparison,
)
from psibench.report.text_table import frame_lines
from psibench.report.wording import p_value
from psibench.tables import Provenance, content_hash, read_table
from psibench.tables.atomic import write_text
from psibench.tables.columns import read_columns
from psibench.tables.derived import queries_by
from psibench.tables.schemas import COMPARED, COMPARISONS, PSI_TABLE, QUERY_SCORES
from psibench.text.languages import split_pair

WIDTH = 100
FILE_STEM = "comparison"
MOST_SYSTEMS = len(ascii_lowercase)
BUCKET_COLUMNS = ("model", "metric", "buckets", "bucket", "n_queries", "mean", "same_mean")


@dataclass(frozen=True)
class System:
    """One system: its per-query scores, and the files that they came from."""

    evaluated: Evaluated
    files: dict[str, Path]
    """File by input name."""
    labels: RowLabels | None = None
    """Benchmark and languages; None if unknown."""
    scheme: str | None = None
    """The first bucket scheme of its benchmark; None if unknown."""


def run(args: argparse.Namespace) -> int:
    """Compare systems, print the differences, and write them to the folder of ``--out``.

    Returns the exit code of the gate (`psibench.commands.gate`), 0 without a gate.
    """
    refuse_file("--out", args.out)
    check_gate_options(args)
    systems = _systems(args)
    _refuse_other_queries({one.evaluated.model: one.evaluated.scores for one in systems})
    systems = _same_clusters(systems)
    scores = {one.evaluated.model: one.evaluated.scores for one in systems}
    names, first = list(scores), systems[0].evaluated.scores
    units, documents = unit_numbers(first), document_numbers(first)
    with messages_to_stderr(args.json):
        print("".join(f"{line}\n" for line in section_lines(first)), end="")
    metrics = _metrics(args.metrics, list(scores.values()))
    default = next((one.scheme for one in systems if one.scheme), None)
    labels = next((one.labels for one in systems if one.labels), RowLabels("custom", "und", "und"))
    schemes = _schemes(args.buckets, default, first)
    tables = result_tables(
        [one.evaluated for one in systems],
        labels=labels,
        metrics=metrics,
        schemes=schemes,
        length_buckets=False,
        pairs=list(combinations(names, 2)),
    )
    compared = _adjusted(tables.comparisons, scores, units, metrics)
    sections = []
    for scheme in schemes:
        for metric in metrics:
            keys = {"buckets": scheme, "metric": metric}
            found, buckets = compared.filter(**keys), tables.buckets.filter(evidence="all", **keys)
            psi = tables.psi.filter(evidence="all", **keys)
            ends = {
                name: mean_interval(frame.get_column(metric).to_numpy(), documents, units)
                for name, frame in scores.items()
            }
            order = ranked(found.filter(evidence="all"), psi, buckets, ends)
            if not args.json:
                print("\n".join(_text(order, found, psi["n_clusters"][0])))
            sections.append((order, buckets, metric, scheme))
    if args.out is not None:
        record = _provenance(systems, metrics, schemes)
        write_result(compared, COMPARED, args.out / FILE_STEM, provenance=record)
        page = render_comparison(
            [
                comparison_section(order, buckets, metric=m, scheme=s)
                for order, buckets, m, s in sections
            ],
            compared.row(0, named=True),
            provenance=record,
        )
        write_text(page, args.out / f"{FILE_STEM}.html")
    gate = run_gate(args, scores, schemes[0], metrics[0])
    _print_end(args, compared, tables.buckets.filter(evidence="all"), gate)
    if gate is None:
        return 0
    if args.junit is not None:
        write_text(junit_text(gate, args.if_unclear), args.junit)
    report(gate)
    return exit_code(gate, args.if_unclear)


def _print_end(
    args: argparse.Namespace, compared: pl.DataFrame, buckets: pl.DataFrame, gate: Gate | None
) -> None:
    """Print the gate and where the files are, or all results as JSON."""
    if args.json:
        record = None if gate is None else gate_record(gate)
        found = buckets.select(BUCKET_COLUMNS)
        print_json("compare", {"comparisons": compared, "buckets": found, "gate": record})
        return
    if gate is not None:
        print("\n".join(gate_lines(gate)))
    if args.out is not None:
        print(f"\nWritten to {args.out}")


def _adjusted(
    compared: pl.DataFrame,
    scores: Mapping[str, pl.DataFrame],
    units: IntArray,
    metrics: Sequence[str],
) -> pl.DataFrame:
    """Add the p-values of COMPARED, adjusted over all pairs; a single pair needs no adjustment."""
    pairs = list(combinations(scores, 2))
    found = []
    for metric in metrics if len(pairs) > 1 else []:
        values = np.array([frame.get_column(metric).to_numpy() for frame in scores.values()])
        of_pairs = step_down_p(values, units).tolist()
        found += [(metric, *pair, "all", p) for pair, p in zip(pairs, of_pairs, strict=True)]
    on = ("metric", "model", "other", "evidence")
    schema = dict.fromkeys(on, pl.String) | {"p_flips": pl.Float64}
    by_flips = pl.DataFrame(found, schema=schema, orient="row")
    return compared.join(by_flips, on=on, how="left", maintain_order="left").select(
        *COMPARISONS.column_names,
        # At least the p of the pair by itself: the two differ only by Monte Carlo error.
        p_difference_adjusted=pl.when(pl.col("p_difference").is_not_null(), evidence="all").then(
            pl.max_horizontal("p_difference", "p_flips")
        ),
        p_profile_adjusted=pl.col("p_profile")
        .map_batches(lambda p: pl.Series(holm(p.to_numpy())), return_dtype=pl.Float64)
        .over("metric", "buckets", "evidence")
        .fill_nan(None),
    )


# --- The systems ----------------------------------------------------------------------------


def _systems(args: argparse.Namespace) -> list[System]:
    """Read the systems: models of a run, run files or files of per-query scores."""
    judgements = None
    if not 2 <= len(args.systems) <= MOST_SYSTEMS:
        raise InputError(
            f"{len(args.systems)} systems given; name two to {MOST_SYSTEMS}: models of a run, run "
            "files or files of per-query scores"
        )
    if (args.queries is None) != (args.qrels is None):
        raise InputError("--queries and --qrels belong together; give both or neither")
    if args.queries is not None:
        judgements = read_judgements(args)
    found: list[System] = []
    for text in args.systems:
        system = _system(text, judgements, args)
        model, taken = system.evaluated.model, {one.evaluated.model for one in found}
        again = (f"{model} ({number})" for number in range(2, MOST_SYSTEMS + 1))
        name = next(name for name in (model, *again) if name not in taken)
        found.append(replace(system, evaluated=replace(system.evaluated, model=name)))
    return found


def _system(
    text: str, judgements: tuple[pl.DataFrame, pl.DataFrame] | None, args: argparse.Namespace
) -> System:
    path = Path(text)
    if not path.is_file():
        suffixes = tuple(suffix for known in RUN_FORMATS.values() for suffix in known)
        if "/" in text or path.name.endswith(suffixes):
            raise InputError(f"{path}: no such file")
        return _model_of_run(text, args)
    if _holds_scores(path):
        name = path.stem.removeprefix("query_scores-")  # the file names of `psibench score`
        if name == "query_scores":
            name = path.resolve().parent.name
        scores = read_table(path, QUERY_SCORES)
        if (models := scores["model"].unique().sort()).len() > 1:
            raise InputError(
                f"{path} has scores of {models.len()} models ({', '.join(models)}); give two or "
                "more of their names, and their results folder with --results"
            )
        return System(_evaluated(name, scores), {f"scores:{path.name}": path})
    if judgements is None:
        raise InputError(
            f"{path}: scoring a run needs --queries and --qrels; give them, the "
            "query_scores.parquet of `psibench score`, or the ids of two models"
        )
    name, scores, _ = score_run(path, *judgements, args)
    files = {f"run:{path.name}": path}
    for kind in ("queries", "qrels"):
        files |= {f"{kind}:{file.name}": file for file in getattr(args, kind)}
    return System(_evaluated(name, scores, reading_known=False), files)


def _holds_scores(path: Path) -> bool:
    try:
        return {"query_id", "document_id"} <= set(pq.read_schema(path).names)
    except (OSError, pa.ArrowException):
        return False


def _evaluated(name: str, scores: pl.DataFrame, *, reading_known: bool | None = None) -> Evaluated:
    """Return a system of per-query scores in any order.

    By default the model's input is taken as known if some evidence lies beyond it.
    """
    known = (scores["pos_visible"] < 1).any() if reading_known is None else reading_known
    return Evaluated(name, "run", scores.sort("query_id"), reading_known=known)


def _model_of_run(model: str, args: argparse.Namespace) -> System:
    """Read a model's scores from the results of a run."""
    found = sorted(args.results.glob("*/scores/*.parquet"))
    if not found:
        raise InputError(
            f"{model!r} is not a file, and {args.results} has no scores of a run "
            "({benchmark}/scores/{pair}.parquet); name the results folder with --results"
        )
    scored = {path: read_columns(path, QUERY_SCORES, ["model"])["model"].unique() for path in found}
    paths = [path for path, models in scored.items() if model in models]
    if not paths:
        models = sorted({name for models in scored.values() for name in models})
        raise InputError(
            f"{model!r} is neither a file nor a model in {args.results}; models there: "
            f"{', '.join(models)}"
        )
    benchmark = _only(args.benchmark, {path.parts[-3] for path in paths}, "--benchmark", model)
    paths = [path for path in paths if path.parts[-3] == benchmark]
    pair = _only(args.pair, {path.stem for path in paths}, "--pair", model)
    (path,) = (path for path in paths if path.stem == pair)
    labels = RowLabels(benchmark, *split_pair(pair))
    known, scheme = None, None
    table = args.results / benchmark / "tables" / f"{pair}.psi.parquet"
    if table.is_file():
        psi = read_table(table, PSI_TABLE)
        scheme = psi.item(0, "buckets") if psi.height else None
        seen = psi.filter(model=model).get_column("seen")
        known = seen.count() > 0 if len(seen) else None
    scores = read_table(path, QUERY_SCORES).filter(pl.col("model") == model)
    evaluated = _evaluated(model, scores, reading_known=known)
    return System(evaluated, {f"scores:{model}": path}, labels, scheme)


def _only(given: str | None, available: set[str], option: str, model: str) -> str:
    """Return the value of an option, or the only available one."""
    listed = ", ".join(sorted(available))
    if given is not None and given not in available:
        raise InputError(f"{option} {given!r} has no scores of {model!r}; available: {listed}")
    if given is None and len(available) > 1:
        raise InputError(f"{model!r} has several scores; choose one with {option}: {listed}")
    return given or listed


def _refuse_other_queries(scores: Mapping[str, pl.DataFrame]) -> None:
    (name, first), *others = scores.items()
    if first.is_empty():
        raise InputError(f"{name!r} has no scores; score a run with queries that are in the qrels")
    same = ["query_id", "document_id"]
    for other, second in others:
        both = first.join(second, on=same, how="semi").height
        if both < max(first.height, second.height):
            raise InputError(
                f"{name!r} has scores for {first.height} queries and {other!r} for "
                f"{second.height}; {both} have the same query and document. Systems are "
                "compared on the same queries: score all with the same --queries and --qrels"
            )


def _same_clusters(systems: Sequence[System]) -> list[System]:
    """Give all systems the clusters of the first system with clusters."""
    frames = [one.evaluated.scores for one in systems]
    known = next((frame[CLUSTER] for frame in frames if frame[CLUSTER].count()), None)
    if known is None:
        return [*systems]
    return [
        replace(one, evaluated=replace(one.evaluated, scores=frame.with_columns(known)))
        for one, frame in zip(systems, frames, strict=True)
    ]


def _metrics(requested: list[str] | None, scores: Sequence[pl.DataFrame]) -> list[str]:
    known = [
        name
        for name in scores[0].columns
        if name not in (*QUERY_SCORES.column_names, CUT_METRIC)  # no score: less is better
        and all(
            name in frame.columns
            and frame[name].dtype.is_numeric()
            and not frame[name].null_count()
            for frame in scores
        )
    ]
    lacking = [name for name in requested or [] if name not in known]
    if lacking or not known:
        which = "both" if len(scores) == 2 else "all"
        raise InputError(
            f"not all systems have scores of {', '.join(lacking) or 'any common metric'} for "
            f"every query; {which} have {', '.join(known) or 'none'}"
        )
    parse_metrics(requested or known, also=SPAN_KINDS)
    return requested or known


def _schemes(requested: str | None, default: str | None, scores: pl.DataFrame) -> list[str]:
    """Return the bucket schemes; by default the benchmark's first, or the first that fits."""
    fitting = fitting_schemes(scores["span_mid_char"])
    if requested == "all":
        return list(fitting)
    if requested is not None or default is not None:
        return [bucket_scheme(requested or default or "").name]
    placed = ((name, set(assign(scores, bucket_scheme(name)).query_index)) for name in fitting)
    # Thirds hold all queries except mixed ones.
    return [next((name for name, queries in placed if len(queries) == scores.height), "thirds")]


# --- Output ---------------------------------------------------------------------------------


def _text(found: Ranked, compared: pl.DataFrame, n_clusters: int | None) -> Iterator[str]:
    """Yield the lines for one scheme and metric; ``compared`` has its rows of COMPARED."""
    row = compared.row(0, named=True)
    clusters = "" if n_clusters is None else f" in {n_clusters} clusters"
    if n_clusters is not None and n_clusters < FEWEST_CLUSTERS:
        clusters += " (results hold only for these clusters)"
    yield (
        f"\n{row['metric']}, {row['buckets']}: {row['n_queries']} queries on "
        f"{row['n_documents']} documents{clusters}"
    )
    yield from _two(compared) if len(found.names) == 2 else _several(found)
    yield textwrap.fill(found.profiles_text, WIDTH)
    yield ""
    shown, names = found.buckets, found.means.columns[1:]
    if len(found.names) == 2:  # in the order of the arguments
        names = [row["model"], row["other"]]
        numbers = [str(found.names.index(name) + 1) for name in names]
        shown = shown.select("bucket", "queries", *numbers)
    heads = (f"mean by bucket, {found.kind}", "queries", *names)
    yield from frame_lines(shown, n_text=1, heads=heads)


def _two(compared: pl.DataFrame) -> Iterator[str]:
    """Yield the numbers of two systems, their differences with intervals, and p."""
    rows: list[tuple[Any, ...]] = []
    for row in compared.iter_rows(named=True):
        is_all, first = row["evidence"] == "all", row["model"]
        view = "" if is_all else f", evidence in the input of {first}"
        n_queries = "" if is_all else f" ({row['n_queries']} queries)"
        quantities = [(f"mean{view}{n_queries}", "mean", "difference", row["p_difference"])]
        if is_all:
            quantities.append((PSI_HEAD, "psi_same", "psi_difference", None))
        for title, name, difference, p in quantities:
            ends = [row[f"{difference}_low"], row[f"{difference}_high"]]
            rows.append((title, row[name], row[f"other_{name}"], row[difference], ends, p))
        scales = f"hits {p_value(row['p_hit'])}, misses {p_value(row['p_miss'])}"
        rows.append((f"profile{view}: {scales}", None, None, None, None, row["p_profile"]))
        if is_all and row["n_cut"] and row["cut_gain"] is not None:
            title = f"mean, evidence only in the input of {first} ({row['n_cut']} queries)"
            ends = [row["cut_gain_low"], row["cut_gain_high"]]
            rows.append((title, None, None, row["cut_gain"], ends, row["p_cut_gain"]))
    columns = ("quantity", "first", "second", "difference", "interval", "p")
    types: tuple[Any, ...] = (pl.String, *[pl.Float64] * 3, pl.List(pl.Float64), pl.Float64)
    shown = pl.DataFrame(rows, schema=dict(zip(columns, types, strict=True)), orient="row")
    heads = ("quantity", compared["model"][0], compared["other"][0], *columns[3:])
    yield from frame_lines(shown, {"difference": "+.3f", "p": p_value}, n_text=1, heads=heads)


def _several(found: Ranked) -> Iterator[str]:
    """Yield systems in order with their groups, and the differences between all pairs."""
    ends = {name: pl.concat_list(f"{name}_low", f"{name}_high") for name in ("mean", "psi")}
    shown = found.systems.select(
        "system", "mean", within=ends["mean"], group="group", psi="psi", between=ends["psi"]
    )
    heads: Sequence[str] = ("system", "mean", "interval", "group", PSI_HEAD, "interval")
    yield from frame_lines(shown, n_text=1, heads=heads)
    yield textwrap.fill(found.means_text, WIDTH)
    for title, matrix, note in (
        ("differences of means, p", found.means, MEANS_NOTE),
        ("p of profiles over positions", found.profiles, PROFILES_NOTE),
    ):
        yield ""
        yield from frame_lines(matrix, n_text=1, heads=(title, *matrix.columns[1:]))
        yield textwrap.fill(note, WIDTH)


def _provenance(
    systems: Sequence[System], metrics: Sequence[str], schemes: Sequence[str]
) -> Provenance:
    inputs = {}
    for letter, system in zip(ascii_lowercase, systems, strict=False):
        for name, path in system.files.items():
            inputs[f"{letter}:{name}"] = content_hash(path)
    authors = {
        queries_by(path) for s in systems for path in s.files.values() if _holds_scores(path)
    }
    return Provenance(
        stage="compare",
        stage_version=1,
        params={
            "systems": [system.evaluated.model for system in systems],
            "metrics": list(metrics),
            "schemes": list(schemes),
        },
        inputs=inputs,
        queries_by=", ".join(sorted(authors)) or "not recorded",
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `psibench compare`."""
    parser.set_defaults(length_buckets=True)  # for `score_run`; no row here uses them
    parser.add_argument(
        "systems",
        nargs="+",
        metavar="SYSTEM",
        help="two or more systems: ids of models of a run, run files (with --queries and "
        "--qrels), or query_scores.parquet files",
    )
    models = parser.add_argument_group("models of a run")
    models.add_argument(
        "--results",
        type=Path,
        default=RESULTS_FOLDER,
        metavar="DIR",
        help="results folder of the run (default: results)",
    )
    models.add_argument(
        "--benchmark", metavar="NAME", help="default: the only benchmark with scores"
    )
    models.add_argument(
        "--pair",
        metavar="PAIR",
        help="language pair, e.g. eng-Latn-eng-Latn; default: the only pair with scores",
    )
    add_judgements(parser.add_argument_group("run files"))
    add_tolerance(parser.add_argument_group("what to accept in run files"))
    shown = parser.add_argument_group("what to compare")
    shown.add_argument(
        "--buckets",
        metavar="SCHEME",
        help="thirds, squad, relative-20 (any relative-N) or all; default: the benchmark's first "
        "scheme, or the first that has a bucket for every query",
    )
    shown.add_argument(
        "--metrics", nargs="+", metavar="METRIC", help="default: metrics that all systems have"
    )
    shown.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="folder for comparison.csv, .parquet and .html",
    )
    add_json(shown)
    add_gates(parser)


DESCRIPTION = (
    "Compare systems on the same queries: the difference of their means, the difference of their "
    "PSI at equal documents, and whether their profiles over positions differ. The tests treat "
    "documents (or clusters of documents) as independent, not queries. Profiles differ only if "
    "hits and misses both show it. With three or more systems, p is adjusted over all pairs."
)
