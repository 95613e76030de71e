"""What hatchling does beyond pyproject.toml: files beside src/, and the README as PyPI shows it.

A wheel carries the workflow and its config inside the package, from their one place in the
repository. An editable install carries no copy of them: `psibench.config.paths` finds the
repository's own.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

SHIPPED = ("config", "envs", "profiles", "workflow")
RELATIVE_LINK = re.compile(r"(?<=\]\()(?!https?://|#)(?=[^)\s]+\))")


class ShippedFiles(BuildHookInterface):
    """Put the workflow, its config, profiles and environments into the wheel."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name them for a wheel; for an editable install none."""
        if version != "editable":
            build_data["force_include"] |= {name: f"psibench/shipped/{name}" for name in SHIPPED}


class Readme(MetadataHookInterface):
    """Make the README's links absolute: on a package index there are no files beside it."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the long description."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        address = metadata["urls"]["Repository"]
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": absolute_links(text, f"{address}/blob/v{metadata['version']}"),
        }


def absolute_links(text: str, address: str) -> str:
    """Put an address before every link of a Markdown text that is relative.

    A forge answers ``blob`` with a page about a file; images need ``raw``.
    """
    pages = RELATIVE_LINK.sub(f"{address}/", text)
    raw = address.replace("/blob/", "/raw/")
    return re.sub(rf"(!\[[^\]]*\]\(){re.escape(address)}/", rf"\g<1>{raw}/", pages)
