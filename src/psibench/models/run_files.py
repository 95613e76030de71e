"""Where the runs of a system outside psibench lie: paths from a registry entry."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from psibench.config.models import RunFilesModel
from psibench.errors import InputError, MissingError

DOMAIN = "{domain}"


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
    """Say whether each domain has a file of its own."""
    return DOMAIN in entry.path


def check_run_files(
    entry: RunFilesModel, runs: Iterable[tuple[Mapping[str, str], Sequence[str]]]
) -> None:
    """Refuse files that are missing, or that stand for two runs.

    Parameters
    ----------
    runs : of each run its labels (``benchmark``, ``query_lang``, ``corpus_lang``; others are
        ignored) and its domains.

    Raises
    ------
    InputError
        If the path gives the same file to two runs: with parallel query ids the same results would
        count for both languages, and nothing would show it.
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
                    f"{path} stands for two runs ({run_of[path]}; {run}). Put "
                    "{benchmark}, {query_lang} or {corpus_lang} into its path"
                )
            run_of[path] = run
    for path, run in run_of.items():
        if not Path(path).is_file():
            raise MissingError(
                f"no file {path!r} in {Path.cwd()} for {run}; relative paths start at the working "
                "directory"
            )
