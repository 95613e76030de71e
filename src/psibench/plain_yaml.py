"""YAML of plain values; a separate module, so that jobs over tables load no parser."""

import re
from collections.abc import Hashable, Iterator
from typing import Any

import yaml

from psibench.errors import InputError
from psibench.reading import refuse_aliases, shown


def parse_yaml(text: str, *, where: str) -> Any:
    """Parse YAML of plain values.

    Raises InputError if the text is not YAML, has a key twice, a value that contains itself,
    aliases that expand to millions of values, or control characters in a text.
    """
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        refuse_aliases(node, _inside)
        return loader.construct_document(node)
    except RecursionError:
        raise InputError(f"{where}: not valid YAML: nested too deep") from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # ValueError: impossible dates, integers of thousands of digits
        raise InputError(f"{where}: not valid YAML: {error}") from error


class _Loader(yaml.SafeLoader):
    """Loads plain values; refuses repeated keys, control characters and huge integers."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for name in (key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if name in seen and name != "<<":
                raise ValueError(f"the key {shown(name)} occurs twice{node.start_mark}")
            seen.add(name)
        return super().construct_mapping(node, deep=deep)


def _construct_text(loader: _Loader, node: yaml.ScalarNode) -> str:
    text = str(loader.construct_scalar(node))
    if found := CONTROL.search(text):
        raise ValueError(
            f"a text has the control character {found.group()!r}, which is not allowed in a config"
            f"{node.start_mark}"
        )
    return text


def _construct_whole(loader: _Loader, node: yaml.ScalarNode) -> int:
    found: int = loader.construct_yaml_int(node)
    if abs(found) >= 2**63:
        raise ValueError(f"the number {shown(found)} is too large{node.start_mark}")
    return found


CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
"""Characters that no text of a config may have."""
_Loader.add_constructor("tag:yaml.org,2002:str", _construct_text)
_Loader.add_constructor("tag:yaml.org,2002:int", _construct_whole)


def _inside(node: yaml.Node) -> Iterator[yaml.Node]:
    for one in () if isinstance(node, yaml.ScalarNode) else node.value:
        yield from one if type(one) is tuple else (one,)
