"""A checkpoint that is not whole is refused by every backend that reads it, and where it counts."""

import json
import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_architectures import save_new_type_gte, save_nv_embed
from tiny_checkpoints import change_json, entry_of, save_bert
from tiny_late_checkpoints import save_bge_m3, save_colbert, save_jina_colbert, save_pylate
from tiny_sparse import save_splade

from psibench.errors import InputError
from psibench.models.counting import token_counter
from psibench.models.load import load_encoder


def save_jina(folder: Path) -> Path:
    save_jina_colbert(folder)
    return folder


BERT = "encoder.layer.1.output.dense.weight"
CASES = {
    "sentence-transformers": (save_bert, BERT, {}),
    "a port": (
        save_new_type_gte,
        "new.encoder.layer.1.mlp.down_proj.weight",
        {"architecture": "gte"},
    ),
    "a port with a head": (
        save_nv_embed,
        "latent_attention_model.cross_attend_blocks.0.fn.to_q.weight",
        {"architecture": "nv-embed"},
    ),
    "static-embeddings": (save_bert, BERT, {"backend": "static-embeddings"}),
    "flag-embedding": (save_bge_m3, BERT, {"backend": "flag-embedding"}),
    "colbert, Stanford's": (save_colbert, f"bert.{BERT}", {"backend": "colbert"}),
    "colbert, PyLate's": (save_pylate, BERT, {"backend": "colbert"}),
    "colbert, a port": (
        save_jina,
        "roberta.encoder.layers.1.mlp.fc2.weight",
        {"backend": "colbert", "architecture": "flash-xlm-roberta"},
    ),
    "sparse-encoder": (save_splade, f"bert.{BERT}", {"backend": "sparse-encoder"}),
}
"""Backend and layout -> what saves a tiny checkpoint, one of its weights, fields of the entry."""


def load(folder: Path, fields: dict) -> object:
    return load_encoder(entry_of(folder, **fields), device="cpu")


def change_weights(folder: Path, change) -> None:
    """Change the tensors of a checkpoint, where it has them."""
    path = next(folder.glob("*.safetensors"), None)
    if path is not None:
        state = load_file(path)
        change(state)
        save_file(state, path, metadata={"format": "pt"})
        return
    path = folder / "pytorch_model.bin"
    state = torch.load(path, weights_only=True)
    change(state)
    torch.save(state, path)


def missing(state: dict, name: str) -> None:
    del state[name]


def left_over(state: dict, name: str) -> None:
    state[re.sub(r"(layers?)\.1\.", r"\1.2.", name.replace("blocks.0", "blocks.2"))] = state[
        name
    ].clone()


def another_shape(state: dict, name: str) -> None:
    state[name] = torch.ones(3, 3)


SAID = {
    missing: "are missing|missing_keys|Missing key",
    left_over: "do not fit, because|unexpected_keys|Unexpected key",
    another_shape: "have another shape|mismatched_keys|size mismatch|do not fit its config",
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("damage", [missing, left_over, another_shape])
def test_weights_that_do_not_fit_the_network_are_refused(tmp_path, case, damage):
    save, name, fields = CASES[case]
    folder = save(tmp_path)
    load(folder, fields)  # undamaged
    change_weights(folder, lambda state: damage(state, name))
    with pytest.raises(InputError) as refused:
        load(folder, fields)
    said = str(refused.value)
    assert str(folder) in said
    assert re.search(SAID[damage], said)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model_type", ["bert"]), ("hidden_size", "abc"), ("num_attention_heads", 0),
        ("num_attention_heads", None), ("architectures", -1), ("dtype", []), ("vocab_size", 0),
    ],
)  # fmt: skip
def test_wrong_field_of_config_json_is_an_input_error(tmp_path, field, value):
    folder = save_bert(tmp_path)
    change_json(folder / "config.json", **{field: value})
    with pytest.raises(InputError, match=str(folder)):
        load(folder, {})


def remove_words(folder: Path) -> None:
    path = folder / "tokenizer.json"
    stored = json.loads(path.read_text())
    words, stored["added_tokens"] = stored["model"]["vocab"], []
    stored["model"]["vocab"] = {word: n for word, n in words.items() if n < 4}
    path.write_text(json.dumps(stored))


def remove_tokenizer(folder: Path) -> None:
    for path in folder.glob("tokenizer*"):
        path.unlink()


@pytest.mark.parametrize(
    ("remove", "said"), [(remove_words, r": the tokenizer has \d+ words"), (remove_tokenizer, "")]
)
@pytest.mark.parametrize("case", CASES)
def test_a_tokenizer_without_most_of_its_words_is_refused(tmp_path, case, remove, said):
    save, _, fields = CASES[case]
    folder = save(tmp_path)
    remove(folder)
    with pytest.raises(InputError, match=f"{folder}{said}"):
        load(folder, fields)


def test_folder_without_a_tokenizer_is_refused_for_counting(tmp_path):
    folder = save_bert(tmp_path)
    token_counter(str(folder))
    remove_tokenizer(folder)
    # transformers would make one of special tokens, which reads every word as unknown.
    with pytest.raises(InputError, match=rf"{folder}: the tokenizer has 5 words"):
        token_counter(str(folder))
