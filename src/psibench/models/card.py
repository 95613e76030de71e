"""The example that a model card prints: similarities of a few texts, which an entry must repeat.

Read is what cannot be misread: one block of Python whose texts are literals, encoded by
sentence-transformers' `encode`, `encode_query` or `encode_document`, compared by `similarity`, the
matrix as a comment right behind it, of one number per pair. Of anything else nothing is read.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from psibench.config.model_base import EncoderModel
from psibench.models.load import load_encoder
from psibench.models.protocols import Role

BLOCK = re.compile(r"```python\s*\n(.*?)```", re.DOTALL)
NUMBER = re.compile(r"-?\d+\.\d+(?:e[-+]?\d+)?")
ROLES: dict[str, Role] = {"encode_query": "query", "encode_document": "document"}
UNREADABLE = (SyntaxError, ValueError, TypeError, MemoryError, RecursionError)
"""What Python's parser raises at text that is no code, or is nested without end."""
TOLERANCE = 0.01
"""Cards print two to four digits, of vectors that were made in another number format."""


@dataclass(frozen=True)
class Example:
    """Texts of the rows and columns of a printed (n_rows, n_columns) matrix of similarities.

    A role of None: encoded as they are, without a prompt.
    """

    texts: tuple[list[str], list[str]]
    roles: tuple[Role | None, Role | None]
    printed: np.ndarray


def read_example(folder: Path) -> Example | None:
    """Read the first example of a checkpoint's README.md; None if it prints none."""
    path = folder / "README.md"
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    for block in BLOCK.findall(text):
        try:
            if (found := next(_examples(block), None)) is not None:
                return found
        except UNREADABLE:
            continue
    return None


def _examples(block: str) -> Iterator[Example]:
    texts: dict[str, list[str]] = {}
    vectors: dict[str, tuple[list[str], Role | None]] = {}
    for node in ast.parse(block).body:
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        name, call = node.targets[0].id, node.value
        if (literal := _literal(call)) is not None:
            texts[name] = literal
        elif isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.args:
            given = [ast.unparse(argument) for argument in call.args]
            method, plain = call.func.attr, not call.keywords
            encoded = texts.get(given[0], _literal(call.args[0]))
            if method in ("encode", *ROLES) and encoded is not None and plain:
                vectors[name] = encoded, ROLES.get(method)
            elif method == "similarity" and len(given) == 2 and set(given) <= set(vectors):
                (rows, first), (columns, second) = (vectors[side] for side in given)
                lines = block.splitlines()[node.end_lineno :]
                printed = _matrix(lines, (len(rows), len(columns)))
                if printed is not None:
                    yield Example((rows, columns), (first, second), printed)


def _literal(node: ast.expr) -> list[str] | None:
    """Return the texts of a string or of a list of strings."""
    try:
        value = ast.literal_eval(node)
    except UNREADABLE:
        return None
    texts = [value] if isinstance(value, str) else value
    is_texts = isinstance(texts, list) and texts and all(isinstance(t, str) for t in texts)
    return texts if is_texts else None


def _matrix(lines: list[str], shape: tuple[int, int]) -> np.ndarray | None:
    """Read a matrix from the comments behind a line; None unless it is of this shape."""
    shown = [line.lstrip(" #") for line in lines if line.strip().startswith("#")]
    start = next((n for n, line in enumerate(shown) if "[[" in line), None)
    if start is None:
        return None
    numbers = [float(found) for found in NUMBER.findall("\n".join(shown[start:]).split("]]")[0])]
    return np.reshape(numbers, shape) if len(numbers) == shape[0] * shape[1] else None


def repeat_example(entry: EncoderModel, example: Example) -> float:
    """Encode an example's texts by an entry; return the largest difference from what is printed.

    Raises InputError if the checkpoint cannot be loaded.
    """
    sides = []
    for texts, role in zip(example.texts, example.roles, strict=True):
        bare = {"query_prompt": "", "document_prompt": ""} if role is None else {}
        encoder = load_encoder(entry.model_copy(update=bare), device="cpu")
        items = encoder.tokenize(texts, role or "query")
        windows, content = zip(*((i.windows[0], i.content[0]) for i in items), strict=True)
        sides.append(np.concatenate(encoder.forward(windows, content)))
    return float(np.abs(sides[0] @ sides[1].T - example.printed).max())
