"""Cut one corpus in three ways and search each: runs of chunks for `psibench score`.

psibench run        # the embedded default makes results/python-docs, without network
python examples/chunks/chunkings.py results/python-docs/data/eng-Latn chunk-runs
"""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl

from psibench.models.checkpoints import local_folder

WORDS, STEP = 100, 50
DEPTH = 50
"""Chunks kept for each query: the more, the more documents a run has."""

Chunk = tuple[int, int]
"""Start and end, characters of the text, end exclusive."""


def windows(text: str, step: int = WORDS) -> Iterator[Chunk]:
    """Cut into windows of `WORDS` words, one beginning every `step` words."""
    words = [match.span() for match in re.finditer(r"\S+", text)]
    for first in range(0, max(len(words) - WORDS + step, 1), step):
        own = words[first : first + WORDS]
        yield own[0][0], own[-1][1]


def paragraphs(text: str) -> Iterator[Chunk]:
    """Cut at blank lines: whole paragraphs, as many as have `WORDS` words together, or one."""
    start = end = n_words = 0
    for match in re.finditer(r"\S.*?(?=\n\s*\n|\s*$)", text, re.DOTALL):
        own = len(match[0].split())
        if n_words and n_words + own > WORDS:
            yield start, end
            n_words = 0
        start, end, n_words = (start if n_words else match.start()), match.end(), n_words + own
    yield start, end


CHUNKINGS: dict[str, Callable[[str], Iterator[Chunk]]] = {
    "words-100": windows,
    "words-100-overlapping": lambda text: windows(text, STEP),
    "paragraphs": paragraphs,
}


def main(data: Path, out: Path) -> None:
    """Write a run for each chunking of a language's data; a query searches only its domain."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(local_folder("embedded:all-MiniLM-L6-v2")))
    runs: dict[str, list[tuple[str, str, int, int, float]]] = {name: [] for name in CHUNKINGS}
    corpus, every = (
        pl.read_parquet(data / f"{name}.parquet", columns=["domain", "_id", "text"])
        for name in ("corpus", "queries")
    )
    for domain in sorted(set(corpus["domain"])):
        texts, queries = (t.filter(domain=domain).drop("domain") for t in (corpus, every))
        asked = model.encode(queries["text"].to_list(), normalize_embeddings=True)
        for name, cut in CHUNKINGS.items():
            chunks = [(i, *place, text) for i, text in texts.iter_rows() for place in cut(text)]
            searched = model.encode(
                [text[start:end] for _, start, end, text in chunks], normalize_embeddings=True
            )
            for query_id, scores in zip(queries["_id"], asked @ searched.T, strict=True):
                for row in (-scores).argsort()[:DEPTH]:
                    runs[name].append((query_id, *chunks[row][:3], float(scores[row])))
    out.mkdir(parents=True, exist_ok=True)
    for name, rows in runs.items():
        frame = pl.DataFrame(rows, ["query_id", "doc_id", "start", "end", "score"], orient="row")
        frame.write_ndjson(out / f"{name}.jsonl")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
