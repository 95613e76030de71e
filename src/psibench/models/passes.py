"""One pass of a batch through a network: copies, number format, normalisation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from psibench.models.batches import Side, pad_windows
from psibench.models.networks import Network

Wait = Callable[[], list[np.ndarray]]


def launch_parts(
    is_full: Sequence[bool],
    launch: Callable[[list[int], bool, int], Wait],
    *,
    rows: int | None,
    fills_rows: bool,
) -> Wait:
    """Begin the passes of a batch; the call returned waits for what they give, in its order.

    Attention without a mask is another kernel than with one, and gives other bits. So windows
    that need none never share a pass with others.

    Parameters
    ----------
    is_full
        Which windows need no mask because they fill all places.
    launch
        Begins a pass: called with places in the batch, whether these windows are full, and the
        number of rows.
    rows
        Rows that the batch has; as many as windows when None.
    fills_rows
        Whether each pass has that many, or only as many more as the batch has.
    """
    parts: dict[bool, list[int]] = {}
    for place, full in enumerate(is_full):
        parts.setdefault(full, []).append(place)
    surplus = (rows or len(is_full)) - len(is_full)
    waits = [
        launch(part, full, rows if rows is not None and fills_rows else len(part) + surplus)
        for full, part in parts.items()
    ]

    def wait() -> list[np.ndarray]:
        found = chain.from_iterable(wait_part() for wait_part in waits)
        vectors = dict(zip(chain.from_iterable(parts.values()), found, strict=True))
        return [vectors[place] for place in range(len(is_full))]

    return wait


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
        self, windows: Sequence[np.ndarray], content: Sequence[np.ndarray], length: int, rows: int
    ) -> Wait:
        """Compute the unit vectors of a batch; the call returned waits for them.

        Windows either all have ``length`` tokens, or, unless the network needs no mask, none has.
        """
        import torch
        from torch.nn.functional import normalize

        inputs = self._inputs(windows, length, rows)
        pooled = inputs["attention_mask"]
        if self.network.masks_prompt and not self.by_token:
            kept = [*content, *[np.ones(1, dtype=bool)] * (rows - len(content))]
            pooled = self._padded(kept, length, rows, fill=0)["input_ids"]
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
            ready = to_host(normalize(vectors[: len(windows)].float(), dim=-1))

        def wait() -> list[np.ndarray]:
            rows_found = ready()
            if not self.by_token:
                return [vector[None, :] for vector in rows_found]
            pairs = zip(rows_found, windows, content, strict=True)
            return [self._places(row, len(window))[keep] for row, window, keep in pairs]

        return wait

    def _inputs(self, windows: Sequence[np.ndarray], length: int, rows: int) -> dict[str, Any]:
        pad_id = self.network.tokenizer.pad_token_id or 0
        inputs = self._padded(windows, length, rows, fill=pad_id)
        first = self.network.first_position
        if "position_ids" in inputs and first is not None:
            inputs["position_ids"] += first
        return inputs

    def _padded(
        self, arrays: Sequence[np.ndarray], length: int, rows: int, *, fill: int
    ) -> dict[str, Any]:
        return pad_windows(
            arrays,
            pad_id=fill,
            length=length,
            rows=rows,
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
