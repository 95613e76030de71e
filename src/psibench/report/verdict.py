"""What the figures of one model on one benchmark allow to say, in one word and in sentences.

Four questions, in this order: does the score depend on where in the document the evidence is; is
it the model, or the questions; how much of it is truncation; how large could it still be. Each
answer follows from columns of the PSI table by the rules of `docs/psi.md`; nothing else is said.
So does what is said of two models, from columns of the comparisons. The page and the terminal show
the same sentences.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psibench.metrics.inference import FEWEST_CLUSTERS, FEWEST_DOCUMENTS
from psibench.metrics.psi import IMBALANCED
from psibench.report.wording import ALPHA, change, interval, isolate, number, p_text, percent

Row = Mapping[str, Any]

MOSTLY_GIVEN = 0.9
"""Share of the queries below which it is said how a model could be given the evidence of more."""
MORE = (
    "Shorter passages (passages.max_words), more max_tokens or windows would give it more of the "
    "evidence."
)
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


@dataclass(frozen=True)
class Verdict:
    """What is said of one model.

    ``finding`` is depends, none (no evidence), untested (too few documents), floor (finds next to
    nothing) or undefined (no PSI); ``word`` one of `WORDS`, ``advice`` what to do. Then the answers
    to the four questions; empty where a question does not arise.
    """

    model: str
    finding: str
    word: str
    advice: str
    depends: str
    beyond: str = ""
    truncation: str = ""
    size: str = ""

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
    finding, word = finding_of(row), word_of(row, visible)
    told = (row["model"], finding, word, _advice(row, word, visible, control))
    if finding == "undefined":
        return Verdict(*told, undefined_text(row))
    if finding == "floor":
        text = (
            f"Finds next to nothing here (mean {number(row['mean'])}): whether that little depends "
            "on position says nothing about the model."
        )
        return Verdict(*told, text, truncation=_share_given(row))
    return Verdict(
        *told,
        _depends(row, finding, control),
        _beyond(row, finding, control),
        _truncation(row, visible, whole, control),
        _size(row),
    )


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


def costs_score(row: Row) -> bool:
    """Return whether evidence beyond the input is shown to cost some of the score."""
    high = row["truncation_high"]
    return is_cut(row) and high is not None and row["truncation"] < 0 and high < 0


def _is_beyond(row: Row) -> bool:
    """Return whether positions within documents matter beyond the position-blind control."""
    is_found = finding_of(row) == "depends" and row["test"] == "within"
    against = _against_control(row)
    return is_found and against is not None and against[0]


def _advice(row: Row, word: str, visible: Row | None, control: str | None) -> str:
    """Return what to do about a word, short enough for a line of a terminal."""
    if word == "not testable":
        return _untested(row)
    is_found = finding_of(row) == "depends"
    cut = percent(1 - row["seen"]) if is_cut(row) else ""
    if control == "position-blind":
        return (
            "A control: the questions differ by position; read the others against it."
            if is_found
            else "A control: no evidence that the questions differ by position."
        )
    if control == "truncating":
        return _of_truncating_control(row)
    if word == "sensitive":
        lowest = f"Lowest in {isolate(row['worst_same'] or row['worst_bucket'])}"
        if is_cut(row) and (visible is None or not _is_beyond(visible)):
            return f"{lowest}; {cut} of the evidence is cut: give it more, then measure again."
        return f"{lowest}: measure windows, fusion or a reranker (docs/mitigations.md)."
    if word == "truncation":
        return f"{cut} of the evidence is cut: shorter passages, more max_tokens or windows."
    if is_found and row["test"] == "between":
        return "Depends on position, or on the document: ask about several places of each."
    if is_found and row["control"] is None:
        return "Depends on position; so may the questions: add the position-blind control."
    if is_found:
        return "Depends on position, not shown to exceed the control: it may be the questions."
    own = _own_p(row)
    bound = _excluded(row) or "; more documents would tell more"
    return f"No evidence of an effect{own and f' ({own})'}{bound}."


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
    if finding == "undefined":
        return undefined_text(row)
    if finding == "floor":
        return "Finds next to nothing: check its prompts, its length and the labels first."
    if has_flag(row, "no_lengths"):
        return "Needs the documents' lengths (pos_char_length) to be tested."
    if has_flag(row, "at_ceiling"):
        return "Finds nearly everything: harder queries or more documents would tell."
    found, needed = _informative(row)
    said = f"{found} could show an effect, {needed} are needed: more documents would tell."
    return f"{said[0].upper()}{said[1:]}"


def _informative(row: Row) -> tuple[str, int]:
    """Return which units could show an effect where too few do, and how many are needed."""
    n = row["n_informative_documents"]
    if n >= FEWEST_DOCUMENTS:  # enough, but parts of too few clusters
        return f"fewer than {FEWEST_CLUSTERS} clusters", FEWEST_CLUSTERS
    return f"{n} documents", FEWEST_DOCUMENTS


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
        found, needed = _informative(row)
        why = (
            "it finds nearly everything, which leaves"
            if has_flag(row, "at_ceiling")
            else "the data leave"
        )
        return f"Not tested: {why} {found} that could show an effect, and {needed} are needed."
    p = _p_of_position(row)
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
        return f"No evidence of a position effect ({p}){_excluded(row)}."
    ends = (
        f": as observed highest in {isolate(row['best_same'])}, lowest in "
        f"{isolate(row['worst_same'])}"
        if row["best_same"]
        else ""
    )
    beyond = ""
    if is_cut(row) and control is None:
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
        f"No evidence that it goes beyond the position-blind control ({p}): the questions may be "
        "what differs."
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
            f"{cost} of the score (effect {ends}, of this model alone)."
            if costs_score(row)
            else f"What truncation costs cannot be told from nothing{ends and f' (effect {ends})'}."
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
    if visible["test"] == "between":
        return "On the evidence it was given, positions within documents cannot be compared."
    if visible["p_adjusted"] is None:
        found, needed = _informative(visible)
        return (
            f"On the evidence it was given, position is not tested: {found} could show an effect, "
            f"and {needed} are needed."
        )
    p = _p_of_position(visible)
    if visible["p_adjusted"] > ALPHA:
        return (
            f"On the evidence it was given: no evidence of a position effect ({p})"
            f"{_excluded(visible)}."
        )
    still = f"On the evidence it was given, scores still depend on position ({p})"
    control = _against_control(visible)
    if control is None:
        return f"{still}: neglect, unless it is the questions."
    is_beyond, told = control
    return f"{still}, {told}: neglect." if is_beyond else f"{still}, {told}."


def _on_whole(whole: Row) -> str:
    """Say that scores depend on position where documents were read whole; empty where not."""
    if finding_of(whole) != "depends" or whole["test"] == "between":
        return ""
    p = p_text(whole["p_adjusted"])
    found = f"In the documents it read whole there is evidence of a position effect (adjusted {p})"
    control = _against_control(whole)
    return f"{found}." if control is None else f"{found}, {control[1]}."


def _against_control(row: Row) -> tuple[bool, str] | None:
    """Return whether an effect is beyond the control's, and this in words; None: not compared."""
    p = row["p_control_adjusted"]
    if p is None:
        return None
    told = f"beyond the position-blind control (adjusted {p_text(p)})"
    return (True, told) if p <= ALPHA else (False, f"without evidence that it goes {told}")


def _p_of_position(row: Row) -> str:
    """Return the adjusted p in words; beside it the model's own where that alone is significant.

    Intervals are not adjusted: one that excludes 0 would contradict the adjusted p without it.
    """
    own = _own_p(row)
    return f"adjusted {p_text(row['p_adjusted'])}{own and f', {own}'}"


def _own_p(row: Row) -> str:
    alone = row["p_position"]
    return f"of this model alone {p_text(alone)}" if alone <= ALPHA < row["p_adjusted"] else ""


def _excluded(row: Row) -> str:
    """Say which PSI the interval at equal documents excludes; empty without one."""
    high = row["psi_same_high"]
    return "" if high is None else f"; a PSI above {number(high)} is excluded"


def _share_given(row: Row) -> str:
    if row["seen"] is None:
        return ""
    return f"It was given the whole evidence of {percent(row['seen'])} of the queries."


def _size(row: Row) -> str:
    published = f"Published PSI {number(row['psi'])} {interval(row['psi_low'], row['psi_high'])}"
    published = published.rstrip()  # few documents have no interval
    if row["psi_same"] is None:
        return f"{published}; at equal documents it cannot be told."
    same = (
        f"PSI at equal documents {number(row['psi_same'])} "
        f"{interval(row['psi_same_low'], row['psi_same_high'])}"
    )
    if finding_of(row) == "depends":
        same += f", {number(row['psi_same_corrected'])} corrected for noise"
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


def comparison_sentences(row: Row, names: tuple[str, str], test: str | None) -> list[str]:
    """Say of a comparison what its figures allow, and no more; see docs/psi.md.

    Parameters
    ----------
    row
        COMPARISONS row over all evidence.
    test
        ``within`` or ``between`` documents, as in the PSI table; None: not tested.
    """
    first, second = names
    said = []
    ends = interval(row["difference_low"], row["difference_high"])
    if row["p_difference"] is None:
        said.append(
            f"Whether their means differ cannot be told: {row['n_documents']} documents are asked "
            "about, and 30 are needed."
        )
    elif row["difference_low"] == row["difference_high"] == 0:
        said.append(f"{first} and {second} have the same mean in each document.")
    elif row["p_difference"] <= ALPHA:
        said.append(f"{_higher(first, row, 'difference')}.")
    else:
        said.append(f"No evidence that their means differ ({change(row['difference'])} {ends}).")
    p = p_text(row["p_profile"])
    if row["p_profile"] is None:
        profile = (
            "whether their profiles differ cannot be told: too few documents inform the "
            "comparison, or one of the two finds nothing or everything"
        )
    elif row["p_profile"] <= ALPHA:
        profile = f"their profiles differ ({p}, on both scales)"
    elif min(row["p_hit"], row["p_miss"]) <= ALPHA:
        profile = (
            "their profiles differ on one scale only (as shares of their hits "
            f"{p_text(row['p_hit'])}, of their misses {p_text(row['p_miss'])}), which a difference "
            "of difficulty can do, too"
        )
    else:
        profile = f"no evidence that their profiles differ ({p})"
    how = "compared between documents, adjusted for length only: " if test == "between" else ""
    text = how + profile
    said.append(f"{text[0].upper()}{text[1:]}.")
    if row["n_cut"] and row["cut_gain"] is not None:
        ends = interval(row["cut_gain_low"], row["cut_gain_high"])
        told = (
            _higher(first, row, "cut_gain")
            if row["p_cut_gain"] <= ALPHA
            else f"there is no evidence that their means differ ({change(row['cut_gain'])} {ends})"
        )
        said.append(
            f"On the {row['n_cut']} queries whose evidence {first} was given and {second} was "
            f"not, {told}."
        )
    return said


def _higher(name: str, row: Row, column: str) -> str:
    """Say of a difference how much higher or lower the first one's mean is."""
    value, low, high = row[column], row[f"{column}_low"], row[f"{column}_high"]
    if value > 0:
        return f"{name}'s mean is higher by {number(value)} {interval(low, high)}"
    return f"{name}'s mean is lower by {number(-value)} {interval(-high, -low)}"
