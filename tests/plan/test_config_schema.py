"""The JSON schema and the reference page that `tools/config_page.py` makes of the typed config."""

import json
import sys
from pathlib import Path
from typing import get_args

import jsonschema
import pytest

from psibench.config.base import Section
from psibench.config.files import read_yaml
from psibench.config.paths import DEFAULT_CONFIG, SCHEMA
from psibench.plan.config import Config

sys.path.append(str(Path(__file__).parents[2] / "tools"))
from config_page import PAGE, chapters, reference_text, schema_text

REMEDY = "is out of date: run `make schema` and commit the file"


def test_what_is_committed_is_what_is_generated():
    for path, text in ((SCHEMA, schema_text()), (PAGE, reference_text())):
        assert path.read_text(encoding="utf-8") == text, f"{path} {REMEDY}"


def test_the_schema_accepts_the_default_config_and_a_part_of_it():
    schema = json.loads(schema_text())
    jsonschema.validate(read_yaml(DEFAULT_CONFIG), schema)
    jsonschema.validate({"search": {"top_k": 200}}, schema)


@pytest.mark.parametrize("bad", [{"serch": {}}, {"search": {"top_k": 0}}, {"models": []}])
def test_the_schema_refuses_what_the_config_refuses(bad):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(bad, json.loads(schema_text()))


def sections_in(annotation):
    """The sections that a type names, and those that their fields name."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        fields = annotation.model_fields.values()
        return {annotation}.union(*(sections_in(field.annotation) for field in fields))
    return set().union(*(sections_in(part) for part in get_args(annotation)))


def test_every_section_a_user_can_write_has_a_chapter():
    shown = {section for sections in chapters().values() for section in sections}
    assert sections_in(Config) == shown


@pytest.mark.parametrize(
    "row",
    [
        "| `queries_per_third` | whole number, ≥ 1, ≤ 20 | `1` |",
        "| `revision` | text \\| null | `null` |",
        "| `labels` | `all` \\| `published` | `all` |",
        "| `psi_metrics` | list of text | `[ndcg@10]` |",
        "| `sample` | Sample | `{edges: [500, 1024]}` |",
        "| `length_buckets` | true \\| false | `true` | Also report by tokens of the positive",
        "| `level` | number, > 0.5, < 1 | `0.95` |",
        "| `grade` | Grade \\| null | `null` |",
        "| `judges` | list of text | required |",
    ],
)
def test_the_reference_shows_type_bounds_and_default(row):
    assert row in reference_text()
