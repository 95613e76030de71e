"""`psibench models`: what is in the model registry, as a table of lines or as whole entries."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import yaml

from psibench.commands.base import Command, config_file
from psibench.commands.text_table import UNDEFINED, aligned
from psibench.config.embedding_apis import EmbeddingApiModel
from psibench.config.files import composed, read_yaml
from psibench.config.model_base import ModelBase
from psibench.config.models import FusionModel, Model, RerankModel, RunFilesModel
from psibench.config.registry import load_registry, validate_registry
from psibench.config.rerankers import RerankerModel, load_rerankers
from psibench.config.secrets import refuse_secrets
from psibench.errors import InputError, nearest

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
    parser.add_argument("--kind", choices=_choices("kind"), help="list models of this kind only")
    parser.add_argument(
        "--check",
        action="store_true",
        help="compare these entries with what their checkpoints' own files declare (prompts, "
        "pooling, end token, longest input); exit code 1 where one differs",
    )


def run_models(args: argparse.Namespace) -> None:
    """Print a line per model, or whole entries, or checks.

    Raises
    ------
    InputError
        On an id that is not in the registry.
    SystemExit
        With code 1, if an entry that is checked departs from its checkpoint.
    """
    entries = load_registry()
    if args.config is not None:
        raw = composed(read_yaml(args.config)).get("registry") or {}
        refuse_secrets(raw, key="registry")
        entries |= validate_registry(raw, f"{args.config}: registry")
    shown = {
        name: entry
        for name, entry in _named(entries, args.ids).items()
        if args.kind in (None, entry.kind)
    }
    if args.check:
        _check(shown if args.ids else {})
        return
    if args.ids:
        whole = {name: entry.model_dump(mode="json") for name, entry in shown.items()}
        print(yaml.safe_dump(whole, sort_keys=False, allow_unicode=True), end="")
        return
    rerankers = load_rerankers()
    rows = [model_row(name, entry, rerankers) for name, entry in shown.items()]
    print("\n".join(aligned([HEADER, *rows], numbers=NUMBERS)))


def _check(entries: Mapping[str, Model]) -> None:
    """Print for each entry what of it its checkpoint's files say otherwise."""
    from psibench.models.declared import Compared

    if not entries:
        raise InputError("--check needs the ids of models: psibench models --check ID")
    n_departing = 0
    for name, entry in entries.items():
        if not isinstance(entry, Compared):
            print(f"{name}: nothing to compare with, of the backend {entry.backend}")
            continue
        keys, differing = _departures(entry)
        if differing:
            print(f"{name}: differs in {len(differing)} of {len(keys)}: {', '.join(keys)}")
            print("\n".join(f"  {line}" for line in differing))
            n_departing += 1
        else:
            agreed = ", ".join(keys) or "nothing that can be compared"
            print(f"{name}: as its checkpoint declares: {agreed}")
    if n_departing:
        raise SystemExit(1)


def _departures(entry: "Compared") -> tuple[list[str], list[str]]:
    """Return what was compared, and what of it differs."""
    from psibench.models.checkpoints import resolve_checkpoint
    from psibench.models.declared import compare_with_checkpoint
    from psibench.models.downloads import download_settings

    folder = Path(resolve_checkpoint(entry.checkpoint, entry.revision))
    if not folder.is_dir():
        folder = download_settings(entry.checkpoint, entry.revision)
    elif not any((folder / name).is_file() for name in ("config.json", "modules.json")):
        raise InputError(f"{folder}: no config.json and no modules.json; expected a checkpoint")
    found = compare_with_checkpoint(entry, folder)
    keys = [comparison.key for comparison in found]
    differing = [str(comparison) for comparison in found if not comparison.agrees]
    return keys, differing


def _named(entries: dict[str, Model], ids: Sequence[str]) -> dict[str, Model]:
    """Return the entries of these ids or folders with a checkpoint, all without any."""
    found = {}
    for name in ids:
        if name in entries:
            found[name] = entries[name]
        elif Path(name).is_dir():
            from psibench.commands.probe import find_model

            found[name] = find_model(name, as_declared=True)
        else:
            near = nearest(name, entries)
            meant = f"; did you mean {' or '.join(near)}?" if near else "."
            raise InputError(
                f"unknown model {name!r}{meant} `psibench models` lists all, with --config FILE "
                "also those of a config; of a checkpoint of yours give its folder"
            )
    return found if ids else entries


def _choices(field: str) -> list[str]:
    """List what a field of the registry's entries may be, as their config classes say."""
    classes = get_args(get_args(Model)[0])
    return sorted(
        {value for cls in classes for value in get_args(cls.model_fields[field].annotation)}
    )


# --- the registry as a table of lines

HEADER = ("id", "kind", "backend", "params", "tokens", "licence", "checkpoint", "description")
NUMBERS = (HEADER.index("params"), HEADER.index("tokens"))
"""Columns set flush right."""


def model_row(
    name: str, entry: ModelBase, rerankers: Mapping[str, RerankerModel]
) -> tuple[str, ...]:
    """Return the cells of a model, as ``HEADER`` names them.

    Parameters
    ----------
    rerankers
        The reranker registry: what a second stage reads and how much of it is said there.
    """
    read: object = rerankers.get(entry.reranker) if isinstance(entry, RerankModel) else entry
    tokens = getattr(read, "max_tokens", None)
    made_of = getattr(read, "checkpoint", UNDEFINED)
    if isinstance(entry, FusionModel):
        made_of = " + ".join(entry.of)
    if isinstance(entry, EmbeddingApiModel | RunFilesModel):
        made_of = entry.model if isinstance(entry, EmbeddingApiModel) else entry.path
    return (
        name,
        entry.kind,  # type: ignore[attr-defined]
        entry.backend,  # type: ignore[attr-defined]
        size_text(getattr(entry, "parameters_m", None)),
        str(tokens or UNDEFINED),
        entry.licence or UNDEFINED,
        made_of,
        entry.description,
    )


def size_text(parameters_m: float | None) -> str:
    """Write a number of parameters, given in millions: 23M, 7.6B."""
    if parameters_m is None:
        return UNDEFINED
    return f"{parameters_m / 1000:.1f}B" if parameters_m >= 999.5 else f"{parameters_m:.0f}M"


COMMAND = Command(
    description="List the models a config can name. docs/models.md says how to add one.",
    add_arguments=add_arguments,
    run=run_models,
)
