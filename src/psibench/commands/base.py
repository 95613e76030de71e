"""Options, checks and outputs that several sub-commands share."""

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from psibench.config.paths import shipped
from psibench.errors import InputError
from psibench.reading import parse_number, shown, whole_number

if TYPE_CHECKING:
    import polars as pl

    from psibench.tables import Provenance
    from psibench.tables.spec import TableSpec

CONFIG_NAME = "psibench.yaml"
"""The config that `psibench init` writes, and that commands read by default."""
CONFIG_SUFFIXES = (".yaml", ".yml")


def config_file(name: str) -> Path:
    """Return the path of a config; ``shipped:presets/posir.yaml`` ships with psibench."""
    return Path(shipped(name))


def configs_or_here(configs: Sequence[Path]) -> list[Path]:
    """Return the configs; without any, ./psibench.yaml if it exists, and print that."""
    if configs or not Path(CONFIG_NAME).is_file():
        return list(configs)
    print(f"Config: {CONFIG_NAME}, in this folder", file=sys.stderr, flush=True)
    return [Path(CONFIG_NAME)]


def add_config(parser: argparse.ArgumentParser, *, bare: bool = False) -> None:
    """Add the option --config; with ``bare`` also positional configs."""
    if bare:
        parser.add_argument(
            "bare", type=config_file, nargs="*", metavar="CONFIG", help="configs, like --config"
        )
    parser.add_argument(
        "--config",
        type=config_file,
        nargs="+",
        action="extend",
        default=[],
        metavar="FILE",
        help="your config; each of several overrides the ones before; default: psibench.yaml in "
        "this folder, else the embedded default",
    )


def read_given(args: argparse.Namespace) -> dict[str, Any]:
    """Read the configs of the arguments of `add_config`, positional ones first."""
    return read_configs(configs_or_here([*getattr(args, "bare", ()), *args.config]))


def read_configs(paths: Sequence[Path]) -> dict[str, Any]:
    """Read configs and merge them key by key; each overrides the ones before, as in Snakemake."""
    from psibench.config.files import laid_over, read_yaml

    _read.clear()
    for path in paths:
        _read[path] = read_yaml(path)
    return reduce(laid_over, _read.values(), {})


_read: dict[Path, dict[str, Any]] = {}
"""The configs that this process read last, in order, to name them in messages."""
CONFIG_LINE = re.compile(r"(?P<lead>\s*)(?P<about>config key )?(?P<key>[a-z_]+(\.[^\s:]+)*):(?= )")
"""Matches the start of a line of a message about a key of a config."""


def with_config_files(message: str) -> str:
    """Return a message about config keys with the file of each key: the last one that has it.

    Keys of the default config, which are in no given file, get none.
    """
    lines = message.split("\n")
    is_single = len(_read) == 1 and lines[0].startswith("config is not valid")
    if is_single:
        lines[0] = lines[0].replace("config", str(next(iter(_read))), 1)
    for number, line in enumerate(lines):
        if (found := CONFIG_LINE.match(line)) is None or (is_single and not found["about"]):
            continue
        depths = {path: _depth(raw, found["key"]) for path, raw in _read.items()}
        if any(depths.values()):
            path = max(reversed(depths), key=lambda one: depths[one])
            rest = line[len(found["lead"]) :]
            lines[number] = f"{found['lead']}{path}: {rest}"
    return "\n".join(lines)


def _depth(raw: Any, key: str) -> int:
    """Return how many parts of a key path a config has, from the top; ids may have dots."""
    if isinstance(raw, list):
        head, _, rest = key.partition(".")
        is_in = head.isdigit() and int(head) < len(raw)
        return 1 + _depth(raw[int(head)], rest) if is_in else 0
    if not isinstance(raw, Mapping):
        return 0
    found = [0]
    for name, value in raw.items():
        if key == name or key.startswith(f"{name}."):
            found.append(1 + _depth(value, key[len(name) + 1 :]))
    return max(found)


def refuse_unwritable(option: str, path: Path | None) -> None:
    """Raise InputError if the output file is a folder or its folder does not exist.

    Parameters
    ----------
    option
        The option that names the file, e.g. ``--csv``.
    path
        The file; None without the option.
    """
    if path is None:
        return
    if path.is_dir():
        raise InputError(f"{option} {path} is a folder; name a file")
    if not path.parent.is_dir():
        raise InputError(
            f"{option} {path}: folder {path.parent} does not exist; create it, or name another file"
        )


def refuse_file(option: str, folder: Path | None) -> None:
    """Raise InputError if the output folder is a file; None without the option."""
    if folder is not None and folder.exists() and not folder.is_dir():
        raise InputError(f"{option} {folder} is a file; name a folder")


def share(text: str) -> float:
    """Parse a share: ``5%`` or ``0.05``."""
    try:
        found = parse_number(text.removesuffix("%"), where="", column="")
    except InputError:
        found = -1.0
    found /= 100 if text.endswith("%") else 1
    if not 0 <= found <= 1:
        raise argparse.ArgumentTypeError(f"{shown(text)}: give a share, e.g. 5% or 0.05")
    return found


def whole(text: str) -> int:
    """Parse a whole number; see `whole_number`."""
    found = whole_number(text, least=-(10**15))
    if found is None:
        raise argparse.ArgumentTypeError(f"{shown(text)}: give a whole number, in digits 0 to 9")
    return found


def refuse_below(args: argparse.Namespace, least: Mapping[str, int]) -> None:
    """Raise InputError if an option is below its least value; None without the option."""
    for name, lowest in least.items():
        if (value := getattr(args, name)) is not None and value < lowest:
            option = name.replace("_", "-")
            raise InputError(f"--{option} {value}; allowed: {lowest} or more")


def write_result(
    frame: "pl.DataFrame", spec: "TableSpec", path: Path, *, provenance: "Provenance"
) -> None:
    """Write a table as .parquet and as .csv; ``path`` has no suffix."""
    from psibench.tables import write_csv, write_table

    write_table(frame, path.with_name(f"{path.name}.parquet"), spec, provenance=provenance)
    write_csv(frame, path.with_name(f"{path.name}.csv"))
