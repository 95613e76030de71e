"""Write the numbers measured by `studies/inference` into docs/psi*.md, or check them.

    python tools/psi_figures.py             # write the numbers into the pages
    python tools/psi_figures.py --check     # list numbers that are out of date or have no source
    python tools/psi_figures.py --list      # print each number with its cells of the results

A comment with a name follows each number on a page: `2.8 %<!--size_least-->`. The entry of that
name in docs/psi-figures.yaml describes the source:

    file: results.csv      file in studies/inference/results; default results.csv
    cells, but: regexes    cells whose name matches the first regex and not the second
    what: text             quantity of these cells
    claim, target: text    only lines with this claim, and with this target
    take: min              or max, mean, count, count_below 0.93, only (requires one line)
    form: 0.0 %            decimals of the number; % makes it a share, + adds a sign
    least: 100             only lines with at least this many data sets; default 100
    with: [0.8]            parameters of these cells that their names lack

Arguments may follow a name, `<!--power squad 0.7-->`; they replace {0}, {1} in the entry.
"""

import csv
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).resolve().parents[1]
PAGES = [REPOSITORY / "docs" / f"{name}.md" for name in ("psi", "psi-method", "psi-accuracy")]
ENTRIES = REPOSITORY / "docs" / "psi-figures.yaml"
RESULTS = REPOSITORY / "studies" / "inference" / "results"
MEASURED = ("How well it works", "Limits")
"""Sections in which each number needs a source."""
MARKED = re.compile(r"(?P<figure>…|[+−]?\d[\d,.]*(?: %)?)<!--(?P<name>[^>]+?)-->")
FIGURE = re.compile(r"(?<![\d.])\d+(?:\.\d+(?: %)?| %)")
NOT_MEASURED = "…"
KNOWN = {"0.05", "5 %", "95 %"}
"""Levels of tests and intervals, which need no source."""


@cache
def entries() -> dict[str, dict[str, Any]]:
    """Return the entries of docs/psi-figures.yaml by name."""
    found: dict[str, dict[str, Any]] = yaml.safe_load(ENTRIES.read_text(encoding="utf-8"))
    return found


@cache
def lines(name: str) -> list[dict[str, str]]:
    """Return the lines of a results file."""
    with (RESULTS / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def entry(name: str) -> dict[str, Any]:
    """Return an entry with the arguments of its name filled in."""
    key, *arguments = name.split()
    one = dict(entries()[key])
    if arguments:
        one["cells"] = one["cells"].format(*map(re.escape, arguments))
        one["what"] = one["what"].format(*arguments)
    return one


def chosen(name: str) -> list[dict[str, str]]:
    """Return the lines of the results from which a number is computed."""
    one = entry(name)
    return [
        line
        for line in lines(one.get("file", "results.csv"))
        if re.search(one["cells"], line["cell"])
        and not ("but" in one and re.search(one["but"], line["cell"]))
        and one["what"] == line.get("what", line.get("rule"))
        and one.get("claim", line.get("claim")) == line.get("claim")
        and one.get("target", line["target"]) == line["target"]
        and line["found"] not in ("", "nan")
        and float(line.get("counted", line["replicates"])) >= one.get("least", 100)
    ]


def figure(name: str) -> str:
    """Return a number formatted for the pages; `NOT_MEASURED` without a line."""
    one, found = entry(name), [float(line["found"]) for line in chosen(name)]
    if not found:
        return NOT_MEASURED
    if one["take"] == "only" and len(found) > 1:
        raise ValueError(f"{name}: {len(found)} lines; make `cells` match one")
    take, *limit = one["take"].split()
    value = {
        "min": min,
        "max": max,
        "only": min,
        "mean": lambda of: sum(of) / len(of),
        "count": len,
        "count_below": lambda of: sum(value < float(limit[0]) for value in of),
    }[take](found)
    return formatted(value, one["form"])


def formatted(value: float, form: str) -> str:
    """Format a value by a form such as ``0.00``, ``+0.000`` or ``0 %``."""
    percent = form.endswith(" %")
    decimals = len(form.removesuffix(" %").partition(".")[2])
    sign = "+" if form.startswith("+") else ""
    text = f"{100 * value if percent else value:{sign},.{decimals}f}".replace("-", "−")
    return f"{text} %" if percent else text


def sections(page: str) -> Iterator[str]:
    """Yield the sections of a page whose numbers are measured."""
    for section in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        if section.partition("\n")[0] in MEASURED:
            yield section


def without_source(page: str) -> list[str]:
    """Return the numbers in these sections that have no comment.

    Only numbers with decimals and percentages count. Parameters of the cells of a paragraph's other
    numbers need no comment.
    """
    found = []
    for block in re.split(r"\n\n(?!\|)|\n- ", "\n\n".join(sections(page))):
        names = [mark["name"] for mark in MARKED.finditer(block)]
        parameters = {float(text) for name in names for text in parameters_of(name)}
        for text in FIGURE.findall(MARKED.sub("", block)):
            is_known = text in KNOWN or float(text.removesuffix(" %")) in parameters
            if not is_known and not ("%" in text and float(text[:-2]) / 100 in parameters):
                found.append(text)
    return found


def parameters_of(name: str) -> Iterator[str]:
    """Yield the parameters in the names of a number's cells."""
    for line in chosen(name):
        yield from re.findall(r"\d*\.?\d+", line["cell"])
    yield from map(str, entry(name).get("with", ()))


def problems() -> list[str]:
    """Return the messages of --check."""
    found, used = [], set()
    for path in PAGES:
        page = path.read_text(encoding="utf-8")
        for mark in MARKED.finditer(page):
            used.add(mark["name"].split()[0])
            now = figure(mark["name"])
            if now == NOT_MEASURED:
                found.append(f"{path.name}: {mark['name']}: no line of the results has it")
            elif now != mark["figure"]:
                found.append(
                    f"{path.name}: {mark['name']} is {now}, but the page has {mark['figure']}"
                )
        if len(MARKED.findall(page)) != page.count("<!--"):
            found.append(f"{path.name}: a comment without a number before it")
        found += [f"{path.name}: {text} has no source" for text in without_source(page)]
    found += [f"{ENTRIES.name}: no page uses {name}" for name in entries().keys() - used]
    return found


def main() -> None:
    """Write, check or list."""
    if "--check" in sys.argv:
        if found := problems():
            sys.exit("\n".join([*found, "Run: python tools/psi_figures.py"]))
        return
    for path in PAGES:
        page = path.read_text(encoding="utf-8")
        if "--list" in sys.argv:
            for mark in MARKED.finditer(page):
                cells = [line["cell"] for line in chosen(mark["name"])]
                some = "; ".join(cells[:3]) + (f" and {len(cells) - 3} more" * (len(cells) > 3))
                print(f"{path.name}: {mark['name']}: {figure(mark['name'])} ({some})")
            continue
        filled = MARKED.sub(lambda mark: f"{figure(mark['name'])}<!--{mark['name']}-->", page)
        if filled != page:
            path.write_text(filled, encoding="utf-8")
        print(f"{path.name}: {len(MARKED.findall(filled))} numbers")


if __name__ == "__main__":
    main()
