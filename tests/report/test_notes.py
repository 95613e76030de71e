"""What pages always say of a table or figure: notes, which they find by its title."""

import ast
import html
import re

import jinja2

from psibench.report.tables import TEMPLATES

MADE = jinja2.Environment(loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True)
NOTES = MADE.get_template("notes.html").make_module().notes


def test_every_note_is_of_a_title_that_a_page_has() -> None:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in TEMPLATES.parent.glob("*.py")]
    texts = [n.value for tree in trees for n in ast.walk(tree) if isinstance(n, ast.Constant)]
    titles = {text.split(": ")[0] for text in texts if isinstance(text, str)}
    assert NOTES.keys() <= titles


def test_tables_of_a_page_have_their_notes_below(verified_page: str) -> None:
    below = (
        r"<h4>([^<]*)</h4>((?:(?!<h4>).)*?</table>\s*</div>\s*)(?:<p class=\"note\">([^<]*)</p>)?"
    )
    found = {
        title: html.unescape(note) for title, _, note in re.findall(below, verified_page, re.S)
    }
    known = {title: NOTES.get(title.split(": ")[0], "") for title in found}
    assert found == known
    assert sum(map(bool, known.values())) == 6
