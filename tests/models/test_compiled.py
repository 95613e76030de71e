"""Encoders that OpenVINO runs: the vectors of torch, the faster engine, and what is remembered."""

import gc
import json
import logging
import os
import signal
import sys

import numpy as np
import pytest
import transformers
from encoder_references import vectors_of

from psibench.config.models import SentenceTransformerModel
from psibench.errors import InputError
from psibench.models import compiled
from psibench.models.load import load_encoder
from psibench.stopping import Stopped, watched_stop

TEXTS = ["w1", "w2 w3 w4 w5 w6 w7 w8", "", " ".join(f"w{i}" for i in range(29))]


@pytest.fixture
def engines(tmp_path, monkeypatch):
    """Folder of remembered choices; every network is large enough to be compiled."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(compiled, "LEAST_WEIGHTS", 0)
    return tmp_path / "psibench" / "engines"


def load(folder, monkeypatch, engine: str, dtype: str = "float32", **fields):
    monkeypatch.setenv("PSIBENCH_ENGINE", engine)
    entry = SentenceTransformerModel(
        backend="sentence-transformers", checkpoint=str(folder), max_tokens=32, **fields
    )
    return load_encoder(entry, device="cpu", dtype=dtype)


def takes(monkeypatch, **seconds: float) -> list[None]:
    """Let a comparison find these seconds; returns one item per comparison that was made."""
    compare, made = compiled._compare, []

    def measured(*arguments):
        made.append(None)
        return seconds, compare(*arguments)[1]

    monkeypatch.setattr(compiled, "_compare", measured)
    return made


@pytest.mark.parametrize("checkpoint", ["tiny_bert", "tiny_roberta", "tiny_gpt2"])
@pytest.mark.parametrize("pooling", ["mean", "cls", "lasttoken"])
def test_vectors_are_those_of_torch(checkpoint, pooling, engines, request, monkeypatch):
    folder = request.getfixturevalue(checkpoint)
    ours = load(folder, monkeypatch, "openvino", pooling=pooling)
    torchs = load(folder, monkeypatch, "torch", pooling=pooling)
    assert ours.compiled is not None
    assert torchs.compiled is None
    assert ours.fingerprint == torchs.fingerprint
    for found, wanted in zip(vectors_of(ours, TEXTS), vectors_of(torchs, TEXTS), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-6)
    alone = [vectors_of(ours, [text])[0] for text in TEXTS]
    np.testing.assert_allclose(np.stack(alone), np.stack(vectors_of(ours, TEXTS)), atol=1e-6)


def test_gradients_come_from_torch(tiny_bert, engines, monkeypatch):
    found = []
    for engine in ("openvino", "torch"):
        encoder = load(tiny_bert, monkeypatch, engine)
        (item,) = encoder.tokenize(TEXTS[1:2], "document")
        directions = np.ones((1, encoder.forward(item.windows, item.content)[0].shape[1]))
        found.append(encoder.embedding_gradients(item.windows, item.content, directions)[0])
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(
    ("seconds", "engine"),
    [
        ({"torch": 2.0, "openvino": 1.0}, "openvino"),
        ({"torch": 1.0, "openvino": 2.0}, "torch"),
    ],
)
def test_the_faster_engine_is_measured_once_and_named(
    seconds, engine, tiny_bert, engines, monkeypatch, caplog
):
    caplog.set_level(logging.INFO, logger="psibench")
    made = takes(monkeypatch, **seconds)
    for _ in range(2):
        caplog.clear()
        encoder = load(tiny_bert, monkeypatch, "auto")
        assert (encoder.compiled is not None) == (engine == "openvino")
        assert f"engine {engine}: openvino takes " in caplog.text
    assert len(made) == 1
    (kept,) = engines.iterdir()
    assert (kept / "model.xml").exists() == (engine == "openvino")
    np.testing.assert_allclose(
        np.stack(vectors_of(encoder, TEXTS)),
        np.stack(vectors_of(load(tiny_bert, monkeypatch, "torch"), TEXTS)),
        atol=1e-6,
    )


@pytest.mark.parametrize("spoiled", [0.01, float("nan")])
def test_an_engine_whose_vectors_differ_is_not_taken(
    spoiled, tiny_bert, engines, monkeypatch, caplog
):
    caplog.set_level(logging.INFO, logger="psibench")
    run = compiled.Compiled.__call__

    def spoil_one(*asked):
        states = run(*asked)
        states[1, :, 0] += spoiled
        return states

    monkeypatch.setattr(compiled.Compiled, "__call__", spoil_one)
    assert load(tiny_bert, monkeypatch, "auto").compiled is None
    assert "engine torch: openvino's numbers differ" in caplog.text


def test_what_was_kept_and_cannot_be_read_is_made_anew(tiny_bert, engines, monkeypatch):
    made = takes(monkeypatch, torch=2.0, openvino=1.0)
    load(tiny_bert, monkeypatch, "auto")
    (kept,) = engines.iterdir()
    (kept / "model.xml").write_text("<half", encoding="utf-8")
    assert load(tiny_bert, monkeypatch, "auto").compiled is not None
    (kept / "choice.json").write_text("[]", encoding="utf-8")
    assert load(tiny_bert, monkeypatch, "auto").compiled is not None
    assert len(made) == 3
    assert json.loads((kept / "choice.json").read_text())["engine"] == "openvino"
    load(tiny_bert, monkeypatch, "auto")
    assert len(made) == 3


def test_small_networks_and_other_attention_stay_with_torch(tiny_bert, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert load(tiny_bert, monkeypatch, "auto").compiled is None
    assert list(tmp_path.iterdir()) == []
    encoder = load(tiny_bert, monkeypatch, "openvino", attention="eager")
    assert encoder.compiled is None


def test_without_openvino_torch_encodes(tiny_bert, engines, monkeypatch, caplog):
    caplog.set_level(logging.INFO, logger="psibench")
    monkeypatch.setitem(sys.modules, "openvino", None)
    assert load(tiny_bert, monkeypatch, "auto").compiled is None
    assert "openvino, often faster on a CPU, is not installed" in caplog.text
    with pytest.raises(InputError, match="openvino, which is not installed"):
        load(tiny_bert, monkeypatch, "openvino")


def test_an_engine_that_is_none_is_refused(tiny_bert, engines, monkeypatch):
    with pytest.raises(InputError, match="PSIBENCH_ENGINE is 'onnx'; allowed: auto, torch, open"):
        load(tiny_bert, monkeypatch, "onnx")


def test_a_signal_is_handled_when_a_compiled_encoder_is_gone(tiny_bert, engines, monkeypatch):
    takes(monkeypatch, torch=2.0, openvino=1.0)
    encoder = None
    for _ in range(2):  # the second one comes from what is remembered, beside the first
        encoder = load(tiny_bert, monkeypatch, "auto")
        vectors_of(encoder, TEXTS)
    del encoder
    gc.collect()
    with watched_stop() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(Stopped, match="SIGTERM received"):
            stop.check()


def test_a_format_that_the_cpu_has_not_is_torchs(tiny_bert, engines, monkeypatch):
    assert load(tiny_bert, monkeypatch, "auto", dtype="float16").compiled is None
    with pytest.raises(InputError, match="openvino, which has no float16"):
        load(tiny_bert, monkeypatch, "openvino", dtype="float16")


def test_of_two_jobs_that_choose_at_once_the_first_is_remembered(tiny_bert, engines, monkeypatch):
    compare = compiled._compare

    def while_another_chooses(*asked):
        monkeypatch.setattr(compiled, "_compare", compare)
        takes(monkeypatch, torch=2.0, openvino=1.0)
        assert load(tiny_bert, monkeypatch, "auto").compiled is not None
        return {"torch": 1.0, "openvino": 2.0}, compare(*asked)[1]

    monkeypatch.setattr(compiled, "_compare", while_another_chooses)
    assert load(tiny_bert, monkeypatch, "auto").compiled is None
    (kept,) = engines.iterdir()  # nothing half-written beside it
    assert json.loads((kept / "choice.json").read_text())["engine"] == "openvino"


def test_a_cache_that_cannot_be_written_has_each_job_choose(tiny_bert, engines, monkeypatch):
    engines.parent.parent.joinpath("psibench").write_text("a file where the folder would be")
    made = takes(monkeypatch, torch=2.0, openvino=1.0)
    for _ in range(2):
        assert load(tiny_bert, monkeypatch, "auto").compiled is not None
    assert len(made) == 2


@pytest.mark.parametrize(
    ("network", "is_in_parts"),
    [
        ("BertConfig", False),
        ("Qwen3Config", False),
        ("ModernBertConfig", True),
        ("Gemma3Config", True),  # said of its text part
        ("LongformerConfig", True),
        ("BigBirdConfig", True),
    ],
)
def test_networks_that_see_parts_of_a_text_are_known_by_their_config(network, is_in_parts):
    assert compiled._attends_in_parts(getattr(transformers, network)()) == is_in_parts
