from math import log2

import numpy as np
import polars as pl
import pytest
import pytrec_eval
from sklearn.metrics import ndcg_score

from psibench.errors import InputError
from psibench.metrics.ranking import parse_metrics, ranking_metrics
from psibench.tables.ranking import rank_documents

QRELS_SCHEMA = {"query-id": pl.String, "corpus-id": pl.String, "score": pl.Int32}
SCORES_SCHEMA = {"query_id": pl.String, "doc_id": pl.String, "score": pl.Float64}


def judged(*rows: tuple[str, str, int]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=QRELS_SCHEMA, orient="row")


def ranked(**rankings: list[str]) -> pl.DataFrame:
    rows = [(q, d, -float(i)) for q, docs in rankings.items() for i, d in enumerate(docs)]
    return rank_documents(pl.DataFrame(rows, schema=SCORES_SCHEMA, orient="row"))


def test_ndcg_by_hand_negative_grades_are_no_gain():
    # Gains 1 at rank 1 and 3 at rank 3, ideal order 3, 2, 1.
    qrels = judged(("q", "a", 1), ("q", "b", -2), ("q", "c", 3), ("q", "d", 2))
    table = ranking_metrics(ranked(q=["a", "b", "c"]), qrels, metrics=["ndcg@10"])
    expected = (1 / log2(2) + 3 / log2(4)) / (3 / log2(2) + 2 / log2(3) + 1 / log2(4))
    assert table["ndcg@10"].to_list() == pytest.approx([expected])


def test_table_holds_every_query_with_a_positive():
    run = ranked(q1=["x", "d1"], q3=["d3"])
    qrels = judged(("q1", "d1", 1), ("q2", "d2", 1), ("q3", "d3", 0))
    table = ranking_metrics(run, qrels, metrics=["ndcg@10", "recall@1", "mrr@10"])
    # q1: rank 2; q2: absent from the run, counts with 0; q3: no positive, no row.
    assert table.rows() == [("q1", 1 / log2(3), 0.0, 0.5), ("q2", 0.0, 0.0, 0.0)]
    assert table.columns == ["query_id", "ndcg@10", "recall@1", "mrr@10"]


def test_no_qrels_give_no_rows_but_the_columns():
    table = ranking_metrics(ranked(q=["d"]), judged(), metrics=["ndcg@10", "mrr@5"])
    assert table.is_empty()
    assert table.columns == ["query_id", "ndcg@10", "mrr@5"]


def random_case(seed: int, n_queries: int = 40) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Distinct scores, graded qrels with several positives, some queries without results."""
    rng = np.random.default_rng(seed)
    rows, grades = [], []
    for q in range(n_queries):
        docs = rng.permutation(60)
        for d in docs[: rng.integers(1, 20)]:
            grades.append((f"q{q}", f"d{d}", int(rng.integers(-1, 4))))
        if q % 9:
            found = rng.permutation(60)[: rng.integers(1, 50)]
            scores = rng.permutation(1000)[: len(found)]
            rows += [(f"q{q}", f"d{d}", float(s)) for d, s in zip(found, scores, strict=True)]
    return pl.DataFrame(rows, schema=SCORES_SCHEMA, orient="row"), judged(*grades)


NAMES = ["ndcg@1", "ndcg@5", "ndcg@10", "recall@5", "recall@30", "mrr@1000"]
TREC_NAMES = ["ndcg_cut_1", "ndcg_cut_5", "ndcg_cut_10", "recall_5", "recall_30", "recip_rank"]


@pytest.mark.parametrize("n_values", [1, 3, 1000])
@pytest.mark.parametrize("seed", range(5))
def test_equals_pytrec_eval_also_where_scores_tie(seed, n_values):
    scores, qrels = random_case(seed)
    scores = scores.with_columns(pl.col("score") % n_values)
    run = rank_documents(scores)
    nested_qrels: dict[str, dict[str, int]] = {}
    for q, d, grade in qrels.rows():
        nested_qrels.setdefault(q, {})[d] = grade
    nested_run: dict[str, dict[str, float]] = {}
    for q, d, score in scores.rows():
        nested_run.setdefault(q, {})[d] = score
    measures = {"ndcg_cut.1,5,10", "recall.5,30", "recip_rank"}
    expected = pytrec_eval.RelevanceEvaluator(nested_qrels, measures).evaluate(nested_run)
    table = ranking_metrics(run, qrels, metrics=NAMES)
    for row in table.iter_rows(named=True):
        theirs = expected.get(row["query_id"], dict.fromkeys(TREC_NAMES, 0.0))
        ours = [row[name] for name in NAMES]
        assert ours == pytest.approx([theirs[name] for name in TREC_NAMES], abs=1e-9)


@pytest.mark.parametrize("n_values", [1, 3, 1000])
@pytest.mark.parametrize("k", [1, 10, 40])
def test_averaged_ties_equal_scikit_learn(n_values, k):
    scores, qrels = random_case(7)
    run = rank_documents(scores.with_columns(pl.col("score") % n_values))
    found = run.select("query_id", "doc_id")  # it knows of no positive that was not found
    qrels = qrels.join(
        found, left_on=["query-id", "corpus-id"], right_on=["query_id", "doc_id"], how="semi"
    )
    name = f"ndcg-tie-averaged@{k}"
    table = ranking_metrics(run, qrels, metrics=[*NAMES, name])
    assert table.drop(name).equals(ranking_metrics(run, qrels, metrics=NAMES))
    grade = {(q, d): g for q, d, g in qrels.rows()}
    for query, value in table.select("query_id", name).iter_rows():
        own = run.filter(query_id=query)
        grades = [max(0, grade.get((query, d), 0)) for d in own["doc_id"]]
        theirs = ndcg_score([grades], [own["score"].to_numpy()], k=k) if len(grades) > 1 else 1.0
        assert value == pytest.approx(theirs, abs=1e-9)


def test_missed_positives_count_in_the_ideal_of_averaged_ties():
    # Two documents with equal score, one with grade 2; a document with grade 1 is not found.
    scores = pl.DataFrame([("q", "a", 1.0), ("q", "b", 1.0)], schema=SCORES_SCHEMA, orient="row")
    qrels = judged(("q", "a", 2), ("q", "z", 1))
    table = ranking_metrics(rank_documents(scores), qrels, metrics=["ndcg-tie-averaged@10"])
    expected = (2 * (1 + 1 / log2(3)) / 2) / (2 + 1 / log2(3))
    assert table.rows() == [("q", pytest.approx(expected))]


def test_order_of_rows_has_no_influence():
    scores, qrels = random_case(1)
    run = rank_documents(scores)
    shuffled = (frame.sample(fraction=1, shuffle=True, seed=1) for frame in (run, qrels))
    assert ranking_metrics(*shuffled).equals(ranking_metrics(run, qrels))


@pytest.mark.parametrize("seed", range(3))
def test_run_read_from_a_file_gives_the_same_scores(tmp_path, seed):
    scores, qrels = random_case(seed)
    run = rank_documents(scores.with_columns(pl.col("score") % 3))
    run.write_parquet(tmp_path / "run.parquet", row_group_size=37)
    scanned = ranking_metrics(pl.scan_parquet(tmp_path / "run.parquet"), qrels)
    assert scanned.equals(ranking_metrics(run, qrels))


def test_two_positives_with_one_rank_are_refused():
    run = ranked(q=["a", "d"]).with_columns(rank=pl.lit(1, pl.Int32))
    with pytest.raises(InputError, match="the same rank twice for query 'q'"):
        ranking_metrics(run, judged(("q", "a", 1), ("q", "d", 1)))


def test_a_positive_found_twice_is_refused():
    run = ranked(q=["a", "d"])
    doubled = pl.concat([run, run.with_columns(rank=pl.col("rank") + 2)])
    with pytest.raises(InputError, match="the same document twice for query 'q'"):
        ranking_metrics(doubled, judged(("q", "d", 1)))


def test_a_pair_judged_twice_is_refused():
    with pytest.raises(InputError, match=r"have 2 grades for query 'q' and document 'd'"):
        ranking_metrics(ranked(), judged(("q", "d", 1), ("q", "d", 2)))


UNKNOWN = ("ndcg", "ndcg@0", "ndcg@x", "map@10", "ndcg@10 ", "NDCG@10", "")


@pytest.mark.parametrize("names", [[], ["mrr@10", "mrr@10"], *([name] for name in UNKNOWN)])
def test_no_metric_one_named_twice_and_unknown_ones_are_refused(names):
    with pytest.raises(InputError):
        parse_metrics(names)
