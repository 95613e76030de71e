"""One stored answer as one line: JSON with a checksum, so that a torn line is recognised.

A line is ``{"sum":"<crc32>","key":"<64 hex>","record":{...}}`` and a line feed. The checksum is
over everything after it. Key and record are found without parsing, at fixed places.
"""

import json
import zlib
from collections.abc import Mapping
from typing import Any

_HEAD = b'{"sum":"'
_KEY = b'","key":"'
_RECORD = b'","record":'
_SUM_AT = len(_HEAD)
_KEY_AT = _SUM_AT + 8 + len(_KEY)
_RECORD_AT = _KEY_AT + 64 + len(_RECORD)


def encode_line(key: str, record: Mapping[str, Any]) -> bytes:
    """Return the line of one answer. The record is ASCII JSON: it holds no line feed."""
    payload = json.dumps(record, separators=(",", ":")).encode()
    tail = _KEY + key.encode() + _RECORD + payload + b"}"
    return b"%s%08x%s\n" % (_HEAD, zlib.crc32(tail), tail)


def line_key(line: bytes) -> bytes | None:
    """Return the key (32 bytes) of a line without its line feed, or None if it is damaged."""
    if not line.startswith(_HEAD) or len(line) < _RECORD_AT or not line.endswith(b"}"):
        return None
    tail = memoryview(line)[_SUM_AT + 8 :]
    try:
        if int(line[_SUM_AT : _SUM_AT + 8], 16) != zlib.crc32(tail):
            return None
        return bytes.fromhex(line[_KEY_AT : _KEY_AT + 64].decode())
    except ValueError:
        return None


def line_record(line: bytes) -> bytes:
    """Return the record of an undamaged line, as JSON."""
    return line[_RECORD_AT:].rstrip(b"\n")[:-1]
