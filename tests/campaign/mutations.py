"""Seeded mutations of good files: bytes, encodings, types, sizes, nesting, numbers, ids."""

import copy
import gzip
import io
import json
import random
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

NUMBERS = (
    *(0, -1, -3, 1, 2, 0.5, -0.0, 1e-320, 1e39, 1e308, 2**31, 2**53 + 1, 2**63, 2**64, -(2**63)),
    *(10**30, 10**400, float("nan"), float("inf"), float("-inf"), True, False),
)
TEXTS = (
    *("", " ", "\n", "\t", "\0", "\ud800", "\udfff\ud800", "\x1b[31m", "\u202eabc", "\u2028", "é"),
    *("😀", "\u0661", "1_0", "0x10", "nan", "inf", "null", "-1", "1e999", "../../x", "/etc/passwd"),
    *("~", "$HOME", "{x}", "{{ x }}", "*", "[a]", "q0", "d0", "none", "all", "sk-" + "a" * 20),
    *("a" * 100, "a" * 100_000, "9" * 5000, "=1+1", "http://localhost:1/?key=sk-" + "b" * 20),
)
NOT_OF_THE_KIND = (pa.ArrowException, yaml.YAMLError, RecursionError, OverflowError)
PLAIN = (*NUMBERS, *TEXTS, None)


def mutated(data: bytes, kind: str, rng: random.Random) -> bytes:
    """Return bytes with one to three mutations; ``kind`` is what they hold: a key of `INSIDE`."""
    if kind.endswith(".gz"):
        if rng.random() < 0.3:
            return _bytes(data, rng)
        inner = mutated(gzip.decompress(data), kind.removesuffix(".gz"), rng)
        return gzip.compress(inner, compresslevel=1)
    for _ in range(rng.choice((1, 1, 2, 3))):
        change = INSIDE.get(kind, _text)
        try:
            data = rng.choice((change, change, change, _text, _bytes))(data, rng)
        except (ValueError, TypeError, LookupError, OSError, *NOT_OF_THE_KIND):
            data = _bytes(data, rng)  # what is no longer of the kind
    return data


# --- bytes, and text as text -------------------------------------------------------------------


def _bytes(data: bytes, rng: random.Random) -> bytes:
    changed, place = bytearray(data), rng.randrange(len(data) + 1)
    span = rng.choice((1, 2, 16, 200))
    match rng.randrange(7):
        case 0:
            for _ in range(span):
                if changed:
                    changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        case 1:
            del changed[place : place + span]
        case 2:
            del changed[place:]
        case 3:
            changed[place:place] = rng.randbytes(span)
        case 4:
            changed[place:place] = changed[place : place + span] * rng.choice((1, 50))
        case 5:
            changed[place:place] = rng.choice((b"\0", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf"))
        case 6:
            return rng.choice((b"", b"\0" * 99, b"%PDF-1.7", b"PAR1", b"\x1f\x8b", b"\xff" * 50))
    return bytes(changed)


def _text(data: bytes, rng: random.Random) -> bytes:
    text = data.decode()
    lines = text.splitlines(keepends=True) or [""]
    place = rng.randrange(len(lines))
    match rng.randrange(9):
        case 0:
            return text.encode(rng.choice(("utf-16", "utf-32", "utf-8-sig", "utf-7")))
        case 1:
            return text.replace("\n", rng.choice(("\r\n", "\r", "\n\n", "\x0b"))).encode()
        case 2:
            lines.insert(place, lines[rng.randrange(len(lines))])
        case 3:
            del lines[place]
        case 4:
            lines[place] *= rng.choice((3, 2000))
        case 5:
            lines[place] = lines[place][: rng.randrange(len(lines[place]) + 1)]
        case 6:
            rng.shuffle(lines)
        case _:  # a number or a word becomes another
            words = [i for i, c in enumerate(text) if c.isalnum() and not text[i - 1].isalnum()]
            if words:
                start = rng.choice(words)
                end = next((i for i in range(start, len(text)) if not text[i].isalnum()), len(text))
                new = str(rng.choice(PLAIN)) if rng.random() < 0.9 else "[" * 100_000
                return (text[:start] + new + text[end:]).encode("utf-8", "surrogatepass")
    return "".join(lines).encode()


# --- trees: JSON, YAML --------------------------------------------------------------------------


def _places(tree: object) -> list[tuple[object, object]]:
    """Return (container, key) of every value in a tree."""
    found, todo = [], [tree]
    while todo:
        at = todo.pop()
        keys = at if isinstance(at, dict) else range(len(at)) if isinstance(at, list) else ()
        for key in list(keys):
            found.append((at, key))
            todo.append(at[key])
    return found


def changed_tree(tree: object, rng: random.Random) -> object:  # noqa: C901 - a list of cases
    """Return plain data with one value changed."""
    top = [copy.deepcopy(tree)]
    places = _places(top)
    at, key = rng.choice(places)
    value = at[key]
    match rng.randrange(10):
        case 0 | 1 | 2:
            at[key] = rng.choice(PLAIN)
        case 3:
            at[key] = rng.choice(([], {}, [[]], {"": {}}, [value], {"a": value}, [value, value]))
        case 4 if not isinstance(at, list) or at is not top:
            del at[key]
        case 5:
            for _ in range(rng.choice((3, 60, 900))):
                at[key] = [at[key]] if rng.random() < 0.5 else {"a": at[key]}
        case 6:
            other, name = rng.choice(places)
            at[key] = copy.deepcopy(other[name])
        case 7 if isinstance(at, dict):
            at[str(rng.choice(PLAIN))] = at.pop(key)
        case 8 if isinstance(value, list) and value:
            at[key] = value * rng.choice((2, 300))
        case 9 if isinstance(value, int | float) and not isinstance(value, bool):
            at[key] = rng.choice((-value, value + 1, value * 10**9, str(value), value / 3))
        case _ if isinstance(value, str) and value:
            half = rng.randrange(len(value))
            at[key] = value[:half] + rng.choice((*TEXTS, value[half:].upper()))
        case _:
            at[key] = rng.choice(PLAIN)
    return top[0]


def _json(data: bytes, rng: random.Random) -> bytes:
    return json.dumps(changed_tree(json.loads(data), rng)).encode()


def _json_lines(data: bytes, rng: random.Random) -> bytes:
    lines = data.splitlines()
    place = rng.randrange(len(lines))
    lines[place] = _json(lines[place], rng)
    return b"\n".join([*lines, b""])


def _yaml(data: bytes, rng: random.Random) -> bytes:
    tree = changed_tree(yaml.safe_load(data), rng)
    return yaml.safe_dump(tree, allow_unicode=False).encode()


# --- Parquet --------------------------------------------------------------------------------------


def _parquet(data: bytes, rng: random.Random) -> bytes:  # noqa: C901 - a list of cases
    table = pq.read_table(io.BytesIO(data))
    metadata = dict(table.schema.metadata or {})
    if metadata and rng.random() < 0.3:
        key = rng.choice(sorted(metadata))
        metadata[key] = mutated(metadata[key], "json", rng)
        return _stored(table.replace_schema_metadata(metadata))
    place = rng.randrange(table.num_columns)
    name, column = table.column_names[place], table.column(place)
    values = column.to_pylist()
    match rng.randrange(9):
        case 0:
            table = table.drop_columns([name])
        case 1:
            table = table.append_column(name, column)
        case 2:
            names = list(table.column_names)
            names[place] = str(rng.choice(TEXTS)).encode("utf-8", "replace").decode()
            table = table.rename_columns(names)
        case 3:
            rows = rng.choice((0, 1, 500))
            table = pa.concat_tables([table] * rows) if rows else table.slice(0, 0)
        case 4:
            table = table.set_column(place, name, pa.array([None] * len(values), column.type))
        case 5:
            kind = rng.choice((pa.string(), pa.int64(), pa.float64(), pa.binary(), pa.bool_()))
            table = table.set_column(place, name, pa.array([_as(v, kind) for v in values], kind))
        case 6:
            table = table.set_column(place, name, pa.array([[value] for value in values]))
        case 7:
            own = [value for value in PLAIN if isinstance(value, type(values[0]))] or values
            values[rng.randrange(len(values))] = rng.choice([*own, None])
            table = table.set_column(place, name, pa.array(values, column.type))
        case 8 if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            raw = [b"\xff" + str(value).encode() for value in values]
            table = table.set_column(place, name, pa.array(raw, pa.binary()).view(pa.string()))
        case _:
            values.reverse()
            table = table.set_column(place, name, pa.array(values, column.type))
    return _stored(table.replace_schema_metadata(metadata))


def _as(value: object, kind: pa.DataType) -> object:
    text = str(value)
    if pa.types.is_string(kind):
        return text
    if pa.types.is_binary(kind):
        return text.encode()
    return bool(len(text) % 2) if pa.types.is_boolean(kind) else len(text)


def _stored(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


INSIDE: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "json": _json,
    "jsonl": _json_lines,
    "yaml": _yaml,
    "parquet": _parquet,
    "binary": _bytes,
    "text": _text,
}
