import polars as pl
import pytest

from psibench.errors import InputError
from psibench.stages.score import run_score
from psibench.tables import Provenance, read_provenance, read_table, write_table
from psibench.tables.schemas import ENCODINGS, QRELS, QUERIES, QUERY_SCORES, RUN, TableSpec

SOURCE = Provenance(stage="build", stage_version=1, queries_by="simulation")


def write(path, spec: TableSpec, rows: list[dict]):
    empty = pl.DataFrame(pl.from_arrow(spec.schema.empty_table()))
    frame = pl.concat([empty, pl.DataFrame(rows)], how="diagonal_relaxed") if rows else empty
    write_table(frame, path, spec, provenance=SOURCE)
    return path


@pytest.fixture
def domain(tmp_path):
    """Write a domain of one query, whose evidence is characters 10 to 20 of a text of 40."""

    def make(name: str, query: str = "") -> dict:
        query = query or f"q{name}"
        asked = {
            "_id": query,
            "text": "?",
            "pos_corpus_id": f"d{name}",
            "pos_char_span": [10, 20],
            "pos_char_length": 40,
            "pos_token_length": 8,
        }
        judged = {"query-id": query, "corpus-id": f"d{name}", "score": 1}
        return {
            "queries": write(tmp_path / f"{name}-queries.parquet", QUERIES, [asked]),
            "qrels": write(tmp_path / f"{name}-qrels.parquet", QRELS, [judged]),
        }

    return make


def score(tmp_path, domains: dict, run: list[tuple], seen=None) -> pl.DataFrame:
    rows = [dict(zip(("query_id", "doc_id", "rank", "score"), row, strict=True)) for row in run]
    encodings = None
    if seen is not None:
        fields = ("domain", "_id", "visible_char_end")
        encodings = write(
            tmp_path / "encodings.parquet",
            ENCODINGS,
            [
                dict(zip(fields, row, strict=True))
                | {"role": "document", "key": b"k", "n_tokens": 3}
                for row in seen
            ],
        )
    run_score(
        domains=list(domains),
        run=write(tmp_path / "run.parquet", RUN, rows),
        queries=[d["queries"] for d in domains.values()],
        qrels=[d["qrels"] for d in domains.values()],
        encodings=encodings,
        metrics=["ndcg@10", "mrr@10"],
        output=tmp_path / "scores.parquet",
    )
    return read_table(tmp_path / "scores.parquet", QUERY_SCORES)


def test_each_query_is_scored_in_its_domain(tmp_path, domain):
    domains = {"a": domain("a"), "b": domain("b")}
    run = [("qa", "da", 1, 0.9), ("qb", "other", 1, 0.9), ("qb", "db", 2, 0.5)]
    scores = score(tmp_path, domains, run)
    assert scores.select("query_id", "domain", "mrr@10").rows() == [
        ("qa", "a", 1.0),
        ("qb", "b", 0.5),
    ]


def test_query_that_retrieved_nothing_scores_zero(tmp_path, domain):
    scores = score(tmp_path, {"a": domain("a")}, [])
    assert scores.select("query_id", "ndcg@10").rows() == [("qa", 0.0)]


@pytest.mark.parametrize(
    ("visible_char_end", "share"), [(40, 1.0), (20, 1.0), (15, 0.5), (10, 0.0), (0, 0.0)]
)
def test_visible_share_is_what_of_the_evidence_the_model_saw(
    tmp_path, domain, visible_char_end, share
):
    seen = [("a", "da", visible_char_end), ("b", "da", 40)]  # another domain's does not count
    scores = score(tmp_path, {"a": domain("a")}, [("qa", "da", 1, 0.9)], seen)
    assert scores["visible"].to_list() == [share]


def test_query_id_in_two_domains_is_refused(tmp_path, domain):
    domains = {"a": domain("a", "same"), "b": domain("b", "same")}
    with pytest.raises(InputError, match="a query id occurs in two domains"):
        score(tmp_path, domains, [("same", "da", 1, 0.9)])


def test_provenance_keeps_who_wrote_the_queries(tmp_path, domain):
    score(tmp_path, {"a": domain("a")}, [])
    assert read_provenance(tmp_path / "scores.parquet")["queries_by"] == "simulation"
