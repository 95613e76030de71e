"""Precision and recall of cleaning on a planted set, class by class.

    python studies/cleaning/planted.py FOLDER [--seed 42] [--out DIR]

FOLDER holds xquad.en.json, xquad.es.json, xquad.ar.json and xquad.zh.json. Their translations, made
by people, are spoilt in known ways and put through the stages mark_translations and
clean_translations.
"""

import argparse
import platform
import sys
from pathlib import Path

from cleaned import JUDGED_CHARS, TOKENIZER, Cleaner, Outcome
from counted import (
    ACTIONS,
    FOREIGN,
    HONEST,
    LONG,
    OUT_BY_REFUSAL,
    REFUSALS,
    RIGHT,
    SHORT,
    Test,
    caught,
    found,
    precision,
    reason_in,
    recall,
)
from planted_set import SHARES, TIMES, plant

sys.path.append(str(Path(__file__).parents[1] / "filters"))

from printed import Page

from psibench.translate.clean import Measure

SOURCES = {
    "spa-Latn": "eng-Latn",
    "ara-Arab": "eng-Latn",
    "cmn-Hans": "eng-Latn",
    "eng-Latn": "spa-Latn",
}
BOUNDS: dict[Measure, tuple[tuple[float, float], ...]] = {
    "length": ((3.0, 1.5), (1.5, 1.5), (1.5, 1.0), (1.0, 1.0)),
    "ratio": ((3.0, 1.5), (1.5, 1.5), (3.0, 3.0)),
}
DEFAULT = (3.0, 1.5)


def main() -> None:
    """Print and write the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--out", type=Path, help="folder to write the tables to")
    options = parser.parse_args()
    page = Page("planted", options.out)
    page.text(
        f"Seed {options.seed}, Python {platform.python_version()}, lengths by `{TOKENIZER}`. "
        f"Judge: a suspect is a refusal if a listed phrase is in its first {JUDGED_CHARS} "
        "characters, or if it is in another language."
    )
    cleaners = {
        target: Cleaner(
            plant(options.folder, source=source, target=target, seed=options.seed), target=target
        )
        for target, source in SOURCES.items()
    }
    outcomes = {target: cleaner.outcomes(DEFAULT) for target, cleaner in cleaners.items()}
    pooled = [one for rows in outcomes.values() for one in rows]
    print_actions(page, pooled)
    print_classes(page, outcomes)
    print_honest(page, outcomes)
    print_missed(page, outcomes)
    print_sizes(page, cleaners, outcomes)
    page.write()


def print_actions(page: Page, pooled: list[Outcome]) -> None:
    """Print precision and recall of each action, all languages together."""
    page.text("Precision and recall, four languages together, with 95 % Wilson intervals:")
    rows = [
        (name, precision(pooled, labels, test), recall(pooled, labels, test))
        for name, (labels, test) in ACTIONS.items()
    ]
    page.table(("action", "precision", "recall"), rows)


def print_classes(page: Page, outcomes: dict[str, list[Outcome]]) -> None:
    """What of each class came out right, by language."""
    page.text("Came out as wanted, by class and target language:")
    rows = [
        (label, *(found(rows, (label,), test) for rows in outcomes.values()))
        for label, test in RIGHT.items()
    ]
    page.table(("class", *outcomes), rows)


def print_honest(page: Page, outcomes: dict[str, list[Outcome]]) -> None:
    """What happened to honest texts."""
    page.text(
        "Honest texts, documents and queries: how many are unchanged and kept, lost a prefix, were "
        "suspect, and left as refusal, too long, too short, or with their document:"
    )
    checks: tuple[Test, ...] = (
        lambda one: one.prefix is None and one.reason is None,
        lambda one: one.prefix is not None,
        lambda one: one.suspect is not None,
        *(reason_in(*names) for names in (OUT_BY_REFUSAL, ("too_long",), ("too_short",))),
        reason_in("positive_removed"),
    )
    rows = [
        (f"{label}, {target}", len(of), *(sum(map(check, of)) for check in checks))
        for label in HONEST
        for target, made in outcomes.items()
        for of in [[one for one in made if one.planted.label == label]]
    ]
    columns = ("class", "n", "kept", "prefix", "suspect", "refusal", "long", "short", "cascade")
    page.table(columns, rows)


def print_missed(page: Page, outcomes: dict[str, list[Outcome]]) -> None:
    """The planted prefixes and refusals that were not dealt with, by their beginnings."""
    page.text("Planted prefixes and refusals that passed, and honest texts taken for either:")
    labels = (
        "prefix, seen",
        "prefix, unseen",
        *REFUSALS[:2],
        *FOREIGN,
        *(label for label in RIGHT if label.startswith("query")),
    )
    missed = {
        (target, one.planted.label, one.planted.text[:40].replace("\n", " / ").replace("|", " "))
        for target, rows in outcomes.items()
        for one in rows
        if one.planted.label in labels and not RIGHT[one.planted.label](one)
    }
    wronged = {
        (target, one.planted.label, one.planted.text[:40].replace("\n", " / ").replace("|", " "))
        for target, rows in outcomes.items()
        for one in rows
        if one.planted.label in HONEST and (one.prefix or one.reason in OUT_BY_REFUSAL)
    }
    page.table(("language", "class", "begins with"), sorted(missed) + sorted(wronged))


def print_sizes(
    page: Page, cleaners: dict[str, Cleaner], outcomes: dict[str, list[Outcome]]
) -> None:
    """How much has to be wrong with a length to be seen, and what bounds cost."""
    page.text(
        "Repeated and truncated documents found, by size, at the default bounds of the length:"
    )
    print_by_size(page, outcomes)
    page.text("The same at these bounds of the ratio:")
    print_by_size(page, {t: made.outcomes(DEFAULT, of="ratio") for t, made in cleaners.items()})
    page.text(
        "Bounds of length and ratio, in IQR below Q1 and above Q3, four languages together; of "
        "refusals, those whose wording was not recognised:"
    )
    table = []
    for of, every in BOUNDS.items():
        for low, high in every:
            made = [
                one for cleaner in cleaners.values() for one in cleaner.outcomes((low, high), of=of)
            ]
            default = " (default)" if (of, low, high) == ("length", *DEFAULT) else ""
            table.append((f"of the {of}, {low:g}, {high:g}{default}", *caught(made)))
    page.table(("bounds", *LONG, *SHORT, "refusals left", "honest documents lost"), table)


def print_by_size(page: Page, outcomes: dict[str, list[Outcome]]) -> None:
    """How much has to be wrong with a length to be seen."""
    sizes = [("repeated", size, "too_long", f"repeated, {size} times") for size in TIMES]
    sizes += [("truncated", size, "too_short", f"truncated to {size:.0%}") for size in SHARES]
    rows = []
    for label, size, reason, name in sizes:
        cells = []
        for made in outcomes.values():
            of = [one for one in made if one.planted.label == label and one.planted.size == size]
            cells.append(f"{sum(one.reason == reason for one in of)} of {len(of)}")
        rows.append((name, *cells))
    page.table(("class", *outcomes), rows)


if __name__ == "__main__":
    main()
