"""`psibench run`: run the workflow in this folder, from a config to tables and report.

Snakemake runs in this process, like ``python -m snakemake``, so signals, the process id in
psibench's lock and the exit code belong to Snakemake.
"""

import argparse
import getpass
import logging
import os
import re
import runpy
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from importlib.util import find_spec
from logging.handlers import BufferingHandler
from pathlib import Path
from tempfile import TemporaryFile

from psibench.cluster.head import stop_signal
from psibench.cluster.tables_here import FORCE_VARIABLE, REFUSED, UNRECORDED
from psibench.commands.base import (
    CONFIG_SUFFIXES,
    config_file,
    configs_or_here,
)
from psibench.config.paths import PROFILES, RESULTS_FOLDER, SNAKEFILE
from psibench.errors import InputError
from psibench.importing import importing
from psibench.reading import shown, whole_number

INTERRUPTED = 128 + signal.SIGINT
MAIN_FILES = {
    "all": ("psi_table.csv", "bucket_scores.csv", "report.html", "published.html"),
    "probes": ("probe_table.csv", "probes.html"),
}
"""The main output files by target."""
CONTINUE_TEXT = (
    "psibench run: stopped. results/ has the finished tables, store/ the encoded texts, scored "
    "pairs and answered requests. The same command continues from there."
)
LOG_RECORD = re.compile(r"(?m)^\d{4}-\d\d-\d\d [\d:,]+ (?=[A-Z]+ )")
"""Matches the start of a record in a job's log (`psibench.cluster.job`)."""
KILL_SIGNAL = re.compile(r"died with <Signals\.(\w+)")
"""Matches the signal that ended a job's process in Snakemake's messages."""
RESERVED_OPTIONS = {
    "--configfile": "name the config before `--`",
    "--configfiles": "name the config before `--`",
    "--directory": "run in that folder",
    "-d": "run in that folder",
    "--snakefile": "call snakemake itself",
    "-s": "call snakemake itself",
    "--cores": "give it before `--`",
    "-c": "give --cores before `--`",
    "--rerun-triggers": "with fewer triggers an edited config would keep the tables of the old one",
}
"""Options of Snakemake that psibench sets and checks itself, with the alternative."""
TARGETS_TEXT = (
    "A config ends in .yaml; targets are files in results/ (e.g. results/psi_table.csv) and "
    "`probes`. For a folder of texts use `psibench init NAME --corpus FOLDER`"
)


SLURM_EXECUTOR = re.compile(r"""(?m)^\s*executor\s*:\s*["']?slurm\b""")
"""Matches the executor of a profile that sends jobs to SLURM."""
INPUT_FUNCTION_ERROR = re.compile(
    r"^InputFunctionException in rule .*?^ *InputError: (?P<message>[^\n]+)",
    re.MULTILINE | re.DOTALL,
)
"""Matches an InputError of an input or parameter function in Snakemake's log."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add configs, targets, and the most common options of Snakemake."""
    parser.add_argument(
        "words",
        nargs="*",
        metavar="CONFIG|TARGET",
        help="CONFIG: a .yaml file, or one that ships with psibench, e.g. "
        "shipped:presets/squad_posq.yaml; each of several overrides the ones before; default: "
        "psibench.yaml in this folder, else the embedded default (shipped:config.yaml). TARGET: "
        "files in results/ to build, or `probes`; default: the PSI table and the report",
    )
    parser.add_argument(
        "--profile",
        metavar="NAME",
        default="local",
        help="a folder with a Snakemake profile, or `local` (this machine, default) or `slurm`; "
        "`psibench init --profile slurm` writes a copy for your account settings",
    )
    parser.add_argument(
        "--cores", metavar="N", type=cores, help="number of cores of this machine; default: all"
    )
    parser.add_argument(
        "--small",
        action="store_true",
        help="test the pipeline in minutes: override shipped:small.yaml (`limit: 40` and "
        "`stand_ins: true`) with the config; its results are meaningless",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="replace tables and pages of another config in results/",
    )
    parser.add_argument(
        "-n", "--dry-run", action="store_true", help="list the jobs without running them"
    )


def run(args: argparse.Namespace) -> None:
    """Check the config, run Snakemake, and print the requested table.

    Raises
    ------
    InputError
        If the config is not valid or names missing files, the profile does not exist, an option is
        reserved, or all failed jobs had bad input (with their messages).
    SystemExit
        With Snakemake's exit code unless it is 0; with 128 plus the number of a signal that
        stopped the run.
    """
    configs, targets, options = split_words(args.words)
    configs = configs_or_here(configs)
    if find_spec("snakemake") is None:
        raise ModuleNotFoundError("no Snakemake", name="snakemake")
    _provide_home()
    own_options, profile = [], profile_folder(args.profile)
    refuse_without_slurm(args.profile, profile, is_dry=args.dry_run)
    if args.small:
        configs = [config_file("shipped:small.yaml"), *configs]
    if configs:
        from psibench.commands.check import validate_config

        print(validate_config(*configs, is_run=True), flush=True)
        own_options = ["--configfile", *map(str, configs)]
    own_options += [] if args.cores is None else ["--cores", args.cores]
    own_options += ["--dry-run"] if args.dry_run else []
    if args.force:
        os.environ[FORCE_VARIABLE] = "1"
    failed = BufferingHandler(sys.maxsize)
    failed.setLevel(logging.ERROR)
    with TemporaryFile(dir=".") as now:  # the same clock as the logs, e.g. of a file server
        began = os.fstat(now.fileno()).st_mtime
    status = run_snakemake(
        [
            *("--snakefile", str(SNAKEFILE), "--workflow-profile", str(PROFILES / "default")),
            *("--profile", profile),
            # psibench's locks end with their processes (cluster/head_lock.py), so a killed run
            # needs no --unlock.
            *("--nolock", "--quiet", "host", "reason"),
            *own_options,
            *options,
            *(["--", *targets] if targets else []),
        ],
        failed,
    )
    if status == INTERRUPTED or stop_signal() is not None:
        print(CONTINUE_TEXT, file=sys.stderr)
        raise SystemExit(128 + (stop_signal() or signal.SIGINT))
    if status:
        for line in lost_in_ledgers(began):
            print(f"psibench run: {line}", file=sys.stderr)
        refuse_failure(failed.buffer, targets, began)
        for sentence in killed_jobs(failed.buffer, began):
            print(f"psibench run: {sentence}", file=sys.stderr)
        raise SystemExit(status)
    if not args.dry_run and not options:  # options may change the targets
        show_results(targets)


def refuse_failure(
    records: Sequence[logging.LogRecord], targets: Sequence[str], began: float
) -> None:
    """Raise InputError if Snakemake's log shows that only bad input made the run fail.

    ``began`` is the start of the run, seconds since the epoch.
    """
    for message in (one.getMessage() for one in records):
        for beginning in (REFUSED, UNRECORDED):
            if beginning in message:
                raise InputError(message[message.index(beginning) :].splitlines()[0])
        if refused := INPUT_FUNCTION_ERROR.search(message):
            raise InputError(refused["message"])
        for target in targets:
            if f"No rule to produce {target} " in message:
                raise InputError(f"{target}: neither a config nor a target. {TARGETS_TEXT}")
    messages = {log: input_error(Path(log), began) for log in failed_jobs(records)}
    if messages and None not in messages.values():
        raise InputError("\n".join(f"{text} (log: {log})" for log, text in messages.items()))


def _provide_home() -> None:
    """Set a user name, a home and a cache folder for Snakemake and libraries if they lack one.

    Containers and clusters may run programs with user ids without a passwd entry, and with homes
    that do not exist or are read-only.
    """
    try:
        getpass.getuser()
    except (KeyError, OSError):
        os.environ["LOGNAME"] = f"uid{os.getuid()}"
    here = Path(".snakemake").absolute()
    if not os.path.isabs(os.path.expanduser("~")):
        os.environ["HOME"] = str(here / "home")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    try:
        (cache / "snakemake").mkdir(parents=True, exist_ok=True)
        is_writable = os.access(cache / "snakemake", os.W_OK)
    except OSError:
        is_writable = False
    if not is_writable:
        os.environ["XDG_CACHE_HOME"] = str(here / "cache")
        _link_downloads(cache, here / "cache")
        print(f"psibench run: {cache} is not writable; using caches in {here}", file=sys.stderr)


def _link_downloads(old: Path, new: Path) -> None:
    """Link downloads of the hub from a read-only cache, e.g. of a container image."""
    hub = Path("huggingface", "hub")
    for found in (old / hub).glob("*--*"):
        link = new / hub / found.name
        if not link.exists():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(found)


def cores(text: str) -> str:
    """Return a number of cores from 1, or ``all``; with 0 cores Snakemake would wait forever."""
    if text != "all" and whole_number(text, least=1) is None:
        raise argparse.ArgumentTypeError(f"{shown(text)}: give a number from 1 on, or all")
    return text


def split_words(words: Sequence[str]) -> tuple[list[Path], list[str], list[str]]:
    """Split a command line into configs, targets and options of Snakemake.

    Raises InputError for an option of `RESERVED_OPTIONS`.

    Returns
    -------
    configs, targets, options
        Words that end in .yaml, other words, and all words from the first that begins with ``-``.
    """
    start = next((i for i, word in enumerate(words) if word.startswith("-")), len(words))
    targets, options = list(words[:start]), list(words[start:])
    configs = [word for word in targets if word.lower().endswith(CONFIG_SUFFIXES)]
    for option in options:
        if (instead := RESERVED_OPTIONS.get(option.split("=")[0])) is not None:
            raise InputError(f"{option} cannot be passed to Snakemake here; {instead}")
    targets = [word for word in targets if word not in configs]
    return [config_file(config) for config in configs], targets, options


def profile_folder(name: str) -> str:
    """Return the path of a local or shipped profile, or the name of one that Snakemake finds.

    Raises InputError if Snakemake does not find it either.
    """
    if (PROFILES / name).is_dir() and not Path(name).exists():
        return str(PROFILES / name)
    with importing():
        snakemake = import_module("snakemake.cli")
    if snakemake.get_profile_dir(name) is None:
        raise InputError(
            f"--profile {name}: no such folder with a config.yaml, here or in Snakemake's folders "
            "(~/.config/snakemake, /etc/xdg/snakemake). psibench ships local and slurm; "
            "`psibench init --profile slurm` writes a copy to edit"
        )
    return str(Path(name).absolute()) if Path(name).exists() else name


def refuse_without_slurm(name: str, folder: str, *, is_dry: bool = False) -> None:
    """Raise InputError if a profile sends jobs to SLURM, which this machine does not have.

    ``folder`` is what `profile_folder` returned for ``name``. A dry run needs no SLURM.
    """
    if is_dry:
        return
    config = next((path for path in Path(folder).glob("config*.yaml") if path.is_file()), None)
    text = "" if config is None else config.read_text(encoding="utf-8", errors="replace")
    if SLURM_EXECUTOR.search(text) and shutil.which("sbatch") is None:
        raise InputError(
            f"--profile {name}: SLURM is not installed: there is no `sbatch` on this machine. Run "
            "psibench on a login node of the cluster (load its SLURM module if it has one), or use "
            "`--profile local` to run on this machine"
        )


def input_error(log: Path, began: float) -> str | None:
    """Return the message of a job that ended with bad input; None if it ended otherwise."""
    level, message = last_record(log, began)
    return message if level == "ERROR" and "\nTraceback" not in message else None


def last_record(log: Path, began: float) -> tuple[str, str]:
    """Return level and message of the last record in a job's log; empty texts without a record.

    A log older than ``began`` belongs to an earlier run: a job that SLURM refuses writes none.
    """
    if not log.is_file() or log.stat().st_mtime < began:
        return "", ""
    *_, last = LOG_RECORD.split(log.read_text(encoding="utf-8", errors="replace"))
    level, _, message = last.partition(" ")
    return level, message.strip()


def killed_jobs(records: Sequence[logging.LogRecord], began: float) -> list[str]:
    """Return a sentence for each failed job that was killed or stopped.

    A failed or stopped job logs the reason; a killed job does not. ``began`` is the start of the
    run, seconds since the epoch.
    """
    signals = [found for one in records for found in KILL_SIGNAL.findall(one.getMessage())]
    by = f" by {', '.join(dict.fromkeys(signals))}" if signals else ""
    found = []
    for log, rule in failed_jobs(records).items():
        level, message = last_record(Path(log), began)
        if message.startswith("stopped: "):
            found.append(f"rule {rule} was {message} (log: {log})")
        elif level and level != "ERROR":
            found.append(
                f"rule {rule} was killed{by} (log: {log}). The kernel, or SLURM, kills a job that "
                "runs out of memory. Its stored results are kept: the same command continues from "
                "there."
            )
    return found


def failed_jobs(records: Sequence[logging.LogRecord]) -> dict[str, str]:
    """Return the rules of the failed jobs by log file."""
    errors = [one for one in records if one.getMessage().startswith("Error in rule")]
    # The first log belongs to the job; an executor, e.g. SLURM's, adds another.
    return {
        next(iter(getattr(one, "log", None) or ["no log"])): getattr(one, "rule_name", "?")
        for one in errors
    }


def run_snakemake(arguments: Sequence[str], failed: logging.Handler) -> int:
    """Run Snakemake in this process with its usual output; return its exit code.

    ``failed`` also receives Snakemake's log records.
    """
    argv, sys.argv = sys.argv, ["snakemake", *arguments]
    logging.getLogger("snakemake").addHandler(failed)
    try:
        with redirect_stdout(sys.__stdout__), redirect_stderr(sys.__stderr__):
            with importing():
                import_module("snakemake.cli")
            runpy.run_module("snakemake", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        sys.argv = argv
        logging.getLogger("snakemake").removeHandler(failed)
    return 0


def show_results(targets: Sequence[str]) -> None:
    """Print the tables among the targets, and the names of the main files."""
    from psibench.commands import show

    targets = targets or ["all" if (RESULTS_FOLDER / "psi_table.parquet").is_file() else "probes"]
    files = [
        path
        for target in targets
        for path in (
            [RESULTS_FOLDER / name for name in MAIN_FILES.get(target, ())] or [Path(target)]
        )
        if path.is_file()
    ]
    stems = {path.stem for path in files}
    for name in ("psi_table", "probe_table"):
        if name in stems:
            show.show_table(RESULTS_FOLDER / f"{name}.parquet")
    if "psi_table" in stems:
        for line in left_out_lines():
            print(line)
    if files:
        print("Written:", *files)


def lost_in_ledgers(began: float) -> Iterator[str]:
    """Yield where benchmarks without queries lost them, from the ledgers that this run wrote.

    ``began`` is the start of the run, seconds since the epoch.
    """
    from psibench.commands.show import lost_lines
    from psibench.tables.ledger import is_unfinished

    for path in sorted(RESULTS_FOLDER.glob("*/flow.parquet")):
        if is_unfinished(path) and path.stat().st_ctime >= began:
            yield from lost_lines(path.parent)
            yield f"{path.parent.name}: all steps are in {path} and attrition.parquet"


def left_out_lines() -> Iterator[str]:
    """Yield a line for each language and domain of a benchmark without results."""
    from psibench.tables import read_table
    from psibench.tables.build_schemas import FLOW
    from psibench.tables.domains import by_place
    from psibench.tables.ledger import uneven_cells
    from psibench.tables.schemas import ATTRITION, PSI_TABLE, STATISTICS

    specs = {"statistics": STATISTICS, "flow": by_place(FLOW), "attrition": ATTRITION}
    evaluated = read_table(RESULTS_FOLDER / "psi_table.parquet", PSI_TABLE)["benchmark"]
    for benchmark in evaluated.unique(maintain_order=True):
        paths = {name: RESULTS_FOLDER / benchmark / f"{name}.parquet" for name in specs}
        if not all(
            path.is_file() for path in paths.values()
        ):  # a view uses the files of its benchmark
            continue
        cells = uneven_cells(*(read_table(paths[name], spec) for name, spec in specs.items()))
        for language, domain, why in cells.iter_rows():
            yield f"Left out of {benchmark}: {domain} in {language}: {why}"


DESCRIPTION = (
    "Run the workflow in this folder, with outputs in results/ and store/. Options of Snakemake "
    "follow after --, e.g. `psibench run my.yaml -- --until encode`. Returns Snakemake's exit "
    "code, or 2 for bad input."
)
