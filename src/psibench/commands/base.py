"""What a sub-command is made of."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from psibench.config.paths import shipped
from psibench.errors import InputError


@dataclass(frozen=True)
class Command:
    """A sub-command: what it is for, its options and what it does.

    `run` raises `psibench.errors.InputError` for bad input; `psibench.cli.main` prints it. It may
    return an exit code; none is 0.
    """

    description: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int | None]


def config_file(given: str) -> Path:
    """Return the path of a config; ``shipped:presets/posir.yaml`` is one of psibench's own."""
    return Path(shipped(given))


def refuse_unwritable(option: str, path: Path | None) -> None:
    """Refuse an output file whose folder is missing, before anything is computed for it.

    Parameters
    ----------
    option
        What the user named it with, as ``--csv``.
    path
        The file; None was not given.

    Raises
    ------
    InputError
        If there is no such folder, or the path is a folder itself.
    """
    if path is None:
        return
    if path.is_dir():
        raise InputError(f"{option} {path} is a folder; name a file")
    if not path.parent.is_dir():
        raise InputError(
            f"{option} {path}: no such folder {path.parent}. Make it, or name a file elsewhere"
        )
