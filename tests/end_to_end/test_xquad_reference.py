"""XQuAD through the whole chain gives the values the published protocol gives."""

from pathlib import Path
from typing import Any

import jobs
import numpy as np
import polars as pl
import pytest

from psibench.config.registry import load_registry
from psibench.config.sections import Uncertainty
from psibench.encode.job import run_encode
from psibench.generate.benchmarks import SquadPosq
from psibench.generate.recipes import build_params, run_build
from psibench.metrics.scoring import ScoredModel, run_score
from psibench.search.runs import run_lexical_search, run_vector_search
from psibench.tables import read_table
from psibench.tables.schemas import BUCKET_SCORES, PSI_TABLE

# Measured with the authors' protocol, which averages ties: by document id BM25's last digits move.
BM25 = ([0.9535, 0.9603, 0.9653, 0.9860, 0.9625, 0.9638], 0.0329)
TIE_AVERAGED = "ndcg-tie-averaged@10"
MINILM = ([0.9417, 0.9536, 0.9503, 0.9515, 0.9476, 0.9241], 0.0308)


@pytest.fixture(scope="module")
def folder(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of XQuAD English under the published label rule, with both runs."""
    out = tmp_path_factory.mktemp("xquad")
    section = SquadPosq(
        recipe="squad_posq",
        source={"kind": "squad", "paths": [str(real_data / "xquad.en.json")]},
        labels="published",
        buckets=["squad"],
    )
    names = ("corpus", "queries", "qrels", "dropped", "flow")
    params = build_params(section, length_tokenizer="words")
    made = {name: out / f"{name}.parquet" for name in names}
    jobs.run(run_build, {}, made, domains={"general": params})
    registry = load_registry()
    model, encodings = "all-minilm-l6-v2", out / "encodings.parquet"
    tables = {"corpora": out / "corpus.parquet", "queries": out / "queries.parquet"}
    values = {"benchmark": "xquad", "query_lang": "eng-Latn", "corpus_lang": "eng-Latn"}
    values |= {"store": out / "store", "top_k": 100, "block_mib": 64}

    def run(function: Any, inputs: Any, outputs: dict[str, str], **more: Any) -> None:
        files = {name: out / f"{file}.parquet" for name, file in outputs.items()}
        jobs.run(function, inputs, files, **values, **more)

    run(run_lexical_search, tables, {"run": "bm25.run"}, model="bm25", entry=registry["bm25"])
    static = {"model": model, "entry": registry[model]}
    run(run_encode, tables, {"encodings": "encodings"}, **static)
    sides = {"query_encodings": encodings, "corpus_encodings": encodings}
    run(run_vector_search, sides, {"run": f"{model}.run"}, **static)
    for name, seen in (("bm25", []), (model, [str(encodings)])):
        run(
            run_score,
            {"asked": tables["queries"], "queries": tables["queries"]}
            | {"qrels": out / "qrels.parquet"},
            {kind: f"{name}.{kind}" for kind in ("scores", "buckets", "psi", "comparisons")},
            models=[ScoredModel(name, "any", out / f"{name}.run.parquet", encodings=seen)],
            metrics=["ndcg@10", TIE_AVERAGED, "recall@100", "mrr@10"],
            psi_metrics=["ndcg@10", TIE_AVERAGED],
            schemes=["squad"],
            length_buckets=False,
            uncertainty=Uncertainty(),
            control=None,
            windows=[],
        )
    return out


@pytest.mark.parametrize(
    ("model", "expected", "tolerance"),
    [("bm25", BM25, 6e-5), ("all-minilm-l6-v2", MINILM, 1e-4)],
)
def test_buckets_and_psi_are_those_of_the_published_protocol(
    folder: Path, model: str, expected: tuple[list[float], float], tolerance: float
) -> None:
    pooled = (pl.col("evidence") == "all") & (pl.col("metric") == TIE_AVERAGED)
    buckets = read_table(folder / f"{model}.buckets.parquet", BUCKET_SCORES).filter(pooled)
    psi = read_table(folder / f"{model}.psi.parquet", PSI_TABLE).filter(pooled)
    np.testing.assert_allclose(buckets["mean"], expected[0], atol=tolerance)
    assert psi["psi"][0] == pytest.approx(expected[1], abs=tolerance)
    # At 1,190 queries of 240 passages neither shows a position effect.
    assert psi["psi"][0] < psi["psi_noise_p95"][0]
    assert psi["psi_low"][0] == 0
    assert psi["p_position"][0] > 0.05
