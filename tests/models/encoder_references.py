"""What tests of architectures compare with."""

import numpy as np
import torch


def unit(vectors) -> np.ndarray:
    if isinstance(vectors, torch.Tensor):
        vectors = vectors.detach().double().numpy()
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


TEXTS = ["w1 w2 w3 w4 w5", "w7", " ".join(f"w{i}" for i in range(20, 45))]


def inputs_of(encoder, texts, role="document") -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Windows and content of texts that have one window each."""
    items = encoder.tokenize(texts, role)
    return [item.windows[0] for item in items], [item.content[0] for item in items]


def vectors_of(encoder, texts, role="document", *, together=True) -> list[np.ndarray]:
    """Encode texts with one window each, in one batch or one by one."""
    if together:
        return encoder.forward(*inputs_of(encoder, texts, role))
    return [vectors_of(encoder, [text], role)[0] for text in texts]


def encode(encoder, texts, role="document") -> np.ndarray:
    return np.concatenate(vectors_of(encoder, texts, role))


def ids_of(encoder, text, role="document") -> torch.Tensor:
    (item,) = encoder.tokenize([text], role)
    return torch.tensor(item.windows[0][None, :].astype(np.int64))


def states_of(encoder, text, role="document") -> np.ndarray:
    """Last hidden states of one unpadded text, straight from the transformer."""
    with torch.inference_mode():
        found = encoder.model.transformer(ids_of(encoder, text, role)).last_hidden_state
    return found[0].numpy()


def words(n: int, first: int = 0) -> str:
    return " ".join(f"w{(first + i) % 60}" for i in range(n))


def full_attention(model, ids: torch.Tensor) -> torch.Tensor:
    """States of a decoder under an explicit mask that hides nothing, with eager attention."""
    nothing_hidden = torch.zeros(1, 1, ids.shape[1], ids.shape[1])
    with torch.inference_mode():
        return model(input_ids=ids, attention_mask=nothing_hidden).last_hidden_state[0]
