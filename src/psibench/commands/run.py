"""`psibench run`: the workflow in this folder, from a config to its tables and its report.

Snakemake runs in this process, as ``python -m snakemake`` would: a signal, the number of the
process in psibench's lock and the exit code are Snakemake's own.
"""

import argparse
import getpass
import logging
import os
import re
import runpy
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
from psibench.cluster.tables_here import FORCE_VARIABLE, REFUSED
from psibench.commands.base import config_file, configs_or_here
from psibench.config.paths import PROFILES, SNAKEFILE
from psibench.errors import InputError
from psibench.importing import importing
from psibench.reading import shown, whole_number

INTERRUPTED = 128 + signal.SIGINT
CONFIG_SUFFIXES = (".yaml", ".yml")
RESULTS = Path("results")
WRITTEN = {
    "all": ("psi_table.csv", "bucket_scores.csv", "report.html", "published.html"),
    "probes": ("probe_table.csv", "probes.html"),
}
"""Files of a target to look at first, those that exist."""
GO_ON = (
    "psibench run: stopped. Finished tables are in results/; texts that were encoded, pairs that "
    "were scored and requests that were answered are in store/. The same command goes on there."
)
LOGGED = re.compile(r"(?m)^\d{4}-\d\d-\d\d [\d:,]+ (?=[A-Z]+ )")
"""Where a record of a job's log begins (`psibench.cluster.job`)."""
KILLED = re.compile(r"died with <Signals\.(\w+)")
"""How Snakemake names the signal that ended a job's process."""
GIVEN_OTHERWISE = {
    "--configfile": "name the config before `--`",
    "--configfiles": "name the config before `--`",
    "--directory": "run in that folder",
    "-d": "run in that folder",
    "--snakefile": "call snakemake itself",
    "-s": "call snakemake itself",
    "--cores": "give it before `--`",
    "-c": "give --cores before `--`",
}
"""Options of Snakemake that are for psibench to give, as it checks what they say."""
TARGETS = (
    "A config ends in .yaml; targets are files of results/ (results/psi_table.csv), and "
    "`probes`. For a folder of texts: `psibench init NAME --corpus FOLDER`"
)


IN_FUNCTION = re.compile(
    r"^InputFunctionException in rule .*?^ *InputError: (?P<said>[^\n]+)", re.MULTILINE | re.DOTALL
)
"""What Snakemake logs of bad input that a function of a rule's inputs or parameters refuses."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the config and targets, and the options of Snakemake that are used most."""
    parser.add_argument(
        "words",
        nargs="*",
        metavar="CONFIG|TARGET",
        help="your config, which ends in .yaml (shipped:presets/squad_posq.yaml is one of "
        "psibench's; of several each is laid over the one before; without any, psibench.yaml if it "
        "is in this folder, else the embedded default, which is shipped:config.yaml); files of "
        "results/ to make, or `probes` "
        "(without any, the PSI table and the report)",
    )
    parser.add_argument(
        "--profile",
        metavar="NAME",
        default="local",
        help="a folder with a profile of Snakemake, or `local` (this machine, the default) or "
        "`slurm`; `psibench init --profile slurm` writes a copy to put your account into",
    )
    parser.add_argument(
        "--cores", metavar="N", type=cores, help="cores of this machine to use; default: all"
    )
    parser.add_argument(
        "--small",
        action="store_true",
        help="lay the config over shipped:small.yaml, `limit: 40` and `stand_ins: true`: the same "
        "chain of jobs in minutes, which measures nothing",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="replace the tables and pages in results/ that another config made",
    )
    parser.add_argument("-n", "--dry-run", action="store_true", help="list the jobs; run nothing")


def run(args: argparse.Namespace) -> None:
    """Check the config, run Snakemake, print the table that was asked for.

    Raises
    ------
    InputError
        If the config is not valid or names files that are not there, there is no such profile, an
        option of Snakemake would run something else, or all jobs that failed were given bad input:
        with what they said.
    SystemExit
        With Snakemake's exit code, if it is not 0; with 128 and its number if a signal ended it.
    """
    configs, targets, options = split_words(args.words)
    configs = configs_or_here(configs)
    if find_spec("snakemake") is None:
        raise ModuleNotFoundError("no Snakemake", name="snakemake")
    _provide_home()
    given, profile = [], profile_folder(args.profile)
    if args.small:
        configs = [config_file("shipped:small.yaml"), *configs]
    if configs:
        from psibench.commands.check import check_config

        print(check_config(*configs, is_run=True), flush=True)
        given = ["--configfile", *map(str, configs)]
    given += [] if args.cores is None else ["--cores", args.cores]
    given += ["--dry-run"] if args.dry_run else []
    if args.force:
        os.environ[FORCE_VARIABLE] = "1"
    failed = BufferingHandler(sys.maxsize)
    failed.setLevel(logging.ERROR)
    with TemporaryFile(dir=".") as now:  # by the clock that dates logs, a file server's maybe
        began = os.fstat(now.fileno()).st_mtime
    status = run_snakemake(
        [
            *("--snakefile", str(SNAKEFILE), "--workflow-profile", str(PROFILES / "default")),
            *("--profile", profile),
            # psibench's own locks go with the processes that hold them (cluster/head_lock.py), so
            # that a killed run needs no --unlock.
            *("--nolock", "--quiet", "host", "reason"),
            *given,
            *options,
            *(["--", *targets] if targets else []),
        ],
        failed,
    )
    if status == INTERRUPTED or stop_signal() is not None:
        print(GO_ON, file=sys.stderr)
        raise SystemExit(128 + (stop_signal() or signal.SIGINT))
    if status:
        refuse_failure(failed.buffer, targets, began)
        for sentence in killed_jobs(failed.buffer, began):
            print(f"psibench run: {sentence}", file=sys.stderr)
        raise SystemExit(status)
    if not args.dry_run and not options:  # with options it may have done anything
        show_results(targets)


def refuse_failure(
    records: Sequence[logging.LogRecord], targets: Sequence[str], began: float
) -> None:
    """Raise InputError if bad input is what made a run fail, by the errors that Snakemake logged.

    ``began`` is when it started, seconds since the epoch.
    """
    for message in (one.getMessage() for one in records):
        if REFUSED in message:
            raise InputError(message[message.index(REFUSED) :].splitlines()[0])
        if refused := IN_FUNCTION.search(message):
            raise InputError(refused["said"])
        for target in targets:
            if f"No rule to produce {target} " in message:
                raise InputError(f"{target}: neither a config nor a target. {TARGETS}")
    said = {log: input_error(Path(log), began) for log in failed_jobs(records)}
    if said and None not in said.values():
        raise InputError("\n".join(f"{text} (log: {log})" for log, text in said.items()))


def _provide_home() -> None:
    """Give Snakemake and libraries a user's name, a home and a cache where there are none.

    Containers and clusters run programs with user ids that have no passwd entry, and with homes
    that are not there or cannot be written.
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
        print(f"psibench run: {cache} cannot be written; caches are in {here}", file=sys.stderr)


def _link_downloads(old: Path, new: Path) -> None:
    """Keep what was downloaded from the hub into a cache that can only be read, as in images."""
    hub = Path("huggingface", "hub")
    for found in (old / hub).glob("*--*"):
        link = new / hub / found.name
        if not link.exists():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(found)


def cores(text: str) -> str:
    """Check a number of cores, or ``all``: with 0 of them Snakemake waits for ever."""
    if text != "all" and whole_number(text, least=1) is None:
        raise argparse.ArgumentTypeError(f"{shown(text)}: give a number from 1, or all")
    return text


def split_words(words: Sequence[str]) -> tuple[list[Path], list[str], list[str]]:
    """Tell the configs, the targets and Snakemake's own options in a command line.

    Raises InputError on an option of Snakemake that the command itself has to give.

    Returns
    -------
    configs, targets, options
        What ends in .yaml, the other words, and all words from the first that begins with ``-``.
    """
    start = next((i for i, word in enumerate(words) if word.startswith("-")), len(words))
    targets, options = list(words[:start]), list(words[start:])
    configs = [word for word in targets if word.lower().endswith(CONFIG_SUFFIXES)]
    for option in options:
        if (instead := GIVEN_OTHERWISE.get(option.split("=")[0])) is not None:
            raise InputError(f"{option} cannot be passed to Snakemake here; {instead}")
    targets = [word for word in targets if word not in configs]
    return [config_file(config) for config in configs], targets, options


def profile_folder(name: str) -> str:
    """Return a profile of this folder as it is, a shipped one by its path, others for Snakemake.

    Raises InputError if Snakemake does not find it either.
    """
    if (PROFILES / name).is_dir() and not Path(name).exists():
        return str(PROFILES / name)
    with importing():
        snakemake = import_module("snakemake.cli")
    if snakemake.get_profile_dir(name) is None:
        raise InputError(
            f"--profile {name}: no such folder with a config.yaml, here or where Snakemake looks "
            "(~/.config/snakemake, /etc/xdg/snakemake). psibench has local and slurm; "
            "`psibench init --profile slurm` writes a copy to edit"
        )
    return str(Path(name).absolute()) if Path(name).exists() else name


def input_error(log: Path, began: float) -> str | None:
    """Return what a job's log says of bad input, if that ended it; None if something else did."""
    level, message = last_record(log, began)
    return message if level == "ERROR" and "\nTraceback" not in message else None


def last_record(log: Path, began: float) -> tuple[str, str]:
    """Return the level and the message that a job's log ends with, empty if it has none.

    A log from before ``began`` is an earlier run's: SLURM may refuse a job, which writes none.
    """
    if not log.is_file() or log.stat().st_mtime < began:
        return "", ""
    *_, last = LOGGED.split(log.read_text(encoding="utf-8", errors="replace"))
    level, _, message = last.partition(" ")
    return level, message.strip()


def killed_jobs(records: Sequence[logging.LogRecord], began: float) -> list[str]:
    """Return a sentence for each failed job that was killed or told to end.

    A job that fails says why in its log, and so does one that is told to end; a killed one says
    nothing. ``began`` is when the run started, seconds since the epoch.
    """
    signals = [found for one in records for found in KILLED.findall(one.getMessage())]
    by = f" by {', '.join(dict.fromkeys(signals))}" if signals else ""
    found = []
    for log, rule in failed_jobs(records).items():
        level, message = last_record(Path(log), began)
        if message.startswith("stopped: "):
            found.append(f"rule {rule} was {message} (log: {log})")
        elif level and level != "ERROR":
            found.append(
                f"rule {rule} was killed{by} (log: {log}). The kernel, or SLURM, kills a job that "
                "needs more memory than there is. What it stored is kept: the same command goes on "
                "there."
            )
    return found


def failed_jobs(records: Sequence[logging.LogRecord]) -> dict[str, str]:
    """Return the rules of the jobs that failed, by the job's log."""
    of_jobs = [one for one in records if one.getMessage().startswith("Error in rule")]
    # A job's own log comes first; an executor, as SLURM's, adds one of its own.
    return {
        next(iter(getattr(one, "log", None) or ["no log"])): getattr(one, "rule_name", "?")
        for one in of_jobs
    }


def run_snakemake(arguments: Sequence[str], failed: logging.Handler) -> int:
    """Run Snakemake in this process and with its own output; return its exit code.

    ``failed`` is told what Snakemake logs, beside its own handlers.
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
    """Print the tables among the targets, and which files to look at."""
    from psibench.commands import show

    asked = targets or ["all" if (RESULTS / "psi_table.parquet").is_file() else "probes"]
    files = [
        path
        for target in asked
        for path in ([RESULTS / name for name in WRITTEN.get(target, ())] or [Path(target)])
        if path.is_file()
    ]
    made = {path.stem for path in files}
    for name in ("psi_table", "probe_table"):
        if name in made:
            show.run(argparse.Namespace(file=RESULTS / f"{name}.parquet"))
    if "psi_table" in made:
        for line in left_out_lines():
            print(line)
    if files:
        print("Written:", *files)


def left_out_lines() -> Iterator[str]:
    """Yield a line for each language and domain of the PSI table's benchmarks without figures."""
    from psibench.tables import read_table
    from psibench.tables.build_schemas import FLOW
    from psibench.tables.domains import by_place
    from psibench.tables.ledger import uneven_cells
    from psibench.tables.schemas import ATTRITION, PSI_TABLE, STATISTICS

    specs = {"statistics": STATISTICS, "flow": by_place(FLOW), "attrition": ATTRITION}
    evaluated = read_table(RESULTS / "psi_table.parquet", PSI_TABLE)["benchmark"]
    for benchmark in evaluated.unique(maintain_order=True):
        paths = {name: RESULTS / benchmark / f"{name}.parquet" for name in specs}
        if not all(path.is_file() for path in paths.values()):  # a view's are its benchmark's
            continue
        cells = uneven_cells(*(read_table(paths[name], spec) for name, spec in specs.items()))
        for language, domain, why in cells.iter_rows():
            yield f"Left out of {benchmark}: {domain} in {language}: {why}"


DESCRIPTION = (
    "Run the workflow in this folder: results/ and store/ are made here. Options of "
    "Snakemake follow after --, as in `psibench run my.yaml -- --until encode`; its exit code is "
    "the command's, but 2 on bad input."
)
