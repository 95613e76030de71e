import polars as pl
import pytest
from filter_tables import Folder, candidate

from psibench.config.sections import Uncertainty
from psibench.filters.study import (
    FILTER_COUNTS,
    FILTER_PSI,
    GRID,
    LEAVE_ONE_OUT_PSI,
    run_filter_study,
)
from psibench.filters.verify import VerifyMargin, VerifyNecessity
from psibench.tables import read_table
from psibench.text.segments import POSITIONS

B, M, E = POSITIONS
PANEL = ["one", "two"]
MARGIN = VerifyMargin(rerankers=PANEL, threshold=0.25)
SPECS = {
    "thresholds": FILTER_COUNTS,
    "threshold_psi": FILTER_PSI,
    "leave_one_out_psi": LEAVE_ONE_OUT_PSI,
}


def lead(target, by) -> tuple[float, ...]:
    """Scores of the thirds by which ``target`` leads the best other one; exact in binary."""
    if by is None:
        return (None, 0.5, 0.5)
    return tuple(0.5 + by if name == target else 0.5 for name in POSITIONS)


# Query: (targets, lead under one, lead under two, score of the model). Margin: the smaller lead.
QUERIES = {
    "q1": ([B], 0.5, 0.5, 1.0),
    "q2": ([B], 0.5, 0.25, 0.5),
    "q3": ([M], 0.25, 0.125, 0.5),
    "q4": ([E], 0.5, 0.0, 0.25),
    "q5": ([E], -0.25, 0.5, 0.5),
    "q6": ([M], 0.5, None, 0.75),  # no margin
}


class Case(Folder):
    """A folder with the candidates of one benchmark, their rerankers' and their models' scores."""

    def __init__(self, folder, queries=QUERIES) -> None:
        super().__init__(folder)
        self.queries = queries
        targets = {name: row[0] for name, row in queries.items()}
        rows = [candidate(name, own, (0, 3), positions=own) for name, own in targets.items()]
        self.write("candidates", rows)
        for place, reranker in enumerate(PANEL, start=1):
            self.score(reranker, {n: lead(row[0][0], row[place]) for n, row in queries.items()})
        rows = [_scored(name, row[0], row[3]) for name, row in queries.items()]
        self.write("query_scores", rows)

    def score(self, reranker, thirds, parts=POSITIONS) -> None:
        rows = [
            {"query_id": name, "reranker": reranker, "part": part, "score": value, "raw": value}
            for name, values in thirds.items()
            for part, value in zip(parts, values, strict=True)
        ]
        self.write(f"scores-{reranker}", rows, "segment_scores")

    def run(self, section=MARGIN):
        outputs = {name: self.path(name) for name in SPECS}
        run_filter_study(
            section,
            candidates=self.path("candidates"),
            scores=[self.path(f"scores-{name}") for name in section.rerankers],
            query_scores=self.path("query_scores"),
            models=["model"],
            metric="ndcg@10",
            uncertainty=Uncertainty(),
            outputs=outputs,
        )
        return {name: read_table(path, SPECS[name]) for name, path in outputs.items()}


def _scored(name, targets, value) -> dict:
    return {
        "model": "model",
        "query_id": name,
        "domain": "d",
        "document_id": f"of-{name}",
        "cluster": None,
        "span_start_char": 0,
        "span_mid_char": 1.5,
        "pos_char_length": 9,
        "relative_position": 0.2,
        "target_position": targets[0],
        "target_positions": ", ".join(targets),
        "length_bucket": None,
        "visible": 1.0,
        "pos_visible": 1.0,
        "ndcg@10": value,
    }


def test_every_threshold_s_pool_is_counted_by_position(tmp_path):
    table = Case(tmp_path).run()["thresholds"]
    columns = ("condition", "n", "n_beginning", "n_middle", "n_end")
    counts = {row[0]: row[1:] for row in table.select(columns).iter_rows()}
    assert counts == {
        "all": (6, 2, 2, 2),
        "no_margin": (1, 0, 1, 0),
        "failed": (1, 0, 0, 1),
        "m>=0": (4, 2, 1, 1),
        "m>=0.05": (3, 2, 1, 0),
        "m>=0.1": (3, 2, 1, 0),
        "m>=0.15": (2, 2, 0, 0),
        "m>=0.2": (2, 2, 0, 0),
        "m>=0.25": (2, 2, 0, 0),
        **{f"m>={cut}": (1, 1, 0, 0) for cut in (0.3, 0.35, 0.4, 0.45, 0.5)},
    }
    row = table.row(by_predicate=pl.col("condition") == "m>=0", named=True)
    assert [row[f"share_{p}"] for p in POSITIONS] == [2 / 4, 1 / 4, 1 / 4]
    assert row["share"] == 4 / 6
    assert table.filter("is_configured")["condition"].to_list() == ["m>=0.25"]


def test_a_model_s_mean_and_psi_follow_the_threshold(tmp_path):
    table = Case(tmp_path).run()["threshold_psi"]
    columns = ("condition", "n_queries", "n_buckets", "mean", "psi")
    rows = {row[0]: row[1:] for row in table.select(columns).iter_rows()}
    # all: means of the thirds .75, .625, .375; m>=0: .75, .5, .25; m>=0.05: .75, .5.
    assert rows["all"] == (6, 3, pytest.approx(3.5 / 6), pytest.approx(0.5))
    assert rows["m>=0"] == (4, 3, 2.25 / 4, pytest.approx(2 / 3))
    assert rows["m>=0.05"] == (3, 2, pytest.approx(2 / 3), pytest.approx(1 / 3))
    assert rows["m>=0.25"] == (2, 1, 0.75, None)  # one third alone has no PSI
    assert set(rows) == {"all", *(f"m>={cut:g}" for cut in GRID)}


def test_leaving_a_reranker_out_changes_mean_and_psi(tmp_path):
    table = Case(tmp_path).run(MARGIN.model_copy(update={"threshold": 0.0}))["leave_one_out_psi"]
    # Kept at 0: q1-q4. Without one: q1-q5. Without two: q1-q4 and q6.
    assert table.select("left_out", "n_queries").rows() == [("none", 4), ("one", 5), ("two", 5)]
    found = {row["left_out"]: row for row in table.iter_rows(named=True)}
    # Thirds: .75, .5, .25; with q5 the end is .375; with q6 the middle is .625.
    assert found["none"]["psi"] == pytest.approx(2 / 3)
    assert found["one"]["psi"] == pytest.approx(1 / 2)
    assert found["two"]["psi"] == pytest.approx(2 / 3)
    assert found["one"]["psi_change"] == pytest.approx(1 / 2 - 2 / 3)
    assert (found["none"]["psi_change"], found["none"]["mean_change"]) == (0.0, 0.0)
    assert found["one"]["mean"] == pytest.approx(2.75 / 5)
    assert found["one"]["mean_change"] == pytest.approx(2.75 / 5 - 2.25 / 4)


def test_necessity_is_decided_on_the_document_with_and_without_the_span(tmp_path):
    case = Case(tmp_path)
    needed = {"q1": (1.0, 0.5), "q2": (0.5, 0.5), "q3": (1.0, 0.5)}
    one = dict.fromkeys(QUERIES, (0.5, 1.0)) | needed
    for name, scores in {"one": one, "two": one | {"q3": (0.5, None)}}.items():
        case.score(name, scores, parts=("document", "removed"))
    tables = case.run(VerifyNecessity(rerankers=PANEL))
    assert tables["thresholds"]["n"].to_list() == [6, 1]
    kept = tables["leave_one_out_psi"].select("left_out", "n_queries")
    assert kept.rows() == [("none", 1), ("one", 1), ("two", 2)]


def test_clusters_of_documents_are_the_units_of_a_model_s_p(tmp_path):
    # 20 articles of three documents, whose queries have one third and one score each.
    queries = {
        f"q{i:02d}": ([(B, M, E)[(i // 3) % 3]], 0.5, 0.5, (i // 3) % 7 / 7) for i in range(60)
    }
    case = Case(tmp_path, queries)
    by_documents = case.run()["threshold_psi"]["p_position"][0]
    rows = [
        _scored(name, row[0], row[3]) | {"cluster": f"article {int(name[1:]) // 3}"}
        for name, row in queries.items()
    ]
    case.write("query_scores", rows)
    by_articles = case.run()["threshold_psi"]["p_position"][0]
    assert by_articles > by_documents
