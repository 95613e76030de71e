"""Hostile and damaged checkpoints: one message that names the file, no code run, no hang."""

import io
import json
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_architectures import save_new_type_gte
from tiny_checkpoints import SIZES, save_bert, save_modules, save_tokenizer
from tiny_late_checkpoints import save_bge_m3, save_colbert
from tiny_sparse import save_splade

from psibench.config.registry import parse_model
from psibench.config.sections import Encoding
from psibench.encode.batches import encode_texts
from psibench.encode.store import EmbeddingStore
from psibench.errors import InputError
from psibench.models.load import load_encoder

PLAIN = {"backend": "sentence-transformers", "max_tokens": 32}


class Evil:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def refused(folder: Path, words: str, **fields: object) -> None:
    with pytest.raises(InputError) as raised:
        load_encoder(parse_model(PLAIN | fields | {"checkpoint": str(folder)}), device="cpu")
    said = str(raised.value)
    assert words in said
    assert str(folder) in said
    assert "\n" not in said


def in_a_zip(data: bytes) -> bytes:
    """A file as torch.save writes it, around a pickle of others."""
    buffer = io.BytesIO()
    torch.save({"weight": torch.ones(2)}, buffer)
    made = io.BytesIO()
    with zipfile.ZipFile(buffer) as old, zipfile.ZipFile(made, "w") as new:
        for name in old.namelist():
            new.writestr(name, data if name.endswith("data.pkl") else old.read(name))
    return made.getvalue()


def with_dense(folder: Path) -> Path:
    save_modules(save_bert(folder), pooling="mean", dense="2_Dense")
    (folder / "2_Dense").mkdir()
    dense = {"in_features": 32, "out_features": 16, "bias": True}
    dense["activation_function"] = "torch.nn.modules.linear.Identity"
    (folder / "2_Dense" / "config.json").write_text(json.dumps(dense))
    return folder


PICKLES = {
    "a network": (save_bert, "pytorch_model.bin", {}),
    "a port": (save_new_type_gte, "pytorch_model.bin", {"architecture": "gte"}),
    "a dense layer": (with_dense, "2_Dense/pytorch_model.bin", {}),
    "a head": (save_bge_m3, "colbert_linear.pt", {"backend": "flag-embedding"}),
}


@pytest.mark.parametrize("around", [bytes, in_a_zip])
@pytest.mark.parametrize("case", PICKLES)
def test_a_pickle_that_would_run_code(tmp_path, case, around):
    save, name, fields = PICKLES[case]
    folder = save(tmp_path / "m")
    if name == "pytorch_model.bin":
        (folder / "model.safetensors").unlink()
    evil = pickle.dumps({"weight": Evil(tmp_path / "ran")}, protocol=2) + bytes(100_000)
    (folder / name).write_bytes(around(evil))
    refused(folder, "contains objects other than named tensors, which could run code", **fields)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("backend", ["sentence-transformers", "static-embeddings"])
def test_a_vocabulary_that_is_larger_than_the_network_s(tmp_path, backend):
    from transformers import BertConfig, BertModel

    sizes = SIZES | {"vocab_size": 60, "max_position_embeddings": 64}
    BertModel(BertConfig(**sizes)).save_pretrained(tmp_path / "m")
    save_tokenizer(tmp_path / "m")  # 64 words
    length = {} if backend == "static-embeddings" else {"max_tokens": 32}
    with pytest.raises(InputError, match=r"numbered up to 63, but config\.json has vocab_size 60"):
        load_encoder(
            parse_model({"backend": backend, "checkpoint": str(tmp_path / "m")} | length),
            device="cpu",
        )


def test_a_word_added_beyond_the_network_s_is_told_where_a_text_has_it(tmp_path):
    """As of Gemma 3, whose network for texts has no vector for its token of images."""
    path = save_bert(tmp_path / "m") / "tokenizer.json"
    stored = json.loads(path.read_text())
    word = {"id": 64, "content": "<image>", "special": False, "single_word": False,
            "lstrip": False, "rstrip": False, "normalized": False}  # fmt: skip
    stored["added_tokens"].append(word)
    path.write_text(json.dumps(stored))
    entry = parse_model(PLAIN | {"checkpoint": str(tmp_path / "m")})
    encoder = load_encoder(entry, device="cpu")
    store = EmbeddingStore(tmp_path / "store", encoder.fingerprint)
    options = {"store": store, "settings": Encoding(), "description": "texts"}
    encode_texts(encoder, ["w1 w2"], "document", **options)
    with pytest.raises(InputError, match="a token, maybe 64, for which the model has no embedding"):
        encode_texts(encoder, ["w1 <image>"], "document", **options)


@pytest.mark.parametrize(
    ("save", "fields"),
    [
        (save_bert, {}),
        (save_splade, {"backend": "sparse-encoder"}),
        (save_bge_m3, {"backend": "flag-embedding"}),
        (save_colbert, {"backend": "colbert"}),
    ],
)
def test_a_pad_token_outside_the_network_changes_no_vector(tmp_path, save, fields):
    folder = save(tmp_path / "m")
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"pad_token": "<pad-of-mine>"}))
    encoder = load_encoder(parse_model(PLAIN | fields | {"checkpoint": str(folder)}), device="cpu")
    items = encoder.tokenize(["w1", "w2 w3 w4"], "document")
    windows, content = (
        [getattr(item, name)[0] for item in items] for name in ("windows", "content")
    )
    together = encoder.forward(windows, content)  # the first is padded
    for n, found in enumerate(together):
        (alone,) = encoder.forward(windows[n : n + 1], content[n : n + 1])
        np.testing.assert_allclose(found, alone, atol=1e-5)


def test_weights_that_are_cut_short(tmp_path):
    folder = save_bert(tmp_path / "m")
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    refused(folder, "Check its config.json, and that no file is missing or truncated.")


FILES = [
    ("config.json", {"num_hidden_layers": 10**9}, "num_hidden_layers 1,000,000,000 is too large"),
    ("modules.json", {}, "found {}, expected a list"),
    ("modules.json", [{"path": "../x", "type": "a"}], "the module '../x' is outside of the folder"),
    ("config_sentence_transformers.json", {"prompts": {"query": "\ud800"}}, "half of a surrogate"),
    (
        "config_sentence_transformers.json",
        {"prompts": {"query": "w1 " * 350_000}},
        "at most 10,000",
    ),
    ("config_sentence_transformers.json", {"prompts": {"query": 5}}, "query is 5; expected a text"),
]


@pytest.mark.parametrize(("name", "content", "words"), FILES, ids=[case[-1] for case in FILES])
def test_a_file_of_a_checkpoint(tmp_path, name, content, words):
    folder = save_bert(tmp_path / "m")
    path = folder / name
    if name == "config.json":
        content = json.loads(path.read_text()) | content
    path.write_text(json.dumps(content))
    refused(folder, words)
