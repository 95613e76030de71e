"""`psibench compare`: whether two systems differ, and whether their profiles over positions do."""

import argparse
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from psibench.commands.base import Command, refuse_file, write_result
from psibench.commands.score import read_judgements, score_run
from psibench.commands.score_options import add_judgements, add_tolerance
from psibench.commands.text_table import aligned
from psibench.errors import InputError
from psibench.formats.runs import RUN_FORMATS
from psibench.metrics.aggregate import Evaluated, RowLabels, result_tables
from psibench.metrics.buckets import BucketScheme, assign, bucket_scheme, fitting_schemes
from psibench.metrics.comparison import BucketDifferences, bucket_differences
from psibench.metrics.definitions import HEADLINE_METRICS, parse_metrics
from psibench.metrics.query_scores import document_numbers
from psibench.report.plots import CONTROL, INK, MAX_NAMED_TICKS, RC, SERIES, write_figure
from psibench.report.verdict import comparison_sentences
from psibench.report.wording import (
    SCHEME_TEXTS,
    change,
    cut,
    interval,
    number,
    p_value,
    split_pair,
)
from psibench.tables import Provenance, content_hash, read_table
from psibench.tables.columns import read_columns
from psibench.tables.derived import queries_by
from psibench.tables.schemas import COMPARISONS, PSI_TABLE, QUERY_SCORES

WIDTH = 100


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


@dataclass(frozen=True)
class Profiles:
    """Bucket means of both systems in one scheme and metric, and how they differ."""

    names: tuple[str, str]
    metric: str
    scheme: BucketScheme
    means: tuple[pl.DataFrame, pl.DataFrame]
    """BUCKET_SCORES rows of each."""
    differences: BucketDifferences
    difference: float
    """Of the means over all queries."""


def run_compare(args: argparse.Namespace) -> None:
    """Compare two systems, print what differs, and write it where ``--out`` says."""
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
    drawn: list[Profiles] = []
    for scheme in schemes:
        for metric in metrics:
            rows = tables.comparisons.filter(buckets=scheme, metric=metric)
            found = {row["evidence"]: row for row in rows.iter_rows(named=True)}
            drawn.append(_profiles(pair, scores, metric, scheme, tables.buckets))
            test = tables.psi.filter(model=pair[0], buckets=scheme, metric=metric, evidence="all")
            print(_block(found, drawn[-1], test.item(0, "test")))
    if args.out is not None:
        record = _provenance((first, second), metrics, schemes)
        path = args.out / "comparison"
        write_result(tables.comparisons, COMPARISONS, path, provenance=record)
        draw_profiles(drawn[0], path)
        print(f"\nWritten to {args.out}")


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
    name, scores = score_run(path, *judgements, options)
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
) -> Profiles:
    scheme = bucket_scheme(scheme_name)
    members = assign(scores[0], scheme)
    first, second = (
        buckets.filter(model=name, metric=metric, buckets=scheme_name, evidence="all")
        for name in pair
    )
    one, other = (frame.get_column(metric).to_numpy() for frame in scores)
    differences = bucket_differences(
        one,
        other,
        document_numbers(scores[0]),
        members.query_index,
        members.bucket_index,
        n_buckets=len(scheme.buckets),
        same=all(frame.get_column("same_mean").count() > 0 for frame in (first, second)),
    )
    difference = float((one - other).mean())
    return Profiles(pair, metric, scheme, (first, second), differences, difference)


def _block(found: dict[str, dict[str, Any]], profiles: Profiles, test: str | None) -> str:
    """Lay out one scheme and metric: figures, buckets, and what may be said of them."""
    row = found["all"]
    first, second = profiles.names
    title = (
        f"\n{profiles.metric}, {profiles.scheme.name}: {row['n_queries']} queries on "
        f"{row['n_documents']} documents"
    )
    lines = [_cells("", first, second, "difference", "interval", "p")]
    for view, one in found.items():
        indent = "" if view == "all" else "  "
        if indent:
            lines.append(_cells(f"evidence given to {first} ({one['n_queries']} queries)"))
        lines.append(_line(f"{indent}mean", one, ("mean", "other_mean", "difference")))
        if not indent:
            names = ("psi_same", "other_psi_same", "psi_difference")
            lines.append(_line("PSI at equal documents, without noise", one, names))
        scales = f"hits {p_value(one['p_hit'])}, misses {p_value(one['p_miss'])}"
        lines.append(_cells(f"{indent}profile", "", "", "", scales, p_value(one["p_profile"])))
    differences, is_same = profiles.differences, profiles.differences.is_same
    lines.append(_cells(f"mean by bucket, {'at equal documents' if is_same else 'plain'}"))
    sizes = profiles.means[0].get_column("n_queries").to_list()
    means = [frame["same_mean" if is_same else "mean"].to_list() for frame in profiles.means]
    ends = differences.value, differences.low, differences.high
    for label, size, own, other, value, low, high in zip(
        profiles.scheme.labels, sizes, *means, *ends, strict=True
    ):
        if size:
            between = "" if np.isnan(low) else interval(low, high)
            figures = (number(own), number(other), change(float(value)), between)
            lines.append(_cells(f"  {label} ({size} queries)", *figures))
    said = [
        textwrap.fill(s, WIDTH, break_on_hyphens=False)
        for s in comparison_sentences(row, profiles.names, test)
    ]
    return "\n".join([title, *aligned(lines, n_text=1), "", *said])


def _cells(*given: str) -> tuple[str, ...]:
    return given + ("",) * (6 - len(given))


def _line(label: str, row: dict[str, Any], names: tuple[str, str, str]) -> tuple[str, ...]:
    own, other, difference = names
    return _cells(
        label,
        number(row[own]),
        number(row[other]),
        change(row[difference]) if row[difference] is not None else number(None),
        interval(row[f"{difference}_low"], row[f"{difference}_high"]),
        p_value(row["p_difference"]) if difference == "difference" else "",
    )


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


# --- The figure -----------------------------------------------------------------------------

STYLES = (("-", "o"), ("--", "s"))
"""Line and marker of each system: told apart without colour too."""


def draw_profiles(profiles: Profiles, path: Path) -> None:
    """Write the figure of one scheme and metric as ``path`` with .png and with .svg."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(RC):
        figure = Figure(figsize=(6.0, 5.2), layout="constrained")
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        labels = profiles.scheme.labels
        column = "same_" if profiles.differences.is_same else ""
        for frame, name, colour, (line, marker) in zip(
            profiles.means, profiles.names, SERIES, STYLES, strict=False
        ):
            mean, low, high = (
                frame.get_column(column + end).cast(float).to_numpy()
                for end in ("mean", "low", "high")
            )
            look = {"color": colour, "linestyle": line, "marker": marker, "label": name}
            _band(upper, mean, low, high, **look)
        kind = "at equal documents" if column else "plain bucket means"
        upper.set_ylabel(f"{profiles.metric}, {kind}")
        upper.legend(frameon=False, loc="best")
        bands = "bands: 95 % intervals, documents as units"
        upper.set_title(bands, fontsize=9, loc="right", color=CONTROL)
        found = profiles.differences
        _band(lower, found.value, found.low, found.high, color=INK, linestyle="-", marker="o")
        lower.axhline(0, color=INK, linewidth=0.8)
        lower.axhline(
            profiles.difference,
            label="difference of the means",
            color=CONTROL,
            linewidth=1.4,
            linestyle=":",
        )
        lower.legend(frameon=False, loc="best", fontsize=9)
        lower.set_ylabel(f"{cut(profiles.names[0], 24)} minus\n{cut(profiles.names[1], 24)}")
        every = -(-len(labels) // MAX_NAMED_TICKS)
        lower.set_xticks(range(0, len(labels), every), labels[::every], fontsize=9)
        lower.set_xlabel(SCHEME_TEXTS.get(profiles.scheme.name, profiles.scheme.name))
    write_figure(figure, path)


def _band(axes: Any, mean: np.ndarray, low: np.ndarray, high: np.ndarray, **style: Any) -> None:
    """Draw means by bucket as a line with a band; empty buckets are passed over."""
    held = np.flatnonzero(~np.isnan(mean))
    axes.plot(held, mean[held], markersize=4, **style)
    axes.fill_between(held, low[held], high[held], color=style["color"], alpha=0.15, linewidth=0)


COMMAND = Command(
    description="Compare two systems on the same queries: the difference of their means, of their "
    "PSI at equal documents, and whether their profiles over positions differ. Documents count as "
    "independent, not queries; a difference of profiles is claimed only where hits and misses "
    "both show it.",
    add_arguments=add_arguments,
    run=run_compare,
)
