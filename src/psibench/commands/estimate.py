"""`psibench estimate`: what the language models of a config will be asked, use and cost."""

import argparse
import json
from pathlib import Path

from psibench.commands.base import Command
from psibench.config.load import load_config, read_yaml
from psibench.config.paths import DEFAULT_CONFIG, REGISTRY
from psibench.errors import InputError

DOCUMENTS = 200
RESULTS = Path("results")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add config, size of the sample, choice of a benchmark, and form of the output."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="your config; else the default")
    parser.add_argument(
        "--documents",
        type=int,
        default=DOCUMENTS,
        metavar="N",
        help="documents of each benchmark that go through the tasks, shared out among its domains, "
        f"a few each at least; 0 for all (default {DOCUMENTS})",
    )
    parser.add_argument("--benchmark", metavar="ID", help="this benchmark of the config alone")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run_estimate(args: argparse.Namespace) -> None:
    """Estimate every benchmark that asks a language model, and print it."""
    from psibench.commands.estimate_output import estimate_text, plain_estimate
    from psibench.stages.llm_estimate_config import estimate_config

    if args.documents < 0:
        raise InputError(f"--documents {args.documents}; give a number from 1 up, or 0 for all")
    given = read_yaml(args.config) if args.config is not None else {}
    config, _ = load_config(DEFAULT_CONFIG, given, registry=REGISTRY)
    found = estimate_config(config, most=args.documents, results=RESULTS, only=args.benchmark)
    if args.json:
        print(json.dumps(plain_estimate(found), indent=2, ensure_ascii=False))
    else:
        print(estimate_text(found))


ESTIMATE = Command(
    help="say what the language models of a config will be asked, and what it will cost",
    description="Send a sample of the documents through the tasks without asking anyone, and "
    "print requests, those already answered, tokens and money per task, benchmark and language "
    "model, of translations per language. Of tasks that judge candidates or translate them it "
    "gives bounds or, after a first run, counts what there is. Run it where you run the workflow: "
    "it uses the tables and answers made so far.",
    add_arguments=add_arguments,
    run=run_estimate,
)
