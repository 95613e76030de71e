"""The report's section of mitigations: there only where a model mitigates another one."""

from dataclasses import replace

import polars as pl

from psibench.report.page import render_report
from psibench.tables.summary_schemas import MITIGATIONS

ROW = {
    **{"benchmark": "docs", "query_lang": "eng-Latn", "corpus_lang": "eng-Latn"},
    **{"model": "alpha", "base": "cut", "metric": "ndcg@10", "buckets": "thirds"},
    **{"n_queries": 1200, "n_documents": 500, "p_profile": 0.01, "queries_by": "people"},
    **{"psi_same_before": 0.69, "psi_same_before_low": 0.6, "psi_same_before_high": 0.75},
    **{"psi_same_after": 0.21, "psi_same_after_low": 0.17, "psi_same_after_high": 0.27},
    **{"psi_same_difference": -0.48, "psi_same_difference_low": -0.56},
    **{"psi_same_difference_high": -0.39, "mean_before": 0.4, "mean_after": 0.5},
    **{"mean_difference": 0.1, "mean_difference_low": 0.05, "mean_difference_high": 0.15},
    **{"given_before": 0.6, "given_after": 1.0, "vectors_before": 1.0, "vectors_after": 2.54},
    **{"tokens_before": 128.0, "tokens_after": 300.2, "pairs_before": 0.0, "pairs_after": 0.0},
    **{"verdict": "PSI at equal documents lower; mean higher", "flags": "filter_panel"},
}


def page(small, *rows) -> str:
    table = pl.DataFrame(list(rows), schema=MITIGATIONS.empty().schema)
    return render_report(replace(small, summaries={"mitigations": table}))


def test_a_mitigation_is_shown_before_and_after_with_its_cost_and_verdict(small):
    found = page(small, ROW)
    section = found.partition('<section id="mitigations">')[2].partition("</section>")[0]
    for text in (
        "docs: before and after",
        "instead of",
        "−0.480",
        "[−0.560, −0.390]",
        "+0.100",
        "60.0 %",
        "→ 100.0 %",
        "→ 2.5",
        "→ 300",
        "PSI at equal documents lower; mean higher",
        'href="mitigations.csv"',
    ):
        assert text in section, text
    assert "languages" not in section
    assert 'href="#mitigations"' in found


def test_rows_name_languages_and_buckets_where_there_are_several(small):
    found = page(small, ROW, ROW | {"query_lang": "deu-Latn", "buckets": "relative-20"})
    section = found.partition('<section id="mitigations">')[2].partition("</section>")[0]
    assert "deu-Latn → eng-Latn" in section
    assert "relative-20" in section
