"""The `psibench` command: parses arguments, runs a sub-command, and reports its errors."""

import argparse
import re
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, TextIO, cast

from psibench import __version__
from psibench.commands import COMMANDS, EXAMPLES, load_command
from psibench.commands.base import with_config_files
from psibench.config.secrets import without_keys
from psibench.errors import InputError, missing_extra

BAD_INPUT = 2
DOCS = "https://github.com/psibench/psibench/tree/main/docs"
STYLE = r"\x1b\[(?:[012]|1;3[13])m"
UNPRINTABLE = re.compile(
    rf"(?!{STYLE})[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters, text-direction marks and surrogates, except the styles in `STYLE`.

`STYLE` has bold, dim, red and yellow for the verdicts of `show`.
"""

UNENCODED = re.compile(r"[\ud800-\udfff]")


class PlainText:
    """A stream that escapes control characters, so that no text can control the terminal.

    Also escapes bytes that are not UTF-8, and characters outside the stream's encoding (LANG=C,
    PYTHONIOENCODING=ascii).
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        r"""Write a text with escaped control characters, e.g. ``\x1b``."""
        text = UNPRINTABLE.sub(_escaped, text)
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        return self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _escaped(found: re.Match[str]) -> str:
    return found.group().encode("unicode_escape").decode()


def build_parser(command_name: str | None) -> argparse.ArgumentParser:
    """Return the parser; only the named command has its options."""
    parser = argparse.ArgumentParser(
        prog="psibench",
        description="Measure how a retriever's quality depends on the position of the evidence.",
        epilog="Quick start: `psibench score --example`, or `psibench init` in the folder of your "
        "texts. psibench COMMAND --help describes a command. Pages named docs/... are at "
        f"{DOCS}.",
    )
    parser.add_argument("--version", action="version", version=f"psibench {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in COMMANDS.items():
        if name == command_name:
            command = load_command(name)
            command_parser = subparsers.add_parser(
                name,
                help=text,
                description=command.DESCRIPTION,
                epilog=f"example: {EXAMPLES[name]}",
                allow_abbrev=False,
            )
            command.add_arguments(command_parser)
            # Errors then show the options of the command.
            parser.error = command_parser.error  # type: ignore[method-assign]
        else:
            subparsers.add_parser(name, help=text)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code, or 2 with one message on standard error for bad input.

    The output has no control characters except line ends, tabs and `STYLE`. argparse exits with 2
    on a wrong option. Other exceptions are bugs and keep their traceback.
    """
    words = sys.argv[1:] if argv is None else argv
    out, err = cast(TextIO, PlainText(sys.stdout)), cast(TextIO, PlainText(sys.stderr))
    with redirect_stdout(out), redirect_stderr(err):
        return _run(words)


def _run(argv: Sequence[str]) -> int:
    for word in argv:
        if UNENCODED.search(word):  # tables could not store it
            print(f"psibench: {word!r} is not UTF-8; rename the file", file=sys.stderr)
            return BAD_INPUT
    command_name = next((word for word in argv if not word.startswith("-")), None)
    words, further = list(argv), list[str]()
    if command_name == "run" and "--" in words:  # argparse accepts no words after a later option
        words, further = words[: words.index("--")], words[words.index("--") + 1 :]
    args = build_parser(command_name).parse_args(words)
    if further:
        args.words += further
    try:
        return load_command(args.command).run(args) or 0
    except InputError as error:
        print(
            f"psibench {args.command}: {without_keys(with_config_files(str(error)))}",
            file=sys.stderr,
        )
        return BAD_INPUT
    except ModuleNotFoundError as error:
        if (needs := missing_extra(error)) is None:
            raise
        print(f"psibench {args.command} {needs}", file=sys.stderr)
        return BAD_INPUT
    except BrokenPipeError:  # e.g. `psibench show ... | head`
        sys.stderr.close()
        return 0
    except OSError as error:
        print(f"psibench {args.command}: cannot read or write: {error}", file=sys.stderr)
        return BAD_INPUT


if __name__ == "__main__":
    sys.exit(main())
