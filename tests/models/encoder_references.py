"""What tests of architectures compare with."""

import numpy as np
import torch


def unit(vectors) -> np.ndarray:
    if isinstance(vectors, torch.Tensor):
        vectors = vectors.detach().double().numpy()
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


TEXTS = ["w1 w2 w3 w4 w5", "w7", " ".join(f"w{i}" for i in range(20, 45))]


def encode(encoder, texts, role="document") -> np.ndarray:
    items = encoder.tokenize(texts, role)
    vectors = encoder.forward([i.windows[0] for i in items], [i.content[0] for i in items])
    return np.concatenate(vectors)


def vectors_of(encoder, texts, *, role="document", together=True) -> list[np.ndarray]:
    """Encode texts that have one window each, in one batch or alone."""
    items = encoder.tokenize(texts, role)
    windows, content = ([getattr(i, name)[0] for i in items] for name in ("windows", "content"))
    if together:
        return encoder.forward(windows, content)
    return [encoder.forward([w], [c])[0] for w, c in zip(windows, content, strict=True)]


def ids_of(encoder, text, role="document") -> torch.Tensor:
    (item,) = encoder.tokenize([text], role)
    return torch.tensor(item.windows[0][None, :].astype(np.int64))


def full_attention(model, ids: torch.Tensor) -> torch.Tensor:
    """States of a decoder under an explicit mask that hides nothing, with eager attention."""
    nothing_hidden = torch.zeros(1, 1, ids.shape[1], ids.shape[1])
    with torch.inference_mode():
        return model(input_ids=ids, attention_mask=nothing_hidden).last_hidden_state[0]
