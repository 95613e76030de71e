"""Which device and which number format ``auto`` is."""

from functools import cache
from pathlib import Path

DEVICES = Path("/dev")
GPUS = ("nvidia[0-9]*", "kfd", "dxg")
"""Devices of NVIDIA's and AMD's drivers, and of Windows' for its Linux."""


@cache
def has_gpus() -> bool:
    """Say whether this machine has devices of a GPU, without importing what drives them."""
    return any(any(DEVICES.glob(pattern)) for pattern in GPUS)


def pick_device(device: str) -> str:
    """Resolve ``auto`` to cuda where there is one, else cpu."""
    if device != "auto":
        return device
    if not has_gpus():
        return "cpu"
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def fast_dtype(device: str) -> str:
    """Name the number format that encodes fast on a device.

    float32 on a CPU: with bfloat16 instructions (AVX512-BF16), but no AMX, torch's bfloat16 took a
    quarter longer on all-MiniLM-L6-v2; OpenVINO's is faster, but gives other vectors: it has to be
    asked for. bfloat16 on a GPU, float16 on one too old for it.
    """
    if device != "cuda":
        return "float32"
    import torch

    return "bfloat16" if torch.cuda.is_bf16_supported() else "float16"
