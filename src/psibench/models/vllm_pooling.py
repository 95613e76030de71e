"""Encoders run by vLLM's pooling runner, in this process."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from psibench.config.encoders import VllmModel
from psibench.errors import InputError
from psibench.models.checkpoints import checkpoint_identity
from psibench.models.protocols import Role, TokenizedText
from psibench.models.tokenizing import (
    append_tokens,
    load_tokenizer,
    tokenize_texts,
    tokens_to_append,
)
from psibench.models.versions import MODEL_VERSIONS
from psibench.models.weights import load_auto
from psibench.tables.provenance import hash_params

ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
}
"""What vLLM reads when it is imported, unless it is set already: the engine runs in this process
and not in a child that would run the job's script anew, and nothing is sent anywhere."""


@dataclass(frozen=True)
class VllmEncoder:
    """An ``Encoder`` over vLLM; see ``load_vllm``.

    vLLM cuts work into batches itself, by what else is under way, and its sums depend on them
    (hence its switch VLLM_BATCH_INVARIANT): the ``length`` of a batch means nothing here, and even
    two equal runs give the same vectors to rounding only.
    """

    entry: VllmModel
    llm: Any
    tokenizer: Any
    identity: str
    number_format: str
    vllm_version: str
    appended: tuple[int, ...] = ()

    @property
    def fingerprint(self) -> str:
        """Hash of everything that decides the vectors besides the text and its prompt."""
        return hash_params(
            self.entry.model_dump(mode="json", include={"max_tokens", "append"})
            | {
                "identity": self.identity,
                "dtype": self.number_format,
                "vllm": self.vllm_version,
                "version": MODEL_VERSIONS[self.entry.backend],
            }
        )

    def salt(self, role: Role) -> str:
        """Return the role's prompt."""
        return self.entry.prompt(role)

    def tokenize(self, texts: Sequence[str], role: Role) -> list[TokenizedText]:
        """Tokenize texts, cut to ``max_tokens``; the tokens of ``append`` come after the cut."""
        items = tokenize_texts(
            self.tokenizer,
            texts,
            prompt=self.salt(role),
            max_tokens=self.entry.max_tokens - len(self.appended),
        )
        return [append_tokens(item, self.appended) for item in items] if self.appended else items

    def forward(
        self,
        windows: Sequence[np.ndarray],
        content: Sequence[np.ndarray],  # noqa: ARG002 - one vector per text
    ) -> list[np.ndarray]:
        """Encode token ids as they are into (1, dim) float32 unit vectors.

        Raises InputError if vLLM gives no vector for one, or one that is not finite or all zeros.
        """
        prompts = [{"prompt_token_ids": window.tolist()} for window in windows]
        outputs = self.llm.embed(prompts, use_tqdm=False)
        return [self._unit_vector(output) for output in outputs]

    def _unit_vector(self, output: Any) -> np.ndarray:
        vector = np.asarray(output.outputs.embedding, dtype=np.float64)
        norm = np.linalg.norm(vector)
        if not vector.size or not np.isfinite(norm) or norm == 0:
            raise InputError(
                f"checkpoint {self.entry.checkpoint!r}: vLLM gave no usable vector for a text "
                f"({getattr(output, 'error', None) or f'length {norm:g}'}); try another dtype, or "
                "the backend sentence-transformers"
            )
        unit: np.ndarray = (vector / norm).astype(np.float32)[None, :]
        return unit


def load_vllm(entry: VllmModel, folder: Path, *, device: str, dtype: str) -> VllmEncoder:
    """Load a checkpoint into vLLM's pooling runner, in the entry's number format or ``dtype``.

    Pooling is what the checkpoint declares for sentence-transformers, or vLLM's own for the
    architecture. That its files are whole is seen beforehand, by transformers, which reads the
    names and shapes of the weights but not the numbers.

    Raises
    ------
    InputError
        If vLLM is not installed, or there is no GPU.
    """
    if device != "cuda":
        raise InputError(
            f"checkpoint {entry.checkpoint!r}: backend vllm needs an NVIDIA GPU, and this job's "
            f"device is {device}; run it on a GPU node, or take the backend sentence-transformers"
        )
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:
        vllm = import_module("vllm")
    except ImportError as error:
        raise InputError(
            f"checkpoint {entry.checkpoint!r}: backend vllm needs vLLM ({error}); install it on "
            "the GPU nodes with `pip install 'psibench[vllm]'`, see docs/vllm.md"
        ) from error
    trust = entry.trust_remote_code
    tokenizer = load_tokenizer(folder, trust_remote_code=trust)
    appended = tokens_to_append(entry, tokenizer)
    load_auto(folder, {"device_map": "meta"}, trust_remote_code=trust)
    chosen = entry.dtype or dtype
    llm = vllm.LLM(
        model=str(folder),
        runner="pooling",
        max_model_len=entry.max_tokens,
        tensor_parallel_size=entry.gpus,
        gpu_memory_utilization=entry.gpu_memory_utilization,
        dtype=chosen,
        enable_prefix_caching=False,
        trust_remote_code=trust,
    )
    identity = checkpoint_identity(entry.checkpoint, entry.revision)
    version = str(vllm.__version__)
    return VllmEncoder(entry, llm, tokenizer, identity, chosen, version, appended)
