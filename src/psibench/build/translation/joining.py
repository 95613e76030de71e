"""Translated parts put together again: documents and queries, and those that lack a part."""

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from psibench.errors import InputError
from psibench.text.languages import spaces_sentences
from psibench.text.parts import join_parts

Clean = Callable[[str, str], tuple[str | None, str]]
"""(reply, kind) -> prefix that was removed or None, and the translation."""

ITEMS_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "_id": pl.String,
    "kind": pl.String,
    "doc_id": pl.String,
    "text": pl.String,
    "prefix": pl.String,
    "n_parts": pl.Int32,
    "joins": pl.List(pl.Int32),
}
LOST_SCHEMA = {
    "_id": pl.String,
    "kind": pl.String,
    "doc_id": pl.String,
    "detail": pl.String,
}


@dataclass(frozen=True)
class JoinedItems:
    """Documents and queries put together.

    Attributes
    ----------
    items
        ``_id, kind, doc_id, text, prefix, n_parts, joins`` (offsets into text at which the second
        part and each later one begin); in order of the parts.
    lost
        ``_id, kind, doc_id, detail`` of those that lack a part: one without a translation, or
        with a blank one.
    """

    items: pl.DataFrame
    lost: pl.DataFrame


def join_items(
    text_parts: pl.DataFrame, translations: pl.DataFrame, *, language: str, clean: Clean
) -> JoinedItems:
    """Put every document and query together from its translated parts, each cleaned first.

    A model may say something before each part, so every part is cleaned by itself. Parts are
    joined by what separated them in the original; where that was nothing, by a space if the
    language puts one between sentences.

    Parameters
    ----------
    text_parts
        TEXT_PARTS rows.
    translations
        TRANSLATIONS rows; parts may be missing.
    language
        Language translated to.

    Raises
    ------
    InputError
        If the parts of an item are not numbered 0 to n_parts - 1, or a translation is of no part.
    """
    strangers = translations.join(text_parts, on="_id", how="anti")
    for (part_id,) in strangers.select("_id").head(1).iter_rows():
        raise InputError(f"translation {part_id!r}: there is no such part; make both anew")
    joined = text_parts.drop("text").join(translations, on="_id", how="left", maintain_order="left")
    grouped = joined.sort("number", maintain_order=True).group_by(
        "kind", "item_id", maintain_order=True
    )
    columns = ("_id", "doc_id", "number", "n_parts", "text", "separator")
    rows = grouped.agg(*columns).sort("kind", maintain_order=True)
    items: list[tuple[object, ...]] = []
    lost: list[tuple[object, ...]] = []
    for row in rows.iter_rows(named=True):
        _check_numbers(row["item_id"], row["kind"], row["number"], row["n_parts"])
        owner = (row["item_id"], row["kind"], row["doc_id"][0])
        detail = _lacking(row["_id"], row["text"])
        if detail:
            lost.append((*owner, detail))
        else:
            items.append((*owner, *_joined(row, language, clean)))
    return JoinedItems(
        pl.DataFrame(items, schema=ITEMS_SCHEMA, orient="row"),
        pl.DataFrame(lost, schema=LOST_SCHEMA, orient="row"),
    )


def pieces_of(text: str, joins: list[int]) -> list[str]:
    """Cut a text into its translated parts again; separators stay with the part before."""
    edges = [0, *joins, len(text)]
    return [text[start:end] for start, end in zip(edges, edges[1:], strict=False)]


def _joined(row: dict[str, list[str]], language: str, clean: Clean) -> tuple[object, ...]:
    """Return text, prefix, n_parts, joins of one item."""
    cleaned = [clean(text, str(row["kind"])) for text in row["text"]]
    whole = join_parts(
        [text for _, text in cleaned],
        row["separator"],
        for_empty=" " if spaces_sentences(language) else "",
    )
    removed = [prefix for prefix, _ in cleaned if prefix is not None]
    prefix = "\n\n".join(removed) if removed else None
    return whole.text, prefix, len(cleaned), list(whole.joins)


def _lacking(part_ids: list[str], texts: list[str | None]) -> str | None:
    for part_id, text in zip(part_ids, texts, strict=True):
        if text is None or not text.strip():
            found = "has no translation" if text is None else "has a blank translation"
            return f"part {part_id} {found}"
    return None


def _check_numbers(item_id: str, kind: str, numbers: list[int], n_parts: list[int]) -> None:
    if numbers != list(range(len(numbers))) or set(n_parts) != {len(numbers)}:
        raise InputError(
            f"parts of {kind} {item_id!r} are numbered {numbers}, of {sorted(set(n_parts))}; "
            "expected every number from 0 once: make the parts anew"
        )
