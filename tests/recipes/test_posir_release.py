"""A release as a benchmark keeps published spans and lengths and drops unusable queries."""

import logging

import polars as pl
import pytest
from built_benchmark import write_release

from psibench.config.sources import PosirReleaseSource
from psibench.errors import InputError
from psibench.formats.posir import count_dataset
from psibench.generate.loaders import NothingLeftError
from psibench.generate.loaders.posir_release import PosirRelease
from psibench.text.lengths import count_whitespace_tokens

TEXTS = {"d1": "chess has kings", "d2": "go has stones", "d3": "نرد"}
# id, text, span, characters and tokens of the positive (as published)
ASKED = [("q1", "who has kings?", [10, 15], 15, 400), ("q2", "who has stones?", [7, 13], 13, 900)]
JUDGED = [("q1", "d1", 1), ("q2", "d2", 1)]


def build(tmp_path, *, texts=TEXTS, asked=ASKED, judged=JUDGED, prefix_ids=False, further=None):
    """Write a release of one dataset, with additional columns of queries, and build it."""
    write_release(
        tmp_path / "eng-Latn" / "game",
        corpus=pl.DataFrame(list(texts.items()), schema=["_id", "text"], orient="row"),
        queries=pl.DataFrame(
            asked,
            schema=["_id", "text", "pos_char_span", "pos_char_length", "pos_token_length"],
            orient="row",
        ).with_columns(pl.Series(name, values) for name, values in (further or {}).items()),
        qrels=pl.DataFrame(judged, schema=["query-id", "corpus-id", "score"], orient="row"),
    )
    section = PosirRelease(
        recipe="posir_release",
        source=PosirReleaseSource(path=str(tmp_path)),
        language="eng-Latn",
        domain="game",
        prefix_ids=prefix_ids,
    )
    return section.build(count_whitespace_tokens)


def dropped(built):
    return built.dropped.select("item_id", "doc_id", "reason", "detail").rows()


def test_published_spans_and_lengths_are_kept(tmp_path):
    built = build(tmp_path)
    assert built.queries.rows() == [
        ("q1", "who has kings?", "d1", [10, 15], 15, 400, None),
        ("q2", "who has stones?", "d2", [7, 13], 13, 900, None),
    ]
    # Tokens of the corpus are counted: three words, and one.
    assert built.corpus.rows() == [
        ("d1", "chess has kings", 15, 3, 3),
        ("d2", "go has stones", 13, 3, 3),
        ("d3", "نرد", 3, 1, 1),
    ]
    assert built.qrels.rows() == JUDGED
    assert dropped(built) == []


def test_a_translation_has_the_original_span_and_its_length(tmp_path):
    # d3 has 3 characters; its original has 40.
    built = build(
        tmp_path,
        asked=[("q3", "?", [10, 30], 40, 9), ASKED[0]],
        judged=[("q3", "d3", 1), ("q1", "d1", 1)],
    )
    columns = ["_id", "pos_char_span", "pos_char_length", "pos_translated_char_length"]
    assert built.queries.select(columns).rows() == [
        ("q3", [10, 30], 40, 3),
        ("q1", [10, 15], 15, 15),
    ]
    assert built.queries["pos_char_length"].dtype == pl.Int32


@pytest.mark.parametrize(
    ("query", "judged", "row"),
    [
        (ASKED[1], [], ("q2", None, "no_positive", None)),
        (ASKED[1], [("q2", "d2", 0)], ("q2", None, "no_positive", None)),
        (ASKED[1], [("q2", "gone", 1)], ("q2", None, "positive_missing", None)),
        *(
            (("q2", "?", span, 13, 9), JUDGED[1:], ("q2", "d2", "span_outside", f"span {span}"))
            for span in ([-1, 4], [4, 4], [13, 15])
        ),
    ],
)
def test_queries_that_cannot_be_used_are_dropped_with_the_reason(tmp_path, query, judged, row):
    built = build(tmp_path, asked=[ASKED[0], query], judged=[JUDGED[0], *judged])
    assert dropped(built) == [row]
    assert built.queries["_id"].to_list() == ["q1"]
    assert built.qrels.rows() == [JUDGED[0]]


def test_missing_relevant_documents_stay_in_the_qrels(tmp_path):
    more = [("q1", "gone", 2), ("q1", "away", 0), ("q1", "d3", 0)]
    built = build(tmp_path, judged=[*JUDGED, *more])
    assert built.queries["pos_corpus_id"].to_list() == ["d1", "d2"]
    assert built.qrels.rows() == [*JUDGED, ("q1", "gone", 2), ("q1", "d3", 0)]


def test_a_span_that_ends_beyond_its_document_is_kept(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        built = build(tmp_path, asked=[ASKED[0], ("q2", "?", [7, 20], 13, 9)])
    assert built.queries["pos_char_span"].to_list() == [[10, 15], [7, 20]]
    assert "1 spans end beyond their document" in caplog.text


def test_the_best_grade_then_the_length_decides_the_positive(tmp_path):
    same = {**TEXTS, "d4": "as long as it.."}  # 15 characters, like d1
    one = [ASKED[0]]
    graded = build(tmp_path / "1", asked=one, judged=[("q1", "d1", 1), ("q1", "d2", 2)])
    assert graded.queries["pos_corpus_id"].to_list() == ["d2"]
    by_length = build(tmp_path / "2", asked=one, judged=[("q1", "d2", 1), ("q1", "d1", 1)])
    assert by_length.queries["pos_corpus_id"].to_list() == ["d1"]
    first = build(tmp_path / "3", texts=same, asked=one, judged=[("q1", "d4", 1), ("q1", "d1", 1)])
    assert first.queries["pos_corpus_id"].to_list() == ["d4"]
    assert first.qrels.height == 2


def test_a_release_without_usable_queries_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"game: no query is left of 2; dropped: no_positive 2"):
        build(tmp_path, judged=[("q9", "d1", 1)])


def test_further_columns_are_used_unless_null(tmp_path):
    judged = [("q1", "d2", 2), *JUDGED]
    further = {
        "target_position": ["end", None],
        "pos_corpus_id": ["d1", None],
        "pos_translated_char_length": [15, None],
    }
    built = build(tmp_path, judged=judged, further=further, prefix_ids=True)
    columns = ("pos_corpus_id", "target_position", "pos_translated_char_length")
    assert built.queries.select(columns).rows() == [("game/d1", "end", 15), ("game/d2", None, 13)]


NO_SPANS = [(name, text, None, *rest) for name, text, _, *rest in ASKED]


@pytest.mark.parametrize(
    ("asked", "further", "message"),
    [
        (ASKED, {"pos_corpus_id": ["d3", "d2"]}, "query 'q1' has pos_corpus_id 'd3', which is not"),
        (ASKED, {"pos_translated_char_length": [15, 14]}, "'q2' has pos_translated_char_length 14"),
        (ASKED, {"target_position": ["end", "last"]}, "'q2' has the target_position 'last'; allow"),
        (ASKED, {"target_position": [1, 2]}, "column target_position is Int64; expected text"),
        # neither one span, nor a class, nor several spans
        (NO_SPANS, {"target_position": ["end", None]}, "pos_char_span is null in 1 of 2 rows"),
        (
            NO_SPANS,
            {"pos_char_spans": [[[0, 2]], [[5, 9], [7, 13]]]},
            "'q2' has the pos_char_spans",
        ),
        (NO_SPANS, {"pos_char_spans": [[[0, 2]], [[5, 99]]]}, "query 'q2' has the pos_char_spans"),
        (
            NO_SPANS,
            {"target_position": ["mixed", "mixed"], "positions": [["end"], ["last"]]},
            r"query 'q2' has the positions \['last'\]",
        ),
    ],
)
def test_contradictory_further_columns_are_refused(tmp_path, asked, further, message):
    with pytest.raises(InputError, match=message):
        build(tmp_path, asked=asked, further=further)


@pytest.fixture
def places(tmp_path):
    """Write the files of three datasets; return the section that reads some folders."""
    for name in ("deu-Latn/game", "eng-Latn/game", "eng-Latn/law"):
        for table in ("corpus", "queries", "qrels"):
            (tmp_path / name / table).mkdir(parents=True)
            (tmp_path / name / table / "test.parquet").touch()
    source = PosirReleaseSource(path=str(tmp_path))
    return lambda **chosen: PosirRelease(recipe="posir_release", source=source, **chosen)


@pytest.mark.parametrize(
    ("chosen", "read"),
    [
        ({}, [("deu-Latn", "game"), ("eng-Latn", "game"), ("eng-Latn", "law")]),
        ({"languages": ["eng-Latn"]}, [("eng-Latn", "game"), ("eng-Latn", "law")]),
        ({"domains": ["law"]}, [("eng-Latn", "law")]),
        # In the order of the config; German has no law.
        (
            {"languages": ["eng-Latn", "deu-Latn"], "domains": ["law", "game"]},
            [("eng-Latn", "law"), ("eng-Latn", "game"), ("deu-Latn", "game")],
        ),
        # Required folders, and folders named by language, are listed even if missing.
        (
            {"languages": ["deu-Latn"], "domains": ["law"], "on_empty": "fail"},
            [("deu-Latn", "law")],
        ),
        ({"domains": {"deu-Latn": ["law"]}}, [("deu-Latn", "law")]),
        (
            {"domains": {"eng-Latn": ["game"], "deu-Latn": ["game"]}, "languages": ["deu-Latn"]},
            [("deu-Latn", "game")],
        ),
    ],
)
def test_folders_of_a_release_are_read_unless_left_out(places, chosen, read):
    assert places(**chosen).languages_and_domains() == read


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"domains": ["sea"]}, "no domains sea in the release; it has game, law"),
        (
            {"domains": ["sea", "game"], "languages": ["eng-Latn"]},
            "no domains sea in the release; it has game",
        ),
        (
            {"domains": ["game"], "languages": ["fra-Latn", "eng-Latn"]},
            "no languages fra-Latn in the release; it has eng-Latn",
        ),
    ],
)
def test_a_folder_that_a_release_lacks_is_refused(places, chosen, message):
    with pytest.raises(InputError, match=message):
        places(**chosen).languages_and_domains()


def test_a_folder_with_only_documents_has_no_queries(tmp_path):
    corpus = pl.DataFrame({"_id": ["d1"], "text": ["go has stones"]})
    write_release(tmp_path / "eng-Latn" / "game", corpus=corpus)
    section = PosirRelease(
        recipe="posir_release",
        source=PosirReleaseSource(path=str(tmp_path)),
        language="eng-Latn",
        domain="game",
    )
    assert section.languages_and_domains() == [("eng-Latn", "game")]
    with pytest.raises(NothingLeftError, match="no query is left of 0; documents: 1") as told:
        section.build(count_whitespace_tokens)
    built = told.value.build
    assert (built.corpus.height, built.queries.height, built.qrels.height) == (1, 0, 0)
    counts = count_dataset(str(tmp_path), language="eng-Latn", domain="game")
    assert (counts.documents, counts.queries, counts.answerable) == (1, 0, 0)
