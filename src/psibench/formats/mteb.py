"""Prediction files of MTEB (version 2): scores per query, under subset and split.

The file holds ``{"mteb_model_meta": {"model_name", "revision"}, subset: {split: {query id:
{document id: score}}}}``. A bare ``{query id: {document id: score}}`` is read as well.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from psibench.errors import InputError
from psibench.formats.text import read_json
from psibench.reading import identifier, number

META_KEY = "mteb_model_meta"


@dataclass(frozen=True)
class Predictions:
    """The scores of one subset and split, and the model's name where the file gives it.

    `frame` : query_id, doc_id (String), score (Float64), in file order.
    """

    frame: pl.DataFrame
    model: str | None


def read_mteb_predictions(path: Path, part: str | None = None) -> Predictions:
    """Read a prediction file.

    Parameters
    ----------
    path : a .json or .json.gz file.
    part : ``subset/split``; needed only if the file holds more than one.

    Raises
    ------
    InputError
        If the layout is another one, the part is missing, or is not named and there are several.
    """
    content = read_json(path)
    if not isinstance(content, dict):
        raise InputError(f"{path}: {type(content).__name__} at the top; expected an object")
    meta = content.get(META_KEY)
    body = {key: value for key, value in content.items() if key != META_KEY}
    scores, where = _choose(_parts(body, path), part, path)
    model = meta.get("model_name") if isinstance(meta, dict) else None
    return Predictions(_frame(scores, where), str(model) if model else None)


def _parts(body: dict[str, Any], path: Path) -> dict[str, dict[str, Any]]:
    """Return the score objects by ``subset/split``; a bare one has the name ``""``."""
    if all(_is_scores(value) for value in body.values()):
        return {"": body}
    parts = {}
    for subset, splits in body.items():
        if not isinstance(splits, dict):
            raise InputError(f"{path}: {subset!r} holds {type(splits).__name__}, not splits")
        for split, scores in splits.items():
            if not isinstance(scores, dict):
                raise InputError(
                    f"{path}: {subset}/{split} holds {type(scores).__name__}, expected "
                    "{query id: {document id: score}}; is it a retrieval task's file?"
                )
            parts[f"{subset}/{split}"] = scores
    return parts


def _is_scores(value: Any) -> bool:
    """Whether a value maps document ids to plain values: an empty or bare ranking."""
    return isinstance(value, dict) and not any(isinstance(v, dict | list) for v in value.values())


def _choose(
    parts: dict[str, dict[str, Any]], part: str | None, path: Path
) -> tuple[dict[str, Any], str]:
    names = ", ".join(sorted(parts)) or "none"
    if part is not None:
        if part not in parts:
            raise InputError(f"{path}: no part {part!r}; found {names}")
        return parts[part], f"{path}, {part}"
    if len(parts) != 1:
        raise InputError(f"{path}: {len(parts)} parts ({names}); name one as subset/split")
    name, scores = next(iter(parts.items()))
    return scores, f"{path}, {name}" if name else str(path)


def _frame(scores: dict[str, Any], where: str) -> pl.DataFrame:
    queries, docs, values = [], [], []
    for query_id, ranking in scores.items():
        identifier(query_id, where=where, column="a query id")
        if not isinstance(ranking, dict):
            raise InputError(
                f"{where}, query {query_id!r}: {type(ranking).__name__}, expected "
                "{document id: score}"
            )
        for doc_id, value in ranking.items():
            queries.append(query_id)
            docs.append(identifier(doc_id, where=where, column="a document id"))
            values.append(number(value, where=f"{where}, query {query_id!r}", column=repr(doc_id)))
    schema = {"query_id": pl.String, "doc_id": pl.String, "score": pl.Float64}
    return pl.DataFrame({"query_id": queries, "doc_id": docs, "score": values}, schema=schema)
