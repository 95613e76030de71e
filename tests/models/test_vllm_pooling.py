"""Encoders run by vLLM, against a module that takes its place."""

import os
import sys
import tomllib
import types

import numpy as np
import pytest
from packaging.requirements import Requirement
from tiny_checkpoints import save_bert

from psibench.config.encoders import VllmModel
from psibench.config.paths import CONFIG_FOLDER
from psibench.errors import InputError
from psibench.models.load import load_encoder
from psibench.models.vllm_pooling import ENVIRONMENT

DIM = 8


class FakeLLM:
    """Notes the arguments that vLLM's LLM is given, and gives vectors of the token ids."""

    spoil = None

    def __init__(self, model, **options):
        if options["max_model_len"] > 64:
            raise ValueError("max_model_len is greater than the derived max_model_len 64")
        self.options = options | {"model": model}
        self.environment = {name: os.environ.get(name) for name in ENVIRONMENT}
        self.asked = []

    def embed(self, prompts, *, use_tqdm):
        assert not use_tqdm
        self.asked.append(prompts)
        vectors = [vector_of(prompt["prompt_token_ids"]).tolist() for prompt in prompts]
        if self.spoil is not None:
            vectors[-1] = self.spoil
        given = (types.SimpleNamespace(embedding=vector) for vector in vectors)
        return [types.SimpleNamespace(outputs=outputs) for outputs in given]


def vector_of(ids) -> np.ndarray:
    """Give a vector of the token ids, not of unit length."""
    return np.array([sum(id_ * (n + 1) ** k for n, id_ in enumerate(ids)) for k in range(DIM)])


@pytest.fixture
def vllm(monkeypatch):
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    module = types.ModuleType("vllm")
    module.LLM, module.__version__ = FakeLLM, "0.30.0"
    monkeypatch.setitem(sys.modules, "vllm", module)
    return module


@pytest.fixture
def entry(tmp_path):
    save_bert(tmp_path)

    def make(**fields) -> VllmModel:
        values = {"backend": "vllm", "checkpoint": str(tmp_path), "max_tokens": 8}
        return VllmModel(**values | fields)

    return make


def load(entry, dtype="float32"):
    return load_encoder(entry, device="cuda", dtype=dtype)


def test_vllm_gets_the_entrys_settings_for_its_pooling_runner(vllm, entry, tmp_path):
    fields = {
        "revision": "a" * 40,
        "gpus": 4,
        "gpu_memory_utilization": 0.5,
        "dtype": "bfloat16",
        "trust_remote_code": True,
    }
    encoder = load(entry(**fields))
    assert encoder.llm.options == {
        "model": str(tmp_path),
        "runner": "pooling",
        "trust_remote_code": True,
        "max_model_len": 8,
        "tensor_parallel_size": 4,
        "gpu_memory_utilization": 0.5,
        "dtype": "bfloat16",
        "enable_prefix_caching": False,
    }
    assert encoder.llm.environment == ENVIRONMENT
    assert load(entry(), dtype="float16").llm.options["dtype"] == "float16"
    assert load(entry(dtype="auto"), dtype="float32").llm.options["dtype"] == "auto"


def test_what_is_set_in_the_environment_stays(vllm, entry, monkeypatch):
    monkeypatch.setenv("VLLM_NO_USAGE_STATS", "0")
    assert load(entry()).llm.environment["VLLM_NO_USAGE_STATS"] == "0"


def test_token_ids_are_encoded_as_they_are_into_unit_vectors(vllm, entry):
    encoder = load(entry(query_prompt="w9 "))
    items = encoder.tokenize(["w1 w2 w3 w4 w5 w6 w7 w8", "w1"], "query")
    windows = [item.windows[0] for item in items]
    # [CLS] 2 and [SEP] 3, w0 is 4: the prompt and w1 .. w5 fit into eight tokens.
    assert [window.tolist() for window in windows] == [[2, 13, 5, 6, 7, 8, 9, 3], [2, 13, 5, 3]]
    assert [item.visible_char_end for item in items] == [14, 2]
    content = [item.content[0] for item in items]
    found = encoder.forward(windows, content)
    assert encoder.llm.asked == [[{"prompt_token_ids": window.tolist()} for window in windows]]
    for vector, window in zip(found, windows, strict=True):
        assert vector.shape == (1, DIM)
        assert vector.dtype == np.float32
        exact = vector_of(window.tolist())
        np.testing.assert_allclose(vector[0], exact / np.linalg.norm(exact), rtol=1e-6)


def test_appended_tokens_come_last_and_within_the_length(vllm, entry):
    encoder = load(entry(append="[SEP][SEP]"))
    long, short = encoder.tokenize(["w1 w2 w3 w4 w5 w6", "w1"], "document")
    assert long.windows[0].tolist() == [2, 5, 6, 7, 8, 3, 3, 3]  # four words of eight tokens
    assert short.windows[0].tolist() == [2, 5, 3, 3, 3]
    assert short.content[0].tolist() == [False, True, False, False, False]
    assert long.visible_char_end == len("w1 w2 w3 w4")


def test_tokens_that_the_tokenizer_appends_itself_are_not_appended_again(vllm, entry):
    encoder = load(entry(append="[SEP]"))
    long, short = encoder.tokenize(["w1 w2 w3 w4 w5 w6 w7", "w1"], "document")
    assert long.windows[0].tolist() == [2, 5, 6, 7, 8, 9, 10, 3]
    assert short.windows[0].tolist() == [2, 5, 3]


def test_the_fingerprint_tells_format_and_vllms_version_not_the_gpus(vllm, entry):
    first = load(entry()).fingerprint
    assert load(entry(gpus=2, gpu_memory_utilization=0.3, query_prompt="q")).fingerprint == first
    found = [
        load(entry(), dtype="bfloat16").fingerprint,
        load(entry(append="[SEP]")).fingerprint,
        load(entry(max_tokens=9)).fingerprint,
    ]
    vllm.__version__ = "0.29.0"
    assert len({first, *found, load(entry()).fingerprint}) == 5


@pytest.mark.parametrize(
    ("vector", "words"), [([], "length 0"), ([float("nan")] * DIM, "nan"), ([0] * DIM, "length 0")]
)
def test_a_vector_that_is_none_is_refused(vllm, entry, vector, words):
    encoder = load(entry())
    encoder.llm.spoil = vector
    window = np.array([2, 5, 3], np.int32)
    with pytest.raises(InputError, match=f"no usable vector for a text .*{words}"):
        encoder.forward([window], [window > 3])


def test_without_vllm_or_a_gpu_it_is_said_what_to_do(entry, monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(InputError, match=r"pip install 'psibench\[vllm\]'.*docs/vllm.md"):
        load(entry())
    with pytest.raises(InputError, match="needs an NVIDIA GPU, and this job's device is cpu"):
        load_encoder(entry(), device="cpu")


def test_what_vllm_refuses_names_the_checkpoint(vllm, entry, tmp_path):
    with pytest.raises(InputError, match=rf"checkpoint '{tmp_path}'.*derived max_model_len 64"):
        load(entry(max_tokens=65))


def test_the_extra_asks_for_releases_that_go_with_our_torch_and_transformers():
    project = tomllib.loads((CONFIG_FOLDER.parent / "pyproject.toml").read_text())["project"]
    _, found = project["optional-dependencies"]["vllm"]
    # 0.1.2 is what pip takes if there is no bound; 0.31 asks for transformers < 5.18.
    allowed = [
        v for v in ("0.1.2", "0.27.0", "0.30.0", "0.31.0") if v in Requirement(found).specifier
    ]
    assert allowed == ["0.27.0", "0.30.0"]
