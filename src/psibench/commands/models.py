"""`psibench models`: what is in the model registry, as a table of lines or as whole entries."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from psibench.commands.base import config_file
from psibench.commands.text_table import UNDEFINED, aligned
from psibench.config.embedding_apis import EmbeddingApiModel
from psibench.config.files import composed, read_yaml
from psibench.config.models import FusionModel, Model, RerankModel, RunFilesModel
from psibench.config.registry import load_registry
from psibench.config.rerankers import RerankerModel, load_rerankers
from psibench.config.secrets import refuse_secrets
from psibench.errors import InputError

if TYPE_CHECKING:
    from psibench.models.declared import Compared


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add a config whose `registry:` is listed too, what to list, and how."""
    parser.add_argument(
        "ids",
        nargs="*",
        metavar="ID",
        help="show these entries whole, defaults included, as YAML; of a folder with a checkpoint, "
        "the entry that its files give",
    )
    parser.add_argument("--config", type=config_file, help="also list the entries of this config")
    parser.add_argument(
        "--check",
        action="store_true",
        help="compare these entries with what their checkpoints' own files declare (prompts, "
        "pooling, end token, longest input, dimensions, similarity); exit code 1 where one differs",
    )


def run(args: argparse.Namespace) -> None:
    """Print a line per model, or whole entries, or checks.

    Raises
    ------
    InputError
        On an id that is not in the registry.
    SystemExit
        With code 1, if an entry that is checked departs from its checkpoint.
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
        rows = [_row(name, entry, rerankers) for name, entry in named.items()]
        print("\n".join(aligned([HEADER, *rows], numbers=NUMBERS)))


def _check(entries: Mapping[str, Model]) -> None:
    """Print where each entry differs from its checkpoint's files."""
    from psibench.models.checkpoints import resolve_checkpoint
    from psibench.models.declared import Compared, compare_with_checkpoint
    from psibench.models.downloads import download_settings

    if not entries:
        raise InputError("--check needs the ids of models: psibench models --check ID")
    n_departing = 0
    for name, entry in entries.items():
        if not isinstance(entry, Compared):
            print(f"{name}: nothing to compare with, of the backend {entry.backend}")
            continue
        folder = Path(resolve_checkpoint(entry.checkpoint, entry.revision))
        if not folder.is_dir():
            folder = download_settings(entry.checkpoint, entry.revision)
        elif not any((folder / file).is_file() for file in ("config.json", "modules.json")):
            raise InputError(f"{folder}: no config.json and no modules.json; expected a checkpoint")
        found = compare_with_checkpoint(entry, folder)
        compared = dict.fromkeys(one.key for one in found)  # a key may be declared in two files
        keys, size = ", ".join(compared), _dimensions(entry, folder)
        if differing := [one for one in found if not one.agrees]:
            n_keys = len({one.key for one in differing})
            print(f"{name}: differs in {n_keys} of {len(compared)} compared ({keys}){size}:")
            print("\n".join(f"  {one}" for one in differing))
            n_departing += 1
        else:
            keys = keys or "nothing that can be compared"
            print(f"{name}: as its checkpoint declares: {keys}{size}")
    if n_departing:
        raise SystemExit(1)


def _dimensions(entry: "Compared", folder: Path) -> str:
    """Say how many dimensions the vectors of texts have; nothing where each token has one."""
    from psibench.models.declared import kept_dimensions, network_dimensions

    if entry.scores_by != "cosine" or (found := network_dimensions(folder)) is None:
        return ""
    kept = kept_dimensions(entry, folder) or found
    return f"; {kept} of {found} dimensions" if kept < found else f"; {found} dimensions"


def _entry(name: str, entries: Mapping[str, Model]) -> Model:
    """Return the entry of an id, or of a folder with a checkpoint."""
    from psibench.commands.probe import find_model

    return find_model(name, known=entries)


# --- the registry as a table of lines

HEADER = ("id", "kind", "backend", "params", "tokens", "licence", "checkpoint", "description")
NUMBERS = (HEADER.index("params"), HEADER.index("tokens"))
"""Columns set flush right."""


def _row(name: str, entry: Model, rerankers: Mapping[str, RerankerModel]) -> tuple[str, ...]:
    """Return the cells of a model; what a second stage reads is said in the reranker registry."""
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


def _size(parameters_m: float | None) -> str:
    """Write a number of parameters, given in millions: 23M, 7.6B."""
    if parameters_m is None:
        return UNDEFINED
    return f"{parameters_m / 1000:.1f}B" if parameters_m >= 999.5 else f"{parameters_m:.0f}M"


DESCRIPTION = "List the models a config can name. docs/models.md says how to add one."
