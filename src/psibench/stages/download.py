"""Stage ``download``: one hub checkpoint into the hub's cache, and its manifest into the store."""

import logging
from pathlib import Path

from psibench.models.downloads import download_checkpoint
from psibench.models.manifests import Part
from psibench.tables.stage import stage

logger = logging.getLogger("psibench")


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
    """Download a checkpoint (or its tokenizer) and write where it lies.

    Raises
    ------
    InputError
        As `psibench.models.downloads.download_checkpoint`.
    """
    manifest = download_checkpoint(
        repo, revision, part=part, code=code, code_revision=code_revision
    )
    manifest.write(output)
    logger.info(
        "%s at %s: %d files, %.1f MB in %s",
        *(repo, manifest.commit, len(manifest.files), manifest.n_bytes / 1e6, manifest.folder),
    )
