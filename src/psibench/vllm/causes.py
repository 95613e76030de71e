"""Why a server of vLLM ended, read from what it printed.

vLLM is several processes that write one log: workers compute, the engine plans for them, the API
server answers. What fails in one ends the others, and each prints a traceback of its own; the last
lines tell of the last, and the cause stands further up.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

MOST_CHARS = 1000
TAIL_LINES = 12
TAIL_BYTES = 1 << 16
HANDLED = ("DEBUG", "INFO", "WARNING")
"""Levels at which a traceback is logged of what ended nothing."""
DEAD = "EngineDeadError"
"""What the server raises when the engine is gone, whatever it died of."""

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_PREFIX = re.compile(
    r"\((?P<who>\w+)[^()]*?pid=\d+\) "
    r"(?:(?P<level>[A-Z]+) \d\d-\d\d \d\d:\d\d:\d\d \[[^\]]*\](?: |$))?"
)
_EXCEPTION = re.compile(r"(?P<kind>[A-Za-z_][\w.]*)(?:: (?P<words>.*))?$")
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_NOISE = re.compile(
    r"nanobind: |See https://nanobind| - (?:leaked|\.\.\. skipped)|.*UserWarning: res"
)
_GIB = r"(?P<{}>[\d.]+ ?[GM]iB)"
_MEMORY = [
    re.compile(pattern.replace("NEED", _GIB.format("need")).replace("FREE", _GIB.format("free")))
    for pattern in (
        r"Tried to allocate NEED.*? of which FREE is free",
        r"NEED KV cache is needed, which is larger than the available KV cache memory \(FREE\)",
    )
]
_MEMORY.append(re.compile(r"\((?P<free>[\d.]+)/[\d.]+ GiB\).*?(?P<need>[\d.]+) GiB\)"))


@dataclass(frozen=True)
class Raised:
    """An exception in a log: of which process (0 worker, 1 engine, 2 another), and its words."""

    rank: int
    kind: str
    words: str
    follows: bool
    """Whether it was raised while the one before it was handled."""


def cause_of(log: str | Path) -> str | None:
    """Return the first exception of a worker, else of the engine, else of the server's last chain.

    With the memory needed and free before it, where it says both. None if there is no exception.
    """
    with Path(log).open(encoding="utf-8", errors="replace") as lines:
        found = _first(raised(lines))
    if found is None:
        return None
    memory = next((hit for pattern in _MEMORY if (hit := pattern.search(found.words))), None)
    said = "" if memory is None else f"{_gib(memory['need'])} needed, {_gib(memory['free'])} free: "
    if found.kind.endswith(DEAD):
        said = "its engine ended without a word, as what is killed does (out of memory?): "
    words = found.words.partition(" [type=")[0]  # pydantic's, with the input's repr behind it
    return f"{said}{found.kind.rpartition('.')[2]}: {words}"[:MOST_CHARS]


def last_lines(log: str | Path) -> str:
    """Return the end of what a server printed, less what Python's libraries say as they end."""
    try:
        with Path(log).open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - TAIL_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError as error:
        return f"(not readable: {error})"
    lines = [line for line in text.strip().splitlines() if not _NOISE.match(line)]
    return "\n".join(line[:MOST_CHARS] for line in lines[-TAIL_LINES:])


def raised(lines: Iterable[str]) -> Iterator[Raised]:
    """Yield the exceptions whose tracebacks are in a log, in order.

    A line begins with the process that wrote it, and with date and place where its logger did;
    some processes' last tracebacks have neither. The line below a traceback's indented ones is the
    exception; indented lines below that are more of its words.
    """
    inside: set[str] = set()
    is_chained: set[str] = set()
    open_one: tuple[str, Raised] | None = None
    for line in lines:
        plain = _ANSI.sub("", line.rstrip("\n"))
        prefix = _PREFIX.match(plain)
        who = prefix["who"] if prefix else ""
        text = plain[prefix.end() :] if prefix else plain
        if open_one is not None:
            of, one = open_one
            if who == of and text.startswith("  ") and len(one.words) < MOST_CHARS:
                open_one = (
                    of,
                    Raised(one.rank, one.kind, f"{one.words} {text.strip()}", one.follows),
                )
                continue
            yield one
            open_one = None
        if text.startswith(_CHAINED):
            is_chained.add(who)
        elif text.startswith("Traceback (most recent call last)"):
            if not prefix or prefix["level"] not in HANDLED:
                inside.add(who)
        elif who in inside and text and not text.startswith(" "):
            inside.discard(who)
            if (hit := _EXCEPTION.match(text)) is not None:
                one = Raised(_rank(who), hit["kind"], hit["words"] or "", who in is_chained)
                open_one = who, one
            is_chained.discard(who)
    if open_one is not None:
        yield open_one[1]


def _rank(who: str) -> int:
    return 0 if "Worker" in who else 1 if who.startswith("Engine") else 2


def _first(found: Iterable[Raised]) -> Raised | None:
    """Pick the root: of workers and the engine the first, of the server that of its last chain."""
    firsts: dict[int, Raised] = {}
    for one in found:
        if one.rank not in firsts or (one.rank == 2 and not one.follows):
            firsts[one.rank] = one
    return firsts[min(firsts)] if firsts else None


def _gib(amount: str) -> str:
    return amount if amount.endswith("iB") else f"{amount} GiB"
