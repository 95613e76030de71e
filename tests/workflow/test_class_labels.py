"""A benchmark whose evidence is labelled by class, from its release to the report."""

import json

import polars as pl
from workflow_project import WORDS, Project, save_checkpoint, tiny_config

from psibench.tables import read_table
from psibench.tables.schemas import POSITION_HISTOGRAM, PSI_TABLE, QUERIES, QUERY_SCORES


def write_release(path, *, n_passages: int = 40, n_words: int = 60) -> None:
    """Write records of question, content and span_class; some with evidence in two thirds."""
    records = []
    for number in range(n_passages):
        body = " ".join(WORDS[(number * 7 + k) % len(WORDS)] for k in range(n_words))
        content = f"name{number} {body} tail{number}"
        asked = {f"name{number}": ["beginning"], f"tail{number}": ["end"]}
        if number % 4 == 0:
            asked[f"name{number} tail{number}"] = ["beginning", "end"]
        for word, classes in asked.items():
            question = f"what is {word}"
            records.append({"question": question, "content": content, "span_class": classes})
    records.append({"question": None, "content": "nobody asks about this", "span_class": None})
    path.write_text("\n".join(map(json.dumps, records)))


def test_a_release_of_classes_is_evaluated_end_to_end(tmp_path):
    write_release(tmp_path / "release.jsonl")
    save_checkpoint(tmp_path / "checkpoint")
    config = tiny_config()
    config["benchmarks"] = {
        "labelled": {
            "recipe": "fineweb_posq_release",
            "source": {"kind": "files", "paths": ["release.jsonl"]},
            "buckets": ["thirds", "thirds-every-tag"],
        }
    }
    config["models"].append("reranked")
    config["registry"]["reranked"] = {"backend": "rerank", "reranker": "embedded-bm25"}
    config["search"] = {"first_stage": "bm25"}
    project = Project(tmp_path)
    project.write_config(config)
    project.run()
    results = tmp_path / "results"
    queries = read_table(results / "labelled/data/eng-Latn/general/queries.parquet", QUERIES)
    assert queries["target_position"].value_counts(sort=True).rows() == [
        ("beginning", 40),
        ("end", 40),
        ("mixed", 10),
    ]
    psi = read_table(results / "psi_table.parquet", PSI_TABLE).filter(metric="ndcg@10")
    once = psi.filter(buckets="thirds", evidence="all")
    assert set(once["model"]) == {"bm25", "one", "two", "reranked"}
    assert once.select("n_queries", "n_buckets").unique().rows() == [(90, 2)]
    assert once.filter(model="bm25").item(0, "mean") > 0.9
    # Texts of 62 words: `one` reads them whole (64 tokens), `two` the first 14 words.
    assert dict(once.select("model", "seen").iter_rows()) == {
        **dict.fromkeys(("bm25", "one", "reranked"), 1.0),
        "two": None,
    }
    cut = psi.filter(model="two", buckets="thirds")
    assert cut["evidence"].to_list() == ["all", "whole", "mixed"]
    assert cut["n_queries"].to_list() == [90, 0, 10]
    assert cut["truncation"].null_count() == 3
    every = pl.read_csv(results / "bucket_scores.csv").filter(
        model="bm25", metric="ndcg@10", evidence="all", buckets="thirds-every-tag"
    )
    assert every["n_queries"].to_list() == [50, 0, 50]
    scores = read_table(results / "labelled/scores/eng-Latn-eng-Latn.parquet", QUERY_SCORES)
    assert scores["span_mid_char"].null_count() == scores.height == 4 * 90
    histogram = results / "labelled/position_histogram.parquet"
    assert read_table(histogram, POSITION_HISTOGRAM).is_empty()
    page = (results / "report.html").read_text()
    assert "evidence is labelled by class: what of it the model was given is not known" in page
    assert "evidence: known by class" in page
