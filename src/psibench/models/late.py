"""Late interaction: a vector for every token, scored by MaxSim.

sentence-transformers' ``MultiVectorEncoder`` reads ColBERT checkpoints (Khattab and Zaharia, SIGIR
2020, section 3.2; Santhanam et al., NAACL 2022) in its layout, Stanford's and PyLate's. It finds
the projection, the markers of queries and documents, the length to which queries are filled up with
mask tokens, and the words of documents that get no vectors.

psibench does the rest. It tokenizes with the checkpoint's tokenizer and prefixes, because that
class returns no token offsets (they show how much of a text is visible), and makes batches as for
all encoders. It refuses checkpoints for which the class would initialise weights or a projection at
random. And it loads jina-colbert-v2 by ``architectures.flash_xlm_roberta``, because the code of
that checkpoint needs transformers 4.
"""

import logging
import string
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from psibench.config.encoders import ColbertModel
from psibench.errors import InputError
from psibench.models.checkpoints import USES, checkpoint_identity, read_json_object, read_modules
from psibench.models.library_keys import refuse_unread
from psibench.models.networks import check_positions, text_transformer, weights_format
from psibench.models.packing import Packed, pack_network
from psibench.models.protocols import MODEL_VERSIONS, Role, TokenizedText
from psibench.models.tokenizing import (
    load_checkpoint_tokenizer,
    pad_windows,
    padding_id,
    tokenize_texts,
)
from psibench.models.weights import (
    load_model,
    read_tensors,
    refuse_untrusted_activations,
)
from psibench.tables.provenance import hash_params

logger = logging.getLogger("psibench")

PUNCTUATION = list(string.punctuation)
PROJECTION = "linear.weight"
"""Name of the projection among the transformer's weights, in Stanford's layout."""


@dataclass(frozen=True)
class ColbertEncoder:
    """An ``Encoder`` of ColBERT's token vectors; see ``load_colbert``.

    A reduced number format runs under autocast if the weights are float32. In the output of
    ``tokenize``, ``content`` is True for tokens with vectors, including special tokens. Tokens that
    no other token attends to are numbered -1, -2, ...
    """

    entry: ColbertModel
    device: str
    dtype: str
    weights: str
    """Number format of the transformer's weights; the projection is float32."""
    identity: str
    transformer: Any
    modules: Any
    """sentence-transformers' modules that turn the transformer's states into vectors, in
    sequence."""
    tokenizer: Any
    mask: Any
    """sentence-transformers' MultiVectorMask, which selects the tokens with vectors."""
    prefixes: dict[str, str]
    """By role, the marker and prompt that the checkpoint puts before each text."""
    expansion: dict[str, Any]
    """sentence-transformers' settings for filling up queries; empty: queries are not filled up."""
    query_tokens: int
    """Length to which queries are cut and, with ``expansion``, filled up."""
    longest_query: int
    """Length to which queries are cut, if the checkpoint sets another one for filling up."""
    packed: Packed | None = None
    """Runs the transformer without padding, on texts whose tokens all attend to each other."""

    @property
    def fingerprint(self) -> str:
        """Hash of everything that decides the vectors besides the text and its prompt."""
        words = list(self.mask.skiplist_words)
        longest = {"longest_query": self.longest_query}
        return hash_params(
            {
                "max_tokens": self.entry.max_tokens,
                "query_tokens": self.query_tokens,
                "expand_queries": bool(self.expansion),
                "attend_to_expansion": self.expansion.get("attend", False),
                "query_marker": self.prefixes["query"].removesuffix(" "),
                "document_marker": self.prefixes["document"].removesuffix(" "),
                "skip_punctuation": True if words == PUNCTUATION else words or False,
                "attention": "sdpa",
                "dim": self.entry.dim,
                "identity": self.identity,
                "dtype": self.dtype,
                "weights": self.weights,
                "version": MODEL_VERSIONS[self.entry.backend],
            }
            | ({} if self.longest_query == self.query_tokens else longest)
        )

    def salt(self, role: Role) -> str:
        """Return the prompt and the role, because queries are encoded differently."""
        return f"{self.entry.prompt(role)}\0{role}"

    def tokenize(self, texts: Sequence[str], role: Role) -> list[TokenizedText]:
        """Tokenize texts after the checkpoint's prefix and the prompt, cut to their limit."""
        query = role == "query"
        items = tokenize_texts(
            self.tokenizer,
            texts,
            prompt=self.prefixes[role] + self.entry.prompt(role),
            max_tokens=self.longest_query if query else self.entry.max_tokens,
        )
        filled = []
        for item in items:
            (window,) = item.windows
            kept = self._kept(window, role)
            if query and self.expansion:
                missing = max(0, self.query_tokens - len(window))
                window = np.append(window, np.full(missing, self._filling(), dtype=np.int32))
                kept = np.append(kept, np.ones(missing, dtype=bool))
            filled.append(replace(item, windows=(window,), content=(kept,)))
        return filled

    def forward(
        self, windows: Sequence[np.ndarray], content: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """Encode a batch: (n_kept_tokens, dim) float32 unit vectors per window."""
        import torch
        from torch.nn.functional import normalize

        pad_id = padding_id(self.tokenizer, self.transformer)
        inputs = pad_windows(windows, pad_id=pad_id, device=self.device)
        ids = inputs["input_ids"]
        inputs["attention_mask"][ids < 0] = 0
        inputs["input_ids"] = torch.where(ids < 0, -1 - ids, ids)
        reduced = self.dtype != self.weights
        with torch.inference_mode():
            with torch.autocast(self.device, dtype=getattr(torch, self.dtype), enabled=reduced):
                if self.packed is not None and all((window >= 0).all() for window in windows):
                    states = self.packed(windows)
                else:
                    states = self.transformer(**inputs).last_hidden_state
            vectors = self.modules({"token_embeddings": states.float()})["token_embeddings"]
            unit = normalize(vectors, dim=-1)
            kept = np.zeros(unit.shape[:2], dtype=bool)
            for row, keep in enumerate(content):
                kept[row, : len(keep)] = keep
            rows = unit[torch.from_numpy(kept).to(self.device)].cpu().numpy()
        return [text.copy() for text in np.split(rows, np.cumsum(kept.sum(axis=1))[:-1])]

    def _filling(self) -> int:
        """Return the id of the token that fills up queries, by sentence-transformers' rules."""
        tokenizer = self.tokenizer
        token = self.expansion.get("token") or tokenizer.mask_token or tokenizer.eos_token
        token_id = int(tokenizer.convert_tokens_to_ids(token))
        return token_id if self.expansion.get("attend") else -1 - token_id

    def _kept(self, window: np.ndarray, role: Role) -> np.ndarray:
        """Return which tokens of a text have vectors, by sentence-transformers' mask."""
        import torch

        ids = torch.from_numpy(window.astype(np.int64))[None]
        features = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        kept: np.ndarray = self.mask(features, task=role)["attention_mask"][0].bool().numpy()
        return kept


def load_colbert(entry: ColbertModel, folder: Path, *, device: str, dtype: str) -> ColbertEncoder:
    """Load a ColBERT checkpoint.

    Raises
    ------
    InputError
        If the checkpoint has no projection, its vocabulary lacks a marker, or it takes fewer tokens
        than the entry sets.
    """
    weights = weights_format(device, dtype)
    read = _read_modules if entry.architecture == "auto" else _read_port
    fields = read(entry, folder, weights)
    if (longest := entry.query_tokens) is not None:
        fields |= {"query_tokens": longest, "longest_query": longest}
    identity = checkpoint_identity(entry.checkpoint, entry.revision)
    encoder = ColbertEncoder(entry, device, dtype, weights, identity, **fields)
    transformer = encoder.transformer.to(device).eval()
    encoder.modules.to(device).eval()
    check_positions(transformer, entry.checkpoint, entry.max_tokens)
    check_positions(transformer, entry.checkpoint, encoder.longest_query, "query_tokens")
    for prefix in encoder.prefixes.values():
        _make_one_token(encoder.tokenizer, prefix.strip(), entry.checkpoint)
    encoder.mask.resolve_with_tokenizer(encoder.tokenizer)
    packed = pack_network(
        transformer,
        device=device,
        dtype=dtype,
        tokenize=lambda texts: [item.windows[0] for item in encoder.tokenize(texts, "document")],
        title=f"checkpoint {entry.checkpoint!r}",
    )
    return replace(encoder, packed=packed)


def _read_modules(entry: ColbertModel, folder: Path, dtype: str) -> dict[str, Any]:
    """Load a checkpoint by sentence-transformers; return fields of `ColbertEncoder`."""
    import torch
    from sentence_transformers import MultiVectorEncoder
    from sentence_transformers.base.modules import Dense, Normalize, Transformer
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

    _refuse_random_projection(folder)
    options = {"dtype": dtype, "attn_implementation": "sdpa"}
    trusts = entry.trust_remote_code
    model = load_model(MultiVectorEncoder, folder, trust_remote_code=trusts, **options)
    first, *rest = model
    masks = [module for module in rest if isinstance(module, MultiVectorMask)]
    others = [module for module in rest if isinstance(module, Dense | Normalize)]
    if len(others) + 1 != len(rest) or len(masks) != 1 or not isinstance(first, Transformer):
        raise InputError(
            f"{folder}: modules {[type(module).__name__ for module in model]}; supported: a "
            "Transformer, then Dense, Normalize, and one MultiVectorMask"
        )
    refuse_unread(first, entry.checkpoint, lengths=False)
    if first.document_length not in (None, entry.max_tokens):
        logger.warning(
            "checkpoint %r: max_tokens: the entry has %s, document_length of the checkpoint is %s; "
            "the entry's value is used",
            entry.checkpoint, entry.max_tokens, first.document_length,
        )  # fmt: skip
    expansion = first.query_expansion or {}
    longest = first.query_length or entry.max_tokens
    documents = (model.prompts.get(name) for name in ("document", "passage", "corpus"))
    document = next((prompt for prompt in documents if prompt), "")
    query_tokens = expansion.get("length", longest)
    return {
        "transformer": text_transformer(first, entry.checkpoint),
        "modules": torch.nn.Sequential(*others).float(),
        "tokenizer": model.tokenizer,
        "mask": masks[0],
        "prefixes": {"query": model.prompts.get("query") or "", "document": document},
        "expansion": expansion,
        "query_tokens": query_tokens,
        "longest_query": longest if expansion.get("strategy") == "min" else query_tokens,
    }


def _read_port(_: ColbertModel, folder: Path, dtype: str) -> dict[str, Any]:
    """Load jina-colbert-v2: Stanford's layout, with the markers and masks of its model card."""
    import torch
    from sentence_transformers.base.modules import Dense
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

    from psibench.models.architectures import flash_xlm_roberta

    options = {"dtype": dtype, "attn_implementation": "sdpa"}
    matrix = read_tensors(folder, lambda name: name == PROJECTION)[PROJECTION].float()
    dense = Dense(
        matrix.shape[1], matrix.shape[0], bias=False, activation_function=None,
        init_weight=matrix, module_input_name="token_embeddings",
    )  # fmt: skip
    declared = read_json_object(folder / "artifact.metadata")
    query_tokens = declared.get("query_maxlen", 32)
    return {
        "tokenizer": load_checkpoint_tokenizer(folder, as_stored=True),  # checks the files first
        "transformer": flash_xlm_roberta.load(
            folder, read_json_object(folder / "config.json"), options
        ),
        "modules": torch.nn.Sequential(dense),
        "mask": MultiVectorMask(PUNCTUATION if declared.get("mask_punctuation", True) else []),
        "prefixes": {"query": "[QueryMarker] ", "document": "[DocumentMarker] "},
        "expansion": {"attend": True},
        "query_tokens": query_tokens,
        "longest_query": query_tokens,
    }


def _refuse_random_projection(folder: Path) -> None:
    """Refuse a checkpoint to which sentence-transformers would add a random projection.

    Also refuses untrusted activation functions.
    """
    modules = read_modules(folder)
    made_for = [read_json_object(folder / USES).get("model_type")]
    if not modules:
        made_for = read_json_object(folder / "config.json").get("architectures") or []
    has_dense = any(module["type"].endswith("Dense") for module in modules)
    if not has_dense and not {"HF_ColBERT", "MultiVectorEncoder", "ColBERT"} & set(made_for):
        raise InputError(
            f"{folder}: no projection; expected a tensor {PROJECTION} in a checkpoint of the "
            "architecture HF_ColBERT (Stanford's layout), or a Dense module in modules.json "
            "(PyLate's layout). Is it a ColBERT model?"
        )
    refuse_untrusted_activations(folder)


def _make_one_token(tokenizer: Any, marker: str, checkpoint: str) -> None:
    """Make a tokenizer read a marker as one token; prompts like "query: " are not changed.

    Raises InputError if the vocabulary does not have the marker.
    """
    from tokenizers import AddedToken

    if not marker.startswith("["):
        return
    vocabulary = tokenizer.get_vocab()
    known = next((name for name in (f"{marker} ", marker) if name in vocabulary), None)
    if known is None:
        raise InputError(
            f"checkpoint {checkpoint!r}: its files name the marker {marker!r}, but its vocabulary "
            "has no such token; is this another model's tokenizer?"
        )
    if tokenizer.tokenize(known) != [known]:
        tokenizer.add_tokens([AddedToken(known, normalized=False, special=True)])
