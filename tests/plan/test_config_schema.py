"""`tools/config_page.py` generates the JSON schema and the reference page of the config."""

from typing import get_args

from config_page import PAGE, chapters, reference_text, schema_text

from psibench.config.base import Section
from psibench.config.paths import SCHEMA
from psibench.plan.config import Config

REMEDY = "is out of date: run `make format` and commit the file"


def test_committed_files_match_the_generated_ones():
    for path, text in ((SCHEMA, schema_text()), (PAGE, reference_text())):
        assert path.read_text(encoding="utf-8") == text, f"{path} {REMEDY}"


def sections_in(annotation):
    """The sections in a type, and recursively in their fields."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        fields = annotation.model_fields.values()
        return {annotation}.union(*(sections_in(field.annotation) for field in fields))
    return set().union(*(sections_in(part) for part in get_args(annotation)))


def test_every_section_a_user_can_write_has_a_chapter():
    shown = {section for sections in chapters().values() for section in sections}
    assert sections_in(Config) == shown
