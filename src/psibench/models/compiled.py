"""Transformers compiled by OpenVINO, where that is faster on this machine's CPU.

Its fused kernels give a float32 network's vectors to rounding (`models.rounding`) in about two
thirds of torch's time, and bfloat16, which must be asked for, takes less where the CPU has units
for it. How much of that is true depends on the CPU and on the network: the first job that loads a
checkpoint compares both engines on a few texts, checks that they agree, takes the faster one and
writes it down for the jobs that follow, so that one machine keeps to one engine.

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
from psibench.models.rounding import VECTOR_BOUND
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

Forward = Callable[[Sequence[np.ndarray], Sequence[np.ndarray]], list[np.ndarray]]


@dataclass(frozen=True)
class Compiled:
    """Token states of a transformer, computed by OpenVINO in one number format."""

    run: Any = field(repr=False)
    dtype: str

    def __call__(self, inputs: Mapping[str, "torch.Tensor"]) -> "torch.Tensor":
        """Return (rows, length, hidden) float32 states of (rows, length) token ids."""
        import torch

        ids = inputs["input_ids"]
        mask = inputs.get("attention_mask")
        found = self.run([ids.numpy(), (torch.ones_like(ids) if mask is None else mask).numpy()])
        return torch.from_numpy(found[0])


def wanted_engine() -> str:
    """Read `PSIBENCH_ENGINE`; InputError if it is none of `ENGINES`."""
    found = os.environ.get("PSIBENCH_ENGINE", "auto")
    if found not in ENGINES:
        raise InputError(f"PSIBENCH_ENGINE is {found!r}; allowed: {', '.join(ENGINES)}")
    return found


def compile_if_faster(
    transformer: Any,
    *,
    dtype: str,
    identity: str,
    texts_of: Callable[[list[str]], tuple[list[np.ndarray], list[np.ndarray]]],
    forward: Callable[[Compiled | None], Forward],
) -> Compiled | None:
    """Compile a transformer on the CPU; None where torch runs it.

    Parameters
    ----------
    transformer
        Takes ``input_ids`` and ``attention_mask``, gives ``last_hidden_state``; float32 weights.
    dtype
        Number format to compute in.
    identity
        Which checkpoint it is: choices are remembered by it.
    texts_of
        Tokenizes texts: windows and content as in ``TokenizedText``.
    forward
        The encoder's forward pass with a compiled transformer, or None for torch.

    Raises
    ------
    InputError
        If `PSIBENCH_ENGINE` asks for OpenVINO, which is missing or cannot run this network, or is
        none of `ENGINES`.
    """
    wanted, n_weights = wanted_engine(), sum(each.numel() for each in transformer.parameters())
    n_used = n_weights - transformer.get_input_embeddings().weight.numel()
    is_worth_it = n_used > LEAST_WEIGHTS and n_weights < MOST_WEIGHTS
    if wanted == "torch" or (wanted == "auto" and not is_worth_it):
        return None
    if (core := _core(wanted, dtype)) is None:
        return None
    if wanted == "openvino":
        try:
            return _compiled(core, _converted(transformer), dtype)
        except Exception as error:
            raise InputError(f"PSIBENCH_ENGINE is openvino, which cannot run it: {error}") from None
    folder = _cache() / _key(transformer, core, dtype, identity)
    if known := _remembered(folder):
        with suppress(RuntimeError):  # what was kept cannot be read: both are compared again
            compiled = None
            if known["engine"] == "openvino":
                kept = folder / "model.xml"
                model = core.read_model(kept) if kept.exists() else _converted(transformer)
                compiled = _compiled(core, model, dtype)
            logger.info("engine %s: %s", known["engine"], known["why"])
            return compiled
    model, compiled, chosen = None, None, {"engine": "torch", "why": "openvino cannot run it"}
    try:
        model = _converted(transformer)
        compiled = _compiled(core, model, dtype)
        chosen = _choice(*_compare(compiled, texts_of, forward), dtype)
    except Exception as error:  # whatever a foreign compiler says of a network, torch runs it
        logger.info("openvino: %s", str(error).split("\n")[0])
    logger.info("engine %s: %s; remembered in %s", chosen["engine"], chosen["why"], folder)
    is_kept = chosen["engine"] == "openvino" and 4 * n_weights <= MOST_KEPT_BYTES
    _remember(folder, chosen, model if is_kept else None)
    return compiled if chosen["engine"] == "openvino" else None


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


def _choice(seconds: Mapping[str, float], difference: float, dtype: str) -> dict[str, str]:
    """Choose the faster engine; torch where the other's vectors differ by more than rounding."""
    if not difference <= VECTOR_BOUND[dtype]:
        return {"engine": "torch", "why": f"openvino's vectors differ by {difference:.1g}"}
    ratio = seconds["torch"] / seconds["openvino"]
    engine = "openvino" if ratio > 1 else "torch"
    return {"engine": engine, "why": f"openvino takes {1 / ratio:.2f} of torch's time here"}


def _converted(transformer: Any) -> Any:
    """Trace a transformer and convert it, for batches of any shape.

    By OpenVINO's frontend, and not its `convert_model`, which reports home.
    """
    import torch
    from openvino import PartialShape
    from openvino.frontend import FrontEndManager
    from openvino.frontend.pytorch.ts_decoder import TorchScriptPythonDecoder

    from psibench.models.weights import quiet

    class States(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.transformer = transformer

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            found = self.transformer(input_ids=input_ids, attention_mask=attention_mask)
            return found.last_hidden_state

    ids = torch.ones((2, 16), dtype=torch.int64)
    mask = torch.ones_like(ids)
    mask[1, 9:] = 0
    with torch.no_grad(), quiet(), warnings.catch_warnings(action="ignore"):
        decoder = TorchScriptPythonDecoder(States().eval(), example_input=(ids, mask))
        frontend = FrontEndManager().load_by_framework("pytorch")
        model = frontend.convert(frontend.load(decoder))
    for each in model.inputs:
        each.get_node().set_partial_shape(PartialShape([-1, -1]))
    model.validate_nodes_and_infer_types()
    return model


def _compiled(core: Any, model: Any, dtype: str) -> Compiled:
    """Compile for as many threads as torch has; a scheduler, not OpenVINO, places them."""
    import torch

    options = {
        "INFERENCE_PRECISION_HINT": PRECISION[dtype],
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        "PERFORMANCE_HINT": "LATENCY",
        "ENABLE_CPU_PINNING": False,
    }
    return Compiled(core.compile_model(model, "CPU", options), dtype)


def _compare(
    compiled: Compiled,
    texts_of: Callable[[list[str]], tuple[list[np.ndarray], list[np.ndarray]]],
    forward: Callable[[Compiled | None], Forward],
) -> tuple[dict[str, float], float]:
    """Encode probes with both engines, in turns: least seconds, and the largest difference."""
    words = "evidence late in a long document is what many retrievers of today miss most".split()
    probes = [" ".join(words[place % len(words)] for place in range(n)) for n in PROBE_LENGTHS]
    windows, content = texts_of(probes)
    seconds = {"openvino": np.inf, "torch": np.inf}
    for _ in range(ROUNDS):
        vectors = []
        for name, run in (("openvino", forward(compiled)), ("torch", forward(None))):
            began = time.perf_counter()
            vectors.append(run(windows, content))
            seconds[name] = min(seconds[name], time.perf_counter() - began)
    pairs = zip(*vectors, strict=True)
    return seconds, max(float(np.abs(ours - theirs).max()) for ours, theirs in pairs)


# --- What is remembered ---


def _cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(root).expanduser() / "psibench" / "engines"


def _key(transformer: Any, core: Any, dtype: str, identity: str) -> str:
    """Hash what decides which engine is faster: network, format, threads, CPU and versions."""
    import openvino
    import torch
    import transformers

    return hash_params(
        {
            "identity": identity,
            "network": type(transformer).__name__,
            "attention": getattr(transformer.config, "_attn_implementation", None),
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
