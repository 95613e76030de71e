"""Parse a reply that is JSON, almost JSON, or plain, and check it against its schema.

These rules decide which part of a reply counts:

1. Only the message's content is read, never a server's ``reasoning_content`` or ``reasoning``. 2.
Thoughts are removed, of any model's format and in any case: the text between an opening and a
   closing marker; all text before a closing marker without an opening one; and all channels except
   ``final``. A thought that never closes makes the reply malformed (``thoughts_alone``). A marker
   inside a JSON value is text. In running text, a pair of markers after other words is text, too.
3. All values in the rest that fit the schema must be equal; otherwise the reply is malformed
   (``several_values``). The same holds if a value is followed by the beginning of another one that
   cannot be read. The order of values does not decide: a model that drafts means its last value, a
   model that continues with an invented question means its first. Another sample replaces a
   malformed reply.

Deviations that do not change a reply's meaning are accepted. In its form: prose and fences around
it, and almost-JSON (`json_repair`), unless it ends early or loses a word. In its shape: unknown
keys (dropped), another case of keys and enum values, numbers as strings, an array instead of an
object with one array, an object with one array instead of that array, an array of one value instead
of the value. A plain reply is the value of the schema's only field, without thoughts and an outer
fence.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator, ValidationError

ReplyForm = Literal["json", "text", "integer"]
"""Form of a reply: JSON of the schema, or the plain text or whole number of its only field."""

MAX_SCANNED_CHARS, START_CHARS, NESTED_CHARS = 20_000_000, 100, 1_000_000
"""Characters of a reply that are searched for JSON, where repeated reading counts repeatedly. The
second number is the least count of each attempt at a bracket, the third the count of an attempt
that fails because brackets are nested too deep."""

MAX_REPAIR_CHARS, MAX_REPAIR_BRACKETS = 200_000, 2000
"""A longer text, or one with more opening brackets, is parsed as JSON only: repair is quadratic."""

_THOUGHT = (
    r"(?:think(?:ing)?|thoughts?|reason(?:ing)?|reflection|scratchpad|analysis|monologue|cot"
    r"|inner[ _-](?:monologue|thoughts?)|chain[ _-]of[ _-]thoughts?)"
)
_MARKER = re.compile(
    rf"""
    (?P<closing>
        <\s?/\s?(?:\w{{1,20}}:)?{_THOUGHT}(?:_\w{{1,20}})?\s?>  # DeepSeek, Qwen, EXAONE, Seed ...
      | \[/{_THOUGHT}\]  # Magistral
      | ◁/{_THOUGHT}▷  # Kimi
      | <\|(?:end(?:_of)?_|/){_THOUGHT}\|>  # Cohere, OpenThinker
      | <\|inner_suffix\|> | <channel\|> | <unused95>  # Apertus, Gemma, MedGemma
      | <\|content\|>  # Solar
      | \[BEGIN\ FINAL\ RESPONSE\]  # Apriel
      | assistantfinal  # gpt-oss behind a server that drops special tokens
    )
  | (?P<opening>
        <\s?(?:\w{{1,20}}:)?{_THOUGHT}(?:_\w{{1,20}})?(?:\s[^<>/]{{0,80}})?>
      | \[{_THOUGHT}\]
      | ◁{_THOUGHT}▷
      | <\|(?:(?:begin|start)(?:_of)?_)?{_THOUGHT}\|>
      | <\|inner_prefix\|> | <\|channel>thought | <unused94>(?:thought)?
      | \A\s*(?-i:analysis)(?=(?-i:[^\Wa-z_\d]))  # as assistantfinal: "analysisWe need ..."
    )
    """,
    re.VERBOSE | re.IGNORECASE,
)
_THOUGHT_PROCESS = re.compile(r"\s*Here(?: is|['’]s) my thought process:", re.IGNORECASE)
_RESPONSE = re.compile(r"Here(?: is|['’]s) my response:", re.IGNORECASE)
"""Granite's markers are words, which count only at the start of a reply and together."""
_HEADER = re.compile(
    r"(?P<header><\|channel\|>\s*(?P<channel>\w+)[^<]{0,200}(?:<\|constrain\|>[^<]{0,80})?"
    r"<\|message\|>)|<\|(?:start|end|return|call|channel)\|>",
    re.IGNORECASE,
)
"""Beginning or end of a message of gpt-oss (cookbook.openai.com/articles/openai-harmony)."""
_ENDS_OF_TURN = (
    *("<|return|>", "<|end|>", "<|im_end|>", "<|eot_id|>", "<|end_of_text|>", "<|endoftext|>"),
    *("</s>", "<end_of_turn>", "[END FINAL RESPONSE]"),
)
_AROUND = {
    "<|begin_of_box|>": "<|end_of_box|>",
    "<|begin_of_solution|>": "<|end_of_solution|>",
    "<|START_RESPONSE|>": "<|END_RESPONSE|>",
}
"""Tags that GLM, OpenThinker and Cohere's models put around a reply."""
_AROUND_AFTER_THOUGHTS = {
    f"<{name}>": f"</{name}>" for name in ("answer", "response", "output", "final_answer")
}
"""Tags that Hunyuan, Granite and ERNIE put around a reply after their thoughts."""
_OUTER_FENCE = re.compile(r"\A\s*```[\w-]*[ \t]*\n((?:(?!```).)*)```\s*\Z", re.DOTALL)
_NUMBER = re.compile(r"[-+]?\d+(?:[.,]\d+)*")
_MARKS = r"[\s*_\"'`()\[\]{}]"
_ONLY_NUMBER = re.compile(
    rf"{_MARKS}*(?:[^\W\d_][^\d\n:：=]{{0,40}}[:：=]{_MARKS}*)?({_NUMBER.pattern})(?:{_MARKS}|\.)*"
)
"""A number, maybe after a label (``**Score:** 3``), maybe in quotes or other marks."""
_FENCE = re.compile(r"```[\w-]*[ \t]*\n?(.*?)(?:```|\Z)", re.DOTALL)
_OPENER = re.compile(r"[{\[]")
_CLOSERS = {"{": "}", "[": "]"}
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_SPACES = dict.fromkeys("nrtbf", " ")
_WORD = re.compile(r"\w+")


class _Repeated(dict[str, Any]):
    """An object with a key that occurs twice, with two values."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) < len(pairs) and any(_differ(unique[name], value) for name, value in pairs):
        return _Repeated(unique)
    return unique


def _differ(one: Any, other: Any) -> bool:
    return one is not other and one != other  # NaN equals itself here


_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=_object)

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


ONLY_THOUGHTS, SEVERAL_VALUES = "thoughts_alone", "several_values"


class MalformedReplyError(ValueError):
    """No value fits the schema; the text is a reason code, without the reply's text."""


def parse_reply(text: str, schema: Mapping[str, Any], form: ReplyForm = "json") -> Any:
    """Return the value in a reply that fits a JSON schema.

    If no JSON in the reply fits, its code fences and the whole reply are parsed as almost-JSON.
    Text around the value is ignored.

    A plain ``text`` may have only white space around it. An ``integer`` may have marks and a label
    (``Score: 3``), but no other word or number. It fills the schema's only field.

    Raises
    ------
    MalformedReplyError
        ``thoughts_alone``; ``several_values``; ``too_many_brackets`` if trying each bracket takes
        too long; the reason of the first value that did not fit, or ``no_json``; for a plain reply
        ``empty_reply``, ``no_number``, ``several_numbers`` or ``words_beside_the_number``.
    """
    reply = without_thoughts(text, form)
    if form != "json":
        (field,) = schema["properties"]
        return fit({field: _plain(reply, form)}, schema)
    try:
        whole = _DECODER.decode(reply)
    except (ValueError, RecursionError):
        whole = None
    if isinstance(whole, dict | list):
        return fit(whole, schema)
    reasons = list[str]()
    spans = list(_json_spans(reply))
    if not (fitting := _fitting((span for span in spans if span.value), schema, reasons)):
        fitting = _fitting(spans, schema, reasons)  # also empty values, such as []
    if fitting:
        value = _only([value for _, value in fitting])
        rest = reply[fitting[-1][0].end :]
        if _opening_of(tuple(schema.get("properties", ()))).search(rest):
            others = _fitting(_repaired(rest), schema, reasons)
            if [other for _, other in others] != [value]:
                raise MalformedReplyError(SEVERAL_VALUES)
        return value
    texts = [*(fence.group(1) for fence in _FENCE.finditer(reply)), reply]
    almost = [span for text in texts for span in _repaired(text)]
    if fitting := _fitting(almost, schema, reasons):
        return _only([value for _, value in fitting])
    raise MalformedReplyError(next(iter(reasons), "no_json"))


def without_thoughts(text: str, form: ReplyForm = "json") -> str:
    """Return a reply without thoughts and without the tags that models put around replies.

    Raises
    ------
    MalformedReplyError
        ``thoughts_alone`` if a thought never closes; ``too_many_brackets``.
    """
    reply = _outside_thoughts(_final_channel(text), form)
    if form == "json":
        return reply
    around = _AROUND if reply == text else _AROUND | _AROUND_AFTER_THOUGHTS
    return _unwrapped(reply, around)


def has_thoughts(text: str, form: ReplyForm = "json") -> bool:
    """Return whether a reply has thoughts to be removed."""
    try:
        return _outside_thoughts(_final_channel(text), form) != text
    except MalformedReplyError:
        return True


def _final_channel(text: str) -> str:
    """Return the messages in the channel `final`; the whole text if it has no channels."""
    markers = _markers(_HEADER, text)
    if not any(marker["header"] for marker in markers):
        return text
    ends = [*(marker.start() for marker in markers[1:]), len(text)]
    final = [
        text[marker.end() : end]
        for marker, end in zip(markers, ends, strict=True)
        if marker["header"] and marker["channel"].lower() == "final"
    ]
    if not final:
        raise MalformedReplyError(ONLY_THOUGHTS)
    return "\n".join(final)


def _outside_thoughts(text: str, form: ReplyForm) -> str:
    if _THOUGHT_PROCESS.match(text) and (phrases := _markers(_RESPONSE, text)):
        text = text[phrases[-1].end() :]
    kept, at = list[str](), 0
    is_thought = is_quoted = False
    for marker in _markers(_MARKER, text):
        if is_quoted:
            is_quoted = not marker["closing"]
        elif marker["closing"]:
            if not is_thought:
                kept.clear()
            at, is_thought = marker.end(), False
        elif not is_thought:
            before = text[at : marker.start()]
            is_quoted = form == "text" and bool("".join([*kept, before]).strip())
            is_thought = not is_quoted
            if is_thought:
                kept.append(before)
    if is_thought:
        raise MalformedReplyError(ONLY_THOUGHTS)
    return "\n".join([*kept, text[at:]])


def _markers(pattern: re.Pattern[str], text: str) -> list[re.Match[str]]:
    """Return the matches of a pattern that are not inside a JSON value."""
    matches = list(pattern.finditer(text))
    if not matches:
        return []
    spans = [*_json_spans(text), None]
    outside, i = [], 0
    for match in matches:
        while (span := spans[i]) is not None and span.end <= match.start():
            i += 1
        if span is None or match.start() < span.start:
            outside.append(match)
    return outside


def _unwrapped(text: str, around: Mapping[str, str]) -> str:
    """Remove markers at the end of a turn, and one pair of tags around the reply."""
    text = text.strip()
    while (end := next((end for end in _ENDS_OF_TURN if text.endswith(end)), None)) is not None:
        text = text.removesuffix(end).rstrip()
    for opening, closing in around.items():
        if text[: len(opening)].lower() == opening.lower():
            text = text[len(opening) :]
            has_end = text[-len(closing) :].lower() == closing.lower()
            return text[: -len(closing)] if has_end else text
    return text


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
    """Return the text of a plain reply."""
    text = _OUTER_FENCE.sub(r"\1", reply).strip()
    if not text:
        raise MalformedReplyError("empty_reply")
    if form == "text":
        return text
    if (match := _ONLY_NUMBER.fullmatch(text)) is not None:
        return match[1]
    n = len(_NUMBER.findall(text))
    reasons = {0: "no_number", 1: "words_beside_the_number"}
    raise MalformedReplyError(reasons.get(n, "several_numbers"))


@dataclass(frozen=True)
class _Span:
    """A value in a text, and its position."""

    start: int
    end: int
    value: Any


def _json_spans(text: str) -> Iterator[_Span]:
    """Yield the JSON objects and arrays in a text, in order, except those inside another."""
    at = n_scanned = 0
    while (opener := _OPENER.search(text, at)) is not None:
        start = opener.start()
        try:
            value, at = _DECODER.raw_decode(text, start)
            yield _Span(start, at, value)
            n_scanned += at - start
        except json.JSONDecodeError as error:
            at = opener.end()
            n_scanned += error.pos - start + error.pos // 10  # creating the error counts lines
        except (ValueError, RecursionError):
            at = opener.end()
            n_scanned += NESTED_CHARS
        n_scanned += START_CHARS
        if n_scanned > MAX_SCANNED_CHARS:
            raise MalformedReplyError("too_many_brackets")


def _repaired(text: str) -> Iterator[_Span]:
    """Yield the repaired value between the outermost brackets, unless repair loses words."""
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
        value = json.loads(json.dumps(value))  # joins surrogate pairs
    except (ValueError, RecursionError):
        return
    if not _words(inside) - _words(json.dumps(value)):
        yield _Span(start, end, value)


def _fitting(
    spans: Iterable[_Span], schema: Mapping[str, Any], reasons: list[str]
) -> list[tuple[_Span, Any]]:
    """Return the values that fit, in the schema's shape; add the others' reasons to ``reasons``."""
    fitting = []
    for span in spans:
        try:
            fitting.append((span, fit(span.value, schema)))
        except MalformedReplyError as error:
            if str(error) == SEVERAL_VALUES:
                raise
            reasons.append(str(error))
    return fitting


def _only(values: Sequence[Any]) -> Any:
    if any(value != values[0] for value in values):
        raise MalformedReplyError(SEVERAL_VALUES)
    return values[0]


@lru_cache(maxsize=64)
def _opening_of(names: tuple[str, ...]) -> re.Pattern[str]:
    """Match the beginning of an object with one of several keys."""
    keys = "|".join(map(re.escape, names)) or r"(?!)"
    return re.compile(rf"[{{\[]\s*[\"'“]?(?:{keys})[\"'”]?\s*[:：=]", re.IGNORECASE)


def _words(text: str) -> Counter[str]:
    """Count the words of a JSON text: repairing ``{"grade": 3 or 4}`` to 3 would lose two."""
    text = _ESCAPE.sub(_unescaped, _COMMENT.sub(" ", text)).replace("None", "null")
    return Counter(_WORD.findall(text.casefold()))


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code[1:], 16)) if len(code) == 5 else _SPACES.get(code, code)


def _shaped(value: Any, schema: Mapping[str, Any]) -> Any:
    """Bring a value closer to the schema's shape if that keeps its meaning."""
    declared = schema.get("type", [])
    kinds = [declared] if isinstance(declared, str) else declared
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
        return next((each for each in schema["enum"] if str(each).lower() == word), value)
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
    if isinstance(value, _Repeated) or _differ_in_case(value, properties):
        raise MalformedReplyError(SEVERAL_VALUES)
    return {
        name: _shaped(by_name.get(name, by_name.get(name.lower())), inner)
        for name, inner in properties.items()
        if name in by_name or name.lower() in by_name
    }


def _differ_in_case(value: Mapping[str, Any], names: Iterable[str]) -> bool:
    """Return whether an object has one of the names in two spellings, with two values."""
    wanted, last = set(map(str.lower, names)), _by_name(value)
    folded = ((str(name).strip().lower(), inner) for name, inner in value.items())
    return any(name in wanted and _differ(inner, last[name]) for name, inner in folded)


def _by_name(value: Mapping[str, Any]) -> dict[str, Any]:
    return {str(name).strip().lower(): inner for name, inner in value.items()}


def _number(value: str | float) -> Any:
    """Return a number that JSON allows, as an integer if whole; otherwise the value or its text."""
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
