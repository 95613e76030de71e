"""Attention calibrated at inference, so that each part of a text gets as much of it as the others.

Schuhmacher et al. (ACL Findings 2026, arXiv 2601.16934) cut a text into baskets of tokens and give
each the same share of the attention; Michail et al. (arXiv 2606.02737) mix that with the network's
own attention and use it for retrieval: baskets of 128 tokens, strength .5, the upper half of the
layers. What the papers leave open is done as in their code's defaults
(github.com/impresso/fair-sentence-transformers, `encode_positionally_fair`):

- Calibrated are the rows of the tokens that are pooled: of mean pooling all, of the first token's
  pooling the first, of the last token's the last.
- Baskets count the text's own tokens, never padding; the last one may be short, and gets as much as
  the others. With the first or last token's pooling the first token is in no basket and keeps its
  attention; with the last token's, that token is a basket of its own.
- A text that fills no basket is left as it is.

The attention function is registered with transformers under `ATTENTION`; a network is loaded with
it as its implementation. Layers that are not calibrated are computed by the network's own eager
attention.
"""

import sys
from typing import Any
from weakref import WeakKeyDictionary

from psibench.config.model_base import AttentionCalibration
from psibench.errors import InputError

ATTENTION = "psibench-calibrated"
PROBE = 4  # tokens

_CALIBRATED: WeakKeyDictionary[Any, tuple[AttentionCalibration, str]] = WeakKeyDictionary()
"""Attention module of a network -> its settings, and the pooling's only mode, or empty."""


def register() -> str:
    """Register the attention function and its mask; return the name to load a network with."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import eager_mask

    AttentionInterface.register(ATTENTION, _attention)
    AttentionMaskInterface.register(ATTENTION, eager_mask)
    return ATTENTION


def calibrate_network(
    transformer: Any, settings: AttentionCalibration, pooling: tuple[str, ...], *, checkpoint: str
) -> None:
    """Calibrate the upper layers of a network that was loaded with `ATTENTION`.

    Which modules attend, and in which order, is seen on a short text. Raises InputError if its
    attention does not pass through transformers' interface.
    """
    import torch
    from transformers import AttentionInterface

    device = next(transformer.parameters()).device
    called: list[Any] = []

    def noted(module: Any, *args: Any, **options: Any) -> tuple[Any, Any]:
        called.append(module)
        return _attention(module, *args, **options)

    AttentionInterface.register(ATTENTION, noted)
    try:
        with torch.inference_mode():
            transformer(input_ids=torch.arange(PROBE, device=device)[None, :])
    finally:
        AttentionInterface.register(ATTENTION, _attention)
    if not called:
        raise InputError(
            f"checkpoint {checkpoint!r}: calibrate cannot reach the attention of a "
            f"{type(transformer).__name__}, which is not computed by transformers' attention "
            "interface; take `calibrate` out of the model's entry"
        )
    n_calibrated = max(1, int(settings.layers * len(called)))
    how = settings, pooling[0] if len(pooling) == 1 else ""
    _CALIBRATED.update(dict.fromkeys(called[-n_calibrated:], how))


def _attention(
    module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **options: Any
) -> tuple[Any, Any]:
    """Attend as the network's own eager attention does, with calibrated probabilities."""
    eager = getattr(sys.modules[type(module).__module__], "eager_attention_forward", None)
    if eager is None:
        raise InputError(
            f"calibrate: {type(module).__name__} has no eager attention that gives probabilities; "
            "take `calibrate` out of the model's entry"
        )
    output, weights = eager(module, query, key, value, attention_mask, **options)
    settings, pooling = _CALIBRATED.get(module, (None, ""))
    if settings is None or settings.strength == 0:
        return output, weights
    real = real_tokens(attention_mask, weights)
    value = value.repeat_interleave(weights.shape[1] // value.shape[1], dim=1)
    if pooling not in ("cls", "lasttoken"):
        weights = calibrated(weights, real, settings, pooling)
        return (weights @ value).transpose(1, 2).contiguous(), weights
    place = real.cumsum(dim=1)
    pooled = real & (place == (1 if pooling == "cls" else place[:, -1:]))
    rows, at = pooled.nonzero(as_tuple=True)
    even = calibrated(weights[rows, :, at][:, :, None, :], real, settings, pooling)
    output[rows, at], weights[rows, :, at] = (even @ value)[:, :, 0], even[:, :, 0]
    return output, weights


def real_tokens(attention_mask: Any, weights: Any) -> Any:
    """Return which keys are a text's own tokens, (rows, n_keys) bool: those that any token sees.

    Parameters
    ----------
    attention_mask
        (rows, 1, n_queries, n_keys), 0 where a token sees another; None: all see all.
    """
    import torch

    rows, _, _, n_keys = weights.shape
    if attention_mask is None:
        return torch.ones((rows, n_keys), dtype=torch.bool, device=weights.device)
    return (attention_mask[..., :n_keys] == 0).any(dim=2)[:, 0].expand(rows, n_keys)


def calibrated(weights: Any, real: Any, settings: AttentionCalibration, pooling: str) -> Any:
    """Even attention out over baskets, then mix it with what it was.

    A token's attention ``a`` becomes ``(1 - s) a + s a'``: in ``a'`` each basket has the same share
    of what is not kept for single tokens, divided in it as in ``a``. A basket without any attention
    stays so, and the others share its part. Texts that fill no basket keep theirs.

    Parameters
    ----------
    weights
        (rows, heads, n_queries, n_keys) probabilities, of tokens that are pooled.
    real
        (rows, n_keys) bool: tokens of the text.

    Returns
    -------
    Tensor of the shape and number format of ``weights``.
    """
    import torch

    place = real.cumsum(dim=1)
    is_first, is_last = (real & (place == end) for end in (1, place[:, -1:]))
    content = real
    if pooling in ("cls", "lasttoken"):
        content = content & ~is_first
    if pooling == "lasttoken":
        content = content & ~is_last
    size = content.sum(dim=1, keepdim=True)
    n_content = (size + settings.basket - 1) // settings.basket
    number = (content.cumsum(dim=1) - 1).clamp(min=0) // settings.basket
    member = torch.nn.functional.one_hot(number, int(number.max()) + 1)
    member = (member * content[..., None]).float()[:, None]  # (rows, 1, n_keys, n_baskets)

    given = weights.float()
    mass = given @ member
    is_held = mass > 0
    alone = (real & ~content)[:, None, None, :].float()
    ending = torch.zeros_like(alone)
    if pooling == "lasttoken":
        alone = is_first[:, None, None, :].float()
        ending = is_last[:, None, None, :] / (n_content + 2)[:, None, None, :].float()
    kept_apart = (given @ alone.transpose(-1, -2)) + ending.sum(dim=-1, keepdim=True)
    left = (1 - kept_apart).clamp(min=0)
    share = left / is_held.sum(dim=-1, keepdim=True).clamp(min=1)
    factor = torch.where(is_held, share / mass.clamp(min=torch.finfo(mass.dtype).tiny), 0.0)
    total = kept_apart + torch.where(is_held.any(dim=-1, keepdim=True), left, 0.0)
    strength = settings.strength * (size >= settings.basket)[:, None, None, :].float() / total
    mixed = (factor * strength) @ member.transpose(-1, -2)
    mixed += 1 - strength * total + strength * alone
    mixed *= given
    mixed += strength * ending
    return mixed.to(weights.dtype)
