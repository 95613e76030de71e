"""Translations that may be refusals (PosIR, appendix B.5.2): suspects, and a judge's verdicts.

A text is suspect for a phrase of refusal in any of the listed languages, or because it is not in
the language it was to be translated to. Suspects go to a judge, who reads 1,500 characters.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import polars as pl

from psibench.errors import InputError
from psibench.text.detection import is_foreign
from psibench.text.languages import split_code
from psibench.text.phrases import any_of, fold

READ_CHARS = 1500
"""Characters of a text, or of each of its parts, that are looked at and shown to the judge."""

REFUSAL, UNJUDGED = "refusal", "refusal_unjudged"

Suspicion = Literal["phrase", "language"]


@dataclass(frozen=True)
class RefusalPhrases:
    """Phrases of one language, and the phrases that their slots stand for."""

    phrases: Sequence[str]
    slots: Mapping[str, str]


@dataclass(frozen=True)
class Suspect:
    """Why a text may be a refusal, and what of it the judge shall read."""

    suspicion: Suspicion
    text: str


def compile_refusals(listed: Mapping[str, RefusalPhrases]) -> list[re.Pattern[str]]:
    """Compile the phrases of every language.

    Raises
    ------
    InputError
        If a phrase is not well formed, or a language not written as ``rus-Cyrl``.
    """
    return [
        any_of(found.phrases, found.slots, script=split_code(language)[1])
        for language, found in listed.items()
    ]


def find_suspect(
    pieces: Sequence[str], *, language: str, patterns: Sequence[re.Pattern[str]]
) -> Suspect | None:
    """Say whether a translation may be a refusal, part by part: one of several may be refused.

    Parameters
    ----------
    pieces
        The parts it was translated in.
    language
        Language translated to.
    patterns
        As of `compile_refusals`.

    Returns
    -------
    Suspect or None
        Of the first suspicious part: a phrase first, in any part, else its language.
    """
    for piece in pieces:
        beginning = fold(piece[:READ_CHARS])
        if any(pattern.search(beginning) for pattern in patterns):
            return Suspect("phrase", piece[:READ_CHARS])
    for piece in pieces:
        if is_foreign(piece, language):
            return Suspect("language", piece[:READ_CHARS])
    return None


def suspect_id(kind: str, item_id: str) -> str:
    """Return a suspect's id: ``d:DOCUMENT`` or ``q:QUERY``."""
    return f"{kind[0]}:{item_id}"


def refused(translated: pl.DataFrame, verdicts: pl.DataFrame) -> pl.DataFrame:
    """List the translations that leave as refusals.

    A suspect without a usable verdict leaves, too, with a reason of its own: one text fewer is
    nothing among many, while a refusal that stays is a document that cannot be found, or a query
    that asks for nothing, and lowers the scores wherever its evidence stood.

    Parameters
    ----------
    translated
        TRANSLATED rows.
    verdicts
        REFUSAL_VERDICTS rows; a suspect that has none has no usable verdict.

    Returns
    -------
    frame of ``kind, item_id, reason, detail, score`` (as `psibench.build.translation.cascade`
    takes them), in order of ``translated``; ``detail`` says what made the text suspect.

    Raises
    ------
    InputError
        If there is a verdict on what is no suspect: the tables do not belong together.
    """
    suspects = translated.filter(pl.col("suspect").is_not_null()).select(
        "kind", "suspect", item_id="_id"
    )
    strangers = verdicts.join(suspects, on=["kind", "item_id"], how="anti")
    for row in strangers.head(1).iter_rows(named=True):
        raise InputError(
            f"verdict {row['_id']!r}: this text is no suspect among the translations; make the "
            "verdicts anew from these translations"
        )
    judged = suspects.join(
        verdicts.select("kind", "item_id", "is_refusal"),
        on=["kind", "item_id"],
        how="left",
        maintain_order="left",
    )
    return judged.filter(pl.col("is_refusal").fill_null(True)).select(
        "kind",
        "item_id",
        reason=pl.when(pl.col("is_refusal")).then(pl.lit(REFUSAL)).otherwise(pl.lit(UNJUDGED)),
        detail=pl.lit("suspect by ") + pl.col("suspect"),
        score=pl.lit(None, pl.Float64),
    )
