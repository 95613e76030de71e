"""Config of a base that learns quickly, and of a training of few steps."""

from pathlib import Path
from typing import Any

SETTINGS = {"epochs": 3, "batch_size": 8, "mini_batch_size": 4}


def base_of(folder: Path | str, **fields: Any) -> dict[str, Any]:
    base = {"checkpoint": str(folder), "max_tokens": 48, "pooling": "mean", "parameters_m": 0.1}
    return base | {"learning_rate": 1e-3} | fields
