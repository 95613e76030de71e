"""What an estimate's texts are and where they come from, in words."""

from collections.abc import Sequence

from psibench.stages.llm_estimate_documents import EstimateTables
from psibench.stages.llm_estimate_texts import Texts

MOST_NAMED = 2
"""Tables of persona candidates that are named; of more, how many there are."""


def document_notes(found: Sequence[EstimateTables]) -> list[str]:
    """Say which documents go through; those of several places by where they come from."""
    if len(found) == 1:
        return [_note(found, found[0].origin), *_personas(found)]
    groups: dict[str, list[EstimateTables]] = {}
    for one in found:
        origin = "documents of an earlier run" if one.is_made else one.origin
        groups.setdefault(origin, []).append(one)
    lines = []
    for origin, group in groups.items():
        n_places = sum(len(one.places) for one in group)
        places = "1 place" if n_places == 1 else f"{n_places} places"
        lines.append(_note(group, f"{origin}, for {places}"))
    return [*lines, *_personas(found)]


def _note(group: Sequence[EstimateTables], origin: str) -> str:
    n_here = sum(one.documents.height for one in group)
    n_asked, n_all = (
        sum(counts)
        for counts in zip(*((one.n_asked, one.n_documents) for one in group), strict=True)
    )
    share = ""
    if n_asked < n_all:
        share = f"; {n_asked:,} of all are asked about (propose_questions.share)"
    return f"{n_here:,} {origin}{share}"


def _personas(found: Sequence[EstimateTables]) -> list[str]:
    named = list(dict.fromkeys(one.personas for one in found if one.personas))
    more = len(named) - MOST_NAMED
    return [*named[:MOST_NAMED], *([f"{more} more tables of personas"] if more > 0 else [])]


def text_notes(texts: Sequence[Texts]) -> list[str]:
    """Say what is translated, and where its number is from, a line for each kind."""
    told = {
        "tables of an earlier run": "{} to translate, of the tables made by a run",
        "documents": "{} to translate, of the source",
        "at most": "at most {} to translate: every document drawn, every candidate",
    }
    lines = []
    for basis, line in told.items():
        own = [one for one in texts if one.basis == basis]
        if own:
            counts = sum(one.n_documents for one in own), sum(one.n_queries for one in own)
            lines.append(line.format(f"{counts[0]:,} documents and {counts[1]:,} queries"))
    return lines
