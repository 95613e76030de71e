"""Encoders run by vLLM, against a program that takes its server's place."""

import gc
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from tiny_checkpoints import save_bert

from psibench.config.encoders import VllmModel
from psibench.errors import InputError
from psibench.models.load import load_encoder
from psibench.models.vllm_pooling import LOGS

pytestmark = pytest.mark.processes

FAKE = [sys.executable, str(Path(__file__).parents[1] / "llm" / "fake_vllm.py")]
DIM = 8


def vector_of(ids) -> np.ndarray:
    """Give the stand-in's vector of token ids, which is not of unit length."""
    return np.array([sum(id_ * (n + 1) ** k for n, id_ in enumerate(ids)) for k in range(DIM)])


@pytest.fixture
def entry(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_bert(tmp_path / "net")

    def make(*arguments, gpus=1, **fields) -> VllmModel:
        server = {"command": FAKE, "arguments": [str(a) for a in arguments], "gpus": gpus}
        values = {"backend": "vllm", "checkpoint": str(tmp_path / "net"), "max_tokens": 8}
        return VllmModel(**values | fields, vllm=server)

    return make


def load(entry, dtype="float32", device="cuda"):
    return load_encoder(entry, device=device, dtype=dtype)


def given_gib(encoder) -> float:
    """Return the cache that the server was given, and end it."""
    given = started_with()
    del encoder
    gc.collect()
    return int(given[given.index("--kv-cache-memory-bytes") + 1]) / 2**30


def started_with() -> list[str]:
    (log,) = LOGS.glob("*.log")
    return log.read_text().splitlines()[0].split()[1:]


def test_the_server_gets_the_entrys_settings_for_its_pooling_runner(entry, tmp_path):
    fields = {"revision": "a" * 40, "dtype": "bfloat16", "trust_remote_code": True}
    encoder = load(entry("--fake-version", "0.31.0", gpus=4, **fields))
    port = encoder.server.base_url.split(":")[-1].removesuffix("/v1")
    assert started_with() == [
        *(str(tmp_path / "net"), "--host", "127.0.0.1", "--port", port, "--runner", "pooling"),
        *("--dtype", "bfloat16", "--no-enable-prefix-caching", "--max-model-len", "8"),
        *("--trust-remote-code", "--tensor-parallel-size", "4", "--fake-version", "0.31.0"),
    ]
    assert encoder.vllm_version == "0.31.0"
    server = encoder.server
    del encoder
    gc.collect()
    assert server.exit_reason() is None  # not running, and not missed
    assert list(LOGS.glob("*")) == []


def test_token_ids_are_encoded_as_they_are_into_unit_vectors(entry):
    encoder = load(entry(query_prompt="w9 "))
    items = encoder.tokenize(["w1 w2 w3 w4 w5 w6 w7 w8", "w1"], "query")
    windows = [item.windows[0] for item in items]
    # [CLS] 2 and [SEP] 3, w0 is 4: the prompt and w1 .. w5 fit into eight tokens.
    assert [window.tolist() for window in windows] == [[2, 13, 5, 6, 7, 8, 9, 3], [2, 13, 5, 3]]
    assert [item.visible_char_end for item in items] == [14, 2]
    content = [item.content[0] for item in items]
    found = encoder.forward(windows, content)
    for vector, window in zip(found, windows, strict=True):
        assert vector.shape == (1, DIM)
        assert vector.dtype == np.float32
        exact = vector_of(window.tolist())
        np.testing.assert_allclose(vector[0], exact / np.linalg.norm(exact), rtol=1e-6)


@pytest.mark.parametrize("append", ["[SEP][SEP]", "[SEP]"])
def test_appended_tokens_come_last_within_the_length_and_not_twice(entry, append):
    encoder = load(entry(append=append))
    long, short = encoder.tokenize(["w1 w2 w3 w4 w5 w6 w7", "w1"], "document")
    if append == "[SEP]":  # which the tokenizer puts there itself
        assert long.windows[0].tolist() == [2, 5, 6, 7, 8, 9, 10, 3]
        assert short.windows[0].tolist() == [2, 5, 3]
        return
    assert long.windows[0].tolist() == [2, 5, 6, 7, 8, 3, 3, 3]  # four words of eight tokens
    assert short.windows[0].tolist() == [2, 5, 3, 3, 3]
    assert short.content[0].tolist() == [False, True, False, False, False]
    assert long.visible_char_end == len("w1 w2 w3 w4")


def test_the_fingerprint_tells_format_arguments_and_version_not_the_gpus(entry):
    first = load(entry()).fingerprint
    assert load(entry(gpus=2, query_prompt="q")).fingerprint == first
    found = [
        load(entry(), dtype="bfloat16").fingerprint,
        load(entry(append="[SEP]")).fingerprint,
        load(entry(max_tokens=9)).fingerprint,
        load(entry("--fake-version", "0.29.0")).fingerprint,
    ]
    assert len({first, *found}) == 5


@pytest.mark.parametrize(
    ("vector", "words"),
    [([], "length 0"), ([float("nan")] * DIM, "length nan"), ([0] * DIM, "length 0")],
)
def test_a_vector_that_is_none_is_refused(entry, vector, words):
    encoder = load(entry("--fake-vector", json.dumps(vector)))
    window = np.array([2, 5, 3], np.int32)
    with pytest.raises(InputError, match=f"no usable vector for a text .*{words}"):
        encoder.forward([window], [window > 3])


def test_a_server_that_refuses_or_dies_is_told_with_its_words(entry):
    encoder = load(entry())
    window = np.arange(2, 12, dtype=np.int32)
    with pytest.raises(InputError, match=r"status 400: .*10 tokens are more than 8"):
        encoder.forward([window], [window > 3])
    encoder = load(entry("--fake-die-after", 1))
    with pytest.raises(InputError, match=r"ended with status 1(?s:.*)EngineDeadError: CUDA error"):
        encoder.forward([window[:4]], [window[:4] > 3])
    del encoder
    gc.collect()
    (log,) = LOGS.glob("*.log")  # it is named, and stays
    assert "EngineDeadError" in log.read_text()


def test_a_server_without_gpus_is_asked_for_and_has_two_gib_of_cache(entry):
    with pytest.raises(InputError, match=r"needs an NVIDIA GPU, .* is cpu.*vllm: {gpus: 0}"):
        load(entry(), device="cpu")
    assert given_gib(load(entry(gpus=0), device="cpu")) == 2.0


def test_what_vllm_refuses_names_the_checkpoint(entry, tmp_path):
    with pytest.raises(InputError, match=r"net ended with status 3[^$]*no room"):
        load(entry("--fake-fail", "no room"))
    (log,) = LOGS.glob("*")
    assert "no room" in log.read_text()
