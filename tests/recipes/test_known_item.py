from collections import Counter

import numpy as np
import polars as pl
import pytest

from psibench.errors import InputError
from psibench.generate.benchmarks import parse_benchmark
from psibench.generate.loaders import known_item
from psibench.generate.loaders.known_item import (
    Draw,
    match_thirds,
    simulate_known_items,
)
from psibench.sources.python_docs import read_python_docs
from psibench.tables.dropped import DROPPED_SCHEMA
from psibench.text.lengths import count_whitespace_tokens
from psibench.text.segments import POSITIONS, tag_myopic, tag_posq
from psibench.text.words import tokenise

# Every third has three words that occur only there; each word is in one document.
FRUIT = "apple banana cherry and the damson elder figs were with grape honey imbe"
TREES = "alder birch cedar and the dogwood elm firs were with ginkgo hazel ironwood"
SMALL = {"n_terms": 2}


@pytest.fixture
def of_two(monkeypatch):
    """Allow words of only one document to be drawn, and different thirds to be matched."""
    for name, value in {"MIN_DOCUMENTS": 1, "MAX_SHARE": 1.0, "MAX_SPREAD": 9.0}.items():
        monkeypatch.setattr(known_item, name, value)


def documents(*texts):
    rows = [(f"d{i}", text, "test") for i, text in enumerate(texts)]
    return pl.DataFrame(rows, ["_id", "text", "origin"], orient="row")


def check_invariants(docs, queries, dropped, *, n_terms, queries_per_third=1):
    """Recompute every guarantee of the recipe from the texts."""
    texts = dict(docs.select("_id", "text").iter_rows())
    stems = {doc_id: tokenise(text).stems for doc_id, text in texts.items()}
    distinct = {doc_id: set(found) for doc_id, found in stems.items()}
    for row in queries.iter_rows(named=True):
        text, (start, end) = texts[row["pos_corpus_id"]], row["pos_char_span"]
        terms, wanted = row["text"].split(" "), set(tokenise(row["text"]).stems)
        assert len(terms) == len(wanted) == n_terms
        assert row["answer"] == text[start:end]
        assert row["answer"].startswith(terms[0])
        inside = [stem for stem in tokenise(row["answer"]).stems if stem in wanted]
        assert inside[-1] == tokenise(row["answer"]).stems[-1]
        if len(inside) == n_terms:  # no term occurs twice
            assert row["answer"].endswith(terms[-1])
        assert tag_posq(start, end, len(text)) == row["target_position"]
        assert tag_myopic(start, end, len(text)) == (row["target_position"],)
        outside = tokenise(text[:start]).stems + tokenise(text[end:]).stems
        assert not wanted & set(outside)
        own = row["pos_corpus_id"]
        assert wanted <= distinct[own]
        width = len(stems[own])
        for other, found in stems.items():  # nowhere else as close together
            if other != own and wanted <= distinct[other]:
                stretches = range(max(1, len(found) - width + 1))
                assert not any(wanted <= set(found[at : at + width]) for at in stretches)
    per_document = Counter(queries.select("pos_corpus_id", "target_position").iter_rows())
    assert all(
        per_document[doc_id, position] == queries_per_third
        for doc_id in queries["pos_corpus_id"].unique()
        for position in POSITIONS
    )
    assert len(queries) + len(dropped) == 3 * queries_per_third * len(docs)
    ids = [*queries["_id"], *dropped["item_id"]]
    assert len(set(ids)) == len(ids)
    assert set(dropped["unit"]) <= {"queries"}
    for item_id, doc_id, position in dropped.select(
        "item_id", "doc_id", "target_position"
    ).iter_rows():
        assert item_id.startswith(f"{doc_id}-{position}-")


@pytest.mark.usefixtures("of_two")
def test_every_third_of_a_small_corpus_has_its_query():
    docs = documents(FRUIT, TREES)
    queries, dropped = simulate_known_items(docs, seed=0, **SMALL)
    assert queries["_id"].to_list() == [
        f"d{i}-{position}-1" for i in range(2) for position in POSITIONS
    ]
    check_invariants(docs, queries, dropped, n_terms=2)
    assert dropped.is_empty()
    # each word is in one of the two documents: idf = ln 2 for both terms
    assert queries["idf_sum"].to_list() == pytest.approx([2 * np.log(2)] * 6)
    assert set(queries["text"][0].split()) < set(FRUIT.split()[:5])


@pytest.fixture(scope="module")
def interpreter_docs():
    return read_python_docs(seed=0).documents


@pytest.fixture(scope="module")
def simulated(interpreter_docs):
    return simulate_known_items(interpreter_docs, seed=0)


def test_all_invariants_hold_on_pythons_documentation(interpreter_docs, simulated):
    queries, dropped = simulated
    check_invariants(interpreter_docs, queries, dropped, n_terms=5)
    assert len(queries) > 1200
    assert dict(dropped.schema) == DROPPED_SCHEMA
    reasons = {"unmatched", "unbalanced", "no_unambiguous_span", "answerable_elsewhere"}
    assert set(dropped["reason"]) <= {*reasons, "text_too_short"}
    # Difficulty is matched over the thirds.
    measured = queries.with_columns(length=pl.col("answer").str.len_chars().log())
    wide = measured.pivot("target_position", index="pos_corpus_id", values=["idf_sum", "length"])
    for name, unit in (("idf_sum", 1.0), ("length", 0.25)):
        columns = [f"{name}_{position}" for position in POSITIONS]
        spread = wide.select(pl.max_horizontal(columns) - pl.min_horizontal(columns)).to_series()
        assert spread.max() <= 2.0 * unit + 1e-9
        means = wide.select(columns).mean().row(0)
        assert max(means) - min(means) < 0.15 * unit


def test_queries_of_a_third_differ_and_depend_on_the_seed(interpreter_docs, monkeypatch):
    monkeypatch.setattr(known_item, "MIN_DOCUMENTS", 1)
    docs = interpreter_docs.head(40)
    settings = {"n_terms": 3, "queries_per_third": 3}
    queries, dropped = simulate_known_items(docs, seed=0, **settings)
    check_invariants(docs, queries, dropped, n_terms=3, queries_per_third=3)
    assert queries.select("pos_corpus_id", "text").is_unique().all()
    assert len(queries) > 100
    again, others = (simulate_known_items(docs, seed=seed, **settings)[0] for seed in (0, 1))
    assert again.equals(queries)
    assert not others.equals(queries)


REPEATED = "apple banana cherry and the apple banana cherry were with apple banana cherry"


@pytest.mark.parametrize(
    ("texts", "reasons"),
    [
        (("", FRUIT), ["text_too_short"] * 3),
        ((REPEATED, FRUIT), ["no_unambiguous_span"] * 3),
        # the first document is contained in the second
        ((FRUIT, f"{FRUIT} {TREES}", TREES), ["answerable_elsewhere"] * 3),
        ((FRUIT, FRUIT, TREES), ["answerable_elsewhere"] * 3),
        (("👩\u200d🌾 🍎 🍐 🍊", FRUIT), ["text_too_short"] * 3),  # symbols are not words
        # only the first third has no unique word
        (
            (FRUIT.replace("apple banana cherry", "grape honey imbe "), TREES),
            ["no_unambiguous_span", "unbalanced", "no_unambiguous_span"],
        ),
    ],
)
@pytest.mark.usefixtures("of_two")
def test_documents_without_a_query_are_dropped_with_the_reason(texts, reasons):
    queries, dropped = simulate_known_items(documents(*texts), seed=0, **SMALL)
    of_first = dropped.filter(pl.col("item_id").str.starts_with("d0-"))
    assert of_first["reason"].to_list() == reasons
    assert of_first["target_position"].to_list() == list(POSITIONS)
    assert of_first["char_length"].to_list() == [len(texts[0])] * 3
    assert len(queries) + len(dropped) == 3 * len(texts)


@pytest.mark.usefixtures("of_two")
def test_unlike_thirds_are_dropped_as_unmatched(monkeypatch):
    monkeypatch.setattr(known_item, "MAX_SPREAD", 2.0)
    # two words per third of 60 characters; the spans have 12, 48 and 10 characters
    thirds = ("apple banana", f"cherry{'.' * 36}damson", ".elder figs")
    docs = documents("".join(third.ljust(60, ".") for third in thirds))
    other = documents(TREES).with_columns(_id=pl.lit("other"))
    _, dropped = simulate_known_items(pl.concat([docs, other]), seed=0, **SMALL)
    dropped = dropped.filter(pl.col("item_id").str.starts_with("d0-"))
    assert dropped["reason"].to_list() == ["unmatched"] * 3
    # ln(48 / 10) in units of 0.25
    assert dropped["score"].to_list() == pytest.approx([np.log(4.8) / 0.25] * 3)


def test_windows_stay_inside_their_range():
    # Words 10 to 15; terms are words 10, 12 and 15. Windows of four words begin at 10, 11 and 12
    # and hold words 10 and 12, 12, and 12 and 15; one from 13 on would end behind the range.
    at = np.array([10, 12, 15])
    terms = known_item._Terms(["a", "b", "c"], at, at, np.ones(3), np.ones(3))
    found = [known_item._windows_with(terms, n, range(10, 16), 4).tolist() for n in (1, 2, 3)]
    assert found == [[10, 11, 12], [10, 12], []]


def draw(idf, chars=100, frequency=5):
    return Draw(f"{idf}", 0, chars, idf, frequency)


def test_the_closest_draws_are_matched_and_used_once():
    thirds = [[draw(1.0), draw(5.0)], [draw(9.0), draw(5.5)], [draw(5.2), draw(2.0)]]
    (first, near), (second, far) = match_thirds(thirds, 2)
    assert [d.idf_sum for d in first] == [5.0, 5.5, 5.2]
    assert near == pytest.approx(0.5)
    assert [d.idf_sum for d in second] == [1.0, 9.0, 2.0]
    assert far == pytest.approx(8.0)


@pytest.mark.usefixtures("of_two")
def test_a_longer_document_may_answer_a_query():
    filler = " ".join(["filler"] * 50)
    docs = documents(FRUIT, f"{filler} {FRUIT} {filler}", TREES)
    _, dropped = simulate_known_items(docs, seed=0, **SMALL)
    assert dropped.filter(doc_id="d0").select("reason", "detail").unique().rows() == [
        ("answerable_elsewhere", "d1")
    ]
    apart = FRUIT.replace(" ", f" {filler} ")
    queries, _ = simulate_known_items(documents(FRUIT, apart, TREES), seed=0, **SMALL)
    assert "d0" in queries["pos_corpus_id"].to_list()


def section(folder, **changes):
    source = {"kind": "files", "paths": [str(folder)]}
    return parse_benchmark({"recipe": "known_item", "source": source} | changes)


def test_a_corpus_without_queries_is_refused_with_reasons(tmp_path):
    (tmp_path / "one.txt").write_text("far too short to ask about")
    with pytest.raises(InputError) as raised:
        section(tmp_path).build(count_whitespace_tokens)
    message = str(raised.value)
    assert "no known-item query from 1 documents" in message
    assert "text_too_short 3" in message  # one planned query per third
    assert "Change passages, n_terms or queries_per_third" in message


def test_a_local_dataset_folder_is_tracked_by_file(tmp_path):
    (tmp_path / "train.jsonl").write_text('{"text": "a"}\n')
    source = {"kind": "hub", "name": str(tmp_path)}
    assert section(tmp_path, source=source).files() == [str(tmp_path / "train.jsonl")]
    assert section(tmp_path, source=source | {"name": "owner/name"}).files() == []


def test_badges_and_code_are_no_evidence_and_stay_in_texts(of_two):
    badge = "[![coverage status](https://shields.example/zanzibar)](https://runs.example/builds)"
    first = f"{badge} apple banana cherry grape lime orange mandarin apricot"
    code = "```python\nzirconium quartz osmium gallium\n```"
    middle = (
        f"honey imbe jujube kiwi\n\n{code}\n\nlemon mango olive currant medlar satsuma tangerine"
    )
    last = "papaya quince raisin tomato and walnut, yam, damson, elder, figs, pear, pomelo, avocado"
    docs = documents(f"{first}\n\n{middle}\n\n{last}", TREES)

    def words_of(docs):
        queries, _ = simulate_known_items(docs, seed=0, n_terms=2, queries_per_third=2)
        assert queries.height >= 6
        return queries, {word for text in queries["text"] for word in text.split()}

    queries, words = words_of(docs)
    of_badge = {"coverage", "status", "shields", "zanzibar", "runs", "builds"}
    of_code = {"zirconium", "quartz", "osmium", "gallium", "python"}
    assert not words & (of_badge | of_code)
    assert not any("quartz" in answer for answer in queries["answer"])
    (row,) = queries.filter(pl.col("pos_corpus_id") == "d0").head(1).rows(named=True)
    assert docs["text"][0][slice(*row["pos_char_span"])] == row["answer"]
    marks = str.maketrans("", "", "`[]()!")
    _, words = words_of(documents(docs["text"][0].translate(marks), TREES))
    assert words & of_badge
    assert words & of_code


def test_every_nth_document_has_the_queries_of_the_whole_corpus(interpreter_docs):
    docs = interpreter_docs.head(60)
    queries, dropped = simulate_known_items(docs, seed=0)
    some, lost = simulate_known_items(docs, seed=0, every=3)
    kept = docs["_id"].gather_every(3).implode()
    assert some.equals(queries.filter(pl.col("pos_corpus_id").is_in(kept)))
    assert lost.equals(dropped.filter(pl.col("doc_id").is_in(kept)))
