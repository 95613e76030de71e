"""How many queries about the wrong third each rule catches, and how many good ones it loses.

    python studies/filters/wrong_positions.py [--help]

The stand-in writes one query per third of documents of the default config; one in five is about
another third than the declared one. All parts are scored and graded.
"""

import platform
import time
from collections.abc import Iterator
from itertools import pairwise

import polars as pl
from asked import JUDGES, Written, draw_documents, grades_of, verdicts_of, write_queries
from printed import Page, number, read_options, share
from scored import PANEL, SHORT, opened, pairs_of_parts, segment_scores

from psibench.filters.audit import audit_rates, margin_strata, stratum_numbers
from psibench.filters.decide import SPAN_PARTS, evidence_targets, target_parts
from psibench.filters.grade import Grade, decide_grades
from psibench.filters.verify import (
    MARGIN_THRESHOLDS,
    VerifyAgreement,
    VerifyMargin,
    VerifyNecessity,
    VerifySection,
    consensus_margins,
    decide_verify,
    deciding_leads,
)
from psibench.text.segments import POSITIONS

WRONG = 0.2
LEAST = 20  # queries in a stratum that is compared
COLUMNS = (
    "rule",
    "kept",
    "planted caught",
    "share of planted",
    "good lost",
    "share of good",
    "lost by third",
)


def decided(
    scores: pl.DataFrame, grades: pl.DataFrame, candidates: pl.DataFrame
) -> Iterator[tuple[str, pl.Series]]:
    """Yield each rule's label and the queries it keeps."""

    def verified(section: VerifySection) -> pl.DataFrame:
        targets = target_parts(candidates, section.parts)
        return decide_verify(section, deciding_leads(section, scores, targets))

    panels = {f"{SHORT[name]} only": [name] for name in PANEL} | {"the three": list(PANEL)}
    agreement = candidates.clear()
    for label, panel in panels.items():
        agreement = verified(VerifyAgreement(rerankers=panel))
        yield f"agreement{' of' if len(panel) > 1 else ','} {label}", kept_of(agreement)
    for threshold in MARGIN_THRESHOLDS:
        margin = VerifyMargin(rerankers=list(PANEL), threshold=threshold)
        yield f"margin >= {threshold:g}", kept_of(verified(margin))
    for label, panel in panels.items():
        needed = verified(VerifyNecessity(rerankers=panel))
        yield f"span necessity{' of' if len(panel) > 1 else ','} {label}", kept_of(needed)
    for judge in JUDGES:
        known = grades.filter(pl.col("judge") == judge).select("query_id", "part", "grade")
        graded = decide_grades(Grade(llm=judge, rule="segments"), known, candidates)
        yield f"segment grades, {judge}", kept_of(graded)
        by_span = decide_grades(Grade(llm=judge, rule="span"), known, candidates)
        yield f"span grades, {judge}", kept_of(by_span)
        both = agreement.get_column("kept") & graded.get_column("kept")
        label = f"agreement of the three, then segment grades, {judge}"
        yield label, agreement.filter(both).get_column("item_id")


def kept_of(decisions: pl.DataFrame) -> pl.Series:
    """Return the ids that DECISIONS rows keep."""
    return decisions.filter("kept").get_column("item_id")


def caught_rows(
    candidates: pl.DataFrame, scores: pl.DataFrame, grades: pl.DataFrame
) -> Iterator[tuple[object, ...]]:
    """Yield the numbers of queries that each rule keeps, catches and loses."""
    planted = candidates.filter("is_planted").get_column("_id")
    good = candidates.filter(~pl.col("is_planted"))
    for label, kept in decided(scores, grades, candidates):
        n_caught = len(planted) - int(planted.is_in(kept.implode()).sum())
        lost = good.filter(~pl.col("_id").is_in(kept.implode()))
        thirds = lost.get_column("target_position").to_list()
        shares = share(n_caught, len(planted)), share(lost.height, good.height)
        by_third = " + ".join(str(thirds.count(position)) for position in POSITIONS)
        yield label, len(kept), n_caught, shares[0], lost.height, shares[1], by_third


def print_audit(page: Page, written: Written, scores: pl.DataFrame, judge: str) -> None:
    """Print the audit by strata, and the strata at which Exclusive falls."""
    targets = evidence_targets(written.candidates)
    section = VerifyMargin(rerankers=list(PANEL))
    margins = consensus_margins(section, deciding_leads(section, scores, targets))
    pairs = pairs_of_parts(written.candidates, written.documents, POSITIONS)
    table = audit_rates(verdicts_of(pairs, judge=judge), targets, margins)
    planted = planted_by_stratum(margins, written.candidates)
    rows = []
    for row, of in zip(table.iter_rows(named=True), planted, strict=True):
        cells = [number(row[name]) for name in ("target_yes", "distractor_no", "exclusive")]
        interval = f"[{number(row['exclusive_low'])}, {number(row['exclusive_high'])}]"
        rows.append((row["stratum"], row["n"], *cells, interval, of, share(of, row["n"])))
    names = ("stratum", "n", "TargetYes", "DistractorNo", "Exclusive", "95 %", "planted")
    page.text(f"Audit by {judge}:")
    page.table((*names, "share planted"), rows)
    page.text(verdict_on_order(table))


def planted_by_stratum(margins: pl.DataFrame, candidates: pl.DataFrame) -> list[int]:
    """Count the planted queries of every stratum, as `margin_strata` lists them."""
    joined = margins.with_columns(stratum_numbers()).join(
        candidates, left_on="query_id", right_on="_id", maintain_order="left"
    )
    planted = joined.filter("is_planted").get_column("stratum").to_list()
    return [planted.count(place) for place in range(len([*margin_strata()]))]


def verdict_on_order(table: pl.DataFrame) -> str:
    """Say whether Exclusive rises with the stratum, over the strata with enough queries."""
    known = table.filter(pl.col("low").is_not_null() | pl.col("high").is_not_null())
    rows = known.filter(pl.col("n") >= LEAST).rows(named=True)
    falls = [
        f"{first['stratum']} {first['exclusive']:.3f} -> {second['stratum']} "
        f"{second['exclusive']:.3f} (intervals "
        + ("overlap)" if second["exclusive_high"] >= first["exclusive_low"] else "apart)")
        for first, second in pairwise(rows)
        if second["exclusive"] < first["exclusive"]
    ]
    what = f"over the {len(rows)} strata with {LEAST} queries or more"
    if falls:
        return f"Exclusive does NOT rise with the stratum {what}: {'; '.join(falls)}."
    return f"Exclusive rises with the stratum {what}."


def summary(written: Written) -> str:
    """Return a sentence on the queries and the true positions of their answers."""
    candidates = written.candidates
    planted = candidates.filter("is_planted")
    elsewhere = pl.col("answer_position") != pl.col("target_position")
    n_wrong = planted.filter(elsewhere).height
    n_nowhere = planted.filter(pl.col("answer_position").is_null()).height
    good = candidates.filter(~pl.col("is_planted"))
    n_odd = good.filter(elsewhere).height
    thirds = good.get_column("target_position").to_list()
    by_third = ", ".join(str(thirds.count(position)) for position in POSITIONS)
    return (
        f"{written.documents.height} documents of Python {platform.python_version()}; "
        f"{written.n_asked} queries written, {written.n_planted} planted. The recipe drops "
        f"queries with one text for two thirds: {candidates.height} are left, {planted.height} "
        f"planted. The answer of {n_wrong} planted queries is in another third; for {n_nowhere} "
        f"it is cut or ambiguous. The answer of {n_odd} good queries is in another third; "
        f"{by_third} good queries are about the beginning, middle and end."
    )


def main() -> None:
    """Run the study and print its tables."""
    options = read_options(__doc__, documents=300)
    began = time.monotonic()
    page = Page("wrong_positions", options.out)
    documents = draw_documents(options.documents, seed=options.seed)
    written = write_queries(documents, wrong_position=WRONG, seed=options.seed)
    candidates = written.candidates
    parts = pairs_of_parts(candidates, documents, (*POSITIONS, *SPAN_PARTS))
    with opened(options.store) as store:
        scores = segment_scores(parts, store=store)
    grades = grades_of(parts)
    page.text(summary(written))
    page.table(COLUMNS, caught_rows(candidates, scores, grades))
    for judge in JUDGES:
        print_audit(page, written, scores, judge)
    page.write()
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
