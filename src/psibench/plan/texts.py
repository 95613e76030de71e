"""Numbers of texts and their lengths that follow from a config only.

This is arithmetic on the config, so Snakemake can use it while it parses the workflow, with the
same result every time.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from psibench.config.encoders import ColbertModel
from psibench.config.model_base import Chunks, EncoderModel, ModelBase, Windows
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

UNCERTAINTY = 2
"""Most actual numbers are between the expected ones divided and multiplied by this. In a run of
the default config, 9 of 12 tasks had 0.8 to 2.0 times the expected requests, and the three judges
of false negatives had five times; all tasks together had 0.77 times the expected input tokens and
0.69 times the output tokens."""
UNCERTAIN = f"between 1/{UNCERTAINTY} and {UNCERTAINTY} times"
"""The uncertainty as text, after an expected value."""
TOKENS_PER_WORD = 4 / 3
"""100 tokens are about 75 English words (OpenAI help, "What are tokens and how to count them")."""
CHARS_PER_TOKEN = 4.0
"""The same source, for scripts with spaces."""
DENSE_CHARS_PER_TOKEN = 1.5
"""Assumption: a token of a multilingual vocabulary has one or two characters in dense scripts."""
DENSE_SCRIPTS = ("Hans", "Hant", "Hani", "Jpan", "Kore")
TRANSLATION_GROWTH = 1.5
"""Tokens of a translation per token of its English source. In PosIR (section 2, table 1) a document
of the length bins has 921.6 tokens on average, and a document of all ten languages 1,314.75. Two
languages are not translated, so the other eight have (10 x 1,314.75 - 2 x 921.6) / 8 = 1,413."""
QUERY_TOKENS = 22
"""PosIR, table 1: 21.91 tokens per query."""
RELEASE_DOCUMENTS, RELEASE_QUERIES = 55_902, 1_360
"""Numbers per domain and language of PosIR's release (PosIR, table 1)."""
RELEASE_EDGES = (0, 256, 512, 768, 1024, 1280, 1536, 1792, 2048)
RELEASE_SHARES = (3, 3, 3, 3, 2, 2, 2, 2)
"""Length bins of PosIR's sample, in tokens of Qwen3 (PosIR, section 2)."""
RELEASE_SOURCES = ("eng", "zho", "cmn")
"""Prefixes of the languages of PosIR's release that are not translations."""
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
"""Mean tokens of a reply by template; per question for replies with several questions. The first
five were measured in the embedded default; the others are a quarter of the characters of a typical
reply."""
SUMMARY_SHARE = 0.35
"""Tokens of a summary per token of its document, estimated in the same way."""
PERSONA_TOKENS = 30
"""Approximate length of a persona of PersonaHub."""
CHUNK_TOKENS = 256
"""Assumed size of the chunks of a program."""
LENGTHS_PER_BIN = 8
"""Evenly spaced lengths that represent the documents of a bin, to estimate truncated tokens."""
EMBEDDED = {"parameters_m": 22.7, "embedding_parameters_m": 11.7, "dim": 384}
"""Sizes of all-MiniLM-L6-v2; 30,522 x 384 of its 22.7 M parameters are input embeddings."""


@dataclass(frozen=True)
class Texts:
    """The texts of a benchmark in one language: documents by length, and the number of queries.

    ``lengths`` are pairs (length in tokens, number of documents). ``basis`` is the origin of the
    counts: ``plan`` (the config), ``source`` (local files), or ``tables`` (of a run).
    """

    lengths: tuple[tuple[float, float], ...]
    n_queries: float
    query_tokens: float = QUERY_TOKENS
    basis: str = "plan"

    @property
    def n_documents(self) -> float:
        """Count the documents."""
        return round(sum(n for _, n in self.lengths), 6)  # removes the rounding errors of shares

    @property
    def n_texts(self) -> float:
        """Count documents and queries."""
        return self.n_documents + self.n_queries

    def tokens(self, longest: float = math.inf) -> float:
        """Sum the tokens of all documents, each truncated to ``longest``."""
        return sum(n * min(length, longest) for length, n in self.lengths)

    def mean_tokens(self, longest: float = math.inf) -> float:
        """Return the mean tokens of documents truncated to ``longest``; 0 without documents."""
        return self.tokens(longest) / max(1, self.n_documents)

    def translated(self) -> "Texts":
        """Return the texts of a translation, whose documents are longer."""
        return replace(self, lengths=tuple((TRANSLATION_GROWTH * t, n) for t, n in self.lengths))

    def pieces(self, tokens: int, overlap: int = 0) -> float:
        """Count the pieces of ``tokens`` tokens (windows, chunks, parts) of all documents."""
        step = tokens - overlap
        return sum(
            n * (1 + math.ceil(max(0, length - tokens) / step)) for length, n in self.lengths
        )


def tokens_read(entry: ModelBase, texts: Texts) -> float:
    """Count the tokens that a model reads: texts truncated to its longest input, or in pieces.

    Assumes that chunks have the size of their setting, and that a program makes no overlap.
    """
    windows: Windows | None = getattr(entry, "windows", None)
    chunks: Chunks | None = getattr(entry, "chunks", None)
    if chunks is not None:
        size, overlap = _read_at_once(entry, chunks)
        n_pieces = texts.pieces(size, overlap)
        documents = texts.tokens() + overlap * (n_pieces - texts.n_documents)
        # Chunks beyond the input are cut.
        documents = min(documents, n_pieces * getattr(entry, "max_tokens", math.inf))
    elif windows is None:
        documents = texts.tokens(getattr(entry, "max_tokens", math.inf))
    elif windows.keep == "head-and-tail":
        documents = texts.tokens(2 * windows.tokens)
    else:  # the overlap is read twice
        further = texts.pieces(windows.tokens, windows.overlap) - texts.n_documents
        documents = texts.tokens() + windows.overlap * further
    asked = entry.query_tokens if isinstance(entry, ColbertModel) else None
    return documents + texts.n_queries * (asked or texts.query_tokens)


def _chunk_tokens(chunks: Chunks) -> tuple[int, int]:
    """Return size and overlap of chunks in tokens; a program's chunks have the default size."""
    per_token = 1.0 if chunks.measure == "tokens" else CHARS_PER_TOKEN
    size = math.ceil((chunks.size or CHUNK_TOKENS * per_token) / per_token)
    return size, min(size - 1, math.ceil(chunks.overlap / per_token))


def _read_at_once(entry: ModelBase, chunks: Chunks) -> tuple[int, int]:
    """Return size and overlap of the pieces that a model reads, in tokens.

    Late chunking reads a long document in windows of `max_tokens`, a quarter of them read before.
    """
    longest: int | None = getattr(entry, "max_tokens", None)
    if chunks.context == "late" and longest is not None:
        return longest, longest // 4
    return _chunk_tokens(chunks)


def store_bytes(entry: ModelBase, texts: Texts, encoding: Encoding) -> float | None:
    """Return an upper bound on the bytes of stored vectors; None if the dimensions are unknown.

    There is one vector per text, window or chunk, and one per token for late interaction. A vector
    has ``dimensions`` (else ``dim``) numbers of 4 bytes, or 2 with ``encoding.storage: float16``.
    A learned sparse vector has at most ``max_terms`` terms of three numbers each.
    """
    size = 2 if encoding.storage == "float16" else 4
    if (terms := getattr(entry, "max_terms", None)) is not None:
        return texts.n_texts * int(terms) * 3 * size
    dim: int | None = getattr(entry, "dimensions", None) or getattr(sized(entry), "dim", None)
    if not isinstance(entry, EncoderModel) or dim is None or entry.scores_by == "sparse":
        return None
    windows: Windows | None = getattr(entry, "windows", None)
    pieces = windows or getattr(entry, "late_chunking", None)
    chunks: Chunks | None = getattr(entry, "chunks", None)
    n_vectors = texts.n_texts
    if entry.scores_by != "cosine":
        n_vectors = tokens_read(entry, texts)
    elif chunks is not None:
        n_vectors = texts.pieces(*_chunk_tokens(chunks)) + texts.n_queries
    elif windows is not None and windows.keep == "head-and-tail":
        n_vectors = 2 * texts.n_documents + texts.n_queries
    elif pieces is not None and not (windows and windows.pool == "mean"):
        n_vectors = texts.pieces(pieces.tokens, pieces.overlap) + texts.n_queries
    return n_vectors * dim * size


def sized(entry: ModelBase) -> ModelBase:
    """Return an entry, with the sizes of the embedded checkpoint if it uses that."""
    is_embedded = getattr(entry, "checkpoint", "").startswith("embedded:")
    return entry.model_copy(update=EMBEDDED) if is_embedded else entry


def gpu_minutes(entry: object, n_tokens: float, encoding: Encoding) -> float | None:
    """Return the GPU minutes of computing tokens; None if the model's size is unknown.

    Assumes two operations per parameter and token, a multiplication and an addition (Kaplan et al.
    2020, "Scaling laws for neural language models", section 2.1), at ``encoding.gpu_tflops``. Input
    embeddings are looked up, not multiplied, so their parameters are subtracted if the entry has
    ``embedding_parameters_m``. Static embeddings and BM25 take no time.
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
    """Return the mean tokens of a scored pair: a query with a document or a share of one."""
    scorer = entry.encoder if isinstance(entry, BiEncoderReranker) else entry
    longest = float(getattr(scorer, "max_tokens", math.inf))
    return min(longest, share * texts.mean_tokens(longest / share) + texts.query_tokens)


# Counts of the sample


def planned_texts(section: Benchmark, language: str, *, n_domains: int) -> Texts | None:
    """Return the expected texts of a native language; None if the section does not determine them.

    Spreads a sample's number of documents over its length bins. Assumes that a release in PosIR's
    layout has PosIR's average numbers of documents and queries per domain.
    """
    if isinstance(section, PosirRelease):
        # n_domains is 0 if the folder of the release is missing.
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
    """Return the texts of a release's language, with the document lengths of PosIR's sample."""
    growth = 1.0 if language.startswith(RELEASE_SOURCES) else TRANSLATION_GROWTH
    return Texts(_spread(RELEASE_EDGES, RELEASE_SHARES, n_documents, growth), n_queries)


def _spread(
    edges: Sequence[int], shares: Sequence[int] | None, n_documents: float, per_unit: float
) -> tuple[tuple[float, float], ...]:
    """Spread documents over length bins by their shares, evenly within each bin."""
    weights = shares or [1] * (len(edges) - 1)
    found = []
    for low, high, weight in zip(edges[:-1], edges[1:], weights, strict=True):
        n_each = n_documents * weight / sum(weights) / LENGTHS_PER_BIN
        for number in range(LENGTHS_PER_BIN):
            length = low + (high - low) * (number + 0.5) / LENGTHS_PER_BIN
            found.append((length * per_unit, n_each))
    return tuple(found)


def tokens_per_unit(unit: str, language: str) -> float:
    """Return the tokens per unit (tokens, words or chars) in a language."""
    if unit == "tokens":
        return 1.0
    if unit == "words":
        return TOKENS_PER_WORD
    is_dense = language.rpartition("-")[2] in DENSE_SCRIPTS
    return 1 / (DENSE_CHARS_PER_TOKEN if is_dense else CHARS_PER_TOKEN)


def writing(
    section: GeneratedBenchmark, document: float = 0.0
) -> dict[str, tuple[float, float, float]]:
    """Return the requests of each writing task of a recipe for a document of ``document`` tokens.

    The values are requests per document, mean tokens of the texts in a prompt, and mean tokens of a
    reply, by task in the recipe's order.
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
    words = (sample.edges[0] + sample.edges[-1]) / 2  # of a document of medium length
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
    """Return the requested candidates per document, before filters."""
    *_, (items, _, _) = writing(section).values()
    is_fineweb = isinstance(section, FinewebPosq)
    return items * (section.generate_questions.n_questions if is_fineweb else 1)  # type: ignore[attr-defined]
