"""Stage ``download``: a checkpoint into the hub's cache, for jobs on machines without network."""

import json
import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any

from psibench.errors import InputError
from psibench.models.manifests import MAIN, Manifest, Part, is_commit
from psibench.tables.stage import stage

logger = logging.getLogger("psibench")

CODE_FILES = ["*.py", "*.json"]
SETTINGS_FILES = ["*.json", "artifact.metadata", "*.model", "vocab.txt", "merges.txt"]
NEVER_READ = (
    # Weights for other libraries and runtimes.
    "*.onnx",
    "*.onnx_data*",
    "*.gguf",
    "*.ggml",
    "*.h5",
    "*.msgpack",
    "*.ot",
    "*.tflite",
    "*.mlmodel",
    "*.mlpackage/*",
    "*.pb",
    "*.nemo",
    # What a training run leaves.
    "*.ckpt",
    "*optimizer.*",
    "*scheduler.p*",
    "*rng_state*",
    "*training_args.bin",
    "*events.out.tfevents*",
    "runs/*",
    # Pages, pictures, data.
    "*.png",
    "*.jpg",
    "*.jpeg",
    "*.gif",
    "*.svg",
    "*.webp",
    "*.pdf",
    "*.ipynb",
    "*.csv",
    "*.tsv",
    "*.parquet",
    "*.mp4",
    "*.zip",
    "*.tar.gz",
    ".gitattributes",
    ".gitignore",
)
FOLDERS_NEVER_READ = ("onnx", "openvino", "coreml", "original", "gguf", "tf", "flax")
WEIGHTS = (".safetensors", ".bin", ".pt", ".pth")
TOKENIZER_FILES = (
    "*token*.json",
    "*.model",
    "*.tiktoken",
    "vocab*",
    "merges.txt",
    "special_tokens_map.json",
    "config.json",
    "chat_template*",
    "*.py",
)
_PART = re.compile(r"-\d{5}-of-\d{5}$")


@stage("download", version=1)
def run_download(
    repo: str,
    revision: str | None,
    *,
    output: str | Path,
    part: Part = "model",
    code: bool = False,
    code_revision: str | None = None,
) -> None:
    """Download a checkpoint (or its tokenizer) and write its manifest: where it lies.

    Raises
    ------
    InputError
        As `download_checkpoint`.
    """
    manifest = download_checkpoint(
        repo, revision, part=part, code=code, code_revision=code_revision
    )
    manifest.write(output)
    logger.info(
        "%s at %s: %d files, %.1f MB in %s",
        *(repo, manifest.commit, len(manifest.files), manifest.n_bytes / 1e6, manifest.folder),
    )


def wanted_files(names: Iterable[str], *, tokenizer_only: bool = False) -> list[str]:
    """Choose the files to download, sorted.

    Left out are weights of other runtimes, pictures and data; PyTorch's weights where the same
    weights are there as safetensors; and a second set of weights under another name that another
    library reads (``consolidated``).
    """
    kept = [name for name in names if not _is_never_read(name)]
    if tokenizer_only:
        kept = [name for name in kept if "/" not in name and _matches(name, TOKENIZER_FILES)]
        return sorted(name for name in kept if not name.endswith(WEIGHTS))
    safe = {_weights_key(name) for name in kept if name.endswith(".safetensors")}
    has_model = any(PurePosixPath(name).name.startswith("model") for name, _ in safe)
    return sorted(
        name
        for name in kept
        if not _is_repeated(name, safe) and not (has_model and _is_consolidated(name))
    )


def _is_never_read(name: str) -> bool:
    folders = {part.lower() for part in PurePosixPath(name).parts[:-1]}
    in_folder = not folders.isdisjoint(FOLDERS_NEVER_READ)
    return in_folder or _matches(name.lower(), NEVER_READ)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def _weights_key(name: str) -> tuple[str, str]:
    """Name the weights a file is (part) of: its folder and its stem, as safetensors names them."""
    path = PurePosixPath(name)
    stem = _PART.sub("", path.stem)
    return str(path.parent / stem.replace("pytorch_model", "model")), path.parent.as_posix()


def _is_repeated(name: str, safe: set[tuple[str, str]]) -> bool:
    if name.endswith(".bin.index.json"):
        name = name.removesuffix(".index.json")
    return name.endswith((".bin", ".pt", ".pth")) and _weights_key(name) in safe


def _is_consolidated(name: str) -> bool:
    base = PurePosixPath(name).name
    return base.startswith("consolidated") and base.endswith(WEIGHTS)


def whole_snapshot(repo: str, revision: str | None, part: Part) -> Path | None:
    """Return the cached snapshot of a commit if no file of it is missing."""
    from huggingface_hub.errors import LocalEntryNotFoundError

    if not is_commit(revision) or (patterns := cached_patterns(repo, revision, part)) is None:
        return None
    try:
        return snapshot_in_cache(repo, revision, patterns)
    except LocalEntryNotFoundError:
        return None


def cached_patterns(repo: str, revision: str | None, part: Part) -> list[str] | None:
    """Return patterns of the files that are read, by the cached list of all; None without one."""
    from huggingface_hub import get_cached_repo_tree
    from huggingface_hub.errors import CachedRepoTreeNotFoundError

    try:
        names = [file.path for file in get_cached_repo_tree(repo, revision=revision)]
    except CachedRepoTreeNotFoundError:
        return None
    return literal_patterns(wanted_files(names, tokenizer_only=part == "tokenizer"))


def snapshot_in_cache(repo: str, revision: str | None, patterns: list[str] | None) -> Path:
    """Return a snapshot's folder; LocalEntryNotFoundError if a file is known to be missing."""
    from huggingface_hub import snapshot_download

    options: dict[str, Any] = {"local_files_only": True, "allow_patterns": patterns}
    return Path(snapshot_download(repo, revision=revision, **options))


def literal_patterns(names: Iterable[str]) -> list[str]:
    """Write names of files as patterns that match them alone."""
    return ["".join(f"[{char}]" if char in "*?[" else char for char in name) for name in names]


def download_checkpoint(
    repo: str,
    revision: str | None,
    *,
    part: Part = "model",
    code: bool = False,
    code_revision: str | None = None,
) -> Manifest:
    """Fetch what is read of a hub repository into the hub's cache (HF_HOME).

    If the hub is out of reach, a snapshot that the cache has already is taken as it is; if the hub
    answers with a fault of its own, the cached snapshot of a pinned commit if it is whole.

    Parameters
    ----------
    revision
        Commit, branch or tag; None is the default branch.
    code
        Fetch the code of other repositories that the checkpoint's config names, too: for entries
        with ``trust_remote_code``.
    code_revision
        Commit of the repository that the code comes from, where it is another one; fetched
        whatever ``code`` is.

    Raises
    ------
    InputError
        If there is no such repository or revision, it is gated, the hub is out of reach, or the
        disk is full.
    """
    with _in_plain_words(repo, revision):
        folder = _snapshot(repo, revision, part=part)
        runs_code = part == "model" and (code or code_revision is not None)
        fetched = _fetch_code(folder, repo, code_revision) if runs_code else {}
    sizes = {
        path.relative_to(folder).as_posix(): path.stat().st_size
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    names = wanted_files(sizes, tokenizer_only=part == "tokenizer")
    _need(names, repo, list(sizes))
    files = {name: sizes[name] for name in names}
    return Manifest(repo, revision, folder.name, str(folder), files, part, fetched)


def download_settings(repo: str, revision: str | None) -> Path:
    """Fetch what a hub repository says of its use, without its weights; return the folder.

    Raises
    ------
    InputError
        As ``download_checkpoint``.
    """
    from huggingface_hub import snapshot_download

    with _in_plain_words(repo, revision):
        return Path(snapshot_download(repo, revision=revision, allow_patterns=SETTINGS_FILES))


def _snapshot(repo: str, revision: str | None, *, part: Part) -> Path:
    """Fetch a snapshot; return its folder in the cache, whose name is the commit."""
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import OfflineModeIsEnabled

    try:
        info = HfApi().model_info(repo, revision=revision)
        names = [file.rfilename for file in info.siblings or []]
        wanted = wanted_files(names, tokenizer_only=part == "tokenizer")
        _need(wanted, repo, names)
        logger.info("%s: commit %s, %d of %d files", repo, info.sha, len(wanted), len(names))
        folder = Path(
            snapshot_download(repo, revision=revision, allow_patterns=literal_patterns(wanted))
        )
    except Exception as error:
        if isinstance(error, OfflineModeIsEnabled) or _is_unreachable(error):
            folder = _cached_snapshot(repo, revision, part, error)
        elif _is_fault_of_hub(error) and (whole := whole_snapshot(repo, revision, part)):
            folder = whole
        else:
            raise
        logger.warning("%s: taken as it lies in %s (%s)", repo, folder, type(error).__name__)
        return folder
    if absent := [name for name in wanted if not (folder / name).is_file()]:
        raise InputError(
            f"checkpoint {repo!r}: {absent[0]} was not downloaded; the repository changed "
            "meanwhile. Run it again."
        )
    return folder


def _cached_snapshot(repo: str, revision: str | None, part: Part, error: Exception) -> Path:
    """Return a snapshot that the cache has already, whole as far as its list of files is known."""
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return snapshot_in_cache(repo, revision, cached_patterns(repo, revision, part))
    except LocalEntryNotFoundError:
        raise InputError(
            f"checkpoint {repo!r}, revision {revision or MAIN!r}: the hub is out of reach "
            f"({type(error).__name__}: {error}) and the cache does not have all of it. Checkpoints "
            "are downloaded on the machine where snakemake runs: start it where there is network "
            "(HF_ENDPOINT and HTTPS_PROXY are respected, HF_HUB_OFFLINE has to be unset), or give "
            "a local folder as `checkpoint`."
        ) from error


def _need(wanted: list[str], repo: str, names: list[str]) -> None:
    if not wanted:
        raise InputError(
            f"checkpoint {repo!r}: none of its {len(names)} files is one that is read "
            f"({', '.join(names[:5]) or 'it is empty'}). Is it a model's repository, with weights "
            "as safetensors or of PyTorch?"
        )


def _fetch_code(folder: Path, repo: str, revision: str | None) -> dict[str, str]:
    """Fetch the code of other repositories: auto_map names them as OWNER/NAME--MODULE.CLASS."""
    from huggingface_hub import snapshot_download

    path = folder / "config.json"
    config: Any = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    classes = (config.get("auto_map") or {}) if isinstance(config, dict) else {}
    given = [name for value in classes.values() for name in _as_list(value)]
    others = {name.partition("--")[0] for name in given if "--" in name} - {repo}
    return {
        other: Path(snapshot_download(other, revision=revision, allow_patterns=CODE_FILES)).name
        for other in sorted(others)
    }


def _as_list(value: Any) -> list[str]:
    """Make a list of an auto_map's value: a name, or a list of names and nulls."""
    values = value if isinstance(value, list | tuple) else [value]
    return [name for name in values if isinstance(name, str)]


def _is_unreachable(error: Exception) -> bool:
    import httpx2

    return isinstance(error, httpx2.TransportError | ConnectionError | TimeoutError)


def _is_fault_of_hub(error: Exception) -> bool:
    from huggingface_hub.errors import HfHubHTTPError

    return isinstance(error, HfHubHTTPError) and error.response.status_code >= 500


@contextmanager
def _in_plain_words(repo: str, revision: str | None) -> Iterator[None]:
    """Turn what the hub answers into an InputError."""
    from huggingface_hub import errors

    where = f"checkpoint {repo!r}, revision {revision or MAIN!r}"
    try:
        yield
    except errors.GatedRepoError as error:
        raise InputError(
            f"{where}: gated. Accept its conditions on {error.response.url.host}/{repo}, and log "
            "in on the machine where snakemake runs (`hf auth login`, or HF_TOKEN)."
        ) from error
    except errors.RevisionNotFoundError as error:
        raise InputError(
            f"{where}: the repository has no such commit, branch or tag. Correct `revision` in the "
            "model's entry."
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise InputError(
            f"{where}: no such repository on the hub, or a private one. Correct `checkpoint`, or "
            "log in on the machine where snakemake runs (`hf auth login`, or HF_TOKEN)."
        ) from error
    except errors.HFValidationError as error:
        raise InputError(f"{where}: not a hub name of the form owner/name ({error})") from error
    except errors.HfHubHTTPError as error:
        raise InputError(
            f"{where}: the hub answered {error.response.status_code} ({error}). Try again later."
        ) from error
    except OSError as error:  # a full disk, a cache that cannot be written, a broken transfer
        raise InputError(
            f"{where}: cannot be downloaded ({error}). The cache is in HF_HOME; what has arrived "
            "stays there, and the next run goes on."
        ) from error
