"""The comparison of two systems leads with their difference, and names both."""

from typing import Any

import polars as pl
from psi_rows import frame, psi_row
from report_tables import bucket_rows

from psibench.report.comparison import comparison_section, ranked
from psibench.tables.schemas import BUCKET_SCORES, COMPARED, PSI_TABLE


def compared_row(model: str, other: str, **changes: Any) -> dict[str, Any]:
    labels = {
        name: psi_row(model)[name] for name in COMPARED.column_names if name in psi_row(model)
    }
    row = {
        "other": other,
        "relation": "given",
        "mean": 0.5,
        "other_mean": 0.55,
        "difference": -0.05,
        "difference_low": -0.09,
        "difference_high": -0.01,
        "p_difference": 0.012,
        "p_difference_adjusted": 0.012,
        "psi_difference": 0.1,
        "psi_difference_low": 0.02,
        "psi_difference_high": 0.18,
        "p_profile": 0.03,
        "p_profile_adjusted": 0.03,
    }
    return dict.fromkeys(COMPARED.column_names) | labels | row | changes


def section_of(**changes: Any) -> dict[str, Any]:
    models = ("mine", "<base>")
    buckets = frame(
        BUCKET_SCORES, [row for name in models for row in bucket_rows(name, (0.5, 0.4, 0.3))]
    )
    found = ranked(
        frame(COMPARED, [compared_row(*models, **changes)]),
        frame(PSI_TABLE, [psi_row(name) for name in models]),
        buckets,
        dict.fromkeys(models, (0.4, 0.6)),
    )
    return comparison_section(found, buckets, metric="ndcg@10", scheme="thirds")


def test_two_systems_lead_with_difference_interval_and_names() -> None:
    lead = section_of()["lead"].replace("\u2068", "").replace("\u2069", "")
    assert lead == (
        "mine minus <base>: mean ndcg@10 −0.050 [−0.090, −0.010] (p = 0.012); "
        "PSI by thirds +0.100 [+0.020, +0.180]; profiles over positions differ (p = 0.030)."
    )


def test_two_systems_without_a_difference_of_profiles_lead_with_no_evidence() -> None:
    assert section_of(p_profile=0.693)["lead"].endswith(
        "; no evidence that profiles over positions differ (p = 0.693)."
    )


def test_two_systems_have_one_table() -> None:
    (table,) = section_of()["tables"]
    assert table.name == "Systems"
    assert "Profiles differ (p ≤ 0.05)." in table.note


def test_a_missing_interval_leaves_the_difference() -> None:
    lead = section_of(difference_low=None, psi_difference=None)["lead"]
    assert "mean ndcg@10 −0.050 (p = 0.012); profiles" in lead
    assert "PSI" not in lead


def test_more_than_two_systems_have_no_lead() -> None:
    models = ("a", "b", "c")
    pairs = [("a", "b"), ("a", "c"), ("b", "c")]
    buckets = frame(
        BUCKET_SCORES, [row for name in models for row in bucket_rows(name, (0.5, 0.4, 0.3))]
    )
    found = ranked(
        pl.concat(frame(COMPARED, [compared_row(*pair)]) for pair in pairs),
        frame(PSI_TABLE, [psi_row(name) for name in models]),
        buckets,
        dict.fromkeys(models, (0.4, 0.6)),
    )
    assert found.pair_text == ""
