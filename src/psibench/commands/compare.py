"""`psibench compare`: whether two systems differ, and whether their profiles over positions do."""

import argparse
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from psibench.commands.base import Command, refuse_file, write_result
from psibench.commands.score import read_judgements, score_run
from psibench.commands.score_options import add_judgements, add_tolerance
from psibench.commands.text_table import Form, frame_lines
from psibench.errors import InputError
from psibench.formats.runs import RUN_FORMATS
from psibench.metrics.aggregate import Evaluated, RowLabels, result_tables
from psibench.metrics.buckets import assign, bucket_scheme, fitting_schemes
from psibench.metrics.comparison import bucket_differences
from psibench.metrics.definitions import HEADLINE_METRICS, parse_metrics
from psibench.metrics.inference import FEWEST_DOCUMENTS
from psibench.metrics.query_scores import document_numbers
from psibench.report.plots import SERIES, LineStyle, draw_curves, write_figure
from psibench.report.scores import bucket_axis
from psibench.report.verdict import comparison_sentences
from psibench.report.wording import ALPHA, change, p_text, p_value, split_pair
from psibench.tables import Provenance, content_hash, read_table
from psibench.tables.columns import read_columns
from psibench.tables.derived import queries_by
from psibench.tables.schemas import COMPARISONS, PSI_TABLE, QUERY_SCORES

WIDTH = 100
FILES = "comparison"
WORSE = 1
"""Exit code where --fail-if-worse finds the first system worse."""


@dataclass(frozen=True)
class System:
    """One of the two: its per-query scores, and where they came from."""

    evaluated: Evaluated
    files: dict[str, Path]
    """Input name -> file."""
    labels: RowLabels | None = None
    """Benchmark and languages where they are known."""
    scheme: str | None = None
    """The first bucket scheme of its benchmark; None where that is not known."""


def run_compare(args: argparse.Namespace) -> int:
    """Compare two systems, print what differs, and write it where ``--out`` says.

    Returns the exit code: `WORSE` where ``--fail-if-worse`` says so, else 0.
    """
    refuse_file("--out", args.out)
    first, second = _systems(args)
    pair = (first.evaluated.model, second.evaluated.model)
    scores = first.evaluated.scores, second.evaluated.scores
    _refuse_other_queries(pair, scores)
    metrics = _metrics(args.metrics, *scores)
    schemes = _schemes(args.buckets, first.scheme or second.scheme, scores[0])
    tables = result_tables(
        [first.evaluated, second.evaluated],
        labels=first.labels or second.labels or RowLabels("custom", "und", "und"),
        metrics=metrics,
        schemes=schemes,
        length_buckets=False,
        pairs=[pair],
    )
    for scheme in schemes:
        for metric in metrics:
            of = {"buckets": scheme, "metric": metric}
            found = tables.comparisons.filter(**of)
            profiles = _profiles(pair, scores, metric, scheme, tables.buckets.filter(**of))
            test = tables.psi.filter(model=pair[0], evidence="all", **of)["test"][0]
            print("\n".join(_block(found, profiles, test)))
            if args.out is not None and of == {"buckets": schemes[0], "metric": metrics[0]}:
                is_same = bool(profiles["is_same"].any())
                _draw(tables.buckets.filter(**of), pair, args.out, is_same=is_same)
    if args.out is not None:
        record = _provenance((first, second), metrics, schemes)
        write_result(tables.comparisons, COMPARISONS, args.out / FILES, provenance=record)
        print(f"\nWritten to {args.out}")
    if args.fail_if_worse is None:
        return 0
    row = tables.comparisons.filter(evidence="all", metric=metrics[0]).row(0, named=True)
    return _judge(row, pair, args.fail_if_worse)


def _judge(row: dict[str, Any], pair: tuple[str, str], loss: float) -> int:
    """Say whether the first system's mean is worse by so much and significantly; the exit code."""
    p = row["p_difference"]
    is_worse = p is not None and p <= ALPHA and row["difference"] <= -loss
    why = (
        f"no p: {row['n_documents']} documents, and {FEWEST_DOCUMENTS} are needed"
        if p is None
        else p_text(p)
    )
    print(
        f"psibench compare: {pair[0]} is {'' if is_worse else 'not '}worse than {pair[1]} by "
        f"{loss:g} in {row['metric']} beyond chance ({change(row['difference'])}, {why})",
        file=sys.stderr,
    )
    return WORSE if is_worse else 0


# --- The two systems ------------------------------------------------------------------------


def _systems(args: argparse.Namespace) -> tuple[System, System]:
    """Read both systems, each a model of a run, a run file or a file of per-query scores."""
    judgements = None
    if (args.queries is None) != (args.qrels is None):
        raise InputError("--queries and --qrels go together; give both or none")
    if args.queries is not None:
        judgements = read_judgements(args)
    first, second = (_system(text, judgements, args) for text in args.systems)
    if first.evaluated.model == second.evaluated.model:
        other = replace(second.evaluated, model=f"{second.evaluated.model} (2)")
        second = replace(second, evaluated=other)
    return first, second


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
        name = path.resolve().parent.name if path.stem == "query_scores" else path.stem
        scores = read_table(path, QUERY_SCORES)
        if (models := scores["model"].unique().sort()).len() > 1:
            raise InputError(
                f"{path}: scores of {models.len()} models ({', '.join(models)}); name two of them, "
                "and their results folder with --results"
            )
        return System(_evaluated(name, scores), {f"scores:{path.name}": path})
    if judgements is None:
        raise InputError(
            f"{path}: a run needs --queries and --qrels to be scored; without them give the "
            "query_scores.parquet of `psibench score`, or the ids of two models"
        )
    options = argparse.Namespace(**vars(args) | {"metrics": args.metrics or list(HEADLINE_METRICS)})
    name, scores, _ = score_run(path, *judgements, options)
    given = {f"run:{path.name}": path}
    for kind in ("queries", "qrels"):
        given |= {f"{kind}:{file.name}": file for file in getattr(args, kind)}
    return System(_evaluated(name, scores, reading_known=False), given)


def _holds_scores(path: Path) -> bool:
    """Say whether a file is a table of per-query scores."""
    try:
        return {"query_id", "document_id"} <= set(pq.read_schema(path).names)
    except (OSError, pa.ArrowException):
        return False


def _evaluated(name: str, scores: pl.DataFrame, *, reading_known: bool | None = None) -> Evaluated:
    """Make a system of per-query scores, of whatever order.

    Without a word on it, what it read is taken as known if it was not given everything: of one
    that was, and of one of which nothing is known, all evidence is visible.
    """
    known = (scores["pos_visible"] < 1).any() if reading_known is None else reading_known
    return Evaluated(name, "run", scores.sort("query_id"), reading_known=known)


def _model_of_run(model: str, args: argparse.Namespace) -> System:
    """Read a model's scores from the results of a run."""
    found = sorted(args.results.glob("*/scores/*.parquet"))
    if not found:
        raise InputError(
            f"{model!r} is no file, and {args.results} holds no scores of a run "
            "({benchmark}/scores/{pair}.parquet); name them with --results"
        )
    scored = {path: read_columns(path, QUERY_SCORES, ["model"])["model"].unique() for path in found}
    own = [path for path, models in scored.items() if model in models]
    if not own:
        models = sorted({name for models in scored.values() for name in models})
        raise InputError(
            f"{model!r} is neither a file nor a model of {args.results}; found {', '.join(models)}"
        )
    benchmark = _only(args.benchmark, {path.parts[-3] for path in own}, "--benchmark", model)
    own = [path for path in own if path.parts[-3] == benchmark]
    pair = _only(args.pair, {path.stem for path in own}, "--pair", model)
    (path,) = (path for path in own if path.stem == pair)
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


def _only(given: str | None, there: set[str], option: str, model: str) -> str:
    """Return what an option names, or the only thing there is."""
    listed = ", ".join(sorted(there))
    if given is not None and given not in there:
        raise InputError(f"{option} {given!r} has no scores of {model!r}; found {listed}")
    if given is None and len(there) > 1:
        raise InputError(f"{model!r} has scores of several; choose one with {option}: {listed}")
    return given or listed


def _refuse_other_queries(
    names: tuple[str, str], scores: tuple[pl.DataFrame, pl.DataFrame]
) -> None:
    first, second = scores
    same = ["query_id", "document_id"]
    both = first.join(second, on=same, how="semi").height
    if both < max(first.height, second.height):
        raise InputError(
            f"{names[0]!r} has scores of {first.height} queries and {names[1]!r} of "
            f"{second.height}; {both} are the same, of the same documents. Two systems are "
            "compared on the same queries: score both with the same --queries and --qrels"
        )


def _metrics(asked: list[str] | None, first: pl.DataFrame, second: pl.DataFrame) -> list[str]:
    known = [
        name
        for name in first.columns
        if name not in QUERY_SCORES.column_names and name in second.columns
    ]
    lacking = [name for name in asked or [] if name not in known]
    if lacking or not known:
        raise InputError(
            f"no scores of both for the metrics {', '.join(lacking) or 'of either'}; both have "
            f"{', '.join(known) or 'none'}"
        )
    parse_metrics(asked or known)
    return asked or known


def _schemes(asked: str | None, own: str | None, scores: pl.DataFrame) -> list[str]:
    """Return the schemes to compare in: by default the benchmark's first, or the first fitting."""
    fitting = fitting_schemes(scores["span_mid_char"])
    if asked == "all":
        return list(fitting)
    if asked is not None or own is not None:
        return [bucket_scheme(asked or own or "").name]
    placed = ((name, set(assign(scores, bucket_scheme(name)).query_index)) for name in fitting)
    # Thirds place all but mixed ones.
    return [next((name for name, own in placed if len(own) == scores.height), "thirds")]


# --- What is said ---------------------------------------------------------------------------


def _profiles(
    pair: tuple[str, str],
    scores: tuple[pl.DataFrame, pl.DataFrame],
    metric: str,
    scheme_name: str,
    buckets: pl.DataFrame,
) -> pl.DataFrame:
    """Return both means of each bucket that has queries, at equal documents if both have such.

    Columns: bucket, queries, first, second, difference, low, high, is_same (at equal documents).
    """
    scheme = bucket_scheme(scheme_name)
    members = assign(scores[0], scheme)
    first, second = (buckets.filter(model=name, evidence="all") for name in pair)
    is_same = all(frame["same_mean"].count() > 0 for frame in (first, second))
    one, other = (frame.get_column(metric).to_numpy() for frame in scores)
    found = bucket_differences(
        one,
        other,
        document_numbers(scores[0]),
        members.query_index,
        members.bucket_index,
        n_buckets=len(scheme.buckets),
        same=is_same,
    )
    mean = "same_mean" if is_same else "mean"
    return first.select(
        "bucket",
        queries="n_queries",
        first=mean,
        second=second[mean],
        difference=pl.Series(found.value),
        low=pl.Series(found.low),
        high=pl.Series(found.high),
        is_same=found.is_same,
    ).filter(pl.col("queries") > 0)


def _block(found: pl.DataFrame, profiles: pl.DataFrame, test: str | None) -> Iterator[str]:
    """Yield one scheme and metric: figures, buckets, and what may be said of them."""
    every = found.filter(evidence="all").row(0, named=True)
    first, second = every["model"], every["other"]
    yield (
        f"\n{every['metric']}, {every['buckets']}: {every['n_queries']} queries on "
        f"{every['n_documents']} documents"
    )
    rows = []
    for row in found.iter_rows(named=True):
        of = "" if row["evidence"] == "all" else f", evidence given to {first}"
        queries = f"{of} ({row['n_queries']} queries)" if of else ""
        for label, names, p in (
            ("mean", ("mean", "other_mean", "difference"), row["p_difference"]),
            (
                "PSI at equal documents, without noise",
                ("psi_same", "other_psi_same", "psi_difference"),
                None,
            ),
        ):
            if label == "mean" or not of:
                ends = [row[f"{names[2]}_low"], row[f"{names[2]}_high"]]
                rows.append((f"{label}{queries}", *(row[name] for name in names), ends, p))
        scales = f"hits {p_value(row['p_hit'])}, misses {p_value(row['p_miss'])}"
        rows.append((f"profile{of}: {scales}", None, None, None, None, row["p_profile"]))
    columns = ("figure", "first", "second", "difference", "interval", "p")
    types: tuple[Any, ...] = (pl.String, *[pl.Float64] * 3, pl.List(pl.Float64), pl.Float64)
    forms: dict[str, Form] = {"difference": "+.3f", "p": p_value}
    heads = ("figure", first, second, *columns[3:])
    schema = dict(zip(columns, types, strict=True))
    figures = pl.DataFrame(rows, schema=schema, orient="row")
    yield from frame_lines(figures, forms, n_text=1, heads=heads)
    yield ""
    interval = pl.concat_list(pl.col("low", "high").fill_nan(None))
    shown = profiles.select("bucket", "queries", "first", "second", "difference", interval=interval)
    kind = "at equal documents" if profiles["is_same"].any() else "plain"
    heads = (f"mean by bucket, {kind}", "queries", first, second, "difference", "interval")
    yield from frame_lines(shown, forms, n_text=1, heads=heads)
    yield ""
    for sentence in comparison_sentences(every, (first, second), test):
        yield textwrap.fill(sentence, WIDTH, break_on_hyphens=False)


def _draw(buckets: pl.DataFrame, pair: tuple[str, str], out: Path, *, is_same: bool) -> None:
    """Draw both profiles with their intervals; ``buckets``: BUCKET_SCORES of one scheme, metric."""
    of_all = buckets.filter(evidence="all")
    kind, column = ("at equal documents", "same_") if is_same else ("plain means", "")
    lines = of_all.select(
        "bucket", line="model", **{name: f"{column}{name}" for name in ("mean", "low", "high")}
    )
    styles = {pair[0]: LineStyle(SERIES[0], "o"), pair[1]: LineStyle(SERIES[1], "s", (4.0, 2.0))}
    axis = bucket_axis(of_all, of_all["buckets"][0])
    figure = draw_curves(lines, axis, styles, y_text=f"{of_all['metric'][0]}, {kind}")
    write_figure(figure, out / FILES)


def _provenance(
    systems: tuple[System, System], metrics: Sequence[str], schemes: Sequence[str]
) -> Provenance:
    inputs = {}
    for place, system in zip("ab", systems, strict=True):
        for name, path in system.files.items():
            inputs[f"{place}:{name}"] = content_hash(path)
    asked = {queries_by(path) for s in systems for path in s.files.values() if _holds_scores(path)}
    return Provenance(
        stage="compare",
        stage_version=1,
        params={
            "systems": [system.evaluated.model for system in systems],
            "metrics": list(metrics),
            "schemes": list(schemes),
        },
        inputs=inputs,
        queries_by=", ".join(sorted(asked)) or "not recorded",
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the two systems, where they are, and what to compare."""
    parser.add_argument(
        "systems",
        nargs=2,
        metavar="SYSTEM",
        help="two, each the id of a model of a run, a run file (with --queries and --qrels), or a "
        "query_scores.parquet",
    )
    models = parser.add_argument_group("models of a run")
    models.add_argument(
        "--results",
        type=Path,
        default=Path("results"),
        metavar="DIR",
        help="folder of the run's results (default: results)",
    )
    models.add_argument("--benchmark", metavar="NAME", help="default: the only one there")
    models.add_argument(
        "--pair", metavar="PAIR", help="as eng-Latn-eng-Latn; default: the only one there"
    )
    add_judgements(parser.add_argument_group("run files"))
    add_tolerance(parser.add_argument_group("what to accept of run files"))
    shown = parser.add_argument_group("what to compare")
    shown.add_argument(
        "--buckets",
        metavar="SCHEME",
        help="squad, thirds, relative-20 (any relative-N) or all of these; default: the "
        "benchmark's first, or the first that places every query",
    )
    shown.add_argument("--metrics", nargs="+", metavar="METRIC", help="default: all that both have")
    shown.add_argument(
        "--out", type=Path, metavar="DIR", help="for comparison.csv, .parquet, .png and .svg"
    )
    shown.add_argument(
        "--fail-if-worse",
        type=_loss,
        metavar="LOSS",
        help=f"as 0.02: exit with {WORSE} where the first system's mean is lower by that much or "
        "more, and significantly (p at most .05), for CI",
    )


def _loss(text: str) -> float:
    """Read a loss of a mean score, above 0 and at most 1."""
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 < found <= 1:
        raise argparse.ArgumentTypeError(f"{text!r}: give a loss above 0 and at most 1, as 0.02")
    return found


COMMAND = Command(
    description="Compare two systems on the same queries: the difference of their means, of their "
    "PSI at equal documents, and whether their profiles over positions differ. Documents count as "
    "independent, not queries; a difference of profiles is claimed only where hits and misses "
    "both show it.",
    add_arguments=add_arguments,
    run=run_compare,
)
