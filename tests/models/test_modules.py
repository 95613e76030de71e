"""What modules a checkpoint lists, and what an entry puts in their place."""

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
from tiny_checkpoints import change_json, save_modules

from psibench.errors import InputError
from psibench.models.networks import load_network

TEXTS = ["w1 w2 w3", "", "w40", " ".join(f"w{i}" for i in range(28))]


def dense(n_in: int, n_out: int, activation):
    torch.manual_seed(7)
    return modules.Dense(n_in, n_out, activation_function=activation)


def save(folder: Path, base: Path, *rest) -> Path:
    """Save a model of the library: the transformer of a checkpoint and modules behind it."""
    transformer = modules.Transformer(str(base))
    SentenceTransformer(modules=[transformer, *rest], device="cpu").save_pretrained(str(folder))
    return folder


def encode(encoder) -> np.ndarray:
    return references.encode(encoder, TEXTS)


def reference(folder: Path) -> np.ndarray:
    return SentenceTransformer(str(folder), device="cpu").encode(TEXTS, normalize_embeddings=True)


def declare(folder: Path, **uses) -> Path:
    change_json(folder / "config_sentence_transformers.json", **uses)
    return folder


@pytest.mark.parametrize("last", [[], [modules.Normalize()]], ids=["as is", "unit length"])
@pytest.mark.parametrize(
    ("declared", "entry", "kept"),
    [(8, {}, 8), (None, {"dimensions": 8}, 8), (8, {"dimensions": 20}, 20), (99, {}, 32)],
)
def test_dimensions_are_cut_as_in_sentence_transformers(
    tmp_path, tiny_bert, load_tiny, declared, entry, kept, last
):
    folder = save(tmp_path, tiny_bert, modules.Pooling(32), *last)
    declare(folder, truncate_dim=declared)
    found = encode(load_tiny(folder, **entry))
    model = SentenceTransformer(str(folder), device="cpu", truncate_dim=entry.get("dimensions"))
    expected = model.encode(TEXTS)  # of unit length before the cut, if at all
    assert found.shape == (len(TEXTS), kept)
    np.testing.assert_allclose(found, references.unit(expected), atol=1e-6)


def test_cut_vectors_have_another_fingerprint(tmp_path, tiny_bert, load_tiny):
    folder = save(tmp_path, tiny_bert, modules.Pooling(32))
    whole, cut = load_tiny(folder), load_tiny(folder, dimensions=8)
    assert whole.fingerprint != cut.fingerprint
    assert cut.fingerprint != load_tiny(folder, dimensions=16).fingerprint
    # also if the checkpoint declares them: older releases stored uncut vectors for these files
    declared = load_tiny(declare(folder, truncate_dim=8))
    uncut = replace(declared, model=replace(declared.model, dimensions=None))
    assert declared.fingerprint != uncut.fingerprint


@pytest.mark.parametrize(
    ("fields", "refused"),
    [
        ({"dimensions": 33}, "dimensions is 33, but its vectors have 32"),
        ({"truncate_dim": 0}, "truncate_dim is 0, expected a number of dimensions from 1 on"),
        ({"truncate_dim": "8"}, "truncate_dim is '8', expected a number of dimensions"),
    ],
    ids=str,
)
def test_impossible_dimensions_are_refused(tmp_path, tiny_bert, load_tiny, fields, refused):
    folder = save(tmp_path, tiny_bert, modules.Pooling(32))
    declare(folder, **fields)
    with pytest.raises(InputError, match=refused):
        load_tiny(folder, **{key: fields[key] for key in fields if key == "dimensions"})


@pytest.mark.parametrize("kind", ["CrossEncoder", "SparseEncoder"])
def test_settings_of_another_kind_of_model_are_ignored(tmp_path, tiny_bert, load_tiny, kind):
    folder = save(tmp_path, tiny_bert, modules.Pooling(32, "cls"))
    prompts = {"query": "w9 ", "document": "w9 "}
    declare(folder, model_type=kind, truncate_dim=8, prompts=prompts)
    np.testing.assert_allclose(encode(load_tiny(folder)), reference(folder), atol=1e-6)


def test_checkpoint_code_runs_only_if_the_entry_trusts_it(tmp_path, tiny_bert, load_tiny):
    folder = save(tmp_path, tiny_bert, modules.Pooling(32))
    ran = tmp_path / "ran"
    (folder / "own.py").write_text(f"open({str(ran)!r}, 'w')\nclass Own: pass\n")
    listed = json.loads((folder / "modules.json").read_text())
    for place in (0, 1):
        changed = [m | {"type": "own.Own"} if n == place else m for n, m in enumerate(listed)]
        (folder / "modules.json").write_text(json.dumps(changed))
        with pytest.raises(InputError, match="trust_remote_code"):
            load_tiny(folder)
    assert not ran.exists()


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json", "modules.json"])
def test_code_in_another_repository_is_refused(tmp_path, tiny_bert, load_tiny, name):
    folder = save(tmp_path, tiny_bert, modules.Pooling(32))
    path, other = folder / name, "owner/other--own.Own"
    found = json.loads(path.read_text())
    if name == "modules.json":
        found[1]["type"] = other
    else:
        found["auto_map"] = {"AutoModel": other, "AutoTokenizer": [None, other]}
    path.write_text(json.dumps(found))
    with pytest.raises(InputError, match=rf"{name} names the code {other} of another repository"):
        load_tiny(folder, trust_remote_code=True)


def test_untrusted_activation_function_is_refused(tmp_path, tiny_bert, load_tiny):
    folder = save(tmp_path, tiny_bert, modules.Pooling(32), dense(32, 16, torch.nn.Tanh()))
    change_json(folder / "2_Dense" / "config.json", activation_function="my.Gate")
    refused = r"2_Dense: activation_function 'my\.Gate'"
    with pytest.raises(InputError, match=refused):
        load_tiny(folder)
    (folder / "modules.json").unlink()
    load_tiny(folder)
    with pytest.raises(InputError, match=refused):
        load_tiny(folder, projection="2_Dense")


@pytest.mark.parametrize(
    ("architecture", "pooling"), [("BertModel", "mean"), ("Qwen3ForCausalLM", "lasttoken")]
)
def test_plain_language_model_is_pooled_by_its_last_token(
    tmp_path, tiny_bert, load_tiny, architecture, pooling
):
    copy = shutil.copytree(tiny_bert, tmp_path / "m")
    change_json(copy / "config.json", architectures=[architecture])
    assert load_tiny(copy).model.pooling == (pooling,)


def test_transformer_without_forward_pass_for_texts_is_refused(tmp_path, tiny_bert, load_tiny):
    folder = save(tmp_path, tiny_bert, modules.Pooling(32))
    text = {"method": "get_text_features", "method_output_name": "pooler_output"}
    change_json(folder / "sentence_bert_config.json", modality_config={"text": text})
    with pytest.raises(InputError, match="its transformer reads texts by"):
        load_tiny(folder)


def test_dense_layers_are_computed_in_float32(tmp_path, tiny_bert, load_tiny):
    save(tmp_path, tiny_bert, modules.Pooling(32), dense(32, 16, torch.nn.Tanh()))
    exact = load_tiny(tmp_path)
    half = load_network(exact.entry, tmp_path, device="cpu", weights="bfloat16")  # as on a GPU
    layers = torch.nn.ModuleList(half.modules)
    assert {parameter.dtype for parameter in layers.parameters()} == {torch.float32}
    reduced = encode(replace(exact, model=half, dtype="bfloat16"))
    assert reduced.dtype == np.float32
    assert 0.999 < (reduced * encode(exact)).sum(axis=1).min() < 1.000001


def test_weights_of_other_heads_may_be_left_over(tmp_path, tiny_bert, load_tiny):
    folder = Path(shutil.copytree(tiny_bert, tmp_path / "m"))
    state = load_file(folder / "model.safetensors")
    extra = {"cls.predictions.bias": torch.ones(2), "embeddings.position_ids": torch.arange(64)}
    save_file(state | extra, folder / "model.safetensors", metadata={"format": "pt"})
    np.testing.assert_array_equal(encode(load_tiny(folder)), encode(load_tiny()))


def test_tokenizer_of_an_older_layout_is_read(tmp_path, tiny_bert, load_tiny):
    shutil.copytree(tiny_bert, tmp_path / "0_Transformer")
    save_modules(tmp_path, pooling="mean")
    listed = json.loads((tmp_path / "modules.json").read_text())
    listed[0]["path"] = "0_Transformer"
    (tmp_path / "modules.json").write_text(json.dumps(listed))
    np.testing.assert_allclose(encode(load_tiny(tmp_path)), encode(load_tiny()), atol=1e-6)
