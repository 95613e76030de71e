"""The `psibench` command: one registry of sub-commands, one place for their errors."""

import argparse
import re
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, TextIO, cast

from psibench import __version__
from psibench.commands import COMMANDS, EXAMPLES, load_command
from psibench.config.secrets import without_keys
from psibench.errors import InputError, missing_extra

BAD_INPUT = 2
STYLE = r"\x1b\[(?:[012]|1;3[13])m"
UNPRINTABLE = re.compile(
    rf"(?!{STYLE})[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""What moves a terminal's cursor, colours it or turns it round, and what cannot be encoded.

But for `STYLE`: bold, dim, red and yellow of the words of `show`, which hide nothing.
"""

UNENCODED = re.compile(r"[\ud800-\udfff]")


class PlainText:
    """A stream that shows the control characters of third parties' texts in place of sending them.

    File names and records that are not UTF-8 are shown the same way, and so is what the stream's
    encoding does not have (LANG=C, PYTHONIOENCODING=ascii).
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        r"""Write a text, control characters as ``\x1b``."""
        text = UNPRINTABLE.sub(_escaped, text)
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        return self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _escaped(found: re.Match[str]) -> str:
    return found.group().encode("unicode_escape").decode()


def build_parser(asked: str | None) -> argparse.ArgumentParser:
    """Return the parser; of the commands only the one ``asked`` for has its options."""
    parser = argparse.ArgumentParser(
        prog="psibench",
        description="Measure how much a retriever's quality depends on where the evidence is.",
        epilog="To begin: `psibench score --example`, or `psibench init` where your texts are. "
        "psibench COMMAND --help says more of each.",
    )
    parser.add_argument("--version", action="version", version=f"psibench {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in COMMANDS.items():
        if name == asked:
            command = load_command(name)
            its_parser = subparsers.add_parser(
                name,
                help=text,
                description=command.DESCRIPTION,
                epilog=f"example: {EXAMPLES[name]}",
                allow_abbrev=False,
            )
            command.add_arguments(its_parser)
            parser.error = its_parser.error  # type: ignore[method-assign]  # its options are shown
        else:
            subparsers.add_parser(name, help=text)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code, or 2 with one message on standard error for bad input.

    What is printed holds no control characters but ends of lines, tabs and `STYLE`.

    argparse itself exits with 2 on a wrong option. Other exceptions are bugs and keep their
    traceback.
    """
    given = sys.argv[1:] if argv is None else argv
    out, err = cast(TextIO, PlainText(sys.stdout)), cast(TextIO, PlainText(sys.stderr))
    with redirect_stdout(out), redirect_stderr(err):
        return _run(given)


def _run(given: Sequence[str]) -> int:
    for word in given:
        if UNENCODED.search(word):  # of the system's bytes, as tables could not hold it
            print(f"psibench: {word!r} is not UTF-8; rename the file", file=sys.stderr)
            return BAD_INPUT
    asked = next((word for word in given if not word.startswith("-")), None)
    words, further = list(given), list[str]()
    if asked == "run" and "--" in words:  # argparse takes no further words behind a later option
        words, further = words[: words.index("--")], words[words.index("--") + 1 :]
    args = build_parser(asked).parse_args(words)
    if further:
        args.words += further
    try:
        return load_command(args.command).run(args) or 0
    except InputError as error:
        print(f"psibench {args.command}: {without_keys(str(error))}", file=sys.stderr)
        return BAD_INPUT
    except ModuleNotFoundError as error:
        if (needs := missing_extra(error)) is None:
            raise
        print(f"psibench {args.command} {needs}", file=sys.stderr)
        return BAD_INPUT
    except BrokenPipeError:  # `psibench show ... | head`: the reader has seen enough
        sys.stderr.close()
        return 0
    except OSError as error:
        print(f"psibench {args.command}: cannot read or write: {error}", file=sys.stderr)
        return BAD_INPUT


if __name__ == "__main__":
    sys.exit(main())
