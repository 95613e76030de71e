"""Models with chunks in a real snakemake run, reranked and fused, and equal to psibench chunks."""

import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from workflow_project import Project, once_per_session, save_checkpoint, write_squad

from psibench.cli import main
from psibench.tables import read_table
from psibench.tables.schemas import (
    BUCKET_SCORES,
    CHUNK_RUN,
    PSI_TABLE,
    QUERY_SCORES,
    RUN,
)

pytestmark = pytest.mark.processes
CHUNKS = {"splitter": "tokens", "size": 20, "overlap": 5}
PAIR = "eng-Latn-eng-Latn"


def chunked_config() -> dict[str, Any]:
    encoder = {"backend": "sentence-transformers", "checkpoint": "checkpoint", "max_tokens": 64}
    return {
        "benchmarks": {
            "tiny": {
                "recipe": "squad_posq",
                "source": {"kind": "squad", "paths": ["squad.json"]},
                "buckets": ["thirds"],
            }
        },
        "models": ["bm25", "pieces", "whole", "reranked", "fused"],
        "registry": {
            "whole": encoder,
            "pieces": encoder | {"chunks": CHUNKS},
            "reranked": {
                "backend": "rerank",
                "reranker": "embedded-bm25",
                "first_stage": "pieces",
            },
            "fused": {"backend": "fusion", "of": ["bm25", "pieces"]},
        },
        "length_tokenizer": "checkpoint",
        "uncertainty": {"min_bucket_size": 5},
    }


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Project:
    def make(folder: Path) -> None:
        write_squad(folder / "squad.json")
        save_checkpoint(folder / "checkpoint")
        project = Project(folder)
        project.write_config(chunked_config())
        project.run()

    return Project(once_per_session(tmp_path_factory, "chunked", make))


def of_project(project: Project, path: str) -> Path:
    return project.folder / "results" / "tiny" / path


def test_all_models_are_scored_and_only_chunks_by_spans(made: Project) -> None:
    scores = read_table(of_project(made, f"scores/{PAIR}.parquet"), QUERY_SCORES)
    counts = scores.group_by("model").agg(
        n=pl.len(), spans=pl.col("span-recall@5").count(), read=pl.col("pos_visible").min()
    )
    found = {row["model"]: row for row in counts.iter_rows(named=True)}
    assert set(found) == {"bm25", "pieces", "whole", "reranked", "fused"}
    assert {name: row["spans"] for name, row in found.items() if row["spans"]} == {"pieces": 60}
    assert (found["pieces"]["read"], found["fused"]["read"]) == (1.0, 1.0)
    assert found["whole"]["read"] <= 1.0
    buckets = read_table(of_project(made, f"tables/{PAIR}.buckets.parquet"), BUCKET_SCORES)
    spans = buckets.filter(pl.col("metric") == "span-recall@1000tokens", n_queries=30)
    assert spans["model"].unique().to_list() == ["pieces"]
    assert spans.select("low", "high").null_count().sum_horizontal().item() == 0
    psi = read_table(of_project(made, f"tables/{PAIR}.psi.parquet"), PSI_TABLE)
    assert set(psi.filter(metric="ndcg@10")["model"]) == set(found)
    page = (made.folder / "results" / "report.html").read_text()
    assert "span-recall@1000tokens" in page


def test_the_runs_equal_those_of_psibench_chunks(
    made: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = next(of_project(made, "data").glob("*/"))
    corpus, queries = (pl.read_parquet(data / f"{name}.parquet") for name in ("corpus", "queries"))
    corpus.select("_id", "text").write_ndjson(tmp_path / "corpus.jsonl")
    columns = ("_id", "text", "pos_corpus_id", "pos_char_span", "pos_char_length")
    rows = queries.select(columns).to_dicts()
    (tmp_path / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.chdir(made.folder)
    arguments = ["chunks", tmp_path / "corpus.jsonl", "--queries", tmp_path / "queries.jsonl"]
    arguments += ["--model", "checkpoint", "--max-tokens", "64", "--setting", "tokens,20,5"]
    main([*map(str, arguments), "--out", str(tmp_path / "out")])
    (path,) = (tmp_path / "out" / "runs").glob("*.jsonl")
    alone = pl.read_ndjson(path)
    ranked = read_table(of_project(made, f"runs/pieces/{PAIR}.chunks.parquet"), CHUNK_RUN)
    key = ["query_id", "doc_id", "start", "end", "tokens"]
    both = alone.join(ranked, on=key, suffix="_here")
    assert both.height == ranked.height >= 60 * 50  # the command searches for more tokens
    assert (both["score"] - both["score_here"]).abs().max() < 1e-5
    grid = pl.read_csv(tmp_path / "out" / "grid.csv")
    scores = read_table(of_project(made, f"scores/{PAIR}.parquet"), QUERY_SCORES)
    mine = scores.filter(model="pieces")
    for one, name in (("mean", "span-recall@1000tokens"), ("cut", "span-cut")):
        assert mine[name].mean() == pytest.approx(grid[one].item(), abs=1e-6)
    for name in ("span-recall@5", "span-precision@5", "span-iou@5", "ndcg@10"):
        assert mine[name].mean() == pytest.approx(grid[name].item(), abs=1e-6)


def test_documents_are_folded_once_each(made: Project) -> None:
    run = read_table(of_project(made, f"runs/pieces/{PAIR}.parquet"), RUN)
    ranked = read_table(of_project(made, f"runs/pieces/{PAIR}.chunks.parquet"), CHUNK_RUN)
    best = ranked.group_by("query_id", "doc_id").agg(pl.col("score").max())
    assert run.height == 60 * 30  # every document
    joined = run.join(best, on=["query_id", "doc_id"], suffix="_best")
    assert joined["score"].equals(joined["score_best"], check_names=False)


def test_another_chunk_size_reruns_only_this_model(made: Project, tmp_path: Path) -> None:
    copy = Project(shutil.copytree(made.folder, tmp_path / "project", symlinks=True))
    config = chunked_config()
    config["registry"]["pieces"]["chunks"]["size"] = 24
    copy.write_config(config)
    output = copy.dry_run()
    assert "encodings/pieces/" in output
    assert "encodings/whole/" not in output
    assert "runs/bm25/" not in output
