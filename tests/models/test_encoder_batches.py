"""What else is in a batch, and how it is padded, change a vector by rounding only."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from closeness import assert_vectors_close
from encoder_references import inputs_of, vectors_of
from tiny_architectures import (
    save_bidirectional_llama,
    save_bidirectional_qwen2,
    save_jina_v4,
    save_new_type_gte,
    save_nv_embed,
    save_qwen3_embedding,
)

from psibench.errors import InputError
from psibench.models.checkpoints import checkpoint_folder
from psibench.models.networks import load_network

TEXTS = ["w1", " ".join(f"w{i}" for i in range(19)), "w5 w4 w3", "w9 w8 " * 30, "w2 w3"]
KINDS = {
    "gte": (save_new_type_gte, {"architecture": "gte"}),
    "qwen2": (save_bidirectional_qwen2, {"architecture": "bidirectional"}),
    "llama": (save_bidirectional_llama, {"architecture": "bidirectional"}),
    "nv-embed": (save_nv_embed, {"architecture": "nv-embed"}),
    "jina-v4": (save_jina_v4, {"architecture": "jina-v4"}),
    "qwen3": (save_qwen3_embedding, {}),
}


@pytest.fixture(scope="module")
def load_kind(tmp_path_factory, load_tiny, tiny_bert, tiny_roberta, tiny_gpt2):
    folders = {"bert": tiny_bert, "roberta": tiny_roberta, "gpt2": tiny_gpt2}

    def load(kind: str, **fields):
        save, own = KINDS.get(kind, (None, {}))
        if kind not in folders:
            folders[kind] = save(tmp_path_factory.mktemp(kind) / "m")
        return load_tiny(folders[kind], **own, **fields)

    return load


@pytest.mark.parametrize(
    ("kind", "scoring"),
    [*((kind, "cosine") for kind in ["roberta", "gpt2", *KINDS]), ("bert", "maxsim")],
)
def test_order_and_partners_change_a_vector_by_rounding_only(load_kind, kind, scoring):
    """The fourth text is cut to max_tokens, so that it fills all places of length 32."""
    encoder = load_kind(kind, scoring=scoring)
    windows, content = inputs_of(encoder, TEXTS)
    assert [len(window) for window in windows][3] == 32
    alone = vectors_of(encoder, TEXTS, together=False)
    assert_vectors_close(encoder.forward(windows[::-1], content[::-1])[::-1], alone)


@pytest.mark.parametrize("fields", [{}, {"windows": {"tokens": 16, "overlap": 2}}])
def test_appended_tokens_are_at_the_very_end_and_inside_max_tokens(load_kind, fields):
    encoder = load_kind("llama", append="<|im_end|><eos>", **fields)
    plain = load_kind("llama", **fields)
    for text in ("w1 w2", "", " ".join(["w5"] * 50)):
        (item,), (without,) = (e.tokenize([text], "document") for e in (encoder, plain))
        longest = fields.get("windows", {}).get("tokens", 32)
        for window, keep in zip(item.windows, item.content, strict=True):
            assert window[-2:].tolist() == [67, 69]
            assert window[0] == 64  # <s>
            assert not keep[-2:].any()
            assert len(window) <= longest
        if fields:  # windows reach to the end
            assert item.visible_char_end == len(text)
        else:
            cut = 29 * 3 - 1  # 32 places less <s> and two appended ones
            assert item.visible_char_end == min(len(text), cut)
            assert without.visible_char_end == min(len(text), 31 * 3 - 1)


def test_tokens_appended_by_the_tokenizer_are_not_doubled(load_kind):
    encoder = load_kind("qwen3", append="<|endoftext|>")
    (item,) = encoder.tokenize(["w1"], "document")
    assert item.windows[0].tolist() == [5, 66]


@pytest.mark.parametrize(
    ("append", "message"), [("w1", "must consist of"), ("<eos>" * 40, "leaves none of the")]
)
def test_tokens_that_cannot_be_appended_are_refused(load_kind, append, message):
    with pytest.raises(InputError, match=message):
        load_kind("llama", append=append)


@pytest.mark.parametrize("kind", ["bert", "nv-embed", "jina-v4", "qwen3"])
def test_weights_have_the_requested_format_and_angles_float32(load_kind, kind):
    """As on a GPU, where no autocast is needed then."""
    encoder = load_kind(kind)
    folder = checkpoint_folder(encoder.entry)
    network = load_network(encoder.entry, folder, device="cpu", weights="bfloat16")
    half = network.transformer
    assert {parameter.dtype for parameter in half.parameters()} == {torch.bfloat16}
    angles = [buffer.dtype for name, buffer in half.named_buffers() if "inv_freq" in name]
    assert set(angles) <= {torch.float32}
    reduced = replace(encoder, model=network, dtype="bfloat16")
    assert reduced.fingerprint != replace(encoder, dtype="bfloat16").fingerprint
    pairs = zip(vectors_of(reduced, TEXTS), vectors_of(encoder, TEXTS), strict=True)
    for a, b in pairs:
        assert a.dtype == np.float32
        assert 0.99 < (a * b).sum() < 1.000001
