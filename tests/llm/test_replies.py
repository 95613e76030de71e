import itertools
import json
import re

import pytest

from psibench.llm.replies import MalformedReplyError, has_thoughts, parse_reply

QUESTION = {
    "type": "object",
    "properties": {
        "question": {"type": "string", "minLength": 1},
        "kind": {"type": "string", "enum": ["simple", "complicated"]},
    },
    "required": ["question"],
}
QUESTIONS = {
    "type": "object",
    "properties": {"questions": {"type": "array", "items": QUESTION}},
    "required": ["questions"],
}
GRADE = {
    "type": "object",
    "properties": {"grade": {"type": "integer", "minimum": 0, "maximum": 4}},
    "required": ["grade"],
}
LIST = {"type": "object", "properties": {"a": {"type": "array"}}, "required": ["a"]}
ONE = {"questions": [{"question": "Why?"}]}


@pytest.mark.parametrize(
    "text",
    [
        '{"questions": [{"question": "Why?"}]}',
        'Sure:\n```\n{"questions": [{"question": "Why?"}]}\n```\nAnything else?',
        '```json\n{"questions": [{"question": "Why?"}]}',  # the fence never closes
        'Here you are: {"questions": [{"question": "Why?"}]} I hope {this} helps.',
        '{"questions": [{"question": "Why?",}],}',
        "{questions: [{question: 'Why?'}]}",
        '{"questions": [ // a comment\n{"question": "Why?"}]}',
        '[{"question": "Why?"}]',  # a list where an object holds the list
        '{"questions": {"items": [{"question": "Why?"}]}}',
        '{"Questions": [{"Question": "Why?", "unknown": 1}]}',
        '{"questions": [{"question": " Why? "}]}',
        '<think>Perhaps {"questions": []}?</think>{"questions": [{"question": "Why?"}]}',
    ],
)
def test_reply_with_one_question_is_parsed(text):
    assert parse_reply(text, QUESTIONS) == ONE


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no_json"),
        ("{'questions': [{'question': 'Why?'}, {'question': 'Wh", "no_json"),
        ("{'questions': [{'question': 'Why?'}], 'more': {'a", "no_json"),
        ('{"questions": [{"question": "Wh', "no_json"),
        ('{"answers": []}', "questions_is_missing"),
        ('{"questions": [{"question": ""}]}', "question_is_too_short"),
        ('{"questions": [{"question": ["a"]}]}', "question_is_not_a_text"),
        ('{"questions": [{"question": "a", "kind": "odd"}]}', "kind_is_not_an_allowed_value"),
        ('{"questions": ["a"]}', "questions_is_not_an_object"),
        ("[" * 100_000, "too_many_brackets"),
    ],
)
def test_a_reply_that_does_not_fit_gives_a_reason(text, reason):
    with pytest.raises(MalformedReplyError, match=f"^{reason}$"):
        parse_reply(text, QUESTIONS)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"grade": 5}', "grade_is_out_of_range"),
        ('{"grade": 2.5}', "grade_is_not_whole"),
        ('{"grade": true}', "grade_is_not_a_number"),
        ('{"grade": NaN}', "grade_is_not_a_number"),
        ('{"grade": 1e999}', "grade_is_not_a_number"),
        # A repair would drop words.
        ("{'grade': 3 or 4}", "no_json"),
    ],
)
def test_invalid_grade_is_refused(text, reason):
    with pytest.raises(MalformedReplyError, match=f"^{reason}$"):
        parse_reply(text, GRADE)


SUMMARY = {
    "type": "object",
    "properties": {"summary": {"type": "string", "minLength": 1}},
    "required": ["summary"],
}
VERDICT = {
    "type": "object",
    "properties": {"verdict": {"type": "string", "enum": ["yes", "no"]}},
    "required": ["verdict"],
}


@pytest.mark.parametrize(
    "text",
    [
        " 3.\n",
        "**3**",
        "3.0",
        '{"grade": 3}',
        "**Relevance grade:** 3",
        "分数：3",
        "```\n3\n```",
        "<think>4? The passage has 2 of 3 parts.</think>\n3",
        "No, 4 is too much.</think>3",
    ],
)
def test_reply_with_one_whole_number_is_parsed(text):
    assert parse_reply(text, GRADE, "integer") == {"grade": 3}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("3 or 4", "several_numbers"),
        ("3, since it says most of it", "words_beside_the_number"),
        (".3", "words_beside_the_number"),
        ("I cannot grade this.", "no_number"),
        ("<think>It says 3.</think>  ", "empty_reply"),
        ("<think>Is it 3?", "thoughts_alone"),
        ("3,5", "grade_is_not_a_number"),
        ("*" * 2_000_000 + "x", "no_number"),
    ],
)
def test_reply_with_no_or_several_numbers_gives_a_reason(text, reason):
    with pytest.raises(MalformedReplyError, match=f"^{reason}$"):
        parse_reply(text, GRADE, "integer")


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        ("\n A mine shut. \n", "A mine shut."),
        ("```text\nA mine shut.\n```\n", "A mine shut."),
        ('{"summary": "A mine"}', '{"summary": "A mine"}'),  # the reply's form is running text
        ("Run\n```\nmake\n```\nthen\n```\nls\n```", "Run\n```\nmake\n```\nthen\n```\nls\n```"),
    ],
)
def test_running_text_is_read_without_its_wrapping(text, summary):
    assert parse_reply(text, SUMMARY, "text") == {"summary": summary}


@pytest.mark.parametrize(("text", "verdict"), [("No.\n", "no"), ("YES", "yes")])
def test_a_bare_word_is_one_of_the_allowed_values(text, verdict):
    assert parse_reply(text, VERDICT, "text") == {"verdict": verdict}


DRAFT, ANSWER = '{"grade": 0}', '{"grade": 4}'
TAGS = [
    ("<think>", "</think>"),
    ("<Think>", "</Think>"),
    ("<THINKING>", "</THINKING>"),
    ("<thinking mode='deep'>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<seed:think>", "</seed:think>"),
    ("<mm:think>", "</mm:think>"),
    ("<think_faster>", "</think_faster>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|think|>", "<|end|><|begin|>assistant<|content|>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    ("<|channel>thought", "<channel|>"),
    ("<unused94>thought", "<unused95>"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    (
        "<|start|>assistant<|channel|>analysis<|message|>",
        "<|end|><|start|>assistant<|channel|>final <|constrain|>json<|message|>",
    ),
    ("analysisWe ", "assistantfinal"),
    ("Here is my thought process:", "Here is my response:"),
    ("Here's my thought process:", "Here's my response:"),
]
"""Opening and closing marker of thoughts."""
THOUGHTS = [
    f"It may be {DRAFT}.",
    f"```json\n{DRAFT}\n```\nWait, no: {DRAFT[:-1]}",
    "Is it {'grade': 0}, [1] or {x}?",
    "",
]
PLACES = ["{}", "\n\n```json\n{}\n```", "So: {} I hope that helps.", "<answer>\n{}\n</answer>"]
ENDS = ["", "<|return|>", "\n"]


@pytest.mark.parametrize("opening", [True, False], ids=["both", "closing"])
@pytest.mark.parametrize(("start", "end"), TAGS, ids=[start for start, _ in TAGS])
def test_answer_after_thoughts_counts_and_drafts_do_not(start, end, opening):
    if not opening and start.startswith("Here"):
        pytest.skip("Granite's markers are words, which count together only")
    for thought, place, finish in itertools.product(THOUGHTS, PLACES, ENDS):
        text = start * opening + thought + end + place.format(ANSWER) + finish
        # What a parser that knows the format does: the rest behind its last marker.
        assert json.loads(re.search(r"\{.*?\}", text.rsplit(end, 1)[1])[0]) == {"grade": 4}
        assert parse_reply(text, GRADE) == {"grade": 4}
        assert has_thoughts(text)
    for place in ("\n\n{}", "<answer>\n{}\n</answer>"):
        number = start * opening + "3? No." + end + place.format("4") + "<|im_end|>"
        assert parse_reply(number, GRADE, "integer") == {"grade": 4}
        words = start * opening + "A hole?" + end + place.format("A mine shut.") + "</s>"
        assert parse_reply(words, SUMMARY, "text") == {"summary": "A mine shut."}


@pytest.mark.parametrize(("start", "end"), TAGS[:-2], ids=[start for start, _ in TAGS[:-2]])
@pytest.mark.parametrize("form", ["json", "integer", "text"])
def test_thoughts_that_never_close_are_no_reply(start, end, form):
    schema = SUMMARY if form == "text" else GRADE
    for draft in (f"It may be {DRAFT}", "3"):
        with pytest.raises(MalformedReplyError, match=r"^thoughts_alone$"):
            parse_reply(f"{start}{draft}", schema, form)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        # Markers in a value are text; the text before them is kept.
        ('{"a": ["<think>x</think>", "[/THINK]"]}', ["<think>x</think>", "[/THINK]"]),
        ('Here: {"a": ["the tag </think>", "b"]}', ["the tag </think>", "b"]),
        ('<think>{"a": ["c"]}</think>{"a": ["see </think>", "b"]}', ["see </think>", "b"]),
        ('<think>say "</think>"?</think>{"a": ["b"]}', ["b"]),
        ('<think>a <think>b</think> {"a": ["c"]}</think>{"a": ["b"]}', ["b"]),
        ('<|channel|>final<|message|>{"a": ["<|channel|>analysis<|message|>"]}',
         ["<|channel|>analysis<|message|>"]),
        # Thoughts behind the answer.
        ('{"a": ["b"]}\n<reasoning>{"a": ["c"]} says less</reasoning>', ["b"]),
        ('Here is my thought process: it says b. {"a": ["b"]}', ["b"]),
        # Equal values are one.
        ('{"a": ["b"]} that is\n```json\n{"a": ["b"]}\n```', ["b"]),
        ('The list [] is not empty: {"a": ["b"]}', ["b"]),
        ('Reply as {"a": LIST}: {"a": ["b"]}', ["b"]),
    ],
)  # fmt: skip
def test_only_thoughts_are_cut_from_a_reply(text, value):
    assert parse_reply(text, LIST) == {"a": value}


@pytest.mark.parametrize(
    "text",
    [
        f"{DRAFT}\nWait, a correction:\n{ANSWER}",
        f"```json\n{DRAFT}\n```\nOn reflection: {ANSWER}",
        f"{ANSWER}\n\nUser: the next passage\nAssistant: {DRAFT}",
        f"{DRAFT} Wait: {{'grade': 4}}",
        f"{DRAFT} Wait: {ANSWER[:-1]}",  # it breaks off
        f"{DRAFT} or rather {{grade: 3 or 4}}",
        f'{DRAFT} of 10: {{"grade": 7}}',  # the second does not fit
        "```\n{'grade': 0}\n```\n```\n{'grade': 4}\n```",
        '{"grade": 0, "grade": 4}',
        '{"Grade": 0, "grade": 4}',
    ],
)
def test_differing_values_are_malformed(text):
    with pytest.raises(MalformedReplyError, match=r"^several_values$"):
        parse_reply(text, GRADE)


@pytest.mark.parametrize(
    "text", ["The tag <think> opens a thought, </think> ends it.", "He wrote [THINK] on the wall."]
)
def test_markers_in_the_middle_of_running_text_stay(text):
    assert parse_reply(text, SUMMARY, "text") == {"summary": text}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{'a': (1, -2.5, True, None)}", [1, -2.5, True, None]),
        (r"{'a': ['it\'s \u00e9']}", ["it's é"]),
        ('{"a": ["line\nbreak"],}', ["line\nbreak"]),
        ('{"a": ["he said "no" to it"]}', ['he said "no" to it']),
        (r"{a: ['one\ntwo \u0041'], /* not b */}", ["one\ntwo A"]),
        ('{"a": ["see http://x.org"],}', ["see http://x.org"]),
        (r"{'a': ['\ud83d\ude00 well']}", ["😀 well"]),
    ],
)
def test_almost_json_is_read(text, value):
    assert parse_reply(text, LIST) == {"a": value}


def test_a_reply_of_five_megabytes_is_read_fast():
    assert parse_reply('{"grade": 1}' + "x" * 5_000_000, GRADE) == {"grade": 1}
    with pytest.raises(MalformedReplyError):
        parse_reply("{" * 5_000_000, GRADE)
    with pytest.raises(MalformedReplyError):
        parse_reply("{" * 100_000 + "}", GRADE)
