"""Reading a leaderboard's CSV file."""

import csv
from math import isfinite

from psibench.config.leaderboards import Leaderboard
from psibench.errors import InputError


def read_leaderboard(board: Leaderboard) -> dict[str, float]:
    """Read a leaderboard's scores by model id.

    A model's id is its alias, else its name in lower case. Rows without a score are left out.

    Raises
    ------
    InputError
        If the file or a column is missing, a score is no number, two rows mean one model, or an
        alias names no row.
    """
    rows = _rows(board)
    scores: dict[str, float] = {}
    names: dict[str, str] = {}
    for line, name, text in rows:
        model = board.aliases.get(name, name.lower())
        if model in names:
            raise InputError(
                f"{board.path}, line {line}: {name!r} and {names[model]!r} are both the model "
                f"{model!r}; keep one of the rows, or give one of them another id in `aliases`"
            )
        names[model] = name
        if text:
            scores[model] = _score(text, f"{board.path}, line {line}, {board.score_column}")
    unused = sorted(set(board.aliases) - set(names.values()))
    if unused:
        raise InputError(
            f"{board.path} has no {board.model_column} {unused[0]!r}, which `aliases` of the "
            f"leaderboard {board.name!r} names; found {sorted(names.values())}"
        )
    return scores


def _rows(board: Leaderboard) -> list[tuple[int, str, str]]:
    """Line number, name and score of every row, as texts without space around."""
    try:
        with open(board.path, encoding="utf-8-sig", newline="") as handle:
            reader = csv.DictReader(handle, strict=True)
            found = reader.fieldnames or []
            for column in (board.model_column, board.score_column):
                if column not in found:
                    raise InputError(f"{board.path} has no column {column!r}; found {list(found)}")
            return [
                (
                    reader.line_num,
                    (row[board.model_column] or "").strip(),
                    (row[board.score_column] or "").strip(),
                )
                for row in reader
            ]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{board.path} cannot be read as CSV: {error}") from error


def _score(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not isfinite(value):
        raise InputError(f"{where} is {text!r}; give a number, or nothing where there is none")
    return value
