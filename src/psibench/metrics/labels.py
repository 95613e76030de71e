"""Human grades of some queries: their agreement with the benchmark's labels, and corrected scores.

A benchmark's labels come from a language model or a rule. People grade a random sample of its
queries, as (query, document, grade) like qrels. This module computes:

- *Agreement*: the share of pairs on which people and labels agree, also by position for the
  documents with the evidence. If the labelling model favours beginnings, people confirm fewer of
  its labels there.
- *Corrected scores*: estimates of the mean, and of each bucket's mean, with human grades for all
  queries. The method is prediction-powered inference (Angelopoulos et al., Science 382, 2023; tuned
  as in arXiv:2311.01453; for retrieval metrics arXiv:2601.18777): the mean with the benchmark's
  labels plus its estimated error on the graded queries.

Scores with human grades use `human_qrels`. As everywhere in psibench, a query without a relevant
document is left out. A query whose evidence document is not relevant has no bucket, because the
position of its evidence is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from psibench.errors import InputError
from psibench.metrics.aggregate import table_frame
from psibench.metrics.buckets import Memberships, assign, bucket_scheme
from psibench.metrics.constants import FEWEST_BUCKET_GRADED, FEWEST_GRADED, PSEUDO_QUERIES, UNLIKELY
from psibench.metrics.inference import (
    BoolArray,
    FloatArray,
    IntArray,
    document_table,
    equal_means,
    raw_profile,
    renumbered,
    units_of,
)
from psibench.metrics.psi import bucket_columns, wilson_ends
from psibench.metrics.query_scores import cluster_numbers, document_numbers, unit_numbers
from psibench.tables.schemas import CORRECTED_SCORES, LABEL_AGREEMENT
from psibench.tables.spec import ALL

TINY = 1e-12


def human_qrels(qrels: pl.DataFrame, grades: pl.DataFrame) -> pl.DataFrame:
    """Return the qrels of the graded queries, with human grades where they exist.

    Both arguments have the columns of QRELS; pairs without a human grade keep the benchmark's.
    """
    pair = ["query-id", "corpus-id"]
    rest = qrels.join(grades, on="query-id", how="semi").join(grades, on=pair, how="anti")
    return pl.concat([rest, grades.select(rest.columns)])


# --- Agreement -------------------------------------------------------------------------------


def label_agreement(
    grades: pl.DataFrame, qrels: pl.DataFrame, scores: pl.DataFrame, *, schemes: Sequence[str]
) -> pl.DataFrame:
    """Compute how often the benchmark and people agree that a document is relevant.

    Parameters
    ----------
    grades, qrels : columns of QRELS. A grade above 0 is relevant; a pair that the qrels lack is
        not relevant.
    scores : QUERY_SCORES of any model, for the evidence positions.

    Returns
    -------
    LABEL_AGREEMENT rows: one for all graded pairs, with Cohen's kappa if the benchmark's labels are
    of both kinds; and one per bucket for the pairs of a query and its evidence document. Intervals
    are computed like those of bucket means. ``p_position`` is not the headline test of the PSI
    table, but `equal_means` against a slope with documents (or clusters) as units. With so few
    disagreements, a test of slope and bend has type I error up to .09, and the exchange test of
    `between_documents` has half the power (`studies/inference`).

    Raises
    ------
    InputError
        If no pair has a query's evidence document.
    """
    labels = qrels.select("query-id", "corpus-id", machine=pl.col("score") > 0)
    judged = grades.join(labels, on=["query-id", "corpus-id"], how="left").select(
        query_id="query-id",
        graded="corpus-id",
        human=pl.col("score") > 0,
        machine=pl.col("machine").fill_null(value=False),
    )
    pairs = scores.join(judged, on="query_id", maintain_order="left")
    placed = pairs.filter(pl.col("graded") == pl.col("document_id"))
    if placed.is_empty():
        found, wanted = grades["corpus-id"][0], scores["document_id"][0]
        raise InputError(
            f"none of the {grades.height} graded documents is the evidence document of its query; "
            f"graded ids are like {found!r}, evidence documents like {wanted!r}"
        )
    everything = Memberships(np.arange(pairs.height), np.zeros(pairs.height, np.int64))
    kappa = None
    if pairs["machine"].n_unique() > 1:  # else kappa is always 0
        kappa = cohen_kappa(pairs["machine"].to_numpy(), pairs["human"].to_numpy())
    row = _agreement(pairs, everything, n_buckets=1)[0]
    rows = [{"buckets": ALL, "bucket": ALL, "kappa": kappa} | row]
    for name in schemes:
        scheme = bucket_scheme(name)
        found = _agreement(placed, assign(placed, scheme), n_buckets=len(scheme.buckets))
        rows += [
            {"buckets": name, "bucket": label, "kappa": None} | row
            for label, row in zip(scheme.labels, found, strict=True)
        ]
    return table_frame(rows, LABEL_AGREEMENT)


def _agreement(
    pairs: pl.DataFrame, members: Memberships, *, n_buckets: int
) -> list[dict[str, Any]]:
    """Return, per bucket, counts of relevant pairs and the agreement with its interval."""
    query, bucket = members.query_index, members.bucket_index
    machine, human = (pairs[name].to_numpy() for name in ("machine", "human"))

    def count(which: BoolArray) -> IntArray:
        return np.bincount(bucket[which[query]], minlength=n_buckets)

    documents = document_numbers(pairs)
    table = document_table(
        (machine == human).astype(np.float64),
        documents,
        query,
        bucket,
        n_buckets=n_buckets,
        units=units_of(documents, cluster_numbers(pairs)),
    )
    is_empty = not len(table.buckets)
    profile = None if is_empty else raw_profile(table)
    found = bucket_columns(table, profile, None, n_buckets, 0.95)
    p = None if is_empty else equal_means(table).p_trend
    columns = {
        "n_pairs": found["n_queries"],
        "n_relevant": count(machine),
        "n_human_relevant": count(human),
        "agreement": found["mean"],
        "agreement_low": found["low"],
        "agreement_high": found["high"],
    }
    return [
        dict(zip(columns, (value.item() for value in values), strict=True), p_position=p)
        for values in zip(*columns.values(), strict=True)
    ]


def cohen_kappa(left: BoolArray, right: BoolArray) -> float:
    """Return (observed - expected) / (1 - expected) agreement (J. Cohen, 1960).

    Arrays of shape (n,); at least one has both values. (The import of scikit-learn's version takes
    a second.)
    """
    n, n_left, n_right = len(left), int(left.sum()), int(right.sum())
    by_chance = n_left * n_right + (n - n_left) * (n - n_right)
    expected = by_chance / (n * n)
    return float(((left == right).mean() - expected) / (1 - expected))


# --- Corrected scores ------------------------------------------------------------------------


def corrected_mean(
    machine: FloatArray,
    human: FloatArray,
    graded: BoolArray,
    documents: IntArray,
    units: IntArray | None = None,
) -> tuple[float, float, float] | None:
    """Estimate the mean score with human grades for all queries, with its interval.

    M is a query's score with the benchmark's labels, Y its score with human grades, and V whether
    it then has a relevant document (else Y is 0). Bars are means over all N queries, _L over the n
    graded queries::

        value = (lambda (Mbar - Mbar_L) + (V Y)bar_L) / Vbar_L

    If all queries keep a relevant document and lambda is 1, the value is ``Mbar + (Y - M)bar_L``.
    lambda is the slope of ``V (Y - value)`` on M over the graded queries, in [0, 1] (PPI++, section
    6; the graded queries are part of all queries, so it is the regression estimator of double
    sampling). If M is constant, lambda is 1, as in untuned inference. A query adds
    ``lambda (M - Mbar) / N + [graded] (V (Y - value) - lambda (M - Mbar)) / n``, divided by Vbar_L,
    to the error. The variance is the sum of squares by document (or unit), plus a term for label
    errors that a small sample misses (`DocumentTable.small_bucket_variance`). The interval is the
    union of Student's t interval over the graded documents and Wilson's interval with the number of
    queries that gives this variance: near 0 and 1, Student's is too short towards .5, and Wilson's
    towards the end (`studies/inference`). It is widened to Clopper and Pearson's bound for n
    identical documents.

    Parameters
    ----------
    machine, human : float arrays of shape (n_queries,)
        Scores in [0, 1]; human is NaN for queries without a grade or without a relevant document.
    graded : bool array of shape (n_queries,)
    documents : int array of shape (n_queries,)
        The document of each query.
    units : int array of shape (n_queries,), or None
        The independent unit of each query, if not the document (see `units_of`).

    Returns
    -------
    value, low, high of the 95 % interval; or None
        None with fewer than `FEWEST_BUCKET_GRADED` graded queries, or without a relevant document.
    """
    from scipy.stats import t as student

    n, has_relevant = int(graded.sum()), graded & ~np.isnan(human)
    if n < FEWEST_BUCKET_GRADED or not has_relevant.any():
        return None
    relevant = has_relevant.astype(np.float64)  # V
    gain = np.where(has_relevant, human, 0.0)  # V Y
    share, centred = relevant[graded].mean(), machine - machine.mean()
    value = (gain[graded].mean() - centred[graded].mean()) / share
    dev = centred[graded] - centred[graded].mean()
    if dev @ dev > 0:
        slope = float(np.clip(dev @ (gain - value * relevant)[graded] / (dev @ dev), 0, 1))
        value = (gain[graded].mean() - slope * centred[graded].mean()) / share
    else:
        slope = 1.0
    rest = np.where(graded, gain - value * relevant - slope * centred, 0.0) / n
    units = documents if units is None else units
    _, unit, _ = renumbered(units)
    errors = np.bincount(unit, slope * centred / len(machine) + rest)
    n_graded = len(np.unique(units[graded]))
    variance = float(errors @ errors) * n_graded / max(n_graded - 2, 1)
    variance += PSEUDO_QUERIES / (n + PSEUDO_QUERIES) * float(machine.var()) / n
    reach = float(student.ppf(0.975, max(n_graded - 1, 1))) * np.sqrt(variance) / share
    value = float(np.clip(value, 0, 1))
    smooth = (n * value + PSEUDO_QUERIES * machine.mean()) / (n + PSEUDO_QUERIES)
    r = reach**2 / max(smooth * (1 - smooth), TINY)
    of_wilson = [float(end[0]) for end in wilson_ends(np.array([value]), np.array([r]), 1.0)]
    alike = 0.025 ** (1 / len(np.unique(documents)))  # each document may miss, also in clusters
    low = min(value - reach, of_wilson[0], value * alike)
    high = max(value + reach, of_wilson[1], 1 - (1 - value) * alike)
    return value, max(float(low), 0.0), min(float(high), 1.0)


def corrected_scores(
    models: Mapping[str, tuple[pl.DataFrame, pl.DataFrame]],
    grades: pl.DataFrame,
    *,
    metrics: Sequence[str],
    schemes: Sequence[str],
) -> pl.DataFrame:
    """Return corrected means of each model, overall and by bucket: CORRECTED_SCORES rows.

    Parameters
    ----------
    models : by model, its QUERY_SCORES (the same queries in the same order for all models), and
        the scores of graded queries with `human_qrels` (``query_id`` and metrics, without queries
        that have no relevant document).
    grades : columns of QRELS; a query counts as graded if its evidence document is graded.
    """
    rows = []
    for model, (scores, human) in models.items():
        held = grades.select(query_id="query-id", document_id="corpus-id", grade="score")
        grade = scores.join(
            held, on=["query_id", "document_id"], how="left", maintain_order="left"
        ).get_column("grade")
        graded = grade.is_not_null().to_numpy()
        holds = (grade > 0).fill_null(value=False).to_numpy()
        documents, units = document_numbers(scores), unit_numbers(scores)
        theirs = scores.select("query_id").join(
            human, on="query_id", how="left", maintain_order="left"
        )
        subsets = [(ALL, ALL, np.arange(scores.height))]
        for name in schemes:
            scheme, members = bucket_scheme(name), assign(scores, bucket_scheme(name))
            subsets += [
                (name, label, members.query_index[members.bucket_index == k])
                for k, label in enumerate(scheme.labels)
            ]
        for metric in metrics:
            machine = scores[metric].to_numpy()
            people = np.where(graded, theirs[metric].fill_null(np.nan).to_numpy(), np.nan)
            for scheme_name, bucket, index in subsets:
                human_scores = people if scheme_name == ALL else np.where(holds, people, np.nan)
                every = (machine, human_scores, graded, documents, units)
                arrays = [one[index] for one in every]
                found = corrected_mean(*arrays) if graded.sum() >= FEWEST_GRADED else None
                value, low, high = found or (None, None, None)
                rows.append(
                    {
                        "model": model,
                        "metric": metric,
                        "buckets": scheme_name,
                        "bucket": bucket,
                        "n_queries": len(index),
                        "n_graded": int(graded[index].sum()),
                        "n_out": int((graded & np.isnan(human_scores))[index].sum()),
                        "mean": float(machine[index].mean()) if len(index) else None,
                        "corrected": value,
                        "corrected_low": low,
                        "corrected_high": high,
                    }
                )
    return table_frame(rows, CORRECTED_SCORES)


def sampling_doubt(corrected: pl.DataFrame, *, scheme: str) -> str | None:
    """Return a warning if graded queries have another distribution over buckets than all queries.

    ``corrected`` has CORRECTED_SCORES rows. Uses the chi-square test of independence at `UNLIKELY`.
    """
    from scipy.stats import chi2_contingency

    buckets = corrected.filter(pl.col("n_queries") > 0, buckets=scheme).unique("bucket")
    counts = buckets.select("n_graded", rest=pl.col("n_queries") - pl.col("n_graded")).to_numpy()
    if len(counts) < 2 or not counts.any(axis=0).all():
        return None
    p = float(chi2_contingency(counts).pvalue)
    if p >= UNLIKELY:
        return None
    return (
        f"graded queries and all queries differ in their distribution over {scheme} (p = {p:.1g}); "
        "grade a random sample. If it is random only within buckets, the pooled corrected mean is "
        "biased"
    )
