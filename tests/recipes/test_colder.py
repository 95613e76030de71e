"""ColDeR: pairs of documents give two queries if evidence is first or last, else one."""

import json

import pytest

from psibench.errors import InputError
from psibench.generate.benchmarks import parse_benchmark
from psibench.tables import conform
from psibench.tables.schemas import CORPUS, QRELS, QUERIES
from psibench.text.lengths import count_whitespace_tokens

EVIDENCE = "Ada wrote it ."
REST = "It is long . So is this ."


def record(query="Who?", first=f"{EVIDENCE} {REST}", second=f"{REST} {EVIDENCE}", **more):
    """Return a record of the release: words of sentences, and unused columns."""
    sentences = [EVIDENCE.split()]
    known = {"title": "Engine", "evidence_sents": sentences, "sents": sentences, "relation": "P1"}
    return known | {"query": query, "document_1": first, "document_2": second} | more


def build(folder, *records, subset="position_bias", **section):
    path = folder / "test" / f"{subset}.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(one) + "\n" for one in records))
    source = {"kind": "files", "paths": [str(path)]}
    given = {"recipe": "colder", "source": source, "subset": subset, **section}
    built = parse_benchmark(given).build(count_whitespace_tokens)
    for frame, spec in ((built.corpus, CORPUS), (built.queries, QUERIES), (built.qrels, QRELS)):
        conform(frame, spec, where=spec.name)
    return built


def test_evidence_first_and_last_are_two_queries_on_one_article(tmp_path):
    built = build(tmp_path, record(), record("When?", f"{EVIDENCE} No .", f"No . {EVIDENCE}"))
    assert built.corpus["text"].to_list()[:2] == [f"{EVIDENCE} {REST}", f"{REST} {EVIDENCE}"]
    # sorted by id, the first of a pair alternates between first and last
    assert built.corpus["_id"].to_list() == ["p00000-a", "p00000-b", "p00001-b", "p00001-a"]
    columns = ("_id", "text", "pos_corpus_id", "pos_char_span", "target_position", "cluster")
    assert built.queries.select(columns).rows() == [
        ("p00000-1", "Who?", "p00000-a", [0, 14], "beginning", "Engine"),
        ("p00000-2", "Who?", "p00000-b", [26, 40], "end", "Engine"),
        ("p00001-1", "When?", "p00001-b", [0, 14], "beginning", "Engine"),
        # from the release; the middle of this span is in the second third
        ("p00001-2", "When?", "p00001-a", [5, 19], "end", "Engine"),
    ]
    assert built.qrels.rows() == [(*row, 1) for row in built.queries["_id", "pos_corpus_id"].rows()]


def test_evidence_that_occurs_twice_has_only_a_class(tmp_path):
    built = build(tmp_path, record(second=f"{EVIDENCE} {REST} {EVIDENCE}"))
    assert built.queries.select("pos_char_span", "target_position").rows() == [
        ([0, 14], "beginning"),
        (None, "end"),
    ]


@pytest.mark.parametrize(
    ("subset", "asked"),
    [("brevity_bias", "2"), ("answer_importance", "1")],
)
def test_other_subsets_have_mtebs_positive(tmp_path, subset, asked):
    found = record("Who?", EVIDENCE, f"{EVIDENCE} {REST}")
    renamed = record("Who?", "It is she .", "It is he .")
    built = build(tmp_path, found, renamed, subset=subset)
    assert built.corpus.height == 4
    columns = ("_id", "pos_char_span", "target_position")
    assert built.queries.select(columns).rows() == [
        (f"p00000-{asked}", [0, 14], None),
        (f"p00001-{asked}", None, "unknown"),  # counts in the mean, but in no bucket
    ]


def test_shared_texts_merge_and_identical_pairs_are_dropped(tmp_path):
    built = build(tmp_path, record(), record("By whom?"), record("Why?", "Same .", " Same ."))
    assert built.corpus["_id"].to_list() == ["p00000-a", "p00000-b"]
    assert built.queries["pos_corpus_id"].to_list() == ["p00000-a", "p00000-b"] * 2
    assert built.queries["_id"].n_unique() == 4
    assert built.dropped.select("unit", "item_id", "reason").rows() == [
        ("pairs", "p00002", "same_documents")
    ]


def test_a_record_without_an_article_is_a_separate_cluster(tmp_path):
    bare = {"query": "Who?", "document_1": "A b .", "document_2": "B a ."}
    built = build(tmp_path, bare, bare | {"document_1": "C .", "document_2": "D ."})
    assert built.queries["cluster"].to_list() == ["p00000"] * 2 + ["p00001"] * 2
    assert built.queries["pos_char_span"].null_count() == 4
    assert built.queries["target_position"].to_list() == ["beginning", "end"] * 2


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([{"query": "Who?", "document_1": "A ."}], "line 1: missing column document_2; found"),
        ([record(second=" ")], "line 1: document_2 is blank"),
        ([record(query=None)], "line 1: field 'query' is null, expected text"),
        ([record(evidence_sents=["a b"])], "line 1: evidence_sents is .*lists of words"),
        ([record("Who?", "a", "a")], "the two documents are identical in all 1 records"),
    ],
)
def test_invalid_records_are_refused_with_their_origin(tmp_path, records, message):
    with pytest.raises(InputError, match=message):
        build(tmp_path, *records)
