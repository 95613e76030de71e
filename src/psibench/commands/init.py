"""`psibench init`: a config of one's own to begin with."""

import argparse
import math
import os
import shlex
import shutil
from collections import Counter
from pathlib import Path

import yaml

from psibench.commands.base import CONFIG_NAME, refuse_file
from psibench.config.paths import CONFIG_FOLDER, PROFILES
from psibench.errors import InputError, MissingError
from psibench.sources.files import SUPPORTED, find_files, skipped_text

TEMPLATE = CONFIG_FOLDER / "examples" / "own-corpus.yaml"
TEMPLATE_PATHS = "[docs, README.md, CONTRIBUTING.md]"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the folder, where the texts are, and a profile."""
    parser.add_argument(
        "folder", nargs="?", type=Path, default=Path(), metavar="FOLDER", help="default: here"
    )
    parser.add_argument(
        "--corpus",
        nargs="+",
        metavar="PATH",
        help=f"folders or files ({SUPPORTED}) with your texts (default: FOLDER/texts)",
    )
    parser.add_argument(
        "--profile",
        choices=sorted(path.name for path in PROFILES.iterdir() if path.name != "default"),
        help="also copy this profile of Snakemake, to be edited; `psibench run --profile` in "
        "FOLDER then takes the copy",
    )


def run(args: argparse.Namespace) -> None:
    """Write FOLDER/psibench.yaml, and the profile beside it, or beside the one that is there."""
    refuse_file("FOLDER", args.folder)
    config = args.folder / CONFIG_NAME
    made = [config] if args.profile is None else [config, args.folder / args.profile]
    is_kept = args.profile is not None and args.corpus is None and config.exists()
    if is_kept:
        made.remove(config)
    if there := [str(path) for path in made if path.exists()]:
        raise InputError(f"{', '.join(there)}: there already, and kept; name another folder")
    given = args.corpus or [args.folder / "texts"]
    texts = os.path.normpath(given[0])
    found = f"Kept: {config}." if is_kept else f"Put your texts into {texts}."
    if args.corpus is not None:
        try:
            skipped = Counter[str]()
            found = f"Files with texts: {len(find_files(given, skipped)):,}."
            found += f"\nNot read: {skipped_text(skipped)}." if skipped else ""
        except MissingError as error:
            raise error.under("--corpus") from error
    args.folder.mkdir(parents=True, exist_ok=True)
    corpus = [
        path if Path(path).is_absolute() else os.path.relpath(path, args.folder) for path in given
    ]
    text = TEMPLATE.read_text(encoding="utf-8")
    if not is_kept:
        with config.open("x", encoding="utf-8") as file:
            file.write(text.replace(TEMPLATE_PATHS, _yaml_list(corpus)))
    if args.profile is not None:
        shutil.copytree(PROFILES / args.profile, args.folder / args.profile)
    print("Written:", *made)
    print(found)
    here = "" if args.folder == Path() else f"cd {shlex.quote(str(args.folder))}; "
    profile = "" if args.profile is None else f"--profile {args.profile} "
    print(f"Next: {here}psibench check {CONFIG_NAME}; psibench run {profile}{CONFIG_NAME}")


def _yaml_list(texts: list[str]) -> str:
    """Write a list in one line of YAML, whatever characters the texts hold."""
    dumped = yaml.safe_dump(texts, default_flow_style=True, allow_unicode=True, width=math.inf)
    return dumped.strip()


DESCRIPTION = (
    "Write a commented config for a corpus of your own, psibench.yaml. Nothing that is "
    "there is overwritten."
)
