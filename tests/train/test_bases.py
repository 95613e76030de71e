"""The kinds of the paper's bases, tiny and random, trained, cut and encoded."""

import json

import pytest
import torch
import transformers
from sentence_transformers import SentenceTransformer
from tiny_checkpoints import DECODER_VOCABULARY, entry_of, save_tokenizer
from tiny_training import SETTINGS, base_of

from psibench.models.load import load_encoder
from psibench.train.finetune import run_train_model
from psibench.train.sections import Base, Settings

SIZES = {"vocab_size": len(DECODER_VOCABULARY), "pad_token_id": 0}
COMMON = SIZES | {
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 128,
}
KINDS = {
    "Bert": (COMMON, "cls"),
    "Longformer": (COMMON | {"attention_window": [8] * 4}, "mean"),
    "ModernBert": (COMMON | {"global_attn_every_n_layers": 2, "local_attention": 8}, "cls"),
    "GPT2": (SIZES | {"n_positions": 128, "n_embd": 32, "n_layer": 4, "n_head": 4}, "lasttoken"),
    "Bloom": (SIZES | {"hidden_size": 32, "n_layer": 4, "n_head": 4}, "lasttoken"),
    "Llama": (COMMON | {"num_key_value_heads": 2}, "lasttoken"),
    "Qwen3": (COMMON | {"num_key_value_heads": 2, "head_dim": 8}, "lasttoken"),
}


def save(folder, kind, config):
    torch.manual_seed(0)
    model = getattr(transformers, f"{kind}Model")(getattr(transformers, f"{kind}Config")(**config))
    model.save_pretrained(folder)
    is_decoder = KINDS[kind][1] == "lasttoken"
    template = "$A" if is_decoder else "[CLS] $A [SEP]"
    side = "left" if is_decoder else "right"
    save_tokenizer(folder, vocabulary=DECODER_VOCABULARY, template=template, padding_side=side)
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_base_is_cut_trained_saved_and_encoded_alike(pool, tmp_path, kind):
    config, pooling = KINDS[kind]
    folder = save(tmp_path / "base", kind, config)
    if kind == "GPT2":  # which has no padding token
        path = folder / "tokenizer_config.json"
        settings = json.loads(path.read_text())
        del settings["pad_token"]
        path.write_text(json.dumps(settings | {"eos_token": "<|endoftext|>"}))
    prompt = "Retrieve a relevant passage: "
    base = base_of(folder, pooling=pooling, layers=2, query_prompt=prompt, max_tokens=32)
    run_train_model(
        Base.model_validate(base), Settings.model_validate(SETTINGS | {"epochs": 1}),
        distribution="uniform", seed=1, sampling_seed=42, device="cpu", **pool,
        work=str(tmp_path / "work"), model=str(tmp_path / "model" / "model.json"),
    )  # fmt: skip
    saved = transformers.AutoConfig.from_pretrained(tmp_path / "model")
    assert saved.num_hidden_layers == 2
    library = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    texts = ["w5 w6", " ".join(f"w{n}" for n in range(60))]
    theirs = library.encode_query(texts, normalize_embeddings=True)
    encoder = load_encoder(entry_of(tmp_path / "model", max_tokens=32), device="cpu")
    items = encoder.tokenize(texts, "query")
    ours = [encoder.forward([i.windows[0]], [i.content[0]])[0][0] for i in items]
    for one, other in zip(ours, theirs, strict=True):
        assert one == pytest.approx(other, abs=1e-5)
