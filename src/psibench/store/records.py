"""Records as lines of JSON with a checksum: logs that can be read with `cat` and `jq`.

{"sum":"<crc32, 8 hex, of all that follows>","key":"<hex>","record":{...}}
"""

import json
import logging
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

_T = TypeVar("_T")

logger = logging.getLogger("psibench")

LINE = re.compile(
    rb'\{"sum":"([0-9a-f]{8})(","key":"([0-9a-f]+)","record":(\{.*\})\})\n', re.DOTALL
)
_LINE_START = b'{"sum":"'


def write_record(key: str, record: Mapping[str, Any]) -> bytes:
    """Return a record's line, as UTF-8 if possible."""
    try:
        payload = json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError:  # half a surrogate pair
        payload = json.dumps(record, separators=(",", ":")).encode()
    tail = b'","key":"%s","record":%s}' % (key.encode(), payload)
    return b'{"sum":"%08x%s\n' % (zlib.crc32(tail), tail)


def read_record(line: bytes) -> bytes | None:
    """Return the record of a line, as JSON; None if the line is damaged or incomplete."""
    match = LINE.fullmatch(line)
    if match is None or int(match[1], 16) != zlib.crc32(match[2]):
        return None
    return match[4]


def read_log(
    log: Path, read: Callable[[bytes], _T | None], *, lost: str
) -> Iterator[tuple[int, int, _T | None]]:
    """Yield start byte, length and content of a log's lines, except for an incomplete last line.

    Parameters
    ----------
    read
        Reads a line; returns None if it is damaged.
    lost
        What happens to damaged lines, for the warning.
    """
    at = n_damaged = 0
    with open(log, "rb") as lines:
        for line in lines:
            if not line.endswith(b"\n"):
                logger.info("%s: ignoring the last line, which is incomplete", log)
                break
            content = read(line)
            if content is None:
                n_damaged += max(1, line.count(_LINE_START))  # damage may have joined several lines
            yield at, len(line), content
            at += len(line)
    if n_damaged:
        logger.warning("%s: %d damaged lines; %s", log, n_damaged, lost)
