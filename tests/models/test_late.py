from pathlib import Path

import numpy as np
import pytest
import torch
from encoder_references import vectors_of
from safetensors.torch import load_file
from sentence_transformers import MultiVectorEncoder
from tiny_checkpoints import change_json
from tiny_late_checkpoints import save_colbert, save_jina_colbert, save_pylate
from torch.nn.functional import normalize

from psibench.errors import InputError

# The tiny BERT's tokens: w0 is 7, w1 is 8, ...
PAD, Q, D, UNK, CLS, SEP, MASK, W0 = range(8)
TEXTS = ["w1", "", "w40, w41 (w43).", "w0 [MASK] w3", " ".join(f"w{i}" for i in range(59))]
JINA = {"architecture": "flash-xlm-roberta"}


@pytest.fixture(scope="module")
def colbert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_colbert(tmp_path_factory.mktemp("colbert"))


@pytest.fixture(scope="module")
def jina(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("jina-colbert")
    save_jina_colbert(folder)
    return folder


@pytest.fixture(scope="module")
def load(colbert, load_tiny):
    return lambda checkpoint=colbert, **fields: load_tiny(checkpoint, backend="colbert", **fields)


def test_a_query_is_marked_and_filled_up_with_masks(load):
    cut, short = load(query_tokens=8).tokenize(["w0 w1 w2 w3 w4 w5 w6 w7", "w0 w1"], "query")
    assert cut.windows[0].tolist() == [CLS, Q, W0, W0 + 1, W0 + 2, W0 + 3, W0 + 4, SEP]
    assert short.windows[0].tolist() == [CLS, Q, W0, W0 + 1, SEP] + [-1 - MASK] * 3
    assert short.windows[0].dtype == np.int32
    assert short.content[0].all()
    assert cut.content[0].all()
    assert (cut.visible_char_end, short.visible_char_end) == (len("w0 w1 w2 w3 w4"), 5)


def test_a_document_is_marked_and_its_punctuation_has_no_vectors(load):
    (item,) = load(max_tokens=9).tokenize(["w0, w1. w2 w3 w4"], "document")
    # [CLS] [D] w0 , w1 . w2 w3 [SEP]: 9 tokens, "w4" is cut off.
    assert item.windows[0][[0, 1, 2, 4, 8]].tolist() == [CLS, D, W0, W0 + 1, SEP]
    assert item.content[0].tolist() == [True, True, True, False, True, False, True, True, True]
    assert item.visible_char_end == len("w0, w1. w2 w3")


@pytest.mark.parametrize("role", ["query", "document"])
def test_jina_layout_gives_the_same_vectors(load, tmp_path, role):
    twin = save_jina_colbert(tmp_path)
    encoder = load(tmp_path, max_tokens=64, **JINA)
    linear = load_file(tmp_path / "model.safetensors")["linear.weight"]
    items = encoder.tokenize(TEXTS, role)
    for item, vectors in zip(items, vectors_of(encoder, TEXTS, role=role), strict=True):
        ids = torch.from_numpy(item.windows[0].astype(np.int64))[None]
        with torch.inference_mode():
            hidden = twin(input_ids=ids).last_hidden_state[0]
        expected = normalize(hidden @ linear.T, dim=-1).numpy()[item.content[0]]
        np.testing.assert_allclose(vectors, expected, atol=1e-5)


def test_rotary_checkpoint_uses_its_marker_tokens(load, jina):
    encoder = load(jina, query_tokens=8, **JINA)
    # <s> 0, <pad> 1, </s> 2, <unk> 3, <mask> 4, the markers 5 and 6, w0 7
    assert encoder.tokenize(["w0"], "query")[0].windows[0].tolist() == [0, 5, 7, 2, 4, 4, 4, 4]
    assert encoder.tokenize(["w0"], "document")[0].windows[0].tolist() == [0, 6, 7, 2]


CHECKPOINTS = {
    "stanford": (save_colbert, {}),
    "stanford, other lengths, punctuation kept, masks attended to": (
        save_colbert,
        {"query_maxlen": 12, "mask_punctuation": False, "attend_to_mask_tokens": True},
    ),
    "pylate": (save_pylate, {}),
    "pylate, not filled up": (save_pylate, {"do_query_expansion": False, "query_length": 12}),
    "pylate, other words skipped": (save_pylate, {"skiplist_words": ["w1", "."]}),
    "pylate, no markers, prompts": (
        save_pylate,
        {"query_prefix": "", "document_prefix": "", "prompts": {"query": "w7 ", "document": "w8 "}},
    ),
}


@pytest.fixture(scope="module", params=[*CHECKPOINTS, "sentence-transformers"])
def any_layout(request, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("layout")
    if request.param in CHECKPOINTS:
        save, fields = CHECKPOINTS[request.param]
        return save(folder, **fields)
    theirs = MultiVectorEncoder(str(save_colbert(folder / "stanford")), device="cpu")
    theirs[0].query_expansion = {"strategy": "min", "length": 12}
    theirs[0].query_length = 20
    theirs.save(str(folder / "saved"))
    return folder / "saved"


@pytest.mark.parametrize("role", ["query", "document"])
def test_vectors_equal_sentence_transformers(load, any_layout, role):
    theirs = MultiVectorEncoder(str(any_layout), device="cpu")
    theirs[0].document_length = 32
    encode = theirs.encode_query if role == "query" else theirs.encode_document
    expected = encode(TEXTS, convert_to_numpy=True, normalize_embeddings=True)
    ours = vectors_of(load(any_layout), TEXTS, role=role)
    for found, vectors in zip(ours, expected, strict=True):
        np.testing.assert_allclose(found, vectors, atol=1e-6)


ROTARY = (save_jina_colbert, JINA, "config.json")


@pytest.mark.parametrize(
    ("save", "fields", "name", "changed", "said"),
    [
        (*ROTARY, {"position_embedding_type": "absolute"}, "position_embedding_type 'absolute'"),
        (*ROTARY, {"lora_adaptations": ["a"]}, "lora_adaptations"),
        (*ROTARY, {"rotary_emb_dim": 4}, "rotary_emb_dim"),
        (save_colbert, {}, "config.json", {"architectures": ["BertModel"]}, "no projection"),
        (save_pylate, {}, "config_sentence_transformers.json", {"query_prefix": "[Q] "},
         r"the marker '\[Q\]', but its voc"),
        (save_pylate, {}, "1_Dense/config.json", {"activation_function": "mine.Own"},
         r"activation_function 'mine\.Own'; supported: classes of"),
    ],
)  # fmt: skip
def test_unsupported_settings_in_files_are_refused(
    load, tmp_path, save, fields, name, changed, said
):
    save(tmp_path)
    change_json(tmp_path / name, **changed)
    with pytest.raises(InputError, match=said):
        load(tmp_path, **fields)


@pytest.mark.parametrize("fields", [{"max_tokens": 65}, {"query_tokens": 65}], ids=str)
def test_more_tokens_than_positions_are_refused(load, fields):
    with pytest.raises(InputError, match=f"{next(iter(fields))} is 65, but .* 64 positions"):
        load(**fields)


def test_fingerprint_changes_with_settings_that_decide_vectors(load):
    changed = ({"max_tokens": 16}, {"query_tokens": 16}, {"dtype": "bfloat16"})
    found = [load(**fields).fingerprint for fields in ({}, *changed)]
    assert len(set(found)) == 4
    assert load(description="other", query_prompt="w1 ").fingerprint == found[0]


def test_salt_differs_between_query_and_document(load):
    encoder = load(query_prompt="q: ")
    assert encoder.salt("query") == "q: \0query"
    assert encoder.salt("document") == "\0document"
