"""Fusion of several models' runs, and the part of the documents that they read."""

import jobs
import polars as pl
import pytest
from language_tables import write_texts

from psibench.config.model_params import retrieval_params
from psibench.config.models import FusionModel
from psibench.search.fusion import fuse, run_fuse
from psibench.tables import Provenance, read_provenance, read_table, write_table
from psibench.tables.ranking import rank_documents
from psibench.tables.schemas import ENCODINGS, RUN, SEEN

SOURCE = Provenance("search", 1)
PAIR = FusionModel(backend="fusion", of=["a", "b"])


def run_of(*rows) -> pl.DataFrame:
    names = ["query_id", "doc_id", "score"]
    return rank_documents(pl.DataFrame(rows, schema=names, orient="row"))


def fused(runs) -> list[tuple[str, str, float]]:
    found = rank_documents(fuse(runs, k=1))
    return [(query, doc, score) for query, doc, _, score in found.iter_rows()]


FIRST = run_of(("q", "d1", 9.0), ("q", "d2", 5.0), ("q", "d3", 1.0), ("r", "d1", 2.0))
SECOND = run_of(("q", "d3", 0.9), ("q", "d1", 0.8), ("q", "d4", 0.4))


def test_reciprocal_rank_fusion_adds_up_the_ranks():
    # d1 is first and second, d3 third and first, d2 and d4 are in one run each.
    assert fused([FIRST, SECOND]) == [
        ("q", "d1", pytest.approx(1 / 2 + 1 / 3)),
        ("q", "d3", pytest.approx(1 / 4 + 1 / 2)),
        ("q", "d2", pytest.approx(1 / 3)),
        ("q", "d4", pytest.approx(1 / 4)),
        ("r", "d1", pytest.approx(1 / 2)),
    ]


def test_mirrored_ranks_tie_and_are_ordered_by_id():
    runs = [
        run_of(*(("q", doc, -place) for place, doc in enumerate(order)))
        for order in (["d2", "d3", "d1"], ["d3", "d1", "d2"], ["d1", "d2", "d3"])
    ]
    found = fused(runs)
    assert [doc for _, doc, _ in found] == ["d3", "d2", "d1"]
    assert len({score for _, _, score in found}) == 1


# --- the stage


def encodings_of(domain_ends: dict[tuple[str, str], int]) -> pl.DataFrame:
    rows = [("document", *place, b"k", 1, end) for place, end in domain_ends.items()]
    return pl.DataFrame(rows, ENCODINGS.empty().schema, orient="row")


def fuse_files(folder, *, reads_all: bool) -> dict[str, int]:
    paths = {name: folder / f"{name}.parquet" for name in ("run", "seen")}

    def written(name: str, frame: pl.DataFrame, spec) -> str:
        write_table(frame, folder / f"{name}.parquet", spec, provenance=SOURCE)
        return str(folder / f"{name}.parquet")

    first = {("one", "d1"): 10, ("one", "d2"): 40, ("two", "e1"): 7, ("two", "e2"): 9}
    second = {("one", "d1"): 30, ("one", "d2"): 20, ("two", "e1"): 7, ("two", "e2"): 8}
    one, two = {"q": "d1", "s": "d2"}, {"r": "e1"}
    corpora, queries = zip(
        write_texts(folder / "one", {"d1": "x" * 50, "d2": "x" * 60}, one, positives=one),
        write_texts(folder / "two", {"e1": "x" * 80, "e2": "x" * 90}, two, positives=two),
        strict=True,
    )
    runs = [
        written("a", run_of(("q", "d1", 2.0), ("q", "d2", 1.0), ("r", "e1", 1.0)), RUN),
        written("b", run_of(("q", "d2", 2.0), ("q", "d1", 1.0), ("q", "d3", 0.5)), RUN),
    ]
    encodings = [
        written("ea", encodings_of(first), ENCODINGS),
        written("eb", encodings_of(second), ENCODINGS),
    ]
    jobs.run(
        run_fuse,
        {"runs": runs, "encodings": encodings, "corpora": corpora}
        | dict.fromkeys(("queries", "judged"), queries),
        paths,
        entry=retrieval_params(PAIR),
        domains=["one", "two"],
        reads_all=reads_all,
        top_k=2,
    )
    return dict(read_table(paths["seen"], SEEN).select("query_id", "visible_char_end").iter_rows())


def test_a_fused_run_sees_what_any_model_saw(tmp_path):
    assert fuse_files(tmp_path, reads_all=True) == {"q": 50, "s": 60, "r": 80}
    assert fuse_files(tmp_path, reads_all=False) == {"q": 30, "s": 40, "r": 7}
    run = read_table(tmp_path / "run.parquet", RUN)
    found = run.select("query_id", "doc_id", "rank").rows()
    assert found == [("q", "d2", 1), ("q", "d1", 2), ("r", "e1", 1)]
    record = read_provenance(tmp_path / "run.parquet")
    assert record["params"]["entry"]["of"] == ["a", "b"]
    assert {path.rpartition("/")[2] for path in record["inputs"]} >= {"a.parquet", "b.parquet"}
