import pytest

from psibench.llm.replies import MalformedReplyError, parse_reply

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
def test_a_reply_that_means_one_question_gives_it(text):
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
        ("[" * 100_000, "no_json"),
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
def test_a_grade_that_is_none_is_refused(text, reason):
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
def test_a_reply_that_means_one_whole_number_gives_it(text):
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
def test_a_reply_that_means_no_or_several_numbers_gives_a_reason(text, reason):
    with pytest.raises(MalformedReplyError, match=f"^{reason}$"):
        parse_reply(text, GRADE, "integer")


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        ("\n A mine shut. \n", "A mine shut."),
        ("```text\nA mine shut.\n```\n", "A mine shut."),
        ('{"summary": "A mine"}', '{"summary": "A mine"}'),  # running text is what was asked for
        ("Run\n```\nmake\n```\nthen\n```\nls\n```", "Run\n```\nmake\n```\nthen\n```\nls\n```"),
    ],
)
def test_running_text_is_taken_without_what_is_around_it(text, summary):
    assert parse_reply(text, SUMMARY, "text") == {"summary": summary}


@pytest.mark.parametrize(("text", "verdict"), [("No.\n", "no"), ("YES", "yes")])
def test_a_bare_word_is_one_of_the_allowed_values(text, verdict):
    assert parse_reply(text, VERDICT, "text") == {"verdict": verdict}


def test_the_first_value_that_fits_counts_not_the_first_value():
    assert parse_reply('{"note": 1} then {"grade": 2} then {"grade": 4}', GRADE) == {"grade": 2}


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
    schema = {"type": "object", "properties": {"a": {"type": "array"}}, "required": ["a"]}
    assert parse_reply(text, schema) == {"a": value}


def test_a_reply_of_five_megabytes_is_read_fast():
    assert parse_reply('{"grade": 1}' + "x" * 5_000_000, GRADE) == {"grade": 1}
    with pytest.raises(MalformedReplyError):
        parse_reply("{" * 5_000_000, GRADE)
    with pytest.raises(MalformedReplyError):
        parse_reply("{" * 100_000 + "}", GRADE)
