"""Which format a file is in: the one named, or the one its suffix stands for."""

from collections.abc import Mapping
from pathlib import Path

from psibench.errors import InputError


def choose_format(
    path: Path, named: str | None, known: Mapping[str, tuple[str, ...]], *, option: str
) -> str:
    """Return the format's name.

    Parameters
    ----------
    path : the file; its longest matching suffix decides when no format is named.
    named : a key of `known`, or None.
    known : format -> suffixes, lower case.
    option : what a message tells the user to set.

    Raises
    ------
    InputError
        If the named format or the suffix is not known.
    """
    if named is not None:
        if named not in known:
            raise InputError(f"{option} {named!r}; supported: {', '.join(known)}")
        return named
    name = path.name.lower()
    matches = [(s, kind) for kind, suffixes in known.items() for s in suffixes if name.endswith(s)]
    if not matches:
        listed = "; ".join(f"{kind} ({' '.join(suffixes)})" for kind, suffixes in known.items())
        raise InputError(f"{path}: no format has this suffix; set {option}. Supported: {listed}")
    return max(matches, key=lambda match: len(match[0]))[1]


def stem(path: Path) -> str:
    """Return the file's name without .gz and without its last suffix."""
    return Path(path.name.removesuffix(".gz")).stem
