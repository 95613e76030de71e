"""The option --json: one JSON document on standard output instead of text; see docs/json.md."""

import argparse
import json
import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from psibench import __version__

FORMAT = 1
"""Version of the documents; raised if a key changes its meaning or disappears."""


def add_json(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Add the option --json."""
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON document instead of text; messages go to standard error",
    )


@contextmanager
def messages_to_stderr(is_json: bool) -> Iterator[None]:
    """Send everything that the block prints to standard error if ``is_json``.

    Call `print_json` after the block: no message can then get into the document.
    """
    if not is_json:
        yield
        return
    with redirect_stdout(sys.stderr):
        yield


def print_json(command: str, content: Mapping[str, Any]) -> None:
    """Print a command's document: format, psibench's version, the command, and the content."""
    head = {"format": FORMAT, "psibench": __version__, "command": command}
    print(json_text(head | dict(content)))


def json_text(value: Any) -> str:
    r"""Return a value as JSON in ASCII characters without control characters.

    A frame is a list of objects by column name, a dataclass an object, a path a string. NaN and
    infinite numbers are null, because JSON has neither.

    Raises TypeError if a value has no form in JSON.
    """
    text = json.dumps(_plain(value), indent=2, allow_nan=False)
    return text.replace("\x7f", r"\u007f")  # the only control character that json leaves


def _plain(value: Any) -> Any:
    if isinstance(value, pl.DataFrame):
        return _plain(value.to_dicts())
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | pl.Series):
        return [_plain(one) for one in value]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
