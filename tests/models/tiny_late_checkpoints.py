"""Tiny late-interaction checkpoints with random weights, laid out as their hub repositories are."""

import json
import string
from pathlib import Path

import stored_networks
import torch
from safetensors.torch import save_file
from stored_networks import flash_weights, network, save_word_tokenizer

WORDS = [f"w{i}" for i in range(60)]
SIZES = stored_networks.SIZES | {"initializer_range": 0.4}
DIM = 16
BERT_SPECIAL = ["[PAD]", "[unused0]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ROBERTA_SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "[QueryMarker]", "[DocumentMarker]"]


def save_bge_m3(folder: Path) -> Path:
    """Save an XLM-RoBERTa of 512 usable tokens with FlagEmbedding's two heads."""
    size = save_tokenizer(folder, ROBERTA_SPECIAL[:5], "<s>", "</s>", "<pad>", "<unk>")
    model = network("XLMRobertaModel", seed=11, **_roberta(size))
    model.config.save_pretrained(folder)
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    for name, n_outputs in (("colbert_linear", SIZES["hidden_size"]), ("sparse_linear", 1)):
        head = torch.nn.Linear(SIZES["hidden_size"], n_outputs)
        torch.save(head.state_dict(), folder / f"{name}.pt")
    return folder


def save_colbert(folder: Path, **metadata) -> Path:
    """Save a BERT of 64 positions as colbertv2.0 is stored: 16 dimensions a token."""
    model = _bert(folder)
    state = {f"bert.{name}": tensor for name, tensor in model.state_dict().items()}
    state["linear.weight"] = torch.randn(DIM, SIZES["hidden_size"])
    save_file(state, folder / "model.safetensors")
    _write(folder / "config.json", model.config.to_dict() | {"architectures": ["HF_ColBERT"]})
    declared = {
        "query_token_id": "[unused0]", "doc_token_id": "[unused1]", "query_maxlen": 32,
        "doc_maxlen": 180, "attend_to_mask_tokens": False, "mask_punctuation": True, "dim": DIM,
    }  # fmt: skip
    _write(folder / "artifact.metadata", declared | metadata)
    return folder


def save_jina_colbert(folder: Path):
    """Save XLM-RoBERTa in jina-colbert-v2's layout; return the same network of transformers."""
    size = save_tokenizer(folder, ROBERTA_SPECIAL, "<s>", "</s>", "<pad>", "<unk>")
    rope = {"rope_type": "default", "rope_theta": 10_000.0}
    twin = network("JinaEmbeddingsV3Model", seed=13, **_roberta(size), rope_parameters=rope)
    linear = {"linear.weight": torch.randn(DIM, SIZES["hidden_size"])}
    save_file(flash_weights(twin) | linear, folder / "model.safetensors")
    auto_map = {
        "AutoConfig": "jinaai/xlm-roberta-flash-implementation--"
        "configuration_xlm_roberta.XLMRobertaFlashConfig"
    }
    config = {
        **_roberta(size), "architectures": ["HF_ColBERT"], "auto_map": auto_map,
        "position_embedding_type": "rotary", "rotary_emb_base": 10_000.0, "hidden_act": "gelu",
        "lora_adaptations": None,
    }  # fmt: skip
    _write(folder / "config.json", config)
    declared = {"query_maxlen": 32, "attend_to_mask_tokens": True, "mask_punctuation": True}
    _write(folder / "artifact.metadata", declared)
    return twin


def save_pylate(folder: Path, **declared) -> Path:
    """Save a BERT as PyLate stores its models: modules.json and a folder with the projection."""
    model = _bert(folder)
    model.save_pretrained(folder)
    modules = [
        ("", "sentence_transformers.models.Transformer"),
        ("1_Dense", "pylate.models.Dense.Dense"),
    ]
    entries = [{"idx": i, "name": str(i), "path": p, "type": t} for i, (p, t) in enumerate(modules)]
    _write(folder / "modules.json", entries)
    _write(folder / "sentence_bert_config.json", {"max_seq_length": 63, "do_lower_case": False})
    values = {
        "query_prefix": "[unused0]", "document_prefix": "[unused1]", "query_length": 32,
        "document_length": 64, "attend_to_expansion_tokens": False, "do_query_expansion": True,
        "skiplist_words": list(string.punctuation), "similarity_fn_name": "MaxSim",
    }  # fmt: skip
    _write(folder / "config_sentence_transformers.json", values | declared)
    config = {
        "in_features": SIZES["hidden_size"], "out_features": DIM, "bias": False,
        "activation_function": "torch.nn.modules.linear.Identity", "use_residual": False,
    }  # fmt: skip
    (folder / "1_Dense").mkdir()
    _write(folder / "1_Dense" / "config.json", config)
    state = {"linear.weight": torch.randn(DIM, SIZES["hidden_size"])}
    save_file(state, folder / "1_Dense" / "model.safetensors")
    return folder


def save_tokenizer(
    folder: Path, special: list[str], first: str, last: str, pad: str, unknown: str
) -> int:
    """Save a word-level tokenizer that knows ASCII punctuation; returns its vocabulary's size."""
    return save_word_tokenizer(
        folder, [*special, *WORDS, *string.punctuation], pattern=r"[^\W_]+|[^\w\s]|_",
        single=f"{first} $A {last}",
        cls_token=first, bos_token=first, sep_token=last, eos_token=last, pad_token=pad,
        unk_token=unknown, mask_token=next(name for name in special if "mask" in name.lower()),
        model_input_names=["input_ids", "attention_mask"],
    )  # fmt: skip


def _bert(folder: Path):
    size = save_tokenizer(folder, BERT_SPECIAL, "[CLS]", "[SEP]", "[PAD]", "[UNK]")
    config = {"vocab_size": size, "max_position_embeddings": 64}
    return network("BertModel", seed=12, **SIZES | config)


def _roberta(size: int) -> dict:
    return {
        "vocab_size": size, "max_position_embeddings": 514, "type_vocab_size": 1,
        "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "layer_norm_eps": 1e-5, **SIZES,
    }  # fmt: skip


def _write(path: Path, values) -> None:
    path.write_text(json.dumps(values), encoding="utf-8")
