"""`psibench.evaluate`: a Python function gets the same scores as a run of its rankings."""

import json
import logging
import math
from decimal import Decimal

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
import torch
from built_benchmark import DOMAINS, LANGUAGES, make_benchmark, table
from language_tables import write_domains, write_texts
from polars.testing import assert_frame_equal

import psibench
from psibench.cli import main
from psibench.errors import InputError
from psibench.formats.runs import RunFile, doubts, read_results
from psibench.metrics import sections
from psibench.publish.control import search_blind
from psibench.tables import Provenance, read_table, write_table
from psibench.tables.domains import by_place
from psibench.tables.schemas import QRELS, QUERIES


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return make_benchmark(tmp_path_factory.mktemp("evaluate") / "two-languages")


def shared_words(queries, corpus, *, k):
    """Rank by the number of words shared by query and document."""
    bags = {doc_id: set(text.split()) for doc_id, text in corpus.texts.items()}
    found = {}
    for query_id, text in queries.items():
        counts = {doc_id: len(bag & set(text.split())) for doc_id, bag in bags.items()}
        best = sorted(counts, key=counts.get, reverse=True)[:k]
        found[query_id] = {doc_id: float(counts[doc_id]) for doc_id in best if counts[doc_id]}
    return found


def first_third(queries, corpus, *, k):
    """Rank likewise, by only the first third of each document."""

    class Cut:
        texts = {i: " ".join(t.split()[:20]) for i, t in corpus.texts.items()}  # noqa: RUF012

    return shared_words(queries, Cut, k=k)


@pytest.mark.parametrize("n_documents", [None, 10])
def test_the_tables_equal_those_of_psibench_score(tmp_path, results, n_documents, monkeypatch):
    if n_documents:  # so few that sections of them are the units
        monkeypatch.setattr(sections, "QUERIES_PER_SECTION", 1)
        results = make_benchmark(tmp_path / "few", n_documents=n_documents)
    found = psibench.evaluate(shared_words, results, model="words", languages=["eng-Latn"])
    assert ("sections" in found.psi["flags"][0]) is bool(n_documents)
    run = found.run.select("query_id", "doc_id", "score")
    run.write_parquet(tmp_path / "words.parquet")
    data = results / "data" / "eng-Latn"
    options = ["--run", tmp_path / "words.parquet", "--out", tmp_path / "out", "--queries"]
    options += [data / "queries.parquet", "--qrels", data / "qrels.parquet"]
    assert main(["score", *map(str, options)]) == 0
    for name, frame in (("psi_table", found.psi), ("bucket_scores", found.buckets)):
        scored = pl.read_parquet(tmp_path / "out" / f"{name}.parquet")
        labels = ("benchmark", "query_lang", "corpus_lang")
        assert_frame_equal(frame.drop(labels), scored.drop(labels), check_dtypes=False)
    assert found.psi["mean"][0] > 0.3


def test_length_rows_follow_the_given_edges(results):
    options = {"languages": ["eng-Latn"], "domains": ["game"], "length_buckets": [59]}
    found = psibench.evaluate(shared_words, results, **options)  # documents have 60 tokens
    assert set(found.scores["length_bucket"]) == {"L2 above 59"}


def test_text_beyond_the_input_lowers_late_buckets(results):
    found = psibench.evaluate(first_third, results, control=shared_words, buckets=["thirds"])
    means = found.buckets.filter(metric="ndcg@10", model="retriever", corpus_lang="eng-Latn")
    by_third = dict(means.filter(evidence="all").select("bucket", "mean").iter_rows())
    assert by_third["beginning"] > 0.5 > by_third["end"]
    assert set(found.psi["corpus_lang"]) == {"deu-Latn", "eng-Latn"}
    assert set(found.psi["model"]) == {"retriever", "control"}
    assert set(found.comparisons["other"]) == {"control"}


def test_the_builtin_control_searches_the_same_documents(results):
    found = psibench.evaluate(first_third, results, control="builtin", languages=["eng-Latn"])
    blind = found.run.filter(model="control").select("query_id", "doc_id", "score")
    data = (
        table(results, "eng-Latn", "queries", "game"),
        table(results, "eng-Latn", "corpus", "game"),
    )
    mine = search_blind(*data, k=100)
    both = blind.join(mine, on=["query_id", "doc_id"], suffix="_own")
    assert both.height == mine.height
    assert_frame_equal(both.select("score"), both.select(score="score_own"))
    n = sum(table(results, "eng-Latn", "corpus", domain).height for domain in DOMAINS)
    (note,) = found.notes
    assert f"It searched {n} documents of eng-Latn in {len(DOMAINS)} domains" in note
    assert found.psi.filter(model="retriever")["control"].unique().to_list() == ["control"]


def test_order_of_words_never_changes_the_builtin_control():
    queries = pl.DataFrame({"_id": ["q"], "text": ["red fox"]})
    texts = ["red " + "grey " * 600 + "fox", "grey " * 600 + "fox red", "blue " * 602]
    documents = pl.DataFrame({"_id": ["a", "b", "c"], "text": texts})
    found = search_blind(queries, documents, k=3)
    # equal scores are ordered by id, descending, as in every ranking of psibench
    assert found["doc_id"].to_list() == ["b", "a", "c"]
    assert found["score"][0] == found["score"][1] > found["score"][2]


def test_another_text_than_builtin_is_no_control(results):
    with pytest.raises(InputError, match="control='bm25': give a function, or 'builtin'"):
        psibench.evaluate(first_third, results, control="bm25")


def test_a_printed_evaluation_is_the_table_and_the_verdicts(results):
    options = {"control": shared_words, "languages": ["eng-Latn"], "buckets": ["thirds"]}
    found = psibench.evaluate(first_third, results, model="<cut>", **options)
    lines = str(found).splitlines()
    assert lines[0] == "two-languages: ndcg@10 by thirds (third of the passage)"
    assert sum(line.startswith("<cut> ") for line in lines) == 2  # numbers, and advice
    assert lines[-1].startswith(f"Frames: psi ({found.psi.height} rows), buckets (")
    assert len(lines) < 20
    assert repr(found) == str(found)


def test_a_notebook_shows_means_by_position_with_escaped_names(results):
    options = {"control": shared_words, "languages": ["eng-Latn"], "buckets": ["thirds"]}
    shown = psibench.evaluate(first_third, results, model="<cut>", **options)._repr_html_()
    assert "<th>beginning</th><th>middle</th><th>end</th><th>Mean</th>" in shown
    assert "<tr><td>&lt;cut&gt;</td>" in shown
    assert "<cut>" not in shown


def test_framework_retrievers_are_functions_of_the_package():
    names = ("haystack_search", "langchain_search", "llamaindex_search")
    assert all(callable(getattr(psibench, name)) for name in names)


def test_a_retriever_is_called_with_each_domains_texts(results):
    calls = []

    def search(queries, corpus, *, k):
        calls.append((corpus.benchmark, corpus.language, corpus.domain, len(queries), k))
        own = table(results, corpus.language, "corpus", corpus.domain)
        assert corpus.texts == dict(own.select("_id", "text").iter_rows())
        return {key: {f"{corpus.domain}/d0": 1.0} for key in queries}  # d0 has 3 of 108 queries

    options = {"languages": ["eng-Latn"], "metrics": ["ndcg@5", "mrr@2"], "by_domain": True}
    found = psibench.evaluate(search, results, k=5, **options)
    assert calls == [("two-languages", "eng-Latn", domain, 108, 5) for domain in DOMAINS]
    assert set(found.psi["domain"]) == {"all", *DOMAINS}
    assert set(found.psi["mean"].round(6)) == {round(3 / 108, 6)}
    assert found.scores.height == table(results, "eng-Latn", "queries").height


FIRST = ["game/d0-beginning", "game/d0-middle"]  # of the queries
DOCS = [f"game/d{i}" for i in range(12)]
NO_NUMBERS = [None, True, "high", "1_0", "\u0661", "", "9" * 5000, 10**400, float("nan")]
REFUSED = {
    **{f"score {str(value)[:9]!a}": {DOCS[0]: value} for value in NO_NUMBERS},
    "beyond 32 bits": {DOCS[0]: 1e300},
    "empty id": {"": 1.0},
    "no query has results": {},
}


def both_doors(tmp_path, results, rankings, *options, **given):
    """Score rankings of a dataset from a file and by `evaluate`; return both messages."""
    path = tmp_path / "mine.json"
    rows = [
        {"query_id": q, "doc_id": key[0], "start": key[1], "end": key[2], "score": score}
        for q, ranking in rankings.items()
        for key, score in (ranking.items() if given.get("chunks") else ())
    ]
    if not rows:
        path.write_text(json.dumps(rankings))
    else:
        path = tmp_path / "mine.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    files = []
    for name in ("queries", "qrels"):
        files += [f"--{name}", tmp_path / f"{name}.parquet"]
        table(results, "eng-Latn", name, "game").write_parquet(files[-1])
    code = main(["score", "--run", *map(str, [path, *files, *options])])

    def search(queries, corpus, *, k):
        return rankings

    chosen = {"languages": ["eng-Latn"], "domains": ["game"], "model": "mine"}
    try:
        psibench.evaluate(search, results, **chosen, **given)
    except InputError as error:
        assert code == 2
        return str(path), str(error).removeprefix("mine, eng-Latn/game")
    assert code == 0
    return str(path), None


@pytest.mark.parametrize("name", REFUSED)
def test_score_and_evaluate_refuse_the_same_rankings(tmp_path, results, capsys, name):
    path, message = both_doors(tmp_path, results, {FIRST[0]: REFUSED[name]})
    assert capsys.readouterr().err == f"psibench score: {path}{message}\n"


@pytest.mark.parametrize(
    ("rankings", "message"),
    [
        ({}, "has none of the queries; found no rows"),
        ({"another": {DOCS[0]: 1.0}}, "has none of the queries; found 'another'"),
        ({FIRST[0]: {DOCS[0]: 1.0}, "another": {DOCS[0]: 1.0}}, "not among the queries: 'another'"),
        ({FIRST[0]: {"d99": 1.0}}, "'d99'"),
        ({FIRST[0]: {DOCS[0]: [1]}}, "expected"),
    ],
)
def test_score_and_evaluate_refuse_other_ids_and_shapes(
    tmp_path, results, capsys, rankings, message
):
    _, refused = both_doors(tmp_path, results, rankings)
    assert message in refused
    assert message in capsys.readouterr().err


def test_a_list_of_rankings_is_refused_with_the_expected_form(results):
    expected = r"mine, deu-Latn/game: .*\{query id: \{document id: score\}\}.* found \['game/d1'\]"
    with pytest.raises(InputError, match=expected):
        psibench.evaluate(lambda queries, corpus, *, k: ["game/d1"], results, model="mine")


@pytest.mark.parametrize(
    "place", [(0.9, 10.7), (5, 5), (-1, 5), (0, 10**6), (0, 1e300), (0, float("nan")), (0, None)]
)
def test_score_and_evaluate_refuse_the_same_chunks(tmp_path, results, capsys, place):
    rankings = {FIRST[0]: {(DOCS[0], *place): 1.0, (DOCS[0], 0, 9): 0.5}}
    path, message = both_doors(tmp_path, results, rankings, chunks=True)
    said = capsys.readouterr().err
    if place[1] is None:  # files have empty fields, tuples do not
        assert "has start 0 and end None" in said
        assert "is None; expected a number" in message
    else:
        assert said == f"psibench score: {path}{message}\n"


def test_plain_ids_among_chunks_are_whole_documents(results):
    found = psibench.evaluate(
        lambda queries, corpus, *, k: {q: {(DOCS[0], 0, 9): 1.0, DOCS[1]: 0.5} for q in queries},
        results,
        chunks=True,
        domains=["game"],
        languages=["eng-Latn"],
    )
    assert found.run.filter(query_id=FIRST[0])["doc_id"].to_list() == DOCS[:2]
    with pytest.raises(InputError, match="expected an id"):  # without chunks=True
        psibench.evaluate(lambda q, c, *, k: {FIRST[0]: {(DOCS[0], 0, 9): 1.0}}, results)


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        # Ties in half of the queries, in all steps between scores, in all scores.
        (lambda i: 1 - i / 100, {"no results for 106 of 108 queries"}),
        # float32 has steps of 64 at 1e9, so scores that differ by .1 are equal.
        (
            lambda i: 1e9 - i / 10,
            {"no results", "32-bit floats: 18 of 18", "tied: 20"},
        ),
        (lambda i: i / 100, {"no results", "contradict the order of the results: in 22 of 22"}),
        (lambda i: 1.0, {"no results", "mostly tied: 20 of the 20"}),
    ],
)
def test_score_and_evaluate_give_the_same_warnings(
    tmp_path, results, capsys, caplog, score, expected
):
    rankings = {q: {d: score(i) for i, d in enumerate(DOCS)} for q in FIRST}
    path, _ = both_doors(tmp_path, results, rankings)
    lines = capsys.readouterr().err.splitlines()
    warned = [one.getMessage() for one in caplog.records if one.name == "psibench"]
    assert len(lines) == len(warned) == len(expected)
    for line, other in zip(lines, warned, strict=True):
        said = line.removeprefix(f"warning: {path}: ").partition(" (")[0]
        assert said == other.removeprefix("mine, eng-Latn/game: ").partition(" (")[0]
    for part in expected:
        assert sum(part in line for line in lines) == 1


def test_few_ties_by_rounding_give_no_warning():
    # One of 200 neighbouring pairs differs by less than float32 can represent.
    rows = [(f"q{i}", d, s) for i in range(200) for d, s in (("a", 1.0), ("b", 0.5))]
    rows[1] = ("q0", "b", 1.0 - 1e-9)
    frame = pl.DataFrame(rows, schema=["query_id", "doc_id", "score"], orient="row")
    assert list(doubts(RunFile(frame, "few"))) == []


@pytest.mark.parametrize("scalar", [np.float32, np.float64, np.int64, Decimal, str, torch.tensor])
def test_scores_of_other_number_types_are_read(scalar):
    rows = read_results({"q": {np.str_("d"): scalar(3)}}, source="mine").frame.rows()
    assert rows == [("q", "d", 3.0)]


def test_leftovers_of_an_earlier_run_give_a_warning(tmp_path, caplog):
    results = make_benchmark(tmp_path / "renamed")
    places = [(language, domain) for language in LANGUAGES for domain in DOMAINS]
    rows = [("renamed", *place, "n_queries", 1.0) for place in places[1:]]
    columns = ["benchmark", "language", "domain", "statistic", "value"]
    pl.DataFrame(rows, columns, orient="row").write_parquet(results / "statistics.parquet")
    psibench.evaluate(shared_words, results)
    warnings = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert "that the last run did not make: deu-Latn/game; delete" in warnings[0]


def test_missing_benchmarks_and_parts_are_refused(tmp_path, results):
    with pytest.raises(InputError, match=r"has no table data/LANGUAGE/corpus.parquet"):
        psibench.evaluate(shared_words, tmp_path)
    _, queries = write_texts(tmp_path / "data" / "eng-Latn", domain="law")
    queries.unlink()
    target = f"results/{tmp_path.name}/data/eng-Latn"  # relative to the config's folder
    with pytest.raises(InputError, match=f"`psibench run CONFIG {target}/queries.parquet {target}"):
        psibench.evaluate(shared_words, tmp_path)
    write_texts(tmp_path / "data" / "eng-Latn" / "2-of-2", domain="law")
    with pytest.raises(InputError, match="eng-Latn/law is in two tables"):
        psibench.evaluate(shared_words, tmp_path)
    write_texts(tmp_path / "data" / "eng-Latn" / "law")
    with pytest.raises(InputError, match="an older psibench wrote a table for each domain"):
        psibench.evaluate(shared_words, tmp_path)
    with pytest.raises(InputError, match="languages: no dataset of fra-Latn"):
        psibench.evaluate(shared_words, results, languages=["fra-Latn"])
    with pytest.raises(InputError, match="is reserved for the control"):
        psibench.evaluate(shared_words, results, model="control", control=shared_words)


def halves(queries, corpus, *, k):
    """Return both halves of the documents of `shared_words`, the first half first."""
    found = shared_words(queries, corpus, k=k // 2)
    return {
        query_id: {
            place: 2 * score - (place[1] > 0)
            for doc_id, score in scored.items()
            for middle, end in [(len(corpus.texts[doc_id]) // 2, len(corpus.texts[doc_id]))]
            for place in ((doc_id, 0, middle), (doc_id, middle, end))
        }
        for query_id, scored in found.items()
    }


def test_a_retriever_of_chunks_is_scored_by_spans_too(results):
    options = {"languages": ["eng-Latn"], "buckets": ["thirds"]}
    found = psibench.evaluate(halves, results, chunks=True, **options)
    plain = psibench.evaluate(shared_words, results, k=50, **options)
    means, expected = (
        dict(one.psi.filter(length_bucket="all").select("metric", "mean").iter_rows())
        for one in (found, plain)
    )
    assert means["ndcg@10"] == expected["ndcg@10"]
    whole = psibench.evaluate(shared_words, results, k=50, chunks=True, **options)  # plain ids
    assert whole.psi.filter(metric="ndcg@10").equals(plain.psi.filter(metric="ndcg@10"))
    first = found.buckets.filter(metric="span-recall@1", length_bucket="all")
    by_third = dict(first.select("bucket", "mean").iter_rows())
    assert by_third["beginning"] > 0 == by_third["end"]  # the first chunk is a first half


@pytest.mark.parametrize("recipe", ["beir", "posir_release"])
def test_identical_ids_are_no_results_if_the_recipe_excludes_them(tmp_path, recipe):
    # Documents a and b are also queries; a retriever finds the query itself, then its answer.
    folder = tmp_path / "argu" / "data" / "eng-Latn"
    texts = {f"{q}{end}": f"text {q}{end}" for q in "ab" for end in ("", "-answer")}
    positives = {q: f"{q}-answer" for q in "ab"}
    write_texts(folder, texts, {"a": "a", "b": "b"}, positives=positives, domain="general")
    params = {"recipe": recipe} | ({"identical_ids": "auto"} if recipe == "beir" else {})
    source = Provenance(stage="build", stage_version=1, params=params)
    queries = read_table(folder / "queries.parquet", QUERIES)
    write_table(queries, folder / "queries.parquet", by_place(QUERIES), provenance=source)
    rows = {"query-id": ["a", "b"], "corpus-id": ["a-answer", "b-answer"], "score": [1, 1]}
    qrels = pl.DataFrame(rows, schema_overrides={"score": pl.Int32})
    write_domains({"general": qrels}, folder / "qrels.parquet", QRELS, provenance=source)
    depths = []

    def search(asked, corpus, *, k):
        depths.append(k)
        ranking = {q: [q, f"{q}-answer", *(other for other in "ab" if other != q)] for q in asked}
        return {q: {d: 1.0 / n for n, d in enumerate(r[:k], 1)} for q, r in ranking.items()}

    asked = {"k": 2, "metrics": ["ndcg@2"], "buckets": ["thirds"]}
    found = psibench.evaluate(search, tmp_path / "argu", **asked)
    # BEIR's rule: requests one more document and ranks two without the query's id.
    expected = (1.0, 3) if recipe == "beir" else (1 / math.log2(3), 2)
    assert (found.scores["ndcg@2"][0], depths[0]) == (pytest.approx(expected[0]), expected[1])
    assert found.run.height == 4
    out = tmp_path / "out"
    assert (
        main(["export", str(tmp_path / "argu"), str(out), "--layout", "mteb", "--licence", "mit"])
        == 0
    )
    schema = pq.read_schema(out / "eng-Latn" / "qrels" / "test.parquet")
    assert schema.metadata == {b"identical_ids_removed": str(recipe == "beir").encode()}
