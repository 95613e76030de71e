"""What the figures of one model on one benchmark allow to say, in sentences.

Four questions, in this order: does the score depend on where in the document the evidence is; is
it the model, or the questions; how much of it is truncation; how large could it still be. Each
answer follows from columns of the PSI table by the rules of `docs/psi.md`; nothing else is said.
The page and the terminal show the same sentences.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psibench.metrics.psi import IMBALANCED
from psibench.report.wording import ALPHA, interval, isolate, number, p_text, percent

Row = Mapping[str, Any]

MOSTLY_GIVEN = 0.9
"""Share of the queries below which it is said how a model could be given the evidence of more."""
MORE = (
    "Shorter passages (passages.max_words), more max_tokens or windows would give it more of the "
    "evidence."
)
FINDINGS = ("depends", "none", "untested", "floor", "undefined")


@dataclass(frozen=True)
class Verdict:
    """What is said of one model.

    ``finding`` is depends, none (no evidence), untested (too few documents), floor (finds next to
    nothing) or undefined (no PSI). Then the answers to the four questions; empty where a question
    does not arise.
    """

    model: str
    finding: str
    depends: str
    beyond: str
    truncation: str
    size: str

    @property
    def sentences(self) -> tuple[str, ...]:
        """The answers there are, in order."""
        answers = (self.depends, self.beyond, self.truncation, self.size)
        return tuple(answer for answer in answers if answer)


def verdict(
    row: Row, *, visible: Row | None = None, whole: Row | None = None, control: str | None = None
) -> Verdict:
    """Return the verdict on one model.

    ``row`` is its PSI_TABLE row over all evidence, domains and lengths; ``visible`` the same over
    the evidence it was given, ``whole`` over the documents it read to their end, None where that is
    not known; ``control`` is position-blind or truncating if the model is a control.
    """
    finding = finding_of(row)
    if finding == "undefined":
        return Verdict(row["model"], finding, undefined_text(row), "", "", "")
    if finding == "floor":
        text = (
            f"Finds next to nothing here (mean {number(row['mean'])}): whether that little depends "
            "on position says nothing about the model."
        )
        return Verdict(row["model"], finding, text, "", _share_given(row), "")
    return Verdict(
        row["model"],
        finding,
        _depends(row, finding, control),
        _beyond(row, finding, control),
        _truncation(row, visible, whole, control),
        _size(row),
    )


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


def undefined_text(row: Row) -> str:
    """Return why a PSI row has no PSI, as a sentence."""
    if row["n_queries"] == 0:
        return "No query counts here."
    if row["n_buckets"] < 2:
        return "All queries sit in one bucket: PSI compares at least two."
    return "Nothing is found in any bucket: there is no best one to divide by."


def _depends(row: Row, finding: str, control: str | None) -> str:
    if has_flag(row, "no_lengths"):
        return (
            "Not tested: documents would have to be compared with each other, for which their "
            "lengths have to be known."
        )
    if finding == "untested":
        n = row["n_informative_documents"]
        why = (
            "it finds nearly everything, which leaves"
            if has_flag(row, "at_ceiling")
            else "the data leave"
        )
        return f"Not tested: {why} {n} documents that could show an effect, and 30 are needed."
    p = f"adjusted {p_text(row['p_adjusted'])}"
    if row["test"] == "between":
        how = "Compared between documents, adjusted for length only"
        found = (
            f"scores differ by where the evidence is ({p})"
            if finding == "depends"
            else f"no evidence of a position effect ({p})"
        )
        bound = row["length_imbalance"]
        if bound is not None and bound > IMBALANCED:
            found += ", which cannot be separated from document length"
        return f"{how}: {found}."
    if finding == "none":
        high = row["psi_same_high"]
        bound = f"; up to {number(high)} is compatible with the data" if high is not None else ""
        return f"No evidence of a position effect ({p}){bound}."
    ends = (
        f": best in {isolate(row['best_same'])}, worst in {isolate(row['worst_same'])}"
        if row["best_same"]
        else ""
    )
    beyond = ""
    if row["seen"] is not None and row["seen"] < 1.0 and control is None:
        share = percent(1 - row["seen"])
        beyond = f"; of {share} of the queries it is not wholly inside the model's input"
    return f"Scores depend on where in the document the evidence is ({p}){ends}{beyond}."


def _beyond(row: Row, finding: str, control: str | None) -> str:
    if control == "position-blind":
        if finding == "untested":
            return ""
        return (
            "This control knows no position, so the questions themselves differ in difficulty by "
            "position: read the others against it."
            if finding == "depends"
            else "This control knows no position: no evidence that the benchmark's questions "
            "differ in difficulty by position."
        )
    if finding != "depends":
        return ""
    if row["control"] is None:
        return (
            "No position-blind control was run, so the questions may be what differs by position."
        )
    if row["p_control_adjusted"] is None:
        return "It cannot be compared with the position-blind control here."
    p = f"adjusted {p_text(row['p_control_adjusted'])}"
    if row["p_control_adjusted"] <= ALPHA:
        return (
            f"Compared between documents, it differs by position from the position-blind "
            f"control ({p})."
            if row["test"] == "between"
            else f"The model is position-sensitive beyond the position-blind control ({p})."
        )
    return (
        f"That is not beyond the position-blind control ({p}): the questions may be what differs."
    )


def _truncation(row: Row, visible: Row | None, whole: Row | None, control: str | None) -> str:
    if has_flag(row, "given_unknown"):
        return (
            "Evidence is labelled by class, without spans: how much of it the model was given, and "
            "what truncation costs, is not known."
        )
    if row["seen"] is None:
        return "What it was given of each document is not known."
    if row["seen"] >= 1.0:
        return "It was given all evidence: nothing here is truncation."
    said = [_share_given(row)]
    if row["truncation"] is not None:
        ends = interval(row["truncation_low"], row["truncation_high"])
        cost = number(-row["truncation"])
        said.append(
            "At equal document and position, evidence that is not wholly inside its input costs "
            f"{cost} of the score (effect {ends})."
            if row["truncation"] < 0 and row["truncation_high"] < 0
            else f"What truncation costs cannot be told from nothing (effect {ends})."
        )
    if visible is not None and visible["psi"] is not None and control != "position-blind":
        said.append(_on_visible(visible))
        if finding_of(visible) != "depends" and whole is not None:
            said.append(_on_whole(whole))
    if control is None and row["seen"] < MOSTLY_GIVEN:
        said.append(MORE)
    return " ".join(filter(None, said))


def _on_visible(visible: Row) -> str:
    """Say whether scores depend on position where the evidence was given."""
    if visible["p_adjusted"] is None or visible["test"] == "between":
        return "Too few documents to test position on the evidence it was given."
    p = f"adjusted {p_text(visible['p_adjusted'])}"
    if visible["p_adjusted"] > ALPHA:
        high = visible["psi_same_high"]
        bound = f"; up to {number(high)} is compatible" if high is not None else ""
        return f"On the evidence it was given: no evidence of a position effect ({p}){bound}."
    still = f"On the evidence it was given, scores still depend on position ({p})"
    beyond = visible["p_control_adjusted"]
    if beyond is None:
        return f"{still}: neglect, unless it is the questions."
    told = f"beyond the position-blind control (adjusted {p_text(beyond)})"
    return f"{still}, {told}: neglect." if beyond <= ALPHA else f"{still}, but not {told}."


def _on_whole(whole: Row) -> str:
    """Say that scores depend on position where documents were read whole; empty where not."""
    if finding_of(whole) != "depends" or whole["test"] == "between":
        return ""
    p, beyond = p_text(whole["p_adjusted"]), whole["p_control_adjusted"]
    found = f"In the documents it read whole there is evidence of a position effect (adjusted {p})"
    if beyond is None:
        return f"{found}."
    told = f"beyond the position-blind control (adjusted {p_text(beyond)})"
    return f"{found}, {told}." if beyond <= ALPHA else f"{found}, but not {told}."


def _share_given(row: Row) -> str:
    if row["seen"] is None:
        return ""
    return f"It was given the whole evidence of {percent(row['seen'])} of the queries."


def _size(row: Row) -> str:
    published = f"Published PSI {number(row['psi'])} {interval(row['psi_low'], row['psi_high'])}"
    if row["psi_same"] is None:
        return f"{published}; at equal documents it cannot be told."
    same = (
        f"PSI at equal documents {number(row['psi_same'])} "
        f"{interval(row['psi_same_low'], row['psi_same_high'])}, "
        f"{number(row['psi_same_corrected'])} with the noise taken out"
    )
    if has_flag(row, "confounded"):
        return f"{same}. {published} mixes position with document."
    return f"{same}. {published}."


def verdicts(rows: Sequence[Row], *, controls: Mapping[str, str | None]) -> list[Verdict]:
    """Return the verdicts on the models of one benchmark, language pair, metric and scheme.

    ``rows`` are their PSI_TABLE rows over all domains and lengths, all evidence views. In order
    of what is found: effects first, the largest before; what finds next to nothing last.
    """
    views = {(row["model"], row["evidence"]): row for row in rows}
    return [
        verdict(
            row,
            visible=views.get((row["model"], "visible")),
            whole=views.get((row["model"], "whole")),
            control=controls.get(row["model"]),
        )
        for row in sorted((row for row in rows if row["evidence"] == "all"), key=place)
    ]


def place(row: Row) -> tuple[int, float]:
    """Return what PSI rows are ordered by: effects first, the largest before; no PSI last."""
    size = row["psi_same_corrected"]
    return FINDINGS.index(finding_of(row)), -(size if size is not None else 0.0)
