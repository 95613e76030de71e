"""Which number format a machine should encode in."""

import logging
from typing import Any

logger = logging.getLogger("psibench")

MIN_COSINE = 0.9999


def fast_dtype(device: str) -> str:
    """Name the reduced format this machine is made for, or ``float32`` if none.

    The choice depends on the hardware alone, not on a timing, so that it is the same every time.
    """
    import torch

    if device == "cuda":
        return "bfloat16" if torch.cuda.is_bf16_supported() else "float16"
    has_bf16 = getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)()
    has_amx = getattr(torch.cpu, "_is_amx_tile_supported", lambda: False)()
    return "bfloat16" if has_bf16 or has_amx else "float32"


def pick_device(device: str) -> str:
    """Resolve ``auto`` to cuda where there is one, else cpu."""
    import torch

    if device != "auto":
        return device
    return "cuda" if torch.cuda.is_available() else "cpu"


def choose_dtype(
    wanted: str, *, device: str, n_tokens: int, float32_below_tokens: int, cosine: Any
) -> str:
    """Resolve ``auto`` to a number format.

    Parameters
    ----------
    n_tokens
        Tokens of the whole job (what is stored already included, so that a resumed job decides
        as the first one did).
    cosine
        dtype name -> smallest cosine to float32 over a sample of the job's texts; called only if
        a reduced format comes into question.
    """
    if wanted != "auto":
        return wanted
    if n_tokens < float32_below_tokens:
        return "float32"
    reduced = fast_dtype(device)
    if reduced == "float32":
        return reduced
    smallest = cosine(reduced)
    chosen = reduced if smallest >= MIN_COSINE else "float32"
    logger.info(
        "dtype: %s has a smallest cosine of %.6f to float32 on a sample (needed: %s): using %s",
        reduced,
        smallest,
        MIN_COSINE,
        chosen,
    )
    return chosen
