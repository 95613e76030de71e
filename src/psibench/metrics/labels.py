"""Human grades of some queries: how the benchmark's labels agree, and scores corrected by them.

A benchmark's labels are a language model's or a rule's. People grade some of its queries, drawn at
random: (query, document, grade) as in qrels. Two things are made of them.

- *Agreement*: on how many pairs do people and labels agree, and on how many of the documents that
  hold the evidence, by its position? If the labelling model favours beginnings, people confirm
  fewer of its labels there.
- *Corrected scores*: the mean, and that of each bucket, if people had graded all queries, by
  prediction-powered inference (Angelopoulos et al., Science 382, 2023; tuned as in
  arXiv:2311.01453; of retrieval metrics arXiv:2601.18777): the mean under the benchmark's labels,
  and what the graded queries show it to be off by.

Scores under human grades are those of `human_qrels`. A query left without a relevant document is
out, as everywhere in psibench; one whose evidence document is not relevant is in no bucket, since
nothing is known of where its evidence is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from psibench.errors import InputError
from psibench.metrics.aggregate import rows_frame
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
from psibench.metrics.psi import bucket_figures, wilson_ends
from psibench.metrics.query_scores import cluster_numbers, document_numbers, unit_numbers
from psibench.tables.schemas import CORRECTED_SCORES, LABEL_AGREEMENT
from psibench.tables.spec import ALL

TINY = 1e-12


def human_qrels(qrels: pl.DataFrame, grades: pl.DataFrame) -> pl.DataFrame:
    """Return the qrels of the graded queries, human grades in place of the benchmark's.

    Both in the columns of QRELS; pairs that people did not grade keep the benchmark's.
    """
    pair = ["query-id", "corpus-id"]
    rest = qrels.join(grades, on="query-id", how="semi").join(grades, on=pair, how="anti")
    return pl.concat([rest, grades.select(rest.columns)])


# --- Do the labels agree? --------------------------------------------------------------------


def label_agreement(
    grades: pl.DataFrame, qrels: pl.DataFrame, scores: pl.DataFrame, *, schemes: Sequence[str]
) -> pl.DataFrame:
    """Count how often the benchmark and people agree on whether a document is relevant.

    Parameters
    ----------
    grades, qrels : columns of QRELS. Relevant is a grade above 0; what the qrels lack is not
        relevant to the benchmark.
    scores : QUERY_SCORES of any model, for where each query's evidence is.

    Returns
    -------
    LABEL_AGREEMENT rows: one of all graded pairs, with Cohen's kappa if the benchmark has labels of
    both kinds among them; and one per bucket of pairs of a query and the document that holds its
    evidence. Intervals are those of bucket means. `p_position` is not the headline test of the PSI
    table but `equal_means` against a slope, documents (or clusters) as units: testing slope and
    bend has type I error up to .09 with so few disagreements, the exchange test of
    `between_documents` half the power (`studies/inference`).

    Raises
    ------
    InputError
        If no pair is of a query and the document that holds its evidence.
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
        given, wanted = grades["corpus-id"][0], scores["document_id"][0]
        raise InputError(
            f"none of the {grades.height} graded documents holds the evidence of its query; they "
            f"are like {given!r}, those like {wanted!r}"
        )
    everything = Memberships(np.arange(pairs.height), np.zeros(pairs.height, np.int64))
    kappa = None
    if pairs["machine"].n_unique() > 1:  # else it is 0 whoever grades
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
    return rows_frame(rows, LABEL_AGREEMENT)


def _agreement(
    pairs: pl.DataFrame, members: Memberships, *, n_buckets: int
) -> list[dict[str, Any]]:
    """Counts of relevant pairs, and the share on which both agree with its interval, per bucket."""
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
    figures = bucket_figures(table, profile, None, n_buckets, 0.95)
    p = None if is_empty else equal_means(table).p_trend
    columns = {
        "n_pairs": figures["n_queries"],
        "n_relevant": count(machine),
        "n_human_relevant": count(human),
        "agreement": figures["mean"],
        "agreement_low": figures["low"],
        "agreement_high": figures["high"],
    }
    return [
        dict(zip(columns, (value.item() for value in values), strict=True), p_position=p)
        for values in zip(*columns.values(), strict=True)
    ]


def cohen_kappa(left: BoolArray, right: BoolArray) -> float:
    """Return (observed - expected) / (1 - expected) agreement (J. Cohen, 1960).

    Arrays of shape (n,); one of them holds both values. scikit-learn has it, and takes a second to
    import.
    """
    n, n_left, n_right = len(left), int(left.sum()), int(right.sum())
    by_chance = n_left * n_right + (n - n_left) * (n - n_right)
    expected = by_chance / (n * n)
    return float(((left == right).mean() - expected) / (1 - expected))


# --- What would scores be? -------------------------------------------------------------------


def corrected_mean(
    machine: FloatArray,
    human: FloatArray,
    graded: BoolArray,
    documents: IntArray,
    units: IntArray | None = None,
) -> tuple[float, float, float] | None:
    """Mean score over the queries with a relevant document, had people graded all.

    With M a query's score under the benchmark's labels, Y under human grades, V whether it has a
    relevant document then (else Y counts 0), bars for means over all queries and _L over the n of N
    that are graded::

        value = (lambda (Mbar - Mbar_L) + (V Y)bar_L) / Vbar_L

    Where no query is out and lambda is 1 that is ``Mbar + (Y - M)bar_L``. lambda is the slope of
    ``V (Y - value)`` on M over the graded queries, in [0, 1] (PPI++, section 6; graded queries are
    among all here, so that it is the regression estimator of double sampling); 1, as in untuned
    inference, where M is the same in all of them and so has no slope. A query adds
    ``lambda (M - Mbar) / N + [graded] (V (Y - value) - lambda (M - Mbar)) / n``, over Vbar_L, to
    the error; its variance is the sum of squares by document (or unit), and a term for errors of
    labels that so few grades did not meet (`DocumentTable.small_bucket_variance`). The interval is
    the union of Student's t, of the documents that were graded, and Wilson's of as many queries as
    have this variance: near 0 and 1 Student's is short towards .5, Wilson's towards the end
    (`studies/inference`). It is widened to Clopper and Pearson's bound for n identical documents.

    Parameters
    ----------
    machine, human : float arrays of shape (n_queries,)
        Scores in [0, 1]; human is NaN where a query was not graded, or is out.
    graded : bool array of shape (n_queries,)
    documents : int array of shape (n_queries,)
        The document of each query.
    units : int array of shape (n_queries,), or None
        Its independent unit, if that is not the document (see `units_of`).

    Returns
    -------
    value, low, high of the 95 % interval; or None
        None with fewer than `FEWEST_BUCKET_GRADED` graded queries, or if all of them are out.
    """
    from scipy.stats import t as student

    n, kept = int(graded.sum()), graded & ~np.isnan(human)
    if n < FEWEST_BUCKET_GRADED or not kept.any():
        return None
    relevant = kept.astype(np.float64)  # V
    gain = np.where(kept, human, 0.0)  # V Y
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
    alike = 0.025 ** (1 / len(np.unique(documents)))  # each may miss, in clusters too
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
    """Correct each model's mean, and those of buckets: CORRECTED_SCORES rows.

    Parameters
    ----------
    models : of each model its QUERY_SCORES, all of the same queries in the same order, and the
        scores of graded queries under `human_qrels` (`query_id` and metrics; none of a query that
        is out).
    grades : columns of QRELS; a query counts as graded if the document that holds its evidence is.
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
        places = [(ALL, ALL, np.arange(scores.height))]
        for name in schemes:
            scheme, members = bucket_scheme(name), assign(scores, bucket_scheme(name))
            places += [
                (name, label, members.query_index[members.bucket_index == k])
                for k, label in enumerate(scheme.labels)
            ]
        for metric in metrics:
            machine = scores[metric].to_numpy()
            people = np.where(graded, theirs[metric].fill_null(np.nan).to_numpy(), np.nan)
            for scheme_name, bucket, index in places:
                in_place = people if scheme_name == ALL else np.where(holds, people, np.nan)
                every = (machine, in_place, graded, documents, units)
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
                        "n_out": int((graded & np.isnan(in_place))[index].sum()),
                        "mean": float(machine[index].mean()) if len(index) else None,
                        "corrected": value,
                        "corrected_low": low,
                        "corrected_high": high,
                    }
                )
    return rows_frame(rows, CORRECTED_SCORES)


def sampling_doubt(corrected: pl.DataFrame, *, scheme: str) -> str | None:
    """Say if graded queries are spread over the buckets of a scheme unlike all queries.

    ``corrected``: CORRECTED_SCORES. By the chi-square test of independence, at `UNLIKELY`.
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
        f"graded queries are spread over {scheme} unlike all queries (p = {p:.1g}); were they "
        "drawn at random? If only within buckets, the pooled corrected mean is biased"
    )
