"""What stopping at a decision saves, rule by rule, and that the same items are kept.

    python studies/filters/short_circuit.py [--help]

Everything is scored once. Then every rule is given only the scores that it asks for, reranker by
reranker, until it is decided; it has to decide as on the complete table.
"""

import platform
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
from asked import JUDGES, draw_documents, grades_of, write_queries
from compared import Row, compared
from planted_corpus import planted_benchmark
from printed import Page, read_options
from scored import PANEL, SHORT, opened, pair_scores, pairs_of_parts, segment_scores

from psibench.filters.decide import SPAN_PARTS, target_parts
from psibench.filters.grade import Grade, decide_grades, wanted_gradings
from psibench.filters.negatives import (
    AbovePositive,
    FinewebNegatives,
    Recall,
    Votes,
    decide_candidates,
    decide_final,
    wanted_judgements,
    wanted_pairs,
    with_positives,
)
from psibench.filters.verify import (
    VerifyAgreement,
    VerifyMargin,
    VerifyNecessity,
    VerifySection,
    decide_verify,
    deciding_leads,
    parts_to_score,
)
from psibench.text.segments import POSITIONS

WRONG = 0.2


def part_rows(n_documents: int, seed: int, store: Path) -> Iterator[Row]:
    """Compare the rules over parts of the queries' own documents."""
    documents = draw_documents(n_documents, seed=seed)
    candidates = write_queries(documents, wrong_position=WRONG, seed=seed).candidates
    pairs = pairs_of_parts(candidates, documents, (*POSITIONS, *SPAN_PARTS))
    scores = segment_scores(pairs, store=store)
    graded = grades_of(pairs).filter(pl.col("judge") == JUDGES[0])
    queries, panel = candidates.select(query_id="_id"), list(PANEL)
    sections: dict[str, VerifySection] = {
        "agreement": VerifyAgreement(rerankers=panel),
        "margin >= 0, floor 0": VerifyMargin(rerankers=panel, threshold=0.0),
        "span necessity": VerifyNecessity(rerankers=panel),
    }
    for label, section in sections.items():
        yield compared(
            label,
            scores,
            wanted=lambda made, name, own=section: parts_to_score(
                own.model_validate(own.score_params(name)), made, candidates
            ),
            decide=lambda made, own=section: decide_verify(
                own, deciding_leads(own, made, target_parts(candidates, own.parts))
            ),
            items=queries,
            parts=section.parts,
        )
    for rule in ("segments", "span"):
        grading = Grade.model_validate({"llm": JUDGES[0], "rule": rule})
        yield compared(
            f"{rule.removesuffix('s')} grades",
            graded,
            wanted=lambda made, _, own=grading: wanted_gradings(own, _known(made), candidates),
            decide=lambda made, own=grading: decide_grades(own, _known(made), candidates),
            items=queries,
            parts=grading.parts,
            rounds=2,
        )


def _known(graded: pl.DataFrame) -> pl.DataFrame:
    return graded.select("query_id", "part", "grade")


def pair_rows(n_documents: int, top_k: int, seed: int, store: Path) -> Iterator[Row]:
    """Compare the rules over pairs of query and recalled document."""
    made = planted_benchmark(n_documents, top_k=top_k, seed=seed)
    scores = pair_scores(made.texts, store=store)
    recalled, panel = with_positives(made.pairs, made.positives), list(PANEL)
    rules: dict[str, Votes | AbovePositive] = {
        f"majority of three above {cut:g}": Votes(
            protocol="fineweb_posq", rerankers=panel, threshold=cut
        )
        for cut in (0.5, 0.2)
    }
    rules |= {
        f"above the positive, {under}": AbovePositive.model_validate(
            {"protocol": "posir", "rerankers": panel, "under": under}
        )
        for under in ("any", "all")
    }
    for label, rule in rules.items():
        yield compared(
            label,
            scores,
            wanted=lambda known, _, own=rule: wanted_pairs(own, recalled, known),
            decide=lambda known, own=rule: decide_candidates(own, recalled, known),
            items=(
                recalled.filter(~pl.col("is_labelled")) if isinstance(rule, Votes) else recalled
            ),
        )
    section = FinewebNegatives(
        protocol="fineweb_posq",
        recall=Recall(model="bm25"),
        rerankers=panel,
        threshold=0.2,
        judges=list(JUDGES),
    )
    decided = decide_candidates(section, recalled, scores)
    hits = decided.filter("is_positive").select("query_id", "doc_id")
    yield compared(
        "two of three judges",
        grades_of(made.texts.join(hits, on=["query_id", "doc_id"], how="semi")),
        wanted=lambda known, _: wanted_judgements(section, decided, known),
        decide=lambda known: decide_final(section, decided, known),
        items=hits,
    )


def main() -> None:
    """Run the study and print its table."""
    options = read_options(__doc__, documents=120, top_k=50)
    began = time.monotonic()
    page = Page("short_circuit", options.out)
    columns = ("rule", "items", "kept or hit", "complete", "scored", "by scorer", "ratio")
    with opened(options.store) as store:
        rows = [*part_rows(options.documents, options.seed, store)]
        rows += pair_rows(options.documents, options.top_k, options.seed, store)
    page.text(
        f"{options.documents} documents of Python {platform.python_version()}. The panel is "
        f"{', '.join(SHORT.values())}. Every rule decided the same on both tables."
    )
    page.table(columns, rows)
    page.write()
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
