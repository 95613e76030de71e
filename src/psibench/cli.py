"""The `psibench` command: one registry of sub-commands, one place for their errors."""

import argparse
import sys
from collections.abc import Sequence

from psibench import __version__
from psibench.commands import COMMANDS
from psibench.errors import InputError

BAD_INPUT = 2


def build_parser() -> argparse.ArgumentParser:
    """Return the parser with one sub-parser per command."""
    parser = argparse.ArgumentParser(
        prog="psibench",
        description="Measure how much a retriever's quality depends on where the evidence stands.",
    )
    parser.add_argument("--version", action="version", version=f"psibench {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=command.help, description=command.description)
        command.add_arguments(subparser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return 0, or 2 with one message on standard error for bad input.

    argparse itself exits with 2 on a wrong option. Other exceptions are bugs and keep their
    traceback.
    """
    args = build_parser().parse_args(argv)
    try:
        COMMANDS[args.command].run(args)
    except InputError as error:
        print(f"psibench {args.command}: {error}", file=sys.stderr)
        return BAD_INPUT
    except BrokenPipeError:  # `psibench show ... | head`: the reader has seen enough
        sys.stderr.close()
        return 0
    except OSError as error:
        print(f"psibench {args.command}: cannot read or write: {error}", file=sys.stderr)
        return BAD_INPUT
    return 0


if __name__ == "__main__":
    sys.exit(main())
