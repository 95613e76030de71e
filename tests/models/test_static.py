import random

import numpy as np
import pytest
import torch
from encoder_references import encode, unit
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize
from tiny_checkpoints import entry_of, save_bert, save_model2vec, save_static

from psibench.errors import InputError
from psibench.models.load import load_encoder, load_tokens_only
from psibench.models.static import StaticEncoder


def static(checkpoint, **fields) -> StaticEncoder:
    entry = entry_of(checkpoint, backend="static-embeddings", **fields)
    return load_encoder(entry, device="cpu")


@pytest.fixture(scope="module")
def control() -> StaticEncoder:
    return static("embedded:all-MiniLM-L6-v2")


def test_vector_is_the_unit_mean_of_the_word_embeddings(tiny_bert):
    encoder = static(tiny_bert)
    # w1, w2 and w2 have the ids 5, 6 and 6.
    mean = encoder.embeddings[[5, 6, 6]].mean(axis=0)
    expected = mean / np.linalg.norm(mean)
    found, nothing = encode(encoder, ["w2 w1 w2", " "])
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_array_equal(nothing, np.zeros(32))
    assert (found.shape, found.dtype) == ((32,), np.float32)


def test_shuffling_words_leaves_every_bit_of_the_vector(control):
    text = (
        "Retrievers tokenise naïve documents unpredictably; evidence-bearing 日本 sentences differ."
    )
    words = text.split() * 40
    shuffled = random.Random(0).sample(words, len(words))
    np.testing.assert_array_equal(
        encode(control, [" ".join(shuffled)]), encode(control, [" ".join(words)])
    )


def test_long_text_is_not_truncated(control):
    text = " ".join(["cat"] * 1999 + ["dog"])
    (item,) = control.tokenize([text], "document")
    assert (item.n_tokens, item.visible_char_end) == (2000, len(text))
    assert not np.array_equal(encode(control, [text]), encode(control, ["cat"]))


def test_fingerprint_follows_the_checkpoint_only(tiny_bert, tmp_path):
    plain = static(tiny_bert)
    assert static(tiny_bert, description="x", query_prompt="w1 ").fingerprint == plain.fingerprint
    assert static(save_bert(tmp_path, seed=1)).fingerprint != plain.fingerprint


# --- Checkpoints of static embeddings

LONG = " ".join(f"w{i % 60}" for i in range(600))
TEXTS = ["w1 w2 w2", "w7 unknown w8", LONG]


def dense() -> Dense:
    torch.manual_seed(0)
    return Dense(16, 12, activation_function=torch.nn.Tanh())


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"modules": [Normalize()]},
        {"modules": [dense(), Normalize()]},
        {"cut_at": 5},
        {"truncate_dim": 6, "modules": [Normalize()]},
        {"prompts": {"query": "w3 w4 ", "document": "w5 "}},
    ],
    ids=["mean", "unit mean", "dense layer", "cut texts", "cut vectors", "prompts"],
)
@pytest.mark.parametrize("role", ["query", "document"])
def test_vectors_equal_sentence_transformers_for_static_embeddings(tmp_path, stored, role):
    folder = save_static(tmp_path, **stored)
    library = SentenceTransformer(str(folder), device="cpu")
    expected = getattr(library, f"encode_{role}")(TEXTS)
    found = encode(static(folder), TEXTS, role)
    np.testing.assert_allclose(found, unit(expected.astype(np.float64)), atol=1e-6)


def test_tokenizer_limit_ends_the_visible_part(tmp_path):
    encoder = static(save_static(tmp_path, cut_at=5))
    (item,) = encoder.tokenize(["w1 w2 w3 w4 w5 w6"], "document")
    assert (item.n_tokens, item.visible_char_end, encoder.max_tokens) == (5, 14, 5)


def test_whole_texts_lifts_the_limit_of_the_tokenizer(tmp_path):
    folder = save_static(tmp_path, cut_at=5)
    whole = static(folder, whole_texts=True, control="position-blind")
    (item,) = whole.tokenize([LONG], "document")
    assert (item.n_tokens, item.visible_char_end, whole.max_tokens) == (600, len(LONG), None)
    assert whole.fingerprint != static(folder).fingerprint


@pytest.mark.parametrize(
    ("save", "fields", "limit"),
    [
        (lambda folder: save_static(folder, cut_at=5), {}, "sentence-transformers .* first 5 "),
        (save_model2vec, {"library": "model2vec"}, "model2vec .* first 512 "),
    ],
)
def test_position_blind_control_that_cuts_texts_is_refused(tmp_path, save, fields, limit):
    with pytest.raises(InputError, match=f"{limit}.*set `whole_texts: true`"):
        static(save(tmp_path), control="position-blind", **fields)


def table_of(folder) -> np.ndarray:
    """The embedding of each token: its vector times its weight."""
    stored = {name: tensor.double().numpy() for name, tensor in load_file(folder).items()}
    return stored["embeddings"][stored["mapping"].astype(int)] * stored["weights"][:, None]


@pytest.mark.parametrize("library", ["sentence-transformers", "model2vec"])
def test_mapping_and_weights_of_model2vec_are_used(tmp_path, library):
    table = table_of(save_model2vec(tmp_path) / "model.safetensors")
    # w1 and w2 have the ids 5 and 6, an unknown word 1, which model2vec leaves out.
    rows = [5, 6, 6] if library == "model2vec" else [5, 1, 6, 6]
    found = encode(static(tmp_path, library=library), ["w1 unknown w2 w2"])
    np.testing.assert_allclose(found[0], unit(table[rows].mean(axis=0)), atol=1e-6)


@pytest.mark.parametrize(
    ("config", "n_tokens", "visible"),
    [
        # The median word has 3 characters, so characters are cut first: 512 x 3 = 1,536 are 394
        # words, since 10 words have 2 characters, 50 have 3, and each a space.
        ({}, 0, 1536),
        ({"max_length": 4}, 4, 12),  # "w0 w1 w2 w3 "
        ({"max_length": None}, 600, len(LONG)),
    ],
)
def test_model2vec_cuts_characters_then_tokens(tmp_path, config, n_tokens, visible):
    encoder = static(save_model2vec(tmp_path, **config), library="model2vec")
    (item,) = encoder.tokenize([LONG], "document")
    assert item.n_tokens == (n_tokens or len(LONG[:1536].split()))
    assert item.visible_char_end == visible


def test_static_dimensions_are_cut_and_change_the_fingerprint(tmp_path):
    folder = save_static(tmp_path)
    short, whole = static(folder, dimensions=6), static(folder)
    expected = unit(encode(whole, TEXTS).astype(np.float64)[:, :6])
    np.testing.assert_allclose(encode(short, TEXTS), expected, atol=1e-6)
    assert short.fingerprint != whole.fingerprint
    with pytest.raises(InputError, match="dimensions is 17, but its vectors have 16"):
        static(folder, dimensions=17)


def bytes_as_numbers(folder) -> None:
    path = folder / "model.safetensors"
    save_file({"embedding.weight": load_file(path)["embedding.weight"].to(torch.int8)}, path)


def fewer_embeddings(folder) -> None:
    path = folder / "model.safetensors"
    save_file({"embedding.weight": load_file(path)["embedding.weight"][:60].clone()}, path)


def no_embeddings(folder) -> None:
    save_file({"other": torch.ones(2)}, folder / "model.safetensors")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (bytes_as_numbers, r"embedding\.weight has torch\.int8 numbers"),
        (fewer_embeddings, "has 64 words, numbered up to 63, but there are 60 embeddings"),
        (no_embeddings, "found none of the needed tensors"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "cannot be loaded"),
    ],
    ids=["int8", "another tokenizer", "no table", "no tokenizer"],
)
def test_damaged_static_embeddings_are_refused(tmp_path, damage, said):
    folder = save_static(tmp_path)
    damage(folder)
    with pytest.raises(InputError, match=said):
        static(folder)


@pytest.mark.parametrize("load", [lambda e: load_encoder(e, device="cpu"), load_tokens_only])
@pytest.mark.parametrize(
    "fields",
    [
        {"max_tokens": 64, "windows": {"tokens": 32, "overlap": 8}},
        {"max_tokens": 64, "late_chunking": {"tokens": 32, "overlap": 8}},
        {"backend": "flag-embedding"},
        {"backend": "colbert"},
        {"backend": "sparse-encoder"},
    ],
    ids=lambda fields: fields.get("backend", list(fields)[-1]),
)
def test_static_embeddings_are_refused_by_other_backends(tmp_path, fields, load):
    entry = entry_of(save_static(tmp_path), **fields)
    with pytest.raises(InputError, match=r"has static embeddings .*`backend: static-embeddings"):
        load(entry)


@pytest.mark.parametrize(
    "fields", [{"library": "model2vec"}, {"whole_texts": True}, {"dimensions": 8}]
)
def test_keys_of_static_checkpoints_are_refused_for_transformers(tiny_bert, fields):
    with pytest.raises(InputError, match=f"{next(iter(fields))} is .* this is a transformer"):
        static(tiny_bert, **fields)


def test_older_results_of_word_embeddings_stay_valid():
    entry = entry_of("owner/name", backend="static-embeddings")
    assert not {"library", "whole_texts", "dimensions"} & entry.model_dump().keys()


@pytest.mark.parametrize(
    ("fields", "kind"), [({}, "dense"), ({"control": "position-blind"}, "control")]
)
def test_kind_of_static_embeddings_follows_control(fields, kind):
    assert entry_of("owner/name", backend="static-embeddings", **fields).kind == kind
