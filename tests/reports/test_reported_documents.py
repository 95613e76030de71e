"""Pages, PDFs and texts as other programs write them; README.md names the reports."""

import pytest

from psibench.sources.convert import read_html


@pytest.mark.parametrize(
    "block",
    "main header footer aside figure fieldset legend details summary option address".split(),
)
def test_words_of_neighbouring_blocks_are_not_joined(tmp_path, block):
    page = tmp_path / "a.html"
    page.write_text(f"<body>one<{block}>two</{block}><{block}>three</{block}>four")
    assert read_html(page).split() == ["one", "two", "three", "four"]


def test_inline_elements_do_not_part_a_word(tmp_path):
    page = tmp_path / "a.html"
    page.write_text("<p>H<sub>2</sub>O <span>inter</span><em>view</em> <label>a</label>b</p>")
    assert read_html(page) == "H2O inter*view* ab"
