"""Checkpoints of sentence-transformers' common kind, read without it, equal the library's."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import encoder_references as references
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules
from tiny_checkpoints import save_modules

from psibench.errors import InputError
from psibench.models.declared import Layout, read_layout
from psibench.models.manifests import Manifest
from psibench.models.networks import ModuleNetwork, NativeNetwork

TEXTS = ["w1 w2 w3", "", "w40", " ".join(f"w{i}" for i in range(28))]
LENGTHS = {name: {"max_tokens": 32} for name in ("sentence-transformers", "colbert")}
MODES = ["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]


def dense(n_in: int, n_out: int, activation, *, bias: bool = True):
    torch.manual_seed(7)
    return modules.Dense(n_in, n_out, bias=bias, activation_function=activation)


def save(folder: Path, base: Path, *rest) -> Path:
    """Save a model of the library: the transformer of a checkpoint and modules behind it."""
    transformer = modules.Transformer(str(base))
    SentenceTransformer(modules=[transformer, *rest], device="cpu").save_pretrained(str(folder))
    return folder


def encode(encoder) -> np.ndarray:
    return references.encode(encoder, TEXTS)


def reference(folder: Path) -> np.ndarray:
    return SentenceTransformer(str(folder), device="cpu").encode(TEXTS, normalize_embeddings=True)


def use_old_names(folder: Path) -> None:
    """Rewrite modules.json and the poolings' configs as releases before 5.2 wrote them."""
    path = folder / "modules.json"
    listed = json.loads(path.read_text())
    for module in listed:
        module["type"] = f"sentence_transformers.models.{module['type'].rpartition('.')[2]}"
        config = folder / module["path"] / "config.json"
        if "Pooling" in module["type"]:
            modes = json.loads(config.read_text())["pooling_mode"]
            flags = {"cls": "cls_token", "max": "max_tokens", "mean": "mean_tokens"}
            flags["lasttoken"] = "lasttoken"
            given = [modes] if isinstance(modes, str) else modes
            old = {f"pooling_mode_{flag}": mode in given for mode, flag in flags.items()}
            config.write_text(json.dumps(old | {"word_embedding_dimension": 32}))
    path.write_text(json.dumps(listed))


@pytest.mark.parametrize("mode", [*MODES, ("cls", "mean"), ("mean", "max", "weightedmean")])
def test_every_pooling_equals_the_library(tmp_path, tiny_bert, load_tiny, mode):
    save(tmp_path, tiny_bert, modules.Pooling(32, pooling_mode=mode))
    encoder = load_tiny(tmp_path)
    assert isinstance(encoder.model, NativeNetwork)
    np.testing.assert_allclose(encode(encoder), reference(tmp_path), atol=1e-6)


@pytest.mark.parametrize("mode", ["cls", "max", "mean", "lasttoken", ("cls", "max")])
def test_old_spellings_are_read_too(tmp_path, tiny_bert, load_tiny, mode):
    save(tmp_path, tiny_bert, modules.Pooling(32, pooling_mode=mode), modules.Normalize())
    expected = reference(tmp_path)
    use_old_names(tmp_path)
    encoder = load_tiny(tmp_path)
    assert isinstance(encoder.model, NativeNetwork)
    np.testing.assert_allclose(encode(encoder), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("activation", "bias"), [(torch.nn.Tanh(), True), (torch.nn.Identity(), False)]
)
@pytest.mark.parametrize("old", [False, True])
def test_dense_layers_equal_the_library(tmp_path, tiny_bert, load_tiny, activation, bias, old):
    layers = [dense(32, 24, activation, bias=bias), dense(24, 16, torch.nn.GELU())]
    save(tmp_path, tiny_bert, modules.Pooling(32), *layers, modules.Normalize())
    expected = reference(tmp_path)
    if old:  # weights as PyTorch saves them
        for folder in ("2_Dense", "3_Dense"):
            path = tmp_path / folder / "model.safetensors"
            torch.save(load_file(path), tmp_path / folder / "pytorch_model.bin")
            path.unlink()
    encoder = load_tiny(tmp_path)
    assert isinstance(encoder.model, NativeNetwork)
    assert encode(encoder).shape == (4, 16)
    np.testing.assert_allclose(encode(encoder), expected, atol=1e-6)


def test_lower_casing_is_done_where_the_checkpoint_asks_for_it(tmp_path, tiny_bert, load_tiny):
    save(tmp_path, tiny_bert, modules.Pooling(32))
    encoder = load_tiny(tmp_path)
    unknown = encoder.tokenize(["W1"], "document")[0].windows[0]
    settings = json.loads((tmp_path / "sentence_bert_config.json").read_text())
    settings["do_lower_case"] = True
    (tmp_path / "sentence_bert_config.json").write_text(json.dumps(settings))
    known = load_tiny(tmp_path).tokenize(["W1"], "document")[0].windows[0]
    assert (unknown.tolist(), known.tolist()) == ([2, 1, 3], [2, 5, 3])


def test_language_model_without_modules_json_is_pooled_by_its_last_token(tmp_path, tiny_bert):
    copy = shutil.copytree(tiny_bert, tmp_path / "m")
    config = json.loads((copy / "config.json").read_text())
    for architecture, extra, pooling in (
        ("BertModel", {}, "mean"),
        ("Qwen3ForCausalLM", {}, "lasttoken"),
        ("Qwen2ForCausalLM", {"is_causal": False}, "mean"),
    ):
        changed = config | {"architectures": [architecture]} | extra
        (copy / "config.json").write_text(json.dumps(changed))
        assert read_layout(copy) == Layout(pooling=(pooling,))


@pytest.mark.parametrize(
    "rest",
    [
        [modules.Pooling(32), modules.LayerNorm(32)],
        [modules.Pooling(32), modules.Normalize(), modules.Normalize()],
        [modules.Pooling(32), modules.Dense(32, 32, use_residual=True)],
    ],
    ids=["layer norm", "two normalisations", "residual"],
)
def test_other_modules_are_left_to_the_library(tmp_path, tiny_bert, load_tiny, rest):
    save(tmp_path, tiny_bert, *rest)
    encoder = load_tiny(tmp_path)
    assert isinstance(encoder.model, ModuleNetwork)
    np.testing.assert_allclose(encode(encoder), reference(tmp_path), atol=1e-6)
    with pytest.raises(
        InputError, match="`projection`, `architecture` and `positions` cannot be used"
    ):
        load_tiny(tmp_path, projection="2_Dense")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config_sentence_transformers.json", {"model_type": "SparseEncoder"}),
        ("sentence_bert_config.json", {"transformer_task": "fill-mask"}),
        ("sentence_bert_config.json", {"model_args": {"attn_implementation": "eager"}}),
        ("adapter_config.json", {"peft_type": "LORA"}),
        ("1_Pooling/config.json", {"pooling_mode": "attention"}),
    ],
)
def test_settings_of_another_kind_are_left_to_the_library(tmp_path, tiny_bert, name, content):
    save(tmp_path, tiny_bert, modules.Pooling(32))
    assert read_layout(tmp_path) == Layout()
    (tmp_path / name).write_text(json.dumps(content))
    assert read_layout(tmp_path) is None


@pytest.mark.parametrize("rest", [[], [modules.LayerNorm(32)]], ids=["common", "other modules"])
def test_dense_layers_are_computed_in_float32_behind_a_reduced_format(
    tmp_path, tiny_bert, load_tiny, rest
):
    save(tmp_path, tiny_bert, modules.Pooling(32), *rest, dense(32, 16, torch.nn.Tanh()))
    exact = load_tiny(tmp_path)
    assert isinstance(exact.model, ModuleNetwork if rest else NativeNetwork)
    reduced = encode(replace(exact, dtype="bfloat16"))
    assert reduced.dtype == np.float32
    assert 0.999 < (reduced * encode(exact)).sum(axis=1).min() < 1.000001


def test_hub_checkpoint_is_fetched_once_at_its_revision_and_read_from_there(
    tmp_path, tiny_bert, load_tiny, monkeypatch
):
    save(tmp_path, tiny_bert, modules.Pooling(32, pooling_mode="cls"))
    asked = []

    def download(repo, revision):
        asked.append((repo, revision))
        return Manifest(repo, revision, "c" * 40, str(tmp_path), {})

    monkeypatch.setattr("psibench.models.downloads.download_checkpoint", download)
    encoder = load_tiny("owner/name", revision="c" * 40)
    assert asked == [("owner/name", "c" * 40)]
    np.testing.assert_allclose(encode(encoder), reference(tmp_path), atol=1e-6)


def test_weights_of_other_heads_may_be_left_over(tmp_path, tiny_bert, load_tiny):
    folder = Path(shutil.copytree(tiny_bert, tmp_path / "m"))
    state = load_file(folder / "model.safetensors")
    extra = {"cls.predictions.bias": torch.ones(2), "embeddings.position_ids": torch.arange(64)}
    save_file(state | extra, folder / "model.safetensors", metadata={"format": "pt"})
    np.testing.assert_array_equal(encode(load_tiny(folder)), encode(load_tiny()))


def test_a_tokenizer_beside_the_transformer_of_an_older_layout_is_read(
    tmp_path, tiny_bert, load_tiny
):
    shutil.copytree(tiny_bert, tmp_path / "0_Transformer")
    save_modules(tmp_path, pooling="mean")
    listed = json.loads((tmp_path / "modules.json").read_text())
    listed[0]["path"] = "0_Transformer"
    (tmp_path / "modules.json").write_text(json.dumps(listed))
    np.testing.assert_allclose(encode(load_tiny(tmp_path)), encode(load_tiny()), atol=1e-6)
