"""Files of a release on the hub, fetched by name and revision."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from psibench.errors import InputError

REPOSITORY = r"^[\w-][\w.-]*/[\w.-]+$"
"""How a dataset on the hub is named: owner/name."""


def release_on_hub(
    name: str, wanted: Mapping[str, Sequence[str]], *, revision: str | None
) -> dict[str, Path]:
    """Fetch one file per table; what was fetched before is taken from the hub's own cache.

    Parameters
    ----------
    wanted : table -> paths in the dataset; the first that exists counts.

    Raises
    ------
    InputError
        If the dataset cannot be reached, or has none of a table's paths.
    """
    return {table: _fetch(name, paths, revision) for table, paths in wanted.items()}


def _fetch(name: str, paths: Sequence[str], revision: str | None) -> Path:
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    for path in paths:
        try:
            return Path(hf_hub_download(name, path, repo_type="dataset", revision=revision))
        except LocalEntryNotFoundError as error:  # not fetched before, and no answer now
            raise _unreachable(name, revision, error) from error
        except EntryNotFoundError:
            continue
        except Exception as error:  # the client's kinds differ by version
            raise _unreachable(name, revision, error) from error
    raise InputError(
        f"dataset {name!r}, revision {revision!r}: no file {paths[0]}; check `languages` and "
        "`domains`"
    )


def _unreachable(name: str, revision: str | None, error: Exception) -> InputError:
    return InputError(
        f"{name}: no such folder in {Path.cwd()}, and as a dataset on the hub, revision "
        f"{revision!r}, it cannot be loaded ({type(error).__name__}: {error}). Check the name; on "
        "a machine without network, give a local folder."
    )
