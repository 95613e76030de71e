"""What counts as right for each planted class, and how often it came out so."""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from cleaned import Outcome

sys.path.append(str(Path(__file__).parents[1] / "filters"))

from printed import share

REFUSALS = ("refusal", "refusal in English", "refusal after a sentence")
FOREIGN = ("left in the source language",)
LONG, SHORT = ("repeated", "concatenated"), ("truncated",)
OUT_BY_REFUSAL = ("refusal", "refusal_unjudged")

Test = Callable[[Outcome], bool]


def is_removed(one: Outcome) -> bool:
    """Return whether exactly the prefix was removed."""
    return one.prefix is not None and one.text == one.planted.wanted


def found(outcomes: Iterable[Outcome], labels: tuple[str, ...], test: Test) -> str:
    """Word the share of the items of some classes that pass a test."""
    of = [test(one) for one in outcomes if one.planted.label in labels]
    return f"{sum(of)} of {len(of)}" if of else "-"


def precision(outcomes: Iterable[Outcome], labels: tuple[str, ...], test: Test) -> str:
    """Word the share of what passes a test that is of some classes."""
    hits = [one.planted.label in labels for one in outcomes if test(one)]
    return share(sum(hits), len(hits))


def recall(outcomes: Iterable[Outcome], labels: tuple[str, ...], test: Test) -> str:
    """Word the share of some classes that passes a test."""
    of = [test(one) for one in outcomes if one.planted.label in labels]
    return share(sum(of), len(of))


def reason_in(*reasons: str) -> Test:
    """Return a test of whether an item was dropped for one of the reasons."""
    return lambda one: one.reason in reasons


ACTIONS: dict[str, tuple[tuple[str, ...], Test]] = {
    "prefix removed": (
        ("prefix, seen", "prefix, unseen", "query prefix, seen", "query prefix, unseen"),
        lambda one: one.prefix is not None,
    ),
    "suspect": (
        (*REFUSALS, *FOREIGN, "query refusal", "query left in the source language"),
        lambda one: one.suspect is not None,
    ),
    "dropped as refusal": (
        (*REFUSALS, *FOREIGN, "query refusal", "query left in the source language"),
        reason_in(*OUT_BY_REFUSAL),
    ),
    "dropped as too long": (LONG, reason_in("too_long")),
    "dropped as too short": (SHORT, reason_in("too_short")),
}
"""For each action, the classes that it is meant for, and a test of an outcome. The class of an item
shows whether it is a query or a document; honest items of both kinds count for both."""

RIGHT: dict[str, Test] = {
    "prefix, seen": is_removed,
    "prefix, unseen": is_removed,
    **dict.fromkeys((*REFUSALS, *FOREIGN), reason_in(*OUT_BY_REFUSAL)),
    "repeated": reason_in("too_long"),
    "concatenated": reason_in("too_long"),
    "truncated": reason_in("too_short"),
    "query prefix, seen": is_removed,
    "query prefix, unseen": is_removed,
    "query refusal": reason_in(*OUT_BY_REFUSAL),
    "query left in the source language": reason_in(*OUT_BY_REFUSAL),
}
OUT_BY_LENGTH = reason_in("too_long", "too_short")
HONEST = ("honest", "honest, on translation", "honest, below a title")


def caught(made: list[Outcome]) -> list[str]:
    """Return as text the shares of each class found by length, and the honest documents lost.

    Refusals that earlier steps dropped do not count.
    """
    honest = [one for one in made if one.planted.is_document and one.planted.label in HONEST]
    lost = sum(OUT_BY_LENGTH(one) for one in honest)
    left = [one for one in made if one.reason not in OUT_BY_REFUSAL]
    shares = [found(made, (label,), RIGHT[label]) for label in (*LONG, *SHORT)]
    return [*shares, found(left, REFUSALS, OUT_BY_LENGTH), f"{lost} of {len(honest)}"]
