"""The gates of `psibench compare`: --fail-if-worse and --within, their cells, table and files."""

import argparse
import math
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import polars as pl

from psibench.commands.base import refuse_unwritable, share
from psibench.errors import InputError
from psibench.formats.beir import QUERY_ID_NAMES
from psibench.formats.tabular import TEXT, read_typed_columns
from psibench.metrics.buckets import assign, bucket_scheme
from psibench.metrics.constants import GATE_POWER, HALVINGS, SIGNIFICANCE_LEVEL
from psibench.metrics.gate import (
    FAILS,
    PASSES,
    UNCLEAR,
    Kind,
    halvings,
    judge,
    measure_losses,
    worst,
)
from psibench.metrics.inference import FloatArray, IntArray, renumbered
from psibench.metrics.query_scores import document_numbers, unit_numbers
from psibench.report.text_table import frame_lines
from psibench.report.wording import change, p_text, p_value, percent

EXIT_CODES = {PASSES: 0, FAILS: 1, UNCLEAR: 3}
MEAN = "mean"
LENGTH = "length"
LENGTH_PARTS = 3
"""Length slices of documents without a length bucket, of equally many documents."""
MOST_SLICES = 50
NAMED_CELLS = 3
PLAIN_NOTE = "Means are plain means over the queries of a cell, not means at equal documents."
SHOWN_NOTE = (
    "p: family-wise over all cells; shown from: the smallest loss that would be significant"
)
BOUND_NOTE = "p: family-wise, of no loss; loss at most: 95 % bounds, for all cells together"
NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class GateCell:
    """One tested mean: the queries of a bucket or slice, against one other system.

    Attributes
    ----------
    other : name of the other system.
    by, value : ``mean`` and an empty text, or scheme and bucket, or column and value.
    queries, documents : numbers of both in the cell.
    mean, other_mean, change : mean of the tested and of the other system, and their difference.
    p : family-wise p-value of "no loss", one-sided.
    loss_at_most : upper bound of the loss, for all cells together.
    shown_from : smallest loss that would be significant; None if no loss would be.
    documents_needed : documents (or clusters) in all with which the gate can tell for this cell;
        None if there are too few to estimate it.
    result : ``passes``, ``fails`` or ``cannot tell``.
    """

    other: str
    by: str
    value: str
    queries: int
    documents: int
    mean: float
    other_mean: float
    change: float
    p: float
    loss_at_most: float
    shown_from: float | None
    documents_needed: int | None
    result: str

    @property
    def name(self) -> str:
        """Name of the cell, e.g. ``thirds: end``."""
        return f"{self.by}: {self.value}" if self.value else self.by


@dataclass(frozen=True)
class Gate:
    """A gate with its result.

    ``units``: the independent units, documents or clusters; ``n_units`` is their number.
    ``by_chance``: results of the halvings of --a-a.
    """

    kind: Kind
    limit: float
    metric: str
    tested: str
    others: list[str]
    units: str
    n_units: int
    cells: list[GateCell]
    by_chance: Counter[str] | None

    @property
    def result(self) -> str:
        """The worst result of all cells."""
        return worst([cell.result for cell in self.cells])

    @property
    def needed(self) -> int | None:
        """Units with which the gate can tell for all cells; None if it can, or if unknown."""
        needed = [cell.documents_needed for cell in self.cells if cell.result == UNCLEAR]
        known = [n for n in needed if n is not None]
        return max(known) if known and len(known) == len(needed) else None


def add_gates(parser: argparse.ArgumentParser) -> None:
    """Add the options of the gates."""
    group = parser.add_argument_group(
        "gates",
        "Compare the first system with the others in its mean, in every bucket and in every slice "
        f"(first metric, first scheme). Exit code {EXIT_CODES[PASSES]}: passes, "
        f"{EXIT_CODES[FAILS]}: fails, {EXIT_CODES[UNCLEAR]}: too few documents to tell.",
    )
    gates = group.add_mutually_exclusive_group()
    gates.add_argument(
        "--fail-if-worse",
        type=_loss,
        metavar="LOSS",
        help="fail if a loss of LOSS or more (e.g. 0.02) is measured and is significant "
        "(family-wise p ≤ 0.05 over all cells)",
    )
    gates.add_argument(
        "--within",
        type=_loss,
        metavar="LOSS",
        help="fail unless a loss of LOSS or more is excluded in all cells (95 %% bounds for all "
        "cells together)",
    )
    group.add_argument(
        "--by",
        type=lambda text: [name.strip() for name in text.split(",")],
        default=[],
        metavar="COLUMNS",
        help="also test slices: columns of the queries or of their scores, e.g. domain,length "
        "(length: the documents' length buckets, or three equal parts)",
    )
    group.add_argument(
        "--if-unclear",
        choices=("pass", "fail"),
        help=f"exit with {EXIT_CODES[PASSES]} or {EXIT_CODES[FAILS]} instead of "
        f"{EXIT_CODES[UNCLEAR]} if the gate cannot tell",
    )
    group.add_argument(
        "--a-a",
        action="store_true",
        help=f"also apply the gate to {HALVINGS} random halvings of the second system's documents, "
        "and print how often it fails by chance",
    )
    group.add_argument(
        "--junit", type=Path, metavar="FILE", help="write the cells as tests of a JUnit XML file"
    )


def _loss(text: str) -> float:
    found = share(text)
    if found == 0:
        raise argparse.ArgumentTypeError(
            "give the smallest loss that matters, e.g. 2% or 0.02; no number of documents can show "
            "that nothing was lost"
        )
    return found


def check_gate_options(args: argparse.Namespace) -> None:
    """Raise InputError for options of a gate without a gate, and for a bad --junit."""
    refuse_unwritable("--junit", args.junit)
    if args.fail_if_worse is None and args.within is None:
        options = ("by", "if_unclear", "a_a", "junit")
        given = [f"--{name.replace('_', '-')}" for name in options if getattr(args, name)]
        if given:
            raise InputError(
                f"{', '.join(given)} without a gate; add --fail-if-worse LOSS or --within LOSS"
            )


def run_gate(
    args: argparse.Namespace, scores: Mapping[str, pl.DataFrame], scheme: str, metric: str
) -> Gate | None:
    """Apply the gate of the options to systems; None without a gate.

    ``scores``: frames of QUERY_SCORES of the same queries in the same order; the first is tested.
    """
    if args.fail_if_worse is None and args.within is None:
        return None
    kind: Kind = "within" if args.fail_if_worse is None else "fail-if-worse"
    limit = args.within if args.fail_if_worse is None else args.fail_if_worse
    (tested, first), *others = scores.items()
    cells = _memberships(first, scheme, args.by, args.queries or [])
    documents, units = document_numbers(first), unit_numbers(first)
    numbers = [(len(rows), len(renumbered(documents[rows])[0])) for rows in cells.values()]
    values = [frame.get_column(metric).to_numpy().astype(np.float64) for frame in scores.values()]
    most = max(1.0, *(float(one.max()) for one in values))
    sums = [_by_unit(one, units, cells) for one in values]
    weights = _by_unit(np.ones(first.height), units, cells)
    losses = measure_losses(
        np.hstack([other - sums[0] for other in sums[1:]]),
        np.hstack([weights] * len(others)),
        limit,
        most=most,
    )
    results = judge(losses, kind, limit, len(weights))
    needed = losses.needed_to_show if kind == "fail-if-worse" else losses.needed_to_exclude
    means = [one.sum(axis=0) / weights.sum(axis=0) for one in sums]
    found, keys = [], list(cells)
    for k, (j, i) in enumerate(product(range(len(others)), range(len(cells)))):
        (by, value), shown_from = keys[i], float(losses.shown_from[k])
        # The spread may suffice where chance gave an insignificant loss of the limit.
        enough = max(needed[k], len(weights) + 1) if results[k] == UNCLEAR else needed[k]
        found.append(
            GateCell(
                other=others[j][0],
                by=by,
                value=value,
                queries=numbers[i][0],
                documents=numbers[i][1],
                mean=float(means[0][i]),
                other_mean=float(means[j + 1][i]),
                change=float(0 - losses.value[k]),
                p=float(losses.p[k]),
                loss_at_most=float(losses.high[k]),
                shown_from=shown_from if math.isfinite(shown_from) else None,
                documents_needed=_rounded_up(enough),
                result=results[k],
            )
        )
    by_chance = halvings(sums[1], weights, kind, limit, most=most) if args.a_a else None
    return Gate(
        kind=kind,
        limit=limit,
        metric=metric,
        tested=tested,
        others=[name for name, _ in others],
        units="documents" if np.array_equal(units, documents) else "clusters",
        n_units=len(weights),
        cells=found,
        by_chance=by_chance,
    )


def _by_unit(
    values: FloatArray, units: IntArray, cells: Mapping[tuple[str, str], IntArray]
) -> FloatArray:
    """Sum values of queries over units, for the queries of each cell: (n_units, n_cells)."""
    held, owner, _ = renumbered(units)
    return np.stack(
        [
            np.bincount(owner[rows], weights=values[rows], minlength=len(held))
            for rows in cells.values()
        ],
        axis=1,
    )


def _rounded_up(number: float) -> int | None:
    """Round up to two digits: the spread of the scores is not known better."""
    if not math.isfinite(number):
        return None
    step = 10 ** max(0, math.floor(math.log10(max(number, 1))) - 1)
    return math.ceil(number / step) * step


# --- Cells ----------------------------------------------------------------------------------


def _memberships(
    scores: pl.DataFrame, scheme_name: str, by: Sequence[str], files: Sequence[Path]
) -> dict[tuple[str, str], IntArray]:
    """Return the rows of each cell that has queries, by column (or scheme) and value."""
    scheme = bucket_scheme(scheme_name)
    members = assign(scores, scheme)
    cells = {(MEAN, ""): np.arange(scores.height)}
    for number, label in enumerate(scheme.labels):
        cells[scheme.name, label] = members.query_index[members.bucket_index == number]
    for name in by:
        slices = _slices(scores, name, files)
        values = slices.drop_nulls().unique().sort()
        if not 2 <= len(values) <= MOST_SLICES:
            raise InputError(
                f"--by {name}: {len(values)} different values in the queries; allowed: 2 to "
                f"{MOST_SLICES}"
            )
        for value in values:
            rows = (slices == value).fill_null(value=False).arg_true()
            cells[name, str(value)] = rows.to_numpy().astype(np.int64)
    return {key: rows for key, rows in cells.items() if len(rows)}


def _slices(scores: pl.DataFrame, name: str, files: Sequence[Path]) -> pl.Series:
    """Return the values of a column for each query, null if unknown."""
    if name == LENGTH:
        return _length_slices(scores)
    if name in scores.columns and not scores[name].dtype.is_float():
        return scores[name].cast(pl.String)
    read = [
        read_typed_columns(path, {"_id": TEXT}, further={name: TEXT}, also={"_id": QUERY_ID_NAMES})
        for path in files
    ]
    found = [frame.select("_id", name) for frame in read if name in frame.columns]
    if not found:
        known = [
            one
            for one in ("domain", "cluster", "target_position")
            if one in scores.columns and scores[one].n_unique() > 1
        ]
        raise InputError(
            f"--by {name}: no such column in the queries or in their scores; found there: "
            f"{', '.join([LENGTH, *known])}"
        )
    ids = scores.select(_id="query_id")
    return ids.join(pl.concat(found), on="_id", how="left", maintain_order="left")[name]


def _length_slices(scores: pl.DataFrame) -> pl.Series:
    """Return the length bucket of each query, or else one of three parts by characters."""
    if "length_bucket" in scores.columns and scores["length_bucket"].null_count() == 0:
        return scores["length_bucket"]
    lengths = scores.select("domain", "document_id", length="pos_char_length").unique()["length"]
    if lengths.null_count():
        raise InputError(
            f"--by {LENGTH}: the length of {lengths.null_count()} documents is unknown; give "
            "pos_char_length to all queries"
        )
    found = np.sort(lengths.to_numpy()).astype(int)
    cuts = {int(found[len(found) * i // LENGTH_PARTS - 1]) for i in range(1, LENGTH_PARTS)}
    edges = sorted(cuts - {int(found[-1])})
    ends = [f"{low + 1} to {high}" for low, high in zip([0, *edges], edges, strict=False)]
    labels = [f"{i} ({end} characters)" for i, end in enumerate(ends, 1)]
    labels.append(f"{len(labels) + 1} (above {edges[-1]} characters)" if edges else "1")
    return scores["pos_char_length"].cut(edges, labels=labels).cast(pl.String)


# --- Output ---------------------------------------------------------------------------------


def gate_lines(gate: Gate) -> Iterator[str]:
    """Yield the gate's table for a terminal, and a line for --a-a."""
    several = len(gate.others) > 1
    yield ""
    yield f"gate --{gate.kind} {gate.limit:g}, {gate.metric}: {gate.tested} against " + (
        f"{len(gate.others)} systems" if several else gate.others[0]
    )
    shows = gate.kind == "fail-if-worse"
    columns: dict[str, Any] = {"cell": [cell.name for cell in gate.cells]}
    if several:
        columns["against"] = [cell.other for cell in gate.cells]
    n_text = len(columns)
    columns |= {
        "queries": [cell.queries for cell in gate.cells],
        "documents": [cell.documents for cell in gate.cells],
        gate.tested: [cell.mean for cell in gate.cells],
        "other" if several else gate.others[0]: [cell.other_mean for cell in gate.cells],
        "change": [change(cell.change) for cell in gate.cells],
        "p": [p_value(cell.p) for cell in gate.cells],
    }
    if shows:
        columns["shown from"] = [cell.shown_from for cell in gate.cells]
    else:
        columns["loss at most"] = [cell.loss_at_most for cell in gate.cells]
    columns["result"] = [cell.result for cell in gate.cells]
    yield from frame_lines(pl.DataFrame(columns), n_text=n_text)
    yield SHOWN_NOTE if shows else BOUND_NOTE
    yield PLAIN_NOTE
    if gate.by_chance is not None:
        shares = {one: gate.by_chance[one] / gate.by_chance.total() for one in EXIT_CODES}
        yield (
            f"By chance (halves of {gate.others[0]}'s {gate.units}, "
            f"{gate.by_chance.total()} halvings): fails {percent(shares[FAILS])}, "
            f"cannot tell {percent(shares[UNCLEAR])}, passes {percent(shares[PASSES])}"
        )


def gate_sentence(gate: Gate) -> str:
    """Return the result in one or two sentences."""
    begin = f"{gate.tested} {gate.result} --{gate.kind} {gate.limit:g} in {gate.metric}"
    if gate.result == UNCLEAR:
        begin = f"--{gate.kind} {gate.limit:g} cannot tell for {gate.tested} in {gate.metric}"
    if gate.result == PASSES:
        what = "shown" if gate.kind == "fail-if-worse" else "possible (95 % confidence)"
        return f"{begin}: no loss of {gate.limit:g} or more is {what} in {_cells(len(gate.cells))}"
    chosen = [cell for cell in gate.cells if cell.result == gate.result]
    several = len(gate.others) > 1
    named = [_cell_text(gate, cell, several=several) for cell in chosen[:NAMED_CELLS]]
    more = len(chosen) - len(named)
    text = f"{begin}: {'; '.join(named)}{f' and {more} more' if more else ''}"
    if gate.result == FAILS:
        return text
    enough = (
        f"about {gate.needed:,} {gate.units} would suffice; there are {gate.n_units:,}"
        if gate.needed is not None
        else f"{gate.n_units} {gate.units} are too few to say how many would suffice; try 30"
    )
    return (
        f"{text}. {enough[0].upper()}{enough[1:]}. --if-unclear pass or fail decides the exit code"
    )


def _cells(n: int) -> str:
    return f"{n} cells" if n > 1 else "the mean"


def _cell_text(gate: Gate, cell: GateCell, *, several: bool) -> str:
    name = f"{cell.name} against {cell.other}" if several else cell.name
    if cell.result == FAILS and cell.p <= SIGNIFICANCE_LEVEL and -cell.change >= gate.limit - 1e-9:
        return f"{name} {change(cell.change)} ({p_text(cell.p)})"
    if gate.kind == "within":
        return f"{name} may have lost up to {cell.loss_at_most:.3f}"
    if cell.shown_from is None:
        return f"{name} has too few {gate.units} to show any loss"
    return f"{name} shows losses from {cell.shown_from:.3f}"


def gate_record(gate: Gate) -> dict[str, Any]:
    """Return the gate as a JSON object."""
    return {
        "gate": gate.kind,
        "limit": gate.limit,
        "metric": gate.metric,
        "tested": gate.tested,
        "others": gate.others,
        "result": gate.result,
        "text": gate_sentence(gate),
        "units": gate.units,
        "n_units": gate.n_units,
        "units_needed": gate.needed,
        "level": SIGNIFICANCE_LEVEL,
        "power": GATE_POWER,
        "cells": [asdict(cell) for cell in gate.cells],
        "by_chance": None if gate.by_chance is None else {
            one.replace(" ", "_"): gate.by_chance[one] for one in EXIT_CODES
        },
    }  # fmt: skip


def exit_code(gate: Gate, if_unclear: str | None) -> int:
    """Return the exit code; ``if_unclear`` (pass or fail) replaces the code of "cannot tell"."""
    if gate.result == UNCLEAR and if_unclear is not None:
        return EXIT_CODES[PASSES if if_unclear == "pass" else FAILS]
    return EXIT_CODES[gate.result]


def junit_text(gate: Gate, if_unclear: str | None) -> str:
    """Return the cells as tests in JUnit's XML.

    A cell that cannot tell is an error, by ``if_unclear`` a skipped test (pass) or a failure.
    """
    kinds = {UNCLEAR: {None: "error", "pass": "skipped", "fail": "failure"}[if_unclear]}
    kinds[FAILS] = "failure"
    counted = Counter(kinds.get(cell.result, "") for cell in gate.cells)
    suite = ElementTree.Element(
        "testsuite",
        name=_for_xml(f"psibench compare --{gate.kind} {gate.limit:g}, {gate.metric}"),
        tests=str(len(gate.cells)),
        failures=str(counted["failure"]),
        errors=str(counted["error"]),
        skipped=str(counted["skipped"]),
    )
    for cell in gate.cells:
        test = ElementTree.SubElement(
            suite,
            "testcase",
            classname=_for_xml(f"{gate.tested} against {cell.other}"),
            name=_for_xml(cell.name),
        )
        if cell.result != PASSES:
            text = _for_xml(_cell_text(gate, cell, several=False))
            ElementTree.SubElement(test, kinds[cell.result], message=f"{cell.result}: {text}")
    ElementTree.indent(suite)
    written: bytes = ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)
    return written.decode() + "\n"


def _for_xml(text: str) -> str:
    return NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def report(gate: Gate) -> None:
    """Print the result as the last line of standard error."""
    sys.stdout.flush()
    print(f"psibench compare: {gate_sentence(gate)}", file=sys.stderr)
