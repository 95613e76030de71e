"""Write docs/reproduce.md: how to obtain each published table, what it says, and what differs.

python tools/reproduce_page.py            write the page from config/published/recipes.yaml
python tools/reproduce_page.py --check    is it up to date, and does each command name a config
                                          whose dry run passes (`make dry` runs all of them)?
"""

import argparse
import csv
import shlex
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
PUBLISHED = ROOT / "config" / "published"
PAGE = ROOT / "docs" / "reproduce.md"
MOST_ROWS = 12
"""Rows of a published table that are shown here; longer ones are files to open."""
TARGETS = {"psi", "probes", "train"}
KEYS = {"id", "tables", "what", "command", "needs", "output", "differs", "obtained", "small"}
SMALL_KEYS = {"command", "obtained", "shows"}


def read_recipes() -> list[dict[str, Any]]:
    """Read the recipes; exit with what is wrong where a key, a file or a command is."""
    recipes = yaml.safe_load((PUBLISHED / "recipes.yaml").read_text(encoding="utf-8"))
    wrong = []
    for recipe in recipes:
        name = recipe.get("id")
        if missing := KEYS - {"small", "obtained"} - set(recipe):
            wrong.append(f"{name}: lacks {', '.join(sorted(missing))}")
        if unknown := set(recipe) - KEYS:
            wrong.append(f"{name}: unknown keys {', '.join(sorted(unknown))}")
        if "small" in recipe and set(recipe["small"]) != SMALL_KEYS:
            wrong.append(f"{name}: small has not just {', '.join(sorted(SMALL_KEYS))}")
        for table in recipe.get("tables", []):
            if not (PUBLISHED / f"{table}.csv").is_file():
                wrong.append(f"{name}: there is no config/published/{table}.csv")
        commands = [recipe.get("command", ""), recipe.get("small", {}).get("command", "make psi")]
        wrong += [f"{name}: {reason}" for command in commands for reason in faults(command)]
    covered = {table for recipe in recipes for table in recipe["tables"]}
    no_recipe = {path.stem for path in PUBLISHED.glob("*_table*.csv")} - covered
    wrong += [f"{table}: no recipe says how to obtain it" for table in sorted(no_recipe)]
    if wrong:
        sys.exit("config/published/recipes.yaml: " + "\n  ".join(["", *wrong]))
    return recipes


def faults(command: str) -> list[str]:
    """Say what is wrong with a command: its target, or a shipped config that is not there."""
    program, target, *rest = shlex.split(command) or ["", ""]
    if (program, target) != ("psibench", "run") and (program != "make" or target not in TARGETS):
        allowed = f"make {', '.join(sorted(TARGETS))}; psibench run"
        return [f"{command!r}: allowed are {allowed}"]
    configs = [word.removeprefix("CONFIG=") for word in rest]
    lost = [path for path in configs if path.startswith("config/") and not (ROOT / path).is_file()]
    return [f"{command!r}: there is no {path}" for path in lost]


def published_table(name: str) -> str:
    """Return a published table as Markdown where it is short, and where it is."""
    path = PUBLISHED / f"{name}.csv"
    with path.open(encoding="utf-8", newline="") as file:
        heading, *rows = csv.reader(file)
    source = rows[0][heading.index("source")]
    link = f"[{path.name}](../config/published/{path.name})"
    if len(rows) > MOST_ROWS:
        return f"{source}: {len(rows)} rows, {link}."
    keep = [i for i, column in enumerate(heading) if column != "source"]
    lines = ["| " + " | ".join(heading[i] for i in keep) + " |", "|" + "---|" * len(keep)]
    lines += ["| " + " | ".join(row[i] for i in keep) + " |" for row in rows]
    return f"{source} ({link}):\n\n" + "\n".join(lines)


def heading(recipe: dict[str, Any]) -> str:
    """Return a recipe's title."""
    what: str = recipe["what"]
    return what if what.startswith("nDCG") else what[0].upper() + what[1:]


def status(recipe: dict[str, Any]) -> str:
    """Return a recipe's row of the table of what was obtained when."""
    when = [recipe.get("obtained", "not yet"), recipe.get("small", {}).get("obtained", "-")]
    return f"| {heading(recipe)} | " + " | ".join(text.partition(":")[0] for text in when) + " |"


def page(recipes: list[dict[str, Any]]) -> str:
    """Return the page as Markdown."""
    parts = [
        "# The papers' tables",
        "How to obtain each published table, what it says, what it needs, what was obtained and "
        "what differs. Figures on small data test the protocol and are not the paper's. "
        "`results/published.html` puts a run's own figures beside the published ones by itself.",
        "Written by `tools/reproduce_page.py` from "
        "[recipes.yaml](../config/published/recipes.yaml). `psibench check`, `plan` and `estimate` "
        "say of each config what it would run and cost.",
        "| | at the paper's size | on small data |\n|---|---|---|\n"
        + "\n".join(map(status, recipes)),
    ]
    shown: set[str] = set()
    for recipe in recipes:
        facts = [
            ("needs", recipe["needs"]),
            ("figures", recipe["output"]),
            ("differs", recipe["differs"]),
            ("obtained", recipe.get("obtained", "not yet")),
        ]
        if small := recipe.get("small"):
            facts.append(("on small data", f"`{small['command']}`: {small['shows']}"))
            facts.append(("obtained there", small["obtained"]))
        parts += [
            f"## {heading(recipe)}",
            f"```\n{recipe['command']}\n```",
            "\n".join(f"- **{name}**: {' '.join(text.split())}" for name, text in facts),
            *(published_table(table) for table in recipe["tables"] if table not in shown),
        ]
        shown.update(recipe["tables"])
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Write or check the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="exit with 1 if it is not up to date")
    args = parser.parse_args()
    text = page(read_recipes())
    if not args.check:
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != text:
        sys.exit("docs/reproduce.md is not what its recipes say: python tools/reproduce_page.py")


if __name__ == "__main__":
    main()
