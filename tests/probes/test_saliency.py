"""Saliency of documents: normalised curves, special tokens, truncation."""

from functools import partial

import numpy as np
import polars as pl
import pytest
import torch

from psibench.errors import InputError
from psibench.models.transformer import TransformerEncoder
from psibench.probes.run import ALL_PROBES
from psibench.probes.saliency import measure_saliency, normalised
from psibench.probes.tables import Texts

TEXT = " ".join(f"The river number {k} is cold." for k in range(12))


def texts(*documents: str) -> Texts:
    ids = [f"d{k}" for k in range(len(documents))]
    frame = pl.DataFrame({"domain": "one", "document_id": ids, "text": list(documents)})
    asked = pl.DataFrame(
        {
            "domain": "one",
            "query_id": [f"q{k}" for k in range(len(ids))],
            "document_id": ids,
            "text": "cold river",
            "span": [[len(one) // 2, len(one) // 2 + 4] for one in documents],
        }
    )
    return Texts(frame, asked)


@pytest.fixture
def network(load):
    return partial(load, "network", max_tokens=256)


def test_norms_are_scaled_by_their_99th_percentile_to_100_points():
    norms = np.arange(1.0, 202.0)  # 1 .. 201, 99th percentile 199
    found = normalised(norms)
    assert len(found) == 100
    assert found[0] == pytest.approx(1 / 199)
    assert found[-1] == 1
    assert found[50] == pytest.approx((1 + 200 * 50 / 99) / 199)
    assert normalised(np.array([0.0] * 300 + [2.0])).max() == 1  # percentile 0: the maximum


def test_a_model_without_gradients_is_refused(load):
    with pytest.raises(InputError, match="cannot be probed"):
        load("minilm-static").token_norms(["A river."], np.zeros((1, 384)))


def test_saliency_omits_special_tokens_and_reports_the_share_read(network):
    found = measure_saliency(texts(TEXT), network(max_tokens=32))
    assert set(found["n_tokens"]) == {30}  # 32 minus [CLS] and [SEP]
    assert 0.2 < found["read"][0] < 0.6
    assert found["point"].to_list() == list(range(1, 101))
    assert found["relative_position"][0] == pytest.approx(0.5, abs=0.02)


def test_two_tokens_are_enough_for_a_curve(network):
    found = measure_saliency(texts("cold river", "river"), network())
    reasons = found.unique(["document_id", "left_out"]).sort("document_id")
    assert reasons.select("n_tokens", "left_out").rows() == [
        (2, None),
        (1, "fewer than two tokens"),
    ]


def test_too_little_memory_halves_the_batches_for_the_rest(network, monkeypatch, caplog):
    given, encoder = texts(*(TEXT[start:] for start in range(0, 80, 10))), network()
    whole = measure_saliency(given, encoder)
    gradients, rows = TransformerEncoder.embedding_gradients, []

    def with_room_for_three(self, windows, *rest):
        if len(windows) > 3:
            raise torch.OutOfMemoryError("no room")
        rows.append(len(windows))
        return gradients(self, windows, *rest)

    monkeypatch.setattr(TransformerEncoder, "embedding_gradients", with_room_for_three)
    found = measure_saliency(given, encoder)
    assert rows[0] == 2  # of 8, 4, 2
    assert sum(rows) == 8
    assert caplog.text.count("gradients of network-8192: not enough memory for") == 2
    assert found["saliency"].to_list() == pytest.approx(whole["saliency"].to_list(), abs=1e-4)


def test_curves_average_pairs_and_intervals_use_documents(network):
    given = texts(TEXT, TEXT[40:], "x")
    again = given.queries.head(1).with_columns(query_id=pl.lit("q9"), text=pl.lit("old stone"))
    given = Texts(given.documents, pl.concat([given.queries, again]))
    found = measure_saliency(given, network())
    assert found["left_out"].drop_nulls().to_list() == ["fewer than two tokens"]
    curves = found.drop_nulls("point").sort("document_id", "query_id", "point")
    matrix = curves["saliency"].to_numpy().reshape(3, 100)
    rows = [
        row for row in ALL_PROBES["saliency"].summarise(found, level=0.95) if row["read"] == "all"
    ]
    assert {(row["n_documents"], row["n_left_out"]) for row in rows} == {(2, 1)}
    values = {
        (n, measure): [
            row["value"] for row in rows if (row["n_places"], row["measure"]) == (n, measure)
        ]
        for n in (10, 100)
        for measure in ("saliency", "saliency sd")
    }
    assert values[100, "saliency"] == pytest.approx(matrix.mean(axis=0).tolist())
    assert values[100, "saliency sd"] == pytest.approx(matrix.std(axis=0).tolist())
    tenths = matrix.mean(axis=0).reshape(10, 10).mean(axis=1)
    assert values[10, "saliency"] == pytest.approx(tenths.tolist())
