"""The files of `psibench score --example`: runs of the embedded default that ship with psibench.

``tools/example.py`` rebuilds the files of ``psibench/example``.
"""

import argparse
import json
from pathlib import Path

from psibench.errors import InputError
from psibench.tables import read_table
from psibench.tables.schemas import SEEN

EXAMPLE_FOLDER = Path(__file__).parents[1] / "example"
FACTS = "example.json"
OUT = Path("psibench-example")
PAGE_NAME = "report.html"
REPLACED = ("run", "queries", "qrels", "corpus", "max_tokens", "tokenizer", "control")
"""Options that the example sets."""


def with_example(args: argparse.Namespace) -> argparse.Namespace:
    """Return the options of `psibench score` for the example's files.

    Also sets ``kinds`` of the models, the models ``on_filter_panel`` (which chose the queries), and
    ``ends``, the visible end of each run's positives (see `score_options.ends_from_limits`).

    Raises InputError if an option that the example sets is given.
    """
    given = [f"--{name.replace('_', '-')}" for name in REPLACED if getattr(args, name) is not None]
    if given:
        raise InputError(f"--example sets {', '.join(given)}; leave out these options")
    facts = json.loads((EXAMPLE_FOLDER / FACTS).read_text(encoding="utf-8"))
    models: dict[str, dict[str, str | bool]] = facts["models"]
    out = args.out or OUT
    seen = (read_table(EXAMPLE_FOLDER / "runs" / f"{name}.seen.parquet", SEEN) for name in models)
    options = {
        "run": [EXAMPLE_FOLDER / "runs" / f"{name}.parquet" for name in models],
        "queries": [EXAMPLE_FOLDER / "queries.parquet"],
        "qrels": [EXAMPLE_FOLDER / "qrels.parquet"],
        "control": facts["control"],
        "benchmark": facts["benchmark"],
        "language": facts["language"],
        "metrics": args.metrics or ["ndcg@10"],
        "length_buckets": bool(args.length_buckets or args.length_edges),
        "buckets": "thirds" if args.buckets == "all" else args.buckets,
        "out": out,
        "report": args.report or out / PAGE_NAME,
        "kinds": {name: model["kind"] for name, model in models.items()},
        "on_filter_panel": {name for name, model in models.items() if model["on_filter_panel"]},
        "ends": [frame.select("query_id", "visible_char_end") for frame in seen],
    }
    return argparse.Namespace(**vars(args) | options)
