"""Random runs: the positive at a rank that depends a little on position and length."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

DEPTH = 10


@dataclass(frozen=True)
class Asked:
    """The queries of a language pair over all domains, arrays of shape (n_queries,).

    `domains` are the domains' names, `domain` the number of each query's; `query` and `positive`
    number queries and documents inside a domain, `relative` is the evidence's relative position,
    `tokens` the positive's length; every domain has `n_documents`.
    """

    domains: list[str]
    domain: np.ndarray
    query: np.ndarray
    positive: np.ndarray
    relative: np.ndarray
    tokens: np.ndarray
    n_documents: int


def write_runs(
    folder: Path,
    asked: Mapping[tuple[str, str], Asked],
    *,
    n_models: int,
    rng: np.random.Generator,
) -> None:
    """Write {folder}/run-01/{query_lang}-{corpus_lang}.parquet and so on, all domains in a file."""
    for number in range(1, n_models + 1):
        model = folder / f"run-{number:02d}"
        model.mkdir(parents=True, exist_ok=True)
        strength, decline = rng.uniform(0.55, 0.95), rng.uniform(0.0, 0.35)
        for (queries, documents), pair in asked.items():
            hit = strength * (1.0 if queries == documents else 0.9)
            ranked = draw_ranking(pair, hit=hit, decline=decline, rng=rng)
            path = model / f"{queries}-{documents}.parquet"
            pq.write_table(run_table(pair, ranked), path, compression="zstd")


def draw_ranking(
    asked: Asked, *, hit: float, decline: float, rng: np.random.Generator
) -> np.ndarray:
    """Draw each query's ten best documents, (n_queries, 10) int64 numbers inside its domain.

    Parameters
    ----------
    hit : share of queries with the positive among the ten if its evidence is at the very beginning
        of a short document.
    decline : decrease of this share if the evidence is at the end of the longest document.
    """
    n_queries = len(asked.query)
    others = draw_others(asked.positive, asked.n_documents, rng)
    chance = hit - decline * asked.relative * asked.tokens / 2048
    rank = rng.geometric(0.45, n_queries)
    rank[(rng.random(n_queries) >= chance) | (rank > DEPTH)] = DEPTH + 1
    column = np.arange(1, DEPTH + 1)
    before = np.concatenate([others[:, :1], others[:, :-1]], axis=1)
    ranked = np.where(column < rank[:, None], others, before)
    return np.where(column == rank[:, None], asked.positive[:, None], ranked)


def draw_others(positive: np.ndarray, n_documents: int, rng: np.random.Generator) -> np.ndarray:
    """Draw ten distinct documents per query, without its positive."""
    rest = n_documents - 1
    steps = np.array([step for step in range(1, rest) if gcd(step, rest) == 1])
    start = rng.integers(0, rest, (len(positive), 1))
    step = rng.choice(steps, (len(positive), 1))
    drawn: np.ndarray = (start + step * np.arange(DEPTH)) % rest
    return drawn + (drawn >= positive[:, None])


def run_table(asked: Asked, ranked: np.ndarray) -> pa.Table:
    """Lay rankings out as rows query_id, doc_id, score; ids have the domain in front."""
    queries = [f"{asked.domains[d]}/q{q}" for d, q in zip(asked.domain, asked.query, strict=True)]
    documents = [f"{d}/d{i}" for d in asked.domains for i in range(asked.n_documents)]
    query = np.repeat(np.arange(len(queries), dtype=np.int32), DEPTH)
    place = asked.domain[:, None] * asked.n_documents + ranked
    score = np.tile(np.linspace(0.9, 0.45, DEPTH, dtype=np.float32), len(queries))
    return pa.table(
        {
            "query_id": pa.DictionaryArray.from_arrays(pa.array(query), queries),
            "doc_id": pa.DictionaryArray.from_arrays(
                pa.array(place.ravel().astype(np.int32)), documents
            ),
            "score": pa.array(score),
        }
    )
