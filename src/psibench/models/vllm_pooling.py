"""Encoders run by vLLM's pooling runner, in a server of the job's own.

vLLM brings a torch and a transformers of its own, and both sides would have to take the same ones;
so it runs in an environment of its own, as it does for language models, and is handed token ids.
"""

import base64
import weakref
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from psibench.config.encoders import VllmModel
from psibench.errors import InputError
from psibench.models.checkpoints import checkpoint_identity
from psibench.models.protocols import MODEL_VERSIONS, Role, TokenizedText
from psibench.models.tokenizing import append_tokens, tokenize_texts, tokens_to_append
from psibench.models.weights import load_transformer_module
from psibench.tables.provenance import hash_params
from psibench.vllm.server import VllmProcess, log_name

LOGS = Path("logs/vllm")
ASK_S = 3600.0
"""How long one batch may take."""
END_S = 15.0
"""How long a server that failed is waited for to end by itself."""


@dataclass(frozen=True)
class VllmEncoder:
    """An ``Encoder`` over vLLM; see ``load_vllm``.

    vLLM cuts work into batches itself, by what else is under way, and its sums depend on them
    (hence its switch VLLM_BATCH_INVARIANT): the ``length`` of a batch means nothing here, and even
    two equal runs give the same vectors to rounding only.
    """

    entry: VllmModel
    server: VllmProcess
    tokenizer: Any
    identity: str
    number_format: str
    vllm_version: str
    appended: tuple[int, ...] = ()

    @property
    def fingerprint(self) -> str:
        """Hash of everything that decides the vectors besides the text and its prompt."""
        arguments = self.entry.vllm.arguments
        return hash_params(
            self.entry.model_dump(mode="json", include={"max_tokens", "append"})
            | ({"arguments": arguments} if arguments else {})
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

        Raises InputError if the server ended or refuses them, gives no vector for one, or one that
        is not finite or all zeros.
        """
        asked = {
            "model": self.server.model,
            "input": [window.tolist() for window in windows],
            "encoding_format": "base64",
        }
        found = self._ask(asked)
        try:
            rows = sorted(found["data"], key=lambda row: int(row["index"]))
            texts = [base64.b64decode(row["embedding"], validate=True) for row in rows]
            vectors = [np.frombuffer(text, dtype="<f4") for text in texts]
        except (LookupError, TypeError, ValueError) as error:
            raise self._refused(f"an answer of another form ({error!r})") from None
        if len(vectors) != len(windows):
            raise self._refused(f"{len(vectors)} vectors for {len(windows)} texts")
        return [self._unit_vector(vector) for vector in vectors]

    def _ask(self, body: dict[str, Any]) -> Any:
        import httpx2

        key = {"Authorization": f"Bearer {self.server.secret.reveal()}"}
        url = f"{self.server.base_url}/embeddings"
        try:
            reply = httpx2.post(url, json=body, headers=key, timeout=ASK_S, trust_env=False)
        except httpx2.HTTPError as error:
            raise InputError(self._end() or f"vllm: no answer: {error!r}") from None
        try:
            found = reply.json()
        except ValueError:
            found = None
        if reply.status_code >= 500 and (end := self._end()) is not None:
            raise InputError(end)
        if reply.status_code != 200 or found is None:
            raise self._refused(f"status {reply.status_code}: {reply.text[:500]}")
        return found

    def _end(self) -> str | None:
        """Say how the server ended, if it does: a dying engine's takes its time."""
        return self.server.exit_reason(within_s=END_S)

    def _refused(self, words: str) -> InputError:
        return InputError(f"checkpoint {self.entry.checkpoint!r}: vLLM gave {words}")

    def _unit_vector(self, found: np.ndarray) -> np.ndarray:
        vector = found.astype(np.float64)
        norm = np.linalg.norm(vector)
        if not vector.size or not np.isfinite(norm) or norm == 0:
            raise self._refused(
                f"no usable vector for a text (length {norm:g}); try another dtype, or the "
                "backend sentence-transformers"
            )
        unit: np.ndarray = (vector / norm).astype(np.float32)[None, :]
        return unit


def load_vllm(entry: VllmModel, folder: Path, *, device: str, dtype: str) -> VllmEncoder:
    """Serve a checkpoint by vLLM's pooling runner, in the entry's number format or ``dtype``.

    Pooling is what the checkpoint declares for sentence-transformers, or vLLM's own for the
    architecture. That its files are whole is seen beforehand, by transformers, which reads the
    names and shapes of the weights but not the numbers. The server ends with the encoder, or else
    with the process.

    Raises
    ------
    InputError
        If the server does not start, or the entry wants GPUs and there are none.
    """
    if device != "cuda" and entry.vllm.gpus:
        raise InputError(
            f"checkpoint {entry.checkpoint!r}: backend vllm needs an NVIDIA GPU, and this job's "
            f"device is {device}; run it on a GPU node, set `vllm: {{gpus: 0}}` for a CPU build "
            "of vLLM, or take the backend sentence-transformers"
        )
    trust = entry.trust_remote_code
    whole = load_transformer_module(folder, trust_remote_code=trust, device_map="meta")
    tokenizer = whole.tokenizer
    appended = tokens_to_append(entry, tokenizer)
    chosen = entry.dtype or dtype
    options = ["--runner", "pooling", "--dtype", chosen, "--no-enable-prefix-caching"]
    options += ["--max-model-len", str(entry.max_tokens)]
    options += ["--trust-remote-code"] if trust else []
    identity = checkpoint_identity(entry.checkpoint, entry.revision)
    with ExitStack() as stack:
        process = VllmProcess(str(folder), entry.vllm, log=LOGS / log_name(), options=options)
        server = stack.enter_context(process)
        server.start()
        encoder = VllmEncoder(
            entry, server, tokenizer, identity, chosen, server.version(), appended
        )
        weakref.finalize(encoder, stack.pop_all().close)
    return encoder
