"""Human grades against a benchmark's labels: figures worked out by hand."""

import numpy as np
import polars as pl
import pytest

from psibench.metrics.labels import (
    cohen_kappa,
    corrected_mean,
    corrected_scores,
    human_qrels,
    label_agreement,
)

ALONE = np.arange(20)
"""Each query has another document."""
FIRST = ALONE < 10


def test_graded_pairs_replace_labels_and_other_queries_are_left_out():
    columns = ("query-id", "corpus-id", "score")
    qrels = pl.DataFrame(
        [("q1", "d1", 1), ("q1", "d2", 2), ("q2", "d1", 1)], schema=columns, orient="row"
    )
    grades = pl.DataFrame([("q1", "d1", 0), ("q1", "d9", 1)], schema=columns, orient="row")
    found = human_qrels(qrels, grades)
    assert sorted(found.rows()) == [("q1", "d1", 0), ("q1", "d2", 2), ("q1", "d9", 1)]


def test_labels_that_people_confirm_leave_the_mean_as_it_is():
    # 12 of 20 hit; only three of the ten graded queries do: no information on labels.
    machine = np.isin(ALONE, [0, 1, 2, *range(11, 20)]).astype(float)
    found = corrected_mean(machine, np.where(FIRST, machine, np.nan), FIRST, ALONE)
    # Squared errors .24 / 20 * 10 / 8 = .015, for errors not met 2 / 12 * .24 / 10 = .004;
    # t of 9 is 2.262: .6 -+ 2.262 * sqrt(.019). Wilson's, .307 to .836, lies in it.
    assert found == pytest.approx((0.6, 0.288, 0.912), abs=5e-4)


def test_unpredictive_labels_leave_the_mean_of_graded_queries():
    machine = np.isin(ALONE, [*range(5), *range(12, 20)]).astype(float)
    human = np.where(FIRST, 0.4 + 0.2 * (ALONE % 5 == 0), np.nan)  # .44, found or not
    assert corrected_mean(machine, human, FIRST, ALONE)[0] == pytest.approx(0.44)


def test_what_people_reject_is_out():
    # 12 of 20 find, and 6 of the 10 graded; two of the 6 are no answers: (.6 - .2) / .8.
    machine = np.isin(ALONE, [*range(6), *range(14, 20)]).astype(float)
    human = np.where(FIRST & (ALONE > 1), machine, np.nan)
    value, low, high = corrected_mean(machine, human, FIRST, ALONE)
    assert value == pytest.approx(0.5)
    assert low < 0.5 < high


@pytest.mark.parametrize(
    ("graded", "human"),
    [
        pytest.param(ALONE < 9, np.where(ALONE < 9, 1.0, np.nan), id="nine graded"),
        pytest.param(FIRST, np.full(20, np.nan), id="all without a relevant document"),
    ],
)
def test_too_little_gives_no_corrected_mean(graded, human):
    assert corrected_mean(np.ones(20), human, graded, ALONE) is None


def test_no_interval_is_empty_where_all_is_found():
    found = corrected_mean(np.ones(20), np.where(FIRST, 1.0, np.nan), FIRST, ALONE)
    # All of 20 documents are found with a chance of .025.
    assert found == pytest.approx((1, 0.025 ** (1 / 20), 1))


IDS = [f"q{i:02d}" for i in range(60)]
IN_ARTICLES = pl.DataFrame({"query_id": IDS, "domain": "all", "document_id": IDS}).with_columns(
    pl.Series("target_position", [("beginning", "end")[i % 2] for i in range(60)]),
    pl.Series("cluster", [f"article {i // 5}" for i in range(60)]),
    pl.Series("ndcg@10", [float(i // 5 % 2) for i in range(60)]),
)
"""60 queries on 60 documents in 12 articles; every other article is found."""
ALL_RIGHT = pl.DataFrame({"query-id": IDS, "corpus-id": IDS, "score": 1})


def test_agreement_takes_clusters_for_units():
    # In the first two articles every label is wrong.
    grades = ALL_RIGHT.with_columns(score=pl.Series([0] * 10 + [1] * 50))
    alone, by_article = (
        label_agreement(grades, ALL_RIGHT, scores, schemes=["thirds"]).row(0, named=True)
        for scores in (IN_ARTICLES.drop("cluster"), IN_ARTICLES)
    )
    assert alone["agreement"] == by_article["agreement"] == pytest.approx(5 / 6)
    assert alone["agreement_low"] > 0.7
    assert by_article["agreement_low"] < 0.6
    all_wrong = ALL_RIGHT.with_columns(score=0)
    none = label_agreement(grades, all_wrong, IN_ARTICLES, schemes=["thirds"])
    assert none["kappa"].to_list() == [None] * 4


def test_corrected_means_take_clusters_for_units():
    human = IN_ARTICLES.select("query_id", "ndcg@10")
    alone, by_article = (
        corrected_scores({"m": (scores, human)}, ALL_RIGHT, metrics=["ndcg@10"], schemes=[]).row(
            0, named=True
        )
        for scores in (IN_ARTICLES.drop("cluster"), IN_ARTICLES)
    )
    assert alone["corrected"] == by_article["corrected"] == pytest.approx(0.5)
    assert by_article["corrected_low"] < alone["corrected_low"] - 0.05


def test_kappa():
    # Both answer yes to 4 of 10, no to 3: observed .7, by chance .6 * .5 + .4 * .5 = .5.
    left = np.array([1, 1, 1, 1, 1, 1, 0, 0, 0, 0], bool)
    right = np.array([1, 1, 1, 1, 0, 0, 1, 0, 0, 0], bool)
    assert cohen_kappa(left, right) == pytest.approx(0.4)
