"""What a sub-command is made of."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """A sub-command: its help, its options and what it does.

    `run` raises `psibench.errors.InputError` for bad input; `psibench.cli.main` prints it.
    """

    help: str
    description: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], None]
