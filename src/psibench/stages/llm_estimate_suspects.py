"""Suspects of refusal for an estimate: found in translations that are known, else a share."""

from math import ceil

import polars as pl

from psibench.build.translation.joining import Clean, pieces_of
from psibench.build.translation.prefixes import remove_prefix
from psibench.build.translation.refusals import READ_CHARS, find_suspect, suspect_id
from psibench.stages.cleaning_lists import read_prefixes, read_refusals
from psibench.stages.llm_walk import Walked

SUSPECT_SHARE = 0.01
"""Share of the translations taken to be suspect: a guess, and a high one. PosIR (appendix B.5.2)
found 2,249 refusals among 14 million texts, and does not say how many suspects were judged."""

SCHEMA = dict.fromkeys(("_id", "doc_id", "item_id", "kind", "text"), pl.String)


def are_known(walked: Walked) -> bool:
    """Say whether the replies are what a run gets, to the letter."""
    return walked.basis in ("answered", "stand-in")


def cleaner(language: str, *, prefixes: bool) -> Clean:
    """Return what cuts off the prefixes of translations to a language, or only white space."""
    if not prefixes:
        return lambda text, _kind: (None, text.strip())
    listed = read_prefixes(language)

    def clean(text: str, kind: str) -> tuple[str | None, str]:
        return remove_prefix(text, whole=kind == "query", language=language, listed=listed)

    return clean


def found_suspects(items: pl.DataFrame, language: str) -> pl.DataFrame:
    """Find the suspects among translations, as the run will: REFUSAL_SUSPECTS rows.

    Parameters
    ----------
    items
        As of `join_items`.
    """
    patterns = read_refusals()
    rows = []
    columns = ("_id", "kind", "doc_id", "text", "joins")
    for item_id, kind, doc_id, text, joins in items.select(columns).iter_rows():
        suspect = find_suspect(pieces_of(text, joins), language=language, patterns=patterns)
        if suspect is not None:
            rows.append((suspect_id(kind, item_id), doc_id, item_id, kind, suspect.text))
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def assumed_suspects(items: pl.DataFrame, n_texts: int) -> tuple[pl.DataFrame, float]:
    """Take the beginnings of all translations for suspects, and the share of them to count."""
    suspects = items.select(
        pl.format("d:{}", "_id").alias("_id"),
        "doc_id",
        item_id="_id",
        kind="kind",
        text=pl.col("text").str.slice(0, READ_CHARS),
    )
    return suspects, ceil(SUSPECT_SHARE * n_texts) / max(1, suspects.height)
