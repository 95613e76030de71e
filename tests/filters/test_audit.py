"""Audits by margin under a scripted judge: the drawn pairs and the table."""

import polars as pl
import pytest
from filter_tables import Folder, candidate
from jobs import run

from psibench.filters.audit import audit_sample, run_audit_pairs, run_audit_table, wilson_interval
from psibench.text.segments import POSITIONS

Y, N = True, False

# Query -> target, margin.
MARGINS = {
    "failed": ("beginning", -0.5),
    "tie": ("middle", 0.0),
    "best": ("beginning", 0.5),
    "also": ("middle", 0.3),
    "unsaid": ("end", 0.9),
    "none": ("end", None),
}
# Query -> the judge's verdicts on beginning, middle and end; None: no verdict.
SAID = {
    "failed": (N, Y, N),
    "tie": (N, Y, Y),
    "best": (Y, N, N),
    "also": (N, Y, Y),
    "unsaid": (N, None, Y),
}


class Chain(Folder):
    """One benchmark's candidates and margins in a folder."""

    def __init__(self, folder):
        super().__init__(folder)
        self.write("documents", [{"_id": "d", "text": "aaabbbccc", "origin": "o"}])
        rows = [candidate(name, [target], (3, 6)) for name, (target, _) in MARGINS.items()]
        self.write("candidates", rows)
        margins = margins_frame({name: margin for name, (_, margin) in MARGINS.items()})
        is_exact = pl.col("margin").is_not_null()
        reason = pl.when(~is_exact).then(pl.lit("invalid_score")).otherwise(pl.lit(""))
        about = {"reranker": pl.lit("one"), "is_exact": is_exact, "reason": reason}
        self.write("margins", margins.with_columns(**about))

    def run(self):
        inputs = {name: self.path(name) for name in ("documents", "candidates", "margins")}
        pairs = {"pairs": self.path("audit_pairs")}
        run(run_audit_pairs, inputs, pairs, section={"llm": "judge"})
        verdicts = {
            f"{query}--{part}": said
            for query, parts in SAID.items()
            for part, said in zip(POSITIONS, parts, strict=True)
        }
        self.judge("audit", verdicts, "is_yes", "verdicts")
        inputs = inputs | {"verdicts": self.path("audit")}
        run(run_audit_table, inputs, {"table": self.path("audit_table")})
        return self.read("audit_table")


def margins_frame(margins):
    schema = {"query_id": pl.String, "margin": pl.Float64}
    return pl.DataFrame(list(margins.items()), schema=schema, orient="row")


def test_verdicts_are_counted_by_stratum(tmp_path):
    table = Chain(tmp_path).run()
    columns = ("stratum", "n", "n_unusable", "target_yes", "distractor_no", "exclusive")
    assert table.select(columns).rows() == [
        ("no_margin", 0, 0, None, None, None),
        ("m<0", 1, 0, 0.0, 0.5, 0.0),  # failed: no on its target, yes on one of two others
        ("0<=m<0.1", 1, 0, 1.0, 0.5, 0.0),  # tie: yes on its target, and on one of two others
        ("0.1<=m<0.2", 0, 0, None, None, None),
        ("0.2<=m<0.3", 0, 0, None, None, None),
        ("m>=0.3", 2, 1, 1.0, 0.75, 0.5),  # best is exclusive, also is not; unsaid lacks one
    ]


def test_wilson_intervals_equal_published_values():
    # 81 of 263: R. G. Newcombe, Statistics in Medicine 17 (1998), score method.
    low, high = wilson_interval(81 / 263, 263)
    assert (low, high) == (pytest.approx(0.2553, abs=5e-5), pytest.approx(0.3662, abs=5e-5))
    # No success of 10: low is 0, high is z^2 / (n + z^2) = 3.8415 / 13.8415.
    assert wilson_interval(0.0, 10) == (0.0, pytest.approx(3.841459 / 13.841459, rel=1e-6))
    assert wilson_interval(1.0, 10) == (pytest.approx(10 / 13.841459, rel=1e-6), 1.0)


def test_the_audit_sample_is_independent_of_order():
    margins = margins_frame({f"q{i}": (i - 20) / 40 for i in range(60)} | {"none": None})
    drawn = audit_sample(margins, per_stratum=3, seed=42)
    # Margins -0.5 to 0.975 by 0.025: 20 failed, 4 in each stratum below 0.3, 28 above.
    values = drawn.get_column("margin").to_list()
    strata = [
        sum(low <= m < high for m in values)
        for low, high in [(-1, 0), (0, 0.1), (0.1, 0.2), (0.2, 0.3), (0.3, 2)]
    ]
    assert strata == [3, 3, 3, 3, 3]
    assert "none" not in drawn.get_column("query_id").to_list()
    turned = audit_sample(margins.reverse(), per_stratum=3, seed=42)
    assert turned.sort("query_id").equals(drawn.sort("query_id"))
    assert not audit_sample(margins, per_stratum=3, seed=1).equals(drawn)
    assert audit_sample(margins, per_stratum=100, seed=42).height == 60
    assert audit_sample(margins.clear(), per_stratum=1, seed=42).height == 0
