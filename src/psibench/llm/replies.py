"""Reading a reply: JSON, or what models write in its place, or plain; held to its schema.

Forgiven is what does not change a reply's meaning. Of its form: thoughts, prose and fences around
it, and almost-JSON (`json_repair`), unless it breaks off or a word got lost. Of its shape: unknown
keys (dropped), another case in keys and enum values, numbers as strings, an array where the schema
wants an object that holds one array, an object that holds one array where it wants that array, an
array of one. A plain reply is the value of the schema's only field: thoughts and an outer fence go.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator, ValidationError

ReplyForm = Literal["json", "text", "integer"]
"""What a reply is: JSON of the schema, or the plain text or whole number of its only field."""

MAX_STARTS = 40
"""Places in a reply at which JSON is looked for."""

MAX_REPAIR_CHARS, MAX_REPAIR_BRACKETS = 200_000, 2000
"""What is longer, or opens more brackets, is read as JSON only: repair takes quadratic time."""

_THOUGHT = re.compile(r"\A.*</think>", re.DOTALL)
"""What a model thought before its reply; some servers leave out the opening tag."""
_UNENDED_THOUGHT = re.compile(r"\A\s*<think>")
_OUTER_FENCE = re.compile(r"\A\s*```[\w-]*[ \t]*\n((?:(?!```).)*)```\s*\Z", re.DOTALL)
_NUMBER = re.compile(r"[-+]?\d+(?:[.,]\d+)*")
_MARKS = r"[\s*_\"'`()\[\]{}]"
_ONLY_NUMBER = re.compile(
    rf"{_MARKS}*(?:[^\W\d_][^\d\n:：=]{{0,40}}[:：=]{_MARKS}*)?({_NUMBER.pattern})(?:{_MARKS}|\.)*"
)
"""A number, perhaps after a name of it (``**Score:** 3``), perhaps in marks."""
_FENCE = re.compile(r"```[\w-]*[ \t]*\n?(.*?)(?:```|\Z)", re.DOTALL)
_OPENER = re.compile(r"[{\[]")
_CLOSERS = {"{": "}", "[": "]"}
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_SPACES = dict.fromkeys("nrtbf", " ")
_WORD = re.compile(r"\w+")
_DECODER = json.JSONDecoder(strict=False)

_WANTED = {
    "object": "an_object",
    "array": "a_list",
    "string": "a_text",
    "number": "a_number",
    "integer": "a_number",
    "boolean": "a_boolean",
}
_REASONS = {
    "enum": "is_not_an_allowed_value",
    "minimum": "is_out_of_range",
    "maximum": "is_out_of_range",
    "minLength": "is_too_short",
    "maxLength": "is_too_long",
    "minItems": "has_too_few_items",
    "maxItems": "has_too_many_items",
}


class MalformedReplyError(ValueError):
    """No value fits the schema; the text is a reason code: where and why, without the reply."""


def parse_reply(text: str, schema: Mapping[str, Any], form: ReplyForm = "json") -> Any:
    """Return the first value in a reply that fits a JSON schema.

    Looked at in turn: JSON (the whole reply, then what starts at each opening bracket), in the code
    fences and in the reply; then the same as almost-JSON. Text around the value is ignored.

    Around a plain ``text`` nothing is but white space; around an ``integer`` there may be marks and
    a name of it (``Score: 3``), and no other word or number. Its value fills the schema's only
    field.

    Raises
    ------
    MalformedReplyError
        With the reason of the first value that did not fit, or ``no_json``; of a plain reply
        ``empty_reply``, ``thoughts_alone``, ``no_number``, ``several_numbers`` or
        ``words_beside_the_number``.
    """
    reply = _THOUGHT.sub("", text, count=1)
    if form != "json":
        (field,) = schema["properties"]
        return fit({field: _plain(reply, form)}, schema)
    reason = ""
    for value in _values(reply):
        try:
            return fit(value, schema)
        except MalformedReplyError as error:
            reason = reason or str(error)
    raise MalformedReplyError(reason or "no_json")


def fit(value: Any, schema: Mapping[str, Any]) -> Any:
    """Return a value in the schema's shape.

    Raises
    ------
    MalformedReplyError
        If it does not fit.
    """
    shaped = _shaped(value, schema)
    error = next(_validator(json.dumps(schema)).iter_errors(shaped), None)
    if error is not None:
        raise MalformedReplyError(_reason(error))
    return shaped


def _plain(reply: str, form: ReplyForm) -> str:
    """Return what a plain reply says, as it was written."""
    if _UNENDED_THOUGHT.match(reply):
        raise MalformedReplyError("thoughts_alone")
    text = _OUTER_FENCE.sub(r"\1", reply).strip()
    if not text:
        raise MalformedReplyError("empty_reply")
    if form == "text":
        return text
    if (found := _ONLY_NUMBER.fullmatch(text)) is not None:
        return found[1]
    n = len(_NUMBER.findall(text))
    reasons = {0: "no_number", 1: "words_beside_the_number"}
    raise MalformedReplyError(reasons.get(n, "several_numbers"))


def _values(text: str) -> Iterator[Any]:
    """Yield the values a reply may mean, the likeliest first."""
    try:
        whole = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        whole = None
    if isinstance(whole, dict | list):
        yield whole
    parts = [*(fence.group(1) for fence in _FENCE.finditer(text)), text]
    for part in parts:
        yield from _json_inside(part)
    for part in parts:
        yield from _repaired(part)


def _json_inside(text: str) -> Iterator[Any]:
    at = 0
    for _ in range(MAX_STARTS):
        opener = _OPENER.search(text, at)
        if not opener:
            return
        try:
            value, at = _DECODER.raw_decode(text, opener.start())
        except (ValueError, RecursionError):
            at = opener.end()
            continue
        yield value


def _repaired(text: str) -> Iterator[Any]:
    """Yield what is between the outermost brackets, repaired; not if that would change it."""
    import json_repair

    opener = _OPENER.search(text)
    start, end = (opener.start(), text.rfind(_CLOSERS[opener[0]]) + 1) if opener else (0, 0)
    if not start < end <= start + MAX_REPAIR_CHARS or _OPENER.search(text, end):
        return
    inside = text[start:end]
    if len(_OPENER.findall(inside)) > MAX_REPAIR_BRACKETS:
        return
    try:
        value = json_repair.loads(inside, skip_json_loads=True)
        value = json.loads(json.dumps(value))  # joins the halves of surrogate pairs
    except (ValueError, RecursionError):
        return
    if not _words(inside) - _words(json.dumps(value)):
        yield value


def _words(text: str) -> Counter[str]:
    """Count the words of a JSON text: the 3 of ``{"grade": 3 or 4}`` is not what was meant."""
    text = _ESCAPE.sub(_unescaped, _COMMENT.sub(" ", text)).replace("None", "null")
    return Counter(_WORD.findall(text.casefold()))


def _unescaped(found: re.Match[str]) -> str:
    code = found[1]
    return chr(int(code[1:], 16)) if len(code) == 5 else _SPACES.get(code, code)


def _shaped(value: Any, schema: Mapping[str, Any]) -> Any:
    """Bring a value nearer to the schema's shape, where that keeps its meaning."""
    given = schema.get("type", [])
    kinds = [given] if isinstance(given, str) else given
    if value is None and "null" in kinds:
        return None
    if "object" in kinds:
        return _shaped_object(value, schema.get("properties", {}))
    if "array" in kinds:
        if isinstance(value, dict):
            lists = [inner for inner in value.values() if isinstance(inner, list)]
            value = lists[0] if len(lists) == 1 else [value]
        items = schema.get("items", {})
        return [_shaped(v, items) for v in value] if isinstance(value, list) else value
    if "enum" in schema:
        word = str(value).strip().rstrip(".").lower()
        return next((one for one in schema["enum"] if str(one).lower() == word), value)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return value
    if "string" in kinds:
        return str(value).strip()
    if "boolean" in kinds:
        return {"true": True, "false": False}.get(str(value).strip().lower(), value)
    return _number(value) if {"integer", "number"} & set(kinds) else value


def _shaped_object(value: Any, properties: Mapping[str, Mapping[str, Any]]) -> Any:
    if isinstance(value, list):
        known = {name.lower() for name in properties}
        arrays = [name for name, inner in properties.items() if inner.get("type") == "array"]
        if len(value) == 1 and isinstance(value[0], dict) and known & _by_name(value[0]).keys():
            value = value[0]
        elif len(arrays) == 1:
            value = {arrays[0]: value}
    if not isinstance(value, dict):
        return value
    by_name = _by_name(value) | value
    return {
        name: _shaped(by_name.get(name, by_name.get(name.lower())), inner)
        for name, inner in properties.items()
        if name in by_name or name.lower() in by_name
    }


def _by_name(value: Mapping[str, Any]) -> dict[str, Any]:
    return {str(name).strip().lower(): inner for name, inner in value.items()}


def _number(value: str | float) -> Any:
    """Return a number that JSON can hold, whole where it is; else what it is, as a text."""
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return value
    if not math.isfinite(number):
        return str(value)
    return int(number) if number.is_integer() else number


@lru_cache(maxsize=64)
def _validator(schema: str) -> "Draft202012Validator":
    from jsonschema import Draft202012Validator

    return Draft202012Validator(json.loads(schema))


def _reason(error: "ValidationError") -> str:
    where = next((str(p) for p in reversed(error.absolute_path) if isinstance(p, str)), "reply")
    if error.validator == "required":
        missing = [name for name in error.validator_value if name not in error.instance]
        return f"{missing[0]}_is_missing"
    if error.validator == "type":
        kinds = error.validator_value
        kind = kinds if isinstance(kinds, str) else kinds[0]
        if kind == "integer" and isinstance(error.instance, float):
            return f"{where}_is_not_whole"
        return f"{where}_is_not_{_WANTED[kind]}"
    return f"{where}_{_REASONS.get(str(error.validator), f'breaks_{error.validator}')}"
