"""Tiny random checkpoints of the architectures whose hub repositories bring code of their own."""

import json
from pathlib import Path

from stored_networks import (
    GTE,
    JINA_BERT,
    flash_weights,
    gte_weights,
    jina_bert_weights,
    linear_weights,
    norm_weights,
)
from tiny_checkpoints import (
    DECODER_SIZES,
    DECODER_VOCABULARY,
    SIZES,
    VOCABULARY,
    save_modules,
    save_tokenizer,
    save_weights,
)

DECODER_TOKENIZER = {"vocabulary": DECODER_VOCABULARY, "template": "$A"}
RANK, ALPHA = 4, 8


def save_new_type_gte(folder: Path, *, prefix: str = "new.", pooling: str = "cls") -> Path:
    """Save model type `new`: gte-multilingual-base (prefix `new.`, cls) or stella (none, mean)."""
    import torch

    torch.manual_seed(3)
    weights = gte_weights(SIZES["vocab_size"], n_types=2)
    weights = {f"{prefix}{name}": tensor for name, tensor in weights.items()}
    if prefix:  # gte-multilingual-base's head for sparse weights
        weights |= linear_weights("classifier", 32, 1)
    config = SIZES | GTE | {
        "architectures": ["NewModel"], "pad_token_id": 0, "type_vocab_size": 2,
        "auto_map": {"AutoConfig": "configuration.NewConfig", "AutoModel": "modeling.NewModel"},
        "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.0,
        "logn_attention_clip1": False, "max_position_embeddings": 8192, "unpad_inputs": False,
        "use_memory_efficient_attention": False, "torch_dtype": "float16",
    }  # fmt: skip
    save_weights(folder, config, weights)
    save_modules(folder, pooling=pooling, normalize=pooling == "cls")
    return folder


def _decoder(kind: str, **config):
    """Return transformers' decoder of a kind and its config.json as a dict."""
    import torch
    from transformers import AutoConfig, AutoModel

    torch.manual_seed(4)
    model = AutoModel.from_config(AutoConfig.for_model(kind, **DECODER_SIZES | config))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(mean=0.0, std=0.2)
    return model, model.config.to_dict() | {"use_cache": False}


def save_bidirectional_qwen2(folder: Path) -> Path:
    """Save gte-Qwen2 or inf-retriever: Qwen2's weights, own code for its model class."""
    model, config = _decoder("qwen2", use_sliding_window=False)
    config |= {
        "architectures": ["Qwen2ForCausalLM"],
        "auto_map": {"AutoModel": "modeling_qwen.Qwen2Model"},
    }
    weights = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    save_weights(folder, config, weights, **DECODER_TOKENIZER)
    save_modules(folder, pooling="lasttoken")
    return folder


def save_bidirectional_llama(folder: Path) -> Path:
    """Save llama-embed-nemotron: Llama's weights, model type `llama_bidirec`, no modules.json."""
    model, config = _decoder("llama")
    config |= {
        "architectures": ["LlamaBidirectionalModel"],
        "auto_map": {
            "AutoConfig": "llama_bidirectional_model.LlamaBidirectionalConfig",
            "AutoModel": "llama_bidirectional_model.LlamaBidirectionalModel",
        },
        "model_type": "llama_bidirec", "pooling": "avg", "temperature": 0.02,
    }  # fmt: skip
    tokenizer = DECODER_TOKENIZER | {"template": "<s> $A", "padding_side": "left"}
    return save_weights(folder, config, model.state_dict(), **tokenizer)


def save_nv_embed(folder: Path) -> Path:
    """Save NV-Embed: a Mistral without causal mask, and latent attention (8 latents, 2 heads)."""
    import torch

    model, text = _decoder("mistral", sliding_window=None)
    hidden, heads, dim_head, ff = 32, 2, 32, 4 * 32
    at = "latent_attention_model"
    weights = {f"embedding_model.{name}": tensor for name, tensor in model.state_dict().items()}
    weights[f"{at}.latents"] = torch.randn(8, hidden)
    block = f"{at}.cross_attend_blocks"
    shapes = {
        "0.fn.to_q.weight": (heads * dim_head, hidden),
        "0.fn.to_kv.weight": (2 * heads * dim_head, hidden),
        "0.fn.to_out.weight": (hidden, heads * dim_head),
        "1.fn.net.0.weight": (2 * ff, hidden),
        "1.fn.net.0.bias": (2 * ff,),
        "1.fn.net.2.weight": (hidden, ff),
        "1.fn.net.2.bias": (hidden,),
    }
    weights |= {f"{block}.{name}": torch.randn(shape) * 0.2 for name, shape in shapes.items()}
    for name in ("0.norm", "0.norm_context", "1.norm"):
        weights |= norm_weights(f"{block}.{name}")
    text = {key: text[key] for key in text if key not in ("sliding_window", "architectures")}
    config = {
        "model_type": "nvembed", "architectures": ["NVEmbedModel"], "hidden_size": hidden,
        "auto_map": {"AutoModel": "modeling_nvembed.NVEmbedModel"},
        "add_eos": True, "add_pad_token": True, "is_mask_instruction": True, "mask_type": "b",
        "padding_side": "right", "text_config": text | {"model_type": "bidir_mistral"},
        "latent_attention_config": {
            "model_type": "latent_attention", "num_latents_value": 8, "num_cross_heads": heads,
            "hidden_dim": hidden, "latent_dim": hidden, "cross_dim_head": dim_head,
            "output_normalize": True,
        },
    }  # fmt: skip
    tokenizer = DECODER_TOKENIZER | {"template": "<s> $A", "pad_token": "</s>"}
    return save_weights(folder, config, weights, **tokenizer)


def save_jina_v4(folder: Path) -> Path:
    """Save jina-embeddings-v4: Qwen2.5-VL and a LoRA adapter that holds three tasks."""
    import torch
    from safetensors.torch import save_file

    model, text = _decoder("qwen2", use_sliding_window=False)
    weights = {f"model.language_model.{name}": w for name, w in model.state_dict().items()}
    weights["model.visual.patch_embed.proj.weight"] = torch.randn(4, 4)
    weights["multi_vector_projector.weight"] = torch.randn(8, 32)
    weights["multi_vector_projector.bias"] = torch.randn(8)
    scaling = {"type": "mrope", "mrope_section": [1, 1, 2], "rope_type": "default"}
    text |= {"model_type": "qwen2_5_vl_text", "rope_theta": 10000.0, "rope_scaling": scaling}
    text.pop("rope_parameters")
    config = {
        "model_type": "qwen2_5_vl", "architectures": ["JinaEmbeddingsV4Model"],
        "auto_map": {"AutoModel": "modeling_jina_embeddings_v4.JinaEmbeddingsV4Model"},
        "multi_vector_projector_dim": 8, "single_vector_pool_strategy": "mean",
        "task_names": ["retrieval", "text-matching", "code"], "text_config": text,
        "vision_config": {},
    }  # fmt: skip
    save_weights(folder, config, weights, **DECODER_TOKENIZER)
    adapters = {}
    linears = {n: m for n, m in model.named_modules() if isinstance(m, torch.nn.Linear)}
    modules = {f"model.language_model.{name}": (m.out_features, m.in_features)
               for name, m in linears.items()}  # fmt: skip
    modules |= {"multi_vector_projector": (8, 32), "model.visual.blocks.0.mlp.up_proj": (8, 8)}
    for task in config["task_names"]:
        for name, (n_out, n_in) in modules.items():
            at = f"base_model.model.{name}"
            adapters[f"{at}.lora_A.{task}.weight"] = torch.randn(RANK, n_in) * 0.1
            adapters[f"{at}.lora_B.{task}.weight"] = torch.randn(n_out, RANK) * 0.1
    (folder / "adapters").mkdir()
    save_file(adapters, folder / "adapters" / "adapter_model.safetensors")
    lora = {"peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA, "lora_dropout": 0.1}
    (folder / "adapters" / "adapter_config.json").write_text(json.dumps(lora))
    return folder


INSTRUCTIONS = {
    "retrieval.query": "Represent the query for retrieving evidence documents: ",
    "retrieval.passage": "Represent the document for retrieval: ",
    "separation": "",
}
TASKS = ("retrieval.query", "retrieval.passage")


def save_jina_v3(folder: Path) -> dict:
    """Save jina-embeddings-v3 with adapters of three tasks; returns each retrieval task's twin.

    A twin is the network without adapters, of weights with the task's adapter in them.
    """
    import torch
    from transformers import JinaEmbeddingsV3Config, JinaEmbeddingsV3Model

    from psibench.models.architectures import flash_xlm_roberta

    torch.manual_seed(14)
    vocabulary = [*VOCABULARY, "query", "document"]
    sizes = SIZES | {"vocab_size": len(vocabulary), "pad_token_id": 0, "type_vocab_size": 1}
    sizes["max_position_embeddings"] = 130
    stored, merged = {}, {task: {} for task in TASKS}
    for name, weight in flash_weights(
        JinaEmbeddingsV3Model(JinaEmbeddingsV3Config(**sizes))
    ).items():
        module = name.removesuffix(".weight")
        is_table = module.endswith("embeddings")
        if weight.ndim != 2:
            for own in (stored, *merged.values()):
                own[name] = weight
            continue
        rows, columns = weight.shape
        if is_table:  # (tasks, words, rank) and (tasks, rank, hidden)
            a, b = torch.randn(3, rows, RANK) * 0.1, torch.randn(3, RANK, columns) * 0.1
        else:  # (tasks, rank, in) and (tasks, out, rank)
            a, b = torch.randn(3, RANK, columns) * 0.1, torch.randn(3, rows, RANK) * 0.1
        at = f"{module}.parametrizations.weight"
        stored |= {f"{at}.original": weight, f"{at}.0.lora_A": a, f"{at}.0.lora_B": b}
        for number, own in enumerate(merged.values()):
            added = a[number] @ b[number] if is_table else b[number] @ a[number]
            own[name] = weight + ALPHA / RANK * added
    plain = sizes | {
        "model_type": "xlm-roberta", "hidden_act": "gelu", "layer_norm_eps": 1e-5,
        "architectures": ["XLMRobertaLoRA"], "position_embedding_type": "rotary",
        "auto_map": {"AutoModel": "jinaai/xlm-roberta-flash-implementation--modeling_lora.X"},
        "rotary_emb_base": 20_000.0,
    }  # fmt: skip
    twins = {}
    for task, weights in merged.items():
        save_weights(folder / task, plain, weights)
        twins[task] = flash_xlm_roberta.load(folder / task, plain, {"dtype": "float32"}).eval()
    adapters = {"lora_adaptations": list(INSTRUCTIONS), "task_instructions": INSTRUCTIONS}
    config = plain | adapters | {"lora_rank": RANK, "lora_alpha": ALPHA}
    save_weights(folder, config, stored, vocabulary=vocabulary)
    return twins


def save_jina_bert(folder: Path) -> Path:
    """Save jina-embeddings-v2-base-en: JinaBERT with its pooler, the mean."""
    import torch

    torch.manual_seed(15)
    config = SIZES | JINA_BERT | {
        "architectures": ["JinaBertForMaskedLM"], "max_position_embeddings": 8192,
        "auto_map": {"AutoModel": "jinaai/jina-bert-implementation--modeling_bert.JinaBertModel"},
        "emb_pooler": "mean",
    }  # fmt: skip
    weights = jina_bert_weights(SIZES["vocab_size"]) | linear_weights("pooler.dense", 32, 32)
    save_weights(folder, config, weights)
    save_modules(folder, pooling="mean", normalize=False)
    return folder


def save_qwen3_embedding(folder: Path, **sizes: int) -> Path:
    """Save Qwen3-Embedding: causal, last token, which its tokenizer adds."""
    model, config = _decoder("qwen3", use_sliding_window=False, **sizes)
    config |= {"architectures": ["Qwen3ForCausalLM"]}
    tokenizer = {"template": "$A <|endoftext|>", "padding_side": "left"}
    save_weights(folder, config, model.state_dict(), **DECODER_TOKENIZER | tokenizer)
    save_modules(folder, pooling="lasttoken")
    return folder


def save_nomic(folder: Path, **changes) -> Path:
    """Save nomic-embed-text-v1.5: transformers' NomicBert, and custom code that is not run."""
    import torch
    from transformers import NomicBertConfig, NomicBertModel

    torch.manual_seed(6)
    model = NomicBertModel(NomicBertConfig(initializer_range=0.4, **SIZES), add_pooling_layer=False)
    auto_map = {"AutoModel": "nomic-ai/nomic-bert-2048--modeling_hf_nomic_bert.NomicBertModel"}
    lengths = {"n_positions": 8192, "max_trained_positions": 2048}
    config = model.config.to_dict() | {"auto_map": auto_map} | lengths | changes
    model.save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(config))
    save_tokenizer(folder)
    save_modules(folder, pooling="mean", normalize=False)
    return folder
