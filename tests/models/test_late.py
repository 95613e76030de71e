import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from closeness import assert_vectors_close
from encoder_references import vectors_of
from safetensors.torch import load_file
from sentence_transformers import MultiVectorEncoder
from tiny_late_checkpoints import save_colbert, save_jina_colbert, save_pylate
from torch.nn.functional import normalize

from psibench.errors import InputError

# The tiny BERT's tokens: w0 is 7, w1 is 8, ...
PAD, Q, D, UNK, CLS, SEP, MASK, W0 = range(8)
TEXTS = [
    "w1",
    "w2 w3 w4 w5 w6 w7 w8 w9 w10 w11 w12 w13 w14 w15 w16 w17 w18",
    "",
    "w40, w41 (w43).",
    "w5 w4 w3",
    " ".join(f"w{i}" for i in range(59)),
]
QUERIES = ["w3 w4", "", "w41 w17 w2?", " ".join(f"w{i}" for i in range(40))]
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


def by_hand(folder: Path, ids: list[int], attended: list[int]) -> np.ndarray:
    """Unit vectors of all places, from the weights as they are stored."""
    from transformers import BertConfig, BertModel

    stored = load_file(folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    model = BertModel(BertConfig(**config)).eval()
    model.load_state_dict({n[5:]: t for n, t in stored.items() if n.startswith("bert.")})
    with torch.inference_mode():
        output = model(input_ids=torch.tensor([ids]), attention_mask=torch.tensor([attended]))
    vectors = output.last_hidden_state[0] @ stored["linear.weight"].T
    return normalize(vectors, dim=-1).numpy()


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


def test_a_mask_token_that_a_text_has_itself_is_attended_to(load, colbert):
    encoder = load(query_tokens=8)
    (vectors,) = vectors_of(encoder, ["w0 [MASK]"], role="query")
    ids = [CLS, Q, W0, MASK, SEP, MASK, MASK, MASK]
    np.testing.assert_allclose(vectors, by_hand(colbert, ids, [1] * 5 + [0] * 3), atol=1e-6)
    (read,) = vectors_of(encoder, ["w0 [MASK]"])
    expected = by_hand(colbert, [CLS, D, W0, MASK, SEP], [1] * 5)
    np.testing.assert_allclose(read, expected, atol=1e-6)


@pytest.mark.parametrize("role", ["query", "document"])
def test_what_is_in_a_batch_changes_its_vectors_by_rounding_only(load, role):
    encoder = load()
    alone = vectors_of(encoder, TEXTS, role, together=False)
    assert_vectors_close(vectors_of(encoder, TEXTS, role), alone)
    assert_vectors_close(vectors_of(encoder, TEXTS[::-1], role)[::-1], alone)


@pytest.mark.parametrize("role", ["query", "document"])
def test_jina_s_layout_gives_the_vectors_of_its_twin(load, tmp_path, role):
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


def test_rotary_checkpoint_is_marked_with_its_own_tokens(load, jina):
    encoder = load(jina, query_tokens=8, **JINA)
    # <s> 0, <pad> 1, </s> 2, <unk> 3, <mask> 4, the markers 5 and 6, w0 7
    assert encoder.tokenize(["w0"], "query")[0].windows[0].tolist() == [0, 5, 7, 2, 4, 4, 4, 4]
    assert encoder.tokenize(["w0"], "document")[0].windows[0].tolist() == [0, 6, 7, 2]


@pytest.mark.parametrize(
    "changed",
    [
        {"position_embedding_type": "absolute"},
        {"lora_adaptations": ["a"]},
        {"rotary_emb_interleaved": True},
        {"rotary_emb_dim": 4},
    ],
    ids=str,
)
def test_what_the_rotary_network_does_not_do_is_refused(load, jina, tmp_path, changed):
    other = shutil.copytree(jina, tmp_path / "other")
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps(config | changed))
    with pytest.raises(InputError, match=f"found .*{next(iter(changed))}"):
        load(other, **JINA)


CHECKPOINTS = {
    "stanford": (save_colbert, {}),
    "stanford, masks are attended to": (save_colbert, {"attend_to_mask_tokens": True}),
    "stanford, other lengths, punctuation kept": (
        save_colbert,
        {"query_maxlen": 12, "mask_punctuation": False},
    ),
    "pylate": (save_pylate, {}),
    "pylate, masks are attended to": (save_pylate, {"attend_to_expansion_tokens": True}),
    "pylate, not filled up": (save_pylate, {"do_query_expansion": False, "query_length": 12}),
    "pylate, other words skipped": (save_pylate, {"skiplist_words": ["w1", "."]}),
    "pylate, no markers, prompts": (
        save_pylate,
        {"query_prefix": "", "document_prefix": "", "prompts": {"query": "w7 ", "document": "w8 "}},
    ),
    "pylate, bias": (save_pylate, {"dense": {"bias": True}}),
    "pylate, residual": (save_pylate, {"dense": {"bias": True, "use_residual": True}}),
    "pylate, function": (
        save_pylate,
        {"dense": {"activation_function": "torch.nn.modules.activation.Tanh"}},
    ),
}


@pytest.fixture(scope="module", params=[*CHECKPOINTS, "no mask token", "sentence-transformers"])
def any_layout(request, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("layout")
    if request.param in CHECKPOINTS:
        save, fields = CHECKPOINTS[request.param]
        return save(folder, **fields)
    saved = save_colbert(folder / "stanford")
    if request.param == "no mask token":
        config = json.loads((saved / "tokenizer_config.json").read_text())
        del config["mask_token"]
        (saved / "tokenizer_config.json").write_text(json.dumps(config))
        return saved
    theirs = MultiVectorEncoder(str(saved), device="cpu")
    theirs[0].query_expansion = {"strategy": "min", "length": 12}
    theirs[0].query_length = 20
    theirs.save(str(folder / "saved"))
    return folder / "saved"


@pytest.mark.parametrize("role", ["query", "document"])
def test_vectors_are_those_of_sentence_transformers(load, any_layout, role):
    theirs = MultiVectorEncoder(str(any_layout), device="cpu")
    theirs[0].document_length = 32
    encode = theirs.encode_query if role == "query" else theirs.encode_document
    expected = encode(TEXTS, convert_to_numpy=True, normalize_embeddings=True)
    ours = vectors_of(load(any_layout), TEXTS, role=role)
    for found, vectors in zip(ours, expected, strict=True):
        np.testing.assert_allclose(found, vectors, atol=1e-6)


def test_a_function_of_elsewhere_in_the_projection_is_refused(load, tmp_path):
    with pytest.raises(InputError, match=r"activation_function 'mine\.Own'; supported: classes of"):
        load(save_pylate(tmp_path, dense={"activation_function": "mine.Own"}))


def test_a_checkpoint_without_projection_is_refused(load, colbert, tmp_path):
    other = shutil.copytree(colbert, tmp_path / "other")
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps(config | {"architectures": ["BertModel"]}))
    with pytest.raises(InputError, match=r"no projection; expected a tensor linear\.weight"):
        load(other)


def test_a_marker_that_the_vocabulary_lacks_is_refused(load, tmp_path):
    with pytest.raises(InputError, match=r"no token '\[Q\]', the marker"):
        load(save_pylate(tmp_path, query_prefix="[Q] "))


@pytest.mark.parametrize("fields", [{"max_tokens": 65}, {"query_tokens": 65}], ids=str)
def test_more_tokens_than_positions_are_refused(load, fields):
    with pytest.raises(InputError, match=f"{next(iter(fields))} 65 is more than its 64 positions"):
        load(**fields)


def test_dimensions_that_are_not_the_checkpoint_s_are_refused(load):
    assert vectors_of(load(dim=16), TEXTS[:1])[0].shape[1] == 16
    with pytest.raises(InputError, match="dim 8, and its vectors have 16 dimensions"):
        load(dim=8)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_reduced_formats_stay_close_to_float32(load, dtype):
    pairs = zip(vectors_of(load(), TEXTS), vectors_of(load(dtype=dtype), TEXTS), strict=True)
    for exact, reduced in pairs:
        assert reduced.dtype == np.float32
        assert (exact * reduced).sum(axis=1).min() > 0.99
        assert not np.array_equal(exact, reduced)


@pytest.mark.parametrize(
    "changed",
    [
        {"max_tokens": 16},
        {"query_tokens": 16},
        {"dtype": "bfloat16"},
    ],
    ids=str,
)
def test_fingerprint_changes_with_what_decides_the_vectors(load, changed):
    assert load(**changed).fingerprint != load().fingerprint


def test_fingerprint_does_not_change_with_presentation_or_prompts(load):
    changed = {"description": "other", "query_prompt": "w1 "}
    assert load(**changed).fingerprint == load().fingerprint


def test_the_salt_tells_a_query_from_a_document_of_the_same_text(load):
    encoder = load(query_prompt="q: ")
    assert encoder.salt("query") == "q: \0query"
    assert encoder.salt("document") == "\0document"
