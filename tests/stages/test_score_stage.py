from dataclasses import asdict

import jobs
import polars as pl
import pytest

from psibench.errors import InputError
from psibench.metrics import scoring
from psibench.metrics.scoring import ScoredModel, run_score
from psibench.report.verdict import verdicts
from psibench.tables import Provenance, read_table, write_table
from psibench.tables.schemas import ENCODINGS, PSI_TABLE, QRELS, QUERIES, QUERY_SCORES, RUN, SEEN

SOURCE = Provenance(stage="build", stage_version=1, queries_by="simulation")
METRICS = ["ndcg@10", "mrr@10"]


def write(path, spec, rows):
    given = [pl.DataFrame(rows)] if rows else []
    frame = pl.concat([spec.empty(), *given], how="diagonal_relaxed")
    write_table(frame, path, spec, provenance=SOURCE)
    return path


def asked(query, document, **changes):
    """Return a query with its evidence at characters 10 to 20 of 40."""
    place = {"pos_char_span": [10, 20], "pos_char_length": 40, "pos_token_length": 8}
    return {"_id": query, "text": "?", "pos_corpus_id": document} | place | changes


def domain(folder, name, *queries):
    """Write a domain of queries, each with a judged document."""
    queries = queries or (asked(f"q{name}", f"d{name}"),)
    qrels = [
        {"query-id": one["_id"], "corpus-id": one["pos_corpus_id"], "score": 1} for one in queries
    ]
    return {
        "queries": write(folder / f"{name}-queries.parquet", QUERIES, queries),
        "qrels": write(folder / f"{name}-qrels.parquet", QRELS, qrels),
    }


def score(folder, domains, run, *, read=None, pairs=None, asking=None, lengths=True):
    """Score (query, document, rank, score) rows; return per-query scores.

    ``read`` are (domain, document, end) that the model read, ``pairs`` (query, document, end);
    ``asking`` are queries in another language.
    """
    ranked = [dict(zip(("query_id", "doc_id", "rank", "score"), row, strict=True)) for row in run]
    encodings, seen = [], None
    if read is not None:
        rows = [
            {"domain": place, "_id": name, "visible_char_end": end, "role": "document"}
            | {"key": b"k", "n_tokens": 3}
            for place, name, end in read
        ]
        # Two files, as from two jobs.
        encodings = [
            str(write(folder / f"encodings-{n}.parquet", ENCODINGS, rows[n::2])) for n in (0, 1)
        ]
    if pairs is not None:
        names = ("query_id", "doc_id", "visible_char_end")
        seen = write(folder / "seen", SEEN, [dict(zip(names, row, strict=True)) for row in pairs])
    run_path = write(folder / "run.parquet", RUN, ranked)
    controls = {"on_filter_panel": True, "is_truncating": True}
    model = ScoredModel("m", "any", str(run_path), encodings, seen, **controls)
    queries = [one["queries"] for one in domains.values()]
    jobs.run(
        run_score,
        {"asked": asking or queries, "queries": queries}
        | {"qrels": [one["qrels"] for one in domains.values()]},
        {name: folder / f"{name}.parquet" for name in ("scores", "buckets", "psi", "comparisons")},
        models=[asdict(model)],
        benchmark="b",
        query_lang="spa-Latn" if asking else "eng-Latn",
        corpus_lang="eng-Latn",
        metrics=METRICS,
        psi_metrics=METRICS[:1],
        schemes=["thirds"],
        length_buckets=lengths,
        uncertainty={},
        control=None,
        windows=[],
        domains=list(domains),
    )
    return read_table(folder / "scores.parquet", QUERY_SCORES)


def test_each_query_is_scored_in_its_domain(tmp_path):
    run = [("qa", "da", 1, 0.9), ("qb", "other", 1, 0.9), ("qb", "db", 2, 0.5)]
    scores = score(tmp_path, {name: domain(tmp_path, name) for name in "ab"}, run)
    assert scores.select("query_id", "domain", "mrr@10").rows() == [
        ("qa", "a", 1.0),
        ("qb", "b", 0.5),
    ]
    flags = read_table(tmp_path / "psi.parquet", PSI_TABLE)["flags"]
    assert flags.str.contains("filter_panel, truncating").all()


def test_lengths_have_rows_between_the_edges_of_the_config(tmp_path):
    two = [asked(f"q{n}", f"d{n}") | {"pos_token_length": n} for n in (3000, 9000)]
    run = [("q3000", "d3000", 1, 0.9)]
    scores = score(tmp_path, {"a": domain(tmp_path, "a", *two)}, run, lengths=[2048, 8192])
    assert scores["length_bucket"].to_list() == ["L2 2049-8192", "L3 above 8192"]
    psi = read_table(tmp_path / "psi.parquet", PSI_TABLE).filter(evidence="all")
    assert dict(psi.select("length_bucket", "mean").iter_rows()) == {
        "all": 0.5,
        "L2 2049-8192": 1.0,
        "L3 above 8192": 0.0,
    }


@pytest.mark.parametrize(("end", "share"), [(20, 1.0), (15, 0.5), (0, 0.0)])
def test_the_visible_share_is_of_the_evidence(tmp_path, end, share):
    read = [("a", "da", end), ("b", "da", 40)]  # rows of another domain do not count
    scores = score(tmp_path, {"a": domain(tmp_path, "a")}, [("qa", "da", 1, 0.9)], read=read)
    assert scores["visible"].to_list() == [share]


def test_a_query_reduces_what_a_reranker_sees(tmp_path):
    two = domain(tmp_path, "a", asked("qa", "da"), asked("qb", "da"))
    scores = score(tmp_path, {"a": two}, [], pairs=[("qa", "da", 15), ("qb", "da", 20)])
    assert scores.select("query_id", "visible", "pos_visible").rows() == [
        ("qa", 0.5, 0.375),
        ("qb", 1.0, 0.5),
    ]


@pytest.mark.parametrize("row", [("qx", "da", 40), ("qa", "other", 40)])
def test_a_reading_of_other_pairs_is_refused(tmp_path, row):
    with pytest.raises(InputError, match="no visible_char_end for the positives 'da'"):
        score(tmp_path, {"a": domain(tmp_path, "a")}, [], pairs=[row])


def test_query_id_in_two_domains_is_refused(tmp_path):
    domains = {name: domain(tmp_path, name, asked("same", f"d{name}")) for name in "ab"}
    with pytest.raises(InputError, match="a query id occurs in two domains"):
        score(tmp_path, domains, [("same", "da", 1, 0.9)])


def test_a_cross_lingual_pair_uses_the_corpus_languages_judgements(tmp_path):
    """Omits queries of only one language; English decides about the others."""
    late = {"pos_char_span": [90, 100], "pos_char_length": 100, "pos_token_length": 600}
    english = domain(tmp_path, "eng", asked("q1", "e1"), asked("q2", "e2", **late))
    spanish = domain(tmp_path, "spa", asked("q2", "s2"), asked("q3", "s3"))["queries"]
    run = [("q2", "e2", 1, 1.0), ("q3", "e1", 1, 1.0)]
    (row,) = score(tmp_path, {"a": english}, run, asking=[spanish]).to_dicts()
    assert (row["query_id"], row["ndcg@10"], row["span_mid_char"]) == ("q2", 1.0, 95.0)
    assert (row["length_bucket"], row["target_position"]) == ("Q2", "end")
    other = domain(tmp_path, "other", asked("q9", "e1"))["queries"]
    with pytest.raises(InputError, match="domain a: the two languages share no query id"):
        score(tmp_path, {"a": english}, run, asking=[other])


# The whole translation, twice as long as the original, then a part.
@pytest.mark.parametrize(("end", "visible", "pos_visible"), [(80, 1.0, 1.0), (30, 0.5, 0.375)])
@pytest.mark.parametrize("by", ["read", "pairs"])
def test_the_part_seen_of_a_translation_is_scaled(tmp_path, end, visible, pos_visible, by):
    one = domain(tmp_path, "a", asked("qa", "da", pos_translated_char_length=80))
    seen = {by: [("a" if by == "read" else "qa", "da", end)]}
    (row,) = score(tmp_path, {"a": one}, [("qa", "da", 1, 0.9)], **seen).to_dicts()
    assert (row["visible"], row["pos_visible"]) == (visible, pos_visible)


def test_deep_ranks_and_unjudged_pairs_change_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(scoring, "RUN_ROWS", 7)  # many batches
    deep = [(f"q{d}", f"x{rank}", rank, 1 / rank) for d in "ab" for rank in range(1, 30)]
    deep[3], deep[29 + 19] = ("qa", "da", 4, 0.25), ("qb", "db", 20, 0.05)
    domains = {name: domain(tmp_path, name) for name in "ab"}
    scores = score(tmp_path, domains, deep)
    assert scores["mrr@10"].to_list() == [0.25, 0.0]
    (tmp_path / "scores.parquet").unlink()
    assert score(tmp_path, domains, [row for row in deep if row[2] <= 10]).equals(scores)


def test_a_foreign_run_is_cast_and_nulls_are_refused(tmp_path):
    path = tmp_path / "run.parquet"
    rows = {"query_id": ["q", "q"], "doc_id": ["d", "other"], "rank": [1, 2], "score": [0.5, 0.25]}
    judged = [pl.DataFrame({"query-id": ["q"], "corpus-id": ["d"]})]
    wide = pl.DataFrame(rows)  # rank Int64, score Float64
    wide.write_parquet(path)
    assert scoring.judged_rows(path, judged, ["ndcg@10"]).rows() == [("q", "d", 1, 0.5)]
    wide.with_columns(rank=pl.Series([1, None])).write_parquet(path)
    with pytest.raises(InputError, match="column 'rank' is null in row 1"):
        scoring.judged_rows(path, judged, ["ndcg@10"])


def test_batches_do_not_split_ties(tmp_path, monkeypatch):
    monkeypatch.setattr(scoring, "RUN_ROWS", 3)
    rows = [
        {"query_id": "q", "doc_id": f"d{rank}", "rank": rank, "score": score}
        for rank, score in enumerate([9.0, 5.0, 5.0, 5.0, 1.0], 1)
    ]
    run = write(tmp_path / "run.parquet", RUN, rows)
    judged = pl.DataFrame({"query-id": ["q", "q"], "corpus-id": ["d4", "d5"]})
    kept = scoring.judged_rows(run, [judged], ["ndcg-tie-averaged@2"])
    # Ranks 2 to 4 are tied, and rank 2 counts; rank 5 is too deep.
    assert kept.select("doc_id", "rank", "tied_from", "tied_to").rows() == [("d4", 4, 2, 4)]
    assert scoring.judged_rows(run, [judged], ["ndcg@2"]).is_empty()


@pytest.mark.parametrize("n_documents", [3, 30])
def test_few_long_documents_are_scored_by_sections(tmp_path, n_documents):
    late = [{"pos_char_span": [n, n + 9], "pos_char_length": 400} for n in range(0, 360, 2)]
    queries = [asked(f"q{n:03d}", f"d{n % n_documents}", **one) for n, one in enumerate(late)]
    run = [(one["_id"], one["pos_corpus_id"], 1, 0.9) for one in queries[::3] + queries[1::5]]
    run = sorted(set(run))
    scores = score(tmp_path, {"a": domain(tmp_path, "a", *queries)}, run)
    psi = read_table(tmp_path / "psi.parquet", PSI_TABLE).filter(
        domain="all", length_bucket="all", evidence="all"
    )
    if n_documents == 30:
        assert scores["cluster"].null_count() == len(queries)
        assert "sections" not in psi["flags"].item()
        return
    sections = scores.group_by("document_id").agg(pl.col("cluster").n_unique())
    assert sections["cluster"].to_list() == [15, 15, 15]  # four of 180 queries each
    assert psi.select("n_documents", "p_position").item(0, "n_documents") == 45
    assert psi["p_position"].null_count() == 0
    assert "sections" in psi["flags"].item().split(", ")
    (verdict,) = verdicts(psi.to_dicts(), [])
    assert verdict.advice.endswith("This holds only for these few documents.")
