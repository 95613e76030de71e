"""`psibench models`: what is in the model registry."""

import argparse
from pathlib import Path

from psibench.commands.base import Command
from psibench.config.load import load_registry, read_yaml, validate_registry
from psibench.config.paths import REGISTRY
from psibench.config.secrets import refuse_secrets


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add a config whose `registry:` is listed too."""
    parser.add_argument("--config", type=Path, help="also list the entries of this config")


def run_models(args: argparse.Namespace) -> None:
    """Print a line per model: id, kind, backend, checkpoint, description."""
    entries = load_registry(REGISTRY)
    if args.config is not None:
        raw = read_yaml(args.config).get("registry") or {}
        refuse_secrets(raw, key="registry")
        entries |= validate_registry(raw, f"{args.config}: registry")
    rows = [("id", "kind", "backend", "checkpoint", "description")]
    rows += [
        (name, entry.kind, entry.backend, getattr(entry, "checkpoint", "-"), entry.description)
        for name, entry in entries.items()
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())


MODELS = Command(
    help="list the model registry",
    description="List the models a config can name. docs/config.md says how to add one.",
    add_arguments=add_arguments,
    run=run_models,
)
