"""What the studies share at their edges: options, shares with intervals, tables as Markdown."""

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

from psibench.filters.audit import wilson_interval


def read_options(
    doc: str | None, *, documents: int, top_k: int | None = None
) -> argparse.Namespace:
    """Read the command line of a study; ``doc`` is its docstring."""
    parser = argparse.ArgumentParser(description=(doc or "").split("\n")[0])
    parser.add_argument("--documents", type=int, default=documents)
    if top_k is not None:
        parser.add_argument("--top-k", type=int, default=top_k, help="documents recalled per query")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--store", type=Path, help="folder that keeps the scores; else temporary")
    parser.add_argument("--out", type=Path, help="folder to write the tables to, as NAME.md")
    return parser.parse_args()


class Page:
    """Collects lines, prints them at once, and writes them to ``folder/name.md`` if asked."""

    def __init__(self, name: str, folder: Path | None) -> None:
        self._path = folder / f"{name}.md" if folder else None
        self._lines: list[str] = []

    def text(self, line: str) -> None:
        """Add a paragraph."""
        self._add([line, ""])

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Add a table; the first column is text, the others are numbers."""
        lines = ["| " + " | ".join(columns) + " |", "|---" + "|--:" * (len(columns) - 1) + "|"]
        lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
        self._add([*lines, ""])

    def write(self) -> None:
        """Write the page."""
        if self._path:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            text = "\n".join(self._lines).rstrip("\n") + "\n"
            self._path.write_text(text, encoding="utf-8")

    def _add(self, lines: list[str]) -> None:
        self._lines += lines
        print("\n".join(lines), flush=True)


def share(count: int, of: int) -> str:
    """Word a share with its 95 % Wilson interval: ``0.90 [0.86, 0.93]``; ``-`` of nothing."""
    if not of:
        return "-"
    low, high = wilson_interval(count / of, of)
    return f"{count / of:.3f} [{low:.3f}, {high:.3f}]"


def number(value: float | None, digits: int = 3) -> str:
    """Word a number; ``-`` for none."""
    return "-" if value is None else f"{value:.{digits}f}"
