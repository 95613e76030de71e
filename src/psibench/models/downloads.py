"""Stage ``download``: fetch a checkpoint into the hub's cache, for jobs without network."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from psibench.errors import InputError
from psibench.models.manifests import MAIN, CheckpointPart, Manifest, file_sizes
from psibench.tables.job import Job
from psibench.tables.stage import stage

logger = logging.getLogger("psibench")

SETTINGS_FILES = ["*.json", "artifact.metadata", "*.model", "vocab.txt", "merges.txt"]
READ = [
    "*.safetensors", "*.bin", "*.pt", "*.pth", "*.json", "*.txt", "*.model", "*.metadata", "*.py",
    "*.jinja", "*.tiktoken", "*.spm", "*.bpe",
]  # fmt: skip
NEVER_READ = [
    "onnx/*", "openvino/*", "coreml/*", "*.mlpackage/*", "original/*", "gguf/*", "tf/*", "flax/*",
    "*optimizer.*", "*scheduler.p*", "*rng_state*", "*training_args.bin", "runs/*",
]  # fmt: skip
"""Weights for other libraries, and files that a training run left."""
OTHER_WEIGHTS = ["pytorch_model*", "consolidated*"]
"""Copies of the weights, skipped if `MODEL_WEIGHTS` exist."""
MODEL_WEIGHTS = "model*.safetensors"
TOKENIZER_FILES = [
    "*token*.json", "*.model", "*.tiktoken", "vocab*", "merges.txt", "special_tokens_map.json",
    "config.json", "chat_template*", "*.py",
]  # fmt: skip
NOT_OF_A_TOKENIZER = ["*/*", "*.safetensors", "*.bin", "*.pt", "*.pth"]


@stage("download", version=1)
def run_download(job: Job) -> None:
    """Download a checkpoint (or its tokenizer) and write its manifest.

    Raises
    ------
    InputError
        As `download_checkpoint`.
    """
    part = job.value("part", CheckpointPart, default="model")
    manifest = download_checkpoint(job.value("repo"), job.value("revision"), part=part)
    manifest.write(str(job.outputs["manifest"]))
    megabytes = sum(manifest.files.values()) / 1e6
    logger.info(
        "%s at %s: %d files, %.1f MB in %s",
        *(manifest.repo, manifest.commit, len(manifest.files), megabytes, manifest.folder),
    )


def download_checkpoint(
    repo: str, revision: str | None, *, part: CheckpointPart = "model"
) -> Manifest:
    """Download the files of a hub repository that psibench reads into the hub's cache (HF_HOME).

    If the hub does not answer, a complete snapshot in the cache is used.

    Parameters
    ----------
    revision
        Commit, branch or tag; None is the default branch.

    Raises
    ------
    InputError
        If there is no such repository or revision, it is gated, the hub cannot be reached, or the
        disk is full.
    """
    from huggingface_hub.utils import filter_repo_objects

    wanted, left_out = READ, [*NEVER_READ, *OTHER_WEIGHTS]
    if part == "tokenizer":
        wanted, left_out = TOKENIZER_FILES, NOT_OF_A_TOKENIZER
    folder = _snapshot(repo, revision, wanted, left_out)
    if part == "model" and next(folder.glob(MODEL_WEIGHTS), None) is None:
        left_out = NEVER_READ
        folder = _snapshot(repo, revision, wanted, left_out)
    sizes = file_sizes(folder)
    names = filter_repo_objects(sizes, allow_patterns=wanted, ignore_patterns=left_out)
    files = {name: sizes[name] for name in names}
    if not files:
        raise InputError(
            f"checkpoint {repo!r}: found no file that psibench reads. Is it a repository of a "
            "model, with weights in safetensors or PyTorch format?"
        )
    return Manifest(repo, revision, folder.name, str(folder), files, part)


def download_settings(repo: str, revision: str | None) -> Path:
    """Download the settings of a hub repository, without its weights; return the folder.

    Raises
    ------
    InputError
        As ``download_checkpoint``.
    """
    return _snapshot(repo, revision, SETTINGS_FILES, [])


def _snapshot(repo: str, revision: str | None, wanted: list[str], left_out: list[str]) -> Path:
    """Download the files that match; return their folder in the cache, named by the commit."""
    from huggingface_hub import snapshot_download

    with _in_plain_words(repo, revision):
        folder = Path(
            snapshot_download(
                repo, revision=revision, allow_patterns=wanted, ignore_patterns=left_out
            )
        )
        folder.mkdir(parents=True, exist_ok=True)  # if no file matches, the hub makes no folder
        return folder


@contextmanager
def _in_plain_words(repo: str, revision: str | None) -> Iterator[None]:
    """Raise the hub's errors as InputErrors."""
    import httpx2
    from huggingface_hub import errors

    login = "log in on the machine where snakemake runs (`hf auth login`, or HF_TOKEN)"
    try:
        yield
    except (errors.HfHubHTTPError, errors.HFValidationError, httpx2.HTTPError, OSError) as error:
        match error:
            case errors.GatedRepoError():
                page = f"{error.response.url.host}/{repo}"
                reason = f"gated. Accept its conditions on {page}, and {login}."
            case errors.RevisionNotFoundError():
                reason = "no such commit, branch or tag. Correct `revision` in the model's entry."
            case errors.RepositoryNotFoundError() | errors.HFValidationError():
                reason = (
                    "no such repository owner/name, or a private one. Correct `checkpoint`, or "
                    f"{login}."
                )
            case errors.LocalEntryNotFoundError() | httpx2.TransportError():
                reason = (
                    f"the hub does not answer ({error.__cause__ or error}) and the cache does not "
                    "have all files. Checkpoints are downloaded on the machine where snakemake "
                    "runs: start it on a machine with network (HF_ENDPOINT and HTTPS_PROXY are "
                    "respected, HF_HUB_OFFLINE must be unset), or give a local folder as "
                    "`checkpoint`."
                )
            case _:  # a full disk, a cache that cannot be written, a broken transfer
                reason = (
                    f"cannot be downloaded ({error}). The cache in HF_HOME keeps the part that "
                    "was downloaded, and the next run continues with it."
                )
        raise InputError(f"checkpoint {repo!r}, revision {revision or MAIN!r}: {reason}") from error
