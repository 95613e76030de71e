"""Every key that CrossEncoder reads of a checkpoint is followed, compared or refused."""

import ast
import inspect
import json
import logging
import textwrap

import numpy as np
import pytest
import tiny_rerankers as tiny
import torch
from sentence_transformers import CrossEncoder
from sentence_transformers.base import model as library
from sentence_transformers.base.modules import Dense
from sentence_transformers.cross_encoder.modules import LogitScore
from sentence_transformers.sentence_transformer.modules import LayerNorm, Pooling, Transformer

from psibench.errors import InputError
from psibench.models.library_keys import CLASSIFIER_KEYS, MODEL_KEYS, NETWORK_KEYS

PAIRS = [("w1 W2", "w3 w4 w5"), ("w9", "w3 w7 w7 " * 4), ("w1 w2 w3", "w4 w5 " * 60)]
IDENTITY = "torch.nn.modules.linear.Identity"
TANH = "torch.nn.modules.activation.Tanh"
OLD = "sbert_ce_default_activation_function"


def change_json(path, **fields):
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def strings(function, *, of: str) -> set[str]:
    """Keys and attributes that a function's source reads of the name ``of``."""
    found = set()
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))):
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(key))):
                pass
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=name), attr="get"),
                args=[ast.Constant(value=str(key)), *_],
            ):
                pass
            case ast.Compare(left=ast.Constant(value=str(key)), comparators=[ast.Name(id=name)]):
                pass
            case ast.Attribute(value=ast.Name(id=name), attr=key) if key != "get":
                pass
            case _:
                continue
        found |= {key} if name == of else set()
    return found


def test_classifier_keys_equal_the_keys_the_library_reads():
    own = strings(CrossEncoder._parse_model_config, of="model_config")
    assert own == CLASSIFIER_KEYS.keys()
    shared = strings(library.BaseModel._parse_model_config, of="model_config")
    assert shared <= MODEL_KEYS.keys()
    assert strings(CrossEncoder.get_default_activation_fn, of="config") == NETWORK_KEYS.keys()


@pytest.fixture
def save(tmp_path):
    """Save a tiny classifier as CrossEncoder does, with changes to its files."""

    def save(*rest, config=None, transformer=None, uses=None):
        folder = tmp_path / "saved"
        tiny.save_bert(tmp_path / "plain")
        if rest:
            torch.manual_seed(5)
            tiny.network(
                "BertModel", seed=1, vocab_size=tiny.save_bert_tokenizer(tmp_path / "bare")
            ).save_pretrained(tmp_path / "bare")
            first = Transformer(str(tmp_path / "bare"))
            model = CrossEncoder(modules=[first, *rest], device="cpu")
        else:
            model = CrossEncoder(str(tmp_path / "plain"), device="cpu")
        model.save_pretrained(str(folder))
        change_json(folder / "config.json", **(config or {}))
        change_json(folder / "sentence_bert_config.json", **(transformer or {}))
        change_json(folder / "config_sentence_transformers.json", **(uses or {}))
        return folder

    return save


def scores_of_both(folder, load, score, **fields):
    model = CrossEncoder(str(folder), device="cpu")
    model.max_seq_length = fields.get("max_tokens", 128)
    found = score(load("bert", checkpoint=str(folder), **fields), PAIRS)
    return found, model.predict(PAIRS, activation_fn=torch.nn.Sigmoid())


def head(width, **options):
    return Dense(width, 1, activation_function=torch.nn.Identity(), **options)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"transformer": {"do_lower_case": True}},
        {"transformer": {"model_kwargs": {"attn_implementation": "eager"}}},
        {"transformer": {"config_kwargs": {"hidden_act": "relu"}}},
        {"transformer": {"query_length": 8}},
        {"uses": {"prompts": {"p": "w5 w6 "}}},
        {"uses": {"prompts": {"p": ""}, "default_prompt_name": "p"}},
        {"uses": {"activation_fn": IDENTITY}},
        {"uses": {"activation_fn": None}, "config": {OLD: IDENTITY}},
        {"uses": {"keep_in_fp32_modules": ["0.model.classifier"]}},
    ],
    ids=str,
)
def test_each_key_gives_the_librarys_scores(save, load, score, changes):
    found, expected = scores_of_both(save(**changes), load, score)
    np.testing.assert_allclose(found.score, expected, atol=1e-5)


def test_dense_heads_after_a_pooling_give_the_librarys_scores(save, load, score):
    folder = save(Pooling(32), LayerNorm(32), head(32, module_output_name="scores"))
    found, expected = scores_of_both(folder, load, score)
    np.testing.assert_allclose(found.score, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ({"uses": {"prompts": {"p": "w5 "}, "default_prompt_name": "p"}}, "puts 'w5 ' before"),
        ({"uses": {"activation_fn": TANH}}, "activation_fn is 'torch.nn.modules.activation.Tanh'"),
        ({"uses": {"activation_fn": "own.Scale"}}, "activation_fn is 'own.Scale'"),
        (
            {
                "uses": {"activation_fn": None},
                "config": {"sentence_transformers": {"activation_fn": TANH}},
            },
            "sentence_transformers.activation_fn is",
        ),
        ({"uses": {"activation_fn": None}, "config": {OLD: TANH}}, f"{OLD} is"),
        ({"transformer": {"tokenizer_name_or_path": "a/b"}}, "tokenizer_name_or_path 'a/b'"),
    ],
    ids=str,
)
def test_keys_that_change_how_pairs_are_scored_are_refused(save, load, changes, refused):
    folder = save(**changes)
    for kind in ("bert", "flag"):
        with pytest.raises(InputError, match=refused):
            load(kind, checkpoint=str(folder))


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ({"uses": {"requirements": {"torch": ">=99"}}}, "torch"),
        ({"transformer": {"processing_kwargs": {"text": {"padding": True}}}}, "processing_kwargs"),
    ],
    ids=str,
)
def test_keys_of_sentence_transformers_are_refused(save, load, changes, refused):
    folder = save(**changes)
    with pytest.raises(InputError, match=refused):
        load("bert", checkpoint=str(folder))
    load("flag", checkpoint=str(folder))  # FlagEmbedding does not read them


def test_ports_refuse_the_same_keys(checkpoint, load, tmp_path):
    tiny.save_gte(tmp_path)
    change_json(tmp_path / "config.json", sentence_transformers={"activation_fn": TANH})
    with pytest.raises(InputError, match="activation_fn is"):
        load("gte", checkpoint=str(tmp_path))


def test_a_module_that_needs_more_than_pairs_is_refused(save, load):
    folder = save(Pooling(32), head(32, module_output_name="scores"), LogitScore(1))
    with pytest.raises(InputError, match="LogitScore after the transformer is not supported"):
        load("bert", checkpoint=str(folder))


@pytest.mark.parametrize(
    ("transformer", "max_tokens", "warns"),
    [
        ({"processor_kwargs": {"model_max_length": 64}}, 64, False),
        ({"processor_kwargs": {"model_max_length": 64}}, 128, True),
        ({"max_seq_length": 100}, 64, True),
        ({}, 64, False),  # the network's 512 positions are a limit, not a choice
    ],
    ids=str,
)
def test_different_longest_input_is_logged(
    save, load, score, caplog, transformer, max_tokens, warns
):
    folder = save(transformer=transformer)
    with caplog.at_level(logging.WARNING, logger="psibench"):
        found, expected = scores_of_both(folder, load, score, max_tokens=max_tokens)
    np.testing.assert_allclose(found.score, expected, atol=1e-5)
    assert any("max_tokens: the entry has" in one.message for one in caplog.records) == warns
