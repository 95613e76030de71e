"""The results of a PSI table as a piece of HTML, for notebooks."""

from collections.abc import Sequence
from typing import Any

import polars as pl
from markupsafe import Markup

from psibench.report.summary import summaries
from psibench.report.verdict import VERDICT_LABELS
from psibench.report.wording import SCHEME_TEXTS, estimate, number_text, p_value, pair_text, percent

HEADINGS = ("Mean", "PSI at equal documents", "p", "p against control", "In input", "Verdict")


def glance_html(psi: pl.DataFrame, buckets: pl.DataFrame, notes: Sequence[str] = ()) -> str:
    """Return a table with bucket means, PSI and verdict for each benchmark and language pair.

    ``psi`` and ``buckets`` are PSI_TABLE and BUCKET_SCORES rows; ``notes`` are sentences below the
    tables. The result has no style sheet, and all texts are escaped.
    """
    parts = [_result_html(found) for found in summaries(psi, buckets)]
    parts += [Markup("<p>{}</p>").format(note) for note in notes]
    return str(Markup("\n").join(parts))


def _result_html(found: dict[str, Any]) -> Markup:
    scheme, pair = found["buckets"], pair_text(found["query_lang"], found["corpus_lang"])
    title = f"{found['benchmark']}, {pair}: {found['metric']} by "
    title += SCHEME_TEXTS.get(scheme, scheme)
    labels = found["models"][0]["buckets"]["bucket"].to_list()
    head = Markup("").join(
        Markup("<th>{}</th>").format(name) for name in ("Model", *labels, *HEADINGS)
    )
    rows = Markup("\n").join(Markup("<tr>{}</tr>").format(_cells(one)) for one in found["models"])
    advice = Markup("").join(
        Markup("<li><b>{}</b>: {}</li>").format(one["model"], one["advice"])
        for one in found["models"]
    )
    return Markup(
        "<p><b>{}</b></p>\n<table>\n<thead><tr>{}</tr></thead>\n<tbody>\n{}\n</tbody>\n</table>\n"
        "<ul>{}</ul>"
    ).format(title, head, rows, advice)


def _cells(model: dict[str, Any]) -> Markup:
    means = model["buckets"]
    known = "same_mean" if means["same_mean"].count() else "mean"
    psi = estimate(*(model[f"psi_same{end}"] for end in ("", "_low", "_high")))
    if model["psi_same"] is None:
        psi = f"{number_text(model['psi'])}*"
    meaning = VERDICT_LABELS[model["verdict"]]
    verdict = Markup('<td title="{}">{}</td>').format(meaning, model["verdict"])
    texts = [model["model"], *map(number_text, means[known]), number_text(model["mean"]), psi]
    texts += [p_value(model["p_adjusted"]), p_value(model["p_control_adjusted"])]
    cells = [Markup("<td>{}</td>").format(one) for one in (*texts, percent(model["seen"], 0))]
    return Markup("").join([*cells, verdict])
