"""A tiny base and a small pool to train it on."""

import random
from pathlib import Path

import jobs
import pytest
from tiny_checkpoints import save_bert
from tiny_training import base_of, write_domains

from psibench.tables.schemas import CORPUS, QRELS, QUERIES
from psibench.text.segments import POSITIONS, equal_segments
from psibench.train.sampling import run_sample_training
from psibench.train.sections import Training

N_DOCUMENTS = 24


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_bert(tmp_path_factory.mktemp("tiny-bert"))


@pytest.fixture(scope="session")
def pool(tmp_path_factory: pytest.TempPathFactory) -> dict:
    """Documents of two lengths, with a query about each third in words of that third."""
    folder = tmp_path_factory.mktemp("pool")
    chance = random.Random(0)
    documents, queries, qrels = [], [], []
    for number in range(N_DOCUMENTS):
        text = " ".join(f"w{chance.randrange(10, 60)}" for _ in range((12, 30)[number % 2]))
        documents.append((f"d{number}", text, len(text), 1, 1))
        for position, (start, end) in zip(POSITIONS, equal_segments(len(text)), strict=True):
            query = f"q{number}-{position}"
            words = " ".join(text[start:end].split()[1:3])
            span = [start, end]
            queries.append((query, words, f"d{number}", span, len(text), 1, position))
            qrels.append((query, f"d{number}", 1))
    tables = {"queries": (QUERIES, queries), "corpus": (CORPUS, documents), "qrels": (QRELS, qrels)}
    paths = {
        name: [write_domains(folder / name, spec, {"d": rows})]
        for name, (spec, rows) in tables.items()
    }
    section = Training.model_validate(
        {"benchmark": "b", "edges": [0, 60, 200], "bases": {"m": base_of("x")}}
    )
    outputs = {name: folder / f"{name}.parquet" for name in ("pairs", "counts")}
    none_held_out = {"held_out": [], "held_out_qrels": []}
    jobs.run(
        run_sample_training, paths | none_held_out, outputs, domains=["d"], edges=section.edges,
        distributions=section.distributions, budget=None, sampling_seed=42, same_article=None,
    )  # fmt: skip
    return paths | {"pairs": str(outputs["pairs"])}
