"""Encoders and cross-encoders compiled by OpenVINO, where that is faster on this machine's CPU.

Its fused kernels give a float32 network's vectors and scores to rounding (`models.protocols`) in
about two thirds of torch's time, and bfloat16, which must be asked for, takes less where the CPU
has units for it. How much of that is true depends on the CPU and on the network: the first job that
loads a checkpoint compares both engines on a few texts, checks that they agree, takes the one that
needs fewer CPU seconds, which what else runs on the machine blurs less than those of the clock, and
writes it down for the jobs that follow, so that one machine keeps to one engine. Networks whose
attention has windows or blocks stay with torch.

`PSIBENCH_ENGINE` is ``auto`` (as above, the default), ``torch`` or ``openvino``. Choices, and
compiled networks of up to `MOST_KEPT_BYTES`, are in ``$XDG_CACHE_HOME/psibench/engines``; deleting
that folder has everything measured again.
"""

import json
import logging
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from psibench.errors import InputError
from psibench.models.protocols import VECTOR_BOUND
from psibench.tables.provenance import hash_params

if TYPE_CHECKING:
    import torch

logger = logging.getLogger("psibench")

ENGINES = ("auto", "torch", "openvino")
PRECISION = {"float32": "f32", "bfloat16": "bf16"}
"""OpenVINO's names of the number formats it computes in on a CPU."""
LEAST_WEIGHTS, MOST_WEIGHTS = 2_000_000, 1_000_000_000
"""Smaller networks (without word embeddings) take longer to compile than to run, larger ones too
much memory: their weights are there three times while they are compiled."""
MOST_KEPT_BYTES = 1 << 30
PROBE_LENGTHS = (150, 140, 128, 90, 60, 20)
"""Words of the texts that both engines are compared on."""
ROUNDS = 3

LOGIT_BOUND = 1e-4
"""How far the logits of both engines may lie apart, of the larger of 1 and the logit: tiny random
networks, whose weights are large, differed by up to 7e-6."""
STATES = ("input_ids", "attention_mask"), "last_hidden_state"
"""What a transformer takes, and what it gives."""


@dataclass(frozen=True)
class Compiled:
    """One output of a network, computed by OpenVINO in one number format, a batch at a time.

    Not for several threads at once: they would share its memory.
    """

    run: Any = field(repr=False)
    dtype: str
    inputs: tuple[str, ...]

    def __call__(self, inputs: Mapping[str, "torch.Tensor"]) -> "torch.Tensor":
        """Return the float32 output for (rows, length) ids, a mask where some are padding, ...

        States are (rows, length, hidden), logits (rows, n_outputs).
        """
        import torch

        whole = {"attention_mask": torch.ones_like(inputs["input_ids"])}
        found = self.run([(whole | dict(inputs))[name].numpy() for name in self.inputs])
        return torch.from_numpy(found[0])


Passes = Callable[[list[str]], Callable[[Compiled | None], Sequence[np.ndarray]]]


def wanted_engine() -> str:
    """Read `PSIBENCH_ENGINE`; InputError if it is none of `ENGINES`."""
    found = os.environ.get("PSIBENCH_ENGINE", "auto")
    if found not in ENGINES:
        raise InputError(f"PSIBENCH_ENGINE is {found!r}; allowed: {', '.join(ENGINES)}")
    return found


def compile_if_faster(
    network: Any,
    *,
    dtype: str,
    identity: str,
    passes: Passes,
    signature: tuple[tuple[str, ...], str] = STATES,
    bound: float | None = None,
) -> Compiled | None:
    """Compile a network on the CPU; None where torch runs it.

    Parameters
    ----------
    network
        Of transformers, with float32 weights.
    dtype
        Number format to compute in.
    identity
        Which checkpoint it is: choices are remembered by it.
    passes
        Takes texts, and returns what computes their vectors or logits with a compiled network, or
        with torch if it is None.
    signature
        The network's inputs, (rows, length) integers each, and the name of its output.
    bound
        How far both may lie apart, of the larger of 1 and torch's number; None: `VECTOR_BOUND`.

    Raises
    ------
    InputError
        If `PSIBENCH_ENGINE` asks for OpenVINO, which is missing, cannot run this network or gives
        other numbers, or is none of `ENGINES`.
    """
    wanted = wanted_engine()
    if wanted == "torch":
        return None
    if _attends_in_parts(network.config):
        logger.info("engine torch: openvino is not for attention in windows or blocks")
        return None
    n_weights = sum(each.numel() for each in network.parameters())
    n_used = n_weights - network.get_input_embeddings().weight.numel()
    is_worth_it = n_used > LEAST_WEIGHTS and n_weights < MOST_WEIGHTS
    if wanted == "auto" and not is_worth_it:
        return None
    bound = VECTOR_BOUND[dtype] if bound is None else bound
    if (core := _core(wanted, dtype)) is None:
        return None
    if wanted == "openvino":
        return _asked_for(core, network, dtype, identity, passes, signature, bound)
    folder = _cache() / _key(network, core, dtype, identity)
    if known := _remembered(folder):
        with suppress(RuntimeError):  # what was kept cannot be read: both are compared again
            compiled = None
            if known["engine"] == "openvino":
                kept = folder / "model.xml"
                model = core.read_model(kept) if kept.exists() else _converted(network, *signature)
                compiled = _compiled(core, model, dtype, signature[0])
            logger.info("engine %s: %s", known["engine"], known["why"])
            return compiled
    model, compiled, chosen = None, None, {"engine": "torch", "why": "openvino cannot run it"}
    try:
        model = _converted(network, *signature)
        compiled = _compiled(core, model, dtype, signature[0])
        chosen = _choice(*_compare(compiled, passes), bound)
    except Exception as error:  # whatever a foreign compiler says of a network, torch runs it
        logger.info("openvino: %s", str(error).split("\n")[0])
    logger.info("engine %s: %s; remembered in %s", chosen["engine"], chosen["why"], folder)
    is_kept = chosen["engine"] == "openvino" and 4 * n_weights <= MOST_KEPT_BYTES
    _remember(folder, chosen, model if is_kept else None)
    return compiled if chosen["engine"] == "openvino" else None


def _asked_for(
    core: Any,
    network: Any,
    dtype: str,
    identity: str,
    passes: Passes,
    signature: tuple[tuple[str, ...], str],
    bound: float,
) -> Compiled:
    try:
        compiled = _compiled(core, _converted(network, *signature), dtype, signature[0])
        _, difference = _compare(compiled, passes)
    except Exception as error:
        raise InputError(f"PSIBENCH_ENGINE is openvino, which cannot run it: {error}") from None
    if not difference <= bound:
        raise InputError(
            f"PSIBENCH_ENGINE is openvino, whose numbers for {identity} differ by "
            f"{difference:.1g}; allowed: {bound:g}. Leave it to auto, or say torch"
        )
    return compiled


def _attends_in_parts(config: Any) -> bool:
    """Say whether a token sees a part of its text alone.

    Where it sees only padding, OpenVINO makes NaN of it and then of the whole text, which shows
    only where a text is padded by more than a window: no probe can promise that. And a network that
    turns to full attention for short texts (BigBird) does not turn back.
    """
    text_config = config.get_text_config()
    kinds = getattr(text_config, "layer_types", None)
    if kinds is not None:
        return any(kind != "full_attention" for kind in kinds)
    windows = ("sliding_window", "local_attention", "attention_window", "window_size")
    is_windowed = any(getattr(text_config, name, None) for name in windows)
    return is_windowed or getattr(text_config, "attention_type", None) == "block_sparse"


def _core(wanted: str, dtype: str) -> Any:
    """Start OpenVINO; None where it is not installed or this CPU is not fast in the format."""
    try:
        import openvino  # noqa: F401
    except ModuleNotFoundError:
        if wanted == "openvino":
            raise InputError(
                "PSIBENCH_ENGINE is openvino, which is not installed: pip install openvino"
            ) from None
        logger.info("engine torch: openvino, often faster on a CPU, is not installed")
        return None
    core = _started()
    able = {"FP32", *core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")}
    if {"float32": "FP32", "bfloat16": "BF16"}.get(dtype) in able:
        return core
    if wanted == "openvino":
        raise InputError(f"PSIBENCH_ENGINE is openvino, which has no {dtype} on this CPU")
    return None


@cache
def _started() -> Any:
    """Start OpenVINO, once and for good.

    Its CPU plugin gives the main thread a stack for signal handlers, and takes its memory back when
    the plugin is unloaded, but not its address: the next signal would end the process (2026.4).
    """
    from openvino import Core

    return Core()


def _choice(seconds: Mapping[str, float], difference: float, bound: float) -> dict[str, str]:
    """Choose the faster engine; torch where the other's numbers differ by more than rounding."""
    if not difference <= bound:
        return {"engine": "torch", "why": f"openvino's numbers differ by {difference:.1g}"}
    ratio = seconds["torch"] / seconds["openvino"]
    engine = "openvino" if ratio > 1 else "torch"
    return {"engine": engine, "why": f"openvino takes {1 / ratio:.2f} of torch's CPU time here"}


def _converted(network: Any, inputs: tuple[str, ...], output: str) -> Any:
    """Trace a network and convert it, for batches of any shape.

    By OpenVINO's frontend, and not its `convert_model`, which reports home.
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


def _compiled(core: Any, model: Any, dtype: str, inputs: tuple[str, ...]) -> Compiled:
    """Compile for as many threads as torch has; a scheduler, not OpenVINO, places them."""
    import torch

    options = {
        "INFERENCE_PRECISION_HINT": PRECISION[dtype],
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        "PERFORMANCE_HINT": "LATENCY",
        "ENABLE_CPU_PINNING": False,
    }
    return Compiled(core.compile_model(model, "CPU", options), dtype, inputs)


def _compare(compiled: Compiled, passes: Passes) -> tuple[dict[str, float], float]:
    """Run probes with both engines, in turns: least CPU seconds, and the largest difference."""
    words = "evidence late in a long document is what many retrievers of today miss most".split()
    run = passes([" ".join(words[place % len(words)] for place in range(n)) for n in PROBE_LENGTHS])
    seconds = {"openvino": np.inf, "torch": np.inf}
    for _ in range(ROUNDS):
        found = []
        for name, engine in (("openvino", compiled), ("torch", None)):
            began = time.process_time()
            found.append(run(engine))
            seconds[name] = min(seconds[name], time.process_time() - began)
    pairs = zip(*found, strict=True)
    apart = [np.abs(ours - theirs) / np.maximum(1, np.abs(theirs)) for ours, theirs in pairs]
    return seconds, float(np.max([each.max() for each in apart]))


# --- What is remembered ---


def _cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(root).expanduser() / "psibench" / "engines"


def _key(network: Any, core: Any, dtype: str, identity: str) -> str:
    """Hash what decides which engine is faster: network, format, threads, CPU and versions."""
    import openvino
    import torch
    import transformers

    return hash_params(
        {
            "identity": identity,
            "network": type(network).__name__,
            "attention": getattr(network.config, "_attn_implementation", None),
            "dtype": dtype,
            "threads": torch.get_num_threads(),
            "cpu": core.get_property("CPU", "FULL_DEVICE_NAME"),
            "versions": [torch.__version__, transformers.__version__, openvino.__version__],
        }
    )


def _remembered(folder: Path) -> dict[str, Any] | None:
    with suppress(OSError, ValueError):
        known = json.loads((folder / "choice.json").read_text(encoding="utf-8"))
        if isinstance(known, dict) and known.keys() >= {"engine", "why"}:
            return known
    return None


def _remember(folder: Path, chosen: Mapping[str, Any], model: Any = None) -> None:
    """Put a choice and its compiled network where the next job finds them, whole or not at all."""
    import openvino

    with suppress(OSError):  # a cache that cannot be written: the next job measures again
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as made:
            part = Path(made) / "part"
            part.mkdir()
            if model is not None:
                openvino.save_model(model, part / "model.xml", compress_to_fp16=False)
            (part / "choice.json").write_text(json.dumps(chosen), encoding="utf-8")
            if _remembered(folder) is None:
                shutil.rmtree(folder, ignore_errors=True)
            part.rename(folder)  # fails where another job was first: its choice stays
