"""Whether jobs that run a model on this machine take turns at a GPU."""

from functools import cache
from pathlib import Path

from psibench.config.encoders import VllmModel
from psibench.config.model_base import ModelBase

DEVICES = Path("/dev")


@cache
def has_gpus() -> bool:
    """Say whether this machine has NVIDIA devices; without importing what drives them."""
    return any(DEVICES.glob("nvidia[0-9]*"))


def gpus_of(entry: ModelBase | None, device: str) -> int:
    """Return the GPUs that a job of a model takes where it runs beside others.

    None where there are none: there jobs share the cores. A SLURM profile asks for its own number,
    except of models that vLLM runs.
    """
    if isinstance(entry, VllmModel):
        return entry.gpus
    return int(device != "cpu" and has_gpus())
