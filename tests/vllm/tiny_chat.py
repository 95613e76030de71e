"""A chat model of two layers that vLLM serves, with a tokenizer of bytes, made on the spot."""

import os
from pathlib import Path

PROGRAMS = [program for program in os.environ.get("PSIBENCH_VLLM", "").split(":") if program]
ARGUMENTS = [
    "--enforce-eager",  # nothing is compiled: it starts in half the time
    *("--max-model-len", "24576"),
    # Weights that were never trained fill JSON with white space.
    *(
        "--structured-outputs-config",
        '{"backend": "xgrammar", "disable_any_whitespace": true}',
    ),
]

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
LIKELY = {'"': 4.0, "}": 6.0, "]": 6.0, "<|im_end|>": 6.0}
"""Added to the logits of what ends a text: strings of some 10 characters, replies that end."""
N_POSITIONS = 32768


def save_chat_model(folder: Path) -> Path:
    """Save it.

    The first number of every token's state is a constant that no layer changes, and the output's
    weights on it are the bias of each token: letters, and what ends strings and lists, are likely.
    """
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    tokens = [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    bpe = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=[]))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token=SPECIAL[2],
        pad_token=SPECIAL[0],
        additional_special_tokens=SPECIAL,
    )
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(tokens), hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=N_POSITIONS,
        eos_token_id=2, bos_token_id=0, tie_word_embeddings=False,
    )  # fmt: skip
    model = Qwen2ForCausalLM(config)
    with torch.no_grad():
        model.model.embed_tokens.weight[:, 0] = 8.0
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight[0] = 0.0
            layer.mlp.down_proj.weight[0] = 0.0
        letters = [token.isascii() and token.isalnum() for token in tokens]
        bias = [LIKELY.get(t, 2.0 if one else 0.0) for t, one in zip(tokens, letters, strict=True)]
        model.lm_head.weight[:, 0] = torch.tensor(bias) / 8.0  # the norm gives sqrt(64) at most
    model.generation_config.eos_token_id = 2
    model.to(torch.bfloat16).save_pretrained(folder)
    return folder
