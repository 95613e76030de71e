"""Memory, time and exactness of a sample drawn from a source of some gigabytes."""

import argparse
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from generated_source import Generated, generate

from psibench.config.sources import FilesSource
from psibench.generate.sample import run_sample
from psibench.generate.sampling import Sample, sample_params
from psibench.tables import read_provenance, read_table
from psibench.tables.build_schemas import SAMPLING
from psibench.tables.job import Job
from psibench.tables.schemas import ATTRITION, DOCUMENTS
from psibench.tables.stage import version_of
from psibench.text.near_duplicates import NEAR_JACCARD, jaccard_of, normalise, shingle_hashes

POSIR_EDGES = [0, 256, 512, 768, 1024, 1280, 1536, 1792, 2048]
POSIR_SHARES = [3, 3, 3, 3, 2, 2, 2, 2]
TOKENIZER = "embedded:all-MiniLM-L6-v2"
TABLES = ("documents", "sampling", "dropped")


@dataclass(frozen=True)
class Run:
    """One run of the stage, in a separate process.

    Attributes
    ----------
    folder
        Holds the stage's tables.
    wall_s, cpu_s
        Seconds, from start to end of the process and of its processor time.
    peak_mb
        Most resident memory it had, as the kernel counts (``ru_maxrss``), 10^6 bytes.
    """

    folder: Path
    wall_s: float
    cpu_s: float
    peak_mb: float

    def hashes(self) -> tuple[str, ...]:
        """Return the row hashes of the three tables."""
        records = [read_provenance(self.folder / f"{name}.parquet") or {} for name in TABLES]
        return tuple(str(record["rows_hash"]) for record in records)


def draw(source: Path, folder: Path, *, unit: str, n_documents: int) -> None:
    """Run the stage ``sample`` in this process."""
    sample = Sample.model_validate(
        {
            "unit": unit,
            "edges": POSIR_EDGES,
            "shares": POSIR_SHARES,
            "n_documents": n_documents,
        }
    )
    files = FilesSource(kind="files", paths=[str(source)])
    own = sample_params(files, None, sample, length_tokenizer=TOKENIZER)
    job = Job(
        "sample",
        version_of("sample"),
        outputs={name: str(folder / f"{name}.parquet") for name in TABLES},
        values={
            "lang": "eng-Latn",
            "domains": {"generated": own},
            "store": str(
                folder / "store"
            ),  # a separate one: a second run would find the first run's
        },
    )
    run_sample(job)


def run_apart(source: Path, folder: Path, *, unit: str, n_documents: int) -> Run:
    """Run `draw` in a separate process and measure it."""
    folder.mkdir(parents=True)
    started = time.perf_counter()
    how = ["--unit", unit, "--documents", str(n_documents)]
    child = subprocess.Popen(
        [sys.executable, __file__, "--draw", str(source), "--work", str(folder), *how]
    )
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"the run ended with status {child.returncode}")
    return Run(
        folder,
        time.perf_counter() - started,
        usage.ru_utime + usage.ru_stime,
        usage.ru_maxrss * 1024 / 1e6,
    )


def repeats_left(planted: pl.DataFrame, folder: Path) -> tuple[int, int, int]:
    """Look for the planted duplicates in a sample.

    Returns three numbers: planted duplicates in the sample with the document that they repeat, at
    the sample's threshold or nearer (must be 0); the same below the threshold; and the documents
    that the stage dropped because of planted duplicates.
    """
    drawn = read_table(folder / "documents.parquet", DOCUMENTS).select("_id", "text")
    texts = dict(drawn.iter_rows())
    both = planted.filter(pl.col("_id").is_in(texts.keys()) & pl.col("of").is_in(texts.keys()))
    alike = [
        jaccard_of(*(shingle_hashes(normalise(texts[key])) for key in pair))
        for pair in both.select("_id", "of").iter_rows()
    ]
    n_near = sum(share >= NEAR_JACCARD for share in alike)
    return n_near, len(alike) - n_near, _n_dropped(planted, folder)


def _n_dropped(planted: pl.DataFrame, folder: Path) -> int:
    """Count the dropped documents that share their original with the one they repeat."""
    group = dict(planted.select("_id", "of").iter_rows())
    dropped = read_table(folder / "dropped.parquet", ATTRITION).select("item_id", "detail")
    return sum(group.get(a, a) == group.get(b, b) for a, b in dropped.iter_rows())


def report(options: argparse.Namespace, made: Generated, runs: list[Run]) -> str:
    """Return the measurements as Markdown."""
    sampling = read_table(runs[0].folder / "sampling.parquet", SAMPLING)
    dropped = read_table(runs[0].folder / "dropped.parquet", ATTRITION)
    reasons = dropped.group_by("reason").len().sort("reason").iter_rows()
    near, far, from_planted = repeats_left(made.planted, runs[0].folder)
    counts = f"{dropped.height} ({', '.join(f'{reason} {n}' for reason, n in reasons)})"
    head = [
        ("source", f"{made.n_bytes / 1e9:.2f} GB {options.format}, {made.n_documents:,} documents"),
        ("duplicates planted in it", f"{made.planted.height:,}"),
        ("sample", f"{options.documents:,} documents, by {options.unit}, 3:3:3:3:2:2:2:2"),
        *(
            (f"run {i}", f"{r.wall_s:.0f} s ({r.cpu_s:.0f} s CPU), peak {r.peak_mb:.0f} MB")
            for i, r in enumerate(runs, start=1)
        ),
        ("rows of the runs' three tables", "the same" if _same(runs) else "DIFFERENT"),
        ("dropped as duplicates", counts),
        ("planted among the dropped", f"{from_planted}"),
        (
            "planted ones left with the document that they repeat",
            f"{near} at the threshold, {far} below it",
        ),
    ]
    lines = ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in head), ""]
    lines += ["| bin | in the source | wanted | drawn | duplicates |", "|---|--:|--:|--:|--:|"]
    columns = ("bin", "n_seen", "n_wanted", "n_sampled", "n_duplicates")
    for row in sampling.select(columns).iter_rows():
        lines.append(f"| {' | '.join(str(value) for value in row)} |")
    return "\n".join(lines) + "\n"


def _same(runs: list[Run]) -> bool:
    return len({run.hashes() for run in runs}) == 1


def main() -> None:
    """Generate a source, sample it twice in processes of their own, print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--gigabytes", type=float, default=5.0, help="text in the source, 10^9 bytes"
    )
    parser.add_argument("--format", choices=("jsonl", "parquet"), default="jsonl")
    parser.add_argument("--unit", choices=("chars", "words", "tokens"), default="words")
    parser.add_argument("--documents", type=int, default=70_000, help="documents to draw")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--work", type=Path, required=True, help="empty folder with room for it")
    parser.add_argument("--out", type=Path, help="file for the tables (Markdown)")
    parser.add_argument("--draw", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    how = {"unit": options.unit, "n_documents": options.documents}
    if options.draw is not None:
        draw(options.draw, options.work, **how)
        return
    options.work.mkdir(parents=True, exist_ok=True)
    source = options.work / f"source.{options.format}"
    try:
        made = generate(source, n_bytes=int(options.gigabytes * 1e9), seed=options.seed)
        folders = [options.work / f"run{i}" for i in range(1, options.runs + 1)]
        runs = [run_apart(source, folder, **how) for folder in folders]
    finally:
        source.unlink(missing_ok=True)
    text = report(options, made, runs)
    print(text, end="")
    if options.out is not None:
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
