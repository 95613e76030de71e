"""Encoders that OpenVINO runs: the vectors of torch, and networks kept for the jobs that follow."""

import gc
import logging
import os
import signal
import sys
from types import SimpleNamespace

import numpy as np
import openvino.frontend
import pytest
import torch
import transformers
from encoder_references import vectors_of
from tiny_checkpoints import entry_of

from psibench.errors import InputError
from psibench.models import compiled
from psibench.models.load import load_encoder
from psibench.stopping import Stopped, watched_stop

TEXTS = ["w1", "w2 w3 w4 w5 w6 w7 w8", "", " ".join(f"w{i}" for i in range(29))]


@pytest.fixture
def engines(tmp_path, monkeypatch):
    """Folder of kept networks; every network is large enough to be compiled."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(compiled, "LEAST_WEIGHTS", 0)
    return tmp_path / "psibench" / "engines"


def load(folder, monkeypatch, engine: str = "auto", dtype: str = "float32", **fields):
    monkeypatch.setenv("PSIBENCH_ENGINE", engine)
    return load_encoder(entry_of(folder, **fields), device="cpu", dtype=dtype)


@pytest.mark.parametrize("checkpoint", ["tiny_bert", "tiny_roberta", "tiny_gpt2"])
def test_compiled_vectors_equal_torchs(checkpoint, engines, request, monkeypatch):
    folder = request.getfixturevalue(checkpoint)
    ours, torchs = load(folder, monkeypatch), load(folder, monkeypatch, "torch")
    assert ours.compiled is not None
    assert torchs.compiled is None
    assert ours.fingerprint == torchs.fingerprint
    for found, wanted in zip(vectors_of(ours, TEXTS), vectors_of(torchs, TEXTS), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-6)
    alone = vectors_of(ours, TEXTS, together=False)
    np.testing.assert_allclose(np.stack(alone), np.stack(vectors_of(ours, TEXTS)), atol=1e-6)


def test_gradients_come_from_torch(tiny_bert, engines, monkeypatch):
    found = []
    for engine in ("auto", "torch"):
        encoder = load(tiny_bert, monkeypatch, engine)
        (item,) = encoder.tokenize(TEXTS[1:2], "document")
        directions = np.ones((1, encoder.forward(item.windows, item.content)[0].shape[1]))
        found.append(encoder.embedding_gradients(item.windows, item.content, directions)[0])
    np.testing.assert_array_equal(*found)


@pytest.fixture
def converting(monkeypatch):
    """Count conversions by OpenVINO; they raise ``error`` if it is set."""
    manager, seen = openvino.frontend.FrontEndManager, SimpleNamespace(n=0, error=None)

    def counted():
        seen.n += 1
        if seen.error:
            raise seen.error
        return manager()

    monkeypatch.setattr(openvino.frontend, "FrontEndManager", counted)
    return seen


def test_damaged_cache_of_a_network_is_rebuilt(tiny_bert, engines, monkeypatch, converting):
    def conversions():
        """Load twice: the second load finds the file of the first."""
        before = converting.n
        for _ in range(2):
            assert load(tiny_bert, monkeypatch).compiled is not None
        return converting.n - before

    assert conversions() == 1
    (kept,) = engines.iterdir()  # nothing half-written next to it
    (kept / "model.xml").write_text("<half", encoding="utf-8")
    assert conversions() == 1
    (kept / "model.xml").unlink()  # a removal that was killed
    assert conversions() == 1


def test_a_network_that_openvino_cannot_run_is_tried_once(
    tiny_bert, engines, monkeypatch, caplog, converting
):
    caplog.set_level(logging.INFO, logger="psibench")
    converting.error = RuntimeError("no conversion rule\nfor: aten::mine")
    for _ in range(2):
        assert load(tiny_bert, monkeypatch).compiled is None
    assert converting.n == 1
    (kept,) = engines.iterdir()
    first, again = [line for line in caplog.messages if line.startswith("engine torch: ")]
    assert first == "engine torch: openvino cannot run it: no conversion rule"
    assert again == f"{first} ({kept / 'torch.txt'})"


def test_unwritable_cache_is_ignored(tiny_bert, engines, monkeypatch):
    engines.parent.parent.joinpath("psibench").write_text("a file where the folder would be")
    assert load(tiny_bert, monkeypatch).compiled is not None


def test_lack_of_memory_is_not_recorded_for_later_jobs(tiny_bert, engines, monkeypatch, converting):
    converting.error = MemoryError("no")
    assert load(tiny_bert, monkeypatch).compiled is None
    converting.error = None
    assert load(tiny_bert, monkeypatch).compiled is not None
    assert [path.name for path in next(engines.iterdir()).glob("*.xml")] == ["model.xml"]


@pytest.mark.parametrize("spoiled", [0.01, float("nan")])
def test_engine_with_different_vectors_is_not_used(
    spoiled, tiny_bert, engines, monkeypatch, caplog
):
    caplog.set_level(logging.INFO, logger="psibench")
    run = compiled.Compiled.__call__

    def spoil_one(*asked):
        states = run(*asked)
        states[1, :, 0] += spoiled
        return states

    monkeypatch.setattr(compiled.Compiled, "__call__", spoil_one)
    assert load(tiny_bert, monkeypatch).compiled is None
    assert "engine torch: openvino's numbers differ" in caplog.text


def test_torch_runs_small_networks_and_formats_the_cpu_lacks(tiny_bert, engines, monkeypatch):
    assert load(tiny_bert, monkeypatch, dtype="float16").compiled is None
    network = load(tiny_bert, monkeypatch, "torch").model.transformer
    used = [weight.numel() for name, weight in network.named_parameters() if "word_" not in name]
    for least, is_compiled in ((sum(used) - 1, True), (sum(used), False)):
        monkeypatch.setattr(compiled, "LEAST_WEIGHTS", least)
        assert (load(tiny_bert, monkeypatch).compiled is not None) == is_compiled


def test_without_openvino_torch_encodes(tiny_bert, engines, monkeypatch, caplog):
    caplog.set_level(logging.INFO, logger="psibench")
    monkeypatch.setitem(sys.modules, "openvino", None)
    assert load(tiny_bert, monkeypatch).compiled is None
    assert "openvino, faster on a CPU, is not installed" in caplog.text


def test_unknown_engine_is_refused(tiny_bert, engines, monkeypatch):
    with pytest.raises(InputError, match="PSIBENCH_ENGINE is 'onnx'; allowed: auto, torch"):
        load(tiny_bert, monkeypatch, "onnx")


def test_signals_are_handled_after_a_compiled_encoder_was_deleted(tiny_bert, engines, monkeypatch):
    encoder = None
    for _ in range(2):  # the second one comes from the cache
        encoder = load(tiny_bert, monkeypatch)
        vectors_of(encoder, TEXTS)
    del encoder
    gc.collect()
    with watched_stop() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(Stopped, match="SIGTERM received"):
            stop.check()


@pytest.mark.parametrize(
    ("network", "is_tried"),
    [
        ("BertConfig", True),
        ("Gemma3Config", False),  # in the config of its text model
        ("LongformerConfig", False),
        ("BigBirdConfig", False),
    ],
)
def test_windowed_attention_is_never_compiled(network, is_tried, engines, monkeypatch, caplog):
    caplog.set_level(logging.INFO, logger="psibench")
    monkeypatch.setenv("PSIBENCH_ENGINE", "auto")

    class Configured(torch.nn.Linear):  # cannot be traced: a try is logged
        config = getattr(transformers, network)()

        def get_input_embeddings(self):
            return torch.nn.Embedding(1, 1)

    asked = {"dtype": "float32", "identity": network, "passes": None}
    assert compiled.compile_network(Configured(2, 2), **asked) is None
    assert ("openvino cannot run it" in caplog.text) == is_tried
