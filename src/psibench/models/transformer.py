"""Transformer encoders: one vector per text, one per window, or one per token."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from psibench.config.models import SentenceTransformerModel, Windows
from psibench.errors import InputError
from psibench.models.checkpoints import checkpoint_identity
from psibench.models.compiled import Compiled, compile_network
from psibench.models.networks import (
    Network,
    check_positions,
    load_network,
    load_without_weights,
    weights_format,
)
from psibench.models.packing import Packed, fetched, on_device, pack_network
from psibench.models.protocols import MODEL_VERSIONS, Role, TokenizedText
from psibench.models.tokenizing import (
    append_tokens,
    filled_windows,
    head_and_tail,
    in_chunks,
    late_windows,
    pad_windows,
    padding_id,
    pool_behind_prompt,
    token_offsets,
    tokenize_texts,
    tokens_to_append,
)
from psibench.tables.provenance import hash_params


@dataclass(frozen=True)
class TransformerEncoder:
    """An ``Encoder`` that runs a transformer; see ``load_transformer``.

    A reduced number format runs under autocast if the weights are float32. Autocast keeps layer
    norms and sums in float32. On all-MiniLM-L6-v2 the smallest cosine with a float32 vector was
    0.99997, and 0.99992 with all weights in bfloat16, at the same speed.
    """

    entry: SentenceTransformerModel
    model: Network
    device: str
    dtype: str
    identity: str
    appended: tuple[int, ...] = ()
    compiled: Compiled | None = None
    """Runs the transformer instead of torch, unless gradients are needed."""
    packed: Packed | None = None
    """Runs the transformer without padding, unless gradients are needed."""

    @property
    def packs(self) -> bool:
        """Whether batches are not padded."""
        return self.packed is not None

    @property
    def overlaps(self) -> bool:
        """Whether ``start`` returns before a batch is computed."""
        return self.device == "cuda"

    @property
    def fingerprint(self) -> str:
        """Hash of everything that decides the vectors besides the text and its prompt."""
        fields = {
            "append", "architecture", "max_tokens", "pooling", "projection", "scoring",
            "trust_remote_code", "windows",
        }  # fmt: skip
        # The checkpoint's pooling excludes the prompt; the entry's includes it.
        pools_prompt = self.entry.architecture == "nv-embed" and not self.model.masks_prompt
        # Earlier versions skipped the modules that change token vectors before pooling for maxsim
        # and for an entry's pooling. With them, the vectors differ and need another key.
        is_new = self.entry.scoring == "maxsim" or self.entry.pooling != "checkpoint"
        later = {"late_chunking", "positions"}
        return hash_params(
            self.entry.model_dump(mode="json", include=fields | later)
            | ({"pools_prompt": True} if pools_prompt else {})
            | ({"dimensions": self.model.dimensions} if self.model.dimensions else {})
            | ({"token_modules": True} if is_new and self.model.has_token_modules else {})
            | {
                "attention": "auto",  # kept so that stored vectors keep their keys
                "identity": self.identity,
                "dtype": self.dtype,
                "weights": self.model.weights,
                "version": MODEL_VERSIONS[self.entry.backend],
            }
        )

    def salt(self, role: Role) -> str:
        """Return the part of a stored vector's key that depends on the role.

        It has the role's prompt, and whether its texts are cut into windows or chunks.
        """
        prompt = self.entry.prompt(role)
        if self._windows(role):
            return f"{prompt}\0windows"
        return f"{prompt}\0chunks" if self.entry.late_chunking and role == "document" else prompt

    def tokenize(self, texts: Sequence[str], role: Role) -> list[TokenizedText]:
        """Tokenize texts cut to ``max_tokens``, or documents cut into windows."""
        windows, prompt = self._windows(role), self.entry.prompt(role)
        longest = windows.tokens if windows else self.entry.max_tokens
        longest -= len(self.appended)
        items = self._tokenized(texts, prompt, longest, windows.overlap if windows else None)
        if windows and windows.keep == "head-and-tail":
            heads = self._tokenized(texts, prompt, longest)
            items = [
                head_and_tail(item, head, windows.overlap)
                for item, head in zip(items, heads, strict=True)
            ]
        if windows and windows.pool == "mean":
            items = [replace(item, is_averaged=True) for item in items]
        if self.entry.late_chunking and role == "document":
            items = [in_chunks(item, self.entry.late_chunking) for item in items]
        if self.model.masks_prompt and self.entry.scoring == "cosine":
            n_prompt = len(self.model.tokenizer.tokenize(prompt)) if prompt else 0
            items = [pool_behind_prompt(item, n_prompt) for item in items]
        return items

    def tokenize_late(
        self, texts: Sequence[str], chunks: Sequence[Sequence[tuple[int, int]]]
    ) -> list[TokenizedText]:
        """Tokenize whole documents, to pool the vectors of their chunks (late chunking).

        ``chunks`` are each document's (start, end), in characters. See `late_windows`.

        Raises InputError if the checkpoint does not pool by the mean.
        """
        refuse_other_pooling(self.model, self.entry.checkpoint, "context: late", "context: none")
        whole = self._tokenized(texts, self.entry.prompt("document"), None)
        offsets = token_offsets(self.model.tokenizer, texts, prompt=self.entry.prompt("document"))
        return [
            late_windows(
                item,
                own,
                parts,
                max_tokens=self.entry.max_tokens,
                pools_prompt=not self.model.masks_prompt,
            )
            for item, own, parts in zip(whole, offsets, chunks, strict=True)
        ]

    def _tokenized(
        self, texts: Sequence[str], prompt: str, max_tokens: int | None, overlap: int | None = None
    ) -> list[TokenizedText]:
        items = tokenize_texts(
            self.model.tokenizer, texts, prompt=prompt, max_tokens=max_tokens, overlap=overlap
        )
        return [append_tokens(item, self.appended) for item in items] if self.appended else items

    def forward(
        self, windows: Sequence[np.ndarray], content: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """Encode a batch of windows into unit vectors: (n, dim) float32 per window.

        n is 1, or the number of chunks or content tokens. ``windows`` and ``content`` as in
        ``TokenizedText``. Attention gets no mask if nothing is padded or the network needs none.
        """
        return self.start(windows, content)()

    def start(
        self, windows: Sequence[np.ndarray], content: Sequence[np.ndarray]
    ) -> Callable[[], list[np.ndarray]]:
        """Start a batch; the returned function waits for the vectors, see ``forward``."""
        import torch

        with torch.inference_mode():
            vectors, counts = self._run(windows, content)
            wait = fetched(vectors)
        return lambda: np.split(wait(), np.cumsum(counts)[:-1])

    def embedding_gradients(
        self,
        windows: Sequence[np.ndarray],
        content: Sequence[np.ndarray],
        directions: np.ndarray,
    ) -> list[np.ndarray]:
        """Return the gradient of each text's cosine with a direction, by its input embeddings.

        Parameters
        ----------
        windows, content
            As in ``TokenizedText``, one window per text, one vector per window.
        directions
            (n_texts, dim) unit vectors, e.g. of queries.

        Returns
        -------
        list
            (n_tokens, hidden) float32 arrays: gradients by the word embedding of each token of the
            window, before positions are added.
        """
        import torch

        layer = self.model.transformer.get_input_embeddings()
        leaves = list[torch.Tensor]()

        def replace_content(_module: object, _inputs: object, output: Any) -> Any:
            leaves.append(output.detach().requires_grad_())
            return leaves[-1]

        hook = layer.register_forward_hook(replace_content)
        try:
            with torch.enable_grad():
                vectors, _ = self._run(windows, content)
                aims = torch.as_tensor(directions, dtype=torch.float32, device=self.device)
                cosines = (vectors * aims).sum(dim=-1)
                (gradients,) = torch.autograd.grad(cosines.sum(), leaves[0])
        finally:
            hook.remove()
        return _by_window(gradients, windows)

    def _run(
        self, windows: Sequence[np.ndarray], content: Sequence[np.ndarray]
    ) -> tuple[Any, list[int]]:
        """Return (n, dim) unit vectors of texts, chunks or tokens, and the number per window."""
        from torch.nn.functional import normalize

        states, pooled = self._states(windows)
        length = pooled.shape[1]
        if any(member.ndim == 2 for member in content):
            return self._chunk_vectors(states, content, length), [len(each) for each in content]
        if self.entry.scoring == "maxsim":
            kept = [row * length + np.flatnonzero(keep) for row, keep in enumerate(content)]
            tokens = self.model.token_vectors(states).flatten(0, 1)
            tokens = tokens[on_device(np.concatenate(kept), self.device)]
            return normalize(tokens.float(), dim=-1), [len(each) for each in kept]
        if self.model.masks_prompt:
            pooled = pad_windows(content, pad_id=0, device=self.device)["input_ids"]
        vectors = self.model.vectors(states, pooled)
        return normalize(vectors.float(), dim=-1), [1] * len(windows)

    def _states(self, windows: Sequence[np.ndarray]) -> tuple[Any, Any]:
        """Return the transformer's (rows, length, hidden) states, and the mask of their tokens."""
        import torch

        pad_id = padding_id(self.model.tokenizer, self.model.transformer)
        inputs = pad_windows(windows, pad_id=pad_id, device=self.device)
        mask = inputs["attention_mask"]
        if not self.model.needs_mask or all(len(each) == mask.shape[1] for each in windows):
            inputs.pop("attention_mask")
        infers = torch.is_inference_mode_enabled()
        if self.compiled is not None and infers:
            return self.compiled(inputs), mask
        reduced = self.dtype != self.model.weights
        with torch.autocast(self.device, dtype=getattr(torch, self.dtype), enabled=reduced):
            if self.packed is not None and infers:
                return self.packed(filled_windows(windows, pad_id)), mask
            return self.model.transformer(**inputs).last_hidden_state, mask

    def _chunk_vectors(self, states: Any, content: Sequence[np.ndarray], length: int) -> Any:
        """Pool the states by chunk into (n_chunks, dim) unit vectors, window by window."""
        import torch
        from torch.nn.functional import normalize

        most = max(len(members) for members in content)
        vectors = []
        for number in range(most):
            # A window with fewer chunks repeats its last one, which is dropped below.
            masks = np.zeros((len(content), length), dtype=np.int64)
            for row, members in enumerate(content):
                chunk = members[min(number, len(members) - 1)]
                masks[row, : len(chunk)] = chunk
            vectors.append(self.model.vectors(states, on_device(masks, self.device)))
        by_window = torch.stack(vectors, dim=1)
        kept = [row * most + np.arange(len(members)) for row, members in enumerate(content)]
        chunks = by_window.flatten(0, 1)[on_device(np.concatenate(kept), self.device)]
        return normalize(chunks.float(), dim=-1)

    def _windows(self, role: Role) -> Windows | None:
        return self.entry.windows if role == "document" else None


def _by_window(values: Any, windows: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Cut the padding off a batch's rows: (n_tokens, hidden) float32 arrays."""
    rows = zip(values.float().cpu().numpy(), windows, strict=True)
    return [row[: len(window)] for row, window in rows]


def load_transformer(
    entry: SentenceTransformerModel, folder: Path, *, device: str, dtype: str
) -> TransformerEncoder:
    """Load a checkpoint: its transformer, its pooling and its dense layers.

    Weights are float32 on a CPU. On a GPU the transformer's weights have the format ``dtype``.

    Raises
    ------
    InputError
        If the checkpoint takes fewer tokens than ``max_tokens`` or has fewer dimensions than
        ``dimensions``, or ``late_chunking`` is set for one that does not pool by the mean.
    """
    weights = weights_format(device, dtype)
    network = load_network(entry, folder, device=device, weights=weights)
    if entry.late_chunking:
        refuse_other_pooling(network, entry.checkpoint, "late_chunking", "windows")
    if entry.chunks and entry.chunks.context == "late":
        refuse_other_pooling(network, entry.checkpoint, "chunks.context: late", "context: none")
    check_positions(network.transformer, entry.checkpoint, entry.max_tokens)
    appended = tokens_to_append(entry, network.tokenizer)
    identity = checkpoint_identity(entry.checkpoint, entry.revision)
    encoder = TransformerEncoder(entry, network, device, dtype, identity, appended)
    _check_dimensions(encoder)
    encoder = replace(encoder, compiled=_compile(encoder))
    return encoder if encoder.compiled else replace(encoder, packed=_pack(encoder))


def refuse_other_pooling(network: Network, checkpoint: str, key: str, instead: str) -> None:
    """Raise InputError for a checkpoint whose vectors are not the mean of its token vectors."""
    if network.pooling != ("mean",):
        pooling = "+".join(network.pooling) or "another rule"
        raise InputError(
            f"checkpoint {checkpoint!r}: {key} takes the mean over a chunk's tokens, but this "
            f"checkpoint pools by {pooling}; remove `{key}` from the model's entry, or use "
            f"`{instead}`"
        )


def load_tokens(entry: SentenceTransformerModel, folder: Path) -> TransformerEncoder:
    """Load an encoder that tokenizes only, without the checkpoint's weights.

    Raises InputError as ``load_transformer``, except for errors in the weights.
    """
    network = load_without_weights(entry, folder)
    if network.transformer is not None:
        check_positions(network.transformer, entry.checkpoint, entry.max_tokens)
    appended = tokens_to_append(entry, network.tokenizer)
    identity = checkpoint_identity(entry.checkpoint, entry.revision)
    return TransformerEncoder(entry, network, "cpu", "float32", identity, appended)


def _check_dimensions(encoder: TransformerEncoder) -> None:
    """Raise InputError if the entry sets more dimensions than the network has.

    A checkpoint's config may declare more, as in sentence-transformers.
    """
    wanted = encoder.entry.dimensions
    if wanted is None:
        return
    whole = replace(encoder, model=replace(encoder.model, dimensions=None))
    (item,) = whole.tokenize(["a"], "document")
    n_dimensions = whole.forward(item.windows, item.content)[0].shape[1]
    if wanted > n_dimensions:
        raise InputError(
            f"checkpoint {encoder.entry.checkpoint!r}: dimensions is {wanted}, but its vectors "
            f"have {n_dimensions}; lower dimensions, or remove it"
        )


def _compile(encoder: TransformerEncoder) -> Compiled | None:
    """Compile an encoder's transformer; return None if torch should run it."""
    entry, network = encoder.entry, encoder.model
    is_plain = entry.architecture == "auto" and not entry.positions
    if encoder.device != "cpu" or not is_plain:
        return None

    def passes(texts: list[str], compiled: Compiled | None) -> list[np.ndarray]:
        items = encoder.tokenize(texts, "document")
        windows = [window for item in items for window in item.windows]
        content = [content for item in items for content in item.content]
        return replace(encoder, compiled=compiled).forward(windows, content)

    return compile_network(
        network.transformer,
        dtype=encoder.dtype,
        identity=encoder.identity,
        passes=passes,
    )


def _pack(encoder: TransformerEncoder) -> Packed | None:
    """Return an encoder's transformer for packed texts; None if it has to run padded."""

    def tokenize(texts: Sequence[str]) -> list[np.ndarray]:
        return [item.windows[0] for item in encoder.tokenize(texts, "document")]

    return pack_network(
        encoder.model.transformer,
        device=encoder.device,
        dtype=encoder.dtype,
        tokenize=tokenize,
        title=f"checkpoint {encoder.entry.checkpoint!r}",
    )
