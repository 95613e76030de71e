"""From per-query scores of some models to the result tables: buckets, PSI, comparisons."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl
from threadpoolctl import threadpool_limits

from psibench.config.sections import Uncertainty
from psibench.errors import InputError
from psibench.metrics.buckets import (
    DEFAULT_SCHEMES,
    MIXED,
    THIRDS,
    UNKNOWN,
    BucketScheme,
    Memberships,
    assign,
    bucket_scheme,
)
from psibench.metrics.comparison import compare_profiles, mean_difference, psi_difference_columns
from psibench.metrics.constants import LEAST_INFORMATION
from psibench.metrics.inference import BoolArray, FloatArray, IntArray, renumbered, units_of
from psibench.metrics.psi import RowData, effect_figures, estimate_row
from psibench.metrics.query_scores import cluster_numbers, document_numbers
from psibench.tables.schemas import BUCKET_SCORES, COMPARISONS, PSI_TABLE, TableSpec
from psibench.tables.spec import ALL

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class RowLabels:
    """What all rows of one language pair share."""

    benchmark: str
    query_lang: str
    corpus_lang: str
    queries_by: str = "not recorded"


@dataclass(frozen=True)
class Evaluated:
    """One model's scores and what a reader of its rows has to know of it.

    Attributes
    ----------
    model, kind : str
        Id and kind, as the tables show them.
    scores : frame in the columns of QUERY_SCORES
    reading_known : bool
        Whether `visible` says what the model read; without it there are rows of the views `all` and
        `mixed` only. Nor is there a view of a column that is null for a query whose evidence
        position is known.
    on_filter_panel : bool
        Whether the model, under this or another name, chose which queries are in the benchmark.
    is_truncating : bool
        Whether the model is the control that is known to cut late evidence off.
    """

    model: str
    kind: str
    scores: pl.DataFrame
    reading_known: bool = True
    on_filter_panel: bool = False
    is_truncating: bool = False


@dataclass(frozen=True)
class ResultTables:
    """The tables of one language pair, in the columns of the specs of these names."""

    buckets: pl.DataFrame
    psi: pl.DataFrame
    comparisons: pl.DataFrame


_SAME = ("query_id", "document_id")


@dataclass(frozen=True)
class _Model:
    """One model's scores as arrays over the queries, in the order of all models."""

    model: str
    kind: str
    scores: dict[str, FloatArray]
    views: dict[str, BoolArray]
    seen: BoolArray | None
    flags: list[str]


@dataclass(frozen=True)
class _Queries:
    """What the rows of all models share: the queries, their documents, and parts of them."""

    documents: IntArray
    lengths: FloatArray
    positions: FloatArray
    parts: list[tuple[str, str, BoolArray]]
    """Domain, length bucket, and which queries."""
    members: dict[str, tuple[BucketScheme, Memberships]]
    unplaced: dict[str, BoolArray]
    """Queries that a scheme has no bucket for, as their evidence has no one place."""
    located: BoolArray
    """Queries of which it is known where the evidence is."""
    clusters: IntArray | None
    """What each query's document is part of."""

    def units(self, chosen: BoolArray) -> IntArray | None:
        """Return the independent units of some queries; see `units_of`."""
        clusters = None if self.clusters is None else self.clusters[chosen]
        return units_of(self.documents[chosen], clusters)


# Its products are small: a second thread of BLAS would wait, spinning, for nothing.
@threadpool_limits.wrap(limits=1, user_api="blas")
def result_tables(
    evaluated: Iterable[Evaluated],
    *,
    labels: RowLabels,
    metrics: Sequence[str],
    schemes: Sequence[str] = DEFAULT_SCHEMES,
    length_buckets: bool = True,
    domains: bool = False,
    control: str | None = None,
    windows: Sequence[tuple[str, str]] = (),
    pairs: Sequence[tuple[str, str]] = (),
    settings: Uncertainty | None = None,
) -> ResultTables:
    """Make the result tables of one language pair.

    Parameters
    ----------
    evaluated : the models, all with scores of the same queries; taken one at a time, so that a
        generator need not hold the scores of all.
    labels : written into every row.
    metrics, schemes : metric columns and bucket schemes, by name.
    length_buckets : also rows per length bucket that holds queries, if two or more do.
    domains : also rows per domain, if there are two or more.
    control : the model that knows no position; the others are compared with it.
    windows : pairs of models that differ in nothing but the length of the input, longer first.
    pairs : further models to compare, the first of each with the second.
    settings : the defaults when None.

    Returns
    -------
    ResultTables
        PSI: per model one row per part, scheme, metric and evidence view; `n_queries` and `mean`
        are over all queries of the part and view that have a score, whether in a bucket or not,
        `mean_of_buckets` is the mean over bucket means (what PosIR publishes per length bucket);
        what is undefined is null, never 0. p-values are adjusted over the models of one metric,
        scheme and view (Holm), those of domains and lengths over all of them (Benjamini and
        Hochberg). Queries whose evidence is mixed have rows of their own, evidence `mixed`.
        Buckets: one row per bucket of those.
        Comparisons: each model with the control, and those of `windows` and `pairs`.

    Raises
    ------
    InputError
        If the models were not scored on the same queries, a metric is missing, scores or settings
        are out of range, or a scheme places queries by spans and none has one.
    """
    chosen = settings or Uncertainty()
    models: list[_Model] = []
    for one in evaluated:
        if not models:
            asked = one.scores.select(_SAME)
            queries = _shared(one.scores, schemes, length_buckets, domains)
        models.append(_model(one, asked, metrics, control))
    if not models:
        raise InputError("no model to aggregate; give the scores of one or more")
    by_name = {model.model: model for model in models}
    blind = by_name.get(control or "")

    made = [
        _rows(model, None if model is blind else blind, queries, scheme, metric, labels, chosen)
        for model in models
        for scheme in schemes
        for metric in metrics
    ]
    psi = _adjusted(rows_frame([row for _, rows in made for row in rows], PSI_TABLE))
    key = ("model", "buckets", "metric", "evidence")
    pooled = psi.filter(domain=ALL, length_bucket=ALL)
    rows = {tuple(row[name] for name in key): row for row in pooled.iter_rows(named=True)}
    related = [(model, blind, "control") for model in models if blind and model is not blind]
    given = {"shorter_input": windows, "given": pairs}
    related += [
        (by_name[one], by_name[other], relation)
        for relation, named in given.items()
        for one, other in named
        if one in by_name and other in by_name
    ]
    compared = [
        row
        for first, second, relation in related
        for scheme in schemes
        for metric in metrics
        for row in _compared(
            first, second, queries, scheme, metric, labels, relation, psi=rows, level=chosen.level
        )
    ]
    return ResultTables(
        buckets=rows_frame([row for rows, _ in made for row in rows], BUCKET_SCORES),
        psi=psi,
        comparisons=rows_frame(compared, COMPARISONS),
    )


def _shared(
    frame: pl.DataFrame, schemes: Sequence[str], length_buckets: bool, domains: bool
) -> _Queries:
    everything = np.ones(frame.height, dtype=np.bool_)
    parts = [(ALL, ALL, everything)]
    if length_buckets:
        lengths = frame.get_column("length_bucket")
        held = lengths.drop_nulls().unique().sort().to_list()
        parts += [
            (ALL, label, (lengths == label).fill_null(value=False).to_numpy())
            for label in (held if len(held) > 1 else [])
        ]
    if domains:
        named = frame.get_column("domain")
        names = named.unique().sort().to_list()
        parts += [
            (name, ALL, (named == name).to_numpy()) for name in (names if len(names) > 1 else [])
        ]
    has_span = frame.get_column("span_mid_char").is_not_null()
    is_mixed = _mixed(frame)
    members, unplaced = {}, {}
    for name in schemes:
        scheme = bucket_scheme(name)
        if scheme.needs_span and frame.height and not has_span.any():
            raise InputError(
                f"buckets {name}: none of the {frame.height} queries has one evidence span; where "
                "evidence is known by class, or is several spans, take thirds or thirds-every-tag"
            )
        members[name] = (scheme, assign(frame, scheme))
        unplaced[name] = is_mixed | ~has_span.to_numpy()
        unplaced[name][members[name][1].query_index] = False
    return _Queries(
        document_numbers(frame),
        frame.get_column("pos_char_length").cast(pl.Float64).fill_null(np.nan).to_numpy(),
        frame.select(_order_in_document()).to_series().to_numpy(),
        parts,
        members,
        unplaced,
        _is_located(frame),
        cluster_numbers(frame),
    )


def _mixed(frame: pl.DataFrame) -> BoolArray:
    return (frame.get_column("target_position").cast(pl.String) == MIXED).to_numpy()


def _is_located(frame: pl.DataFrame) -> BoolArray:
    return frame.get_column("target_position").cast(pl.String).ne_missing(UNKNOWN).to_numpy()


def _order_in_document() -> pl.Expr:
    """Return what a document's queries are ordered by: the middle of the evidence, or its class."""
    target = pl.col("target_position").cast(pl.String)
    place = target.replace_strict(THIRDS, [1 / 6, 3 / 6, 5 / 6], default=3 / 6)
    middle, length = (pl.col(n).cast(pl.Float64) for n in ("span_mid_char", "pos_char_length"))
    return pl.coalesce(middle, place * length)


def _model(
    evaluated: Evaluated, asked: pl.DataFrame, metrics: Sequence[str], control: str | None
) -> _Model:
    frame = evaluated.scores
    missing = [name for name in metrics if name not in frame.columns]
    if missing:
        raise InputError(f"no scores for the metrics {missing}; found {frame.columns}")
    if not frame.select(_SAME).equals(asked):
        raise InputError(
            f"model {evaluated.model!r} has scores of other queries than the first model: "
            f"{frame.height} and {asked.height} rows; models are compared on the same queries"
        )
    views = {"all": np.ones(frame.height, dtype=np.bool_)}
    located = frame.filter(_is_located(frame))
    for name, column in (("visible", "visible"), ("whole", "pos_visible")):
        if evaluated.reading_known and not located[column].null_count():
            views[name] = frame[column].fill_null(0.0).to_numpy() >= 1.0
    if _mixed(frame).any():
        views[MIXED] = _mixed(frame)
    scores = {name: frame.get_column(name).to_numpy().astype(np.float64) for name in metrics}
    raised = {
        "given_unknown": evaluated.reading_known and "visible" not in views,
        "filter_panel": evaluated.on_filter_panel,
        "position_blind": evaluated.model == control,
        "truncating": evaluated.is_truncating,
    }
    flags = [name for name, is_raised in raised.items() if is_raised]
    return _Model(evaluated.model, evaluated.kind, scores, views, views.get("visible"), flags)


def _rows(
    model: _Model,
    control: _Model | None,
    queries: _Queries,
    scheme_name: str,
    metric: str,
    labels: RowLabels,
    settings: Uncertainty,
) -> tuple[Rows, Rows]:
    """Make a model's bucket rows and PSI rows of one scheme and metric."""
    scheme, members = queries.members[scheme_name]
    buckets: Rows = []
    psi: Rows = []
    for domain, length, part in queries.parts:
        estimates: dict[bytes, tuple[dict[str, Any], dict[str, np.ndarray]]] = {}
        for view, mask in model.views.items():
            # Without a span there is no recall of spans.
            chosen = part & mask & ~np.isnan(model.scores[metric])
            key = chosen.tobytes()  # views of the same queries have the same figures
            if key not in estimates:
                placed = members.among(chosen)
                estimates[key] = estimate_row(
                    RowData(
                        scores=model.scores[metric][chosen],
                        documents=queries.documents[chosen],
                        lengths=queries.lengths[chosen],
                        positions=queries.positions[chosen],
                        seen=None if model.seen is None else model.seen[chosen],
                        located=queries.located[chosen],
                        control=None if control is None else control.scores[metric][chosen],
                        clusters=None if queries.clusters is None else queries.clusters[chosen],
                    ),
                    placed.query_index,
                    placed.bucket_index,
                    n_buckets=len(scheme.buckets),
                    level=settings.level,
                    min_bucket_size=settings.min_bucket_size,
                )
            figures, by_bucket = estimates[key]
            row = asdict(labels) | {
                "domain": domain,
                "length_bucket": length,
                "model": model.model,
                "metric": metric,
                "buckets": scheme.name,
                "evidence": view,
            }
            buckets += [
                row
                | {"bucket": one.label, "bucket_low": one.low, "bucket_high": one.high}
                | {name: values[index].item() for name, values in by_bucket.items()}
                for index, one in enumerate(scheme.buckets)
            ]
            named = {
                name: None if figures[name] is None else scheme.labels[figures[name]]
                for name in ("best_bucket", "worst_bucket", "best_same", "worst_same")
            }
            is_unplaced = bool((chosen & queries.unplaced[scheme.name]).any())
            flags = [figures["flags"], "unplaced" if is_unplaced else "", *model.flags]
            scores = model.scores[metric][chosen]
            psi.append(
                {**row, **figures, **named, "p_adjusted": None, "p_control_adjusted": None}
                | {
                    "kind": model.kind,
                    "n_queries": scores.size,
                    "mean": float(np.sort(scores).mean()) if scores.size else None,
                    "control": control.model if control else None,
                    "flags": ", ".join(filter(None, flags)),
                }
            )
    return buckets, psi


def _adjusted(psi: pl.DataFrame) -> pl.DataFrame:
    """Fill `p_adjusted` and `p_control_adjusted`: Holm's of pooled rows, else BH's."""
    is_of_all = (pl.col("domain") == ALL) & (pl.col("length_bucket") == ALL)
    family = ["metric", "buckets", "evidence", is_of_all]

    def adjust(column: str, method: Callable[[FloatArray], FloatArray]) -> pl.Expr:
        return (
            pl.col(column)
            .map_batches(lambda p: pl.Series(method(p.to_numpy())), return_dtype=pl.Float64)
            .over(family)
            .fill_nan(None)
        )

    return psi.with_columns(
        pl.when(is_of_all)
        .then(adjust(column, holm))
        .otherwise(adjust(column, benjamini_hochberg))
        .alias(filled)
        for column, filled in (("p_position", "p_adjusted"), ("p_control", "p_control_adjusted"))
    )


def holm(p_values: FloatArray) -> FloatArray:
    """Holm's step-down adjusted p-values (Scandinavian Journal of Statistics 6, 1979); NaN stays.

    They bound the probability of one or more false rejections (family-wise error rate).
    """
    known = np.flatnonzero(~np.isnan(p_values))
    order = known[np.argsort(p_values[known], kind="stable")]
    adjusted: FloatArray = np.full(len(p_values), np.nan)
    factors = len(order) - np.arange(len(order))
    adjusted[order] = np.minimum(np.maximum.accumulate(factors * p_values[order]), 1.0)
    return adjusted


def benjamini_hochberg(p_values: FloatArray) -> FloatArray:
    """Adjusted p-values of Benjamini and Hochberg; NaN stays.

    They bound the expected share of false rejections among all (false discovery rate).
    """
    from scipy.stats import false_discovery_control

    known = ~np.isnan(p_values)
    adjusted: FloatArray = np.full(len(p_values), np.nan)
    if known.any():
        adjusted[known] = false_discovery_control(p_values[known])
    return adjusted


def _compared(
    first: _Model,
    second: _Model,
    queries: _Queries,
    scheme_name: str,
    metric: str,
    labels: RowLabels,
    relation: str,
    *,
    psi: dict[tuple[str, ...], dict[str, Any]],
    level: float,
) -> Rows:
    """Compare two models on all queries, and on those whose evidence the first one saw.

    ``psi``: PSI rows of all queries by model, scheme, metric and view.
    """
    scheme, members = queries.members[scheme_name]
    a, b = first.scores[metric], second.scores[metric]
    known = ~np.isnan(a + b)
    rows = []
    for view in ("all", "visible"):
        if view not in first.views:
            continue
        chosen = first.views[view] & known
        if not chosen.any() or (view == "visible" and np.array_equal(chosen, known)):
            continue
        placed = members.among(chosen)
        documents, units = queries.documents[chosen], queries.units(chosen)
        mine = psi[first.model, scheme.name, metric, view]
        profile = compare_profiles(
            a[chosen],
            b[chosen],
            documents,
            placed.query_index,
            placed.bucket_index,
            queries.lengths[chosen],
            queries.positions[chosen],
            within=mine["info_shape"] >= LEAST_INFORMATION,
            units=units,
        )
        means = mean_difference(a[chosen], b[chosen], documents, level=level, units=units)
        # Only the view `all` is surely the same queries for both.
        theirs = dict.fromkeys(mine)
        if view == "all":
            theirs = psi[second.model, scheme.name, metric, view]
        psis = psi_difference_columns(mine, theirs, kind="psi_same")
        is_known = psis["psi_difference"] is not None
        row = asdict(labels) | {
            "domain": ALL,
            "model": first.model,
            "other": second.model,
            "relation": relation,
            "metric": metric,
            "buckets": scheme.name,
            "evidence": view,
            "n_queries": int(chosen.sum()),
            "n_documents": len(renumbered(documents)[0]),
            "mean": float(a[chosen].mean()),
            "other_mean": float(b[chosen].mean()),
            "p_profile": profile.p,
            "p_hit": profile.p_hit,
            "p_miss": profile.p_miss,
            "psi_same": mine["psi_same_corrected"],
            "other_psi_same": theirs["psi_same_corrected"] if is_known else None,
        }
        row |= effect_figures("difference", means) | psis
        if view == "all" and relation != "control":
            row |= _gains(first, second, metric, queries, known, level)
        rows.append(dict.fromkeys(COMPARISONS.column_names) | row)
    return rows


def _gains(
    first: _Model,
    second: _Model,
    metric: str,
    queries: _Queries,
    known: BoolArray,
    level: float,
) -> dict[str, Any]:
    """Gain of the first model on queries whose evidence only it saw; scores are ``known``.

    ``cut_gain`` is of these: what truncation costs the second model there. ``uncut_gain`` is of
    queries whose documents the second one read whole: near 0 for two input lengths of one model
    unless the length does something else.
    """
    if first.seen is None or second.seen is None or "whole" not in second.views:
        return {}
    cut, whole = known & first.seen & ~second.seen, known & second.views["whole"]
    figures: dict[str, Any] = {"n_cut": int(cut.sum())}
    for name, chosen in (("cut_gain", cut), ("uncut_gain", whole)):
        a, b = (model.scores[metric][chosen] for model in (first, second))
        units = queries.units(chosen)
        gain = mean_difference(a, b, queries.documents[chosen], level=level, units=units)
        figures |= effect_figures(name, gain)
    return figures


def rows_frame(rows: Iterable[dict[str, Any]], spec: TableSpec) -> pl.DataFrame:
    """Collect rows into the columns of a table; NaN becomes null."""
    listed = list(rows)
    columns = {name: [row[name] for row in listed] for name in spec.column_names}
    return pl.DataFrame(columns, schema=spec.empty().schema).with_columns(
        pl.selectors.float().fill_nan(None)
    )
