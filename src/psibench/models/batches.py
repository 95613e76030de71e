"""Windows of token ids as one rectangular batch on a device."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

Side = Literal["right", "left"]


def pad_windows(
    windows: Sequence[np.ndarray],
    *,
    pad_id: int,
    length: int | None = None,
    side: Side = "right",
    device: str = "cpu",
) -> dict[str, Any]:
    """Lay windows out as the rows of a batch.

    Parameters
    ----------
    windows
        Token ids, at least one array.
    pad_id
        Token of the places that are masked. A window without tokens keeps one that is not, so that
        no row attends to nothing.
    length
        Places per row; None: those of the longest window.
    side
        Side of the padding. With ``left``, ``position_ids`` count from each row's first token.
    device
        On ``cuda``, the copies run beside the caller, from pinned memory.

    Returns
    -------
    dict
        ``input_ids``, ``attention_mask`` and perhaps ``position_ids``: (n_windows, length) int64.

    Raises
    ------
    ValueError
        If a window is longer than ``length``.
    """
    longest = max(1, *(len(window) for window in windows))
    shape = (len(windows), length or longest)
    if longest > shape[1]:
        raise ValueError(f"a window of {longest} tokens does not fit into {shape[1]} places")
    ids = np.full(shape, pad_id, dtype=np.int64)
    mask = np.zeros(shape, dtype=np.int64)
    for row, window in enumerate(windows):
        places = slice(0, len(window)) if side == "right" else slice(shape[1] - len(window), None)
        ids[row, places] = window
        mask[row, places] = 1
    mask[~mask.any(axis=1), 0 if side == "right" else -1] = 1
    padded = {"input_ids": ids, "attention_mask": mask}
    if side == "left":
        padded["position_ids"] = np.maximum(mask.cumsum(axis=1) - 1, 0)
    return {name: _on_device(array, device) for name, array in padded.items()}


def _on_device(array: np.ndarray, device: str) -> Any:
    import torch

    tensor = torch.from_numpy(array)
    if device == "cpu":
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True)
