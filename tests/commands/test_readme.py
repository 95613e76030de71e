"""Configs in the README are valid, and its links exist."""

import re
from pathlib import Path

import pytest
import yaml

from psibench.plan.config import load_config
from psibench.plan.plan import make_plan

REPOSITORY = Path(__file__).parents[2]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
CONFIGS = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("text", CONFIGS, ids=lambda text: text.split(":")[0])
def test_a_config_of_the_readme_is_valid(text, tmp_path, monkeypatch):
    (tmp_path / "path/to/folder").mkdir(parents=True)
    (tmp_path / "path/to/folder/a.txt").write_text("A text.")
    (tmp_path / "checkpoints/my-model").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    settings, models = load_config(yaml.safe_load(text))
    assert set(settings.models) <= models.keys()
    assert make_plan(settings, models).runs


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "CONTRIBUTING.md",
        *(f"docs/{path.name}" for path in sorted((REPOSITORY / "docs").glob("*.md"))),
    ],
)
def test_every_link_to_a_file_leads_somewhere(page):
    path = REPOSITORY / page
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (path.parent / link).exists()]
    assert missing == []


def test_the_tests_that_pages_name_are_there():
    pages = [REPOSITORY / "README.md", *(REPOSITORY / "docs").glob("*.md")]
    named = {name for page in pages for name in re.findall(r"test_\w+", page.read_text("utf-8"))}
    files = list((REPOSITORY / "tests").rglob("test_*.py"))
    there = {path.stem for path in files}
    for path in files:
        there.update(re.findall(r"def (test_\w+)", path.read_text("utf-8")))
    assert named
    assert named <= there
