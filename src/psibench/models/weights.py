"""Files of a checkpoint: reading tensors, and seeing that nothing of a network was made up.

transformers fills in weights that are missing at random, leaves out those it has no place for, and
makes a tokenizer of special tokens alone where there is no vocabulary: with a warning at most.
"""

import pickle
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from psibench.errors import InputError
from psibench.models.checkpoints import (
    NOT_TENSORS,
    declared_prompts,
    read_json,
    read_modules,
    transformer_folder,
)
from psibench.models.library_keys import refuse_other_tokenizer


def read_tensors(folder: Path, wanted: Callable[[str], bool] = lambda _: True) -> dict[str, Any]:
    """Read the tensors whose names are wanted, from safetensors or else from PyTorch's files.

    Raises
    ------
    InputError
        If the folder holds none of them.
    """
    from safetensors import safe_open

    tensors: dict[str, Any] = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            names = [name for name in file.keys() if wanted(name)]  # noqa: SIM118
            tensors |= {name: file.get_tensor(name) for name in names}
    if not tensors:
        for path in sorted(folder.glob("pytorch_model*.bin")):
            state = read_pickled(path)
            tensors |= {name: tensor for name, tensor in state.items() if wanted(name)}
    if not tensors:
        raise InputError(
            f"{folder}: none of the tensors needed in *.safetensors or pytorch_model*.bin; is this "
            "checkpoint of the architecture that its registry entry names?"
        )
    return tensors


def read_pickled(path: Path) -> dict[str, Any]:
    """Read a dict of tensors that torch.save wrote, without running what a pickle may hold.

    Raises
    ------
    InputError
        If the file is damaged, or holds anything else.
    """
    import torch

    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, EOFError, RuntimeError) as error:
        raise InputError(f"{path}: {NOT_TENSORS}") from error
    if not isinstance(state, dict):
        raise InputError(f"{path}: {NOT_TENSORS}")
    return state


def load_port(network: Any, folder: Path, **options: Any) -> Any:
    """Load a class of transformers from a checkpoint that names another one.

    ``options`` are for ``from_pretrained``; with a ``state_dict``, no weights of the folder are
    read. Raises InputError as ``check_network``.
    """
    source = None if "state_dict" in options else folder
    with quiet():
        model, info = network.from_pretrained(source, **WITH_INFO, **options)
    check_network(folder, model, info)
    return model


def load_model(kind: Any, folder: Path, *, trust_remote_code: bool, **options: Any) -> Any:
    """Load a model of sentence-transformers, of the class ``kind``, on the CPU.

    ``options`` are for ``from_pretrained``.

    Raises
    ------
    InputError
        If there is no tokenizer, or weights are missing, of another shape, or of a larger network.
    """
    with checking_weights(folder):
        model = kind(
            str(folder),
            device="cpu",
            local_files_only=True,
            trust_remote_code=trust_remote_code,
            model_kwargs=options,
        )
    if hasattr(model[0], "auto_model"):
        check_tokenizer(model.tokenizer, transformer_folder(folder))
    return model


def check_config(config: Mapping[str, Any], wanted: Mapping[str, Any], *, where: str) -> None:
    """Raise InputError if a config has another value of a key than the one that is supported."""
    for key, value in wanted.items():
        if (found := config.get(key, value)) != value:
            raise InputError(f"{where}: found {key} {found!r}; supported: {value!r}")


@contextmanager
def quiet() -> Iterator[None]:
    """Silence transformers' report of weights and its bars: what matters of it is checked here."""
    from transformers.utils import logging

    before, has_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if has_bars:
            logging.enable_progress_bar()


WITH_INFO = {"output_loading_info": True, "ignore_mismatched_sizes": True}
"""Has ``from_pretrained`` report tensors it made up, those of another shape too."""
# A buffer that older releases saved.
BUFFERS = re.compile(r"(position_ids|inv_freq|masked_bias|attn\.bias|token_type_ids)$")


def check_network(folder: str | Path, model: Any, info: Mapping[str, Any]) -> None:
    """Refuse a network that is not whole, or is a part of what its checkpoint holds.

    A pooler may be missing of a bare transformer, which nothing here reads, and tensors of other
    modules may be left over: a head for another task, a projection. ``info`` is what
    ``from_pretrained`` gives with ``output_loading_info``. The InputError names the folder, how
    many weights, and the first.
    """
    is_bare = model.base_model is model
    children = {name for one in (model, model.base_model) for name, _ in one.named_children()}
    prefix = f"{getattr(model, 'base_model_prefix', '')}."
    missing = [name for name in info["missing_keys"] if not (is_bare and "pooler." in name)]
    shapes = [str(found) for found in info["mismatched_keys"]]
    left_over = [
        name
        for name in info["unexpected_keys"]
        if name.removeprefix(prefix).partition(".")[0] in children and not BUFFERS.search(name)
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
    """Let sentence-transformers load nothing that ``check_files`` or ``check_network`` refuses.

    It says nothing of weights itself.
    """
    from unittest import mock

    from sentence_transformers.base.modules import Transformer

    check_files(folder)
    load = Transformer._load_model

    def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        transformer, info = load(self, *args, **WITH_INFO, **kwargs)
        check_network(folder, transformer, info)
        return transformer

    with quiet(), mock.patch.object(Transformer, "_load_model", checked):
        yield


@contextmanager
def without_weights(folder: Path) -> Iterator[None]:
    """Let sentence-transformers make networks without reading weights: such a network cannot run.

    Raises InputError as ``check_files``.
    """
    from unittest import mock

    import torch
    from sentence_transformers.base.modules import Transformer

    def empty(_self: Any, _path: str, _task: str, config: Any, *_: Any, **kwargs: Any) -> Any:
        from transformers import AutoModel

        with torch.device("meta"):
            return AutoModel.from_config(
                config, trust_remote_code=kwargs.get("trust_remote_code", False)
            )

    check_files(folder)
    with quiet(), mock.patch.object(Transformer, "_load_model", empty):
        yield


def refuse_untrusted_activations(folder: Path, projection: str | None = None) -> None:
    """Refuse dense layers whose function sentence-transformers would replace by another one.

    Raises InputError if a layer of modules.json, or in the folder ``projection``, names none of
    torch.nn.
    """
    listed = [m["path"] for m in read_modules(folder) if m["type"].endswith("Dense")]
    for path in (folder / name for name in (*listed, projection) if name):
        name = read_json(path / "config.json").get("activation_function", "torch.nn.")
        if not name.startswith("torch.nn."):
            raise InputError(
                f"{path}: activation_function {name!r}; supported: classes of torch.nn"
            )


WIDTHS = ("hidden_size", "d_model", "n_embd", "dim", "in_features")
SIZES = (
    *("num_hidden_layers", "num_layers", "n_layers", "n_layer", "num_decoder_layers"),
    *("vocab_size", "intermediate_size", "d_ff", "type_vocab_size", "out_features"),
)
"""Keys of a config.json: of a network's width, and of what has weights for each of its parts."""
PARAMETERS_PER_BYTE = 2
"""At most: weights of four bits."""


def check_files(folder: Path) -> None:
    """Refuse a checkpoint that libraries would take for ever over.

    Raises
    ------
    InputError
        If its modules or prompts are none, its tokenizer is elsewhere, or its config.json describes
        a network far larger than its weights.
    """
    declared_prompts(folder)
    refuse_other_tokenizer(folder)
    for module in {"", *(one["path"] for one in read_modules(folder))}:
        _check_sizes(folder / module)


def check_tokenizer(tokenizer: Any, place: Path) -> Any:
    """Return a tokenizer; InputError if it is not that of the network described beside it.

    That is one of special tokens alone, with words that the network has no vectors for, or less
    than half as many: most of a text would be unknown. Words added to a vocabulary are counted;
    their numbers may be beyond what the network reads.
    """
    if not tokenizer.is_fast:
        return tokenizer  # refused where it is used
    config = read_json(place / "config.json")
    of_text = config.get("text_config")
    inner = of_text.get("vocab_size") if isinstance(of_text, dict) else None
    wanted = config.get("vocab_size") or inner
    words = tokenizer.backend_tokenizer.get_vocab(with_added_tokens=False)
    n_words, last = len(words.keys() | tokenizer.get_added_vocab()), max(words.values(), default=-1)
    is_empty = n_words <= len(set(tokenizer.all_special_tokens))
    if is_empty or (isinstance(wanted, int) and (n_words < wanted / 2 or last >= wanted)):
        raise InputError(
            f"{place}: its tokenizer has {n_words:,} words, numbered up to {last:,}, its "
            f"config.json vocab_size {wanted}: is it missing, cut off, or another model's? Save "
            "the model's own beside the weights (tokenizer.save_pretrained)"
        )
    return tokenizer


def _check_sizes(place: Path) -> None:
    """Refuse a config.json with a size that the weights beside it have no room for."""
    weights = [path for pattern in ("*.safetensors", "*.bin") for path in place.glob(pattern)]
    most = PARAMETERS_PER_BYTE * sum(path.stat().st_size for path in weights if path.is_file())
    config = read_json(place / "config.json")
    for part in (config, config.get("text_config")) if most else ():
        if not isinstance(part, dict):
            continue
        widths = [part[key] for key in WIDTHS if isinstance(part.get(key), int)]
        for key in SIZES:
            size = part.get(key)
            if isinstance(size, int) and size * max([1, *widths]) > most:
                raise InputError(
                    f"{place / 'config.json'}: {key} {size:,} is more than the weights beside it, "
                    f"{most // PARAMETERS_PER_BYTE:,} bytes, have room for; is one of them cut "
                    "off, or another model's?"
                )


def set_weights(model: Any, weights: Mapping[str, Any], folder: Path) -> Any:
    """Give a model the weights of a folder, all of them and no other, in float32; return it.

    Raises
    ------
    InputError
        If a tensor is missing, left over or of another shape: the checkpoint is of another kind.
    """
    try:
        model.load_state_dict({name: tensor.float() for name, tensor in weights.items()})
    except RuntimeError as error:
        raise InputError(
            f"{folder}: its weights are not those of {type(model).__name__} ({error}). Is this the "
            "right backend or architecture?"
        ) from error
    return model


def round_parameters(model: Any, dtype: str) -> Any:
    """Bring a model's weights into a number format, not its buffers: angles stay in float32."""
    import torch

    for parameter in model.parameters():
        parameter.data = parameter.data.to(getattr(torch, str(dtype)))
    return model
