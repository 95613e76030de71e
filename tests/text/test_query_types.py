import pytest

from psibench.text.query_types import query_types

ENGLISH = [
    ("What is a reef?", "WHAT"),
    ("How come it rains?", "WHY"),
    ("Where’s the reef?", "WHERE"),
    ("To whom does it belong?", "WHO"),
    ("According to the report, how deep is it?", "HOW"),
    ("If a ship sinks, does the reef grow?", "OTHERS"),
    ("Is the reef, which is old, protected?", "OTHERS"),
    ("Doesn't it grow?", "OTHERS"),
    ("It lies under what bridge?", "OTHERS"),  # the interrogative does not open it
    ("The reef, which is old, is protected", "CLAIM"),
    ("When water boils, it turns to steam.", "CLAIM"),
    ("", "CLAIM"),
]
CHINESE = [
    ("它被称为什么？", "WHAT"),  # "What is it called?", not "Why?"
    ("為何海水是鹹的", "WHY"),
    ("有多少种鱼？", "HOW"),
    ("几乎没有鱼了吗？", "OTHERS"),  # almost, not how many
    ("它在哪？", "WHERE"),
    ("在哪些地区？", "WHICH"),
    ("誰發現的？", "WHO"),
    ("鱼会不会游", "OTHERS"),
    ("请列出鱼的种类。", "OTHERS"),
    ("作者是？", "OTHERS"),
    ("他解释了为什么。", "CLAIM"),
]


@pytest.mark.parametrize(("text", "kind"), ENGLISH)
def test_english_queries_get_the_type_of_their_first_interrogative(text, kind):
    assert query_types([text], language="eng-Latn") == [kind]


@pytest.mark.parametrize(("text", "kind"), CHINESE)
@pytest.mark.parametrize("language", ["cmn-Hans", "zho-Hant"])
def test_chinese_queries_get_the_type_of_their_first_interrogative(text, kind, language):
    assert query_types([text], language=language) == [kind]


def test_queries_of_other_languages_have_no_types():
    assert query_types(["Où ?"], language="fra-Latn") is None
