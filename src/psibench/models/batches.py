"""Windows of token ids as one rectangular batch on a device."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

Side = Literal["right", "left"]


def pad_windows(
    windows: Sequence[np.ndarray],
    *,
    pad_id: int,
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
    side
        Side of the padding. With ``left``, ``position_ids`` count from each row's first token.

    Returns
    -------
    dict
        ``input_ids``, ``attention_mask`` and perhaps ``position_ids``: (n_windows, longest) int64.
    """
    shape = (len(windows), max(1, *(len(window) for window in windows)))
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
    import torch

    return {name: torch.from_numpy(array).to(device) for name, array in padded.items()}
