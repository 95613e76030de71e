import hashlib
import json
import random
from pathlib import Path

import pytest

from psibench.llm.prompts import load_prompt
from psibench.llm.replies import parse_reply
from psibench.llm.standin.completion import complete
from psibench.llm.standin.rules import HANDLERS, Task, count_tokens, sentences, tagged
from psibench.text.segments import split_equal

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


def reply(task: str, **changes):
    prompt = load_prompt(FOLDER / f"{task}.md")
    values = VALUES | changes
    messages = prompt.render({name: values[name] for name in prompt.variables})
    schema = {"name": task, "schema": prompt.response.schema}
    body = {
        "model": "stand-in/rules",
        "messages": [{"role": m.role, "content": m.content} for m in messages],
        "response_format": {"type": "json_schema", "json_schema": schema},
    }
    data = complete(body, random.Random(0))
    return parse_reply(data["choices"][0]["message"]["content"], prompt.response.schema)


DIGESTS = {
    "summarise": "dcff94560509",
    "generate_questions": "becb02e66054",
    "propose_questions": "b12568acac0c",
    "locate_span": "293f50fdf4f2",
    "choose_configuration": "bfc5317a7f6c",
    "generate_positional_query": "c20d7657beae",
    "grade_relevance": "8700c041cd1b",
    "judge_segment": "09182e3b98da",
    "translate": "5b14313e4792",
    "judge_refusal": "bfed23100c46",
    "judge_translation": "4a5a9965cd3e",
}


@pytest.mark.parametrize("task", HANDLERS)
def test_replies_fit_their_schemas_and_do_not_change(task):
    """Another reply would change every table of the embedded default."""
    given = json.dumps(reply(task), sort_keys=True)
    assert hashlib.sha256(given.encode()).hexdigest()[:12] == DIGESTS[task]


def test_every_fourth_question_is_simple():
    found = reply("generate_questions", chunk=DOCUMENT, n_questions=8)["questions"]
    assert [question["type"] for question in found] == ([*["complicated"] * 3, "simple"] * 2)


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
    chinese = "他来了。她走了！再见"
    assert [chinese[a:b] for a, b in sentences(chinese)] == ["他来了。", "她走了！", "再见"]
    assert count_tokens("It's 3.5 %!") == 8  # It ' s 3 . 5 % !


# Documents that have little evidence

# Only the last of the three sentences is entirely inside a third (37 of 111 characters each).
UNEVEN = (
    "Copper miners dug deep shafts below northern valleys and hills. "
    "Rain flooded galleries. Farmers sold barley."
)


def propose(position, document):
    found = reply("propose_questions", position=position, document=document)["questions"]
    return [question["answer"] for question in found]


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
def test_third_without_a_whole_sentence_uses_sentences_centred_there(position, expected):
    assert propose(position, UNEVEN) == expected


def test_short_sentences_are_avoided_in_a_third():
    # The first third ends at 35, inside the second sentence, whose middle is at 28.
    document = (
        "Rain fell. Copper miners dug deep iron shafts. "
        "Farmers along northern rivers sold barley to travelling merchants."
    )
    assert propose("beginning", document) == ["Copper miners dug deep iron shafts."]


@pytest.mark.parametrize("document", ["Rain fell. Barley was sold.", ""])
def test_nothing_is_quoted_without_shared_words(document):
    asked = {"question": "Who dug copper shafts?", "answer": "the miners"}
    assert reply("locate_span", document=document, **asked) == {"quote": ""}
