"""The one way templates are loaded: text is escaped, a missing value is an error."""

from pathlib import Path

import jinja2

from psibench.report.panels import slug

TEMPLATES = Path(__file__).parent / "templates"


def environment() -> jinja2.Environment:
    """Return the environment of the page's templates, with the filter ``slug``."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["slug"] = slug
    return made
