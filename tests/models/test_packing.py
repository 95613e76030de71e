"""Texts packed into one row without padding have the vectors of padded and of single texts."""

import logging

import numpy as np
import pytest
import torch
from closeness import assert_vectors_close
from encoder_references import inputs_of, vectors_of
from stored_networks import network
from tiny_architectures import (
    save_bidirectional_llama,
    save_jina_v4,
    save_new_type_gte,
    save_nomic,
    save_nv_embed,
    save_qwen3_embedding,
)
from tiny_checkpoints import VOCABULARY, save_tokenizer
from torch.nn.functional import scaled_dot_product_attention

from psibench.errors import InputError
from psibench.models import packing
from psibench.models.packing import Kind, Packed, attend_padded, pack_network

TEXTS = ["w1", " ".join(f"w{i}" for i in range(19)), "w5 w4 w3", "w9 w8 " * 30, "", "w2 w3"]
OWN = {
    "bert": ("BertModel", {"max_position_embeddings": 64}),
    "xlm-roberta": (
        "XLMRobertaModel",
        {"max_position_embeddings": 34, "pad_token_id": 1, "type_vocab_size": 1},
    ),
    "modernbert": ("ModernBertModel", {"local_attention": 8, "num_hidden_layers": 4}),
    "mistral": ("MistralModel", {"sliding_window": 5, "num_key_value_heads": 2, "head_dim": 8}),
    "mpnet": ("MPNetModel", {"max_position_embeddings": 34, "pad_token_id": 1}),
    "deberta": ("DebertaV2Model", {"max_position_embeddings": 64}),
}
"""Class of the network, and its config."""
PORTS = {
    "qwen3": (save_qwen3_embedding, {}),
    "llama": (save_bidirectional_llama, {"architecture": "bidirectional"}),
    "gte": (save_new_type_gte, {"architecture": "gte"}),
    "nomic": (save_nomic, {}),
    "nv-embed": (save_nv_embed, {"architecture": "nv-embed"}),
    "jina-v4": (save_jina_v4, {"architecture": "jina-v4"}),
}
PACKED = ["bert", "xlm-roberta", "modernbert", "mistral", "qwen3", "llama", "gte", "nomic"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Save a tiny network of each kind once; its tokenizer's second token is the padding."""
    made = {}

    def folder(kind: str):
        if kind not in made:
            made[kind] = tmp_path_factory.mktemp(kind) / "m"
            if kind in PORTS:
                PORTS[kind][0](made[kind])
            else:
                name, config = OWN[kind]
                spread = {"initializer_range": 0.3, "vocab_size": len(VOCABULARY)}
                special = dict.fromkeys(("bos_token_id", "eos_token_id"), 2)
                network(name, **spread | {"pad_token_id": 1} | special | config).save_pretrained(
                    made[kind]
                )
                save_tokenizer(
                    made[kind], vocabulary=["[CLS]", "[PAD]", "[SEP]", "[UNK]", *VOCABULARY[4:]]
                )
        return made[kind]

    return folder


@pytest.fixture
def load_both(folders, load_tiny, monkeypatch):
    """Load an encoder that may pack, and the same one padded."""

    def load(kind: str, **fields):
        own = PORTS[kind][1] if kind in PORTS else {}
        encoders = []
        for mode in ("always", "never"):
            monkeypatch.setenv("PSIBENCH_PACKING", mode)
            encoders.append(load_tiny(folders(kind), **own | fields))
        return encoders

    return load


@pytest.mark.parametrize("pooling", ["mean", "cls", "max", "lasttoken"])
@pytest.mark.parametrize("kind", PACKED)
def test_packed_vectors_equal_padded_and_single_ones(load_both, kind, pooling):
    packed, padded = load_both(kind, pooling=pooling)
    assert packed.packs
    assert not padded.packs
    found = vectors_of(packed, TEXTS)
    for together in (True, False):
        expected = vectors_of(padded, TEXTS, together=together)
        np.testing.assert_allclose(np.concatenate(found), np.concatenate(expected), atol=1e-5)
    assert packed.fingerprint == padded.fingerprint


@pytest.mark.parametrize(
    "fields",
    [
        {"scoring": "maxsim"},
        {"late_chunking": {"tokens": 16, "overlap": 2}},
        {"windows": {"tokens": 16, "overlap": 3}},
        {"windows": {"tokens": 16, "overlap": 3, "keep": "head-and-tail", "pool": "mean"}},
    ],
    ids=lambda fields: "-".join(fields),
)
@pytest.mark.parametrize("kind", ["xlm-roberta", "qwen3"])
def test_tokens_chunks_and_windows_are_packed_alike(load_both, kind, fields):
    packed, padded = load_both(kind, pooling="mean", **fields)
    assert packed.packs
    results = []
    for encoder in (packed, padded):
        items = encoder.tokenize(TEXTS, "document")
        windows = [window for item in items for window in item.windows]
        content = [content for item in items for content in item.content]
        results.append(encoder.forward(windows, content))
    assert [each.shape for each in results[0]] == [each.shape for each in results[1]]
    assert_vectors_close(*results)


@pytest.mark.parametrize("kind", ["nv-embed", "mpnet", "deberta"])
def test_networks_with_attention_of_their_own_run_padded(load_both, kind, caplog):
    caplog.set_level(logging.INFO, logger="psibench")
    encoder, padded = load_both(kind, pooling="mean" if kind in OWN else "checkpoint")
    assert not encoder.packs
    assert any("texts are padded" in message for message in caplog.messages)
    assert_vectors_close(vectors_of(encoder, TEXTS), vectors_of(padded, TEXTS))


@pytest.mark.parametrize("kind", ["xlm-roberta", "modernbert", "qwen3"])
def test_changing_a_text_changes_no_other_vector(load_both, kind):
    packed, _ = load_both(kind, pooling="mean")
    windows, content = inputs_of(packed, TEXTS)
    before = packed.forward(windows, content)
    changed = [*windows]
    changed[1] = windows[1][::-1].copy()
    after = packed.forward(changed, content)
    assert np.abs(before[1] - after[1]).max() > 1e-3
    assert_vectors_close(before[:1] + before[2:], after[:1] + after[2:])


def test_padding_token_inside_a_text_gets_its_position(load_both):
    """RoBERTa gives it position padding_idx, and does not count it."""
    packed, padded = load_both("xlm-roberta", pooling="mean")
    texts = ["w1 [PAD] w2 w3", "w4 w5"]
    windows, _ = inputs_of(packed, texts)
    assert 1 in windows[0]
    assert_vectors_close(vectors_of(packed, texts), vectors_of(padded, texts, together=False))


def no_offset(monkeypatch):
    """Count positions of XLM-RoBERTa from 0, as sentence-transformers 5.5 to 6.0 did."""
    monkeypatch.setattr(packing, "_learned_positions", lambda _: (34, None))


def no_restart(monkeypatch):
    """Count positions on over the texts."""
    monkeypatch.setattr(
        Packed, "_positions", lambda self, window: np.arange(len(window)) + len(window) // 2
    )


def leaking(monkeypatch):
    """Let the tokens of all texts attend to each other."""

    def attend(query, key, value, segments, kind):
        bounds, slots = torch.tensor([0, len(query)]), torch.arange(len(query))
        whole = packing.Segments((len(query),), bounds, slots)
        return attend_padded(query, key, value, whole, kind)

    packed = packing.Packed
    monkeypatch.setattr(
        packing,
        "Packed",
        lambda network, device, _, padding: packed(network, device, attend, padding),
    )


def wide_window(monkeypatch):
    """Attend to one token more on each side."""
    monkeypatch.setattr(
        packing, "Kind", lambda *fields: Kind(*fields[:5], fields[5] and fields[5] + 1, fields[6])
    )


def no_cause(monkeypatch):
    monkeypatch.setattr(packing, "Kind", lambda *fields: Kind(*fields[:4], False, *fields[5:]))


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        ("xlm-roberta", no_offset), ("bert", no_restart), ("bert", leaking),
        ("qwen3", leaking), ("modernbert", wide_window), ("mistral", wide_window),
        ("qwen3", no_cause),
    ],
)  # fmt: skip
def test_faulty_packing_is_found_and_texts_are_padded(
    folders, load_tiny, monkeypatch, caplog, kind, fault
):
    caplog.set_level(logging.INFO, logger="psibench")
    monkeypatch.setenv("PSIBENCH_PACKING", "always")
    fault(monkeypatch)
    assert not load_tiny(folders(kind)).packs
    assert any("texts are padded" in message for message in caplog.messages)


def test_row_longer_than_the_position_buffers_is_checked_when_loading(folders, load_both):
    """32 positions, as many as XLM-RoBERTa has; a row has 300 tokens."""
    packed, padded = load_both("xlm-roberta", pooling="mean")
    texts = ["w1 w2 w3 w4 w5 w6 w7 w8"] * 30
    assert_vectors_close(vectors_of(packed, texts), vectors_of(padded, texts))


def test_reduced_format_agrees_within_its_bound(folders, load_tiny, monkeypatch):
    monkeypatch.setenv("PSIBENCH_PACKING", "always")
    encoder = load_tiny(folders("bert"), dtype="bfloat16")
    assert encoder.packs
    monkeypatch.setenv("PSIBENCH_PACKING", "never")
    padded = load_tiny(folders("bert"), dtype="bfloat16")
    assert_vectors_close(vectors_of(encoder, TEXTS), vectors_of(padded, TEXTS), dtype="bfloat16")


@pytest.mark.parametrize("name", ["BertModel", "Qwen3Model"])
def test_structure_of_reduced_weights_is_compared_in_float32(name, monkeypatch):
    monkeypatch.setenv("PSIBENCH_PACKING", "always")
    own = {"num_key_value_heads": 2, "head_dim": 8} if name == "Qwen3Model" else {}
    model = network(name, vocab_size=60, initializer_range=0.3, **own).to(torch.bfloat16)
    before = {key: each.clone() for key, each in model.state_dict().items()}
    options = {"device": "cpu", "dtype": "bfloat16", "title": "x"}
    windows = [np.arange(3, 3 + n) for n in (40, 2, 17)]
    assert pack_network(model, tokenize=lambda _: windows, **options) is not None
    assert all(torch.equal(each, before[key]) for key, each in model.state_dict().items())
    positions = packing.Packed._positions
    monkeypatch.setattr(Packed, "_positions", lambda *args: positions(*args)[::-1].copy())
    assert pack_network(model, tokenize=lambda _: windows, **options) is None


def test_gradients_and_library_calls_still_run_padded(load_both):
    packed, padded = load_both("bert", pooling="mean")
    windows, content = inputs_of(packed, TEXTS[:3])
    directions = np.eye(3, 32, dtype=np.float32)
    found, expected = (
        encoder.embedding_gradients(windows, content, directions) for encoder in (packed, padded)
    )
    assert_vectors_close(found, expected)
    assert packed.model.transformer.config._attn_implementation == "sdpa"


def test_texts_are_padded_on_a_cpu_unless_asked(load_tiny, monkeypatch):
    monkeypatch.delenv("PSIBENCH_PACKING", raising=False)
    assert not load_tiny().packs


def test_unknown_packing_mode_is_refused(load_tiny, monkeypatch):
    monkeypatch.setenv("PSIBENCH_PACKING", "on")
    with pytest.raises(InputError, match="'on'; allowed: auto, always, never"):
        load_tiny()


# --- Attention ---

KINDS = [
    Kind(4, 4, 8, 8, causal=False, reach=None, scale=None),
    Kind(4, 2, 8, 8, causal=True, reach=None, scale=0.5),
    Kind(4, 4, 8, 8, causal=False, reach=3, scale=None),
    Kind(4, 1, 8, 8, causal=True, reach=3, scale=None),
    Kind(2, 2, 8, 16, causal=True, reach=None, scale=None),
]


def segments_of(lengths):
    return Packed(None, "cpu", attend_padded, None)._segments([np.empty(n) for n in lengths])


@pytest.mark.parametrize("lengths", [(5, 1, 9, 2), (4, 4, 4)])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_attention_within_texts_equals_a_dense_mask(kind, lengths):
    random = torch.Generator().manual_seed(1)
    shapes = [
        (kind.heads, kind.query_dim), (kind.key_heads, kind.query_dim),
        (kind.key_heads, kind.value_dim),
    ]  # fmt: skip
    query, key, value = (torch.randn(sum(lengths), *each, generator=random) for each in shapes)
    found = attend_padded(query, key, value, segments_of(lengths), kind)
    text = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    behind = torch.arange(sum(lengths))[:, None] - torch.arange(sum(lengths))
    mask = text[:, None] == text
    mask &= behind.abs() <= (sum(lengths) if kind.reach is None else kind.reach)
    mask &= (behind >= 0) | (not kind.causal)
    expected = scaled_dot_product_attention(
        *(each.transpose(0, 1)[None] for each in (query, key, value)),
        attn_mask=mask, scale=kind.scale, enable_gqa=True,
    )  # fmt: skip
    torch.testing.assert_close(found, expected[0].transpose(0, 1), atol=1e-5, rtol=0)


def test_kernels_get_texts_bounds_windows_and_scale(monkeypatch):
    """flash-attn counts a window in tokens to each side, -1 for all, and needs causal, too."""
    calls = []

    def flash(*args, **options):
        calls.append((args[3].tolist(), args[5], options))
        return args[0]

    def varlen(*args, **options):
        calls.append((args[3].tolist(), args[5], options))
        return args[0]

    segments = segments_of((2, 3))
    tokens = [torch.zeros(5, 4, 8)] * 3
    for kind in KINDS[:4]:
        packing._attend_unpadded(flash, packing._flash_options, *tokens, segments, kind)
        packing._attend_unpadded(varlen, packing._torch_options, *tokens, segments, kind)
    assert {(tuple(bounds), longest) for bounds, longest, _ in calls} == {((0, 2, 5), 3)}
    assert [options for _, _, options in calls[0::2]] == [
        {"softmax_scale": None, "causal": False, "window_size": (-1, -1)},
        {"softmax_scale": 0.5, "causal": True, "window_size": (-1, -1)},
        {"softmax_scale": None, "causal": False, "window_size": (3, 3)},
        {"softmax_scale": None, "causal": True, "window_size": (3, 0)},
    ]
    assert [options for _, _, options in calls[1::2]] == [
        {"scale": None, "window_size": (-1, -1)},
        {"scale": 0.5, "window_size": (-1, 0)},
        {"scale": None, "window_size": (3, 3)},
        {"scale": None, "window_size": (3, 0)},
    ]


def test_first_kernel_that_agrees_is_used(monkeypatch):
    def too_wide(query, key, value, segments, kind):
        return attend_padded(query, key, value, segments, Kind(4, 4, 8, 8, False, 65, None))

    def broken(*_):
        raise RuntimeError("no kernel image is available for execution on the device")

    def exact(*args):
        return attend_padded(*args)

    offered = [("wide", too_wide), ("broken", broken), ("exact", exact), ("SDPA", attend_padded)]
    monkeypatch.setattr(packing, "_kernels", lambda _: iter(offered))
    kinds = {Kind(4, 4, 8, 8, causal=False, reach=64, scale=None)}
    assert packing._fastest("cpu", "bfloat16", kinds) == ("exact", exact)
    monkeypatch.setattr(packing, "_kernels", lambda _: iter(offered[:2]))
    assert packing._fastest("cpu", "bfloat16", kinds) == ("SDPA of torch", attend_padded)


def test_attention_setting_is_restored_after_an_error(monkeypatch):
    monkeypatch.setenv("PSIBENCH_PACKING", "always")
    model = network("BertModel", vocab_size=60, max_position_embeddings=64)
    before = model.config._attn_implementation
    packed = pack_network(
        model, device="cpu", dtype="float32", title="x",
        tokenize=lambda _: [np.array([9_999])],
    )  # fmt: skip
    assert packed is None
    assert model.config._attn_implementation == before
