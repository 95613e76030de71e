"""The `psibench` command: one registry of sub-commands, one place for their errors."""

import argparse
import sys
from collections.abc import Sequence

from psibench import __version__
from psibench.commands import COMMANDS, load_command
from psibench.errors import InputError

BAD_INPUT = 2


def build_parser(asked: str | None) -> argparse.ArgumentParser:
    """Return the parser; of the commands only the one ``asked`` for has its options."""
    parser = argparse.ArgumentParser(
        prog="psibench",
        description="Measure how much a retriever's quality depends on where the evidence is.",
        epilog="psibench COMMAND --help says more of each.",
    )
    parser.add_argument("--version", action="version", version=f"psibench {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in COMMANDS.items():
        if name == asked:
            command = load_command(name)
            command.add_arguments(
                subparsers.add_parser(name, help=text, description=command.description)
            )
        else:
            subparsers.add_parser(name, help=text)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return 0, or 2 with one message on standard error for bad input.

    argparse itself exits with 2 on a wrong option. Other exceptions are bugs and keep their
    traceback.
    """
    given = sys.argv[1:] if argv is None else argv
    asked = next((word for word in given if not word.startswith("-")), None)
    args = build_parser(asked).parse_args(given)
    try:
        load_command(args.command).run(args)
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
