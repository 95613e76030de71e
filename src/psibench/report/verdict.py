"""What the figures of one model on one benchmark allow to say: a word, and a line on what to do.

Both follow from columns of the PSI table by the rules of `docs/psi-reference.md`; nothing else is
said. The page and the terminal show the same.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from psibench.metrics.constants import FEWEST_CLUSTERS, FEWEST_DOCUMENTS
from psibench.report.views import Row
from psibench.report.wording import ALPHA, isolate, number, p_text, p_value, percent

FINDINGS = ("depends", "none", "untested", "floor", "undefined")
ASSUMPTION = (
    "Beyond the control: if questions that are hard for the model are as hard for the control."
)
"""What *sensitive* takes for granted, see `docs/psi-method.md`."""
SCHEME_RULE = "Words follow the first bucket scheme of a benchmark; a line names those that differ."
WORDS = {
    "sensitive": "Scores depend on where the evidence is, beyond the position-blind control; where "
    "the cut is shown to cost some of the score, on the evidence that was given, too. This holds "
    "if questions that are hard for the model are as hard for the control. Where each document is "
    "asked about in one place, the p against the control decides alone.",
    "truncation": "Scores depend on where the evidence is. That evidence beyond the input costs "
    "some of the score is shown, an effect on the evidence that was given is not.",
    "not shown": "A position effect of the model's own was tested for and not shown. That is no "
    "evidence that there is none.",
    "not testable": "Too few documents could show an effect, or next to nothing is found.",
}
"""The words that a verdict comes to, and what they mean."""
MATERIAL_CUT = 0.05
"""Share of the evidence beyond a model's input from which every verdict mentions it."""

ADJUSTED = {"p_position": "p_adjusted", "p_control": "p_control_adjusted"}
NModels = Mapping[str, Mapping[str, int]]
"""By column of `ADJUSTED` and evidence view, the number of models that its p is adjusted for."""


@dataclass(frozen=True)
class Verdict:
    """What is said of one model: one of `WORDS`, and what to do.

    ``is_disputed``: by another bucket scheme the adjusted p says otherwise; the advice names it.
    """

    model: str
    word: str
    advice: str
    is_disputed: bool = False


def verdicts(rows: Sequence[Row], others: Sequence[Row] = ()) -> list[Verdict]:
    """Return the verdicts on the models of one benchmark, language pair, metric and scheme.

    Word and advice follow ``rows``, those of the benchmark's first bucket scheme, which is the
    first that its config names. Where the adjusted p of another scheme is on the other side of
    .05, the advice ends with that scheme and its p. In order of what is found: effects first, the
    largest before; models that find next to nothing last.

    Parameters
    ----------
    rows
        PSI_TABLE rows of the scheme over all domains and lengths, all evidence views.
    others
        The rows of the same models in the benchmark's other schemes.
    """
    n_models = {column: Counter(_tested(rows, column)) for column in ADJUSTED}
    seen = {row["model"]: row for row in rows if row["evidence"] == "visible"}
    found = []
    for row in sorted((row for row in rows if row["evidence"] == "all"), key=place):
        model = row["model"]
        word = word_of(row, seen.get(model))
        advice = _advice(row, word, seen.get(model), n_models)
        if (cut := cut_words(row)) and cut not in advice:
            advice = f"{advice} {cut}."
        mine = [one for one in others if one["model"] == model and one["evidence"] == "all"]
        disputed = _by_other_schemes(row, mine)
        used = (basis_of(row, seen.get(model)) or row, row)
        sentences = (advice, disputed, _of_few_clusters(used, word))
        found.append(Verdict(model, word, " ".join(filter(None, sentences)), disputed != ""))
    return found


def _tested(rows: Sequence[Row], column: str) -> list[str]:
    return [row["evidence"] for row in rows if row[column] is not None]


def shown_interval(row: Row, name: str = "psi_same") -> tuple[float | None, float | None]:
    """Return the interval of ``psi_same`` or ``psi`` that is printed beside a row's adjusted p.

    The columns are of one model and not adjusted. What is printed beside the adjusted p says the
    same as it does: it starts at 0 where that p is above .05, or missing. There is no interval
    where the row's is of another test: of the plain PSI if p compares the queries of one document,
    and one from 0 on although p is at most .05 (another ``level``).
    """
    low, high, p = row[f"{name}_low"], row[f"{name}_high"], row["p_adjusted"]
    if low is None or high is None or (name == "psi" and row["test"] != "between"):
        return None, None
    if p is None or p > ALPHA:
        return 0.0, high
    return (low, high) if low > 0 else (None, None)


def shown_psi(row: Row, name: str = "psi_same", *, separator: str = " ") -> str:
    """Return ``psi_same`` or ``psi`` of a row with its `shown_interval`.

    A lower end that rounds to 0 without being 0 is ``<0.001``.
    """
    low, high = shown_interval(row, name)
    if low is None:
        return number(row[name])
    start = "<0.001" if 0 < low < 0.0005 else number(low)
    return f"{number(row[name])}{separator}[{start}, {number(high)}]"


def shown_psis(rows: pl.DataFrame, name: str) -> pl.Series:
    """Return `shown_psi` of each row, for `psibench.report.tables.table_of`."""
    texts = [shown_psi(row, name, separator="\n") for row in rows.iter_rows(named=True)]
    return pl.Series(texts, dtype=pl.String)


def word_of(row: Row, visible: Row | None) -> str:
    """Return which of `WORDS` a model's rows over all and over the given evidence come to."""
    if finding_of(row) in ("undefined", "floor", "untested"):
        return "not testable"
    if basis_of(row, visible) is not None:
        return "sensitive"
    is_found = finding_of(row) == "depends" or is_beyond(row)
    return "truncation" if is_found and costs_score(row) else "not shown"


def basis_of(row: Row, visible: Row | None) -> Row | None:
    """Return the row that makes a model *sensitive*; None if neither does.

    The row of all evidence, unless evidence beyond the input is shown to cost some of the score;
    else that of the visible evidence.
    """
    if finding_of(row) != "depends" and not is_beyond(row):
        return None
    views = [] if costs_score(row) else [row]
    if visible is not None and is_cut(row):
        views.append(visible)
    return next(filter(is_beyond, views), None)


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


def is_beyond(row: Row) -> bool:
    """Return whether position matters beyond the position-blind control.

    Within documents both p have to reject. Between documents the p against the control is enough:
    it compares two systems on the same documents, as hard for one as for the other (`ASSUMPTION`).
    """
    p = row["p_control_adjusted"]
    if p is None or p > ALPHA or has_flag(row, "position_blind"):
        return False
    finding = finding_of(row)
    return finding == "depends" or (finding == "none" and row["test"] == "between")


def _advice(row: Row, word: str, visible: Row | None, n_models: NModels) -> str:
    """Return what to do about a word, short enough for a line of a terminal."""
    if word == "not testable":
        return _untested(row)
    if has_flag(row, "position_blind"):
        return _of_blind_control(row, n_models)
    if has_flag(row, "truncating"):
        return _of_truncating_control(row, n_models)
    basis = basis_of(row, visible)
    if basis is not None:
        return _of_sensitive(row, basis, visible, n_models)
    is_found = finding_of(row) == "depends"
    if word == "truncation":
        advice = f"{cut_words(row, least=0.0)}: shorter passages, more max_tokens or windows."
        return advice if is_found else f"{advice} {_of_control_alone(row, n_models)}"
    if not is_found:
        return _of_no_evidence(row, n_models)
    if row["test"] == "between":
        return "Depends on position, or on the document: ask about several places of each."
    if row["control"] is None:
        return "Depends on position; so may the questions: add the position-blind control."
    aside = _aside(row, "p_control", n_models)
    return f"Depends on position, not shown to exceed the control{aside}: it may be the questions."


def _of_no_evidence(row: Row, n_models: NModels) -> str:
    high = row["psi_same_high"]
    told = (
        "more documents would tell more"
        if high is None
        else f"a PSI above {number(high)} is excluded"
    )
    return f"No evidence of an effect{_aside(row, 'p_position', n_models)}; {told}."


def _of_sensitive(row: Row, basis: Row, visible: Row | None, n_models: NModels) -> str:
    """Return what to do, and what the word rests on where that is not the printed row within."""
    is_within, is_given = basis["test"] != "between", basis is not row
    against = p_text(basis["p_control_adjusted"])
    lowest = f"Lowest in {isolate(basis['worst_same'] or basis['worst_bucket'])}"
    lowest += " on the evidence given" if is_given else ""
    if not is_within:
        lowest += f", beyond the control on the same documents ({against})"
    elif is_given:
        lowest += f" (against the control {against})"
    if is_cut(row) and (visible is None or not is_beyond(visible)):
        advice = f"{lowest}; {cut_words(row, least=0.0)}: give it more, then measure again."
    else:
        advice = f"{lowest}: measure windows, fusion or a reranker (docs/mitigations.md)."
    if not is_within:
        advice += " Its size cannot be told apart from the documents' difficulty."
    if unshown := [one for one in (row, basis) if finding_of(one) == "none"]:
        advice += f" {_of_documents_alone(unshown[0], n_models)}"
    return advice


def _of_control_alone(row: Row, n_models: NModels) -> str:
    """Say that the comparison with the control shows an effect that the documents do not show."""
    against = p_text(row["p_control_adjusted"])
    alone = _of_documents_alone(row, n_models)
    return f"Beyond the control on the same documents ({against}). {alone}"


def _of_documents_alone(row: Row, n_models: NModels) -> str:
    both = _of_both(row, "p_position", n_models) or p_text(row["p_adjusted"])
    given = " on the evidence given" if row["evidence"] == "visible" else ""
    return f"The documents alone do not show it{given} ({both})."


def _aside(row: Row, column: str, n_models: NModels) -> str:
    both = _of_both(row, column, n_models)
    return f" ({both})" if both else ""


def _of_both(row: Row, column: str, n_models: NModels) -> str:
    """Return both p where that of the model alone rejects and the adjusted one does not."""
    alone, adjusted = row[column], row[ADJUSTED[column]]
    if alone is None or adjusted is None or not alone <= ALPHA < adjusted:
        return ""
    n = n_models[column][row["evidence"]]
    return f"{p_text(alone)} of this model alone, {p_value(adjusted)} adjusted for {n} models"


def _by_other_schemes(row: Row, others: Sequence[Row]) -> str:
    """Return a sentence on the bucket schemes by which the adjusted p says otherwise, if any."""
    opposite = {"depends": "none", "none": "depends", "untested": "depends"}
    wanted = opposite.get(finding_of(row))
    unlike = [one for one in others if finding_of(one) == wanted]
    if not unlike:
        return ""
    named = [f"by {one['buckets']} {p_text(one['p_adjusted'])}" for one in unlike]
    said = "depends on position there" if wanted == "depends" else "not shown there"
    if wanted == "depends" and any(one["test"] == "between" for one in unlike):
        said = "depends on position, or on the document, there"
    return f"B{', '.join(named)[1:]}: {said}."


def _of_few_clusters(rows: Sequence[Row], word: str) -> str:
    """Return a sentence that keeps the claim to the clusters that there are, where they are few."""
    few = [row["n_clusters"] for row in rows if has_flag(row, "few_clusters")]
    return f"This holds in these {few[0]} clusters alone." if few and word != "not testable" else ""


def _of_blind_control(row: Row, n_models: NModels) -> str:
    if finding_of(row) == "depends":
        return "A control: the questions differ by position; read the others against it."
    aside = _aside(row, "p_position", n_models)
    return f"A control: no evidence that the questions differ by position{aside}."


def _of_truncating_control(row: Row, n_models: NModels) -> str:
    is_found = finding_of(row) == "depends"
    if not is_found and is_beyond(row):
        return f"A control: an effect of position. {_of_control_alone(row, n_models)}"
    if row["seen"] == 1.0:
        return "A control: documents are too short here to cut anything off."
    if not is_found:
        aside = _aside(row, "p_position", n_models)
        return (
            f"A control: no effect of what it is known to do{aside}; others' could be missed, too."
        )
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
    finding = "depends" if is_beyond(row) else finding_of(row)
    return FINDINGS.index(finding), -(size if size is not None else 0.0)
