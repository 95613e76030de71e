"""What there is to encode, to score and to ask by a config alone: counts, and means of lengths.

All of it is arithmetic over the config, so that a workflow can ask it while it is parsed, and gets
the same answer every time.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from psibench.config.encoders import ColbertModel
from psibench.config.model_base import EncoderModel, ModelBase, Windows
from psibench.config.rerankers import BiEncoderReranker, Bm25Reranker, RerankerBase
from psibench.config.sections import Encoding
from psibench.generate.benchmarks import (
    Benchmark,
    Controlled,
    DocumentsBenchmark,
    FinewebPosq,
    GeneratedBenchmark,
    Posir,
    PosirRelease,
)
from psibench.text.segments import POSITIONS

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
REPLY_TOKENS = {
    "choose_configuration": 39,
    "generate_positional_query": 43,
    "grade_relevance": 7,
    "judge_segment": 9,
    "judge_refusal": 7,
    "judge_translation": 15,
    "locate_span": 48,
    "propose_questions": 42,
    "generate_questions": 55,
}
"""Mean tokens of a reply by its template, of a question where it has several. The first five are
measured in the embedded default; the others have a quarter of the characters of a typical reply
(of ours)."""
SUMMARY_SHARE = 0.35
"""Tokens of a summary per token of its document: the same source."""
PERSONA_TOKENS = 30
"""About as long as a persona of PersonaHub."""
LENGTHS_PER_BIN = 8
"""Lengths that the documents of a bin have, evenly spaced: what is cut off is counted by them."""
EMBEDDED = {"parameters_m": 22.7, "embedding_parameters_m": 11.7, "dim": 384}
"""Sizes of all-MiniLM-L6-v2: of its 22.7 M parameters 30,522 x 384 are input embeddings."""


@dataclass(frozen=True)
class Texts:
    """The texts of a benchmark in one language: documents by length, queries at most.

    ``lengths`` are pairs of a length in tokens and the number of documents that have it. ``basis``
    is where the counts come from: ``plan`` (the config), ``source`` files, or ``tables`` of a run.
    """

    lengths: tuple[tuple[float, float], ...]
    n_queries: float
    query_tokens: float = QUERY_TOKENS
    basis: str = "plan"

    @property
    def n_documents(self) -> float:
        """Count the documents."""
        return round(sum(n for _, n in self.lengths), 6)  # of shares: without their rounding error

    @property
    def n_texts(self) -> float:
        """Count documents and queries."""
        return self.n_documents + self.n_queries

    def tokens(self, longest: float = math.inf) -> float:
        """Sum the tokens of all documents, each cut after ``longest``."""
        return sum(n * min(length, longest) for length, n in self.lengths)

    def mean_tokens(self, longest: float = math.inf) -> float:
        """Return the mean tokens of a document, each cut after ``longest``; 0 without any."""
        return self.tokens(longest) / max(1, self.n_documents)

    def translated(self) -> "Texts":
        """Return the same texts in another language: documents are longer."""
        return replace(self, lengths=tuple((TRANSLATION_GROWTH * t, n) for t, n in self.lengths))

    def pieces(self, tokens: int, overlap: int = 0) -> float:
        """Sum the windows, chunks or parts of ``tokens`` tokens that documents are cut into."""
        step = tokens - overlap
        return sum(
            n * (1 + math.ceil(max(0, length - tokens) / step)) for length, n in self.lengths
        )


def tokens_read(entry: ModelBase, texts: Texts) -> float:
    """Count the tokens that a model computes: texts cut at its longest input, or in windows."""
    windows: Windows | None = getattr(entry, "windows", None)
    if windows is None:
        documents = texts.tokens(getattr(entry, "max_tokens", math.inf))
    elif windows.keep == "head-and-tail":
        documents = texts.tokens(2 * windows.tokens)
    else:  # what overlaps is read twice
        further = texts.pieces(windows.tokens, windows.overlap) - texts.n_documents
        documents = texts.tokens() + windows.overlap * further
    asked = entry.query_tokens if isinstance(entry, ColbertModel) else None
    return documents + texts.n_queries * (asked or texts.query_tokens)


def store_bytes(entry: ModelBase, texts: Texts, encoding: Encoding) -> float | None:
    """Return the bytes of the vectors that encoding stores, at most; None without dimensions.

    One vector per text, window or chunk, of late interaction one per token, times ``dimensions`` or
    else ``dim`` numbers of 4 bytes, 2 with ``encoding.storage: float16``. Learned sparse vectors
    have at most ``max_terms`` terms of three numbers each.
    """
    size = 2 if encoding.storage == "float16" else 4
    if (terms := getattr(entry, "max_terms", None)) is not None:
        return texts.n_texts * int(terms) * 3 * size
    dim: int | None = getattr(entry, "dimensions", None) or getattr(sized(entry), "dim", None)
    if not isinstance(entry, EncoderModel) or dim is None or entry.scores_by == "sparse":
        return None
    windows: Windows | None = getattr(entry, "windows", None)
    pieces = windows or getattr(entry, "late_chunking", None)
    n_vectors = texts.n_texts
    if entry.scores_by != "cosine":
        n_vectors = tokens_read(entry, texts)
    elif windows is not None and windows.keep == "head-and-tail":
        n_vectors = 2 * texts.n_documents + texts.n_queries
    elif pieces is not None and not (windows and windows.pool == "mean"):
        n_vectors = texts.pieces(pieces.tokens, pieces.overlap) + texts.n_queries
    return n_vectors * dim * size


def sized(entry: ModelBase) -> ModelBase:
    """Return an entry, of the embedded checkpoint with its sizes."""
    is_embedded = getattr(entry, "checkpoint", "").startswith("embedded:")
    return entry.model_copy(update=EMBEDDED) if is_embedded else entry


def gpu_minutes(entry: object, n_tokens: float, encoding: Encoding) -> float | None:
    """Return the GPU minutes of computing tokens; None where the model's size is not known.

    Two operations per parameter and token, a multiplication and an addition (Kaplan et al. 2020,
    "Scaling laws for neural language models", section 2.1), at ``encoding.gpu_tflops``. Input
    embeddings are looked up, not multiplied: parameters without them where the entry says how many
    they are; static embeddings and BM25 compute nothing.
    """
    if isinstance(entry, Bm25Reranker) or (
        isinstance(entry, EncoderModel) and not entry.is_network
    ):
        return 0.0
    known: Any = sized(entry.encoder if isinstance(entry, BiEncoderReranker) else entry)  # type: ignore[arg-type]
    if getattr(known, "parameters_m", None) is None:
        return None
    active = known.parameters_m - (getattr(known, "embedding_parameters_m", None) or 0)
    return 2 * active * 1e6 * n_tokens / (encoding.gpu_tflops * 1e12) / 60


def pair_tokens(entry: RerankerBase, texts: Texts, share: float = 1.0) -> float:
    """Return the mean tokens of a query with a document, or with a share of it, as scored."""
    scorer = entry.encoder if isinstance(entry, BiEncoderReranker) else entry
    longest = float(getattr(scorer, "max_tokens", math.inf))
    return min(longest, share * texts.mean_tokens(longest / share) + texts.query_tokens)


# Counts of the sample


def planned_texts(section: Benchmark, language: str, *, n_domains: int) -> Texts | None:
    """Return what there will be to encode in a language that is read; None if it does not say.

    A sample's number of documents counts, spread over its length bins; a release in PosIR's layout
    is taken to have PosIR's average number of documents in each domain.
    """
    if isinstance(section, PosirRelease):
        # Of a folder that is not there, no domain is known.
        n_listed = n_domains or len(section.named_domains())
        n_documents, n_queries = n_listed * RELEASE_DOCUMENTS, n_listed * RELEASE_QUERIES
        return release_texts(language, n_documents, n_queries) if n_listed else None
    if isinstance(section, DocumentsBenchmark) and section.words and section.n_documents:
        n_drawn = section.n_documents * (section.part[1] - section.part[0])
        return Texts(_spread(section.words, None, n_domains * n_drawn, TOKENS_PER_WORD), 0)
    if not isinstance(section, GeneratedBenchmark) or section.sample.n_documents is None:
        return None
    sample, n_documents = section.sample, n_domains * section.sample.n_documents
    per_unit = tokens_per_unit(sample.unit, language)
    lengths = _spread(sample.edges, sample.shares, n_documents, per_unit)
    return Texts(lengths, round(n_documents * queries_per_document(section)))


def release_texts(language: str, n_documents: float, n_queries: float) -> Texts:
    """Return texts of a release's language: documents of the lengths that PosIR's sample has."""
    growth = 1.0 if language.startswith(RELEASE_SOURCES) else TRANSLATION_GROWTH
    return Texts(_spread(RELEASE_EDGES, RELEASE_SHARES, n_documents, growth), n_queries)


def _spread(
    edges: Sequence[int], shares: Sequence[int] | None, n_documents: float, per_unit: float
) -> tuple[tuple[float, float], ...]:
    """Spread documents over length bins by their shares, and evenly within each."""
    weights = shares or [1] * (len(edges) - 1)
    found = []
    for low, high, weight in zip(edges[:-1], edges[1:], weights, strict=True):
        n_each = n_documents * weight / sum(weights) / LENGTHS_PER_BIN
        for number in range(LENGTHS_PER_BIN):
            length = low + (high - low) * (number + 0.5) / LENGTHS_PER_BIN
            found.append((length * per_unit, n_each))
    return tuple(found)


def tokens_per_unit(unit: str, language: str) -> float:
    """Return the tokens that a unit of a sample's lengths has in a language."""
    if unit == "tokens":
        return 1.0
    if unit == "words":
        return TOKENS_PER_WORD
    is_dense = language.rpartition("-")[2] in DENSE_SCRIPTS
    return 1 / (DENSE_CHARS_PER_TOKEN if is_dense else CHARS_PER_TOKEN)


def writing(
    section: GeneratedBenchmark, document: float = 0.0
) -> dict[str, tuple[float, float, float]]:
    """Return what each writing task of a recipe asks about documents of so many tokens, in order.

    Its items for each document, and the mean tokens of the texts in a prompt and of its reply.
    """
    reply = REPLY_TOKENS
    if isinstance(section, Posir):
        share, n = section.propose_questions.share, section.propose_questions.n_questions
        located = document + 2.0 * QUERY_TOKENS
        return {
            "propose_questions": (share, document, n * reply["propose_questions"]),
            "locate_span": (share * n, located, reply["locate_span"]),
        }
    if isinstance(section, Controlled):
        personas = PERSONA_TOKENS * section.personas.n_candidates
        n = len(POSITIONS) * section.generate_positional_query.queries_per_position
        segment, name = document / len(POSITIONS) + PERSONA_TOKENS, "generate_positional_query"
        return {
            "choose_configuration": (1, document + personas, reply["choose_configuration"]),
            name: (n, document + segment, reply[name]),
        }
    assert isinstance(section, FinewebPosq)
    sample, questions = section.sample, section.generate_questions
    words = (sample.edges[0] + sample.edges[-1]) / 2  # of a document of middle length
    if sample.unit != "words":
        words *= tokens_per_unit(sample.unit, section.language) / TOKENS_PER_WORD
    overlap = questions.chunk_overlap
    n_chunks = max(1, math.ceil((words - overlap) / (questions.chunk_words - overlap)))
    summary = min(SUMMARY_SHARE * document, section.summarise.max_words * TOKENS_PER_WORD)
    replies = questions.n_questions * reply["generate_questions"]
    return {
        "summarise": (1, document, summary),
        "generate_questions": (n_chunks, document / n_chunks + summary, replies),
    }


def queries_per_document(section: GeneratedBenchmark) -> float:
    """Return the candidates that are asked for: what filters leave is fewer."""
    *_, (items, _, _) = writing(section).values()
    is_fineweb = isinstance(section, FinewebPosq)
    return items * (section.generate_questions.n_questions if is_fineweb else 1)  # type: ignore[attr-defined]
