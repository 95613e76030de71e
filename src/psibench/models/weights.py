"""Files of a checkpoint: reading tensors, and seeing that nothing of a network was made up.

transformers fills in weights that are missing at random, leaves out those it has no place for, and
makes a tokenizer of special tokens alone where there is no vocabulary: with a warning at most.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from psibench.errors import InputError
from psibench.models.checkpoints import CheckpointEntry


def read_tensors(folder: Path, wanted: Callable[[str], bool] = lambda _: True) -> dict[str, Any]:
    """Read the tensors whose names are wanted, from safetensors or else from PyTorch's files.

    Raises
    ------
    InputError
        If the folder holds none of them.
    """
    import torch
    from safetensors import safe_open

    tensors: dict[str, Any] = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            names = [name for name in file.keys() if wanted(name)]  # noqa: SIM118
            tensors |= {name: file.get_tensor(name) for name in names}
    if not tensors:
        for path in sorted(folder.glob("pytorch_model*.bin")):
            state = torch.load(path, map_location="cpu", weights_only=True)
            tensors |= {name: tensor for name, tensor in state.items() if wanted(name)}
    if not tensors:
        raise InputError(
            f"{folder}: none of the tensors needed in *.safetensors or pytorch_model*.bin; is this "
            "checkpoint of the architecture that its registry entry names?"
        )
    return tensors


def check_loaded(
    folder: Path, architecture: str, info: Mapping[str, Any], *, leftover: str | None = None
) -> None:
    """Refuse a network that transformers could not give all its weights, and no others.

    Parameters
    ----------
    info
        What ``from_pretrained`` gives with ``output_loading_info``.
    leftover
        Pattern that the names of tensors begin with which may be left over; None: none may.

    Raises
    ------
    InputError
        If weights are missing (transformers fills them in at random), of another shape or left
        over.
    """
    wrong = {key: sorted(map(str, names)) for key, names in info.items() if names}
    unexpected = wrong.pop("unexpected_keys", [])
    unread = [name for name in unexpected if not (leftover and re.match(leftover, name))]
    if unread:
        wrong["unexpected_keys"] = unread
    if wrong:
        shown = {key: names[:3] for key, names in wrong.items()}
        raise InputError(
            f"{folder}: architecture {architecture}: its weights do not fit: {shown}. Is this the "
            "right architecture for the checkpoint?"
        )


# A buffer that older releases saved.
BUFFERS = re.compile(r"(position_ids|inv_freq|masked_bias|attn\.bias|token_type_ids)$")


def check_network(folder: str | Path, model: Any, info: Mapping[str, Any]) -> None:
    """Refuse a network that is not whole, or is a part of what its checkpoint holds.

    A pooler may be missing, which nothing here reads, and tensors of other modules may be left
    over: a head for another task, a projection.

    Parameters
    ----------
    info
        What ``from_pretrained`` gives with ``output_loading_info``.

    Raises
    ------
    InputError
        Naming the folder, how many weights, and the first.
    """
    own = {name for name, _ in model.named_children()}
    prefix = f"{getattr(model, 'base_model_prefix', '')}."
    missing = [name for name in info["missing_keys"] if "pooler." not in name]
    shapes = [str(found) for found in info["mismatched_keys"]]
    left_over = [
        name
        for name in info["unexpected_keys"]
        if name.removeprefix(prefix).partition(".")[0] in own and not BUFFERS.search(name)
    ]
    for names, what in (
        (missing, "are missing"),
        (shapes, "are of another shape"),
        (left_over, "have no place in it: its config.json describes a smaller network"),
    ):
        if names:
            raise InputError(
                f"{folder}: {len(names)} weights of {type(model).__name__} {what}, "
                f"{sorted(names)[0]} first. Is the folder whole, and is this the right backend or "
                "architecture?"
            )


@contextmanager
def checking_weights(folder: Path) -> Iterator[None]:
    """Let sentence-transformers load no network that ``check_network`` refuses.

    It says nothing of weights itself.
    """
    from sentence_transformers.base.modules import Transformer

    load = Transformer._load_model

    def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        transformer, info = load(self, *args, output_loading_info=True, **kwargs)
        check_network(folder, transformer, info)
        return transformer

    with mock.patch.object(Transformer, "_load_model", checked):
        yield


VOCABULARIES = (
    "tokenizer.json", "tokenizer.model", "tekken.json", "vocab.*", "*vocab*.json", "*.model",
    "*.tiktoken", "*.spm", "*.bpe",
)  # fmt: skip


def has_tokenizer(folder: Path) -> bool:
    """Say whether a folder holds a vocabulary, in one of the formats that transformers reads."""
    return any(next(folder.glob(pattern), None) is not None for pattern in VOCABULARIES)


def check_tokenizer(folder: Path) -> None:
    """Refuse a folder without a vocabulary; InputError naming it and the files looked for."""
    if not has_tokenizer(folder):
        raise InputError(
            f"{folder}: no tokenizer: none of {', '.join(VOCABULARIES)}. Save the tokenizer beside "
            "the weights (tokenizer.save_pretrained)"
        )


def set_weights(model: Any, weights: Mapping[str, Any], entry: CheckpointEntry) -> None:
    """Give a model its weights: all of them, and no other.

    Raises
    ------
    InputError
        If a tensor is missing, left over or of another shape: the checkpoint is of another kind.
    """
    try:
        model.load_state_dict(weights, strict=True)
    except RuntimeError as error:
        raise InputError(
            f"checkpoint {entry.checkpoint!r}, revision {entry.revision!r}: its weights are not "
            f"those of {type(model).__name__} ({error}). Is this the right backend or architecture?"
        ) from error
