"""Config of the server that a job starts for a model: of the backend vllm, whatever it asks."""

from pydantic import Field

from psibench.config.base import Section


class VllmServer(Section):
    """How a job starts `vllm serve MODEL`."""

    command: list[str] = Field(default=["vllm", "serve"], min_length=1)
    """Program and first arguments; the model, --host, --port and `arguments` follow."""
    arguments: list[str] = Field(default_factory=list)
    """Further arguments, as --max-model-len 8192."""
    gpus: int = Field(default=1, ge=0, le=64)
    """GPUs of the job; above 1 the server splits the model over them (tensor parallel). 0: a CPU
    build of vLLM, which takes the memory that the job has (docs/vllm.md)."""
    start_s: float = Field(default=1800.0, gt=0)
    """How long the server may take until it is healthy (download and load included)."""
    stop_s: float = Field(default=20.0, gt=0)
    """How long it may take to end before it is killed."""
