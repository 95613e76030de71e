import polars as pl
import pytest

from psibench.config.paths import PROMPTS
from psibench.errors import InputError
from psibench.llm.prompts import load_prompt
from psibench.llm.tasks import Replied
from psibench.tables import conform
from psibench.tables.build_schemas import TRANSLATION_GRADES
from psibench.translate.quality import JUDGE_TRANSLATION
from psibench.translate.translate import TranslateSection

SECTION = TranslateSection(llm="x", source_language="eng-Latn", target_language="fra-Latn")
GOOD = {"fluency": 5, "accuracy": 4, "completeness": 3, "style": 1}


def sample(*docs) -> dict[str, pl.DataFrame]:
    """The sample of two languages; nobody is asked about the one that is not SECTION's."""
    names = ("language", "_id", "text", "origin", "domain", "doc_id", "length_bin", "translation")
    rows = [
        (language, f"{prefix}law/{d}", f"text of {d}", "law", "law", d, "Q1", f"texte de {d}")
        for language, prefix in (("fra-Latn", ""), ("deu-Latn", "deu-Latn/"))
        for d in docs
    ]
    schema = dict.fromkeys(names, pl.String)
    return {"documents": pl.DataFrame(rows, schema=schema, orient="row")}


def rows_of(replies, *docs):
    gathered = JUDGE_TRANSLATION.gather(sample(*docs), SECTION, iter(replies))
    conform(gathered.rows, TRANSLATION_GRADES, where="test")
    return gathered.rows.rows()


def test_a_judge_sees_source_translation_and_the_languages_by_name():
    items = list(JUDGE_TRANSLATION.items(sample("a", "b"), SECTION))
    assert [(item.id, item.doc_id) for item in items] == [("law/a", "law/a"), ("law/b", "law/b")]
    prompt = load_prompt(PROMPTS / "judge_translation.md")
    assert prompt.task == JUDGE_TRANSLATION.template
    assert JUDGE_TRANSLATION.judges
    text = "\n".join(message.content for message in prompt.render(items[0].values))
    for part in ("<source>\ntext of a\n</source>", "<translation>\ntexte de a\n</translation>"):
        assert part in text
    assert "in English" in text
    assert "in French" in text


def test_every_document_has_a_row_and_null_grades_without_a_usable_reply():
    replies = [Replied("law/b", "law/b", None, GOOD)]
    assert rows_of(replies, "a", "b") == [
        ("law/a", "law", "a", "Q1", None, None, None, None),
        ("law/b", "law", "b", "Q1", 5, 4, 3, 1),
    ]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({**GOOD, "style": 6}, r"law/a: style 6; allowed: 1, 2, 3, 4, 5"),
        ({**GOOD, "style": 0}, r"style 0; allowed"),
        ({**GOOD, "style": 4.5}, r"no int in field 'style'"),
        ({"fluency": 5}, r"no int in field 'accuracy'"),
    ],
)
def test_a_reply_without_four_grades_is_refused(value, message):
    with pytest.raises(InputError, match=message):
        rows_of([Replied("law/a", "law/a", None, value)], "a")
