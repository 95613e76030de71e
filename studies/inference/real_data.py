"""Print rows and verdicts on real questions: ten SQuAD v2 articles and English XQuAD.

    python studies/inference/real_data.py --data DIR [--out studies/inference/results/real_data.md]

DIR holds squad-v2-train-10-articles.json and xquad.en.json (CC BY-SA 4.0, Rajpurkar et al. 2018 and
Artetxe et al. 2020), whose answer spans are the evidence. Runs the workflow in a new folder, with
BM25, all-MiniLM-L6-v2 at 256 and at 128 tokens in float32, and the position-blind control. Writes
the PSI rows over the published buckets with the sentences printed about each model. A few minutes
on one core.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import yaml

from psibench.report.verdict import verdicts
from psibench.tables import read_table
from psibench.tables.schemas import PSI_TABLE

REPOSITORY = Path(__file__).resolve().parents[2]
FILES = {"squad-10-articles": "squad-v2-train-10-articles.json", "xquad-en": "xquad.en.json"}
MODELS = ["bm25", "all-minilm-l6-v2", "minilm-first-128", "minilm-static"]
SCHEME = "squad"
HEADINGS = (
    "model",
    "evidence",
    "mean",
    "PSI",
    "PSI at equal documents",
    "p position",
    "p shape",
    "p trend",
    "p adjusted",
    "p control",
    "given",
    "truncation",
    "flags",
)


def main() -> None:
    """Run the workflow and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument(
        "--out", type=Path, default=REPOSITORY / "studies/inference/results/real_data.md"
    )
    args = parser.parse_args()
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        table = psi_table(args.data.resolve(), Path(folder))
    minutes = (time.perf_counter() - start) / 60
    args.out.write_text("\n".join(page(table, minutes)) + "\n", encoding="utf-8")


def psi_table(data: Path, folder: Path) -> pl.DataFrame:
    """Return the PSI rows over all queries' evidence and the evidence given, published buckets."""
    config = {
        "benchmarks": {
            name: {"recipe": "squad_posq", "source": {"kind": "squad", "paths": [str(data / file)]}}
            for name, file in FILES.items()
        },
        "models": MODELS,
        "encoding": {"dtype": "float32"},
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    target = "results/psi_table.parquet"
    where = ["-s", str(REPOSITORY / "Snakefile"), "--directory", str(folder)]
    options = ["--configfile", str(folder / "config.yaml"), "--cores", "1", "--quiet", "all"]
    subprocess.run([sys.executable, "-m", "snakemake", *where, *options, "--", target], check=True)
    table = read_table(folder / target, PSI_TABLE)
    return table.filter(buckets=SCHEME, domain="all", length_bucket="all")


def page(table: pl.DataFrame, minutes: float) -> Iterator[str]:
    """Yield the lines of the page."""
    yield "# Real questions with their own spans"
    yield ""
    yield f"`python studies/inference/real_data.py --data DIR`, {minutes:.0f} minutes."
    for name in FILES:
        rows = table.filter(benchmark=name)
        first = rows.row(0, named=True)
        yield ""
        yield f"## {name}: {first['n_queries']:,} questions, {first['n_documents']} passages"
        yield ""
        yield f"| {' | '.join(HEADINGS)} |"
        yield "|---" * len(HEADINGS) + "|"
        for row in rows.iter_rows(named=True):
            if row["evidence"] != "whole":
                yield "| " + " | ".join(cells(row)) + " |"
        yield ""
        for one in verdicts(rows.to_dicts()):
            advice = one.advice.replace("\u2068", "").replace("\u2069", "")
            yield f"- **{one.model}**, {one.label}: {advice}"


def cells(row: dict[str, object]) -> list[str]:
    """Return the cells of one row."""

    def shown(name: str) -> str:
        value = row[name]
        return f"{value:.3g}" if isinstance(value, float) else "–"

    def interval(name: str) -> str:
        return f"{shown(name)} [{shown(name + '_low')}, {shown(name + '_high')}]"

    return [
        str(row["model"]),
        str(row["evidence"]),
        shown("mean"),
        interval("psi"),
        interval("psi_same"),
        *map(
            shown, ("p_position", "p_shape", "p_trend", "p_adjusted", "p_control_adjusted", "seen")
        ),
        interval("truncation") if row["truncation"] is not None else "–",
        str(row["flags"]) or "–",
    ]


if __name__ == "__main__":
    main()
