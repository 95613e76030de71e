"""One pass of a batch through a network: copies, number format, normalisation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from psibench.models.batches import Side, pad_windows
from psibench.models.networks import Network

Wait = Callable[[], list[np.ndarray]]


@dataclass(frozen=True)
class Pass:
    """How batches go through a network.

    Attributes
    ----------
    dtype
        Number format; runs under autocast where the weights are of another.
    by_token
        Whether every content token's vector is wanted, not one per row.
    """

    network: Network
    device: str
    dtype: str
    side: Side
    by_token: bool

    def launch(
        self, windows: Sequence[np.ndarray], content: Sequence[np.ndarray], length: int
    ) -> Wait:
        """Compute the unit vectors of a batch; the call returned waits for them.

        Where every window has ``length`` tokens, or the network needs no mask, attention has none.
        """
        import torch
        from torch.nn.functional import normalize

        inputs = self._inputs(windows, length)
        pooled = inputs["attention_mask"]
        if self.network.masks_prompt and not self.by_token:
            pooled = self._padded(content, length, fill=0)["input_ids"]
        if not self.network.needs_mask or all(len(window) == length for window in windows):
            inputs.pop("attention_mask")
        reduced = self.dtype != self.network.weights
        with torch.inference_mode():
            with torch.autocast(self.device, dtype=getattr(torch, self.dtype), enabled=reduced):
                found = self.network.run(inputs)
            if self.by_token:
                vectors = self.network.tokens(found)
            else:
                vectors = self.network.vectors(found, pooled)
            ready = to_host(normalize(vectors.float(), dim=-1))

        def wait() -> list[np.ndarray]:
            rows_found = ready()
            if not self.by_token:
                return [vector[None, :] for vector in rows_found]
            pairs = zip(rows_found, windows, content, strict=True)
            return [self._places(row, len(window))[keep] for row, window, keep in pairs]

        return wait

    def _inputs(self, windows: Sequence[np.ndarray], length: int) -> dict[str, Any]:
        pad_id = self.network.tokenizer.pad_token_id or 0
        inputs = self._padded(windows, length, fill=pad_id)
        first = self.network.first_position
        if "position_ids" in inputs and first is not None:
            inputs["position_ids"] += first
        return inputs

    def _padded(self, arrays: Sequence[np.ndarray], length: int, *, fill: int) -> dict[str, Any]:
        return pad_windows(
            arrays,
            pad_id=fill,
            length=length,
            side=self.side,
            device=self.device,
        )

    def _places(self, row: np.ndarray, n_tokens: int) -> np.ndarray:
        return row[:n_tokens] if self.side == "right" else row[len(row) - n_tokens :]


def to_host(tensor: Any) -> Callable[[], np.ndarray]:
    """Begin to copy a tensor to the host's memory; the call returned waits for it."""
    import torch

    if tensor.device.type != "cuda":
        array: np.ndarray = tensor.cpu().numpy()
        return lambda: array
    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    host.copy_(tensor, non_blocking=True)
    copied = torch.cuda.Event()
    copied.record()

    def wait() -> np.ndarray:
        copied.synchronize()
        found: np.ndarray = host.numpy()
        return found

    return wait
