"""A reader of almost-JSON: what language models write when they mean JSON."""

import re
from typing import Any

MAX_DEPTH = 64

_SPACE = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRINGS = {
    '"': re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL),
    "'": re.compile(r"'((?:[^'\\]|\\.)*)'", re.DOTALL),
}
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_NAME = re.compile(r"[A-Za-z_][\w-]*")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\n": ""}
_WORDS = {
    "true": True,
    "false": False,
    "null": None,
    "True": True,
    "False": False,
    "None": None,
}
_CLOSERS = {"{": "}", "[": "]", "(": ")"}


class NotReadableError(ValueError):
    """The text at this place is no value."""


def read_value(text: str, start: int = 0, *, depth: int = 0) -> tuple[Any, int]:
    """Read one value and say where it ends; what follows it is not looked at.

    Accepted beyond JSON: single quotes, ``True``/``False``/``None``, tuples, unquoted keys,
    trailing commas, comments, and line breaks inside strings.

    Returns
    -------
    (value, end)
        Lists, dictionaries, strings, numbers, booleans and None; ``end`` is an index into ``text``.

    Raises
    ------
    NotReadableError
        If there is no whole value at ``start``, or it is nested more than 64 deep.
    """
    if depth > MAX_DEPTH:
        raise NotReadableError("nested too deep")
    start = _skip(text, start)
    opener = text[start : start + 1]
    if opener == "{":
        return _read_object(text, start + 1, depth)
    if opener in ("[", "("):
        return _read_list(text, start + 1, _CLOSERS[opener], depth)
    if opener in _STRINGS and opener:
        return _read_string(text, start)
    if number := _NUMBER.match(text, start):
        return _number(number.group()), number.end()
    word = _NAME.match(text, start)
    if word and word.group() in _WORDS:
        return _WORDS[word.group()], word.end()
    raise NotReadableError(f"no value at character {start}")


def _skip(text: str, start: int) -> int:
    found = _SPACE.match(text, start)
    return found.end() if found else start


def _read_list(text: str, at: int, closer: str, depth: int) -> tuple[list[Any], int]:
    values: list[Any] = []
    while True:
        at = _skip(text, at)
        if text[at : at + 1] == closer:
            return values, at + 1
        value, at = read_value(text, at, depth=depth + 1)
        values.append(value)
        at = _after_item(text, at, closer)


def _read_object(text: str, at: int, depth: int) -> tuple[dict[str, Any], int]:
    values: dict[str, Any] = {}
    while True:
        at = _skip(text, at)
        if text[at : at + 1] == "}":
            return values, at + 1
        key, at = _read_key(text, at)
        at = _skip(text, at)
        if text[at : at + 1] != ":":
            raise NotReadableError(f"no colon at character {at}")
        values[key], at = read_value(text, at + 1, depth=depth + 1)
        at = _after_item(text, at, "}")


def _read_key(text: str, at: int) -> tuple[str, int]:
    if text[at : at + 1] in ("'", '"'):
        return _read_string(text, at)
    name = _NAME.match(text, at)
    if not name:
        raise NotReadableError(f"no key at character {at}")
    return name.group(), name.end()


def _after_item(text: str, at: int, closer: str) -> int:
    at = _skip(text, at)
    following = text[at : at + 1]
    if following == ",":
        return at + 1
    if following != closer:
        raise NotReadableError(f"neither comma nor {closer} at character {at}")
    return at


def _read_string(text: str, at: int) -> tuple[str, int]:
    found = _STRINGS[text[at]].match(text, at)
    if not found:
        raise NotReadableError(f"string at character {at} has no end")
    return _ESCAPE.sub(_unescape, found.group(1)), found.end()


def _unescape(match: re.Match[str]) -> str:
    code = match.group(1)
    if code[0] in "ux" and len(code) > 1:
        return chr(int(code[1:], 16))
    return _LETTERS.get(code, code)


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)
