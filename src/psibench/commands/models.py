"""`psibench models`: the model registry as a table, or single entries in full."""

import argparse
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from psibench.commands.base import config_file
from psibench.config.embedding_apis import EmbeddingApiModel
from psibench.config.files import composed, read_yaml
from psibench.config.models import FusionModel, Model, RerankModel, RunFilesModel
from psibench.config.registry import load_registry
from psibench.config.rerankers import RerankerModel, load_rerankers
from psibench.config.secrets import refuse_secrets
from psibench.errors import InputError
from psibench.report.text_table import UNDEFINED, aligned

if TYPE_CHECKING:
    from psibench.models.declared import Compared


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `psibench models`."""
    parser.add_argument(
        "ids",
        nargs="*",
        metavar="ID",
        help="print these entries in full as YAML, with defaults; ID may be a folder with a "
        "checkpoint",
    )
    parser.add_argument("--config", type=config_file, help="also list the entries of this config")
    parser.add_argument(
        "--check",
        action="store_true",
        help="compare these entries with the files of their checkpoints (prompts, pooling, end "
        "token, input length, dimensions, similarity); exit code 1 on a difference",
    )


def run(args: argparse.Namespace) -> None:
    """Print a line per model, or full entries, or checks of entries.

    Raises
    ------
    InputError
        If an id is not in the registry.
    SystemExit
        With code 1, if --check finds a difference between an entry and its checkpoint.
    """
    section = composed(read_yaml(args.config)).get("registry") if args.config is not None else {}
    refuse_secrets(section, key="registry")
    entries = load_registry(section, f"{args.config}: registry")
    named = {name: _entry(name, entries) for name in args.ids} if args.ids else entries
    if args.check:
        _check(named if args.ids else {})
    elif args.ids:
        whole = {name: entry.model_dump(mode="json") for name, entry in named.items()}
        print(yaml.safe_dump(whole, sort_keys=False, allow_unicode=True), end="")
    else:
        rerankers = load_rerankers()
        rows = [HEADER, *(_row(name, entry, rerankers) for name, entry in named.items())]
        print_table(rows, shutil.get_terminal_size().columns if sys.stdout.isatty() else None)


def _check(entries: Mapping[str, Model]) -> None:
    from psibench.models.checkpoints import resolve_checkpoint
    from psibench.models.declared import Compared, compare_with_checkpoint
    from psibench.models.downloads import download_settings

    if not entries:
        raise InputError("--check needs the ids of models: psibench models --check ID")
    n_different = 0
    for name, entry in entries.items():
        if not isinstance(entry, Compared):
            print(f"{name}: the backend {entry.backend} has no checkpoint to compare with")
            continue
        folder = Path(resolve_checkpoint(entry.checkpoint, entry.revision))
        if not folder.is_dir():
            folder = download_settings(entry.checkpoint, entry.revision)
        elif not any((folder / file).is_file() for file in ("config.json", "modules.json")):
            raise InputError(
                f"{folder}: expected a checkpoint with a config.json or a modules.json"
            )
        found = compare_with_checkpoint(entry, folder)
        compared = dict.fromkeys(one.key for one in found)  # a key may be declared in two files
        keys, size = ", ".join(compared), _dimensions(entry, folder)
        if differing := [one for one in found if not one.agrees]:
            n_keys = len({one.key for one in differing})
            print(f"{name}: differs in {n_keys} of {len(compared)} compared values ({keys}){size}:")
            print("\n".join(f"  {one}" for one in differing))
            n_different += 1
        else:
            keys = keys or "no values to compare"
            print(f"{name}: agrees with its checkpoint: {keys}{size}")
    if n_different:
        raise SystemExit(1)


def _dimensions(entry: "Compared", folder: Path) -> str:
    from psibench.models.checkpoints import is_static
    from psibench.models.declared import kept_dimensions, network_dimensions

    is_network = entry.is_network or is_static(folder)
    if not is_network or entry.scores_by != "cosine":
        return ""
    if (found := network_dimensions(folder)) is None:
        return ""
    kept = kept_dimensions(entry, folder) or found
    return f"; {kept} of {found} dimensions" if kept < found else f"; {found} dimensions"


def _entry(name: str, entries: Mapping[str, Model]) -> Model:
    from psibench.commands.probe import find_model

    return find_model(name, known=entries)


# --- The registry as a table

HEADER = ("id", "kind", "backend", "params", "tokens", "licence", "checkpoint", "description")
NUMBERS = (HEADER.index("params"), HEADER.index("tokens"))
"""Columns aligned to the right."""
DISPENSABLE = ("checkpoint", "backend", "licence", "kind")
"""Columns that a narrow terminal does not show, the first ones first."""
LEAST_DESCRIPTION = 20
"""Fewest characters of a description for which other columns are left out."""


def _row(name: str, entry: Model, rerankers: Mapping[str, RerankerModel]) -> tuple[str, ...]:
    """Return the cells of a model; the input length of a second stage is in its reranker."""
    read: object = rerankers.get(entry.reranker) if isinstance(entry, RerankModel) else entry
    tokens = getattr(read, "max_tokens", None)
    made_of = getattr(read, "checkpoint", UNDEFINED)
    if isinstance(entry, FusionModel):
        made_of = " + ".join(entry.of)
    if isinstance(entry, EmbeddingApiModel | RunFilesModel):
        made_of = entry.model if isinstance(entry, EmbeddingApiModel) else entry.path
    return (
        name,
        entry.kind,
        entry.backend,
        _size(getattr(entry, "parameters_m", None)),
        str(tokens or UNDEFINED),
        entry.licence or UNDEFINED,
        made_of,
        entry.description,
    )


def print_table(rows: Sequence[tuple[str, ...]], width: int | None) -> None:
    """Print the rows; in a terminal of ``width`` columns without the columns that do not fit.

    Leaves out `DISPENSABLE` columns, and cuts descriptions.
    """
    columns, last = list(range(len(HEADER))), HEADER.index("description")
    widths = [max(len(row[column]) for row in rows) for column in columns]

    def room() -> int:
        return (width or 0) - sum(widths[column] + 2 for column in columns if column != last)

    if width is not None:
        for name in DISPENSABLE:
            if room() < min(LEAST_DESCRIPTION, widths[last]):
                columns.remove(HEADER.index(name))
        most = room()
        if most < len(HEADER[last]):
            columns.remove(last)
        rows = [
            (*row[:-1], row[-1] if len(row[-1]) <= most else f"{row[-1][: most - 1]}…")
            for row in rows
        ]
    numbers = [number for number, column in enumerate(columns) if column in NUMBERS]
    shown = [[row[column] for column in columns] for row in rows]
    print("\n".join(aligned(shown, numbers=numbers)))
    if width is not None:
        print("In full: `psibench models ID`; all columns: `psibench models | cat`.")


def _size(parameters_m: float | None) -> str:
    """Return a number of parameters as text, e.g. 23M or 7.6B."""
    if parameters_m is None:
        return UNDEFINED
    return f"{parameters_m / 1000:.1f}B" if parameters_m >= 999.5 else f"{parameters_m:.0f}M"


DESCRIPTION = "List the models that a config can name. docs/models.md shows how to add one."
