"""The longest input as config.json alone says it, beside what the loaded network says."""

import json

import pytest
from tiny_checkpoints import SIZES, entry_of, save_bert, save_modules

from psibench.config.models import ColbertModel, FlagEmbeddingModel
from psibench.errors import InputError
from psibench.models.declared import (
    ROBERTA_KIND,
    declared_positions,
    refuse_beyond_positions,
)
from psibench.models.networks import usable_positions

# Small enough to be made in a moment, whatever the type.
SMALL = SIZES | {
    "max_position_embeddings": 34,
    "num_key_value_heads": 4,
    "attention_window": 4,
    "adapter_reduction_factor": 2,
    "languages": ["en_XX"],
}


@pytest.mark.parametrize("pad_token_id", [0, 1])
@pytest.mark.parametrize(
    "kind", sorted({*ROBERTA_KIND, "bert", "distilbert", "modernbert", "qwen2"})
)
def test_the_file_says_what_the_network_says(tmp_path, kind, pad_token_id):
    from transformers import AutoConfig, AutoModel

    if kind == "mpnet" and pad_token_id == 0:
        pytest.skip("MPNet numbers from 2 on whatever its config says, and all have pad_token_id 1")
    names = {
        "hidden_size": "dim",
        "num_attention_heads": "n_heads",
        "num_hidden_layers": "n_layers",
    }
    sizes = {names.get(key, key): value for key, value in SMALL.items()}
    config = AutoConfig.for_model(
        kind,
        pad_token_id=pad_token_id,
        **(sizes if kind == "distilbert" else SMALL),
    )
    network = AutoModel.from_config(config)
    config.save_pretrained(tmp_path)
    assert usable_positions(network) in (34, 33, 32)
    assert declared_positions(entry_of(tmp_path)) == usable_positions(network)


def write(folder, **config):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize(
    ("config", "positions"),
    [
        ({"model_type": "bert", "max_position_embeddings": 512}, 512),
        ({"model_type": "xlm-roberta", "max_position_embeddings": 514}, 512),
        # Position biases, and what a class fills in, are no limit that the file declares.
        ({"model_type": "bloom", "alibi": True}, None),
        ({"model_type": "t5", "max_position_embeddings": 512, "is_encoder_decoder": True}, None),
        ({"model_type": "bert", "max_position_embeddings": None}, None),
        ({}, None),
    ],
)
def test_what_the_file_declares(tmp_path, config, positions):
    assert declared_positions(entry_of(write(tmp_path, **config))) == positions


def test_modules_say_where_the_transformer_lies(tmp_path):
    save_bert(tmp_path)
    save_modules(tmp_path, pooling="mean")
    assert declared_positions(entry_of(tmp_path)) == 64
    modules = json.loads((tmp_path / "modules.json").read_text())
    modules[0]["path"] = "0_Transformer"
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    write(tmp_path / "0_Transformer", model_type="bert", max_position_embeddings=48)
    assert declared_positions(entry_of(tmp_path)) == 48


@pytest.mark.parametrize(
    "changes",
    [
        {"checkpoint": "owner/name"},
        {"architecture": "gte"},
        {"trust_remote_code": True, "revision": "a" * 40},
    ],
)
def test_what_config_json_alone_does_not_decide_is_left_to_the_job(tmp_path, changes):
    folder = write(tmp_path, model_type="bert", max_position_embeddings=64)
    assert declared_positions(entry_of(**({"checkpoint": folder} | changes))) is None


@pytest.mark.parametrize("text", ["{", "[]", "null"])
def test_a_damaged_file_is_left_to_the_job(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    assert declared_positions(entry_of(tmp_path)) is None


def test_as_many_tokens_as_positions_are_allowed_and_no_more(tmp_path):
    folder = write(tmp_path, model_type="bert", max_position_embeddings=64)
    late = {"checkpoint": str(folder), "max_tokens": 64}
    colbert = ColbertModel(backend="colbert", **late)
    entries = [
        entry_of(folder, max_tokens=64),
        colbert,
        FlagEmbeddingModel(backend="flag-embedding", **late),
    ]
    for entry in entries:
        refuse_beyond_positions(entry)
        with pytest.raises(InputError, match="max_tokens 65 is more than its 64 positions; lower"):
            refuse_beyond_positions(entry.model_copy(update={"max_tokens": 65}))
    with pytest.raises(InputError, match="query_tokens 65 is more than its 64 positions"):
        refuse_beyond_positions(colbert.model_copy(update={"query_tokens": 65}))
