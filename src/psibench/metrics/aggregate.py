"""Result tables (buckets, PSI, comparisons) of the per-query scores of several models."""

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
from psibench.metrics.comparison import (
    compare_profiles,
    mean_difference,
    mean_difference_of_few,
    psi_difference_columns,
)
from psibench.metrics.constants import LEAST_INFORMATION
from psibench.metrics.inference import BoolArray, FloatArray, IntArray, renumbered, units_of
from psibench.metrics.psi import RowData, effect_columns, estimate_row
from psibench.metrics.query_scores import cluster_numbers, document_numbers, has_sections
from psibench.tables.schemas import BUCKET_SCORES, COMPARISONS, PSI_TABLE, TableSpec
from psibench.tables.spec import ALL

TableRows = list[dict[str, Any]]


@dataclass(frozen=True)
class RowLabels:
    """The labels of all rows of a language pair."""

    benchmark: str
    query_lang: str
    corpus_lang: str
    queries_by: str = "not recorded"


@dataclass(frozen=True)
class Evaluated:
    """One model's scores, and facts that its rows need.

    Attributes
    ----------
    model, kind : str
        Id and kind in the tables.
    scores : frame in the columns of QUERY_SCORES
    reading_known : bool
        Whether the column ``visible`` is known. If not, the model has only rows of the views
        ``all`` and ``mixed``. A column with a null for a query with a known evidence position also
        has no view.
    on_filter_panel : bool
        Whether the model, under any name, selected the benchmark's queries.
    is_truncating : bool
        Whether the model is the control that cuts off late evidence.
    """

    model: str
    kind: str
    scores: pl.DataFrame
    reading_known: bool = True
    on_filter_panel: bool = False
    is_truncating: bool = False


@dataclass(frozen=True)
class ResultTables:
    """The tables of a language pair: BUCKET_SCORES, PSI_TABLE and COMPARISONS rows."""

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
    """The queries and documents that all models share, and their subsets."""

    documents: IntArray
    lengths: FloatArray
    positions: FloatArray
    parts: list[tuple[str, str, BoolArray]]
    """Domain, length bucket, and mask of the queries."""
    members: dict[str, tuple[BucketScheme, Memberships]]
    unplaced: dict[str, BoolArray]
    """Masks of the queries without a single evidence position, i.e. without a bucket, by scheme."""
    located: BoolArray
    """Mask of the queries with a known evidence position."""
    clusters: IntArray | None
    """The cluster of each query's document."""
    has_sections: bool
    """Whether `documents` are sections of few documents."""

    def units(self, chosen: BoolArray) -> IntArray | None:
        """Return the independent units of some queries; see `units_of`."""
        clusters = None if self.clusters is None else self.clusters[chosen]
        return units_of(self.documents[chosen], clusters)


# The matrix products are small, so a second BLAS thread would only wait.
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
    """Compute the result tables of a language pair.

    Parameters
    ----------
    evaluated : the models, with scores of the same queries. They are consumed one at a time, so a
        generator saves memory.
    labels : the labels of every row.
    metrics, schemes : metric columns and bucket schemes, by name.
    length_buckets : also rows per length bucket, if two or more have queries.
    domains : also rows per domain, with two or more domains.
    control : the position-blind model; the others are compared with it.
    windows : pairs of models that differ only in input length, the longer input first.
    pairs : further pairs of models to compare.
    settings : None for the defaults.

    Returns
    -------
    ResultTables
        PSI: one row per model, domain or length, scheme, metric and evidence view. ``n_queries``
        and ``mean`` cover all queries of the view with a score, also those without a bucket.
        ``mean_of_buckets`` is the mean of bucket means (PosIR's value per length bucket). Undefined
        values are null, never 0. p-values are adjusted over the models of one metric, scheme and
        view (Holm); in domains and lengths over all of these (Benjamini and Hochberg). Queries with
        mixed evidence have separate rows (evidence ``mixed``).
        Buckets: one row per bucket of each PSI row.
        Comparisons: each model with the control, and the pairs of ``windows`` and ``pairs``.

    Raises
    ------
    InputError
        If the models have scores of different queries, a metric is missing, scores or settings are
        out of range, or a scheme needs spans and no query has one.
    """
    chosen = settings or Uncertainty()
    models: list[_Model] = []
    for one in evaluated:
        if not models:
            shared_ids = one.scores.select(_SAME)
            queries = _shared(one.scores, schemes, length_buckets, domains)
        models.append(_model(one, shared_ids, metrics, control))
    if not models:
        raise InputError("no model to aggregate; give the scores of at least one")
    by_name = {model.model: model for model in models}
    blind = by_name.get(control or "")

    made = [
        _rows(model, None if model is blind else blind, queries, scheme, metric, chosen)
        for model in models
        for scheme in schemes
        for metric in metrics
    ]
    named = asdict(labels)
    psi = _adjusted(table_frame([named | row for _, rows in made for row in rows], PSI_TABLE))
    if queries.has_sections:
        raised = pl.when(pl.col("flags") == "").then(pl.lit("sections"))
        psi = psi.with_columns(flags=raised.otherwise(pl.format("{}, sections", "flags")))
    key = ("model", "buckets", "metric", "evidence")
    pooled = psi.filter(domain=ALL, length_bucket=ALL)
    rows = {tuple(row[name] for name in key): row for row in pooled.iter_rows(named=True)}
    related = [(model, blind, "control") for model in models if blind and model is not blind]
    requested = {"shorter_input": windows, "given": pairs}
    related += [
        (by_name[one], by_name[other], relation)
        for relation, given in requested.items()
        for one, other in given
        if one in by_name and other in by_name
    ]
    compared = [
        row | named
        for first, second, relation in related
        for scheme in schemes
        for metric in metrics
        for row in _compared(
            first, second, queries, scheme, metric, relation, psi=rows, level=chosen.level
        )
    ]
    return ResultTables(
        buckets=table_frame([named | row for rows, _ in made for row in rows], BUCKET_SCORES),
        psi=psi,
        comparisons=table_frame(compared, COMPARISONS),
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
                f"buckets {name}: none of the {frame.height} queries has a single evidence span; "
                "for evidence known by class, or several spans, use thirds or thirds-every-tag"
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
        has_sections(frame),
    )


def _mixed(frame: pl.DataFrame) -> BoolArray:
    return (frame.get_column("target_position").cast(pl.String) == MIXED).to_numpy()


def _is_located(frame: pl.DataFrame) -> BoolArray:
    return frame.get_column("target_position").cast(pl.String).ne_missing(UNKNOWN).to_numpy()


def _order_in_document() -> pl.Expr:
    """Return the sort key of a document's queries: the middle of the evidence, or its class."""
    target = pl.col("target_position").cast(pl.String)
    third_middle = target.replace_strict(THIRDS, [1 / 6, 3 / 6, 5 / 6], default=3 / 6)
    middle, length = (pl.col(n).cast(pl.Float64) for n in ("span_mid_char", "pos_char_length"))
    return pl.coalesce(middle, third_middle * length)


def _model(
    evaluated: Evaluated, shared_ids: pl.DataFrame, metrics: Sequence[str], control: str | None
) -> _Model:
    frame = evaluated.scores
    missing = [name for name in metrics if name not in frame.columns]
    if missing:
        raise InputError(f"no scores for the metrics {missing}; available: {frame.columns}")
    if not frame.select(_SAME).equals(shared_ids):
        raise InputError(
            f"model {evaluated.model!r} and the first model have scores of different queries "
            f"({frame.height} and {shared_ids.height} rows); score all models on the same queries"
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
    settings: Uncertainty,
) -> tuple[TableRows, TableRows]:
    """Return a model's bucket rows and PSI rows for one scheme and metric."""
    scheme, members = queries.members[scheme_name]
    data = RowData(
        scores=model.scores[metric],
        documents=queries.documents,
        lengths=queries.lengths,
        positions=queries.positions,
        seen=model.seen,
        located=queries.located,
        control=None if control is None else control.scores[metric],
        clusters=queries.clusters,
    )
    buckets: TableRows = []
    psi: TableRows = []
    for domain, length, part in queries.parts:
        estimates: dict[bytes, tuple[dict[str, Any], dict[str, np.ndarray]]] = {}
        for view, mask in model.views.items():
            # A query without a span has no span metric.
            chosen = part & mask & ~np.isnan(data.scores)
            key = chosen.tobytes()  # views with the same queries share their estimate
            if key not in estimates:
                placed = members.among(chosen)
                estimates[key] = estimate_row(
                    data.taken(chosen),
                    placed.query_index,
                    placed.bucket_index,
                    n_buckets=len(scheme.buckets),
                    level=settings.level,
                    min_bucket_size=settings.min_bucket_size,
                )
            figures, by_bucket = estimates[key]
            row = {
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
            scores = data.scores[chosen]
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
    """Fill ``p_adjusted`` and ``p_control_adjusted``: Holm for pooled rows, else BH."""
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
    """Holm's step-down adjusted p-values (Scandinavian Journal of Statistics 6, 1979); keeps NaN.

    They bound the probability of one or more false rejections (family-wise error rate).
    """
    known = np.flatnonzero(~np.isnan(p_values))
    order = known[np.argsort(p_values[known], kind="stable")]
    adjusted: FloatArray = np.full(len(p_values), np.nan)
    factors = len(order) - np.arange(len(order))
    adjusted[order] = np.minimum(np.maximum.accumulate(factors * p_values[order]), 1.0)
    return adjusted


def benjamini_hochberg(p_values: FloatArray) -> FloatArray:
    """Adjusted p-values of Benjamini and Hochberg; keeps NaN.

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
    relation: str,
    *,
    psi: dict[tuple[str, ...], dict[str, Any]],
    level: float,
) -> TableRows:
    """Compare two models on all queries, and on queries with the evidence in the first's input.

    ``psi``: pooled PSI rows by model, scheme, metric and view.
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
        if means is None:
            independent = documents if units is None else units
            means = mean_difference_of_few(a[chosen], b[chosen], independent)
        # Only the view `all` has the same queries for both models.
        theirs = dict.fromkeys(mine)
        if view == "all":
            theirs = psi[second.model, scheme.name, metric, view]
        psis = psi_difference_columns(mine, theirs, kind="psi_same")
        is_known = psis["psi_difference"] is not None
        row = {
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
        row |= effect_columns("difference", means) | psis
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
    """Return the gains of the first model, on queries with ``known`` scores.

    ``cut_gain`` covers queries with evidence only in the first model's input: the cost of
    truncation for the second model. ``uncut_gain`` covers queries whose whole documents the second
    model read; for two input lengths of one model it is near 0 unless length has another effect.
    """
    if first.seen is None or second.seen is None or "whole" not in second.views:
        return {}
    cut, whole = known & first.seen & ~second.seen, known & second.views["whole"]
    columns: dict[str, Any] = {"n_cut": int(cut.sum())}
    for name, chosen in (("cut_gain", cut), ("uncut_gain", whole)):
        a, b = (model.scores[metric][chosen] for model in (first, second))
        units = queries.units(chosen)
        gain = mean_difference(a, b, queries.documents[chosen], level=level, units=units)
        columns |= effect_columns(name, gain)
    return columns


def table_frame(rows: Iterable[dict[str, Any]], spec: TableSpec) -> pl.DataFrame:
    """Return rows as a frame in the columns of a spec; NaN becomes null."""
    listed = list(rows)
    columns = {name: [row[name] for row in listed] for name in spec.column_names}
    return pl.DataFrame(columns, schema=spec.empty().schema).with_columns(
        pl.selectors.float().fill_nan(None)
    )
