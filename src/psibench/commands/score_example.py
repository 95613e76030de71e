"""What `psibench score --example` scores: runs of the embedded default that ship with the package.

``tools/example.py`` makes the files of ``psibench/example`` again.
"""

import argparse
import json
from pathlib import Path

from psibench.errors import InputError
from psibench.tables import read_table
from psibench.tables.schemas import SEEN

FOLDER = Path(__file__).parents[1] / "example"
FACTS = "example.json"
OUT = Path("psibench-example")
PAGE = "report.html"
REPLACED = ("run", "queries", "qrels", "corpus", "max_tokens", "tokenizer", "control")
"""Options that the example has its own values of."""


def with_example(args: argparse.Namespace) -> argparse.Namespace:
    """Return the options of a command that names the example's files.

    Beside the options: `kinds` of the models, those `on_filter_panel` (which chose the queries),
    and how far each run's model read, `ends` (see `score_options.visible_ends`).

    Raises InputError if an option names files of one's own, or says what they are.
    """
    given = [f"--{name.replace('_', '-')}" for name in REPLACED if getattr(args, name) is not None]
    if given:
        raise InputError(f"--example has its own; leave out {', '.join(given)}")
    facts = json.loads((FOLDER / FACTS).read_text(encoding="utf-8"))
    models: dict[str, dict[str, str | bool]] = facts["models"]
    out = args.out or OUT
    seen = (read_table(FOLDER / "runs" / f"{name}.seen.parquet", SEEN) for name in models)
    options = {
        "run": [FOLDER / "runs" / f"{name}.parquet" for name in models],
        "queries": [FOLDER / "queries.parquet"],
        "qrels": [FOLDER / "qrels.parquet"],
        "control": facts["control"],
        "benchmark": facts["benchmark"],
        "language": facts["language"],
        "metrics": args.metrics or ["ndcg@10"],
        "length_buckets": bool(args.length_buckets or args.length_edges),
        "buckets": "thirds" if args.buckets == "all" else args.buckets,
        "out": out,
        "report": args.report or out / PAGE,
        "kinds": {name: model["kind"] for name, model in models.items()},
        "on_filter_panel": {name for name, model in models.items() if model["on_filter_panel"]},
        "ends": [frame.select("query_id", "visible_char_end") for frame in seen],
    }
    return argparse.Namespace(**vars(args) | options)
