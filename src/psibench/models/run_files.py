"""Paths of the run files of a system outside psibench, from its registry entry."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from psibench.config.models import RunFilesModel
from psibench.errors import InputError, MissingError

_DOMAIN_FIELD = "{domain}"


def run_files(
    entry: RunFilesModel,
    *,
    benchmark: str,
    query_lang: str,
    corpus_lang: str,
    domains: Sequence[str],
) -> list[str]:
    """List the files of one run: one per domain in their order, or one for all domains."""
    labels = {"benchmark": benchmark, "query_lang": query_lang, "corpus_lang": corpus_lang}
    each = domains if is_per_domain(entry) else [""]
    return [entry.path.format(**labels, domain=domain) for domain in each]


def is_per_domain(entry: RunFilesModel) -> bool:
    """Return whether there is a file per domain."""
    return _DOMAIN_FIELD in entry.path


def check_run_files(
    entry: RunFilesModel, runs: Iterable[tuple[Mapping[str, str], Sequence[str]]]
) -> None:
    """Refuse missing files, and a file that is used for two runs.

    Parameters
    ----------
    runs
        The labels of each run (``benchmark``, ``query_lang``, ``corpus_lang``; others are ignored)
        and its domains.

    Raises
    ------
    InputError
        If two runs have the same path: with parallel query ids, the same results would silently
        count for both languages.
    MissingError
        If a file does not exist.
    """
    run_of: dict[str, str] = {}
    for labels, domains in runs:
        run_labels = {key: labels[key] for key in ("benchmark", "query_lang", "corpus_lang")}
        run = "{benchmark}, {query_lang} -> {corpus_lang}".format(**run_labels)
        for path in run_files(entry, **run_labels, domains=domains):
            if path in run_of:
                raise InputError(
                    f"{path} is used for two runs ({run_of[path]}; {run}). Put {{benchmark}}, "
                    "{query_lang} or {corpus_lang} into `path` of the model's entry"
                )
            run_of[path] = run
    for path, run in run_of.items():
        if not Path(path).is_file():
            raise MissingError(
                f"no file {path!r} in {Path.cwd()} for {run}; relative paths start at the working "
                "directory"
            )
