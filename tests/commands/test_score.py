import gzip
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from psibench.cli import main
from psibench.tables import read_provenance, read_table
from psibench.tables.schemas import (
    BUCKET_SCORES,
    CORRECTED_SCORES,
    LABEL_AGREEMENT,
    PSI_TABLE,
    QUERY_SCORES,
)

N_QUERIES = 80
FILE_ENDS = (("queries", "parquet"), ("qrels", "tsv"))
IDS = [f"q{i:02d}" for i in range(N_QUERIES)]


@pytest.fixture
def files(tmp_path):
    """80 queries, evidence at 0-100 (even ids) or 500+ (odd); a run that finds the even ones."""
    starts = [10 if i % 2 == 0 else 700 for i in range(N_QUERIES)]
    pl.DataFrame(
        {
            "_id": IDS,
            "text": "question",
            "pos_char_span": [[s, s + 20] for s in starts],
            "pos_char_length": 1000,
            "pos_token_length": [200 if i < 40 else 600 for i in range(N_QUERIES)],
            "domain": ["law" if i < 60 else "art" for i in range(N_QUERIES)],
        }
    ).write_parquet(tmp_path / "queries.parquet")
    qrels = "".join(f"{q}\td{i}\t1\n" for i, q in enumerate(IDS))
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + qrels)
    # Even queries find their document first; odd ones second, behind "x".
    rows = []
    for i, q in enumerate(IDS):
        rank, other = (1, 0.1) if i % 2 == 0 else (2, 0.9)
        rows.append(f"{q} Q0 d{i} {rank} 0.5 r\n{q} Q0 x {3 - rank} {other} r\n")
    (tmp_path / "bm25.trec").write_text("".join(rows))
    return tmp_path


def arguments(files, **changes) -> list[str]:
    given = {
        "run": files / "bm25.trec",
        "queries": files / "queries.parquet",
        "qrels": files / "qrels.tsv",
        "out": files / "out",
    }
    listed = ["score"]
    for name, value in (given | changes).items():
        option = f"--{name.replace('_', '-')}"
        for one in value if isinstance(value, list) else [value]:
            listed += [option] if one is True else [option, str(one)]
    return listed


def test_writes_all_tables_and_prints_what_they_come_to(files, capsys):
    assert main(arguments(files, buckets="squad", metrics="mrr@10")) == 0
    psi = read_table(files / "out" / "psi_table.parquet", PSI_TABLE)
    row = psi.row(0, named=True)
    # mrr: 1 for the 40 even queries (0-100), 1/2 for the 40 odd ones (500-3120).
    assert (row["n_queries"], row["mean"], row["psi"]) == (80, 0.75, 0.5)
    assert (row["model"], row["best_bucket"], row["worst_bucket"]) == ("bm25", "0-100", "500-3120")
    buckets = read_table(files / "out" / "bucket_scores.parquet", BUCKET_SCORES)
    for table in (psi, buckets):  # the input of a foreign model is unknown
        assert table["evidence"].unique().to_list() == ["all"]
    scores = read_table(files / "out" / "query_scores.parquet", QUERY_SCORES)
    assert scores["domain"].unique().sort().to_list() == ["art", "law"]
    assert sorted(path.name for path in (files / "out").iterdir()) == [
        "bucket_scores.csv",
        "bucket_scores.parquet",
        "psi_table.csv",
        "psi_table.parquet",
        "query_scores.parquet",
    ]
    printed = capsys.readouterr().out
    assert "custom: mrr@10 by squad (characters from the start of the passage)\n" in printed
    assert "bm25   0.750  " in printed
    assert "  varies with position; no control" in printed  # without a control
    assert "\nbm25  The questions may be the cause: add" in printed


def test_without_a_folder_the_table_is_printed_and_nothing_written(files, capsys):
    before = sorted(files.iterdir())
    given = arguments(files, metrics="mrr@10")
    given = [word for word in given if word not in ("--out", str(files / "out"))]
    assert main(given) == 0
    printed = capsys.readouterr().out
    assert "mrr@10 by thirds" in printed  # of the default schemes the one that places all evidence
    assert "psi_table.csv" not in printed
    assert "No files written; use --out DIR" in printed
    assert sorted(files.iterdir()) == before
    assert main([*given, "--report", str(files / "page.html")]) == 2
    assert "--report needs --out DIR" in capsys.readouterr().err


def test_the_report_is_a_page_of_the_tables(files, capsys):
    page = files / "out" / "page.html"
    assert main(arguments(files, buckets="squad", control="bm25", report=page)) == 0
    text = page.read_text(encoding="utf-8")
    assert "Position sensitivity on custom" in text
    assert f"Page written to {page}" in capsys.readouterr().out
    # Queries without a recorded author are not reported as simulated.
    assert "Simulated queries" not in text
    assert "Language: " not in text


def test_all_schemes_by_default_and_domains_on_request(files):
    assert main(arguments(files)) == 0
    psi = pl.read_parquet(files / "out" / "psi_table.parquet")
    assert psi["buckets"].unique().sort().to_list() == ["relative-20", "squad", "thirds"]
    assert psi["length_bucket"].unique().sort().to_list() == ["Q1", "Q2", "all"]
    assert psi["domain"].unique().to_list() == ["all"]
    assert main(arguments(files, by_domain=True, buckets="thirds")) == 0
    psi = pl.read_parquet(files / "out" / "psi_table.parquet")
    assert psi["domain"].unique().sort().to_list() == ["all", "art", "law"]


def test_queries_and_qrels_of_several_files_are_put_together(files):
    whole, parts = files / "whole", files / "parts"
    assert main(arguments(files, out=whole)) == 0
    queries = pl.read_parquet(files / "queries.parquet")
    header, *lines = (files / "qrels.tsv").read_text().splitlines(keepends=True)
    for name, some in (("law", slice(0, 60)), ("art", slice(60, None))):
        queries[some].write_parquet(files / f"{name}.parquet")
        (files / f"{name}.tsv").write_text(header + "".join(lines[some]))
    given = {kind: [files / f"{n}.{end}" for n in ("law", "art")] for kind, end in FILE_ENDS}
    assert main(arguments(files, out=parts, **given)) == 0
    for table in ("psi_table.csv", "bucket_scores.csv"):
        assert (parts / table).read_bytes() == (whole / table).read_bytes()
    inputs = read_provenance(parts / "psi_table.parquet")["inputs"]
    assert sorted(inputs) == ["qrels:0", "qrels:1", "queries:0", "queries:1", "run:bm25.trec"]
    twice = given | {"queries": [files / "law.parquet", files / "law.parquet"]}
    assert main(arguments(files, out=files / "none", **twice)) == 2


def test_several_runs_share_tables_without_interaction(files):
    content = (files / "bm25.trec").read_bytes()
    (files / "other.trec.gz").write_bytes(gzip.compress(content))
    runs = [files / "bm25.trec", files / "other.trec.gz"]
    assert main(arguments(files, run=runs, buckets="squad")) == 0
    both = pl.read_parquet(files / "out" / "psi_table.parquet")
    assert both["model"].unique().sort().to_list() == ["bm25", "other"]
    assert (files / "out" / "query_scores-bm25.parquet").is_file()
    assert (files / "out" / "query_scores-other.parquet").is_file()
    main(arguments(files, out=files / "alone", buckets="squad"))
    alone = pl.read_parquet(files / "alone" / "psi_table.parquet")
    own = both.filter(pl.col("model") == "bm25")
    adjusted = ["p_adjusted", "p_control_adjusted"]  # over the models: of a single one, its p
    assert own.drop(adjusted).equals(alone.drop(adjusted))
    assert main(arguments(files, run=[runs[0], runs[0]])) == 2  # two runs of one model
    assert alone.get_column("p_adjusted").equals(alone.get_column("p_position"), null_equal=True)


def test_length_edges_replace_those_of_posir(files, capsys):
    # Tokens: 200 for the first 40 queries, 600 for the others.
    assert main(arguments(files, buckets="squad", length_edges=[300])) == 0
    psi = pl.read_parquet(files / "out" / "psi_table.parquet").filter(metric="mrr@10")
    sizes = dict(psi.select("length_bucket", "n_queries").iter_rows())
    assert sizes == {"all": 80, "L1 1-300": 40, "L2 above 300": 40}
    capsys.readouterr()
    edges = ["--length-edges", "300"]
    assert main([*arguments(files), *edges, "--no-length-buckets"]) == 2
    assert "exclude each other" in capsys.readouterr().err


def test_a_run_that_finds_only_documents_judged_irrelevant_scores_zero(files, capsys):
    """It has the ids of the qrels, so it is not a run of another corpus."""
    (files / "qrels.tsv").write_text((files / "qrels.tsv").read_text() + "q00\tx\t0\n")
    (files / "bm25.trec").write_text("".join(f"{q} Q0 x 1 0.5 r\n" for q in IDS))
    assert main(arguments(files, buckets="squad", metrics="mrr@10")) == 0
    assert pl.read_parquet(files / "out" / "psi_table.parquet").item(0, "mean") == 0
    (files / "bm25.trec").write_text("".join(f"{q} Q0 y 1 0.5 r\n" for q in IDS))
    assert main(arguments(files, buckets="squad", metrics="mrr@10")) == 2
    assert "has none of the 81 judged documents" in capsys.readouterr().err


def test_a_partial_run_scores_zero_and_says_so(files, capsys):
    text = (files / "bm25.trec").read_text().splitlines(keepends=True)
    (files / "bm25.trec").write_text("".join(text[:80]))  # the first 40 queries
    assert main(arguments(files, buckets="squad", metrics="mrr@10")) == 0
    assert "no results for 40 of 80 queries; they score 0" in capsys.readouterr().err
    psi = pl.read_parquet(files / "out" / "psi_table.parquet")
    assert psi.row(0, named=True)["mean"] == 0.375


BAD = {
    "unknown scheme": ({"buckets": "quarters"}, "unknown bucket scheme 'quarters'"),
    "unknown metric": ({"metrics": "map@10"}, "unknown metric 'map@10'"),
    "no such control": (
        {"control": "none"},
        "--control 'none' is not a scored model; allowed: bm25",
    ),
    "labels of no document": (
        {"metrics": "span-recall@1", "labelled": "people.tsv"},
        "--labelled corrects metrics of documents",
    ),
    "no folder for the page": ({"report": "nowhere/page.html"}, "does not exist; create it"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_options_give_one_message_and_nothing_written(files, capsys, name):
    changes, message = BAD[name]
    assert main(arguments(files, **changes)) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (files / "out").exists()


def test_unknown_and_unjudged_queries_need_options(files, capsys):
    run, qrels = files / "bm25.trec", files / "qrels.tsv"
    run.write_text(run.read_text() + "".join(f"x{i} Q0 d 1 0.5 r\n" for i in range(9)))
    assert main(arguments(files)) == 2
    listed = "'x0', 'x1', 'x2', 'x3', 'x4', ... (9 in all); leave them out with --ignore-unknown"
    assert listed in capsys.readouterr().err
    qrels.write_text(qrels.read_text().replace("d79\t1", "d79\t0"))
    both = {"ignore_unjudged": True, "ignore_unknown": True}
    assert main(arguments(files, buckets="squad", **both)) == 0
    assert pl.read_parquet(files / "out" / "psi_table.parquet").item(0, "n_queries") == 79
    run.write_text("x0 Q0 d 1 0.5 r\n")  # no query remains: refused with any option
    assert main(arguments(files, **both)) == 2
    assert "bm25.trec: has none of the queries" in capsys.readouterr().err


def ranked(files, *, score, rank=lambda place: place, suffix="trec") -> Path:
    """A run of 12 results a query, the judged document first; scores and ranks by place from 1."""
    rows = [
        (q, f"d{i}" if place == 1 else f"x{place}", rank(place), score(place))
        for i, q in enumerate(IDS)
        for place in range(1, 13)
    ]
    path = files / f"run.{suffix}"
    names = ["query_id", "doc_id", "rank", "score"]
    frame = pl.DataFrame(rows, schema=names, orient="row")
    if suffix == "trec":
        path.write_text("".join(f"{q} Q0 {d} {r} {s} x\n" for q, d, r, s in rows))
    else:
        frame.drop("rank").write_parquet(path)
    return path


WARNINGS = {
    "similarities": ({"score": lambda p: 1 / p}, None),
    "ranks that are no numbers": ({"score": lambda p: 1 / p, "rank": lambda _: "-"}, None),
    "distances": (
        {"score": lambda p: p / 100},
        "contradict the ranks: in 880 of 880 neighbouring pairs (100.0%)",
    ),
    "distances without ranks": (
        {"score": lambda p: p / 100, "suffix": "parquet"},
        "contradict the order of the results: in 880 of 880",
    ),
    "two values": (
        {"score": lambda p: 1.0 if p < 6 else 0.5},
        "mostly tied: 800 of the 800 results among the first 10 of their query (100.0%)",
    ),
    "a tail of zeros": ({"score": lambda p: max(0.0, 1 - p / 8)}, None),
}


@pytest.mark.parametrize("name", WARNINGS)
def test_doubtful_scores_are_warned_of_with_the_figure(files, capsys, name):
    made, message = WARNINGS[name]
    assert main(arguments(files, run=ranked(files, **made), metrics="mrr@10")) == 0
    said = capsys.readouterr().err
    assert message in said if message else said == ""


def test_lower_is_better_turns_distances_round(files, capsys):
    near = ranked(files, score=lambda p: p / 100)
    assert main(arguments(files, run=near, lower_is_better=True, metrics="mrr@10")) == 0
    psi = pl.read_parquet(files / "out" / "psi_table.parquet")
    assert psi.row(0, named=True)["mean"] == 1
    assert capsys.readouterr().err == ""
    assert read_provenance(files / "out" / "psi_table.parquet")["params"]["lower_is_better"]
    like = ranked(files, score=lambda p: 1 / p)
    main(arguments(files, run=like, lower_is_better=True, metrics="mrr@10"))
    warning = capsys.readouterr().err
    assert "contradict the ranks" in warning
    assert "leave out --lower-is-better" in warning


def test_a_document_of_two_clusters_is_refused(files, capsys):
    queries = pl.read_parquet(files / "queries.parquet").head(2)
    queries = queries.with_columns(cluster=pl.Series(["site A", None]), pos_corpus_id=pl.lit("d0"))
    queries.write_parquet(files / "queries.parquet")
    (files / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq00\td0\t1\nq01\td0\t1\n")
    assert main(arguments(files, ignore_unknown=True)) == 2
    named = "queries on document 'd0' have the clusters 'site A', None; all queries on a document"
    assert named in capsys.readouterr().err


@pytest.fixture
def labelled(tmp_path):
    """60 documents with a query per third; every second is found at rank 1, 2, 3 by third."""
    thirds = ("beginning", "middle", "end")
    rows, lines = [], []
    for i in range(180):
        rows.append({"_id": f"q{i:03d}", "target_position": thirds[i % 3]})
        rank = 1 + i % 3 * (i // 3 % 2)
        docs = [f"d{i // 3}" if k == rank else f"x{k}" for k in (1, 2, 3)]
        lines += [f"q{i:03d} Q0 {doc} {k} {1 - k / 10} r\n" for k, doc in enumerate(docs, 1)]
    (tmp_path / "queries.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "bm25.trec").write_text("".join(lines))
    qrels = "".join(f"q{i:03d}\td{i // 3}\t1\n" for i in range(180))
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + qrels)
    return tmp_path


def test_queries_without_span_are_scored_by_class(labelled, capsys):
    given = {"queries": labelled / "queries.jsonl", "metrics": "mrr@10"}
    assert main(arguments(labelled, **given)) == 0
    row = read_table(labelled / "out" / "psi_table.parquet", PSI_TABLE).row(0, named=True)
    # mrr: 1 in the first third; (1 + 1/2) / 2 in the second, (1 + 1/3) / 2 in the last.
    assert (row["buckets"], row["n_queries"], row["seen"]) == ("thirds", 180, None)
    assert row["psi"] == pytest.approx(1 - (2 / 3))
    assert row["test"] == "within"
    assert row["p_position"] < 0.01
    scores = read_table(labelled / "out" / "query_scores.parquet", QUERY_SCORES)
    assert scores["span_mid_char"].null_count() == scores["pos_char_length"].null_count() == 180
    assert "no query has a single evidence span; buckets: thirds" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"buckets": "relative-20"}, "none of the 180 queries has a single evidence span"),
        ({"max_tokens": "all"}, "--max-tokens needs pos_char_length for every query"),
    ],
)
def test_missing_spans_or_lengths_are_refused(labelled, capsys, change, message):
    assert main(arguments(labelled, queries=labelled / "queries.jsonl", **change)) == 2
    assert message in capsys.readouterr().err


def graded(files, *, n=60, rejected=(0, 2, 4, 6, 8, 10)):
    """Human grades of the first queries' documents, and of one that was thought not to answer."""
    rows = [f"{q}\td{i}\t{int(i not in rejected)}\n" for i, q in enumerate(IDS[:n])]
    text = "query-id\tcorpus-id\tscore\n" + "".join(rows) + "q01\tx\t1\n"
    (files / "people.tsv").write_text(text)
    return files / "people.tsv"


def test_human_grades_show_where_labels_err_and_correct_the_means(files, capsys):
    wanted = {"buckets": "squad", "metrics": "mrr@10", "labelled": graded(files)}
    assert main(arguments(files, **wanted)) == 0
    printed = capsys.readouterr().out
    agreement = read_table(files / "out" / "label_agreement.parquet", LABEL_AGREEMENT)
    # 61 pairs: six positives that people reject, and x, which the qrels do not have.
    assert agreement["n_pairs"][0] == 61
    assert agreement["agreement"][0] == pytest.approx(54 / 61)
    assert "Agreement depends on where the evidence is (p = 0.009)." in printed
    table = read_table(files / "out" / "corrected_scores.parquet", CORRECTED_SCORES)
    rows = {row["bucket"]: row for row in table.iter_rows(named=True)}
    # Of 60: 24 score 1, 29 score 1/2, q01 finds x first; six are out. The 60 scored .75 as all.
    assert rows["all"]["corrected"] == pytest.approx((24 + 14.5 + 1) / 54)
    assert rows["0-100"]["corrected"] == 1
    assert rows["500-3120"]["corrected"] == pytest.approx((14.5 + 1) / 30)
    assert rows["200-300"]["corrected"] is None
    assert "bm25   500-3120       40      30    0  0.500      0.517  [" in printed
    assert "labelled" in read_provenance(files / "out" / "corrected_scores.parquet")["inputs"]


def test_unrepresentative_graded_queries_are_warned_of(files, capsys):
    path = graded(files, n=80)
    lines = path.read_text().splitlines(keepends=True)
    rows = [line for i, line in enumerate(lines[:-1]) if i < 25 or i % 2]  # 40 even, 12 odd ids
    path.write_text("".join(rows))
    assert main(arguments(files, buckets="squad", labelled=path)) == 0
    assert "warning: " in (printed := capsys.readouterr().err)
    assert "people.tsv: graded queries and all queries differ in their distribution" in printed


def test_few_human_grades_correct_nothing(files, capsys):
    assert main(arguments(files, buckets="squad", labelled=graded(files, n=40))) == 0
    assert "No corrected values: 40 queries are graded, 50 are needed." in capsys.readouterr().out
    table = read_table(files / "out" / "corrected_scores.parquet", CORRECTED_SCORES)
    assert table["corrected"].null_count() == table.height


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("q05\t", "other\t"), "query ids that are not among the queries: 'other'"),
        (("q05\td5", "q04\td4"), "query 'q04', document 'd4' is graded 2 times"),
        (("\td", "\tdoc"), "none of the 61 graded documents is the evidence document of its query"),
    ],
)
def test_human_grades_that_do_not_fit_are_refused(files, capsys, change, message):
    path = graded(files)
    path.write_text(path.read_text().replace(*change))
    assert main(arguments(files, labelled=path)) == 2
    assert message in capsys.readouterr().err


# --- runs of chunks


def chunk_rows():
    """Two chunks of each query's document: the first half before the second for all queries."""
    return [
        {"query_id": q, "doc_id": f"d{i}", "start": start, "end": start + 500, "score": 1.0 - start}
        for i, q in enumerate(IDS)
        for start in (0, 500)
    ]


def write_chunks(files):
    pl.DataFrame(chunk_rows()).write_ndjson(files / "run.jsonl")
    return files / "run.jsonl"


def test_chunks_are_scored_by_document_and_span(files, capsys):
    assert main(arguments(files, buckets="thirds", run=write_chunks(files))) == 0
    means = read_table(files / "out" / "psi_table.parquet", PSI_TABLE)
    by_metric = dict(means.filter(length_bucket="all").select("metric", "mean").iter_rows())
    # Every document is found first. Evidence at 10 is in the first chunk, at 700 in the second.
    assert by_metric == {
        "ndcg@10": 1.0,
        "recall@10": 1.0,
        "mrr@10": 1.0,
        "span-recall@1": 0.5,
        "span-recall@5": 1.0,
        "span-recall@10": 1.0,
        "span-whole@10": 1.0,
        "span-in-chunk@10": 1.0,
        # Of 1,000 characters in two chunks, 20 are evidence, and all of them are found.
        "span-precision@5": pytest.approx(0.02),
        "span-iou@5": pytest.approx(0.02),
    }
    assert "custom: span-recall@5 by thirds" in (printed := capsys.readouterr().out)
    buckets = read_table(files / "out" / "bucket_scores.parquet", BUCKET_SCORES)
    late = buckets.filter(metric="span-recall@1", length_bucket="all", bucket="end")
    assert late["mean"].to_list() == [0.0]
    assert "Evidence found in the first k chunks:\n" in printed
    assert "span-recall@1     run        1.000" in printed


def test_chunk_and_document_runs_share_document_metrics(files, capsys):
    runs = [write_chunks(files), files / "bm25.trec"]
    assert main(arguments(files, run=runs, buckets="thirds")) == 0
    assert "no chunks in bm25: span metrics are not reported" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"start": 500},
            "has start 500 and end 500 (1 such rows); allowed: whole numbers with 0 <= start < end",
        ),
        ({"end": 1001}, "'d0' is [0, 1001), but the document has 1000 characters (1 such rows)"),
        ({"start": 0.5}, "has start 0.5 and end 500"),
    ],
)
def test_chunks_that_are_nowhere_are_refused(files, change, message, capsys):
    rows = chunk_rows()
    rows[0] |= change
    (files / "run.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(arguments(files, run=files / "run.jsonl")) == 2
    assert message in capsys.readouterr().err


def identical_files(folder, positive):
    """Queries a and b are documents, too; each is found before its positive."""
    folder.mkdir()
    evidence = {"pos_char_span": [0, 5], "pos_char_length": 9}
    queries = [{"_id": query} | evidence for query in "ab"]
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    qrels = "".join(f"{query}\t{positive(query)}\t1\n" for query in "ab")
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + qrels)
    run = "".join(f"{q} Q0 {q} 1 9.0 r\n{q} Q0 {q}-answer 2 1.0 r\n" for q in "ab")
    (folder / "mine.trec").write_text(run)
    return {
        name: folder / f"{name}.{end}" for name, end in (("queries", "jsonl"), ("qrels", "tsv"))
    }


SECOND = 1 / np.log2(3)  # nDCG of one relevant document at rank 2


@pytest.mark.parametrize(
    ("positive", "setting", "expected"),
    [
        ("{}-answer", "auto", 1.0),  # BEIR's rule: the query's own document is no result
        ("{}-answer", "keep", SECOND),
        # Own ids are relevant: they number two different things.
        ("{}", "auto", 1.0),
        ("{}", "keep", 1.0),
        ("{}", "remove", 0.0),  # as BEIR's evaluate, which removes relevant ones, too
    ],
)
def test_results_with_the_querys_own_id(tmp_path, capsys, positive, setting, expected):
    given = identical_files(tmp_path / "in", positive.format)
    run, out = tmp_path / "in" / "mine.trec", tmp_path / "out"
    assert main(arguments(tmp_path, run=run, out=out, identical_ids=setting, **given)) == 0
    scores = read_table(out / "query_scores.parquet", QUERY_SCORES)
    assert scores["ndcg@10"].to_list() == pytest.approx([expected] * 2)
    is_removed = (setting, positive) != ("auto", "{}") and setting != "keep"
    errors = capsys.readouterr().err
    assert ("2 results removed whose document has its query's id" in errors) == is_removed
    assert ("query and relevant document have the same id" in errors) == (
        (setting, positive) == ("auto", "{}")
    )
