"""Stage ``download``: a checkpoint into the hub's cache, for jobs on machines without network."""

import json
import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any

from psibench.errors import InputError
from psibench.models.manifests import MAIN, Manifest, Part, is_commit
from psibench.tables.stage import stage

logger = logging.getLogger("psibench")

CODE_FILES = ["*.py", "*.json"]
SETTINGS_FILES = ["*.json", "artifact.metadata", "*.model", "vocab.txt", "merges.txt"]
READ = (
    "*.safetensors", "*.bin", "*.pt", "*.pth", "*.json", "*.txt", "*.model", "*.metadata", "*.py",
    "*.jinja", "*.tiktoken", "*.spm", "*.bpe",
)  # fmt: skip
LEFT_BY_TRAINING = ("*optimizer.*", "*scheduler.p*", "*rng_state*", "*training_args.bin", "runs/*")
OTHER_RUNTIMES = frozenset(("onnx", "openvino", "coreml", "original", "gguf", "tf", "flax"))
"""Folders of weights for other libraries."""
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
    megabytes = sum(manifest.files.values()) / 1e6
    logger.info(
        "%s at %s: %d files, %.1f MB in %s",
        *(repo, manifest.commit, len(manifest.files), megabytes, manifest.folder),
    )


def wanted_files(names: Iterable[str], *, tokenizer_only: bool = False) -> list[str]:
    """Choose the files to download, sorted.

    Left out are weights of other runtimes, what a training run left, pictures and data; PyTorch's
    weights where the same weights are there as safetensors; and a second set of weights under
    another name that another library reads (``consolidated``).
    """
    kept = [name for name in names if _is_read(name)]
    if tokenizer_only:
        kept = [name for name in kept if "/" not in name and _matches(name, TOKENIZER_FILES)]
        return sorted(name for name in kept if not name.endswith(WEIGHTS))
    safe = {_weights_name(name) for name in kept if name.endswith(".safetensors")}
    has_model = any(PurePosixPath(name).name.startswith("model") for name in safe)
    return sorted(
        name
        for name in kept
        if not (
            name.removesuffix(".index.json").endswith((".bin", ".pt", ".pth"))
            and _weights_name(name.removesuffix(".index.json")) in safe
        )
        and not (has_model and _is_consolidated(name))
    )


def _is_read(name: str) -> bool:
    folders = PurePosixPath(name.lower()).parts[:-1]
    is_other = any(part in OTHER_RUNTIMES or part.endswith(".mlpackage") for part in folders)
    return _matches(name.lower(), READ) and not (is_other or _matches(name, LEFT_BY_TRAINING))


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def _weights_name(name: str) -> str:
    """Name the weights a file is (part) of: its folder and its stem, as safetensors names them."""
    path = PurePosixPath(name)
    return str(path.parent / _PART.sub("", path.stem).replace("pytorch_model", "model"))


def _is_consolidated(name: str) -> bool:
    base = PurePosixPath(name).name
    return base.startswith("consolidated") and base.endswith(WEIGHTS)


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

    try:
        info = HfApi().model_info(repo, revision=revision)
        names = [file.rfilename for file in info.siblings or []]
        wanted = wanted_files(names, tokenizer_only=part == "tokenizer")
        _need(wanted, repo, names)
        logger.info("%s: commit %s, %d of %d files", repo, info.sha, len(wanted), len(names))
        patterns = literal_patterns(wanted)
        folder = Path(snapshot_download(repo, revision=revision, allow_patterns=patterns))
    except Exception as error:
        folder = _cached_snapshot(repo, revision, part, error)
        logger.warning("%s: taken as it lies in %s (%s)", repo, folder, type(error).__name__)
        return folder
    if absent := [name for name in wanted if not (folder / name).is_file()]:
        raise InputError(
            f"checkpoint {repo!r}: {absent[0]} was not downloaded; the repository changed "
            "meanwhile. Run it again."
        )
    return folder


def _cached_snapshot(repo: str, revision: str | None, part: Part, error: Exception) -> Path:
    """Return a snapshot that the cache has already, whole as far as its list of files is known.

    Where the hub is out of reach; where it has a fault of its own, that of a pinned commit whose
    files are all known to be there. Any other error is raised again.
    """
    import httpx2
    from huggingface_hub import errors, get_cached_repo_tree, snapshot_download

    away = (errors.OfflineModeIsEnabled, httpx2.TransportError, ConnectionError, TimeoutError)
    is_fault = isinstance(error, errors.HfHubHTTPError) and error.response.status_code >= 500
    if not isinstance(error, away) and not (is_fault and is_commit(revision)):
        raise error
    patterns = None
    with suppress(errors.CachedRepoTreeNotFoundError):
        names = [file.path for file in get_cached_repo_tree(repo, revision=revision)]
        patterns = literal_patterns(wanted_files(names, tokenizer_only=part == "tokenizer"))
    if is_fault and patterns is None:
        raise error
    options: dict[str, Any] = {"local_files_only": True, "allow_patterns": patterns}
    try:
        return Path(snapshot_download(repo, revision=revision, **options))
    except errors.LocalEntryNotFoundError:
        if is_fault:
            raise error from None
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
    # A class is a name, or a list of names and nulls.
    given = [value if isinstance(value, list) else [value] for value in classes.values()]
    named = [name for names in given for name in names if isinstance(name, str)]
    others = {name.partition("--")[0] for name in named if "--" in name} - {repo}
    return {
        other: Path(snapshot_download(other, revision=revision, allow_patterns=CODE_FILES)).name
        for other in sorted(others)
    }


@contextmanager
def _in_plain_words(repo: str, revision: str | None) -> Iterator[None]:
    """Turn what the hub answers into an InputError."""
    from huggingface_hub import errors

    login = "log in on the machine where snakemake runs (`hf auth login`, or HF_TOKEN)"
    try:
        yield
    except (errors.HfHubHTTPError, errors.HFValidationError, OSError) as error:
        match error:
            case errors.GatedRepoError():
                page = f"{error.response.url.host}/{repo}"
                said = f"gated. Accept its conditions on {page}, and {login}."
            case errors.RevisionNotFoundError():
                said = (
                    "the repository has no such commit, branch or tag. Correct `revision` in the "
                    "model's entry."
                )
            case errors.RepositoryNotFoundError():
                said = (
                    "no such repository on the hub, or a private one. Correct `checkpoint`, or "
                    f"{login}."
                )
            case errors.HFValidationError():
                said = f"not a hub name of the form owner/name ({error})"
            case errors.HfHubHTTPError():
                said = f"the hub answered {error.response.status_code} ({error}). Try again later."
            case _:  # a full disk, a cache that cannot be written, a broken transfer
                said = (
                    f"cannot be downloaded ({error}). The cache is in HF_HOME; what has arrived "
                    "stays there, and the next run goes on."
                )
        raise InputError(f"checkpoint {repo!r}, revision {revision or MAIN!r}: {said}") from error
