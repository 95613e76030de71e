import polars as pl
import pytest

from psibench.tables import Provenance, content_hash, write_table
from psibench.tables.derived import derived, read_all
from psibench.tables.schemas import QRELS, QUERY_SCORES
from psibench.tables.stage import read_stages


@pytest.fixture
def write(tmp_path):
    def _write(name, query="q", **made):
        path = tmp_path / f"{name}.parquet"
        frame = pl.DataFrame({"query-id": [query], "corpus-id": ["d"], "score": [1]})
        write_table(frame, path, QRELS, provenance=Provenance("build", 1, **made))
        return path

    return _write


def test_a_derived_table_names_inputs_revisions_and_authors(write):
    a = write("a", "q1", revisions={"model:m": "1"}, queries_by="simulation")
    b = write("b", "q2", revisions={"dataset:d": "2"}, queries_by="people, simulation")  # merged
    made = derived("score", [a, b], params={"k": 1}, revisions={"model:n": "3"})
    assert made.inputs == {str(a): content_hash(a), str(b): content_hash(b)}
    assert made.revisions == {"model:m": "1", "dataset:d": "2", "model:n": "3"}
    assert made.queries_by == "people, simulation"
    assert (made.stage, made.stage_version) == ("score", read_stages()["score"])


def test_columns_only_some_tables_have_are_null_in_the_others(tmp_path):
    row = {"model": "m", "domain": "d", "document_id": "p", "target_position": "end"}
    row |= {"target_positions": "end"}
    paths = []
    for number, metric in enumerate(["ndcg@10", "mrr@10"]):
        path = tmp_path / f"{number}.parquet"
        own = pl.DataFrame([row | {"query_id": f"q{number}", metric: 0.5}])
        frame = pl.concat([QUERY_SCORES.empty(), own], how="diagonal_relaxed")
        write_table(frame, path, QUERY_SCORES, provenance=Provenance("score", 1))
        paths.append(path)
    stacked = read_all(paths, QUERY_SCORES)
    assert stacked.select("ndcg@10", "mrr@10").rows() == [(0.5, None), (None, 0.5)]
