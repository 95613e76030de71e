import pytest

from psibench.text.mentions import mentions_document


@pytest.mark.parametrize(
    ("question", "phrase"),
    [
        ("What does THIS\n article say?", "THIS\n article"),
        ("Which method mentioned above is faster?", "mentioned above"),
        ("What happens in the final third?", "the final third"),
        ("根据本文，谁赢得了比赛？", "根据本文"),
    ],
)
def test_a_question_about_its_document_returns_the_phrase(question, phrase):
    assert mentions_document(question) == phrase


@pytest.mark.parametrize(
    "question",
    [
        "",
        "Who wrote the text of the Treaty of Lisbon?",
        "Which function reads a document type declaration?",
        "日本文化有哪些特点？",  # holds 本文
    ],
)
def test_a_question_about_the_world_passes(question):
    assert mentions_document(question) is None
