"""`psibench schema`: write the config's JSON schema, or see that it is up to date."""

import argparse

from psibench.config.paths import IS_INSTALLED
from psibench.config.paths import SCHEMA as SCHEMA_FILE
from psibench.errors import InputError
from psibench.plan.reference import REFERENCE_FILE, reference_text, schema_text
from psibench.tables.atomic import write_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the option that only compares."""
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 2 if a file is out of date"
    )


def run(args: argparse.Namespace) -> None:
    """Write or compare config/schema.json and docs/config.md."""
    if IS_INSTALLED:
        raise InputError(f"the page is of a checkout; an installed psibench has {SCHEMA_FILE}")
    for path, text in ((SCHEMA_FILE, schema_text()), (REFERENCE_FILE, reference_text())):
        if not args.check:
            write_text(text, path)
            print(f"written: {path}")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            raise InputError(
                f"{path} is not what the typed config gives; run `psibench schema` and commit it"
            )
    if args.check:
        print("config/schema.json and docs/config.md are up to date")


DESCRIPTION = "Generate the config's JSON schema and its reference page."
