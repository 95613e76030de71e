"""Config section ``probes``: settings, the models a probe accepts, and the sampling order."""

import hashlib
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from psibench.config.base import Id, ModelIds, Section, refuse_falling, refuse_repeats
from psibench.config.model_base import ModelBase
from psibench.config.models import (
    EmbeddingApiModel,
    EncoderModel,
    SentenceTransformerModel,
)

ProbeName = Literal[
    "insertion", "removal", "segments", "moving", "reversal", "regression", "saliency"
]
PROBES: dict[ProbeName, str] = {
    "insertion": "adds filler at the beginning, middle and end: cosine with the document",
    "removal": "removes sentences at the beginning, middle and end: cosine with the document",
    "segments": "cuts k equal segments: cosine of each with the document",
    "moving": "moves the evidence to evenly spaced positions: cosine with the query, nDCG@10",
    "reversal": "reverses the order of five segments in all documents: nDCG@10 before and after",
    "regression": "weight of each sentence's vector in the document's vector",
    "saliency": "gradient of the cosine with the query by the document's tokens",
}
"""One line about each probe."""
OF_QUERIES: tuple[ProbeName, ...] = ("moving", "reversal", "saliency")
"""Probes that need queries with evidence spans."""
SEARCHING: tuple[ProbeName, ...] = ("moving", "reversal")
"""Probes that search the whole corpus."""

SAMPLE = ("n_documents", "seed")
DECIDES: dict[ProbeName, tuple[str, ...]] = {
    "insertion": (*SAMPLE, "insertion_sizes"),
    "removal": (*SAMPLE, "removal_sizes"),
    "segments": (*SAMPLE, "segments"),
    "moving": (*SAMPLE, "queries_per_document", "places"),
    "reversal": ("reversal_cuts",),
    "regression": SAMPLE,
    "saliency": (*SAMPLE, "queries_per_document", "saliency_min_tokens"),
}
"""Keys of the section that affect a probe's results; a change of another key reruns nothing."""

Share = Annotated[float, Field(gt=0, le=1)]


def n_segments_of(cut: int | list[float]) -> int:
    """Return the number of segments that an item of `segments` makes."""
    return cut if isinstance(cut, int) else len(cut) + 1


def _numbers_differ(segments: list[int | list[float]]) -> list[int | list[float]]:
    numbers = [n_segments_of(one) for one in segments]
    if len(set(numbers)) < len(numbers):
        raise ValueError(f"{segments} make {numbers} segments; use each number of segments once")
    return segments


Cuts = Annotated[
    list[Annotated[float, Field(gt=0, lt=1)]], Field(min_length=1), AfterValidator(refuse_falling)
]
Segments = Annotated[
    list[Annotated[int, Field(ge=2)] | Cuts], Field(min_length=1), AfterValidator(_numbers_differ)
]
Names = Annotated[list[ProbeName], AfterValidator(refuse_repeats)]
Ids = Annotated[list[Id], AfterValidator(refuse_repeats)]
Models = Annotated[ModelIds, AfterValidator(refuse_repeats)]


class Probes(Section):
    """Probes of the parts of a text that move its embedding: target `probes`, docs/probes.md."""

    names: Names = Field(default=list(PROBES), min_length=1)
    """Probes to run."""
    models: Models | None = None
    """Ids among `models`; null: every model that makes one vector per text in a job."""
    benchmarks: Ids | None = None
    """Ids of the benchmarks whose documents are probed; null: all."""
    n_documents: int = Field(default=200, ge=2)
    """Documents per language, drawn by a hash of seed and id. Reversal uses the whole corpus."""
    queries_per_document: int | None = Field(default=1, ge=1)
    """Queries per document for moving and saliency, drawn by the same hash; null: all that fit."""
    psi: bool = True
    """Compare each model's probes with its PSI, which evaluates it on the same benchmarks."""
    seed: int = Field(default=42, ge=0)
    """Seed of the documents, the filler and the shuffled sentences."""
    insertion_sizes: list[Share] = Field(default=[0.05, 0.1, 0.25, 0.5, 1.0], min_length=1)
    """Filler tokens per token of the document (Needles), counted by `length_tokenizer`."""
    removal_sizes: list[Annotated[float, Field(gt=0, lt=1)]] = Field(
        default=[0.1, 0.25, 0.5], min_length=1
    )
    """Share of the sentences that removal takes out, rounded up (Needles)."""
    segments: Segments = Field(default=[3, 10])
    """Numbers of equal segments (PosQ: 3, Controlled: 10), or lists of cuts as shares of the
    characters: PosQ's script uses [[0.333, 0.666]] for its three segments."""
    places: int = Field(default=10, ge=2)
    """Positions to which the evidence is moved (Controlled: 10)."""
    reversal_cuts: Literal["sentences", "exact"] = "sentences"
    """Where reversal cuts the five segments. exact: after equal numbers of characters, as in
    Controlled (E.1), even inside words. sentences: at the nearest sentence start, else word start,
    within a quarter of a segment."""
    saliency_min_tokens: int = Field(default=1024, ge=2)
    """Least tokens of a document for saliency (PosIR: 1,024), counted by `length_tokenizer`."""

    def of(self, probe: ProbeName) -> dict[str, Any]:
        """Return the keys and values that affect a probe's results."""
        return self.model_dump(mode="json", include=set(DECIDES[probe]))


NO_GRADIENTS = (
    "saliency needs the gradients of a transformer (backend sentence-transformers) without "
    "`windows`"
)


def why_not(entry: ModelBase, probe: ProbeName | None = None) -> str | None:
    """Return why a model cannot be probed (by ``probe``, if given); None if it can.

    Probes compare single vectors of texts by cosine; saliency also needs gradients.
    """
    if isinstance(entry, EmbeddingApiModel):
        return "its vectors come from a service"
    if not isinstance(entry, EncoderModel):
        return "it has no vectors"
    if entry.scores_by == "sparse":
        return "its vectors are sparse term weights, compared by inner product instead of by cosine"
    if entry.scores_by != "cosine":
        return "late interaction has one vector per token instead of one per text"
    windows = getattr(entry, "windows", None)
    if windows is not None and windows.pool != "mean":
        return "it makes one vector per window of a text; remove `windows` or set `pool: mean`"
    if getattr(entry, "late_chunking", None) is not None:
        return "it makes one vector per chunk of a text; remove `late_chunking`"
    if getattr(entry, "chunks", None) is not None:
        return "it makes one vector per chunk of a text; remove `chunks`"
    if probe == "saliency" and (windows or not isinstance(entry, SentenceTransformerModel)):
        return NO_GRADIENTS
    return None


def priority(seed: int, *parts: str) -> int:
    """Return a hash of seed and id to sort by; the first n ids are a stable random sample."""
    text = "\x1f".join((str(seed), *parts))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
