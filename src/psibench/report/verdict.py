"""What the figures of one model on one benchmark allow to say: a word, and a line on what to do.

Both follow from columns of the PSI table by the rules of `docs/psi.md`; nothing else is said. The
page and the terminal show the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from psibench.metrics.inference import FEWEST_CLUSTERS, FEWEST_DOCUMENTS
from psibench.report.views import Row
from psibench.report.wording import ALPHA, isolate, number, p_text, percent

FINDINGS = ("depends", "none", "untested", "floor", "undefined")
WORDS = {
    "sensitive": "Scores depend on where the evidence is, beyond the position-blind control; where "
    "the cut is shown to cost some of the score, on the evidence that was given, too.",
    "truncation": "Scores depend on where the evidence is. That evidence beyond the input costs "
    "some of the score is shown, an effect on the evidence that was given is not.",
    "not shown": "A position effect of the model's own was tested for and not shown. That is no "
    "evidence that there is none.",
    "not testable": "Too few documents could show an effect, or next to nothing is found.",
}
"""The words that a verdict comes to, and what they mean."""
MATERIAL_CUT = 0.05
"""Share of the evidence beyond a model's input from which every verdict mentions it."""


@dataclass(frozen=True)
class Verdict:
    """What is said of one model: one of `WORDS`, and what to do."""

    model: str
    word: str
    advice: str


def verdicts(rows: Sequence[Row]) -> list[Verdict]:
    """Return the verdicts on the models of one benchmark, language pair, metric and scheme.

    ``rows`` are their PSI_TABLE rows over all domains and lengths, all evidence views. In order of
    what is found: effects first, the largest before; what finds next to nothing last.
    """
    seen = {row["model"]: row for row in rows if row["evidence"] == "visible"}
    found = []
    for row in sorted((row for row in rows if row["evidence"] == "all"), key=place):
        model = row["model"]
        word = word_of(row, seen.get(model))
        advice = _advice(row, word, seen.get(model))
        if (cut := cut_words(row)) and cut not in advice:
            advice = f"{advice} {cut}."
        found.append(Verdict(model, word, advice))
    return found


def word_of(row: Row, visible: Row | None) -> str:
    """Return which of `WORDS` a model's rows over all and over the given evidence come to."""
    finding = finding_of(row)
    if finding in ("undefined", "floor", "untested"):
        return "not testable"
    if finding == "none":
        return "not shown"
    views = [visible] if visible is not None and is_cut(row) else []
    if costs_score(row):
        return "sensitive" if any(map(_is_beyond, views)) else "truncation"
    return "sensitive" if any(map(_is_beyond, [row, *views])) else "not shown"


def is_cut(row: Row) -> bool:
    """Return whether some evidence is known to lie beyond the model's input."""
    return row["seen"] is not None and row["seen"] < 1.0


def cut_words(row: Row, *, least: float = MATERIAL_CUT) -> str:
    """Return how much of the evidence is beyond the model's input; empty below a share of it."""
    if row["seen"] is None or round(1 - row["seen"], 9) < least:
        return ""
    return f"{percent(1 - row['seen'])} of the evidence is cut"


def costs_score(row: Row) -> bool:
    """Return whether evidence beyond the input is shown to cost some of the score."""
    high = row["truncation_high"]
    return is_cut(row) and high is not None and row["truncation"] < 0 and high < 0


def _is_beyond(row: Row) -> bool:
    """Return whether positions within documents matter beyond the position-blind control."""
    p = row["p_control_adjusted"]
    is_found = finding_of(row) == "depends" and row["test"] == "within"
    return is_found and p is not None and p <= ALPHA


def _advice(row: Row, word: str, visible: Row | None) -> str:
    """Return what to do about a word, short enough for a line of a terminal."""
    if word == "not testable":
        return _untested(row)
    is_found = finding_of(row) == "depends"
    cut = cut_words(row, least=0.0)
    if has_flag(row, "position_blind"):
        return (
            "A control: the questions differ by position; read the others against it."
            if is_found
            else "A control: no evidence that the questions differ by position."
        )
    if has_flag(row, "truncating"):
        return _of_truncating_control(row)
    if word == "sensitive":
        lowest = f"Lowest in {isolate(row['worst_same'] or row['worst_bucket'])}"
        if is_cut(row) and (visible is None or not _is_beyond(visible)):
            return f"{lowest}; {cut}: give it more, then measure again."
        return f"{lowest}: measure windows, fusion or a reranker (docs/mitigations.md)."
    if word == "truncation":
        return f"{cut}: shorter passages, more max_tokens or windows."
    if is_found and row["test"] == "between":
        return "Depends on position, or on the document: ask about several places of each."
    if is_found and row["control"] is None:
        return "Depends on position; so may the questions: add the position-blind control."
    if is_found:
        return "Depends on position, not shown to exceed the control: it may be the questions."
    # Intervals are not adjusted: one that excludes 0 would contradict the adjusted p without it.
    alone, high = row["p_position"], row["psi_same_high"]
    aside = f" (of this model alone {p_text(alone)})" if alone <= ALPHA else ""
    told = (
        "more documents would tell more"
        if high is None
        else f"a PSI above {number(high)} is excluded"
    )
    return f"No evidence of an effect{aside}; {told}."


def _of_truncating_control(row: Row) -> str:
    if row["seen"] == 1.0:
        return "A control: documents are too short here to cut anything off."
    if finding_of(row) == "none":
        return "A control: no effect of what it is known to do; others' could be missed, too."
    if row["drop_low"] is not None and row["drop_low"] > 0:
        return "A control: late evidence is found worse, as it must be."
    return "A control: an effect, but not of late evidence found worse; look closer first."


def _untested(row: Row) -> str:
    """Return what to do where nothing is tested."""
    finding = finding_of(row)
    if row["n_queries"] == 0:
        return "No query counts here."
    if finding == "undefined" and row["n_buckets"] < 2:
        return "All queries sit in one bucket: PSI compares at least two."
    if finding == "undefined":
        return "Nothing is found in any bucket: there is no best one to divide by."
    if finding == "floor":
        return "Finds next to nothing: check its prompts, its length and the labels first."
    if has_flag(row, "no_lengths"):
        return "Needs the documents' lengths (pos_char_length) to be tested."
    if has_flag(row, "at_ceiling"):
        return "Finds nearly everything: harder queries or more documents would tell."
    found, needed = f"{row['n_informative_documents']} documents", FEWEST_DOCUMENTS
    if row["n_informative_documents"] >= FEWEST_DOCUMENTS:  # enough, in too few clusters
        found, needed = f"Fewer than {FEWEST_CLUSTERS} clusters", FEWEST_CLUSTERS
    return f"{found} could show an effect, {needed} are needed: more documents would tell."


def finding_of(row: Row) -> str:
    """Return which of `FINDINGS` a PSI row is."""
    if row["psi"] is None:
        return "undefined"
    if has_flag(row, "at_floor"):
        return "floor"
    if row["p_adjusted"] is None:
        return "untested"
    return "depends" if row["p_adjusted"] <= ALPHA else "none"


def has_flag(row: Row, name: str) -> bool:
    """Return whether a PSI row carries a flag."""
    return name in row["flags"].split(", ")


def place(row: Row) -> tuple[int, float]:
    """Return what PSI rows are ordered by: effects first, the largest before; no PSI last."""
    size = row["psi_same_corrected"]
    return FINDINGS.index(finding_of(row)), -(size if size is not None else 0.0)
