from pathlib import Path

import pytest

from psibench.errors import InputError
from psibench.llm.prompts import load_prompt
from psibench.llm.replies import fit
from psibench.llm.request import Request

FOLDER = Path(__file__).resolve().parents[2] / "config" / "prompts"
SHIPPED = sorted(FOLDER.glob("*.md"))
TEMPLATE = """---
task: ask
description: for people
variables: [document, n, most]
response:
  type: object
  properties:
    summary: {type: string, minLength: 1}
    entries:
      type: array
      items:
        type: object
        properties: {text: {type: string}, kind: {type: string, enum: [a, b]}}
        required: [text, kind]
    grade: {type: integer, minimum: 0, maximum: 4}
  required: [summary, entries, grade]
# a typical reply
reply_example:
  summary: one two three four
  entries:
    - {text: first, kind: a}
    - {text: second, kind: b}
  grade: 3
reply_size:
  summary: {of: document, share: 0.5, at_most: most}
  entries: n
---
## user
{{ document }} {{ n }} {{ most }}
"""


def load(tmp_path, text=TEMPLATE):
    path = tmp_path / "ask.md"
    path.write_text(text, encoding="utf-8")
    return load_prompt(path)


def reply(prompt, document="a b c d e f", n=2, most=100):
    return prompt.example.for_values({"document": document, "n": n, "most": most})


def test_a_reply_is_the_example_at_the_size_the_item_asks_for(tmp_path):
    # Half of six words, rounded up; two entries of two; the grade stays.
    assert reply(load(tmp_path)) == {
        "summary": "one two three",
        "entries": [{"text": "first", "kind": "a"}, {"text": "second", "kind": "b"}],
        "grade": 3,
    }


@pytest.mark.parametrize(
    ("document", "most", "n_words"),
    [
        ("a b c d e f g", 100, 4),
        ("a " * 30, 100, 15),
        ("a " * 30, 7, 7),
        ("", 9, 1),
        ("你好" * 3, 9, 3),
    ],
)
def test_a_text_is_cut_or_repeated_to_a_share_of_the_variable(tmp_path, document, most, n_words):
    summary = reply(load(tmp_path), document, most=most)["summary"]
    assert len(summary.split()) == n_words


def test_repeated_entries_differ_but_keep_what_is_one_of_a_few_values(tmp_path):
    entries = reply(load(tmp_path), n=5)["entries"]
    texts = [entry["text"] for entry in entries]
    assert texts == ["first", "second", "first (2)", "second (2)", "first (3)"]
    assert [entry["kind"] for entry in entries] == ["a", "b", "a", "b", "a"]


def test_a_list_of_texts_is_repeated_numbered_too(tmp_path):
    start, end = TEMPLATE.index("      items:\n"), TEMPLATE.index("    grade: {type")
    text = TEMPLATE[:start] + "      items: {type: string}\n" + TEMPLATE[end:]
    start, end = text.index("    - {text"), text.index("  grade: 3")
    prompt = load(tmp_path, text[:start] + "    - x\n" + text[end:])
    assert reply(prompt, n=3)["entries"] == ["x", "x (2)", "x (3)"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("# a typical reply", "# another comment"),
        ("one two three four", "other words"),
        ("  entries: n\n", ""),
        ("share: 0.5", "share: 2"),
        (TEMPLATE[TEMPLATE.index("reply_example") : TEMPLATE.index("---\n## user")], ""),
        ("description: for people\n", ""),
    ],
)
def test_editing_an_example_or_a_comment_asks_nothing_anew(tmp_path, old, new):
    assert old in TEMPLATE
    before, after = load(tmp_path), load(tmp_path, TEMPLATE.replace(old, new))
    assert before.hash == after.hash
    keys = {
        Request("m", p.render({"document": "d", "n": 1, "most": 2}), response=p.response).key
        for p in (before, after)
    }
    assert len(keys) == 1


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("  grade: 3\n", "", "reply_example does not fit the response schema: grade_is_missing"),
        ("grade: 3", "grade: 7", "grade_is_out_of_range"),
        ("grade: 3", 'grade: "3"', "fits the response schema only as"),
        ("grade: 3", "grade: 3\n  more: x", "fits the response schema only as"),
        ("  entries: n\n", "  entries: m\n", "reply_size.entries: no variable 'm'; there are docu"),
        ("at_most: most", "at_most: top", "reply_size.summary: no variable 'top'"),
        ("  entries: n\n", "  grade: n\n", "reply_size.grade: reply_example has no text or list"),
        ("  entries: n\n", "  entires: n\n", "reply_size.entires: reply_example has no text or"),
        ("share: 0.5", "share: 0", "share is 0; give a number above 0"),
        ("share: 0.5", "factor: 0.5", "give a variable, or of, share and at_most"),
        ("{of: document, share", "{share", "give a variable, or of, share and at_most"),
        ("reply_example", "reply_examples", "allowed: description, response, reply_example, rep"),
    ],
)
def test_a_faulty_example_is_refused_with_its_fault(tmp_path, old, new, words):
    assert old in TEMPLATE
    with pytest.raises(InputError, match=r"ask\.md: .*" + words.replace("(", r"\(")):
        load(tmp_path, TEMPLATE.replace(old, new, 1))


def test_sizes_without_an_example_are_refused(tmp_path):
    start, end = TEMPLATE.index("reply_example"), TEMPLATE.index("reply_size")
    with pytest.raises(InputError, match="reply_size without reply_example"):
        load(tmp_path, TEMPLATE[:start] + TEMPLATE[end:])


def test_an_example_of_free_text_is_refused(tmp_path):
    text = "---\ntask: t\nvariables: []\nreply_example: words\n---\n## user\nSay it.\n"
    with pytest.raises(InputError, match="a mapping that fits the response schema"):
        load(tmp_path, text)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_prompt_has_an_example_and_a_description(path):
    prompt = load_prompt(path)
    assert prompt.description
    values = dict.fromkeys(prompt.variables, "word " * 40) | {"n_questions": 9, "max_words": 30}
    given = prompt.example.for_values(values)
    assert fit(given, prompt.response.schema) == given
