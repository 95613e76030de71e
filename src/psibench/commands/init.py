"""`psibench init`: write a first config for your own corpus."""

import argparse
import math
import os
import shlex
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from psibench.commands.base import CONFIG_NAME, refuse_file
from psibench.config.paths import CONFIG_FOLDER, PROFILES
from psibench.errors import InputError, MissingError, missing_extra
from psibench.plain_yaml import CONTROL
from psibench.sources.files import SUPPORTED, find_files, skipped_text

CONFIG_TEMPLATE = CONFIG_FOLDER / "examples" / "own-corpus.yaml"
TEMPLATE_PATHS = "[docs, README.md, CONTRIBUTING.md]"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `psibench init`."""
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=Path(),
        metavar="FOLDER",
        help="default: this folder",
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
        help="also copy this Snakemake profile for editing; `psibench run --profile` in FOLDER "
        "then uses the copy",
    )


def run(args: argparse.Namespace) -> None:
    """Write FOLDER/psibench.yaml and the profile; with --profile an existing config is kept."""
    refuse_file("FOLDER", args.folder)
    config = args.folder / CONFIG_NAME
    made = [config] if args.profile is None else [config, args.folder / args.profile]
    is_kept = args.profile is not None and args.corpus is None and config.exists()
    if is_kept:
        made.remove(config)
    if existing := [str(path) for path in made if path.exists()]:
        raise InputError(f"already exists: {', '.join(existing)}; name another folder")
    sources = args.corpus or [args.folder / "texts"]
    texts = os.path.normpath(sources[0])
    summary = f"Kept: {config}." if is_kept else f"Put your texts into {texts}."
    if args.corpus is None and not is_kept and not has_texts(texts) and has_texts(args.folder):
        summary += f" {args.folder} has texts, too: to use these, give --corpus {args.folder}."
    if args.corpus is not None:
        try:
            skipped = Counter[str]()
            summary = f"Files with texts: {len(find_files(sources, skipped)):,}."
            summary += f"\nNot read: {skipped_text(skipped)}." if skipped else ""
        except MissingError as error:
            raise error.under("--corpus") from error
    corpus = [
        path if Path(path).is_absolute() else os.path.relpath(path, args.folder) for path in sources
    ]
    if odd := [str(path) for path in corpus if CONTROL.search(str(path))]:
        raise InputError(f"{odd[0]!r}: a config cannot name this path; rename it, e.g. with a link")
    args.folder.mkdir(parents=True, exist_ok=True)
    text = CONFIG_TEMPLATE.read_text(encoding="utf-8")
    if not is_kept:
        with config.open("x", encoding="utf-8") as file:
            file.write(text.replace(TEMPLATE_PATHS, _yaml_list(corpus)))
    if args.profile is not None:
        shutil.copytree(PROFILES / args.profile, args.folder / args.profile)
    print("Written:", *made)
    print(summary)
    if not is_kept and all(map(has_texts, sources)):
        print(_query_count(config, sources))
    here = "" if args.folder == Path() else f"cd {shlex.quote(str(args.folder))}; "
    profile = "" if args.profile is None else f"--profile {args.profile} "
    print(f"Next: {here}psibench check {CONFIG_NAME}; psibench run {profile}{CONFIG_NAME}")


def has_texts(path: str | Path) -> bool:
    """Return whether a file exists, or a folder has documents."""
    try:
        return bool(find_files([path]))
    except InputError:
        return False


def _query_count(config: Path, sources: Sequence[str | Path]) -> str:
    """Return a line on the number of queries that a written config makes of its texts."""
    from psibench.config.files import read_yaml
    from psibench.generate.benchmarks import KnownItem, places_of
    from psibench.plan.config import load_config
    from psibench.plan.sources import MOST_DOCUMENTS, first_documents, known_item_count
    from psibench.text.passages import cut_documents

    try:
        (section,) = load_config(read_yaml(config))[0].benchmarks.values()
        assert isinstance(section, KnownItem)
        assert section.source is not None
        (place,) = places_of(section)
        here = {"paths": [str(path) for path in sources]}  # as seen from this folder
        place = replace(place, source=section.source.model_copy(update=here))
        documents = first_documents(place)
    except (InputError, ModuleNotFoundError) as error:
        found = missing_extra(error) if isinstance(error, ModuleNotFoundError) else None
        return f"Queries not counted: {found or error}"
    more = "the first " if documents.height == MOST_DOCUMENTS else ""
    if place.passages is not None:
        documents, _ = cut_documents(documents, **place.passages.model_dump())
    count = known_item_count(section, documents)
    text = count.problem or count
    return f"{more}{documents.height:,} passages; {text}. `psibench check` shows more."


def _yaml_list(texts: list[str]) -> str:
    """Return texts as a YAML list in one line; in double quotes, the only ones with escapes."""
    options: dict[str, Any] = {"default_flow_style": True, "default_style": '"'}
    return yaml.safe_dump(texts, allow_unicode=True, width=math.inf, **options).strip()


DESCRIPTION = (
    "Write psibench.yaml, a commented config for your own corpus. Existing files are not "
    "overwritten."
)
