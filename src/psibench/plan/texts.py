"""What there will be to encode, to score and to ask by a config alone: before a text is read.

All of it is arithmetic over the config, so that a workflow can ask it of every model and language
while it is parsed, and gets the same answer every time.
"""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from psibench.config.encoders import ColbertModel, VllmModel
from psibench.config.model_base import EncoderModel, ModelBase, Overlapping, Windows
from psibench.config.rerankers import BiEncoderReranker, RerankerBase
from psibench.config.sections import Encoding
from psibench.generate.benchmarks import (
    Benchmark,
    Controlled,
    Documents,
    FinewebPosq,
    GeneratedBenchmark,
    Posir,
    PosirRelease,
)
from psibench.generate.recipes import NEGATIVES, TASKS
from psibench.generate.sampling import Sample
from psibench.text.segments import POSITIONS

Range = tuple[float, float]
"""The least and the most."""

TOKENS_PER_WORD = 4 / 3
"""100 tokens are about 75 English words (OpenAI help, "What are tokens and how to count them")."""
CHARS_PER_TOKEN = 4.0
"""The same source, for scripts with spaces."""
DENSE_CHARS_PER_TOKEN = 1.5
"""A token of a multilingual vocabulary is one or two characters of these scripts: a choice."""
DENSE_SCRIPTS = ("Hans", "Hant", "Hani", "Jpan", "Kore")
TRANSLATION_GROWTH = 1.5
"""Tokens of a translation per token of its English source. PosIR (section 2, table 1): documents
of its bins have 921.6 tokens on average, those of all ten languages 1,314.75, of which two are not
translated; so (10 x 1,314.75 - 2 x 921.6) / 8 = 1,413 in the other eight."""
QUERY_TOKENS = 22
"""PosIR, table 1: 21.91 tokens per query."""
RELEASE_DOCUMENTS, RELEASE_QUERIES = 55_902, 1_360
"""Per domain and language of PosIR's release (PosIR, table 1)."""
RELEASE_EDGES = (0, 256, 512, 768, 1024, 1280, 1536, 1792, 2048)
RELEASE_SHARES = (3, 3, 3, 3, 2, 2, 2, 2)
"""Length bins of its sample, in tokens of Qwen3 (PosIR, section 2)."""
RELEASE_SOURCES = ("eng", "zho", "cmn")
"""Its languages that are not translations."""
CPU_GFLOPS = 60
"""10^9 operations a second that a core is counted on to do in float32: all-MiniLM-L6-v2 reached 65
on one core of a server, 200 tokens a text."""
LEAST_SHARE, KEPT_SHARE = 0.1, 0.5
"""Candidates that all filters leave, at least and at most: in FineWeb-PosQ 26,356 of 265,865 (PosQ,
appendix A.2), in the embedded default 642 of 1,440; PosIR's 421,708 queries are some 0.15 of what
the shipped preset asks for. Jobs are cut by the second."""
SHORTEST_SHARD_MINUTES = 10
"""Starting a job and loading a model have to stay small beside a shard."""
SMALL_JOB_TEXTS = 5_000


@dataclass(frozen=True)
class LengthBin:
    """Documents whose lengths lie evenly between two borders, in tokens."""

    low: float
    high: float
    n_documents: float

    def tokens(self, most: float) -> float:
        """Sum their tokens, each document cut after ``most``.

        Their number times the mean of min(U, most) over U uniform in [low, high).
        """
        low, high = self.low, self.high
        if most <= low:
            return self.n_documents * most
        if most >= high:
            return self.n_documents * (low + high) / 2
        area = (most**2 - low**2) / 2 + most * (high - most)
        return self.n_documents * area / (high - low)

    def above(self, tokens: float) -> float:
        """Return how many are longer: P(U > x) = (high - x) / (high - low)."""
        share = (self.high - max(tokens, self.low)) / (self.high - self.low)
        return self.n_documents * max(0.0, share)

    def pieces(self, tokens: int, overlap: int = 0) -> float:
        """Sum the windows, chunks or parts of ``tokens`` tokens that they are cut into.

        A document of L tokens has one, and one more for each k >= 0 with L > tokens + k * step.
        """
        starts = range(tokens, math.ceil(self.high), tokens - overlap)
        return self.n_documents + sum(map(self.above, starts))


@dataclass(frozen=True)
class PlannedTexts:
    """The texts of a benchmark in one language: documents as planned, queries at most."""

    bins: tuple[LengthBin, ...]
    n_queries: int
    query_tokens: float = QUERY_TOKENS

    @property
    def n_documents(self) -> int:
        """Count the documents."""
        return round(sum(part.n_documents for part in self.bins))

    @property
    def n_texts(self) -> int:
        """Count documents and queries."""
        return self.n_documents + self.n_queries

    def mean_tokens(self, longest: float = math.inf) -> float:
        """Return the mean tokens of a document, each cut after ``longest``; 0 without any."""
        return sum(part.tokens(longest) for part in self.bins) / max(1, self.n_documents)

    def tokens(self, entry: ModelBase) -> int:
        """Count the tokens that a model computes: cut at its longest input, or in windows."""
        longest = float(getattr(entry, "max_tokens", math.inf))
        windows: Windows | None = getattr(entry, "windows", None)
        stretch = 1.0
        if windows is not None:
            is_read = windows.keep == "all"
            longest = math.inf if is_read else 2.0 * windows.tokens
            if is_read and any(part.high > windows.tokens for part in self.bins):
                stretch = windows.tokens / (windows.tokens - windows.overlap)
        documents = stretch * sum(part.tokens(longest) for part in self.bins)
        asked = entry.query_tokens if isinstance(entry, ColbertModel) else None
        return round(documents + self.n_queries * (asked or self.query_tokens))

    def gpu_minutes(self, entry: ModelBase, encoding: Encoding) -> float | None:
        """Return the GPU minutes of encoding; None where the model's size is not known.

        Two operations per parameter and token, a multiplication and an addition (Kaplan et al.
        2020, "Scaling laws for neural language models", section 2.1), at ``encoding.gpu_tflops`` on
        each of the model's GPUs. Input embeddings are looked up, not multiplied: parameters without
        them where the entry says how many they are; static embeddings compute nothing.
        """
        if not isinstance(entry, EncoderModel):
            return None
        if not entry.is_network:
            return 0.0
        gpus = max(1, entry.vllm.gpus) if isinstance(entry, VllmModel) else 1
        return _gpu_minutes(entry, self.tokens(entry) / gpus, encoding)

    def store_bytes(self, entry: ModelBase, encoding: Encoding) -> int | None:
        """Return the bytes of the vectors that encoding stores; None where they cannot be told.

        That is without the model's ``dim``, of learned sparse vectors without ``max_terms``: these
        have at most so many terms of three numbers each.

        One vector per text, window or chunk, of late interaction one per token at most (some leave
        out punctuation), times ``dim`` numbers of 4 bytes, 2 with ``encoding.storage: float16``.
        Addresses (some tens of bytes a text) are left out, and so is what compression saves.
        """
        size = 2 if encoding.storage == "float16" else 4
        if (terms := getattr(entry, "max_terms", None)) is not None:
            return self.n_texts * int(terms) * 3 * size
        if not isinstance(entry, EncoderModel) or entry.dim is None or entry.scores_by == "sparse":
            return None
        windows: Windows | None = getattr(entry, "windows", None)
        pieces: Overlapping | None = windows or getattr(entry, "late_chunking", None)
        n_vectors = self.n_texts
        if entry.scores_by != "cosine":
            n_vectors = self.tokens(entry)
        elif pieces is not None and not (windows and windows.pool == "mean"):
            most = 2 if windows and windows.keep == "head-and-tail" else math.inf
            n_vectors = self.n_queries + round(
                sum(
                    min(part.pieces(pieces.tokens, pieces.overlap), most * part.n_documents)
                    for part in self.bins
                )
            )
        return n_vectors * entry.dim * size

    @property
    def threads(self) -> int:
        """Return the threads of a job that runs a model over them.

        A small job starts up longer than it computes: several on a core each end sooner than one
        after the other on all. 8 for large ones, of which Snakemake takes as many as it may.
        """
        return 1 if self.n_texts < SMALL_JOB_TEXTS else 8


def _gpu_minutes(entry: object, n_tokens: float, encoding: Encoding) -> float | None:
    size = getattr(entry, "parameters_m", None)
    if size is None:
        return None
    active = size - (getattr(entry, "embedding_parameters_m", None) or 0)
    return 2 * active * 1e6 * n_tokens / (encoding.gpu_tflops * 1e12) / 60


def scoring_minutes(
    entry: RerankerBase, encoding: Encoding, texts: PlannedTexts, n_pairs: float, share: float = 1.0
) -> float | None:
    """Return the GPU minutes of scoring pairs of a query and a document, cut at the longest input.

    As of encoding (`PlannedTexts.gpu_minutes`); None where the reranker's size is not known.
    ``share`` is of a document's tokens, where a part of it is scored.
    """
    if not texts.n_documents:
        return None
    n_tokens = n_pairs * pair_tokens(entry, texts, share)
    return _gpu_minutes(_scorer(entry), n_tokens, encoding)


def pair_tokens(entry: RerankerBase, texts: PlannedTexts, share: float = 1.0) -> float:
    """Return the mean tokens of a query with a document, or with a share of it, as scored."""
    longest = float(getattr(_scorer(entry), "max_tokens", math.inf))
    return min(longest, share * texts.mean_tokens(longest / share) + texts.query_tokens)


def _scorer(entry: RerankerBase) -> object:
    return entry.encoder if isinstance(entry, BiEncoderReranker) else entry


@dataclass(frozen=True)
class Counts:
    """What one benchmark has in one language.

    Attributes
    ----------
    texts, basis
        The documents, and queries at most; what they rest on: ``tables``, ``plan`` or ``source``.
    candidates
        Queries that the writing tasks make; of a benchmark that is read, its queries.
    left
        Those that become queries, at least and at most.
    entering
        Those that each filter is given, by its name.
    """

    texts: PlannedTexts
    basis: str
    candidates: float
    left: Range
    entering: Mapping[str, Range] = field(default_factory=dict)


def filtered_counts(
    section: GeneratedBenchmark,
    texts: PlannedTexts,
    candidates: float,
    *,
    basis: str = "plan",
    kept: Callable[[str], float | None] | None = None,
) -> Counts:
    """Count what a benchmark's filters are given and leave.

    A filter leaves the share that ``kept`` has of it. Where that is None, LEAST_SHARE of all
    candidates get past it at least and all at most, and KEPT_SHARE past all filters.
    """
    now, is_known, entering = (candidates, candidates), True, dict[str, Range]()
    for step in [*section.filters] + [NEGATIVES] * (section.false_negatives is not None):
        if step == NEGATIVES and not is_known:
            now = now[0], min(now[1], KEPT_SHARE * candidates)
        entering[step] = now
        if kept is not None and (share := kept(step)) is not None:
            now = times(now, share)
        else:
            now, is_known = (min(now[0], LEAST_SHARE * candidates), now[1]), False
    left = now if is_known else (now[0], min(now[1], KEPT_SHARE * candidates))
    return Counts(texts, basis, candidates, left, entering)


def times(items: Range, each: float | Range) -> Range:
    """Multiply both ends."""
    low, high = each if isinstance(each, tuple) else (each, each)
    return items[0] * low, items[1] * high


def shards_of_minutes(encoding: Encoding, minutes: float | None) -> int:
    """Cut GPU minutes into jobs: what ``encoding.shards`` says, one where they are not known.

    With ``auto`` as many as leave each up to ``minutes_per_shard``, and none below ten minutes.
    """
    if encoding.shards != "auto":
        return encoding.shards
    wanted = math.ceil((minutes or 0) / encoding.minutes_per_shard)
    longest = int((minutes or 0) // SHORTEST_SHARD_MINUTES)
    return max(1, min(wanted, longest, encoding.max_shards))


def planned_texts(
    section: Benchmark, language: str, *, n_domains: int | None = None
) -> PlannedTexts | None:
    """Return what there will be to encode in a language; None where the config does not say.

    A sample's number of documents counts, spread over its length bins; a release in PosIR's layout
    is taken to have PosIR's average number of documents in each domain.

    Parameters
    ----------
    n_domains
        Domains of a release whose section does not list them.
    """
    if isinstance(section, PosirRelease):
        listed = len(section.domains) if section.domains is not None else n_domains
        if listed is None:
            return None
        growth = 1.0 if language.startswith(RELEASE_SOURCES) else TRANSLATION_GROWTH
        bins = _bins(RELEASE_EDGES, RELEASE_SHARES, listed * RELEASE_DOCUMENTS, growth)
        return PlannedTexts(bins, listed * RELEASE_QUERIES)
    if isinstance(section, Documents) and section.words and section.n_documents:
        n_drawn = section.n_documents * (section.part[1] - section.part[0])
        per_unit = tokens_per_unit("words", language)
        return PlannedTexts(
            _bins(section.words, None, round((n_domains or 1) * n_drawn), per_unit), 0
        )
    if not isinstance(section, GeneratedBenchmark) or section.sample.n_documents is None:
        return None
    is_translated = section.translate is not None and language in section.translate.to
    source, sample = section.language if is_translated else language, section.sample
    given = [section.language] if section.corpora is None else [c.language for c in section.corpora]
    spoken = [lang or section.language for lang in given]
    n_documents = spoken.count(source) * (sample.n_documents or 0)
    per_unit = tokens_per_unit(sample.unit, source) * (TRANSLATION_GROWTH if is_translated else 1)
    bins = _bins(sample.edges, sample.shares, n_documents, per_unit)
    return PlannedTexts(bins, round(n_documents * queries_per_document(section)))


def _bins(
    edges: Sequence[int], shares: Sequence[int] | None, n_documents: int, per_unit: float
) -> tuple[LengthBin, ...]:
    weights = shares or [1] * (len(edges) - 1)
    return tuple(
        LengthBin(low * per_unit, high * per_unit, n_documents * weight / sum(weights))
        for low, high, weight in zip(edges[:-1], edges[1:], weights, strict=True)
    )


def tokens_per_unit(unit: str, language: str) -> float:
    """Return the tokens that a unit of a sample's lengths has in a language."""
    if unit == "tokens":
        return 1.0
    if unit == "words":
        return TOKENS_PER_WORD
    is_dense = language.rpartition("-")[2] in DENSE_SCRIPTS
    return 1 / (DENSE_CHARS_PER_TOKEN if is_dense else CHARS_PER_TOKEN)


def queries_per_document(section: GeneratedBenchmark) -> float:
    """Return the candidates that are asked for: what filters leave is fewer."""
    last = TASKS[section.recipe][-1].name
    items = writing_items(section, last, 1)
    return items * (
        section.generate_questions.n_questions if isinstance(section, FinewebPosq) else 1
    )


def writing_items(section: GeneratedBenchmark, task: str, n_documents: float) -> float:
    """Return the number of items of a writing task, of a number of documents."""
    if isinstance(section, Posir):
        asked = section.propose_questions
        return n_documents * asked.share * (1 if task == "propose_questions" else asked.n_questions)
    if isinstance(section, Controlled):
        asked_for = len(POSITIONS) * section.generate_positional_query.queries_per_position
        return n_documents * (1 if task == "choose_configuration" else asked_for)
    assert isinstance(section, FinewebPosq)
    return n_documents * (1 if task == "summarise" else chunks_per_document(section))


def chunks_per_document(section: FinewebPosq) -> int:
    """Return the chunks of a document of middle length that questions are asked about."""
    sample: Sample = section.sample
    words = (sample.edges[0] + sample.edges[-1]) / 2
    if sample.unit != "words":
        words *= tokens_per_unit(sample.unit, section.language) / TOKENS_PER_WORD
    return max(1, math.ceil(words / section.generate_questions.chunk_words))


def on_cpus(gpu_minutes: float, encoding: Encoding) -> float:
    """Return what this machine's cores take for what takes one GPU some minutes."""
    return gpu_minutes * encoding.gpu_tflops * 1000 / (CPU_GFLOPS * (os.cpu_count() or 1))
