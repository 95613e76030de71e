"""Runs of several models as one, and what these read of the documents."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from psibench.config.models import FusionModel
from psibench.errors import InputError
from psibench.search.fusion import fuse, run_fuse
from psibench.tables import Provenance, read_provenance, read_table, write_table
from psibench.tables.ranking import rank_documents
from psibench.tables.schemas import CORPUS, ENCODINGS, QUERIES, RUN, SEEN

SOURCE = Provenance("search", 1)
PAIR = FusionModel(backend="fusion", of=["a", "b"])


def run_of(*rows) -> pl.DataFrame:
    names = ["query_id", "doc_id", "score"]
    return rank_documents(pl.DataFrame(rows, schema=names, orient="row"))


def fused(runs, entry=PAIR) -> list[tuple[str, str, float]]:
    found = rank_documents(fuse(runs, entry))
    return [(query, doc, score) for query, doc, _, score in found.iter_rows()]


FIRST = run_of(("q", "d1", 9.0), ("q", "d2", 5.0), ("q", "d3", 1.0), ("r", "d1", 2.0))
SECOND = run_of(("q", "d3", 0.9), ("q", "d1", 0.8), ("q", "d4", 0.4))


def test_reciprocal_rank_fusion_adds_up_the_ranks():
    # d1 is first and second, d3 third and first, d2 and d4 are in one run each.
    assert fused([FIRST, SECOND]) == [
        ("q", "d1", pytest.approx(1 / 61 + 1 / 62)),
        ("q", "d3", pytest.approx(1 / 63 + 1 / 61)),
        ("q", "d2", pytest.approx(1 / 62)),
        ("q", "d4", pytest.approx(1 / 63)),
        ("r", "d1", pytest.approx(1 / 61)),
    ]


def test_mirrored_ranks_are_a_tie_that_the_id_decides():
    entry = FusionModel(backend="fusion", of=["a", "b", "c"])
    runs = [
        run_of(*(("q", doc, -place) for place, doc in enumerate(order)))
        for order in (["d2", "d3", "d1"], ["d3", "d1", "d2"], ["d1", "d2", "d3"])
    ]
    found = fused(runs, entry)
    assert [doc for _, doc, _ in found] == ["d3", "d2", "d1"]
    assert len({score for _, _, score in found}) == 1


RUNS = st.lists(
    st.dictionaries(
        st.tuples(st.sampled_from(["q", "r"]), st.sampled_from(["d1", "d2", "d3", "d4"])),
        st.integers(-3, 3),
        min_size=1,
    ),
    min_size=2,
    max_size=3,
)


@given(RUNS, st.sampled_from(["rrf", "weighted"]), st.sampled_from([0, 60]))
def test_scores_are_those_of_a_plain_loop(found, method, k):
    models, weights = ["a", "b", "c"][: len(found)], [1.0, 3.0, 0.5][: len(found)]
    entry = FusionModel(backend="fusion", of=models, method=method, k=k, weights=weights)
    runs = [run_of(*((*pair, float(score)) for pair, score in run.items())) for run in found]
    expected: dict[tuple[str, str], float] = {}
    for run, weight in zip(runs, weights, strict=True):
        for query in set(run["query_id"]):
            rows = run.filter(query_id=query).rows(named=True)
            scores = [row["score"] for row in rows]
            for row in rows:
                gain = 1 / (k + row["rank"])
                if method == "weighted":
                    spread = max(scores) - min(scores)
                    gain = (row["score"] - min(scores)) / spread if spread else 1.0
                pair = (query, row["doc_id"])
                expected[pair] = expected.get(pair, 0.0) + weight * gain
    rows = fuse(runs, entry).iter_rows()
    assert {(query, doc): score for query, doc, score in rows} == pytest.approx(expected)


def test_infinite_scores_have_no_place_on_a_scale():
    entry = FusionModel(backend="fusion", of=["a", "b"], method="weighted")
    with pytest.raises(InputError, match=r"the run of 'b' has infinite scores.*use `method: rrf`"):
        fuse([FIRST, run_of(("q", "d1", float("-inf")))], entry)


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"of": ["a", "b", "a"]}, "named more than once: a"),
        ({"weights": [1]}, "weights has 1 numbers, of names 2 models"),
        ({"weights": [1, 0]}, "greater than 0"),
    ],
)
def test_entries_that_make_no_sense_are_refused(fields, found):
    with pytest.raises(ValidationError, match=found):
        FusionModel(**{"backend": "fusion", "of": ["a", "b"]} | fields)


# --- the stage


def corpus_of(lengths: dict[str, int]) -> pl.DataFrame:
    rows = [{"_id": name, "text": "x" * size, "topic": "t"} for name, size in lengths.items()]
    return pl.DataFrame(rows).with_columns(
        char_length=pl.col("text").str.len_chars().cast(pl.Int32),
        word_count=pl.lit(1, pl.Int32),
        token_length=pl.lit(1, pl.Int32),
    )


def queries_of(positives: dict[str, str]) -> pl.DataFrame:
    rows = [
        {
            "_id": query,
            "text": query,
            "pos_corpus_id": positive,
            "pos_char_span": [0, 2],
            "pos_char_length": 50,
            "pos_token_length": 2,
            "target_position": "beginning",
        }
        for query, positive in positives.items()
    ]
    return pl.DataFrame(rows)


def encodings_of(domain_ends: dict[tuple[str, str], int]) -> pl.DataFrame:
    rows = [
        {
            "role": "document",
            "domain": domain,
            "_id": name,
            "key": b"k",
            "n_tokens": 1,
            "visible_char_end": end,
        }
        for (domain, name), end in domain_ends.items()
    ]
    return pl.DataFrame(rows)


def fuse_files(folder, *, reads_all: bool) -> dict[str, int]:
    paths = {name: folder / f"{name}.parquet" for name in ("run", "seen")}

    def written(name: str, frame: pl.DataFrame, spec) -> str:
        write_table(frame, folder / f"{name}.parquet", spec, provenance=SOURCE)
        return str(folder / f"{name}.parquet")

    first = {("one", "d1"): 10, ("one", "d2"): 40, ("two", "e1"): 7, ("two", "e2"): 9}
    second = {("one", "d1"): 30, ("one", "d2"): 20, ("two", "e1"): 7, ("two", "e2"): 8}
    queries = [
        written("asked-one", queries_of({"q": "d1", "s": "d2"}), QUERIES),
        written("asked-two", queries_of({"r": "e1"}), QUERIES),
    ]
    run_fuse(
        PAIR,
        domains=["one", "two"],
        runs=[
            written("a", run_of(("q", "d1", 2.0), ("q", "d2", 1.0), ("r", "e1", 1.0)), RUN),
            written("b", run_of(("q", "d2", 2.0), ("q", "d1", 1.0), ("q", "d3", 0.5)), RUN),
        ],
        encodings=[
            written("ea", encodings_of(first), ENCODINGS),
            written("eb", encodings_of(second), ENCODINGS),
        ],
        reads_all=reads_all,
        corpora=[
            written("c-one", corpus_of({"d1": 50, "d2": 60, "d3": 70}), CORPUS),
            written("c-two", corpus_of({"e1": 80, "e2": 90}), CORPUS),
        ],
        queries=queries,
        judged=queries,
        top_k=2,
        **paths,
    )
    return dict(read_table(paths["seen"], SEEN).select("query_id", "visible_char_end").iter_rows())


def test_of_a_positive_is_seen_what_any_of_the_models_saw_and_the_run_is_cut_at_its_depth(tmp_path):
    assert fuse_files(tmp_path, reads_all=True) == {"q": 50, "s": 60, "r": 80}
    assert fuse_files(tmp_path, reads_all=False) == {"q": 30, "s": 40, "r": 7}
    run = read_table(tmp_path / "run.parquet", RUN)
    found = run.select("query_id", "doc_id", "rank").rows()
    assert found == [("q", "d2", 1), ("q", "d1", 2), ("r", "e1", 1)]
    record = read_provenance(tmp_path / "run.parquet")
    assert record["params"]["of"] == ["a", "b"]
    assert {path.rpartition("/")[2] for path in record["inputs"]} >= {"a.parquet", "b.parquet"}
