"""Files and records of a dataset on the hub, or of a folder with the same layout."""

import os
import re
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from psibench.config.sources import HubSource
from psibench.errors import InputError
from psibench.sources.files import PARQUET_ROWS, is_inside
from psibench.tables import content_hash

STREAM_BUFFER = 8 << 20
COMPRESSED_SUFFIX = re.compile(r"\.\w+(\.(gz|bz2|xz|zst|lz4))?$")


@dataclass(frozen=True)
class HubFile:
    """A file of a dataset on the hub, or of a folder with the same layout.

    Attributes
    ----------
    url
        Its path, or its address with the commit to read.
    name
        Its path inside the dataset.
    """

    source: HubSource
    split: str
    url: str
    name: str
    is_whole: ClassVar[bool] = False

    @property
    def key(self) -> str:
        """The file's path inside the dataset without suffixes; ids start with it."""
        return COMPRESSED_SUFFIX.sub("", self.name)

    def identity(self) -> str:
        """Return a text that changes when the file's content or name does.

        On the hub it uses the content's id from the listing of files, so a new commit of the
        dataset that does not change the file does not change the identity.
        """
        if "://" not in self.url:
            return f"{self.source.name}/{self.name} {content_hash(self.url)}"
        from huggingface_hub import HfFileSystem

        found = HfFileSystem().info(self.url, expand_info=False)
        return f"{self.source.name}/{self.name} {found.get('blob_id') or self.url}"

    def records(self, columns: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield ``(origin, record)``; of Parquet only ``columns``, if the file has them all.

        Raises InputError if the file cannot be read.
        """
        try:
            for number, record in enumerate(self._open(columns)):
                yield f"{self.source.name}/{self.name}, record {number}", record
        except Exception as error:  # datasets raises many kinds
            raise _unreadable(self.source, self.split, error) from error

    def _open(self, columns: Sequence[str]) -> Any:
        """Open only this file; of a Parquet file, hold at most one row group in memory.

        By default, Arrow reads ahead: a file of 400 MB took 1.2 GB of memory.
        """
        from datasets import Features
        from datasets.download import DownloadManager

        builder = copy(_builder(self.source.model_dump_json()))
        builder.config, builder.info = copy(builder.config), copy(builder.info)
        is_here = self.source.streaming or "://" not in self.url
        path = self.url if is_here else DownloadManager().download(self.url)
        builder.config.data_files = {self.split: [path]}
        dataset = _stream(builder, self.split)
        if not hasattr(builder.config, "fragment_scan_options"):
            return dataset
        from pyarrow.dataset import ParquetFragmentScanOptions  # imports pandas

        builder.config.fragment_scan_options = ParquetFragmentScanOptions(
            pre_buffer=False, use_buffered_stream=True, buffer_size=STREAM_BUFFER
        )
        builder.config.batch_size = PARQUET_ROWS
        every = dataset.features
        needed = [name for name in every if any(is_inside(column, name) for column in columns)]
        if all(any(is_inside(column, name) for name in needed) for column in columns):
            builder.config.columns = needed
            builder.info.features = Features({name: every[name] for name in needed})
        return _stream(builder, self.split)


def _stream(builder: Any, split: str) -> Any:
    from unittest.mock import patch

    from datasets import config

    # If torch is installed, the library imports it to share a counter: seconds, and 250 MB.
    with patch.object(config, "TORCH_AVAILABLE", False):
        return builder.as_streaming_dataset(split=split)


def hub_record_files(source: HubSource) -> list[HubFile]:
    """List the files of a dataset's splits, or those in ``data_files``, in reading order.

    Raises InputError if the dataset cannot be found, or has no such split.
    """
    files = []
    _builder.cache_clear()  # a folder's files may have changed
    for split in source.splits:
        try:
            builder = _builder(source.model_dump_json())
            urls = builder.config.data_files[split]
        except Exception as error:  # datasets raises many kinds
            raise _unreadable(source, split, error) from error
        root = f"{builder.base_path}/" if builder.base_path else ""
        files += [HubFile(source, split, url, _path_inside(url, root)) for url in urls]
    return files


def _path_inside(url: str, root: str) -> str:
    """Return a file's path below the dataset's root."""
    if "://" not in url:
        return os.path.relpath(url, root or ".").replace(os.sep, "/")
    return url.removeprefix(root)


@lru_cache(maxsize=4)
def _builder(section: str) -> Any:
    """Return the library's builder, which lists a dataset's files and how to read them."""
    from datasets import load_dataset_builder

    source = HubSource.model_validate_json(section)
    files = source.data_files
    return load_dataset_builder(
        source.name, source.config, data_files=files, revision=source.revision
    )


def _unreadable(source: HubSource, split: str, error: Exception) -> InputError:
    return InputError(
        f"dataset {source.name!r}, config {source.config!r}, split {split!r}, revision "
        f"{source.revision!r}: cannot be loaded ({type(error).__name__}: {error}). Check name, "
        "split and revision; on a machine without network, use a local folder."
    )
