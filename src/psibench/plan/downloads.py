"""Which repositories of the hub a config's jobs read, so that they can be fetched before."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from psibench.config.embedding_apis import EmbeddingApiModel
from psibench.config.model_base import EncoderModel, ModelBase
from psibench.config.rerankers import (
    BiEncoderReranker,
    CheckpointReranker,
    CrossEncoderReranker,
    RerankerBase,
)
from psibench.models.checkpoints import local_folder
from psibench.models.manifests import Part, manifest_name

WORDS = "words"


@dataclass(frozen=True)
class Download:
    """One repository at one revision.

    Attributes
    ----------
    code
        Whether code that its config names in other repositories is run.
    code_revision
        Commit of another repository whose code the checkpoint runs.
    """

    repo: str
    revision: str | None = None
    part: Part = "model"
    code: bool = False
    code_revision: str | None = None

    @property
    def name(self) -> str:
        """Name of its manifest, without the suffix."""
        return manifest_name(self.repo, self.revision, self.part).removesuffix(".json")


def model_downloads(entry: ModelBase) -> list[Download]:
    """List what an entry of the model registry reads from the hub: none, or one.

    Raises
    ------
    InputError
        If its checkpoint is a folder that does not exist.
    """
    if isinstance(entry, EncoderModel):
        return _unless_local(
            Download(entry.checkpoint, entry.revision, code=entry.trust_remote_code)
        )
    if isinstance(entry, EmbeddingApiModel):
        return tokenizer_downloads(entry.tokenizer)
    return []


def reranker_downloads(entry: RerankerBase) -> list[Download]:
    """List what an entry of the reranker registry reads from the hub: none, or one."""
    if isinstance(entry, BiEncoderReranker):
        return model_downloads(entry.encoder)
    if not isinstance(entry, CheckpointReranker):
        return []
    download = Download(entry.checkpoint, entry.revision)
    if isinstance(entry, CrossEncoderReranker):
        download = replace(
            download, code=entry.trust_remote_code, code_revision=entry.code_revision
        )
    return _unless_local(download)


def tokenizer_downloads(name: str) -> list[Download]:
    """List what a tokenizer setting reads from the hub: none, or one."""
    return [] if name == WORDS else _unless_local(Download(name, part="tokenizer"))


def by_name(downloads: Iterable[Download]) -> dict[str, Download]:
    """Return downloads by the names of their manifests; entries share what is the same.

    Of entries that share a checkpoint, those that run its code decide what is fetched.
    """
    ordered = sorted(downloads, key=lambda download: (download.code, download.code_revision or ""))
    return {download.name: download for download in ordered}


def _unless_local(download: Download) -> list[Download]:
    return [download] if local_folder(download.repo) is None else []
