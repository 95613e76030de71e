"""Tiny reranker checkpoints with random weights, saved to a folder."""

import json
from pathlib import Path

import stored_networks
import torch
from safetensors.torch import load_file, save_file
from stored_networks import (
    GTE,
    JINA_BERT,
    SIZES,
    flash_weights,
    gte_weights,
    jina_bert_weights,
    linear_weights,
    save_word_tokenizer,
)

WORDS = [f"w{i}" for i in range(60)]
ANSWERS = ["Yes", "No", "yes", "no", "0", "4"]  # 0 and 4 end templates in CrossEncoder
SENTENCE = ["Given", "a", "query", "A", "and", "passage", "B", ":", ".", "'", ",", "determine"]
QWEN3_SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<unk>"]


def save_tokenizer(folder: Path, special: list[str], **options) -> int:
    """Save a word-level tokenizer; returns the size of its vocabulary."""
    words = [*special, *WORDS, *ANSWERS, *SENTENCE, "\n"]
    return save_word_tokenizer(folder, words, pattern=r"\n|\w+|[^\w\s]", **options)


def save_roberta_tokenizer(folder: Path) -> int:
    return save_tokenizer(
        folder,
        ["<s>", "<pad>", "</s>", "<unk>"],
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        bos_token="<s>", eos_token="</s>", cls_token="<s>", sep_token="</s>",
        pad_token="<pad>", unk_token="<unk>", model_input_names=["input_ids", "attention_mask"],
    )  # fmt: skip


def save_bert_tokenizer(folder: Path, *, types: bool = True) -> int:
    names = ["input_ids", "attention_mask", "token_type_ids"]
    return save_tokenizer(
        folder,
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]"],
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]", unk_token="[UNK]",
        model_input_names=names if types else names[:2],
    )  # fmt: skip


def save_llama_tokenizer(folder: Path) -> int:
    return save_tokenizer(
        folder,
        ["<pad>", "<eos>", "<bos>", "<unk>"],
        bos_token="<bos>", eos_token="<eos>", pad_token="<pad>", unk_token="<unk>",
        padding_side="left",
    )  # fmt: skip


def network(kind: str, **config):
    """Make a tiny network of 512 positions, whose scores differ."""
    config = {"max_position_embeddings": 512, "initializer_range": 0.4} | config
    return stored_networks.network(kind, **config)


def save_bert(folder: Path, **config) -> Path:
    size = save_bert_tokenizer(folder)
    config = {"num_labels": 1} | config
    model = network("BertForSequenceClassification", seed=1, vocab_size=size, **config)
    model.save_pretrained(folder)
    return folder


def xlm_roberta(size: int):
    return network(
        "XLMRobertaForSequenceClassification", seed=2, vocab_size=size, num_labels=1,
        max_position_embeddings=514, pad_token_id=1, bos_token_id=0, eos_token_id=2,
        type_vocab_size=1,
    )  # fmt: skip


def save_xlm_roberta(folder: Path) -> Path:
    xlm_roberta(save_roberta_tokenizer(folder)).save_pretrained(folder)
    return folder


def save_modernbert(folder: Path) -> Path:
    model = network(
        "ModernBertForSequenceClassification", seed=3, num_labels=1,
        vocab_size=save_bert_tokenizer(folder, types=False), pad_token_id=0, cls_token_id=2,
        sep_token_id=3, bos_token_id=2, eos_token_id=3, local_attention=8,
        global_attn_every_n_layers=2, classifier_pooling="mean",
    )  # fmt: skip
    model.save_pretrained(folder)
    return folder


def save_flash_xlm_roberta(folder: Path):
    """Save a classifier in jina-reranker-v2's layout; return the same network of transformers."""
    model = xlm_roberta(save_roberta_tokenizer(folder))
    head = {n: t for n, t in model.state_dict().items() if n.startswith("classifier.")}
    save_file(flash_weights(model.roberta) | head, folder / "model.safetensors")
    write_config(
        folder,
        model.config.to_dict()
        | {
            "auto_map": {"AutoConfig": "configuration_xlm_roberta.XLMRobertaFlashConfig"},
            "position_embedding_type": "absolute",
            "use_flash_attn": True,
        },
    )
    return model


def save_gte(folder: Path, **config) -> Path:
    """Save a classifier of model type `new` as gte-multilingual-reranker-base is stored."""
    size = save_roberta_tokenizer(folder)
    hidden = SIZES["hidden_size"]
    torch.manual_seed(4)
    state = gte_weights(size, n_types=1) | linear_weights("pooler.dense", hidden, hidden)
    state = {f"new.{name}": tensor for name, tensor in state.items()}
    state |= linear_weights("classifier", hidden, 1, scale=1.0)
    save_file(state, folder / "model.safetensors")
    write_config(
        folder,
        {
            "architectures": ["NewForSequenceClassification"], "vocab_size": size,
            "max_position_embeddings": 512, "type_vocab_size": 1, "pad_token_id": 1,
            "id2label": {"0": "LABEL_0"}, **SIZES, **GTE,
        } | config,
    )  # fmt: skip
    return folder


SIX_HEADS = {**SIZES, "num_attention_heads": 6, "hidden_size": 48}


def save_jina_bert(folder: Path) -> Path:
    """Save a classifier as jina-reranker-v1-turbo-en is stored; 6 heads: no power of two."""
    size = save_roberta_tokenizer(folder)
    hidden, inner = SIX_HEADS["hidden_size"], SIX_HEADS["intermediate_size"]
    torch.manual_seed(5)
    encoder = jina_bert_weights(size, hidden=hidden, inner=inner)
    state = (
        {f"bert.{name}": tensor for name, tensor in encoder.items()}
        | linear_weights("bert.pooler.dense", hidden, hidden)
        | {"classifier.weight": torch.randn(1, hidden), "classifier.bias": torch.randn(1)}
    )
    save_file(state, folder / "model.safetensors")
    own = {"pad_token_id": 1, "max_position_embeddings": 512, "vocab_size": size}
    write_config(folder, JINA_BERT | SIX_HEADS | own)
    return folder


def save_gemma(folder: Path) -> Path:
    model = network(
        "GemmaForCausalLM", seed=6, vocab_size=save_llama_tokenizer(folder), head_dim=8,
        num_key_value_heads=1, pad_token_id=0, eos_token_id=1, bos_token_id=2,
    )  # fmt: skip
    model.save_pretrained(folder)
    return folder


def save_qwen3(folder: Path, special: list[str] = QWEN3_SPECIAL) -> Path:
    size = save_tokenizer(
        folder, special, eos_token="<|im_end|>", pad_token="<|endoftext|>", unk_token="<unk>",
        additional_special_tokens=["<|im_start|>", "<think>", "</think>"], padding_side="left",
    )  # fmt: skip
    model = network(
        "Qwen3ForCausalLM", seed=7, vocab_size=size, head_dim=8, num_key_value_heads=2,
        pad_token_id=0, eos_token_id=2, bos_token_id=0,
    )  # fmt: skip
    model.save_pretrained(folder)
    return folder


def save_mxbai(folder: Path) -> Path:
    """Save a decoder whose tokenizer knows the answers 0 and 1, and has no first token.

    mxbai-rerank-v2 is Qwen2, whose tokenizer transformers makes anew, without the words here.
    """
    return save_qwen3(folder, [*QWEN3_SPECIAL, "1"])


MINICPM = {
    "model_type": "minicpm", "head_multi": True, "head_type": "simple", "start_layer": 2,
    "scale_emb": 12, "scale_depth": 1.4, "dim_model_base": 16, "rope_theta": 10000.0,
    "rope_scaling": None, "rms_norm_eps": 1e-5, "hidden_act": "silu", "num_key_value_heads": 4,
    "max_position_embeddings": 512, "pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 2,
    **SIZES, "num_hidden_layers": 4,
}  # fmt: skip


def save_minicpm(folder: Path, **config) -> Path:
    """Save a decoder with an output for layers 2 to 4, in two files."""
    size = save_llama_tokenizer(folder)
    hidden, inner = SIZES["hidden_size"], SIZES["intermediate_size"]
    torch.manual_seed(8)
    state = {
        "model.embed_tokens.weight": torch.randn(size, hidden) * 0.1,
        "model.norm.weight": torch.rand(hidden) + 0.5,
    }
    for number in range(4):
        layer = f"model.layers.{number}"
        for part in "qkvo":
            state[f"{layer}.self_attn.{part}_proj.weight"] = torch.randn(hidden, hidden) * 0.3
        for part in ("gate_proj", "up_proj"):
            state[f"{layer}.mlp.{part}.weight"] = torch.randn(inner, hidden) * 0.3
        state[f"{layer}.mlp.down_proj.weight"] = torch.randn(hidden, inner) * 0.3
        for part in ("input_layernorm", "post_attention_layernorm"):
            state[f"{layer}.{part}.weight"] = torch.rand(hidden) + 0.5
    heads = {f"lm_head.{i}.linear_head.weight": torch.randn(1, hidden) for i in range(3)}
    save_file(state, folder / "model-00001-of-00002.safetensors")
    save_file(heads, folder / "model-00002-of-00002.safetensors")
    write_config(folder, MINICPM | {"vocab_size": size} | config)
    return folder


def write_config(folder: Path, config: dict) -> None:
    (folder / "config.json").write_text(json.dumps(config, default=str))


def read_state(folder: Path) -> dict:
    state = {}
    for path in sorted(folder.glob("*.safetensors")):
        state |= load_file(path)
    return state


MINILM = {
    "backend": "sentence-transformers",
    "checkpoint": "embedded:all-MiniLM-L6-v2",
    "max_tokens": 256,
}
CALIBRATION = {"midpoint": 0.4, "slope": 10.0}
# Backend and architecture -> how its checkpoint is made, and the fields of its entry.
CHECKPOINTS = {
    "bert": (save_bert, {"backend": "cross-encoder"}),
    "xlm-roberta": (save_xlm_roberta, {"backend": "cross-encoder"}),
    "modernbert": (save_modernbert, {"backend": "cross-encoder"}),
    "flash-xlm-roberta": (
        save_flash_xlm_roberta,
        {"backend": "cross-encoder", "architecture": "flash-xlm-roberta"},
    ),
    "gte": (save_gte, {"backend": "cross-encoder", "architecture": "gte"}),
    "jina-bert": (save_jina_bert, {"backend": "cross-encoder", "architecture": "jina-bert"}),
    "flag": (save_xlm_roberta, {"backend": "flag"}),
    "flag-llm": (save_gemma, {"backend": "flag-llm"}),
    "mxbai": (save_mxbai, {"backend": "mxbai"}),
    "flag-layerwise": (save_minicpm, {"backend": "flag-layerwise", "cutoff_layer": 3}),
    "qwen3": (save_qwen3, {"backend": "qwen3"}),
}
EMBEDDED = {
    "bm25": {"backend": "bm25", "calibration": CALIBRATION},
    "cosine": {"backend": "bi-encoder", "encoder": MINILM, "calibration": CALIBRATION},
    "maxsim": {
        "backend": "bi-encoder",
        "encoder": MINILM | {"scoring": "maxsim"},
        "calibration": CALIBRATION,
    },
}
