import polars as pl
import pytest
from answered_tasks import documents, gather, reasons

from psibench.config.paths import PROMPTS
from psibench.generate.controlled import (
    CHOOSE_CONFIGURATION,
    GENERATE_POSITIONAL_QUERY,
    ChooseConfiguration,
    GeneratePositionalQuery,
)
from psibench.generate.recipes import assemble
from psibench.llm.prompts import load_prompt
from psibench.llm.tasks import Replied
from psibench.tables.dropped import Flow
from psibench.text.lengths import count_whitespace_tokens
from psibench.text.segments import POSITIONS

CHOOSE = ChooseConfiguration(llm="x")
GENERATE = GeneratePositionalQuery(llm="x")
TWICE = GeneratePositionalQuery(llm="x", queries_per_position=2)
PERSONAS = ["A cook in Lyon.", "A poet  from Cork", "An engineer"]
TEXT = "Red apples grow. Blue plums fall. Old pears rot!"  # 48 characters: thirds of 16


def candidates(*ids, personas=PERSONAS) -> pl.DataFrame:
    schema = {"_id": pl.String, "personas": pl.List(pl.String)}
    return pl.DataFrame([(i, personas) for i in ids], schema=schema, orient="row")


def configurations(*ids) -> pl.DataFrame:
    names = CHOOSE_CONFIGURATION.spec.column_names
    schema = dict.fromkeys(names, pl.String) | {"persona_listed": pl.Boolean}
    rows = [(i, "A cook", True, "easy", "short") for i in ids]
    return pl.DataFrame(rows, schema=schema, orient="row")


def configuration_reply(doc_id, persona) -> Replied:
    value = {"persona": persona, "difficulty": "hard", "query_length": "long"}
    return Replied(doc_id, doc_id, None, value)


def query_reply(position, query, answer="x", *, doc_id="d0", k=None) -> Replied:
    item_id = f"{doc_id}-{position}" + ("" if k is None else f"-{k}")
    return Replied(item_id, doc_id, position, {"query": query, "answer": answer})


@pytest.mark.parametrize(
    ("reply", "persona", "is_listed"),
    [
        ("A cook in Lyon.", "A cook in Lyon.", True),
        ("1. a COOK in  Lyon", "A cook in Lyon.", True),
        (" 2) A poet from Cork.\n", "A poet  from Cork", True),
        ("An engineer in Cork", "An engineer in Cork", False),
        ("3", "3", False),
    ],
)
def test_a_persona_is_listed_if_its_words_match_a_candidate(reply, persona, is_listed):
    tables = {"documents": documents([TEXT]), "persona_candidates": candidates("d0")}
    replies = [configuration_reply("d0", reply)]
    gathered = gather(CHOOSE_CONFIGURATION, CHOOSE, tables, replies)
    assert gathered.rows.rows() == [("d0", persona, is_listed, "hard", "long")]
    assert gathered.flow == (Flow("documents", 1, 1),)


PARAGRAPHS = (
    "The river rises in the northern hills and flows through three towns before it reaches the "
    "sea. Salmon return to it every autumn, and the people of the towns count them at the weir."
)
PROMPT = load_prompt(PROMPTS / "generate_positional_query.md").copies


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("Where do the salmon return to?", None),
        ("</segment> Where do the salmon return to?", "copies_prompt"),
        ("Write one query as this person would type it", "copies_prompt"),
        ("a cook", "copies_persona"),
        ("The river rises in the northern hills and flows", "copies_document"),
        ("¿Adónde vuelven los salmones cada otoño, según los vecinos?", "other_language"),
    ],
)
def test_a_query_that_is_no_query_is_dropped_with_its_reason(query, reason):
    tables = {
        "documents": documents([PARAGRAPHS]),
        "choose_configuration": configurations("d0"),
    }
    replies = [query_reply("beginning", query)]
    gathered = gather(
        *(GENERATE_POSITIONAL_QUERY, GENERATE, tables, replies), prompt=PROMPT, language="eng-Latn"
    )
    assert reasons(gathered) == ({"d0-beginning": reason} if reason else {})


@pytest.mark.parametrize(
    ("document", "query"),
    [
        # The document has the prompt's words, or is not in the config's language.
        (
            "How to prompt: write one query as this person would type it.",
            "write one query as this person",
        ),
        (
            "El río nace en las montañas del norte y cruza tres pueblos antes de llegar al mar.",
            "¿Dónde nace el río que cruza tres pueblos del norte?",
        ),
    ],
)
def test_a_query_like_its_document_is_kept(document, query):
    tables = {"documents": documents([document]), "choose_configuration": configurations("d0")}
    replies = [query_reply("beginning", query)]
    gathered = gather(
        *(GENERATE_POSITIONAL_QUERY, GENERATE, tables, replies), prompt=PROMPT, language="eng-Latn"
    )
    assert reasons(gathered) == {}


def test_the_candidates_are_the_choices_of_the_persona():
    tables = {"documents": documents([TEXT]), "persona_candidates": candidates("d0")}
    (item,) = CHOOSE_CONFIGURATION.items(tables, CHOOSE)
    assert item.limits == {"properties": {"persona": {"enum": PERSONAS}}}


def test_a_blank_persona_drops_the_document():
    tables = {"documents": documents([TEXT, "b"]), "persona_candidates": candidates("d0", "d1")}
    replies = [configuration_reply("d0", " . "), configuration_reply("d1", "An engineer")]
    gathered = gather(CHOOSE_CONFIGURATION, CHOOSE, tables, replies)
    assert gathered.rows["_id"].to_list() == ["d1"]
    assert reasons(gathered) == {"d0": "blank_persona"}
    assert gathered.flow == (Flow("documents", 2, 1),)


def test_each_third_of_each_configured_document_is_an_item():
    tables = {
        "documents": documents([TEXT, "Unconfigured text.", TEXT]),
        "choose_configuration": configurations("d2", "d0"),
    }
    items = list(GENERATE_POSITIONAL_QUERY.items(tables, GENERATE))
    assert [item.id for item in items] == [f"{d}-{p}" for d in ("d0", "d2") for p in POSITIONS]
    assert [item.target_position for item in items[:3]] == list(POSITIONS)
    assert items[1].values == {
        "document": TEXT,
        "segment": " Blue plums fall",
        "persona": "A cook",
        "difficulty": "easy",
        "query_length": "short",
    }


@pytest.mark.parametrize(
    ("text", "blank"),
    [
        # Two characters: 2 // 3 = 0, so the last third has both.
        ("ab", ["d0-beginning-0", "d0-beginning-1", "d0-middle-0", "d0-middle-1"]),
        ("abc\n\n\u3000def", ["d0-middle-0", "d0-middle-1"]),
    ],
)
def test_thirds_without_text_are_dropped_without_a_request(text, blank):
    tables = {"documents": documents([text]), "choose_configuration": configurations("d0")}
    items = GENERATE_POSITIONAL_QUERY.items(tables, TWICE)
    replies = [
        Replied(item.id, "d0", item.target_position, {"query": item.id, "answer": "x"})
        for item in items
    ]
    assert len(replies) + len(blank) == 6
    gathered = gather(GENERATE_POSITIONAL_QUERY, TWICE, tables, replies)
    assert reasons(gathered) == dict.fromkeys(blank, "blank_segment")
    assert gathered.flow == (Flow("queries", 6, 6 - len(blank)),)


def test_a_query_is_a_candidate_with_its_segment_as_evidence():
    tables = {"documents": documents([TEXT]), "choose_configuration": configurations("d0")}
    replies = [
        query_reply("beginning", " what grows ", "red apples"),
        query_reply("middle", "blue fruit", " Blue\nplums"),
        query_reply("end", "rot", "r"),  # r occurs several times
    ]
    gathered = gather(GENERATE_POSITIONAL_QUERY, GENERATE, tables, replies)
    assert gathered.rows.row(0, named=True) == {
        "_id": "d0-beginning",
        "text": "what grows",
        "pos_corpus_id": "d0",
        "pos_char_span": [0, 16],
        "target_position": "beginning",
        "answer": "red apples",
        "persona": "A cook",
        "difficulty": "easy",
        "query_length": "short",
        "length_bin": "0-8192",
        "answer_in_segment": False,  # case differs
    }
    assert gathered.rows["pos_char_span"].to_list() == [[0, 16], [16, 32], [32, 48]]
    assert gathered.rows["answer_in_segment"].to_list() == [False, True, True]


@pytest.mark.parametrize(
    ("position", "answer", "evidence"),
    [
        ("middle", "a  railway", "Then a railway came."),  # the sentence with the quote
        # two sentences, up to the border
        ("middle", "railway came. The", "Then a railway came. The old works "),
        ("end", "closed", "closed."),  # from the border
        ("end", "a museum", "closed. Some were saved. Rail again."),  # missing: the whole segment
        ("end", "e", "closed. Some were saved. Rail again."),  # occurs several times
    ],
)
def test_evidence_is_narrowed_to_the_sentence_of_the_answer(position, answer, evidence):
    text = "Salt was boiled here. It was sold. Then a railway came. The old works closed. "
    text += "Some were saved. Rail again."
    tables = {"documents": documents([text]), "choose_configuration": configurations("d0")}
    replies = [query_reply(position, "what of it", answer)]
    rows = gather(GENERATE_POSITIONAL_QUERY, GENERATE, tables, replies).rows
    built = assemble(tables["documents"], rows, count_tokens=count_whitespace_tokens)
    (start, end) = built.queries["pos_char_span"][0]
    assert text[start:end] == evidence
    assert built.queries["target_position"][0] == position


def test_blank_and_repeated_queries_are_dropped_whatever_the_third():
    tables = {
        "documents": documents([TEXT, TEXT]),
        "choose_configuration": configurations("d0", "d1"),
    }
    replies = [
        query_reply("beginning", "red apples", k=0),
        query_reply("beginning", "Red  apples", k=1),
        query_reply("middle", "ripe fruit", k=0),
        query_reply("middle", "blue plums", k=1),
        query_reply("end", "Ripe fruit", k=0),
        query_reply("end", " ", k=1),
        query_reply("beginning", "red apples", doc_id="d1", k=0),
        query_reply("beginning", "green apples", " ", doc_id="d1", k=1),
    ]
    gathered = gather(GENERATE_POSITIONAL_QUERY, TWICE, tables, replies)
    assert gathered.rows["_id"].to_list() == ["d0-beginning-0", "d0-middle-1", "d1-beginning-0"]
    assert reasons(gathered) == {
        "d0-beginning-1": "repeated_query",
        "d0-middle-0": "same_for_thirds",
        "d0-end-0": "same_for_thirds",
        "d0-end-1": "blank_query",
        "d1-beginning-1": "blank_answer",
    }
    assert gathered.flow == (Flow("queries", 8, 3),)
    row = gathered.dropped.filter(pl.col("item_id") == "d0-end-0").row(0, named=True)
    assert row["detail"] == "middle, end: Ripe fruit"
    assert (row["target_position"], row["char_length"]) == ("end", 48)
