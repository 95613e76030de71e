"""Config section ``probes``, and which documents a probe takes."""

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
    "insertion": "filler put in at the beginning, middle and end: cosine with the document",
    "removal": "sentences taken away at the beginning, middle and end: cosine with the document",
    "segments": "each of k equal segments: cosine with the document",
    "moving": "the evidence moved to evenly spaced places: cosine with the query, and nDCG@10",
    "reversal": "five segments of every document in reverse order: nDCG@10 before and after",
    "regression": "the document's vector as a sum of its sentences': what each weighs",
    "saliency": "gradient of the cosine with the query by the document's tokens",
}
"""Every probe, and what it does in a line."""
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
"""Keys of the section that decide a probe's figures; a change of others reruns nothing."""

Share = Annotated[float, Field(gt=0, le=1)]


def n_segments_of(cut: int | list[float]) -> int:
    """Return how many segments one of `segments` makes: a number of equal ones, or cuts."""
    return cut if isinstance(cut, int) else len(cut) + 1


def _numbers_differ(segments: list[int | list[float]]) -> list[int | list[float]]:
    numbers = [n_segments_of(one) for one in segments]
    if len(set(numbers)) < len(numbers):
        raise ValueError(f"{segments} make {numbers} segments: give each number once")
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
    """Probes of what an embedding looks at: the workflow's target `probes`, see docs/probes.md."""

    names: Names = Field(default=list(PROBES), min_length=1)
    """Which probes."""
    models: Models | None = None
    """Ids among `models`; null: all that make one vector of a text in a job."""
    benchmarks: Ids | None = None
    """Ids of benchmarks whose documents are taken; null: all."""
    n_documents: int = Field(default=200, ge=2)
    """Documents of a language, drawn by a hash of seed and id. Reversal takes the whole corpus."""
    queries_per_document: int | None = Field(default=1, ge=1)
    """Queries of a document that moving and saliency take, drawn likewise; null: all that fit."""
    psi: bool = True
    """Put each model's PSI beside its probes, for which it is evaluated on what is probed."""
    seed: int = Field(default=42, ge=0)
    """Seed of the documents, the filler and the shuffled sentences."""
    insertion_sizes: list[Share] = Field(default=[0.05, 0.1, 0.25, 0.5, 1.0], min_length=1)
    """Filler, tokens per token of the document (Needles); counted by `length_tokenizer`."""
    removal_sizes: list[Annotated[float, Field(gt=0, lt=1)]] = Field(
        default=[0.1, 0.25, 0.5], min_length=1
    )
    """Share of the sentences taken away, rounded up (Needles)."""
    segments: Segments = Field(default=[3, 10])
    """Numbers of equal segments (PosQ: 3, Controlled: 10), or where to cut, as shares of the
    characters: [[0.333, 0.666]] is what PosQ's script has for its three."""
    places: int = Field(default=10, ge=2)
    """Places that evidence is moved to (Controlled: 10)."""
    reversal_cuts: Literal["sentences", "exact"] = "sentences"
    """Where the five segments of reversal are cut. exact: at equal numbers of characters, as
    Controlled says (E.1), through words and sentences. sentences: at the nearest end of a sentence,
    or else of a word, within a quarter of a segment."""
    saliency_min_tokens: int = Field(default=1024, ge=2)
    """Documents of saliency have so many tokens (PosIR: 1,024), by `length_tokenizer`."""

    def of(self, probe: ProbeName) -> dict[str, Any]:
        """Return the keys that decide a probe's figures."""
        return self.model_dump(mode="json", include=set(DECIDES[probe]))


NO_GRADIENTS = (
    "saliency needs the gradients of a transformer (backend sentence-transformers) that reads a "
    "text at once: no windows"
)


def why_not(entry: ModelBase, probe: ProbeName | None = None) -> str | None:
    """Say why a model cannot be probed, at all or by one probe; None if it can.

    A probe compares one vector of a text with another; saliency also asks for gradients.
    """
    if isinstance(entry, EmbeddingApiModel):
        return "its vectors come from a service"
    if not isinstance(entry, EncoderModel):
        return "it has no vectors"
    if entry.scores_by == "sparse":
        return (
            "its vectors are sparse, weights of terms compared by inner product and not by cosine"
        )
    if entry.scores_by != "cosine":
        return "late interaction has a vector per token, not one per text"
    windows = getattr(entry, "windows", None)
    if windows is not None and windows.pool != "mean":
        return "it cuts a text into windows, each with a vector; leave out `windows`, or pool: mean"
    if getattr(entry, "late_chunking", None) is not None:
        return "it has a vector per chunk of a text; leave out `late_chunking`"
    if probe == "saliency" and (windows or not isinstance(entry, SentenceTransformerModel)):
        return NO_GRADIENTS
    return None


def priority(seed: int, *parts: str) -> int:
    """Order ids by a hash of seed and id: the first n are a sample that others do not change."""
    text = "\x1f".join((str(seed), *parts))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
