"""Moved evidence and reversed documents as retrieval."""

import numpy as np
import polars as pl
import probe_texts
import pytest
from scipy import stats

from psibench.probes.cosines import measure
from psibench.probes.retrieval import (
    Collection,
    measure_reversal,
    ndcg_with_variants,
)
from psibench.probes.run import ALL_PROBES
from psibench.probes.settings import Probes
from psibench.probes.tables import Texts
from psibench.text.lengths import count_whitespace_tokens

N = 14


def text(number: int) -> str:
    return probe_texts.document(number, 10)


@pytest.fixture(scope="module")
def collection() -> Collection:
    ids = [f"d{k}" for k in range(N)]
    frames = [
        pl.DataFrame(
            {"domain": domain, "document_id": ids, "text": [text(k + at) for k in range(N)]}
        )
        for domain, at in (("one", 0), ("two", 100))
    ]
    qrels = pl.DataFrame(
        {
            "domain": ["one"] * (N + 1) + ["two"] * N,
            "query-id": [f"q{k}" for k in range(N)] + ["q0"] + [f"q{k}" for k in range(N)],
            "corpus-id": [*ids, "d5", *ids],
            "score": [1] * N + [2] + [1] * N,
        }
    )
    return Collection(("one", "two"), pl.concat(frames), qrels)


def queries(collection: Collection, *, sentence: int) -> pl.DataFrame:
    """Make a query per document: a sentence is the evidence, its first two words the text."""
    rows = []
    for number, (domain, document_id, own) in enumerate(collection.documents.iter_rows()):
        piece = own.split(". ")[sentence].removesuffix(".")
        start = own.index(piece)
        words = " ".join(piece.split()[:2])
        rows.append((domain, f"q{number % N}", document_id, words, [start, start + len(piece)]))
    schema = dict.fromkeys(("domain", "query_id", "document_id", "text"), pl.String)
    return pl.DataFrame(rows, schema={**schema, "span": pl.List(pl.Int64)}, orient="row")


def test_moved_evidence_equals_a_search_with_the_document_replaced(collection, load):
    encoder = load("first", max_tokens=16)
    asked = queries(collection, sentence=6)
    texts = Texts(collection.documents, asked)
    found = measure(
        "moving",
        texts,
        encoder,
        settings=Probes(places=3),
        count_tokens=count_whitespace_tokens,
    )
    values = ndcg_with_variants(found, asked, collection, encoder).to_numpy()

    # Brute force: every corpus written out, every document scored.
    def gain(grades):
        return sum(grade / np.log2(rank + 1) for rank, grade in enumerate(grades[:10], 1))

    from psibench.probes.variants import moved_evidence

    grades = {
        (domain, query): {} for domain, query in asked.select("domain", "query_id").iter_rows()
    }
    for domain, query, document, grade in collection.qrels.iter_rows():
        grades[domain, query][document] = grade
    expected = []
    for domain, query, document, words, span in asked.iter_rows():
        own = collection.documents.filter(domain=domain)
        ids = own["document_id"].to_list()
        for variant in moved_evidence(own["text"][ids.index(document)], tuple(span), 3):
            corpus = [
                variant.text if one == document else kept
                for one, kept in zip(ids, own["text"], strict=True)
            ]
            matrix = encoder.vectors(encoder.encode(corpus, "document"))
            vector = encoder.vectors(encoder.encode([words], "query"))[0]
            scores = (matrix.astype(np.float64) @ vector.astype(np.float64)).astype(np.float32)
            order = sorted(range(len(ids)), key=lambda k: (-scores[k], ids[k]))
            mine = grades[domain, query]
            ranked = [mine.get(ids[k], 0) for k in order]
            expected.append(gain(ranked) / gain(sorted(mine.values(), reverse=True)))
    assert values == pytest.approx(expected)
    assert len(set(np.round(values, 6))) > 3  # the test covers different ranks


def test_only_exact_cuts_split_the_evidence(collection, load):
    asked, encoder = queries(collection, sentence=3), load()
    soft, exact = (
        measure_reversal(collection, asked, encoder, is_exact=is_exact)
        for is_exact in (False, True)
    )
    assert set(soft["n_pieces"]) == {1}
    assert set(soft["origin"]) == {"front"}  # the second of five segments
    assert exact["n_pieces"].max() == 2


def test_an_encoder_of_first_tokens_finds_the_back_after_reversal(collection, load):
    encoder = load("first", max_tokens=16)
    asked = pl.concat(
        [
            queries(collection, sentence=number).with_columns(pl.col("query_id") + name)
            for number, name in ((0, "f"), (9, "b"))
        ]
    )
    judged = pl.concat(
        collection.qrels.filter(pl.col("score") == 1).with_columns(pl.col("query-id") + name)
        for name in ("f", "b")
    )
    both = Collection(collection.domains, collection.documents, judged)
    found = measure_reversal(both, asked, encoder)
    assert set(found.filter(origin="front")["visible_before"]) == {1.0}
    assert found.filter(origin="front")["visible_after"].max() == 0
    assert found.filter(origin="back")["visible_after"].max() == 1
    rows = {
        row["measure"]: row["value"]
        for row in ALL_PROBES["reversal"].summarise(found, level=0.95)
        if row["domain"] == "all" and row["read"] == "all"
    }
    assert rows["delta"] < -0.2
    assert rows["delta_rev"] > 0.2
    assert rows["delta_change"] == pytest.approx(rows["delta_rev"] - rows["delta"])


def test_reversal_gives_the_reason_of_left_out_queries(load):
    documents = pl.DataFrame({"domain": "one", "document_id": ["a", "b"], "text": ["abc", text(1)]})
    asked = pl.DataFrame(
        {
            "domain": "one",
            "query_id": ["short", "spanless", "unjudged", "lost", "good"],
            "document_id": ["a", "b", "b", "c", "b"],
            "text": "river",
            "span": [[0, 2], None, [0, 5], [0, 5], [0, 5]],
        }
    )
    qrels = pl.DataFrame(
        {
            "domain": "one",
            "query-id": ["short", "spanless", "lost", "good"],
            "corpus-id": ["a", "b", "b", "b"],
            "score": 1,
        }
    )
    found = measure_reversal(Collection(("one",), documents, qrels), asked, load())
    assert dict(found.select("query_id", "left_out").iter_rows()) == {
        "short": "fewer than 5 segments with text",
        "spanless": "no one evidence span",
        "unjudged": "no positive in the qrels",
        "lost": "its document is not in the corpus",
        "good": None,
    }


def test_delta_rev_uses_documents_as_units():
    # Front: d0 .2 .4, d1 .6; back: d0 1, d2 .8. B->F .9, F->B .4.
    rows = pl.DataFrame(
        {
            "domain": "one",
            "document_id": ["d0", "d0", "d1", "d0", "d2"],
            "query_id": [f"q{k}" for k in range(5)],
            "origin": ["front"] * 3 + ["back"] * 2,
            "before": [0.5] * 5,
            "after": [0.2, 0.4, 0.6, 1.0, 0.8],
            "visible_before": 1.0,
            "visible_after": 1.0,
            "read": 1.0,
            "left_out": pl.Series([None] * 5, dtype=pl.String),
        }
    )
    found = ALL_PROBES["reversal"].summarise(rows, level=0.95)
    changes = {r["condition"]: r["value"] for r in found if r["measure"] == "ndcg@10 change"}
    assert changes == pytest.approx({"F->B less front": -0.1, "B->F less back": 0.4})
    row = next(r for r in found if r["measure"] == "delta_rev")
    assert row["value"] == pytest.approx(0.5)
    assert row["n_documents"] == 3
    # influences: d0 (1 - .9)/2 - (.2 - .4 + .4 - .4)/3 = .11667; d1 -.2/3; d2 -.1/2
    parts = np.array([0.05 + 0.2 / 3, -0.2 / 3, -0.05])
    se = np.sqrt(3 / 2 * parts @ parts)
    assert row["high"] - row["value"] == pytest.approx(4.302653 * se, rel=1e-5)


def test_only_changes_are_tested_against_zero():
    rng = np.random.default_rng(5)
    before, after = rng.random((2, 30))
    rows = pl.DataFrame(
        {
            "domain": "one",
            "document_id": [f"d{k}" for k in range(30)],
            "query_id": [f"q{k}" for k in range(30)],
            "origin": "front",
            "before": before,
            "after": after,
            "visible_before": 1.0,
            "visible_after": 1.0,
            "read": 1.0,
            "left_out": pl.Series([None] * 30, dtype=pl.String),
        }
    )
    found = ALL_PROBES["reversal"].summarise(rows, level=0.95)
    tests = {row["condition"]: row["p"] for row in found if row["read"] == "all"}
    p = stats.ttest_rel(after, before).pvalue
    assert tests == {"front": None, "F->B": None, "F->B less front": pytest.approx(p)}


def test_a_query_in_the_corpus_finds_other_documents(load):
    texts = [text(number) for number in range(3)]
    documents = pl.DataFrame({"domain": "one", "document_id": ["c", "b", "a"], "text": texts})
    asked = pl.DataFrame({"domain": "one", "query_id": ["b"], "text": [texts[1]]})
    encoder, qrels = load(), pl.DataFrame()
    keys = encoder.encode(texts, "document").keys
    found = [
        Collection(("one",), documents, qrels, is_removed).search(asked, keys, encoder, 2)
        for is_removed in (False, True)
    ]
    assert ["b" in one["doc_id"] for one in found] == [True, False]
    assert [one.height for one in found] == [2, 2]  # finds one more document instead
