"""The documentation site: `make lint` builds docs/_build/html; a link that leads nowhere fails."""

import re
from importlib import metadata
from pathlib import Path

project = "psibench"
author = "The psibench maintainers"
copyright = f"2026, {author}"  # noqa: A001 - Sphinx's name for it
release = metadata.version("psibench-ir")

extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"psibench {release}"
html_show_sphinx = False

myst_heading_anchors = 4  # [text](page.md#a-heading) is checked
myst_enable_extensions = ["colon_fence"]
highlight_language = "none"  # most blocks are commands with their output
autosummary_generate = False  # numpydoc loads autosummary, but no page uses it
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # numpydoc sections have the types
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

LINK_OUT = re.compile(r"(?<!!)\[([^\]]*)\]\((\.\./[^)#]*)\)")


def name_files_outside(app, docname, source):
    """Name a file of the repository that is no page; one that is not there stays a broken link."""
    folder = Path(app.env.doc2path(docname)).parent

    def named(link):
        text, path = link.groups()
        place = (folder / path).resolve()
        if not place.exists():
            return link.group()
        inside = place.relative_to(folder.parent).as_posix()
        return f"`{inside}`" if text.strip("`") in inside else f"{text} (`{inside}`)"

    source[0] = LINK_OUT.sub(named, source[0])


def setup(app):
    """Connect the hook."""
    app.connect("source-read", name_files_outside)
