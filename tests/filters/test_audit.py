"""Queries drawn by margin under a scripted judge: who is asked about what, and the table."""

import math

import polars as pl
import pytest
from filter_tables import Folder, candidate, examples, some_targets, targets_frame
from hypothesis import given
from hypothesis import strategies as st
from scripted_judge import judge, say

from psibench.filters.audit import (
    Audit,
    audit_sample,
    audit_table,
    run_audit_pairs,
    run_audit_table,
    wilson_interval,
)
from psibench.filters.grade import verdict_task
from psibench.tables import read_provenance
from psibench.text.segments import POSITIONS

TASK = verdict_task("audit")
Y, N = "yes", "no"

# Query -> target, margin.
MARGINS = {
    "failed": ("beginning", -0.5),
    "tie": ("middle", 0.0),
    "best": ("beginning", 0.5),
    "also": ("middle", 0.3),
    "unsaid": ("end", 0.9),
    "none": ("end", None),
}
# Query -> what the judge says of beginning, middle and end; None: no verdict.
SAID = {
    "failed": (N, Y, N),
    "tie": (N, Y, Y),
    "best": (Y, N, N),
    "also": (N, Y, Y),
    "unsaid": (N, None, Y),
}


class Chain(Folder):
    """One benchmark's candidates and margins in a folder."""

    def __init__(self, folder, margins=MARGINS, said=SAID, **section):
        super().__init__(folder)
        self.said, self.section = said, Audit(llm="judge", **section)
        self.write("documents", [{"_id": "d", "text": "aaabbbccc", "origin": "o"}])
        rows = [candidate(name, [target], (3, 6)) for name, (target, _) in margins.items()]
        self.write("candidates", rows)
        schema = {"query_id": pl.String, "margin": pl.Float64}
        rows = [(name, margin) for name, (_, margin) in margins.items()]
        known = pl.DataFrame(rows, schema=schema, orient="row")
        has_margin = pl.col("margin").is_not_null()
        self.write(
            "margins",
            known.with_columns(
                reranker=pl.lit("one"),
                is_exact=has_margin,
                reason=pl.when(has_margin).then(pl.lit("")).otherwise(pl.lit("invalid_score")),
            ),
        )

    def draw(self):
        inputs = {name: self.path(name) for name in ("documents", "candidates", "margins")}
        run_audit_pairs(self.section, **inputs, output=self.path("audit_pairs"))
        return self.read("audit_pairs", "pairs")

    def reply(self, pair_id):
        query, part = pair_id.split("--")
        return say("verdict", self.said[query][POSITIONS.index(part)])

    def run(self):
        self.draw()
        judge(
            TASK,
            self.reply,
            documents=self.path("documents"),
            pairs=self.path("audit_pairs"),
            output=self.path("audit"),
        )
        run_audit_table(
            candidates=self.path("candidates"),
            margins=self.path("margins"),
            verdicts=self.path("audit"),
            output=self.path("audit_table"),
        )
        return self.read("audit_table")


def test_verdicts_are_counted_by_stratum_and_a_query_that_lacks_one_is_unusable(tmp_path):
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


def test_a_judge_does_not_become_an_author_of_the_queries(tmp_path):
    chain = Chain(tmp_path)
    chain.run()
    assert read_provenance(chain.path("audit"))["queries_by"] == "llm:the-judge"
    for name in ("audit_pairs", "audit_table"):
        assert read_provenance(chain.path(name))["queries_by"] == "llm:the-author"


def verdicts_frame(verdicts):
    """Make VERDICTS of {query: yes/no per segment, None for no verdict}."""
    rows = [
        (query, part, value)
        for query, values in verdicts.items()
        for part, value in zip(POSITIONS, values, strict=True)
        if value is not None
    ]
    schema = {"query_id": pl.String, "part": pl.String, "is_yes": pl.Boolean}
    return pl.DataFrame(rows, schema=schema, orient="row")


def margins_frame(margins):
    schema = {"query_id": pl.String, "margin": pl.Float64}
    return pl.DataFrame(list(margins.items()), schema=schema, orient="row")


def test_wilson_intervals_are_the_published_ones():
    # 81 of 263: R. G. Newcombe, Statistics in Medicine 17 (1998), score method.
    low, high = wilson_interval(81 / 263, 263)
    assert (low, high) == (pytest.approx(0.2553, abs=5e-5), pytest.approx(0.3662, abs=5e-5))
    # No success of 10: low is 0, high is z^2 / (n + z^2) = 3.8415 / 13.8415.
    assert wilson_interval(0.0, 10) == (0.0, pytest.approx(3.841459 / 13.841459, rel=1e-6))
    assert wilson_interval(1.0, 10) == (pytest.approx(10 / 13.841459, rel=1e-6), 1.0)


@examples
@given(n=st.integers(1, 500), data=st.data(), confidence=st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_wilson_bounds_are_where_the_score_test_just_rejects(n, data, confidence):
    share = data.draw(st.integers(0, n)) / n
    low, high = wilson_interval(share, n, confidence=confidence)
    assert 0 <= low <= share + 1e-12
    assert share - 1e-12 <= high <= 1
    z = {0.5: 0.6744897502, 0.9: 1.6448536270, 0.95: 1.9599639845, 0.99: 2.5758293035}[confidence]
    for bound in (low, high):
        if 0 < bound < 1 and abs(share - bound) > 1e-9:
            assert abs(share - bound) / math.sqrt(bound * (1 - bound) / n) == pytest.approx(z)


verdict = st.sampled_from([True, False, False, None])
rows = st.tuples(
    st.sampled_from([None, -0.5, 0.0, 0.1, 0.2, 0.7]),
    some_targets,
    st.tuples(verdict, verdict, verdict).filter(any),
)


@examples
@given(drawn=st.lists(rows, max_size=20))
def test_the_audit_equals_counting_in_plain_python(drawn):
    named = {f"q{i}": row for i, row in enumerate(drawn)}
    table = audit_table(
        verdicts_frame({q: row[2] for q, row in named.items()}),
        targets_frame({q: row[1] for q, row in named.items()}),
        margins_frame({q: row[0] for q, row in named.items()}),
        thresholds=[0.0, 0.2],
    )
    borders = [("no_margin", None), ("m<0", -9), ("0<=m<0.2", 0), ("m>=0.2", 0.2)]
    for (label, _), row in zip(borders, table.iter_rows(named=True), strict=True):
        assert row["stratum"] == label
        group = []
        for margin, targets, said in drawn:
            place = "no_margin" if margin is None else None
            for name, low in borders[1:]:
                if margin is not None and margin >= low:
                    place = name
            if place == label:
                group.append((targets, dict(zip(POSITIONS, said, strict=True))))
        usable = [
            (targets, said)
            for targets, said in group
            if None not in said.values() and len(targets) in (1, 2)
        ]
        assert (row["n"], row["n_unusable"]) == (len(usable), len(group) - len(usable))
        if not usable:
            assert row["exclusive"] is None
            continue
        yes = [any(said[p] for p in targets) for targets, said in usable]
        noes = [[not said[p] for p in POSITIONS if p not in targets] for targets, said in usable]
        n = len(usable)
        assert row["target_yes"] == pytest.approx(sum(yes) / n)
        assert row["distractor_no"] == pytest.approx(sum(sum(k) / len(k) for k in noes) / n)
        exclusive = sum(y and all(k) for y, k in zip(yes, noes, strict=True))
        assert row["exclusive"] == pytest.approx(exclusive / n)
        for metric in ("target_yes", "distractor_no", "exclusive"):
            assert row[f"{metric}_low"] <= row[metric] <= row[f"{metric}_high"]


def test_the_audit_sample_takes_so_many_per_stratum_whatever_the_order():
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
