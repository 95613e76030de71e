"""Bi-encoders as rerankers: how similar the vectors of query and text are."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from psibench.config.rerankers import BiEncoderReranker
from psibench.models.protocols import TokenizedText
from psibench.models.transformer import TransformerEncoder, load_transformer
from psibench.rerankers.protocols import Pair, Scores, calibrated
from psibench.rerankers.transformer import resolve_dtype
from psibench.rerankers.vector_cache import VectorCache
from psibench.rerankers.versions import RERANKER_VERSIONS
from psibench.tables.provenance import hash_params


@dataclass(frozen=True)
class EncodedPair:
    """Query and text as the encoder reads them, apart."""

    query: TokenizedText
    text: TokenizedText

    @property
    def n_tokens(self) -> int:
        """Tokens of both."""
        return self.query.n_tokens + self.text.n_tokens


@dataclass(frozen=True)
class SimilarityReranker:
    """A `Reranker` over an encoder: cosine, or MaxSim divided by the query's tokens.

    The best of a text's windows counts. MaxSim is divided as bge-m3 does, so that scores of long
    and short queries compare. A query or text without tokens of its own has the raw score 0.
    """

    name: str
    entry: BiEncoderReranker
    encoder: TransformerEncoder
    cache: VectorCache = field(default_factory=VectorCache)
    """Vectors of texts lately encoded: many pairs share a document or a query."""

    @property
    def fingerprint(self) -> str:
        """Hash of everything that decides the scores besides the pair."""
        return hash_params(
            {
                "encoder": self.encoder.fingerprint,
                "salts": [self.encoder.salt("query"), self.encoder.salt("document")],
                "calibration": self.entry.calibration.model_dump(mode="json"),
                "version": RERANKER_VERSIONS[self.entry.backend],
            }
        )

    @property
    def max_tokens(self) -> int | None:
        """Query and text are cut apart, so that no length of both says whether one was."""
        return None

    def tokenize(self, pairs: Sequence[Pair]) -> list[EncodedPair]:
        """Tokenize queries and texts, each distinct one once."""
        queries, texts = ({pair[side]: None for pair in pairs} for side in (0, 1))
        asked = dict(zip(queries, self.encoder.tokenize(list(queries), "query"), strict=True))
        read = dict(zip(texts, self.encoder.tokenize(list(texts), "document"), strict=True))
        return [EncodedPair(asked[query], read[text]) for query, text in pairs]

    def visible_char_ends(self, pairs: Sequence[Pair]) -> list[int]:
        """What the encoder reads of each text, whatever the query."""
        texts = list({text: None for _, text in pairs})
        read = self.encoder.tokenize(texts, "document")
        ends = {text: item.visible_char_end for text, item in zip(texts, read, strict=True)}
        return [ends[text] for _, text in pairs]

    def score(self, items: Sequence[EncodedPair]) -> Scores:
        """Encode the distinct queries and texts of a batch, then compare."""
        queries = self._vectors([item.query for item in items])
        texts = self._vectors([item.text for item in items])
        pairs = zip(queries, texts, strict=True)
        raw = np.array([_similarity(query, text) for query, text in pairs], dtype=np.float64)
        return calibrated(raw, self.entry.calibration)

    def _vectors(self, items: Sequence[TokenizedText]) -> list[np.ndarray]:
        """Return (n_vectors, dim) per text: all windows' vectors, or all tokens'."""
        parts = [
            [(window.tobytes() + keep.tobytes(), window, keep) for window, keep in zipped]
            for zipped in (zip(item.windows, item.content, strict=True) for item in items)
        ]
        found: dict[bytes, np.ndarray] = {}
        missing: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}
        for key, window, keep in (part for mine in parts for part in mine):
            vectors = self.cache.get(key)
            if vectors is None:
                missing[key] = (window, keep)
            else:
                found[key] = vectors
        for key, vectors in self._encode(missing):
            found[key] = vectors.copy()  # not a view, which would hold the whole batch
            self.cache.put(key, found[key])
        return [np.concatenate([found[key] for key, _, _ in mine]) for mine in parts]

    def _encode(
        self, parts: Mapping[bytes, tuple[np.ndarray, np.ndarray]]
    ) -> Iterator[tuple[bytes, np.ndarray]]:
        """Encode windows, those of like length together: no row is padded to twice its length."""
        by_length: dict[int, list[bytes]] = {}
        for key, (window, _) in parts.items():
            by_length.setdefault(len(window).bit_length(), []).append(key)
        for keys in by_length.values():
            windows, content = zip(*(parts[key] for key in keys), strict=True)
            yield from zip(keys, self.encoder.forward(windows, content), strict=True)


def _similarity(query: np.ndarray, text: np.ndarray) -> float:
    """Return the mean over query vectors of the largest inner product with a text vector."""
    if not len(query) or not len(text):
        return 0.0
    products = query.astype(np.float64) @ text.astype(np.float64).T
    return float(products.max(axis=1).mean())


def load_similarity(name: str, entry: BiEncoderReranker, *, device: str) -> SimilarityReranker:
    """Load the encoder of a bi-encoder entry.

    Raises
    ------
    InputError
        If its checkpoint cannot be loaded.
    """
    dtype = resolve_dtype(entry.encoder.dtype or "auto", device)
    return SimilarityReranker(
        name, entry, load_transformer(entry.encoder, device=device, dtype=dtype)
    )
