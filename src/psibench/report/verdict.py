"""The verdict on one model on one benchmark: a label, and a line with the next step.

Both follow from columns of the PSI table by the rules of `docs/psi-reference.md`. The page and the
terminal show the same.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from psibench.metrics.constants import FEWEST_CLUSTERS, FEWEST_DOCUMENTS, SIGNIFICANCE_LEVEL
from psibench.report.views import TableRow
from psibench.report.wording import isolate, number_text, p_text, p_value, percent

FINDINGS = ("depends", "none", "untested", "floor", "undefined")
"""Outcomes of the test of position, in the order of rows."""
SENSITIVE = "sensitive to position"
CUT_OFF = "evidence cut off"
NO_MORE = "no more than the control"
NO_CONTROL = "varies with position; no control"
NO_EFFECT = "no effect found"
CONTROL = "control"
NOT_TESTABLE = "not testable"
VERDICT_LABELS = {
    SENSITIVE: "Scores depend on the position of the evidence, more than the scores of the "
    "position-blind control do. If cut-off evidence lowers the score, this holds for evidence "
    "inside the input. It assumes that questions that are hard for the model are as hard for the "
    "control. If each document has one evidence position, only the p against the control decides.",
    CUT_OFF: "Scores depend on the position of the evidence, and evidence beyond the input lowers "
    "the score. No effect was found for evidence inside the input.",
    NO_MORE: "Scores depend on the position of the evidence, but no more than the scores of the "
    "position-blind control. The questions may be the cause.",
    NO_CONTROL: "Scores depend on the position of the evidence. Without a position-blind control, "
    "the questions may be the cause.",
    NO_EFFECT: "The test found no effect of position. A smaller effect than the upper end of the "
    "interval is possible.",
    CONTROL: "A control: it shows the effect of only the questions or the truncation.",
    NOT_TESTABLE: "Too few documents could show an effect, or the model finds almost nothing.",
}
"""Each label of a verdict, and its meaning."""
ASSUMPTION = (
    "“Sensitive to position” assumes that questions that are hard for the model are as hard for "
    "the control."
)
"""Printed once below the verdicts, see `docs/psi-method.md`."""
UNKNOWN_INPUT = (
    "In input –: not known. An effect may come from text that the model did not read; to separate "
    "the two, give its input length (docs/score.md#report-the-input-length)."
)
"""Printed once below the verdicts if `has_unknown_input` applies to a model."""
BUCKET_TEXTS = {
    "beginning": "at document beginnings",
    "middle": "in document middles",
    "end": "at document ends",
}
MATERIAL_CUT = 0.05
"""Share of the evidence beyond a model's input from which every verdict mentions it."""

ADJUSTED = {"p_position": "p_adjusted", "p_control": "p_control_adjusted"}
NModels = Mapping[str, Mapping[str, int]]
"""By column of `ADJUSTED` and evidence view (see `verdicts`), the number of models that p is
adjusted for."""


@dataclass(frozen=True)
class ModelVerdict:
    """The verdict on one model: one of `VERDICT_LABELS`, and the sentences of its line."""

    model: str
    label: str
    advice: str


def verdicts(rows: Sequence[TableRow], others: Sequence[TableRow] = ()) -> list[ModelVerdict]:
    """Return the verdicts on the models of one benchmark, language pair, metric and scheme.

    Label and advice use ``rows``, in the first bucket scheme of the benchmark's config. If the
    adjusted p of another scheme is on the other side of .05, the advice names that scheme and its
    p. Models with effects come first, the largest first; controls come last.

    Parameters
    ----------
    rows
        PSI_TABLE rows of the scheme over all domains and lengths, of all evidence views. The view
        ``all`` has all queries, ``visible`` the queries whose evidence is inside the model's input.
    others
        The rows of the same models in the benchmark's other schemes.
    """
    n_models = {column: Counter(_tested_views(rows, column)) for column in ADJUSTED}
    visible_rows = {row["model"]: row for row in rows if row["evidence"] == "visible"}
    found = []
    for row in sorted((row for row in rows if row["evidence"] == "all"), key=row_order):
        model = row["model"]
        visible = visible_rows.get(model)
        label = label_of(row, visible)
        mine = [one for one in others if one["model"] == model and one["evidence"] == "all"]
        sentences = (
            *_advice(row, visible, label, n_models),
            _disagreeing_schemes(row, mine),
            _few_units((basis_of(row, visible) or row, row), label),
        )
        found.append(ModelVerdict(model, label, " ".join(filter(None, sentences))))
    return found


def _tested_views(rows: Sequence[TableRow], column: str) -> list[str]:
    return [row["evidence"] for row in rows if row[column] is not None]


def shown_interval(row: TableRow, name: str = "psi_same") -> tuple[float | None, float | None]:
    """Return the printed interval of ``psi_same`` or ``psi``; it agrees with the adjusted p.

    The columns describe one model and are not adjusted. The printed interval starts at 0 if the
    adjusted p is above .05 or missing. Returns (None, None) if the interval of the row belongs to
    another test: for the plain PSI, if p compares the queries of one document; and for an interval
    that starts at 0 although p is at most .05 (another ``level``).
    """
    low, high, p = row[f"{name}_low"], row[f"{name}_high"], row["p_adjusted"]
    if low is None or high is None or (name == "psi" and row["test"] != "between"):
        return None, None
    if p is None or p > SIGNIFICANCE_LEVEL:
        return 0.0, high
    return (low, high) if low > 0 else (None, None)


def shown_psi(row: TableRow, name: str = "psi_same", *, separator: str = " ") -> str:
    """Return ``psi_same`` or ``psi`` of a row with its `shown_interval`.

    A lower end that rounds to 0 without being 0 is ``<0.001``.
    """
    low, high = shown_interval(row, name)
    if low is None:
        return number_text(row[name])
    start = "<0.001" if 0 < low < 0.0005 else number_text(low)
    return f"{number_text(row[name])}{separator}[{start}, {number_text(high)}]"


def shown_psis(rows: pl.DataFrame, name: str) -> pl.Series:
    """Return `shown_psi` of each row, for `psibench.report.tables.table_of`."""
    texts = [shown_psi(row, name, separator="\n") for row in rows.iter_rows(named=True)]
    return pl.Series(texts, dtype=pl.String)


def label_of(row: TableRow, visible: TableRow | None) -> str:
    """Return the label (see `VERDICT_LABELS`) for a model's rows over all and visible evidence."""
    if finding_of(row) in ("undefined", "floor", "untested"):
        return NOT_TESTABLE
    if has_flag(row, "position_blind") or has_flag(row, "truncating"):
        return CONTROL
    if basis_of(row, visible) is not None:
        return SENSITIVE
    depends = finding_of(row) == "depends"
    if (depends or exceeds_control(row)) and truncation_lowers_score(row):
        return CUT_OFF
    if not depends:
        return NO_EFFECT
    return NO_CONTROL if row["control"] is None else NO_MORE


def basis_of(row: TableRow, visible: TableRow | None) -> TableRow | None:
    """Return the row that makes a model *sensitive to position*; None if neither row does.

    This is the row of all evidence, unless evidence beyond the input lowers the score; then it is
    the row of the visible evidence.
    """
    if finding_of(row) != "depends" and not exceeds_control(row):
        return None
    views = [] if truncation_lowers_score(row) else [row]
    if visible is not None and is_cut(row):
        views.append(visible)
    return next(filter(exceeds_control, views), None)


def is_cut(row: TableRow) -> bool:
    """Return whether some evidence is known to lie beyond the model's input."""
    return row["seen"] is not None and row["seen"] < 1.0


def cut_text(row: TableRow, *, least: float = MATERIAL_CUT) -> str:
    """Return the share of the evidence beyond the model's input as text; empty below ``least``."""
    if row["seen"] is None or round(1 - row["seen"], 9) < least:
        return ""
    return f"{percent(1 - row['seen'])} of the evidence is cut off"


def truncation_lowers_score(row: TableRow) -> bool:
    """Return whether evidence beyond the input lowers the score (interval below 0)."""
    high = row["truncation_high"]
    return is_cut(row) and high is not None and row["truncation"] < 0 and high < 0


def has_unknown_input(row: TableRow, label: str) -> bool:
    """Return whether a model with an effect of position may not have read all evidence."""
    return row["seen"] is None and label in (SENSITIVE, NO_CONTROL, NO_MORE)


def exceeds_control(row: TableRow) -> bool:
    """Return whether position matters more than it does for the position-blind control.

    Within documents both p must reject. Between documents the p against the control is enough: it
    compares two systems on the same documents (see `ASSUMPTION`).
    """
    p = row["p_control_adjusted"]
    if p is None or p > SIGNIFICANCE_LEVEL or has_flag(row, "position_blind"):
        return False
    finding = finding_of(row)
    return finding == "depends" or (finding == "none" and row["test"] == "between")


def _advice(row: TableRow, visible: TableRow | None, label: str, n_models: NModels) -> list[str]:
    """Return the sentences of a model's line, the next step first."""
    if label == CONTROL and has_flag(row, "truncating"):
        return [_truncating_control(row)]
    basis = basis_of(row, visible) if label == SENSITIVE else None
    cut = cut_text(row, least=0.0 if label == CUT_OFF else MATERIAL_CUT)
    sentences = []
    if basis is not None:
        lowest = f"Scores are lowest for evidence {_bucket_text(basis)}{_basis_text(row, basis)}"
        if is_cut(row) and (visible is None or not exceeds_control(visible)):
            cut = f"{lowest}; {cut_text(row, least=0.0)}"
        else:
            sentences.append(f"{lowest}: try windows, fusion or a reranker (docs/mitigations.md).")
    elif label == CUT_OFF:
        cut += _basis_text(row, row) if finding_of(row) == "none" else ""
    else:
        sentences.append(_without_claim(row, label, n_models))
    if cut:
        sentences.append(f"{cut}: use shorter passages, a larger max_tokens or windows.")
    if label == CUT_OFF and visible is not None and finding_of(visible) == "depends":
        sentences.append(
            "Scores depend on position inside the input, too "
            f"({p_text(visible['p_adjusted'])}); the questions may be the cause."
        )
    is_effect = label in (SENSITIVE, CUT_OFF, NO_MORE, NO_CONTROL)
    if is_effect and (basis or row)["test"] == "between":
        sentences.append(
            "Positions differ mostly between documents, so difficult documents may look like an "
            "effect of position: write queries about several positions of each document."
        )
    return sentences


def _without_claim(row: TableRow, label: str, n_models: NModels) -> str:
    """Return the first sentence for a label that claims no effect of the model."""
    if label == NOT_TESTABLE:
        return _why_untested(row)
    if label == NO_CONTROL:
        return (
            "The questions may be the cause: add a control that ignores position (docs/score.md)."
        )
    if label == NO_MORE:
        adjusting = _adjusting(row, "p_control", n_models)
        return (
            f"Scores depend on position no more than the control's{adjusting}; the questions "
            "may be the cause."
        )
    if label == CONTROL and finding_of(row) == "depends":
        return (
            "Control: it ignores position, so the questions cause its effect; compare models with "
            "it."
        )
    return _no_effect(row, n_models)


def _bucket_text(row: TableRow) -> str:
    bucket = row["worst_same"] or row["worst_bucket"]
    return BUCKET_TEXTS.get(bucket, f"in bucket {isolate(bucket)}")


def _basis_text(row: TableRow, basis: TableRow) -> str:
    """Return in parentheses which evidence and which p a claim uses, unless the table shows it."""
    is_inside, is_between = basis is not row, basis["test"] == "between"
    parts = ["evidence inside the input"] if is_inside else []
    if is_inside or is_between:
        same = " on the same documents" if is_between else ""
        parts.append(f"against the control{same}, {p_text(basis['p_control_adjusted'])}")
    return f" ({'; '.join(parts)})" if parts else ""


def _no_effect(row: TableRow, n_models: NModels) -> str:
    found = f"No effect found{_adjusting(row, 'p_position', n_models)}"
    high = row["psi_same_high"]
    if high is None:
        return f"{found}; use more documents to get an upper bound of PSI."
    return f"{found}: PSI is below {number_text(high)} (95 % bound)."


def _adjusting(row: TableRow, column: str, n_models: NModels) -> str:
    """Return p before and after adjustment if only the p before it is at most .05."""
    before, after = row[column], row[ADJUSTED[column]]
    if before is None or after is None or not before <= SIGNIFICANCE_LEVEL < after:
        return ""
    n = n_models[column][row["evidence"]]
    return f" ({p_text(before)} before and {p_value(after)} after adjusting for {n} models)"


def _disagreeing_schemes(row: TableRow, others: Sequence[TableRow]) -> str:
    """Return a sentence on the bucket schemes whose adjusted p is on the other side of .05."""
    opposite = {"depends": "none", "none": "depends", "untested": "depends"}
    unlike = [one for one in others if finding_of(one) == opposite.get(finding_of(row))]
    named = ", ".join(f"{one['buckets']} {p_text(one['p_adjusted'])}" for one in unlike)
    return f"Other bucket schemes (divisions into positions) disagree: {named}." if unlike else ""


def _few_units(rows: Sequence[TableRow], label: str) -> str:
    if label != NOT_TESTABLE and any(has_flag(row, "sections") for row in rows):
        return "This holds only for these few documents."
    few = [row["n_clusters"] for row in rows if has_flag(row, "few_clusters")]
    if not few or label == NOT_TESTABLE:
        return ""
    return f"This holds only for these {few[0]} clusters (e.g. articles or sites)."


def _truncating_control(row: TableRow) -> str:
    cut = f" ({cut_text(row, least=0.0)})" if row["seen"] is not None else ""
    finding = finding_of(row)
    is_late_worse = finding == "depends" and row["drop_low"] is not None and row["drop_low"] > 0
    if is_cut(row) and (is_late_worse or (finding == "none" and exceeds_control(row))):
        return f"Control: position effect found, as expected{cut}."
    return (
        "Control: its known loss of late evidence was not detected"
        f"{cut}, so a real effect could be missed too."
    )


def _why_untested(row: TableRow) -> str:
    finding = finding_of(row)
    if row["n_queries"] == 0 or (finding == "undefined" and row["n_buckets"] < 2):
        return "Needs queries in at least two position buckets to test position."
    if finding in ("undefined", "floor"):
        return "Finds almost nothing: check prompts, input length and labels."
    if has_flag(row, "no_lengths"):
        return "Needs document lengths (pos_char_length) to test position."
    if has_flag(row, "at_ceiling"):
        return "Finds nearly everything: use harder queries or more documents to test position."
    if row["n_informative_documents"] >= FEWEST_DOCUMENTS:
        return f"Needs {FEWEST_CLUSTERS} clusters that can show an effect to test position."
    n_needed, n_found = FEWEST_DOCUMENTS, row["n_informative_documents"]
    return f"Needs {n_needed} documents that can show an effect (has {n_found}) to test position."


def finding_of(row: TableRow) -> str:
    """Return the outcome of a PSI row's test, one of `FINDINGS`."""
    if row["psi"] is None:
        return "undefined"
    if has_flag(row, "at_floor"):
        return "floor"
    if row["p_adjusted"] is None:
        return "untested"
    return "depends" if row["p_adjusted"] <= SIGNIFICANCE_LEVEL else "none"


def has_flag(row: TableRow, name: str) -> bool:
    """Return whether a PSI row has a flag."""
    return name in row["flags"].split(", ")


def is_control(row: TableRow) -> bool:
    """Return whether a PSI row is about a control."""
    is_flagged = has_flag(row, "position_blind") or has_flag(row, "truncating")
    return is_flagged or row.get("kind") == "control"


def row_order(row: TableRow) -> tuple[bool, int, float]:
    """Return the sort key of a PSI row.

    Effects come first, the largest first, then rows without an effect and without PSI. Controls are
    last, in the same order.
    """
    size = row["psi_same_corrected"]
    finding = "depends" if exceeds_control(row) else finding_of(row)
    return is_control(row), FINDINGS.index(finding), -(size if size is not None else 0.0)
