"""A document's vector as a weighted sum of its sentences'."""

import numpy as np
import polars as pl
import pytest
from scipy import stats

from psibench.probes.regression import decompose, measure_regression
from psibench.probes.run import ALL_PROBES


def weights(by_document: dict[str, list[float]]) -> pl.DataFrame:
    """Make the rows of unshuffled documents from the importances of their sentences."""
    columns = ("document_id", "n_sentences", "place", "importance")
    rows = [
        (name, len(values), place, value)
        for name, values in by_document.items()
        for place, value in enumerate(values, 1)
    ]
    fit = dict.fromkeys(("part_read", "read", "r2", "mae"), pl.lit(1.0))
    return pl.DataFrame(rows, columns, orient="row").with_columns(
        domain=pl.lit("one"), shuffled=False, left_out=pl.lit(None, pl.String), **fit
    )


def correlations(frame: pl.DataFrame) -> dict:
    """Return condition -> the summary's correlation over all documents."""
    rows = ALL_PROBES["regression"].summarise(frame, level=0.95)
    return {
        row["condition"]: row
        for row in rows
        if row["measure"] == "correlation" and row["read"] == "all"
    }


def documents(*texts: str) -> pl.DataFrame:
    ids = [f"d{k}" for k in range(len(texts))]
    return pl.DataFrame({"domain": "one", "document_id": ids, "text": list(texts)})


def test_coefficients_and_fit_equal_scikit_learn():
    from sklearn.linear_model import LinearRegression
    from sklearn.metrics import mean_absolute_error

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 5)), rng.normal(size=40)
    oracle = LinearRegression().fit(x, y)
    found = decompose(y, x.T)
    assert found.coefficients == pytest.approx(oracle.coef_)
    assert found.r2 == pytest.approx(oracle.score(x, y))
    assert found.mae == pytest.approx(mean_absolute_error(y, oracle.predict(x)))


def test_equal_sentences_share_their_weight():
    x = np.random.default_rng(2).normal(size=(1, 30))
    found = decompose(4 * x[0], np.vstack([x, x]))
    assert found.coefficients == pytest.approx([2, 2])


def test_position_blind_sentence_weights_ignore_order(load):
    text = "The river is cold. A stone was near the old bridge! Winter letters?\nCopper engines."
    found = measure_regression(documents(text, text + " Silver castles shine."), load(), seed=0)
    assert found["r2"].to_numpy() == pytest.approx(1, abs=1e-6)
    weights = found.sort("document_id", "sentence", "shuffled")
    as_it_is, shuffled = (weights.filter(shuffled=one) for one in (False, True))
    assert as_it_is["place"].to_list() != shuffled["place"].to_list()
    assert as_it_is["importance"].to_numpy() == pytest.approx(
        shuffled["importance"].to_numpy(), abs=1e-5
    )


def test_a_document_that_cannot_be_fitted_has_a_reason(load):
    long = " ".join(f"Number {k} here." for k in range(400))
    unread = "A river is cold.\n\n\u200b\n\nStone letters."
    found = measure_regression(
        documents("One sentence", long, "一句话。两句话。", unread), load(), seed=0
    )
    reasons = found.filter(~pl.col("shuffled")).unique("document_id").sort("document_id")
    assert reasons["left_out"].to_list() == [
        "fewer than two sentences",
        "as many sentences as the vector has dimensions",
        None,
        "a sentence without a token that the model reads",
    ]


def test_the_pooled_correlation_is_negative_without_a_position_effect():
    """Long documents have later positions and smaller importances, as in the paper."""
    frame = weights({f"d{n}": [1 / np.sqrt(n)] * n for n in (2, 5, 20)})
    found = correlations(frame)
    places = {
        row["place"]: row["n_documents"]
        for row in ALL_PROBES["regression"].summarise(frame, level=0.95)
        if row["measure"] == "importance"
    }
    assert places == {1: 3, 2: 3} | dict.fromkeys((3, 4, 5), 2) | dict.fromkeys(range(6, 11), 1)
    x, y = (frame[name].to_numpy() for name in ("place", "importance"))
    assert found["pooled, as it is"]["value"] == pytest.approx(np.corrcoef(x, y)[0, 1])
    assert found["pooled, as it is"]["value"] < -0.3
    within = found.get("within documents, as it is", {"value": 0.0})  # missing if all are equal
    assert within["value"] == pytest.approx(0)


def test_the_pooled_correlations_interval_uses_document_influences():
    rng = np.random.default_rng(3)
    sizes = [2, 3, 5, 8]
    frame = weights({f"d{n}": list(rng.normal(size=n)) for n in sizes})
    row = correlations(frame)["pooled, as it is"]
    x, y = (frame[name].to_numpy() for name in ("place", "importance"))
    document = np.repeat(np.arange(4), sizes)

    def correlation(weights):
        return np.cov(x, y, aweights=weights[document])[0, 1] / np.sqrt(
            np.prod(np.diag(np.cov(x, y, aweights=weights[document])))
        )

    # The derivative by each document's weight; Student's t of 3 degrees of freedom is 3.1824.
    step = 1e-6 * np.eye(4)
    parts = [(correlation(1 + one) - correlation(1 - one)) / 2e-6 for one in step]
    half = 3.1824463 * np.sqrt(4 / 3 * np.dot(parts, parts))
    assert row["value"] == pytest.approx(np.corrcoef(x, y)[0, 1])
    assert row["high"] - row["value"] == pytest.approx(half, rel=1e-4)


def test_the_within_correlation_is_tested_from_thirty_documents():
    rng = np.random.default_rng(3)
    frame = weights({f"d{n}": list(rng.normal(size=4)) for n in range(30)})

    def within(some):
        return correlations(some)["within documents, as it is"]

    rs = [np.corrcoef(own["place"], own["importance"])[0, 1] for own in frame.iter_slices(4)]
    assert within(frame)["p"] == pytest.approx(stats.ttest_1samp(rs, 0).pvalue)
    assert within(frame.filter(pl.col("document_id") != "d0"))["p"] is None
