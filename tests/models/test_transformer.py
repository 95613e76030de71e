import shutil

import numpy as np
import pytest
from encoder_references import states_of, unit, vectors_of
from sentence_transformers import SentenceTransformer
from tiny_checkpoints import save_bert

from psibench.errors import InputError
from psibench.models.checkpoints import checkpoint_folder

TEXTS = ["w1", "w2 w3 w4 w5 w6 w7 w8 w9 w10 w11 w12 w13 w14 w15 w16 w17", "", "w40 w41"]
SENTENCES = [
    "A cat sat on the mat.",
    "",
    "Retrievers often look at the beginning of a document only. " * 9,
    "日本語の文とnaïve café \U0001f600",
]


def test_real_model_vectors_equal_sentence_transformers(minilm):
    library = SentenceTransformer(str(checkpoint_folder(minilm.entry)), device="cpu")
    reference = library.encode(SENTENCES, normalize_embeddings=True)
    ours = np.concatenate(vectors_of(minilm, SENTENCES))
    np.testing.assert_allclose(ours, reference, atol=1e-6)
    assert ours.dtype == np.float32


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        ("mean", lambda hidden: hidden.mean(axis=0)),
        ("cls", lambda hidden: hidden[0]),
        ("max", lambda hidden: hidden.max(axis=0)),
        ("lasttoken", lambda hidden: hidden[-1]),
        ("checkpoint", lambda hidden: hidden.mean(axis=0)),  # mean where nothing is declared
    ],
)
def test_pooling_modes_match_their_formulas(load_tiny, pooling, expected):
    encoder = load_tiny(pooling=pooling)
    for text, (vector,) in zip(TEXTS, vectors_of(encoder, TEXTS), strict=True):
        np.testing.assert_allclose(vector, unit(expected(states_of(encoder, text))), atol=1e-6)


def test_token_vectors_are_unit_hidden_states_without_special_tokens(load_tiny):
    encoder = load_tiny(scoring="maxsim")
    vectors = vectors_of(encoder, ["w1 w2 w3", "", "w4"])
    assert [v.shape for v in vectors] == [(3, 32), (0, 32), (1, 32)]
    hidden = states_of(encoder, "w1 w2 w3")
    np.testing.assert_allclose(vectors[0], unit(hidden[1:-1]), atol=1e-6)


def test_fingerprint_changes_with_settings_that_decide_vectors(load_tiny):
    windows = {"tokens": 16, "overlap": 4}
    entries = [
        {},
        {"max_tokens": 16},
        {"pooling": "cls"},
        {"scoring": "maxsim"},
        {"append": "[SEP]"},
        {"late_chunking": windows},
        *({"windows": windows | own} for own in ({}, {"pool": "mean"}, {"keep": "head-and-tail"})),
    ]
    assert len({load_tiny(**fields).fingerprint for fields in entries}) == len(entries)


def test_fingerprint_ignores_path_description_and_prompts(load_tiny, tiny_bert, tmp_path):
    encoder = load_tiny()
    copy = shutil.copytree(tiny_bert, tmp_path / "copy")
    other = load_tiny(copy, description="x", query_prompt="w1 ", tokens_per_batch=64)
    assert other.fingerprint == encoder.fingerprint
    assert (other.salt("query"), other.salt("document")) == ("w1 ", "")
    trained = load_tiny(save_bert(tmp_path / "trained", seed=1))
    reduced = load_tiny(dtype="bfloat16")
    assert len({encoder.fingerprint, reduced.fingerprint, trained.fingerprint}) == 3


@pytest.mark.parametrize(
    ("checkpoint", "positions"), [("tiny_bert", 64), ("tiny_roberta", 32), ("tiny_gpt2", 64)]
)
def test_longest_input_is_accepted_and_one_more_token_refused(
    load_tiny, checkpoint, positions, request
):
    folder = request.getfixturevalue(checkpoint)
    encoder = load_tiny(folder, max_tokens=positions)
    (item,) = encoder.tokenize(["w1 " * 200], "document")
    assert len(item.windows[0]) == positions
    assert encoder.forward(item.windows, item.content)[0].shape == (1, 32)
    with pytest.raises(InputError, match=f"max_tokens is {positions + 1}, .*only {positions} "):
        load_tiny(folder, max_tokens=positions + 1)


def test_unknown_hub_name_is_named(load_tiny):
    with pytest.raises(InputError, match=r"'nobody/nothing-here'.*the hub does not answer"):
        load_tiny("nobody/nothing-here")


def test_pooling_without_prompts_is_refused_with_a_prompt(load_tiny, tiny_bert, tmp_path):
    model = SentenceTransformer(str(tiny_bert), device="cpu")
    model[1].include_prompt = False
    model.save_pretrained(str(tmp_path))
    with pytest.raises(InputError, match="excludes the prompt's tokens"):
        load_tiny(tmp_path, query_prompt="w1 ")
    assert load_tiny(tmp_path).entry.query_prompt == ""
