"""Language pairs side by side, and the one that leads."""

from report_tables import bucket_rows, frame, psi_row, report_input

from psibench.report.languages import pair_tables
from psibench.report.page import render_report
from psibench.report.views import BenchmarkInfo, headlines
from psibench.tables.schemas import PSI_TABLE

PAIRS = (("ara-Arab", "eng-Latn"), ("ara-Arab", "ara-Arab"), ("eng-Latn", "eng-Latn"))
PSI = [
    psi_row(model, query_lang=asked, corpus_lang=read, psi_same=psi and psi + place / 10)
    for model, psi in (("alpha", 0.1), ("between", None))
    for place, (asked, read) in enumerate(PAIRS)
]
INFO = BenchmarkInfo("docs", "controlled")


def test_each_pair_has_the_psi_of_every_model_monolingual_ones_first() -> None:
    more = [PSI[0] | changes for changes in ({"domain": "law"}, {"evidence": "visible"})]
    table = frame(PSI_TABLE, [*PSI, *more])
    (shown,) = pair_tables(INFO, table, metric="ndcg@10")
    assert shown.header == ("model", "ara-Arab", "eng-Latn", "ara-Arab → eng-Latn")
    # Where documents cannot tell, the published PSI.
    assert shown.rows == (
        ("alpha", "0.200", "0.300", "0.100"),
        ("between", "0.250", "0.250", "0.250"),
    )
    assert pair_tables(INFO, table.filter(query_lang="eng-Latn"), metric="ndcg@10") == []


def test_the_page_leads_with_the_pair_of_one_language_with_most_queries() -> None:
    rows = bucket_rows("alpha", (0.5, 0.4, 0.3), query_lang="eng-Latn", corpus_lang="eng-Latn")
    page = render_report(report_input([*reversed(PSI)], rows))
    assert 'id="languages"' in page
    assert '<span class="chip" title="languages of queries and documents">eng-Latn</span>' in page
    table = frame(PSI_TABLE, PSI)
    assert headlines(table)["docs"]["query_lang"] == "ara-Arab"  # of a tie the first
    more = frame(PSI_TABLE, [PSI[0] | {"n_queries": 9999}, PSI[2] | {"n_queries": 1300}])
    assert headlines(table.vstack(more))["docs"]["query_lang"] == "eng-Latn"
