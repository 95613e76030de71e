"""`psibench publish`: a model's results as the hub reads them."""

import argparse
from pathlib import Path

from psibench.commands.base import Command
from psibench.errors import InputError
from psibench.publish.results import corpus_rows, eval_results
from psibench.tables import read_provenance, read_table, write_text
from psibench.tables.schemas import PSI_TABLE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the table, the model, and what its dataset is called on the hub."""
    parser.add_argument("table", type=Path, metavar="PSI_TABLE", help="a psi_table.parquet")
    parser.add_argument("model", help="id of the model in the table")
    parser.add_argument("out", type=Path, metavar="OUT", help="folder of the model, or a new one")
    parser.add_argument("--benchmark", required=True, help="id of the benchmark in the table")
    parser.add_argument(
        "--dataset", required=True, metavar="OWNER/NAME", help="the benchmark on the hub"
    )
    parser.add_argument(
        "--pooled",
        action="store_true",
        help="the domains of a language were searched as one corpus, or there is one domain: take "
        "the rows of all domains (else those of each domain)",
    )
    parser.add_argument("--revision", metavar="COMMIT", help="of the dataset")
    parser.add_argument(
        "--source", required=True, metavar="URL", help="where the evaluation is to be read"
    )


def run_publish(args: argparse.Namespace) -> None:
    """Write `.eval_results/BENCHMARK.yaml`."""
    rows = corpus_rows(
        read_table(args.table, PSI_TABLE),
        benchmark=args.benchmark,
        model=args.model,
        pooled=args.pooled,
    )
    day = str((read_provenance(args.table) or {}).get("created", ""))[:10]
    results = eval_results(
        rows, dataset=args.dataset, source_url=args.source, date=day, revision=args.revision
    )
    path = args.out / ".eval_results" / f"{args.benchmark}.yaml"
    if path.exists():
        raise InputError(f"{path} is there; remove it, or name another folder")
    write_text(results, path)
    print(path)


COMMAND = Command(
    description="Write a model's results for its repository on the hub: OUT/.eval_results/"
    "BENCHMARK.yaml, nDCG@10 of each corpus in percent with the PSI in the notes.",
    add_arguments=add_arguments,
    run=run_publish,
)
