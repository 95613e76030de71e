import polars as pl
import pytest

from psibench.config.sections import Uncertainty
from psibench.errors import InputError
from psibench.metrics import scoring
from psibench.metrics.aggregate import RowLabels
from psibench.metrics.scoring import ScoredModel, run_score, take_runs
from psibench.tables import Provenance, read_provenance, read_table, write_table
from psibench.tables.schemas import (
    ENCODINGS,
    PSI_TABLE,
    QRELS,
    QUERIES,
    QUERY_SCORES,
    RUN,
    SEEN,
    TableSpec,
)

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


def run_stage(tmp_path, run, *, encodings=None, seen=None, metrics=("ndcg@10",), **tables):
    """Score one model; return its per-query scores."""
    files = {name: tmp_path / f"{name}.parquet" for name in ("buckets", "psi", "comparisons")}
    run_score(
        [ScoredModel("m", "any", run, encodings, seen, on_filter_panel=True, is_truncating=True)],
        labels=RowLabels("b", "eng-Latn", "eng-Latn"),
        metrics=metrics,
        psi_metrics=metrics[:1],
        schemes=["thirds"],
        length_buckets=True,
        uncertainty=Uncertainty(),
        control=None,
        windows=[],
        scores=tmp_path / "scores.parquet",
        **tables,
        **files,
    )
    return read_table(tmp_path / "scores.parquet", QUERY_SCORES)


def score(tmp_path, domains: dict, run, seen=None, *, beside=None) -> pl.DataFrame:
    """Score a run, rows or a file; `seen` are rows of its encodings, `beside` a table of SEEN."""
    if isinstance(run, list):
        names = ("query_id", "doc_id", "rank", "score")
        rows = [dict(zip(names, row, strict=True)) for row in run]
        run = write(tmp_path / "run.parquet", RUN, rows)
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
    return run_stage(
        tmp_path,
        run,
        domains=list(domains),
        asked=[d["queries"] for d in domains.values()],
        queries=[d["queries"] for d in domains.values()],
        qrels=[d["qrels"] for d in domains.values()],
        encodings=encodings,
        seen=beside,
        metrics=["ndcg@10", "mrr@10"],
    )


def test_each_query_is_scored_in_its_domain(tmp_path, domain):
    domains = {"a": domain("a"), "b": domain("b")}
    run = [("qa", "da", 1, 0.9), ("qb", "other", 1, 0.9), ("qb", "db", 2, 0.5)]
    scores = score(tmp_path, domains, run)
    assert scores.select("query_id", "domain", "mrr@10").rows() == [
        ("qa", "a", 1.0),
        ("qb", "b", 0.5),
    ]
    flags = read_table(tmp_path / "psi.parquet", PSI_TABLE)["flags"]
    assert flags.str.contains("filter_panel, truncating").all()


@pytest.mark.parametrize(("visible_char_end", "share"), [(20, 1.0), (15, 0.5), (0, 0.0)])
def test_visible_share_is_what_of_the_evidence_the_model_saw(
    tmp_path, domain, visible_char_end, share
):
    seen = [("a", "da", visible_char_end), ("b", "da", 40)]  # another domain's does not count
    scores = score(tmp_path, {"a": domain("a")}, [("qa", "da", 1, 0.9)], seen)
    assert scores["visible"].to_list() == [share]


def read_beside(path, rows: list[tuple]):
    names = ("query_id", "doc_id", "visible_char_end")
    return write(path, SEEN, [dict(zip(names, row, strict=True)) for row in rows])


def test_a_reranker_sees_of_a_document_what_the_query_beside_it_leaves(tmp_path, domain):
    parts = domain("a")
    asked = read_table(parts["queries"], QUERIES)
    two = pl.concat([asked, asked.with_columns(pl.lit("qb").alias("_id"))])
    write_table(two, parts["queries"], QUERIES, provenance=SOURCE)
    judged = [{"query-id": q, "corpus-id": "da", "score": 1} for q in ("qa", "qb")]
    parts["qrels"] = write(tmp_path / "qrels.parquet", QRELS, judged)
    seen = read_beside(tmp_path / "seen.parquet", [("qa", "da", 15), ("qb", "da", 20)])
    scores = score(tmp_path, {"a": parts}, [], beside=seen)
    assert scores.select("query_id", "visible", "pos_visible").rows() == [
        ("qa", 0.5, 0.375),
        ("qb", 1.0, 0.5),
    ]


@pytest.mark.parametrize("row", [("qx", "da", 40), ("qa", "other", 40)])
def test_a_reading_of_other_pairs_is_refused(tmp_path, domain, row):
    seen = read_beside(tmp_path / "seen.parquet", [row])
    with pytest.raises(InputError, match="no visible_char_end for the positives 'da'"):
        score(tmp_path, {"a": domain("a")}, [], beside=seen)


def test_query_id_in_two_domains_is_refused(tmp_path, domain):
    domains = {"a": domain("a", "same"), "b": domain("b", "same")}
    with pytest.raises(InputError, match="a query id occurs in two domains"):
        score(tmp_path, domains, [("same", "da", 1, 0.9)])


def write_queries(path, rows: list[tuple]):
    """Write queries: id, text, positive, span, characters and tokens of the positive."""
    names = ("_id", "text", "pos_corpus_id", "pos_char_span", "pos_char_length", "pos_token_length")
    return write(path, QUERIES, [dict(zip(names, row, strict=True)) for row in rows])


def test_a_cross_lingual_pair_has_the_documents_judgements_and_spans(tmp_path):
    """Queries that one language alone has are left out; of the others English decides."""
    english = write_queries(
        tmp_path / "eng.parquet",
        [("q1", "where", "e1", [0, 10], 100, 20), ("q2", "when", "e2", [90, 100], 100, 600)],
    )
    spanish = write_queries(
        tmp_path / "spa.parquet",
        [("q2", "cuándo", "s2", [0, 5], 50, 10), ("q3", "quién", "s3", [0, 5], 50, 10)],
    )
    judged = [
        {"query-id": name, "corpus-id": document, "score": 1}
        for name, document in (("q1", "e1"), ("q2", "e2"))
    ]
    ranked = [
        {"query_id": "q2", "doc_id": "e2", "rank": 1, "score": 1.0},
        {"query_id": "q3", "doc_id": "e1", "rank": 1, "score": 1.0},
    ]
    run_stage(
        tmp_path,
        write(tmp_path / "run.parquet", RUN, ranked),
        domains=["a"],
        asked=[spanish],
        queries=[english],
        qrels=[write(tmp_path / "qrels.parquet", QRELS, judged)],
    )
    rows = read_table(tmp_path / "scores.parquet", QUERY_SCORES).to_dicts()
    assert [(r["query_id"], r["ndcg@10"], r["span_mid_char"]) for r in rows] == [("q2", 1.0, 95.0)]
    assert (rows[0]["length_bucket"], rows[0]["target_position"]) == ("Q2", "end")


def test_languages_without_a_query_in_common_are_refused(tmp_path):
    one, other = (
        write_queries(tmp_path / f"{name}.parquet", [(name, "?", "d", [0, 1], 9, 3)])
        for name in ("q1", "q2")
    )
    judged = [{"query-id": "q2", "corpus-id": "d", "score": 1}]
    with pytest.raises(InputError, match="domain a: the two languages share no query id"):
        run_stage(
            tmp_path,
            write(tmp_path / "run.parquet", RUN, []),
            domains=["a"],
            asked=[one],
            queries=[other],
            qrels=[write(tmp_path / "qrels.parquet", QRELS, judged)],
        )


@pytest.mark.parametrize(
    ("seen", "visible", "pos_visible"),
    [
        (80, 1.0, 1.0),  # the whole translation, twice as long as the original
        (30, 0.5, 0.375),
    ],
)
@pytest.mark.parametrize("by_query", [False, True])
def test_what_was_seen_of_a_translation_is_taken_over_in_proportion(
    tmp_path, seen, visible, pos_visible, by_query
):
    queries = write(
        tmp_path / "queries.parquet",
        QUERIES,
        [
            {
                "_id": "qa",
                "text": "?",
                "pos_corpus_id": "da",
                "pos_char_span": [10, 20],
                "pos_char_length": 40,
                "pos_token_length": 8,
                "pos_translated_char_length": 80,
            }
        ],
    )
    judged = [{"query-id": "qa", "corpus-id": "da", "score": 1}]
    domains = {"a": {"queries": queries, "qrels": write(tmp_path / "qrels.parquet", QRELS, judged)}}
    beside = read_beside(tmp_path / "seen.parquet", [("qa", "da", seen)]) if by_query else None
    alone = None if by_query else [("a", "da", seen)]
    scores = score(tmp_path, domains, [("qa", "da", 1, 0.9)], alone, beside=beside)
    assert scores["visible"].to_list() == [visible]
    assert scores["pos_visible"].to_list() == [pos_visible]


def test_ranks_below_the_deepest_metric_and_pairs_without_a_judgement_change_nothing(
    tmp_path, domain, monkeypatch
):
    monkeypatch.setattr(scoring, "RUN_ROWS", 7)  # many batches
    deep = [(f"q{d}", f"x{rank}", rank, 1 / rank) for d in "ab" for rank in range(1, 30)]
    deep[3], deep[29 + 19] = ("qa", "da", 4, 0.25), ("qb", "db", 20, 0.05)
    scores = score(tmp_path, {"a": domain("a"), "b": domain("b")}, deep)
    assert scores["mrr@10"].to_list() == [0.25, 0.0]
    (tmp_path / "scores.parquet").unlink()
    shallow = [row for row in deep if row[2] <= 10]
    assert score(tmp_path, {"a": domain("a"), "b": domain("b")}, shallow).equals(scores)


def test_ties_are_averaged_whole_wherever_a_batch_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(scoring, "RUN_ROWS", 3)
    scores = [9.0, 5.0, 5.0, 5.0, 1.0]
    rows = [
        {"query_id": "q", "doc_id": f"d{rank}", "rank": rank, "score": score}
        for rank, score in enumerate(scores, 1)
    ]
    run = write(tmp_path / "run.parquet", RUN, rows)
    judged = pl.DataFrame({"query-id": ["q", "q"], "corpus-id": ["d4", "d5"]})
    kept = scoring.judged_rows(run, [judged], ["ndcg-tie-averaged@2"])
    # Ranks 2 to 4 are tied, of which the first counts; rank 5 is beyond.
    assert kept.select("doc_id", "rank", "tied_from", "tied_to").rows() == [("d4", 4, 2, 4)]
    assert scoring.judged_rows(run, [judged], ["ndcg@2"]).is_empty()


def test_a_wider_views_runs_are_taken_by_the_rows_of_the_own_queries(tmp_path, domain):
    rows = [
        {"query_id": query, "doc_id": f"d{place}", "score": 1.0 / place, "rank": place}
        for query in ("qa", "gone", "qb")
        for place in (1, 2)
    ]
    run = write(tmp_path / "wide.parquet", RUN, rows)
    saw = [{"query_id": query, "doc_id": "d1", "visible_char_end": 5} for query in ("gone", "qb")]
    seen = write(tmp_path / "wide.seen.parquet", SEEN, saw)
    outputs = [tmp_path / "own.parquet", tmp_path / "own.seen.parquet"]
    queries = [domain(name)["queries"] for name in ("a", "b")]
    take_runs([run, seen], queries, outputs=outputs)
    own = read_table(outputs[0], RUN)
    assert own.to_dicts() == [row for row in rows if row["query_id"] != "gone"]
    assert read_table(outputs[1], SEEN)["query_id"].to_list() == ["qb"]
    inputs = read_provenance(outputs[0])["inputs"]
    assert set(inputs) == {str(path) for path in (run, *queries)}
