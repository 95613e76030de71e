"""Every key that sentence-transformers reads of a checkpoint is followed, compared or refused."""

import ast
import inspect
import json
import logging
import textwrap
from dataclasses import replace
from pathlib import Path

import encoder_references as references
import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base import model as library
from sentence_transformers.base.modules import transformer as library_transformer
from sentence_transformers.sentence_transformer import modules
from tiny_checkpoints import change_json
from tiny_late_checkpoints import save_colbert
from tiny_sparse import save_splade, sparse_entry
from tokenizers import Tokenizer

from psibench.errors import InputError
from psibench.models.library_keys import (
    MODEL_KEYS,
    MODULE_KEYS,
    MODULES_BEHIND,
    OLD_NAMES,
    TRANSFORMER_CONFIGS,
    TRANSFORMER_KEYS,
)
from psibench.models.load import load_encoder

TEXTS = ["w1 W2 w3", "w40 w41", " ".join(f"w{i}" for i in range(50))]
CONFIG = "sentence_bert_config.json"


def keys_read(function, name: str) -> set[str]:
    """String keys that a function's source reads of the dict ``name``: d[k], d.get(k), k in d."""
    found = set()
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))):
        match node:
            case ast.Subscript(value=ast.Name(id=one), slice=ast.Constant(value=str(key))):
                found |= {key} if one == name else set()
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=one), attr="get"),
                args=[ast.Constant(value=str(key)), *_],
            ):
                found |= {key} if one == name else set()
            case ast.Compare(left=ast.Constant(value=str(key)), comparators=[ast.Name(id=one)]):
                found |= {key} if one == name else set()
    return found


def arguments(kind) -> set[str]:
    return set(inspect.signature(kind).parameters)


def test_model_keys_equal_the_keys_the_library_reads():
    of_model = [
        (library.BaseModel._load_config_modules, "model_config"),
        (library.BaseModel._parse_model_config, "model_config"),
        (SentenceTransformer._parse_model_config, "model_config"),
        (library.BaseModel._get_model_type, "config"),
    ]
    assert set().union(*(keys_read(*one) for one in of_model)) == MODEL_KEYS.keys()
    listed = keys_read(library.BaseModel._load_config_modules, "module_config")
    assert listed == MODULE_KEYS.keys()


def test_transformer_keys_equal_the_keys_the_library_reads():
    kind = library_transformer.Transformer
    elsewhere = {"model_name_or_path", "backend"}  # given by the caller, never by the file
    assert arguments(kind.__init__) - elsewhere - {"self"} == TRANSFORMER_KEYS.keys()
    assert set(kind.config_keys) <= TRANSFORMER_KEYS.keys()
    source = inspect.getsource(kind._load_init_kwargs)
    assert all(f'"{old}": "{new}"' in source for old, new in OLD_NAMES.items())
    names = ast.walk(ast.parse(textwrap.dedent(inspect.getsource(kind.load_config))))
    names = [one.value for one in names if isinstance(one, ast.Constant)]
    files = [one for one in names if isinstance(one, str) and one.endswith(".json")]
    assert tuple(dict.fromkeys(one for one in files if "\n" not in one)) == TRANSFORMER_CONFIGS


def test_module_keys_equal_the_keys_the_library_reads():
    for name, keys in MODULES_BEHIND.items():
        kind = getattr(modules, name)
        given_by_code = {"init_weight", "init_bias"}
        assert arguments(kind) - given_by_code == set(keys) == set(kind.config_keys), name


@pytest.fixture
def save(tmp_path, tiny_bert):
    """Save the tiny BERT as the library does, with modules behind its transformer."""

    def save(*rest, config=None, uses=None, **more) -> Path:
        torch.manual_seed(3)
        transformer = modules.Transformer(str(tiny_bert))
        made = [one if isinstance(one, torch.nn.Module) else one() for one in rest]
        made = made or [modules.Pooling(32)]
        made = [transformer, *made]
        SentenceTransformer(modules=made, device="cpu").save_pretrained(str(tmp_path))
        change_json(tmp_path / CONFIG, **(config or {}))
        change_json(tmp_path / "config_sentence_transformers.json", **(uses or {}))
        for name, fields in more.items():
            change_json(tmp_path / name.replace("__", "/") / "config.json", **fields)
        return tmp_path

    return save


def compare(folder: Path, load_tiny, *, max_tokens: int = 32, **entry) -> None:
    """Compare queries and documents with the library's encode_query and encode_document."""
    encoder = load_tiny(folder, max_tokens=max_tokens, **entry)
    model = SentenceTransformer(str(folder), device="cpu")
    if model.max_seq_length != max_tokens:
        model.max_seq_length = max_tokens
    for role, encode in (("query", model.encode_query), ("document", model.encode_document)):
        found = references.encode(encoder, TEXTS, role)
        np.testing.assert_allclose(found, references.unit(encode(TEXTS)), atol=2e-6)


def dense(n_in, n_out, **options):
    return modules.Dense(n_in, n_out, **options)


POOLINGS = ["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]


@pytest.mark.parametrize("mode", [*POOLINGS, ("max", "weightedmean", "cls")], ids=str)
def test_each_pooling_gives_the_librarys_vectors(save, load_tiny, mode):
    compare(save(modules.Pooling(32, pooling_mode=mode)), load_tiny)


TOKENS = {"module_input_name": "token_embeddings"}


@pytest.mark.parametrize(
    "rest",
    [
        [modules.Pooling(32), lambda: dense(32, 12, bias=False)],
        [modules.Pooling(32), lambda: dense(32, 16, activation_function=torch.nn.GELU())],
        [modules.Pooling(32), lambda: dense(32, 12, use_residual=True), modules.LayerNorm(12)],
        [lambda: dense(32, 12, **TOKENS), modules.Pooling(12), modules.Normalize()],
        [modules.Normalize(**TOKENS), modules.Pooling(32), modules.Dropout(0.9)],
        [modules.Pooling(32), modules.Normalize(), lambda: dense(32, 8), modules.Normalize()],
        [modules.Pooling(32, include_prompt=False)],
    ],
    ids=["no bias", "gelu", "residual", "of tokens", "unit tokens", "unit between", "no prompt"],
)
def test_each_module_gives_the_librarys_vectors(save, load_tiny, rest):
    compare(save(*rest), load_tiny)


def test_entry_pooling_follows_the_modules_of_tokens(save, load_tiny):
    dense_of_tokens = lambda: dense(32, 12, **TOKENS)  # noqa: E731
    folder = save(dense_of_tokens, modules.Pooling(12))
    found = references.encode(load_tiny(folder, pooling="max"), TEXTS)
    first, behind, _ = SentenceTransformer(str(folder), device="cpu")
    model = SentenceTransformer(modules=[first, behind, modules.Pooling(12, "max")], device="cpu")
    model.max_seq_length = 32
    np.testing.assert_allclose(found, references.unit(model.encode(TEXTS)), atol=2e-6)


@pytest.mark.parametrize(
    "rest",
    [
        [modules.Pooling(32), modules.Normalize()],
        [lambda: dense(32, 12, **TOKENS), modules.Pooling(12), modules.Normalize()],
        [modules.Pooling(32), modules.Dropout(0.9), lambda: dense(32, 12, **TOKENS)],
        [modules.Normalize(**TOKENS), lambda: dense(32, 12, **TOKENS), modules.Pooling(12)],
    ],
    ids=["of texts", "of tokens", "behind pooling", "unit tokens"],
)
def test_token_vectors_equal_the_librarys(save, load_tiny, rest):
    folder = save(*rest)
    encoder = load_tiny(folder, scoring="maxsim")
    model = SentenceTransformer(str(folder), device="cpu")
    whole = model.encode(TEXTS[:2], output_value="token_embeddings")
    for found, theirs in zip(references.vectors_of(encoder, TEXTS[:2]), whole, strict=True):
        inner = theirs.numpy()[1:-1]  # without [CLS] and [SEP]
        np.testing.assert_allclose(found, references.unit(inner), atol=2e-6)


@pytest.mark.parametrize(
    ("fields", "are_apart"),
    [({"scoring": "maxsim"}, True), ({"pooling": "max"}, True), ({}, False)],
    ids=str,
)
def test_vectors_changed_by_token_modules_have_another_fingerprint(
    save, load_tiny, fields, are_apart
):
    encoder = load_tiny(save(lambda: dense(32, 12, **TOKENS), modules.Pooling(12)), **fields)
    without = replace(encoder, model=replace(encoder.model, modules=torch.nn.Sequential()))
    assert (encoder.fingerprint != without.fingerprint) == are_apart


MULTI_VECTOR = {"model_type": "MultiVectorEncoder"}


@pytest.mark.parametrize(
    ("rest", "uses", "refused"),
    [
        (
            [modules.Pooling(32), lambda: dense(32, 12)],
            {},
            "its modules Dense change vectors of texts",
        ),
        (
            [modules.Pooling(32), modules.LayerNorm(32)],
            {},
            "its modules LayerNorm change vectors of texts",
        ),
        ([lambda: dense(32, 12, **TOKENS)], MULTI_VECTOR, "the modules of a MultiVectorEncoder"),
        ([modules.Pooling(32)], {"model_type": "SparseEncoder"}, "the modules of a SparseEncoder"),
    ],
    ids=["dense", "norm", "late interaction", "sparse"],
)
def test_maxsim_refuses_checkpoints_with_other_token_vectors(save, load_tiny, rest, uses, refused):
    folder = save(*rest, uses=uses)
    with pytest.raises(InputError, match=rf"{refused}.*`backend: colbert`"):
        load_tiny(folder, scoring="maxsim")


def test_maxsim_refuses_stanfords_layout(tmp_path, load_tiny):
    with pytest.raises(InputError, match=r"the modules of a HF_ColBERT.*`backend: colbert`"):
        load_tiny(save_colbert(tmp_path), scoring="maxsim")


@pytest.mark.parametrize(
    ("config", "max_tokens"),
    [
        ({"max_seq_length": 16}, 16),
        ({"do_lower_case": True}, 32),
        ({"model_args": {"attn_implementation": "eager"}}, 32),
        ({"config_args": {"hidden_act": "relu"}}, 32),
        ({"config_kwargs": {"hidden_act": "relu"}}, 32),
        ({"tokenizer_args": {"model_max_length": 12}, "max_seq_length": 20}, 12),
        ({"unpad_inputs": False}, 32),
    ],
    ids=str,
)
def test_each_transformer_key_gives_the_librarys_vectors(
    save, load_tiny, caplog, config, max_tokens
):
    folder = save(config=config)
    with caplog.at_level(logging.WARNING, logger="psibench"):
        compare(folder, load_tiny, max_tokens=max_tokens)
    assert not [one for one in caplog.records if "max_tokens" in one.getMessage()]


@pytest.mark.parametrize(
    "uses",
    [
        {"prompts": {"query": "w5 w6 ", "document": "w7 "}},
        {"prompts": {"query": "w5 w6 ", "document": None}, "default_prompt_name": None},
        {"requirements": {"torch": ">=1"}, "__version__": {"sentence_transformers": "2.0.0"}},
        {"truncate_dim": 5, "similarity_fn_name": "cosine"},
    ],
    ids=str,
)
def test_each_model_key_gives_the_librarys_vectors(save, load_tiny, uses):
    compare(save(uses=uses), load_tiny)


def test_default_prompt_applies_to_queries_and_documents(save, load_tiny):
    folder = save(uses={"prompts": {"p": "w7 "}, "default_prompt_name": "p"})
    for role in ("query", "document"):
        found = references.encode(load_tiny(folder), TEXTS[:2], role)
        expected = SentenceTransformer(str(folder), device="cpu").encode(TEXTS[:2])
        np.testing.assert_allclose(found, references.unit(expected), atol=2e-6)


TEXT = {"method": "forward", "method_output_name": "last_hidden_state"}


@pytest.mark.parametrize(
    ("config", "refused"),
    [
        ({"query_length": 8}, "query_length 8"),
        ({"document_length": 8}, "document_length 8"),
        ({"query_expansion": {"length": 16}}, "query_expansion"),
        ({"processing_kwargs": {"text": {"add_special_tokens": False}}}, "processing_kwargs"),
        ({"processing_kwargs": {"common": {"padding": "max_length"}}}, "processing_kwargs"),
        ({"tokenizer_name_or_path": "owner/other"}, "tokenizer_name_or_path 'owner/other'"),
        ({"module_output_name": "sentence_embedding"}, "'sentence_embedding'"),
        ({"transformer_task": "fill-mask"}, "BertForMaskedLM are missing"),
        ({"transformer_task": "image-feature-extraction"}, "image-feature-extraction"),
        ({"modality_config": {"text": TEXT, "message": TEXT}}, "chat template"),
        ({"key_of_a_later_release": 1}, "key_of_a_later_release"),
    ],
    ids=str,
)
def test_keys_that_change_how_texts_are_read_are_refused(save, load_tiny, config, refused):
    folder = save(config=config)
    with pytest.raises(InputError, match=refused):
        load_tiny(folder)


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        ({"kwargs": ["task"]}, "treats queries and documents differently"),
        ({"name": "0"}, r"the modules are named \['0', '0'\]"),
    ],
    ids=str,
)
def test_role_dependent_or_duplicate_modules_are_refused(save, load_tiny, change, refused):
    folder = save()
    listed = json.loads((folder / "modules.json").read_text())
    listed[1] |= change
    (folder / "modules.json").write_text(json.dumps(listed))
    with pytest.raises(InputError, match=refused):
        load_tiny(folder)


BEFORE_POOLING = {
    "CNN": lambda: modules.CNN(32, out_channels=4),
    "LSTM": lambda: modules.LSTM(32, 8),
    "WeightedLayerPooling": lambda: modules.WeightedLayerPooling(32, num_hidden_layers=2),
    "WordWeights": lambda: modules.WordWeights(["w1"], {"w1": 2.0}),
}
OF_OTHER_KINDS = {"SpladePooling", "SparseAutoEncoder", "MultiVectorMask", "Router"}


@pytest.mark.parametrize("kind", BEFORE_POOLING)
def test_modules_that_need_more_than_token_states_are_refused(save, load_tiny, kind):
    folder = save(BEFORE_POOLING[kind], modules.Pooling(12 if kind == "CNN" else 16))
    with pytest.raises(InputError, match=rf"{kind} after the transformer is not supported"):
        load_tiny(folder)


@pytest.mark.parametrize("kind", sorted(OF_OTHER_KINDS))
def test_modules_of_another_kind_of_model_are_refused(save, load_tiny, kind):
    folder = save()
    listed = json.loads((folder / "modules.json").read_text())
    listed[1]["type"] = f"sentence_transformers.models.{kind}"
    (folder / "modules.json").write_text(json.dumps(listed))
    with pytest.raises(InputError, match=f"{kind} after the transformer is not supported"):
        load_tiny(folder)


@pytest.mark.parametrize(
    ("kind", "said"), [("BoW", "not a transformer"), ("StaticEmbedding", "no transformer")]
)
def test_models_without_a_transformer_are_refused(tmp_path, tiny_bert, load_tiny, kind, said):
    if kind == "BoW":
        module = modules.BoW(["w1", "w2"])
    else:
        tokenizer = Tokenizer.from_file(str(tiny_bert / "tokenizer.json"))
        module = modules.StaticEmbedding(tokenizer, embedding_dim=8)
    SentenceTransformer(modules=[module], device="cpu").save_pretrained(str(tmp_path))
    with pytest.raises(InputError, match=said):
        load_tiny(tmp_path)


def test_unmet_requirements_are_refused(save, load_tiny):
    folder = save(uses={"requirements": {"torch": ">=99"}})
    with pytest.raises(InputError, match="torch"):
        load_tiny(folder)


def test_learned_sparse_models_use_their_declared_prompts(tmp_path):
    from sentence_transformers import SparseEncoder

    folder = save_splade(tmp_path)
    prompts = {"query": "w5 w6 ", "document": "w7 "}
    change_json(folder / "config_sentence_transformers.json", prompts=prompts)
    encoder = load_encoder(sparse_entry(folder), device="cpu")
    model = SparseEncoder(str(folder), device="cpu")
    for role, encode in (("query", model.encode_query), ("document", model.encode_document)):
        (rows,) = references.vectors_of(encoder, TEXTS[:1], role)
        (dense,) = encode(TEXTS[:1], convert_to_tensor=True, convert_to_sparse_tensor=False)
        found = {int(high) * 1024 + int(low): weight for high, low, weight in rows}
        expected = {int(term): float(dense[term]) for term in torch.nonzero(dense > 0)[:, 0]}
        assert found == pytest.approx(expected, abs=1e-5)
