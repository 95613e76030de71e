"""Encoders and cross-encoders compiled by OpenVINO, which is faster on a CPU.

With OpenVINO's fused kernels a float32 network takes about two thirds of torch's time; its vectors
and scores differ by rounding only (`models.protocols`). bfloat16, which the config must request, is
faster still on CPUs with bfloat16 instructions. The first job that compiles a network compares both
engines on a few texts. torch runs networks that OpenVINO cannot run or computes differently, and
those with windowed or block-sparse attention.

`PSIBENCH_ENGINE` is ``auto`` (as above, the default) or ``torch``. Later jobs reuse converted
networks of up to `MOST_KEPT_BYTES` and the reasons for using torch, in
``$XDG_CACHE_HOME/psibench/engines``. Delete that folder to try everything again.
"""

import logging
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from psibench.errors import InputError
from psibench.models.protocols import VECTOR_BOUND
from psibench.tables.provenance import hash_params

if TYPE_CHECKING:
    import torch

logger = logging.getLogger("psibench")
NETWORK_FILE, REFUSAL_FILE = "model.xml", "torch.txt"
"""Files of a network's cache folder: the converted network, or the reason to use torch."""

ENGINES = ("auto", "torch")
PRECISION = {"float32": "f32", "bfloat16": "bf16"}
"""OpenVINO's names of the number formats it computes in on a CPU."""
LEAST_WEIGHTS, MOST_WEIGHTS = 2_000_000, 1_000_000_000
"""Smaller networks (not counting word embeddings) take longer to compile than to run. Larger ones
need too much memory: the weights exist three times during compilation."""
MOST_KEPT_BYTES = 1 << 30
PROBE_LENGTHS = (150, 140, 128, 90, 60, 20)
"""Lengths, in words, of the texts on which both engines are compared."""

LOGIT_BOUND = 1e-4
"""Largest allowed difference of the engines' logits, relative to max(1, logit). Tiny random
networks, whose weights are large, differed by up to 7e-6."""
STATES = ("input_ids", "attention_mask"), "last_hidden_state"
"""Inputs and output of a transformer."""


@dataclass(frozen=True)
class Compiled:
    """One output of a network, computed by OpenVINO in one number format, a batch at a time.

    Not thread-safe: calls share buffers.
    """

    run: Any = field(repr=False)
    inputs: tuple[str, ...]

    def __call__(self, inputs: Mapping[str, "torch.Tensor"]) -> "torch.Tensor":
        """Return the float32 output for (rows, length) token ids and, if padded, their mask.

        States are (rows, length, hidden), logits (rows, n_outputs).
        """
        import torch

        whole = {"attention_mask": torch.ones_like(inputs["input_ids"])} | dict(inputs)
        return torch.from_numpy(self.states({name: each.numpy() for name, each in whole.items()}))

    def states(self, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the same for arrays; the next call overwrites the result."""
        states: np.ndarray = self.run([inputs[name] for name in self.inputs])[0]
        return states


Passes = Callable[[list[str], Compiled | None], Sequence[np.ndarray]]


def compile_network(
    network: Any,
    *,
    dtype: str,
    identity: str,
    passes: Passes,
    signature: tuple[tuple[str, ...], str] = STATES,
    bound: float | None = None,
) -> Compiled | None:
    """Compile a network for the CPU; return None if torch should run it.

    Parameters
    ----------
    network
        A network of transformers, with float32 weights.
    dtype
        Number format of the computation.
    identity
        Identity of the checkpoint, for the cache of converted networks.
    passes
        Computes the vectors or logits of texts with a compiled network, or with torch for None.
    signature
        Names of the network's inputs, (rows, length) integers each, and of its output.
    bound
        Largest allowed difference, relative to max(1, torch's number); None is `VECTOR_BOUND`.

    Raises
    ------
    InputError
        If `PSIBENCH_ENGINE` is none of `ENGINES`.
    """
    wanted = _wanted_engine()
    n_weights = sum(each.numel() for each in network.parameters())
    n_used = n_weights - network.get_input_embeddings().weight.numel()
    is_worth_it = n_used > LEAST_WEIGHTS and n_weights < MOST_WEIGHTS
    if wanted == "torch" or not is_worth_it or _attends_in_parts(network.config):
        return None
    if (core := _core(dtype)) is None:
        return None
    import torch

    threads = torch.get_num_threads()
    folder = _cache() / _key(type(network).__name__, core, dtype, identity)
    cached, refused = folder / NETWORK_FILE, folder / REFUSAL_FILE
    if refused.exists():
        logger.info("engine torch: %s (%s)", refused.read_text(encoding="utf-8"), refused)
        return None
    if cached.exists():
        try:
            return _compiled(core, core.read_model(cached), dtype, signature[0], threads)
        except RuntimeError:  # damaged: converted again
            shutil.rmtree(folder, ignore_errors=True)
    is_final = True
    try:
        model = _converted(network, *signature)
        compiled = _compiled(core, model, dtype, signature[0], threads)
        difference = _difference(compiled, passes)
        reason = f"openvino's numbers differ by {difference:.1g}"
    except Exception as error:  # OpenVINO may raise anything; torch runs the network then
        first_line, *_ = str(error).split("\n")
        difference, reason = np.inf, f"openvino cannot run it: {first_line}"
        # Another job may have enough memory or disk space.
        is_final = not (isinstance(error, OSError | MemoryError) or "alloc" in first_line)
    if not difference <= (VECTOR_BOUND[dtype] if bound is None else bound):
        logger.info("engine torch: %s", reason)
        if is_final:
            _keep(folder, lambda draft: (draft / refused.name).write_text(reason, encoding="utf-8"))
        return None
    if 4 * n_weights <= MOST_KEPT_BYTES:
        from openvino import save_model

        _keep(folder, lambda draft: save_model(model, draft / cached.name, compress_to_fp16=False))
    return compiled


def kept_network(kind: str, *, dtype: str, identity: str, threads: int) -> Compiled | None:
    """Return a transformer that an earlier job has converted, without importing torch.

    Returns None if there is none, or torch should run it. ``kind`` is the class of the network,
    ``threads`` the number that torch would use; see `compile_network`.
    """
    if _wanted_engine() == "torch" or (core := _core(dtype)) is None:
        return None
    cached = _cache() / _key(kind, core, dtype, identity) / NETWORK_FILE
    if not cached.exists():
        return None
    try:
        return _compiled(core, core.read_model(cached), dtype, STATES[0], threads)
    except RuntimeError:  # damaged: `compile_network` converts it again
        return None


def _wanted_engine() -> str:
    wanted = os.environ.get("PSIBENCH_ENGINE", "auto")
    if wanted not in ENGINES:
        raise InputError(f"PSIBENCH_ENGINE is {wanted!r}; allowed: {', '.join(ENGINES)}")
    return wanted


def _attends_in_parts(config: Any) -> bool:
    """Return whether a token attends to a part of its text only.

    OpenVINO returns NaN for a window that is all padding, and then for the whole text. Only texts
    padded by more than a window show it, so comparing a few texts cannot rule it out. A network
    that switches to full attention for short texts (BigBird) does not switch back.
    """
    text_config = config.get_text_config()
    kinds = getattr(text_config, "layer_types", None)
    if kinds is not None:
        return any(kind != "full_attention" for kind in kinds)
    windows = ("sliding_window", "local_attention", "attention_window", "window_size")
    is_windowed = any(getattr(text_config, name, None) for name in windows)
    return is_windowed or getattr(text_config, "attention_type", None) == "block_sparse"


def _core(dtype: str) -> Any:
    """Return OpenVINO; None if it is not installed or this CPU lacks the number format."""
    try:
        import openvino  # noqa: F401
    except ModuleNotFoundError:
        logger.info("engine torch: openvino, faster on a CPU, is not installed")
        return None
    core = _started()
    able = {"FP32", *core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")}
    return core if {"float32": "FP32", "bfloat16": "BF16"}.get(dtype) in able else None


@cache
def _started() -> Any:
    """Start OpenVINO once, and never unload it.

    Its CPU plugin gives the main thread a stack for signal handlers. Unloading the plugin frees
    that stack without resetting the address, so that the next signal ends the process (2026.4).
    """
    from openvino import Core

    return Core()


def _converted(network: Any, inputs: tuple[str, ...], output: str) -> Any:
    """Trace a network and convert it, for batches of any shape.

    Calls OpenVINO's frontend because its `convert_model` sends telemetry.
    """
    import torch
    from openvino import PartialShape
    from openvino.frontend import FrontEndManager
    from openvino.frontend.pytorch.ts_decoder import TorchScriptPythonDecoder

    from psibench.models.weights import quiet

    class OneOutput(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, *tensors: Any) -> Any:
            return getattr(self.network(**dict(zip(inputs, tensors, strict=True))), output)

    example = {"input_ids": torch.ones((2, 16), dtype=torch.int64)}
    example["attention_mask"] = torch.ones_like(example["input_ids"])
    example["attention_mask"][1, 9:] = 0
    example["token_type_ids"] = torch.zeros_like(example["input_ids"])
    with torch.no_grad(), quiet(), warnings.catch_warnings(action="ignore"):
        decoder = TorchScriptPythonDecoder(
            OneOutput().eval(), example_input=tuple(example[name] for name in inputs)
        )
        frontend = FrontEndManager().load_by_framework("pytorch")
        model = frontend.convert(frontend.load(decoder))
    for each in model.inputs:
        each.get_node().set_partial_shape(PartialShape([-1, -1]))
    model.validate_nodes_and_infer_types()
    return model


def _compiled(core: Any, model: Any, dtype: str, inputs: tuple[str, ...], threads: int) -> Compiled:
    """Compile for a number of threads, without pinning them to cores."""
    options = {
        "INFERENCE_PRECISION_HINT": PRECISION[dtype],
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "ENABLE_CPU_PINNING": False,
    }
    return Compiled(core.compile_model(model, "CPU", options), inputs)


def _difference(compiled: Compiled, passes: Passes) -> float:
    """Run texts with both engines; return the largest difference, NaN if any number is NaN."""
    words = "evidence late in a long document is what many retrievers of today miss most".split()
    texts = [" ".join(words[i % len(words)] for i in range(n)) for n in PROBE_LENGTHS]
    pairs = zip(passes(texts, compiled), passes(texts, None), strict=True)
    apart = [np.abs(ours - theirs) / np.maximum(1, np.abs(theirs)) for ours, theirs in pairs]
    return float(np.max([each.max() for each in apart]))


def _cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(root).expanduser() / "psibench" / "engines"


def _key(kind: str, core: Any, dtype: str, identity: str) -> str:
    """Hash everything that decides a converted network and whether both engines agree."""
    return hash_params(
        {
            "identity": identity,
            "network": kind,
            "dtype": dtype,
            "cpu": core.get_property("CPU", "FULL_DEVICE_NAME"),
            "versions": [version(name) for name in ("torch", "transformers", "openvino")],
        }
    )


def _keep(folder: Path, write: Callable[[Path], object]) -> None:
    """Write files into a folder of the cache; after an error it has none."""
    with suppress(OSError):  # if the cache is not writable, the next job converts again
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as made:
            draft = Path(made) / "draft"
            draft.mkdir()
            write(draft)
            if not any((folder / name).exists() for name in (NETWORK_FILE, REFUSAL_FILE)):
                shutil.rmtree(folder, ignore_errors=True)  # left by a damaged network
            draft.rename(folder)  # fails if another job was first
