"""Fitting a parsed reply to its JSON schema, forgiving what does not change its meaning.

Understood are the keywords a response schema needs: type, properties, required, items, enum,
minimum, maximum, minItems, maxItems, minLength. Forgiven are: unknown keys (dropped), another
case in keys and enum values, numbers as strings, an array where the schema wants an object that
holds one array, an object that holds one array where it wants that array, and an array of one.
"""

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]


class MisfitError(ValueError):
    """The value does not fit; the text says where and why, without quoting the reply."""


def fit(value: Any, schema: Schema, *, where: str = "reply") -> Any:
    """Return the value in the schema's shape.

    Raises
    ------
    MisfitError
        If it does not fit.
    """
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else list(kinds)
    if value is None and "null" in kinds:
        return None
    if "object" in kinds:
        return _fit_object(value, schema, where)
    if "array" in kinds:
        return _fit_array(value, schema, where)
    if "enum" in schema:
        return _fit_enum(value, schema["enum"], where)
    if "integer" in kinds or "number" in kinds:
        return _fit_number(value, schema, where, is_integer="number" not in kinds)
    if "boolean" in kinds:
        return _fit_boolean(value, where)
    if "string" in kinds:
        return _fit_string(value, schema, where)
    return value


def _fit_object(value: Any, schema: Schema, where: str) -> dict[str, Any]:
    properties: Schema = schema.get("properties", {})
    if isinstance(value, list):
        value = _object_of_list(value, properties, where)
    if not isinstance(value, dict):
        raise MisfitError(f"{where}_is_not_an_object")
    by_name = {str(name).strip().lower(): inner for name, inner in value.items()}
    fitted = {}
    for name, inner in properties.items():
        if name in value or name.lower() in by_name:
            given = value.get(name, by_name.get(name.lower()))
            fitted[name] = fit(given, inner, where=name)
        elif name in schema.get("required", ()):
            raise MisfitError(f"{name}_is_missing")
    return fitted


def _object_of_list(value: list[Any], properties: Schema, where: str) -> Any:
    arrays = [name for name, inner in properties.items() if inner.get("type") == "array"]
    if len(value) == 1 and isinstance(value[0], dict):
        names = {str(name).strip().lower() for name in value[0]}
        if names & {name.lower() for name in properties}:
            return value[0]
    if len(arrays) == 1:
        return {arrays[0]: value}
    raise MisfitError(f"{where}_is_a_list")


def _fit_array(value: Any, schema: Schema, where: str) -> list[Any]:
    if isinstance(value, dict):
        lists = [inner for inner in value.values() if isinstance(inner, list)]
        value = lists[0] if len(lists) == 1 else [value]
    if not isinstance(value, list):
        raise MisfitError(f"{where}_is_not_a_list")
    if len(value) < schema.get("minItems", 0):
        raise MisfitError(f"{where}_has_too_few_items")
    if len(value) > schema.get("maxItems", len(value)):
        raise MisfitError(f"{where}_has_too_many_items")
    return [fit(inner, schema.get("items", {}), where=where) for inner in value]


def _fit_enum(value: Any, allowed: list[Any], where: str) -> Any:
    for one in allowed:
        if value == one and isinstance(value, bool) == isinstance(one, bool):
            return one
    for one in allowed:
        if str(value).strip().rstrip(".").lower() == str(one).lower():
            return one
    raise MisfitError(f"{where}_is_not_an_allowed_value")


def _fit_number(value: Any, schema: Schema, where: str, *, is_integer: bool) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise MisfitError(f"{where}_is_not_a_number")
    try:
        number = float(value)
        if is_integer and number != int(number):
            raise MisfitError(f"{where}_is_not_whole")
        fitted = int(number) if is_integer else number
    except (ValueError, OverflowError) as error:
        if isinstance(error, MisfitError):
            raise
        raise MisfitError(f"{where}_is_not_a_number") from None
    if not schema.get("minimum", fitted) <= fitted <= schema.get("maximum", fitted):
        raise MisfitError(f"{where}_is_out_of_range")
    return fitted


def _fit_boolean(value: Any, where: str) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word not in ("true", "false"):
        raise MisfitError(f"{where}_is_not_a_boolean")
    return word == "true"


def _fit_string(value: Any, schema: Schema, where: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise MisfitError(f"{where}_is_not_a_text")
    text = str(value).strip()
    if len(text) < schema.get("minLength", 0):
        raise MisfitError(f"{where}_is_too_short")
    return text
