import hashlib
import json
import random
from pathlib import Path

import pytest

from psibench.llm.prompts import load_prompt
from psibench.llm.replies import parse_reply
from psibench.llm.standin.completion import complete
from psibench.llm.standin.rules import (
    HANDLERS,
    Task,
    count_tokens,
    sentences,
    tagged,
)
from psibench.text.segments import POSITIONS, split_equal, tag_posq

FOLDER = Path(__file__).resolve().parents[3] / "config" / "prompts"
DOCUMENT = (
    "The harbour of Vardo was built in the seventeenth century by Dutch merchants. "
    "Its stone pier protected fishing boats against northern storms. "
    "Salted cod left the harbour for markets in Spain and Portugal.\n\n"
    "A fire destroyed the wooden warehouses during the summer of 1843. "
    "Insurance companies in Hamburg paid for brick buildings afterwards. "
    "The new warehouses stored whale oil, timber and grain.\n\n"
    "Steamships needed deeper water than sailing vessels had required. "
    "Engineers therefore dredged the basin and lengthened its breakwater. "
    "Passenger ferries have connected the town with Bergen since 1894."
)
VALUES = {
    "document": DOCUMENT,
    "max_words": 40,
    "chunk": DOCUMENT.split("\n\n")[1],
    "summary": "About a harbour.",
    "n_questions": 2,
    "position": "middle",
    "question": "Who paid for the brick buildings?",
    "answer": "insurance companies in Hamburg",
    "personas": ["a cook", "an engineer who dredges a harbour basin", "a poet"],
    "segment": split_equal(DOCUMENT)[2],
    "persona": "an engineer",
    "difficulty": "easy",
    "query_length": "medium",
    "query": "brick warehouses Hamburg insurance",
    "passage": DOCUMENT,
    "text": DOCUMENT,
    "kind": "passage",
    "source_language": "English",
    "target_language": "pseudo-locale (Latin)",
    "evidence": DOCUMENT.split("\n\n")[1],
    "source": DOCUMENT,
    "translation": DOCUMENT,
}


def reply(task: str, *, is_wrong: bool = False, seed: int = 0, **changes):
    prompt = load_prompt(FOLDER / f"{task}.md")
    values = VALUES | changes
    messages = prompt.render({name: values[name] for name in prompt.variables})
    schema = {"name": task, "schema": prompt.response.schema}
    body = {
        "model": "stand-in/rules",
        "messages": [{"role": m.role, "content": m.content} for m in messages],
        "response_format": {"type": "json_schema", "json_schema": schema},
    }
    data = complete(body, random.Random(seed), is_wrong=is_wrong)
    return parse_reply(data["choices"][0]["message"]["content"], prompt.response.schema)


DIGESTS = {
    "summarise": "46f15d799897",
    "generate_questions": "bd6ec87f2d0e",
    "propose_questions": "f969b014086c",
    "locate_span": "90273f21f03e",
    "choose_configuration": "a33d8b6dc436",
    "generate_positional_query": "1282f231b8c0",
    "grade_relevance": "8ed2f4635575",
    "judge_segment": "7baefc0b1776",
    "translate": "89172dea7631",
    "judge_refusal": "f213d6c47e8b",
    "judge_translation": "6c257c28866b",
}


@pytest.mark.parametrize("task", HANDLERS)
def test_the_replies_fit_their_schemas_and_are_those_it_has_always_given(task):
    """Another reply would change every table of the embedded default."""
    given = json.dumps([reply(task), reply(task, is_wrong=True)], sort_keys=True)
    assert hashlib.sha256(given.encode()).hexdigest()[:12] == DIGESTS[task]


@pytest.mark.parametrize("position", ["beginning", "middle", "end"])
@pytest.mark.parametrize("seed", range(2))
def test_proposed_questions_lie_in_the_third_asked_for(position, seed):
    found = reply("propose_questions", position=position, seed=seed)["questions"]
    assert found
    for question in found:
        start = DOCUMENT.index(question["answer"])
        end = start + len(question["answer"])
        assert tag_posq(start, end, len(DOCUMENT)) == position


@pytest.mark.parametrize(
    ("query", "grade", "verdict"),
    [
        ("steamships needed deeper water", 4, "yes"),
        ("steamships deeper volcano opera", 2, "no"),
        ("volcano opera", 0, "no"),
        ("", 0, "no"),
    ],
)
def test_judgements_follow_the_words_shared(query, grade, verdict):
    segment = "Steamships needed deeper water than sailing vessels."
    assert reply("grade_relevance", query=query, passage=segment) == {"grade": grade}
    assert reply("judge_segment", query=query, segment=segment) == {"verdict": verdict}


@pytest.mark.parametrize("task", HANDLERS)
@pytest.mark.parametrize("document", ["", "Ein Wort", "一。二。", "\n\n \n"])
def test_odd_documents_break_no_rule(task, document):
    prompt = f"<document>{document}</document><chunk>{document}</chunk><segment></segment>"
    assert isinstance(HANDLERS[task](Task(prompt, random.Random(0))), dict)


def test_tags_sentences_and_tokens_are_read_exactly():
    assert tagged("a <x>\nb </x> c</x> d", "x") == "b </x> c"
    assert tagged("no tags", "x") == ""
    text = "One. Two! A heading\n\nThree (four)"
    assert [text[a:b] for a, b in sentences(text)] == ["One.", "Two!", "A heading", "Three (four)"]
    assert count_tokens("It's 3.5 %!") == 8  # It ' s 3 . 5 % !


# Documents that have little evidence

# Three sentences, of which only the last lies wholly inside a third (37 of 111 characters each).
UNEVEN = (
    "Copper miners dug deep shafts below northern valleys and hills. "
    "Rain flooded galleries. Farmers sold barley."
)
QUESTION = "<question>Who dug copper shafts?</question><answer>the miners</answer>"


def propose(position, document=UNEVEN, seed=0):
    prompt = (
        f"<document>{document}</document><position>{position}</position>"
        "<n_questions>2</n_questions>"
    )
    reply = HANDLERS["propose_questions"](Task(prompt, random.Random(seed)))
    return [question["answer"] for question in reply["questions"]]


def locate(document, *, is_wrong=False, seed=0):
    prompt = f"<document>{document}</document>{QUESTION}"
    return HANDLERS["locate_span"](Task(prompt, random.Random(seed), is_wrong))["quote"]


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        # No sentence is wholly in the first third: the one whose middle is there, at 31.5 of 108.
        ("beginning", ["Copper miners dug deep shafts below northern valleys and hills."]),
        ("middle", []),  # no middle of a sentence lies between 36 and 72
        # Too short to be asked about otherwise; middles at 75.5 and 98.
        ("end", ["Rain flooded galleries.", "Farmers sold barley."]),
    ],
)
def test_a_third_without_a_whole_sentence_gets_the_sentence_whose_middle_is_there(
    position, expected
):
    assert propose(position) == expected


def test_a_sentence_too_short_to_be_asked_about_is_not_where_another_s_middle_is_there():
    # The first third ends at 35, inside the second sentence, whose middle is at 28.
    document = (
        "Rain fell. Copper miners dug deep iron shafts. "
        "Farmers along northern rivers sold barley to travelling merchants."
    )
    assert propose("beginning", document) == ["Copper miners dug deep iron shafts."]


def test_chinese_sentences_are_asked_about(real_data):
    from psibench.sources.squad import read_squad_files

    contexts = read_squad_files([real_data / "xquad.zh.json"])["context"].unique().sort()
    answered = [bool(propose(position, text)) for text in contexts for position in POSITIONS]
    assert sum(answered) > 0.9 * len(answered)


def test_nothing_is_quoted_where_nothing_fits():
    assert locate("Rain fell. Barley was sold.") == ""
    assert locate("") == ""


@pytest.mark.parametrize("seed", range(2))
def test_an_erring_quote_is_another_sentence(seed):
    right, wrong = locate(UNEVEN), locate(UNEVEN, is_wrong=True, seed=seed)
    assert right.startswith("Copper miners")
    assert wrong in UNEVEN
    assert wrong != right
