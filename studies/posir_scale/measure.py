"""Measure the evaluation of a release of PosIR's full shape, in its folder.

    python measure.py dag CONFIG        snakemake's dry run: seconds, peak memory, jobs by rule
    python measure.py scores CONFIG MODEL
                                        score and aggregate all pairs of a model: the same

`scores` needs results/ up to the model's runs (`snakemake --until import_run`); it writes to a
temporary folder. Each measurement runs in a separate process.
"""

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
JOB = re.compile(r"^(\w+)\s+(\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class Measured:
    """A finished process: wall-clock and processor seconds, peak MiB, and its output.

    On a shared machine, compare processor seconds.
    """

    seconds: float
    cpu_seconds: float
    peak_mib: float
    output: str


def main() -> None:
    """Run the chosen measurement and print it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["dag", "scores", "worker"])
    parser.add_argument("config", type=Path)
    parser.add_argument("model", nargs="?", help="for scores")
    args = parser.parse_args()
    if args.what == "dag":
        print(dag_text(measure(dry_run(args.config))))
        return
    if args.model is None:
        parser.error("name a model of the config")
    if args.what == "worker":
        score_all(args.config, args.model)
        return
    worker = [sys.executable, __file__, "worker", str(args.config), args.model]
    print(scores_text(measure(worker)))


def dry_run(config: Path) -> list[str]:
    """Return the command of a dry run that prints the table of jobs."""
    own = [str(Path(sys.executable).with_name("snakemake")), "--snakefile"]
    return [
        *own,
        str(REPOSITORY / "Snakefile"),
        *("--configfile", str(config), "--dry-run", "--quiet", "rules", "--cores", "1"),
    ]


def measure(command: Sequence[str]) -> Measured:
    """Run a command in the working directory; its errors end this program."""
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)  # of this one: there is no other child
    cpu = used.ru_utime + used.ru_stime
    return Measured(seconds, cpu, used.ru_maxrss / 1024, done.stdout + done.stderr)


def jobs_by_rule(output: str) -> dict[str, int]:
    """Read the table of jobs that a dry run prints, its total left out."""
    table = output.partition("Job stats:")[2].partition("\n\n")[0]
    return {rule: int(count) for rule, count in JOB.findall(table) if rule != "total"}


def dag_text(measured: Measured) -> str:
    """Say how long the dry run took and how many jobs there are."""
    jobs = jobs_by_rule(measured.output)
    lines = [f"{rule:24}{count:8,}" for rule, count in sorted(jobs.items())]
    lines.append(f"{'jobs':24}{sum(jobs.values()):8,}")
    lines.append(cost_text(measured))
    return "\n".join(lines)


def scores_text(measured: Measured) -> str:
    """Say how long scoring took, pair by pair and in all."""
    rows = [json.loads(line) for line in measured.output.splitlines() if line.startswith("{")]
    lines = [
        f"{row['pair']:20}{row['n_queries']:8,} queries  score {row['score_s']:5.2f} s"
        for row in rows
    ]
    lines.append(f"score: {sum(row['score_s'] for row in rows):.1f} s over {len(rows)} pairs")
    lines.append(f"with imports: {cost_text(measured)}")
    return "\n".join(lines)


def cost_text(measured: Measured) -> str:
    """Return the time and memory of a process as text."""
    return (
        f"{measured.seconds:.1f} s, {measured.cpu_seconds:.1f} s of processor, "
        f"peak {measured.peak_mib:,.0f} MiB"
    )


def score_all(config: Path, model: str) -> None:
    """Score and aggregate every pair of a model; print a JSON line per pair."""
    from psibench.config.files import read_yaml
    from psibench.plan.config import load_config
    from psibench.plan.plan import make_plan

    settings, models = load_config(read_yaml(config))
    plan = make_plan(settings, models)
    runs = [row for row in plan.runs if row["model"] == model]
    with tempfile.TemporaryDirectory() as folder:
        for row in runs:
            print(json.dumps(score_pair(plan, row, Path(folder))), flush=True)


def score_pair(plan, row, folder: Path) -> dict[str, object]:  # type: ignore[no-untyped-def]
    """Score one pair as the workflow's job does; return the seconds it took."""
    import pyarrow.parquet as pq

    from psibench.metrics.scoring import ScoredModel, run_score
    from psibench.tables.job import Job
    from psibench.tables.stage import version_of

    name, asking, searched = row["benchmark"], row["query_lang"], row["corpus_lang"]
    planned, settings = plan.named[name], plan.config
    section, domains = planned.section, planned.domains(asking, searched)

    run = f"results/{name}/runs/{row['model']}/{asking}-{searched}.parquet"
    outputs = {
        kind: str(folder / f"{kind}.parquet")
        for kind in ("scores", "buckets", "psi", "comparisons")
    }
    job = Job(
        "score",
        version_of("score"),
        inputs={
            "asked": planned.tables(asking, "queries", domains=domains),
            "queries": planned.tables(searched, "queries", domains=domains),
            "qrels": planned.tables(searched, "qrels", domains=domains),
        },
        outputs=outputs,
        values={
            **{"benchmark": name, "query_lang": asking, "corpus_lang": searched},
            "models": [ScoredModel(row["model"], plan.models[row["model"]].kind, run)],
            "domains": domains,
            "metrics": settings.metrics,
            "psi_metrics": settings.psi_metrics,
            "schemes": section.buckets,
            "length_buckets": section.length_buckets,
            "uncertainty": settings.uncertainty,
            "control": None,
            "windows": [],
        },
    )
    start = time.perf_counter()
    run_score(job)
    return {
        "pair": f"{asking}-{searched}",
        "n_queries": pq.read_metadata(outputs["scores"]).num_rows,
        "score_s": round(time.perf_counter() - start, 3),
    }


if __name__ == "__main__":
    main()
