"""What several sub-commands do."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from psibench.config.paths import shipped
from psibench.errors import InputError
from psibench.reading import number, shown, whole_number

if TYPE_CHECKING:
    import polars as pl

    from psibench.tables import Provenance
    from psibench.tables.spec import TableSpec

CONFIG_NAME = "psibench.yaml"
"""The config that `psibench init` writes, and that commands read where they are given none."""


def config_file(given: str) -> Path:
    """Return the path of a config; ``shipped:presets/posir.yaml`` is one of psibench's own."""
    return Path(shipped(given))


def configs_or_here(given: Sequence[Path]) -> list[Path]:
    """Return the configs given; without any ./psibench.yaml, where it exists, and say so."""
    if given or not Path(CONFIG_NAME).is_file():
        return list(given)
    print(f"Config: {CONFIG_NAME}, in this folder", file=sys.stderr, flush=True)
    return [Path(CONFIG_NAME)]


def add_config(parser: argparse.ArgumentParser, *, bare: bool = False) -> None:
    """Add the user's config, or several; ``bare``: also without the option in front."""
    if bare:
        parser.add_argument(
            "bare", type=config_file, nargs="*", metavar="CONFIG", help="as --config takes them"
        )
    parser.add_argument(
        "--config",
        type=config_file,
        nargs="+",
        action="extend",
        default=[],
        metavar="FILE",
        help="your config; of several each is laid over the one before; else psibench.yaml, if it "
        "is in this folder; else the embedded default",
    )


def read_given(args: argparse.Namespace) -> dict[str, Any]:
    """Read the configs that a command of `add_config` was given, bare ones first."""
    return read_configs(configs_or_here([*getattr(args, "bare", ()), *args.config]))


def read_configs(paths: Sequence[Path]) -> dict[str, Any]:
    """Lay each config over the one before, key by key, as `psibench run` and Snakemake do."""
    from psibench.config.files import laid_over, read_yaml

    return reduce(laid_over, map(read_yaml, paths), {})


def refuse_unwritable(option: str, path: Path | None) -> None:
    """Refuse an output file that cannot be made, before anything is computed for it.

    Raises InputError if there is no such folder, or the path is a folder itself.

    Parameters
    ----------
    option
        What the user named it with, as ``--csv``.
    path
        The file; None was not given.
    """
    if path is None:
        return
    if path.is_dir():
        raise InputError(f"{option} {path} is a folder; name a file")
    if not path.parent.is_dir():
        raise InputError(
            f"{option} {path}: no such folder {path.parent}. Make it, or name a file elsewhere"
        )


def refuse_file(option: str, folder: Path | None) -> None:
    """Refuse an output folder that is a file; None was not given."""
    if folder is not None and folder.exists() and not folder.is_dir():
        raise InputError(f"{option} {folder} is a file; name a folder")


def share(text: str) -> float:
    """Read a share: ``5%`` or ``0.05``."""
    try:
        found = number(text.removesuffix("%"), where="", column="")
    except InputError:
        found = -1.0
    found /= 100 if text.endswith("%") else 1
    if not 0 <= found <= 1:
        raise argparse.ArgumentTypeError(f"{shown(text)}: give a share, as 5% or 0.05")
    return found


def whole(text: str) -> int:
    """Read a whole number; see `whole_number`."""
    found = whole_number(text, least=-(10**15))
    if found is None:
        raise argparse.ArgumentTypeError(f"{shown(text)}: give a whole number, in digits 0 to 9")
    return found


def refuse_below(args: argparse.Namespace, least: Mapping[str, int]) -> None:
    """Refuse options that are smaller than allowed; None was not given."""
    for name, lowest in least.items():
        if (value := getattr(args, name)) is not None and value < lowest:
            option = name.replace("_", "-")
            raise InputError(f"--{option} {value}; allowed: {lowest} or more")


def write_result(
    frame: "pl.DataFrame", spec: "TableSpec", path: Path, *, provenance: "Provenance"
) -> None:
    """Write a table as ``path`` with .parquet and with .csv."""
    from psibench.tables import write_csv, write_table

    write_table(frame, path.with_name(f"{path.name}.parquet"), spec, provenance=provenance)
    write_csv(frame, path.with_name(f"{path.name}.csv"))
