import json
from pathlib import Path

import pytest

from psibench.errors import InputError
from psibench.sources.bad_records import BadRecords
from psibench.sources.squad import read_squad_files


def question(identifier="q1", text="Who?", answer="Ada", start=0):
    answers = [] if answer is None else [{"text": answer, "answer_start": start}]
    return {"id": identifier, "question": text, "answers": answers}


def paragraph(context="Ada wrote it.", *questions):
    return {"context": context, "qas": list(questions)}


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def _write(*paragraphs, name="s.json") -> str:
        Path(name).write_text(json.dumps({"data": [{"paragraphs": list(paragraphs)}]}))
        return name

    return _write


def test_questions_are_read_in_order_with_answers_and_origin(write):
    two = {"id": "q2", "question": "What?", "is_impossible": True}  # its answers may be absent
    extra = question("q1")
    extra["answers"].append({"text": "it", "answer_start": 10})
    first = write(paragraph("Ada wrote it.", extra, two), paragraph("Bare."), name="a.json")
    second = write(paragraph("é😀 x", question(7, "Where?", "x", 3)), name="b.json")
    assert read_squad_files([first, second]).drop("origin").rows() == [
        ("q1", "Who?", "Ada wrote it.", "Ada", 0, "a.json 0"),
        ("q2", "What?", "Ada wrote it.", None, None, "a.json 0"),
        (None, None, "Bare.", None, None, "a.json 0"),
        ("7", "Where?", "é😀 x", "x", 3, "b.json 0"),
    ]


def refusal(*paths) -> str:
    with pytest.raises(InputError) as raised:
        read_squad_files(paths)
    return str(raised.value)


@pytest.mark.parametrize(
    ("answer", "start", "found"),
    [("Ada", 1, "'da '"), ("Ada", -13, "''"), ("", 0, "''"), (" ", 3, "' '")],
)
def test_a_wrong_span_is_refused_with_file_and_record(write, answer, start, found):
    message = refusal(write(paragraph("Ada wrote it.", question("q9", "?", answer, start))))
    assert message.startswith(f"s.json: data[0].paragraphs[0] id q9: the answer {answer!r} is")
    assert f"answer_start {start}; found {found}" in message
    assert "0-based offset in characters (not bytes)" in message


@pytest.mark.parametrize(
    ("wrong", "place"),
    [
        ({}, "data[0].paragraphs[1]: not in SQuAD format (KeyError: 'context')"),
        (paragraph("Ada", question("q", None)), "[1] id q: field 'question' is null, expected"),
        (paragraph("Ada", question(None)), "data[0].paragraphs[1]: field 'id' is null, expected"),
    ],
)
def test_json_in_another_format_is_refused_with_its_location(write, wrong, place):
    message = refusal(write(paragraph("a"), wrong))
    assert message.startswith("s.json: data[0]")
    assert place in message


def test_repeated_ids_are_refused_with_both_origins(write):
    a = write(paragraph("Ada", question("q1")), name="a.json")
    b = write(paragraph("Ada", question("q1")), name="b.json")
    message = refusal(a, b)
    assert "id 'q1' occurs 2 times" in message
    assert "a.json: data[0].paragraphs[0] id q1; b.json: data[0].paragraphs[0] id q1" in message


@pytest.mark.parametrize(
    ("n_good", "n_wrong", "share", "is_read"),
    [
        (1389, 6, 0.01, True),  # as ARCD has them: 13 of 1,395 may be wrong
        (98, 2, 0.01, False),
        (3, 1, 0.01, True),  # rounded up: one may always be
        (1, 1, 0.0, False),
    ],
)
def test_wrong_answer_starts_are_left_out_up_to_a_share(write, n_good, n_wrong, share, is_read):
    asked = [question(f"q{n}", "Who?", "Ada", 0) for n in range(n_good)]
    asked += [question(f"w{n}", "Who?", "Ada", 4) for n in range(n_wrong)]
    path = write(paragraph("Ada wrote it.", *asked))
    bad = BadRecords(share)
    if not is_read:
        with pytest.raises(InputError, match="is not at answer_start 4"):
            read_squad_files([path], bad)
        return
    assert read_squad_files([path], bad)["_id"].to_list() == [f"q{n}" for n in range(n_good)]
    rows = list(bad.dropped("squad_posq", "questions"))
    assert [(row.item_id, row.reason) for row in rows] == [
        (f"w{n}", "wrong_record") for n in range(n_wrong)
    ]
    assert "is not at answer_start 4" in rows[0].detail


def test_a_question_without_text_is_left_out(write):
    asked = [question(), question("q2", " \n", "Ada", 0)]
    bad = BadRecords(0.01)
    found = read_squad_files([write(paragraph("Ada wrote it.", *asked))], bad)
    assert found["_id"].to_list() == ["q1"]
    assert list(bad.messages) == ["q2"]
    assert bad.messages["q2"].endswith("question 'q2' has a blank text; expected a question")


def test_a_context_with_only_wrong_questions_is_a_document(write):
    good = paragraph("Ada wrote it.", question())
    path = write(good, paragraph("Bo ran.", question("w", "Who?", "Ada")))
    found = read_squad_files([path], BadRecords(0.5))
    assert found.select("_id", "context").rows() == [("q1", "Ada wrote it."), (None, "Bo ran.")]


def test_a_file_with_only_wrong_records_is_refused_early(write):
    asked = [question(f"w{n}", "Who?", "Ada", 4) for n in range(30)]
    bad = BadRecords(0.99)
    with pytest.raises(InputError, match="id w19: the answer"):
        read_squad_files([write(paragraph("Ada wrote it.", *asked))], bad)
