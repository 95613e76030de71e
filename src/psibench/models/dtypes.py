"""Device and number format that ``auto`` selects."""

from functools import cache
from pathlib import Path

DEVICES = Path("/dev")
GPUS = ("nvidia[0-9]*", "kfd", "dxg")
"""Device files of NVIDIA's and AMD's drivers, and of Windows' driver for its Linux."""


@cache
def has_gpus() -> bool:
    """Return whether this machine has GPU device files, without importing a GPU library."""
    return any(any(DEVICES.glob(pattern)) for pattern in GPUS)


def pick_device(device: str) -> str:
    """Return ``device``, or for ``auto`` cuda if available, else cpu."""
    if device != "auto":
        return device
    if not has_gpus():
        return "cpu"
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def fast_dtype(device: str) -> str:
    """Return the number format that encodes fast on a device.

    float32 on a CPU: with bfloat16 instructions (AVX512-BF16) but no AMX, torch's bfloat16 took a
    quarter longer on all-MiniLM-L6-v2. OpenVINO's bfloat16 is faster but changes the vectors, so
    the config must request it. bfloat16 on a GPU, or float16 if the GPU does not support bfloat16.
    """
    if device != "cuda":
        return "float32"
    import torch

    return "bfloat16" if torch.cuda.is_bf16_supported() else "float16"
