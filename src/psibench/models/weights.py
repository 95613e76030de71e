"""Read a checkpoint's tensors, and check that no weights were randomly initialised.

Otherwise transformers warns at most when it initialises missing weights at random, drops weights
that the network does not have, or makes a tokenizer of only special tokens without a vocabulary.
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
    read_json_object,
    read_modules,
    transformer_folder,
)
from psibench.models.library_keys import refuse_other_tokenizer


def read_tensors(folder: Path, wanted: Callable[[str], bool] = lambda _: True) -> dict[str, Any]:
    """Read the tensors whose names are wanted, from safetensors, else from PyTorch's files.

    Raises
    ------
    InputError
        If the folder has none of them.
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
            f"{folder}: found none of the needed tensors in *.safetensors or pytorch_model*.bin; "
            "does the registry entry name this checkpoint's architecture?"
        )
    return tensors


def read_pickled(path: Path) -> dict[str, Any]:
    """Read a dict of tensors that torch.save wrote, without running code from the pickle.

    Raises
    ------
    InputError
        If the file is damaged, or has anything other than named tensors.
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
    """Load a checkpoint into a class of transformers that it does not name.

    ``options`` are for ``from_pretrained``; with a ``state_dict``, no weights are read from the
    folder. Raises InputError as ``check_network``.
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


def check_network_config(
    config: Mapping[str, Any], wanted: Mapping[str, Any], *, where: str
) -> None:
    """Raise InputError if a key of a config has an unsupported value; missing keys pass."""
    for key, value in wanted.items():
        if (given := config.get(key, value)) != value:
            raise InputError(f"{where}: found {key} {given!r}; supported: {value!r}")


@contextmanager
def quiet() -> Iterator[None]:
    """Silence transformers' progress bars and its report on weights; see `check_network`."""
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
"""Makes ``from_pretrained`` report tensors that it initialised or that have another shape."""
# Buffers that older releases saved.
BUFFERS = re.compile(r"(position_ids|inv_freq|masked_bias|attn\.bias|token_type_ids)$")


def check_network(folder: str | Path, model: Any, info: Mapping[str, Any]) -> None:
    """Raise InputError if a network lacks weights, or leaves some of its checkpoint's out.

    A bare transformer may lack its pooler, which psibench does not use. Tensors of other modules
    may be left over: a head for another task, a projection. ``info`` is the result of
    ``from_pretrained`` with ``output_loading_info``. The message has the folder, the number of
    weights, and the first name.
    """
    is_bare = model.base_model is model
    children = {name for one in (model, model.base_model) for name, _ in one.named_children()}
    prefix = f"{getattr(model, 'base_model_prefix', '')}."
    missing = [name for name in info["missing_keys"] if not (is_bare and "pooler." in name)]
    shapes = [str(key) for key in info["mismatched_keys"]]
    left_over = [
        name
        for name in info["unexpected_keys"]
        if name.removeprefix(prefix).partition(".")[0] in children and not BUFFERS.search(name)
    ]
    for names, problem in (
        (missing, "are missing"),
        (shapes, "have another shape"),
        (left_over, "do not fit, because its config.json describes a smaller network"),
    ):
        if names:
            raise InputError(
                f"{folder}: {len(names)} weights of {type(model).__name__} {problem}, e.g. "
                f"{sorted(names)[0]}. Is the folder complete, and is this the right backend or "
                "architecture?"
            )


@contextmanager
def checking_weights(folder: Path) -> Iterator[None]:
    """Make a library refuse checkpoints by ``check_files`` and ``check_network``.

    sentence-transformers and FlagEmbedding do not check weights.
    """
    from unittest import mock

    from transformers import PreTrainedModel

    check_files(folder)
    load = PreTrainedModel.from_pretrained.__func__

    def checked(cls: Any, *args: Any, **kwargs: Any) -> Any:
        model, info = load(cls, *args, **kwargs | WITH_INFO)
        check_network(folder, model, info)
        return model

    with quiet(), mock.patch.object(PreTrainedModel, "from_pretrained", classmethod(checked)):
        yield


@contextmanager
def without_weights(folder: Path) -> Iterator[None]:
    """Make sentence-transformers build networks without weights; these cannot run.

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
    """Refuse dense layers whose activation function sentence-transformers would replace.

    Raises InputError if a layer of modules.json, or in the folder ``projection``, names a function
    outside of torch.nn.
    """
    listed = [m["path"] for m in read_modules(folder) if m["type"].endswith("Dense")]
    for path in (folder / name for name in (*listed, projection) if name):
        name = read_json_object(path / "config.json").get("activation_function", "torch.nn.")
        if not name.startswith("torch.nn."):
            raise InputError(
                f"{path}: activation_function {name!r}; supported: classes of torch.nn"
            )


_WIDTH_KEYS = ("hidden_size", "d_model", "n_embd", "dim", "in_features")
_SIZE_KEYS = (
    *("num_hidden_layers", "num_layers", "n_layers", "n_layer", "num_decoder_layers"),
    *("vocab_size", "intermediate_size", "d_ff", "type_vocab_size", "out_features"),
)
"""Keys of a config.json that multiply the number of a network's weights."""
PARAMETERS_PER_BYTE = 2
"""At most; weights have at least four bits."""


def check_files(folder: Path) -> None:
    """Refuse a checkpoint with which libraries would run for a very long time.

    Raises
    ------
    InputError
        If its modules or prompts are malformed, its tokenizer is elsewhere, or its config.json
        describes a network far larger than its weights.
    """
    declared_prompts(folder)
    refuse_other_tokenizer(folder)
    for module in {"", *(one["path"] for one in read_modules(folder))}:
        _check_sizes(folder / module)


def check_tokenizer(tokenizer: Any, folder: Path) -> Any:
    """Return a tokenizer; raise InputError if it does not fit the network in the same folder.

    It does not fit if it has only special tokens, words without input embeddings, or less than half
    as many words as the network: it would read most of a text as unknown tokens. Words added to the
    vocabulary are counted, but may be numbered beyond the network's embeddings.
    """
    if not tokenizer.is_fast:
        return tokenizer  # `tokenize_texts` refuses it
    config = read_json_object(folder / "config.json")
    of_text = config.get("text_config")
    inner = of_text.get("vocab_size") if isinstance(of_text, dict) else None
    wanted = config.get("vocab_size") or inner
    words = tokenizer.backend_tokenizer.get_vocab(with_added_tokens=False)
    n_words, last = len(words.keys() | tokenizer.get_added_vocab()), max(words.values(), default=-1)
    is_empty = n_words <= len(set(tokenizer.all_special_tokens))
    if is_empty or (isinstance(wanted, int) and (n_words < wanted / 2 or last >= wanted)):
        raise InputError(
            f"{folder}: the tokenizer has {n_words:,} words, numbered up to {last:,}, but "
            f"config.json has vocab_size {wanted}. Is the tokenizer missing, truncated, or another "
            "model's? Save the model's tokenizer in this folder (tokenizer.save_pretrained)"
        )
    return tokenizer


def _check_sizes(folder: Path) -> None:
    """Refuse a config.json with a size that does not fit the weights in the folder."""
    weights = [path for pattern in ("*.safetensors", "*.bin") for path in folder.glob(pattern)]
    most = PARAMETERS_PER_BYTE * sum(path.stat().st_size for path in weights if path.is_file())
    config = read_json_object(folder / "config.json")
    for section in (config, config.get("text_config")) if most else ():
        if not isinstance(section, dict):
            continue
        widths = [section[key] for key in _WIDTH_KEYS if isinstance(section.get(key), int)]
        for key in _SIZE_KEYS:
            size = section.get(key)
            if isinstance(size, int) and size * max([1, *widths]) > most:
                raise InputError(
                    f"{folder / 'config.json'}: {key} {size:,} is too large for the "
                    f"{most // PARAMETERS_PER_BYTE:,} bytes of weights in the folder; is a file "
                    "truncated, or another model's?"
                )


def set_weights(model: Any, weights: Mapping[str, Any], folder: Path) -> Any:
    """Load exactly the given weights into a model, in float32; return the model.

    Raises
    ------
    InputError
        If a tensor is missing, left over or of another shape: the checkpoint is of another kind.
    """
    try:
        model.load_state_dict({name: tensor.float() for name, tensor in weights.items()})
    except RuntimeError as error:
        raise InputError(
            f"{folder}: its weights do not fit {type(model).__name__} ({error}). Is this the right "
            "backend or architecture?"
        ) from error
    return model


def round_parameters(model: Any, dtype: str) -> Any:
    """Round a model's weights to a number format, but not its buffers: angles stay in float32."""
    import torch

    for parameter in model.parameters():
        parameter.data = parameter.data.to(getattr(torch, str(dtype)))
    return model
