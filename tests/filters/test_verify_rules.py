"""Agreement, span necessity and margins, worked out by hand and against the plain rules."""

import polars as pl
import pytest
from filter_tables import (
    any_score,
    candidates_frame,
    decision_rows,
    examples,
    segment_scores,
    some_targets,
    targets_frame,
)
from hypothesis import given
from hypothesis import strategies as st

from psibench.filters.decide import target_parts
from psibench.filters.margin_counts import CELL_TABLE, count_by_cell, margin_conditions
from psibench.filters.verify import (
    MARGINS,
    VerifyAgreement,
    VerifyMargin,
    VerifyNecessity,
    consensus_margins,
    decide_verify,
    deciding_leads,
    parts_to_score,
)
from psibench.tables import conform
from psibench.text.segments import POSITIONS

LOW, NOT_FIRST, EMPTY = "margin_below_threshold", "target_not_first", "empty_segment"
# targets, scores under a and b, (margin, reranker, is_exact, reason), reason at 0.25
MARGINS_BY_HAND = [
    # Leads 0.5 and 0.25: the smaller one is the margin, and equality with the threshold passes.
    (["beginning"], (0.75, 0.25, 0.0), (1.0, 0.0, 0.75), (0.25, "b", True, ""), ""),
    # A lead below the threshold, and a tie: margin 0 is not a failed one.
    (["end"], (0.0, 0.125, 0.25), (0.0, 0.0, 1.0), (0.125, "a", True, ""), LOW),
    (["end"], (0.5, 0.0, 0.5), (0.0, 0.0, 1.0), (0.0, "a", True, ""), LOW),
    # The floor is 0. A lead of 0 reaches it, so b is read; as the last one its lead is exact.
    (["beginning"], (0.5, 0.5, 0.0), (0.0, 1.0, 0.0), (-1.0, "b", True, ""), NOT_FIRST),
    # Below the floor under a: b is not read, though its lead is smaller still.
    (["beginning"], (0.25, 0.5, 0.0), (0.0, 1.0, 0.0), (-0.25, "a", False, ""), NOT_FIRST),
    # Two targets: the better one against the third part.
    (["middle", "end"], (0.25, 0.0, 1.0), (0.0, 0.5, 0.25), (0.5, "b", True, ""), ""),
    ([], (1.0, 0.0, 0.0), (1.0, 0.0, 0.0), (None, None, False, "no_target"), "no_target"),
    (["end"], (None, None, 1.0), (None, None, 1.0), (None, "a", False, EMPTY), EMPTY),
]


@pytest.mark.parametrize(("targets", "a", "b", "expected", "reason"), MARGINS_BY_HAND)
def test_the_margin_is_the_smallest_lead_and_equality_passes(targets, a, b, expected, reason):
    scores = segment_scores({("q", "a"): a, ("q", "b"): b})
    section = VerifyMargin(rerankers=["a", "b"], threshold=0.25)
    leads = deciding_leads(section, scores, targets_frame({"q": targets}))
    margins = consensus_margins(section, leads)
    assert margins.select(MARGINS.column_names).rows() == [("q", *expected)]
    decided = decision_rows(decide_verify(section, leads))
    assert decided["q"] == (not reason, reason, *expected[:2])
    conform(margins, MARGINS, where="margins")


def reference(section, targets, scores):
    """One query's decision, in plain Python; ``scores`` has each reranker's scores of the parts."""
    parts = section.parts
    targets = targets if parts == POSITIONS else ["document"]
    if len(targets) in (0, len(parts)):
        return (False, "no_other_segment" if targets else "no_target", None, None)
    leads = []
    for name in section.rerankers:
        values = dict(zip(parts, scores[name], strict=True))
        if None in values.values():
            why = "empty_segment" if parts == POSITIONS else "span_is_document"
            return (False, why, None, name)
        best = max(values[p] for p in targets)
        leads.append(best - max(values[p] for p in parts if p not in targets))
        if isinstance(section, VerifyMargin):
            if leads[-1] < section.floor:
                break
        elif leads[-1] <= 0:
            return (False, section.failure_code, leads[-1], name)
    lead, by = min(leads), section.rerankers[leads.index(min(leads))]
    if isinstance(section, VerifyMargin) and lead < section.threshold:
        return (False, "target_not_first" if lead < 0 else "margin_below_threshold", lead, by)
    return (True, "", lead, by)


NAMES = ["r1", "r2", "r3"]
drawn_queries = st.lists(
    st.tuples(some_targets, st.tuples(*[st.tuples(any_score, any_score, any_score)] * 3)),
    max_size=8,
)
sections = st.one_of(
    st.just({"kind": VerifyAgreement}),
    st.just({"kind": VerifyNecessity}),
    st.builds(
        lambda threshold: {"kind": VerifyMargin, "threshold": threshold},
        st.sampled_from([-0.5, 0.0, 0.25]),
    ),
)


@examples
@given(
    drawn=drawn_queries,
    chosen=sections,
    panel=st.permutations(NAMES).flatmap(lambda names: st.integers(1, 3).map(lambda n: names[:n])),
    shuffled=st.randoms(use_true_random=False),
)
def test_decisions_equal_the_plain_rule_in_any_order(drawn, chosen, panel, shuffled):
    kind = chosen["kind"]
    section = kind(rerankers=panel, **{k: v for k, v in chosen.items() if k != "kind"})
    candidates = candidates_frame({f"q{i}": targets for i, (targets, _) in enumerate(drawn)})
    known = [dict(zip(NAMES, triples, strict=True)) for _, triples in drawn]
    known = [{by: row[: len(section.parts)] for by, row in one.items()} for one in known]
    complete = segment_scores(
        {(f"q{i}", by): row for i, one in enumerate(known) for by, row in one.items()},
        parts=section.parts,
    )
    expected = {
        f"q{i}": reference(section, targets, scores)
        for i, ((targets, _), scores) in enumerate(zip(drawn, known, strict=True))
    }
    made = complete.clear()
    for name in panel:
        wanted = parts_to_score(
            kind.model_validate(section.score_params(name)), made, candidates
        ).with_columns(reranker=pl.lit(name))
        assert wanted.is_unique().all()
        keys = ["query_id", "reranker", "part"]
        made = pl.concat([made, complete.join(wanted, on=keys, how="semi")])
    # A query is scored up to the reranker that decides, and not at all if there is nothing to ask.
    if kind is not VerifyMargin:
        last = {
            name: 0 if by is None else len(panel) if kept else panel.index(by) + 1
            for name, (kept, _, _, by) in expected.items()
        }
        assert made.height == sum(last.values()) * len(section.parts)
    order = list(range(complete.height))
    shuffled.shuffle(order)
    for scores in (made, complete, complete[order]):
        leads = deciding_leads(section, scores, target_parts(candidates, section.parts))
        decided = decide_verify(section, leads)
        assert decision_rows(decided) == expected
        assert list(decision_rows(decided)) == candidates.get_column("_id").to_list()


# (margin, target, length bin)
QUERIES = {
    "q0": (-0.5, "end", "short"),  # failed
    "q1": (-0.0, "beginning", "short"),  # minus zero is zero: not failed
    "q2": (0.0, "middle", "short"),
    "q3": (0.05, "end", "short"),
    "q4": (0.1, "beginning", "long"),
    "q5": (0.2, "middle", "long"),
    "q6": (0.29, "beginning", "long"),
    "q7": (1.0, "end", "long"),
    "q8": (0.3, "end", "long"),
    "q9": (None, "middle", "long"),
}


def margins_of(queries) -> pl.DataFrame:
    """Make ``query_id``, ``margin``, ``targets`` and ``length_bin`` of the queries."""
    schema = {"query_id": pl.String, "margin": pl.Float64, "length_bin": pl.String}
    rows = [(name, row[0], row[2]) for name, row in queries.items()]
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    targets = pl.Series([[row[1]] for row in queries.values()], dtype=pl.List(pl.String))
    return frame.with_columns(targets=targets)


def test_the_cell_table_counts_cells_and_budgets():
    pools = list(margin_conditions([0.0]))
    table = count_by_cell(margins_of(QUERIES), pools, length_bins=["short", "long", "huge"])
    assert table.select(pl.exclude("threshold")).rows()[-8:] == [
        ("failed", "short", 0, 0, 1, None),
        ("failed", "long", 0, 0, 0, None),
        ("failed", "huge", 0, 0, 0, None),
        ("failed", "all", 0, 0, 1, None),
        ("m>=0", "short", 1, 1, 1, 0),
        ("m>=0", "long", 2, 1, 2, 0),
        ("m>=0", "huge", 0, 0, 0, 0),  # an empty bin sets the budget to 0
        ("m>=0", "all", 3, 2, 3, 0),
    ]
    conform(table, CELL_TABLE, where="table")
    without = count_by_cell(margins_of(QUERIES), pools, length_bins=["short", "long"])
    assert without.get_column("budget").to_list()[-3:] == [1, 1, 2]
