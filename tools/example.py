"""Write the files of `psibench score --example` from the results of the embedded default.

    make psi
    PYTHONPATH=src .venv/bin/python tools/example.py results

The files have the English queries of all domains, their qrels, and for some models the first ten
documents of each query and the length of the positive that the model read.
"""

import json
import sys
from pathlib import Path

import polars as pl

from psibench.commands.score_example import EXAMPLE_FOLDER, FACTS
from psibench.tables import Provenance, content_hash, read_table, write_table
from psibench.tables.derived import queries_by
from psibench.tables.schemas import PSI_TABLE, QRELS, QUERIES, QUERY_SCORES, RUN, SEEN

BENCHMARK, LANGUAGE = "python-docs", "eng-Latn"
MODELS = ("bm25", "all-minilm-l6-v2", "minilm-maxp", "minilm-static")
DEPTH = 10
FIELDS = (
    *("_id", "text", "pos_corpus_id", "pos_char_span", "pos_char_length", "pos_token_length"),
    *("target_position", "cluster"),
)


def write_example(results: Path, folder: Path = EXAMPLE_FOLDER) -> None:
    """Write the folder's files."""

    def made_of(paths: list[Path]) -> Provenance:
        return Provenance(
            stage="example",
            stage_version=1,
            params={"benchmark": BENCHMARK, "depth": DEPTH},
            inputs={path.relative_to(results).as_posix(): content_hash(path) for path in paths},
            queries_by=queries_by(data / "queries.parquet"),
        )

    data = results / BENCHMARK / "data" / LANGUAGE
    for spec, fields in ((QUERIES, FIELDS), (QRELS, QRELS.column_names)):
        path = data / f"{spec.name}.parquet"
        frame = read_table(path, spec).sort("domain", maintain_order=True).select(fields)
        write_table(frame, folder / path.name, spec, provenance=made_of([path]))
    rows = {
        row["model"]: row
        for row in read_table(results / "psi_table.parquet", PSI_TABLE)
        .filter(benchmark=BENCHMARK, query_lang=LANGUAGE, corpus_lang=LANGUAGE, evidence="all")
        .iter_rows(named=True)
    }
    scores = results / BENCHMARK / "scores" / f"{LANGUAGE}-{LANGUAGE}.parquet"
    scored, read = (
        read_table(scores, QUERY_SCORES),
        pl.col("pos_visible") * pl.col("pos_char_length"),
    )
    facts = {}
    for model in MODELS:
        path = results / BENCHMARK / "runs" / model / f"{LANGUAGE}-{LANGUAGE}.parquet"
        run = read_table(path, RUN).filter(pl.col("rank") <= DEPTH)
        write_table(run, folder / "runs" / f"{model}.parquet", RUN, provenance=made_of([path]))
        seen = scored.filter(model=model).select(
            "query_id", doc_id="document_id", visible_char_end=read.round().cast(pl.Int32)
        )
        path = folder / "runs" / f"{model}.seen.parquet"
        write_table(seen, path, SEEN, provenance=made_of([scores]))
        row = rows[model]
        facts[model] = {"kind": row["kind"], "on_filter_panel": "filter_panel" in row["flags"]}
    about = {
        "benchmark": BENCHMARK,
        "language": LANGUAGE,
        "control": rows[MODELS[0]]["control"],
        "models": facts,
    }
    (folder / FACTS).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_example(Path(sys.argv[1]))
