import os

import numpy as np
import pytest
import tiny_rerankers as tiny
from pydantic import TypeAdapter, ValidationError

from psibench.config.rerankers import CrossEncoderReranker, RerankerModel
from psibench.errors import InputError
from psibench.rerankers.protocols import sigmoid

PAIRS = [
    ("w1 w2", "w3 w4 w5"),
    ("w1 w2", "w3"),
    ("w9", "w3 w7 w7 w2 " * 8),
    ("w1 w2 w3", "w4 w5 " * 100),
]


@pytest.mark.parametrize("kind", ["bert", "xlm-roberta", "modernbert"])
def test_scores_are_those_of_sentence_transformers(kind, checkpoint, load, score):
    from sentence_transformers import CrossEncoder

    theirs = CrossEncoder(str(checkpoint(kind)), device="cpu", max_length=64)
    found = score(load(kind, max_tokens=64), PAIRS)
    np.testing.assert_allclose(found.score, theirs.predict(PAIRS), atol=1e-5)


def test_logit_becomes_a_score_though_the_checkpoint_declares_no_activation(load, score, tmp_path):
    import json

    tiny.save_bert(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["sentence_transformers"] = {"activation_fn": "torch.nn.modules.linear.Identity"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    plain = score(load("bert"), PAIRS)
    declared = score(load("bert", checkpoint=str(tmp_path)), PAIRS)
    np.testing.assert_allclose(declared.score, plain.score, atol=1e-6)
    np.testing.assert_allclose(declared.score, sigmoid(declared.raw), atol=1e-12)


def test_activation_none_hands_the_raw_output_on(load, score):
    found = score(load("bert", activation="none"), PAIRS)
    np.testing.assert_array_equal(found.score, found.raw)


def test_segments_of_query_and_text_are_told_apart_where_the_model_has_types(load):
    (item,) = load("bert").tokenize([("w1 w2", "w3")])
    assert item.types.tolist() == [0, 0, 0, 0, 1, 1]
    (item,) = load("xlm-roberta").tokenize([("w1 w2", "w3")])
    assert item.types is None


def test_longest_part_is_cut_first(load):
    reranker = load("bert", max_tokens=32)
    (item,) = reranker.tokenize([("w1 w2 w3", "w4 " * 50)])
    # [CLS] w1 w2 w3 [SEP], 26 of w4, [SEP].
    assert item.types.tolist() == [0] * 5 + [1] * 27
    (item,) = reranker.tokenize([("w1 " * 50, "w4 w5")])
    assert item.types.tolist() == [0] * 29 + [1] * 3


def test_classifier_of_several_classes_is_refused(tmp_path, load):
    tiny.save_bert(tmp_path, n_labels=3)
    with pytest.raises(InputError, match="has 3 outputs; a reranker has 1"):
        load("bert", checkpoint=str(tmp_path))


def test_more_tokens_than_positions_are_refused(load):
    with pytest.raises(InputError, match="max_tokens 513 is more than its 512 positions"):
        load("bert", max_tokens=513)
    # XLM-RoBERTa has 514 position embeddings, two of them not used.
    assert load("xlm-roberta", max_tokens=512).max_tokens == 512
    with pytest.raises(InputError, match="max_tokens 513"):
        load("flash-xlm-roberta", max_tokens=513)


@pytest.mark.parametrize("kind", ["bert", "jina-bert", "gte", "flag", "flag-llm", "qwen3"])
@pytest.mark.parametrize("name", ["nobody/nothing-here", "./nowhere"])
def test_wrong_checkpoint_is_named(kind, name, load):
    with pytest.raises(InputError, match=name):
        load(kind, checkpoint=name)


def test_damaged_weights_are_refused(tmp_path, load):
    tiny.save_bert(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"short")
    with pytest.raises(InputError, match="cannot be loaded"):
        load("bert", checkpoint=str(tmp_path))


REMOTE = """
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

class Config(PretrainedConfig):
    model_type = "remote-tiny"

class Model(PreTrainedModel):
    config_class = Config

    def __init__(self, config):
        super().__init__(config)
        self.embed = nn.Embedding(100, 1)
        self.post_init()

    def forward(self, input_ids, attention_mask=None, **options):
        summed = (self.embed(input_ids) * attention_mask[..., None]).sum(1)
        return SequenceClassifierOutput(logits=summed)
"""


@pytest.fixture
def remote(tmp_path, monkeypatch):
    """A checkpoint that comes with its own code."""
    import torch
    from safetensors.torch import save_file

    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr(
        "transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules")
    )
    folder = tmp_path / "checkpoint"
    os.makedirs(folder)
    tiny.save_bert_tokenizer(folder)
    (folder / "code.py").write_text(REMOTE)
    save_file({"embed.weight": torch.arange(100.0)[:, None] / 100}, folder / "model.safetensors")
    tiny.write_config(
        folder,
        {
            "model_type": "remote-tiny",
            "architectures": ["Model"],
            "num_labels": 1,
            "auto_map": {
                "AutoConfig": "code.Config",
                "AutoModelForSequenceClassification": "code.Model",
            },
        },
    )
    return folder


def test_code_of_a_checkpoint_runs_only_where_the_entry_says_so(remote, load, score):
    allowed = {"trust_remote_code": True, "revision": "a" * 40, "checkpoint": str(remote)}
    found = score(load("bert", **allowed), [("w1", "w2")])
    ids = load("bert", **allowed).tokenize([("w1", "w2")])[0].ids
    assert found.raw[0] == pytest.approx(ids.sum() / 100, abs=1e-5)
    with pytest.raises(InputError, match="cannot be loaded"):
        load("bert", checkpoint=str(remote))


def test_code_that_fails_in_any_way_becomes_an_explained_error(remote, load):
    (remote / "code.py").write_text(REMOTE.replace("self.post_init()", "self.no_such_thing"))
    with pytest.raises(InputError, match=r"cannot be loaded \(AttributeError"):
        load("bert", checkpoint=str(remote), trust_remote_code=True, revision="b" * 40)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"trust_remote_code": True}, "trust_remote_code needs a pinned revision"),
        (
            {"trust_remote_code": True, "revision": "a" * 40, "architecture": "gte"},
            "architecture: gte runs no remote code",
        ),
        ({"code_revision": "a" * 40}, "code_revision is for trust_remote_code: true"),
        ({"max_tokens": 8}, "greater than or equal to 32"),
        ({"activation": "tanh"}, "'sigmoid' or 'none'"),
        ({"cutoff_layer": 3}, "Extra inputs are not permitted"),
    ],
)
def test_entries_that_cannot_be_meant_are_refused(fields, message):
    raw = {"backend": "cross-encoder", "checkpoint": "owner/name", "max_tokens": 64} | fields
    with pytest.raises(ValidationError, match=message):
        TypeAdapter(RerankerModel).validate_python(raw)


def test_entry_knows_its_backend():
    raw = {"backend": "cross-encoder", "checkpoint": "owner/name", "max_tokens": 64}
    assert isinstance(TypeAdapter(RerankerModel).validate_python(raw), CrossEncoderReranker)
    with pytest.raises(ValidationError, match="expected tags"):
        TypeAdapter(RerankerModel).validate_python(raw | {"backend": "other"})
