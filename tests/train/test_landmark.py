import json

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from tiny_checkpoints import entry_of, save_bert
from tiny_training import base_of, train

from psibench.errors import InputError
from psibench.models.load import load_encoder
from psibench.train.finetune import load_base
from psibench.train.sections import Base

CLS, SEP = 2, 3
FIRST = 4  # w0


def encoder_of(folder, **fields):
    return load_encoder(entry_of(folder, **fields), device="cpu")


def ids_of(encoder, text):
    (item,) = encoder.tokenize([text], "document")
    return item.windows[0].tolist()


@pytest.fixture(scope="module")
def bert_without_specials(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bare-bert")
    return save_bert(folder, template="$A")


@pytest.mark.parametrize(
    ("n_words", "expected"),
    [
        (1, [CLS, FIRST, SEP]),
        (2, [CLS, FIRST, FIRST, SEP]),  # the tokenizer's own separator is the last landmark
        (3, [CLS, FIRST, FIRST, SEP, FIRST, SEP]),
        (5, [CLS, *[FIRST, FIRST, SEP] * 2, FIRST, SEP]),
        (40, [CLS, *[FIRST, FIRST, SEP] * 3, FIRST, SEP]),  # cut to 12: 7 words and 4 landmarks
    ],
)
def test_a_landmark_stands_behind_every_chunk(tiny_bert, n_words, expected):
    encoder = encoder_of(tiny_bert, pooling="landmark", landmark={"chunk_tokens": 2}, max_tokens=12)
    assert ids_of(encoder, " ".join(["w0"] * n_words)) == expected


def test_a_tokenizer_that_adds_nothing_gets_its_last_landmark_too(bert_without_specials):
    encoder = encoder_of(
        bert_without_specials, pooling="landmark", landmark={"chunk_tokens": 3}, max_tokens=8
    )
    assert ids_of(encoder, "w0 w0 w0 w0") == [FIRST] * 3 + [SEP, FIRST, SEP]
    assert ids_of(encoder, " ".join(["w0"] * 9)) == [FIRST] * 3 + [SEP] + [FIRST] * 3 + [SEP]


@pytest.mark.parametrize("max_tokens", [8, 9, 21, 39])
@pytest.mark.parametrize("chunk_tokens", [1, 5, 30])
def test_a_cut_text_fills_its_room_and_never_more(tiny_bert, max_tokens, chunk_tokens):
    landmark = {"chunk_tokens": chunk_tokens}
    encoder = encoder_of(tiny_bert, pooling="landmark", landmark=landmark, max_tokens=max_tokens)
    ids = ids_of(encoder, " ".join(["w0"] * 50))
    # one more word might need a landmark of its own
    assert max_tokens - 1 <= len(ids) <= max_tokens
    assert ids[-1] == SEP
    assert ids[-2] == FIRST


def test_the_vector_is_the_mean_of_the_landmarks(tiny_bert):
    encoder = encoder_of(tiny_bert, pooling="landmark", landmark={"chunk_tokens": 2})
    import torch

    ids = ids_of(encoder, "w5 w6 w7 w8 w9")
    states = encoder.model.transformer(input_ids=torch.tensor([ids])).last_hidden_state[0]
    mean = states[[i for i, token in enumerate(ids) if token == SEP]].mean(dim=0)
    expected = (mean / mean.norm()).detach().numpy()
    (item,) = encoder.tokenize(["w5 w6 w7 w8 w9"], "document")
    (long,) = encoder.tokenize(["w5 " * 20], "document")
    found = encoder.forward([item.windows[0], long.windows[0]], [item.content[0], long.content[0]])
    assert found[0][0] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("chunks", [[], [1, 2, 7]], ids=["fixed", "varied"])
def test_a_trained_model_has_its_landmarks_here_and_in_the_library(
    pool, tiny_bert, tmp_path, chunks
):
    base = base_of(
        tiny_bert, pooling="landmark", landmark={"chunk_tokens": 4}, landmark_chunks=chunks
    )
    train(pool, tmp_path, base)
    loss = json.loads((tmp_path / "model" / "model.json").read_text())["loss"]
    assert np.mean(loss[-4:]) < np.mean(loss[:4])
    assert "trust_remote_code=True" in (tmp_path / "model" / "README.md").read_text()
    library = SentenceTransformer(str(tmp_path / "model"), device="cpu", trust_remote_code=True)
    texts = ["w5 w6", " ".join(f"w{n}" for n in range(60))]
    theirs = library.encode_document(texts, normalize_embeddings=True)
    encoder = encoder_of(tmp_path / "model", max_tokens=48)
    items = encoder.tokenize(texts, "document")
    ours = [encoder.forward([i.windows[0]], [i.content[0]])[0][0] for i in items]
    assert [len(item.windows[0]) for item in items] == [4, 48]
    assert np.array(ours) == pytest.approx(theirs, abs=1e-5)
    plain = encoder_of(tmp_path / "model", max_tokens=48, pooling="mean")
    (item,) = plain.tokenize(texts[1:], "document")
    assert np.abs(plain.forward([item.windows[0]], [item.content[0]])[0][0] - ours[1]).max() > 1e-3


def test_chunks_vary_in_training_alone(tiny_bert):
    base = base_of(tiny_bert, pooling="landmark", landmark_chunks=[1, 2, 7])
    network = load_base(Base.model_validate(base), device="cpu")
    texts = [f"w{n} " * 14 for n in range(20)]

    def counts():
        ids = network.preprocess(texts)["input_ids"]
        return {int((row == SEP).sum()) for row in ids}

    network.eval()
    assert counts() == {1}  # 14 words in a chunk of 128
    network.train()
    assert counts() == {14, 7, 2}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"landmark": {"token": "w1"}}, "landmark token 'w1' is no special token"),
        ({"landmark": {"token": "[SEP]"}, "max_tokens": 65}, "more than its 64 positions"),
    ],
)
def test_landmarks_that_cannot_be_are_refused(tiny_bert, fields, message):
    with pytest.raises(InputError, match=message):
        encoder_of(tiny_bert, pooling="landmark", **fields)
