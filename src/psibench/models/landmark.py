"""Landmark pooling as a module of sentence-transformers, to be trained and saved.

A text is cut into chunks of so many tokens, a special token is put behind each, and the vector is
the mean of the states of these tokens (Doshi et al. 2026, arXiv 2601.21525, who put the separator
there). `psibench.models.tokenizing` has where they go; `psibench.models.transformer` encodes with
what is saved here.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar
from zlib import crc32

import numpy as np
from sentence_transformers.sentence_transformer.modules import Transformer

from psibench.config.encoders import Landmark
from psibench.models.tokenizing import find_landmarks, pad_windows


class LandmarkTransformer(Transformer):
    """A transformer whose texts get landmarks, before a module that pools their mean.

    It hands on an attention mask that has the landmarks alone.

    Parameters
    ----------
    landmark
        ``chunk_tokens``, ``token`` (or None) and ``max_tokens``, landmarks included. Saved with
        the module.

    Attributes
    ----------
    training_chunks
        Lengths of chunks, one of which each text has in training, by a hash of its tokens: the
        paper draws them, so that other lengths do later. Empty: ``chunk_tokens``.
    """

    config_keys: ClassVar[list[str]] = [*Transformer.config_keys, "landmark"]

    def __init__(self, *args: Any, landmark: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "unpad_inputs": False})  # masks are needed
        self.landmark = landmark
        self.training_chunks: Sequence[int] = ()
        self.landmarks = find_landmarks(
            self.tokenizer,
            Landmark(chunk_tokens=landmark["chunk_tokens"], token=landmark["token"]),
            max_tokens=landmark["max_tokens"],
            checkpoint=self.config.name_or_path,
        )

    def preprocess(
        self, inputs: Sequence[str], prompt: str | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Tokenize texts and put the landmarks in; padded on the right."""
        chunks = self.training_chunks if self.training else ()
        shortest = replace(
            self.landmarks, chunk_tokens=min(chunks, default=self.landmarks.chunk_tokens)
        )
        kwargs["max_length"] = shortest.max_length(self.landmark["max_tokens"])
        found = super().preprocess(inputs, prompt=prompt, **kwargs)
        masks = found["attention_mask"].bool()
        windows = [ids[mask].numpy() for ids, mask in zip(found["input_ids"], masks, strict=True)]
        placed = []
        for ids in windows:
            landmarks = self.landmarks
            if chunks:
                number = crc32(ids.astype("<i8").tobytes()) % len(chunks)
                landmarks = replace(landmarks, chunk_tokens=chunks[number])
            placed.append(np.insert(ids, landmarks.places(len(ids)), landmarks.token_id))
        padded = pad_windows(placed, pad_id=self.tokenizer.pad_token_id, device="cpu")
        if "token_type_ids" in found:
            padded["token_type_ids"] = padded["input_ids"].new_zeros(padded["input_ids"].shape)
        return {**found, **padded}

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Run the transformer, then mask all but the landmarks."""
        found = super().forward(features, **kwargs)
        is_landmark = found["input_ids"] == self.landmarks.token_id
        return {**found, "attention_mask": found["attention_mask"] * is_landmark}
