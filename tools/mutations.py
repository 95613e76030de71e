"""Put faults into the source, one at a time, and check whether the tests find them.

    python tools/mutations.py draw --seed 7 [--also OTHER_TREE] [--list LIST.csv]
    python tools/mutations.py run [--package metrics ...] [--tests tests/metrics ...] [--list ...]

The list is tools/mutations.csv unless --list names another one.

``draw`` writes a list of twenty faults in each group: formulas; filters, stores and resuming;
commands and checks. A fault replaces or removes a comparison, an operator, a number or a check. If
the list exists, its faults stay as long as their lines exist, and new ones replace the others. With
``--also`` draws only lines that both trees have in the same function, so that the list is valid
before and after a change. ``run`` runs the suite once to find the tests that reach each line, then
only these tests for each fault. The exit code is 1 if the tests miss a fault. Lines that no longer
exist are reported and not tried.
"""

import argparse
import ast
import csv
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = "src/psibench"
GROUPS = {
    "formulas": ["metrics", "search", "probes", "translate/quality.py"],
    "filters, stores and resume": ["filters", "store", "encode", "llm", "generate", "tables"],
    "commands and checks": ["commands", "config", "formats", "sources", "plan", "publish"],
}
EACH = 20
FILE_MOST, FUNCTION_MOST = 2, 1
"""Most faults per file and per function."""

COMPARISONS = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.In: "not in", ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is",
}  # fmt: skip
OPERATORS = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*"}
Part = ast.AST | tuple[ast.AST, ast.AST]
"""A node, or two nodes: the text between them."""

REACH = """\
import os

seen = set()


def hit(number):
    test = os.environ.get("PYTEST_CURRENT_TEST", "").split(" ")[0].split("[")[0]
    if test and (number, test) not in seen:
        seen.add((number, test))
        with open(os.environ["MUTATION_REACH"], "a") as file:
            file.write(f"{number}\\t{test}\\n")
"""


@dataclass(frozen=True)
class Fault:
    """One change of a line: ``old`` at ``column`` of the line without its indentation."""

    group: str
    file: str
    function: str
    line: str
    column: int
    old: str
    new: str

    @property
    def changed(self) -> str:
        """The line with the fault."""
        return self.line[: self.column] + self.new + self.line[self.column + len(self.old) :]


def draw(tree: Path, seed: int, also: Path | None, kept: Sequence[Fault]) -> list[Fault]:
    """Draw faults until every group is complete, including the kept faults."""
    drawn = []
    for group, places in GROUPS.items():
        candidates = sorted(
            (fault for file in _files(tree, places) for fault in _faults(tree, file, group)),
            key=lambda fault: (fault.file, fault.function, fault.line, fault.column),
        )
        if also is not None:
            candidates = [fault for fault in candidates if _places(also, fault)]
        random.Random(f"{seed} {group}").shuffle(candidates)
        per_file: Counter[str] = Counter()
        per_function: Counter[tuple[str, str]] = Counter()
        for fault in [*(fault for fault in kept if fault.group == group), *candidates]:
            if per_file[fault.file] < FILE_MOST and (
                per_function[fault.file, fault.function] < FUNCTION_MOST
            ):
                per_file[fault.file] += 1
                per_function[fault.file, fault.function] += 1
                drawn.append(fault)
            if per_file.total() == EACH:
                break
    return drawn


def _files(tree: Path, places: Sequence[str]) -> Iterator[str]:
    for place in places:
        path = tree / PACKAGE / place
        for file in [path] if path.suffix else sorted(path.rglob("*.py")):
            yield str(file.relative_to(tree))


def _faults(tree: Path, file: str, group: str) -> Iterator[Fault]:
    text = (tree / file).read_text(encoding="utf-8")
    lines = text.split("\n")
    for function, statement in _statements(ast.parse(text)):
        for node, new in _changes(statement):
            start, end = _where(node, lines)
            if start[0] != end[0]:
                continue
            line = lines[start[0] - 1]
            blanks = len(line) - len(line.lstrip())
            old = line[start[1] : end[1]]
            if lines.count(line) == 1 and old.strip() and line.isascii():
                yield Fault(group, file, function, line.strip(), start[1] - blanks, old, new)


def _statements(module: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    """Yield the outermost statements of functions, with the function's name."""

    def walk(node: ast.AST, names: list[str], inside: bool) -> Iterator[tuple[str, ast.stmt]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                within = inside or not isinstance(child, ast.ClassDef)
                yield from walk(child, [*names, child.name], within)
            elif isinstance(child, ast.stmt):
                if inside:
                    yield ".".join(names), child
                yield from walk(child, names, inside)
            elif isinstance(child, ast.excepthandler | ast.match_case):
                yield from walk(child, names, inside)

    return walk(module, [], False)


def _changes(statement: ast.stmt) -> Iterator[tuple[Part, str]]:
    """Yield the parts of a statement that can be replaced, with the new text."""
    if isinstance(statement, ast.Raise | ast.Assert):
        return
    if isinstance(statement, ast.If) and isinstance(statement.body[-1], ast.Raise):
        yield statement.test, "False"
    waiting = [
        child for child in ast.iter_child_nodes(statement) if not isinstance(child, ast.stmt)
    ]
    if isinstance(statement, ast.AnnAssign):
        waiting.remove(statement.annotation)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.JoinedStr | ast.Lambda | ast.excepthandler | ast.match_case):
            continue
        waiting += [
            child
            for child in ast.iter_child_nodes(node)
            if not (isinstance(child, ast.keyword) and child.arg == "strict")
        ]
        yield from _changes_of_expression(node)


def _changes_of_expression(node: ast.AST) -> Iterator[tuple[Part, str]]:
    if isinstance(node, ast.Compare):
        yield (node.left, node.comparators[0]), f" {COMPARISONS[type(node.ops[0])]} "
    elif isinstance(node, ast.BoolOp):
        word = " or " if isinstance(node.op, ast.And) else " and "
        yield (node.values[0], node.values[1]), word
    elif isinstance(node, ast.BinOp):
        if type(node.op) in OPERATORS:
            yield (node.left, node.right), f" {OPERATORS[type(node.op)]} "
        for side in (node.left, node.right):
            if isinstance(side, ast.Constant) and isinstance(side.value, int):
                yield side, str(side.value + 1)
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield node, str(not node.value)


def _where(node: Part, lines: Sequence[str]) -> tuple[tuple[int, int], tuple[int, int]]:
    if not isinstance(node, tuple):
        return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]
    first, second = node
    start, end = (first.end_lineno, first.end_col_offset), (second.lineno, second.col_offset)  # type: ignore[attr-defined]
    if start[0] == end[0]:  # a node's brackets are outside its own columns
        line = lines[start[0] - 1]
        while start[1] < end[1] and line[start[1]] == ")":
            start = (start[0], start[1] + 1)
        while end[1] > start[1] and line[end[1] - 1] == "(":
            end = (end[0], end[1] - 1)
    return start, end


def _places(tree: Path, fault: Fault) -> list[tuple[Path, int]]:
    """Return where the line is now; its function may have moved to another module."""
    name = fault.function.split(".")[-1]
    named = tree / fault.file
    for files in ([named] if named.exists() else [], sorted((tree / PACKAGE).rglob("*.py"))):
        found = []
        for path in files:
            text = path.read_text(encoding="utf-8")
            if fault.line not in text:
                continue
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
                    lines = text.split("\n")
                    for number in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                        if lines[number - 1].strip() == fault.line:
                            found.append((path, number))
        if len(found) == 1:
            return found
    return []


def run(tree: Path, faults: Sequence[Fault], tests: Sequence[str], jobs: int) -> int:
    """Print for every fault whether a test finds it; return the number of missed faults."""
    with tempfile.TemporaryDirectory(prefix="psibench-mutations-") as folder:
        copies = [_copy(tree, Path(folder) / str(number)) for number in range(jobs)]
        reached = _reach(copies[0], faults, tests)
        _restore(copies[0], tree, faults)
        free = list(copies)

        def one(number: int) -> str:
            copy = free.pop()
            try:
                return _result(copy, faults[number], reached.get(number, []))
            finally:
                free.append(copy)

        missed = 0
        with ThreadPoolExecutor(jobs) as pool:
            for number, result in enumerate(pool.map(one, range(len(faults)))):
                fault = faults[number]
                missed += result.startswith("NOT")
                print(f"{number + 1:3} {result:12} {fault.file} {fault.function}", flush=True)
                print(f"      {fault.line}\n   -> {fault.changed}", flush=True)
    return missed


def _copy(tree: Path, target: Path) -> Path:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=tree, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in filter(None, listed.stdout.split("\0")):
        if (tree / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(tree / name, target / name)
    return target


def _restore(copy: Path, tree: Path, faults: Sequence[Fault]) -> None:
    for fault in faults:
        for path, _ in _places(tree, fault):
            shutil.copyfile(path, copy / path.relative_to(tree))


def _environment(copy: Path, **more: str) -> dict[str, str]:
    path = os.pathsep.join([str(copy / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **more}


def _reach(copy: Path, faults: Sequence[Fault], tests: Sequence[str]) -> dict[int, list[str]]:
    """Run the suite with a probe before each line; return each fault's tests, closest first."""
    (copy / "src" / "mutation_reach.py").write_text(REACH)
    added: dict[Path, list[tuple[int, int]]] = defaultdict(list)
    for number, fault in enumerate(faults):
        for path, line in _places(copy, fault):
            added[path].append((_statement_line(path, line), number))
    for path, probes in added.items():
        lines = path.read_text(encoding="utf-8").split("\n")
        for line, number in sorted(probes, reverse=True):
            text = lines[line - 1]
            blanks = text[: len(text) - len(text.lstrip())]
            lines.insert(line - 1, f'{blanks}__import__("mutation_reach").hit({number})')
        path.write_text("\n".join(lines), encoding="utf-8")
    record = copy / "reached.tsv"
    record.touch()
    subprocess.run(
        ["pytest", "-n", "auto", "--dist", "loadfile", "-p", "no:cacheprovider", "--tb=no",
         "-m", "not processes", "-q", *tests],
        cwd=copy, env=_environment(copy, MUTATION_REACH=str(record)), check=False,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    reached: dict[int, set[str]] = defaultdict(set)
    for row in record.read_text().splitlines():
        found, test = row.split("\t")
        reached[int(found)].add(test)
    result = {}
    for number, found_tests in reached.items():
        near = "tests/" + faults[number].file.split("/")[2] + "/"
        result[number] = sorted(found_tests, key=lambda test: (not test.startswith(near), test))
    return result


def _statement_line(path: Path, line: int) -> int:
    """Return the first line of the statement around a line; for an ``elif``, of its ``if``."""
    text = path.read_text(encoding="utf-8")
    lines = text.split("\n")
    best = line
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.stmt)
            and node.lineno <= line <= (node.end_lineno or node.lineno)
            and not lines[node.lineno - 1].lstrip().startswith("elif ")
            and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        ):
            best = node.lineno  # ast.walk visits outer nodes first, so the last is the innermost
    return best


def _result(copy: Path, fault: Fault, tests: Sequence[str]) -> str:
    places = _places(copy, fault)
    if not places:
        return "gone"
    if not tests:
        return "NOT REACHED"
    (path, number), *_ = places
    text = path.read_text(encoding="utf-8")
    lines = text.split("\n")
    lines[number - 1] = lines[number - 1].replace(fault.line, fault.changed)
    path.write_text("\n".join(lines), encoding="utf-8")
    try:
        done = subprocess.run(
            ["pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--tb=no", *tests],
            cwd=copy, env=_environment(copy), capture_output=True, text=True, check=False,
            timeout=1200,
        )  # fmt: skip
        return "NOT FOUND" if done.returncode == 0 else "found"
    except subprocess.TimeoutExpired:
        return "found (hangs)"
    finally:
        path.write_text(text, encoding="utf-8")


def read_list(path: Path) -> list[Fault]:
    """Read a list that ``draw`` wrote."""
    with path.open(newline="", encoding="utf-8") as file:
        return [Fault(**{**row, "column": int(row["column"])}) for row in csv.DictReader(file)]


def main() -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    drawing = commands.add_parser("draw")
    drawing.add_argument("--seed", type=int, required=True)
    drawing.add_argument("--also", type=Path)
    running = commands.add_parser("run")
    running.add_argument("--tree", type=Path, default=ROOT)
    running.add_argument("--package", nargs="*", help="only faults in these packages")
    running.add_argument("--tests", nargs="*", default=[], help="instead of the whole suite")
    running.add_argument("--jobs", type=int, default=1)
    for one in (drawing, running):
        one.add_argument("--list", type=Path, default=ROOT / "tools" / "mutations.csv")
    given = parser.parse_args()
    if given.command == "draw":
        listed = read_list(given.list) if given.list.is_file() else []
        kept = [
            replace(fault, file=str(places[0][0].relative_to(ROOT)))
            for fault in listed
            if (places := _places(ROOT, fault))
        ]
        drawn = draw(ROOT, given.seed, given.also, kept)
        with given.list.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(
                file, [field.name for field in fields(Fault)], lineterminator="\n"
            )
            writer.writeheader()
            writer.writerows(asdict(fault) for fault in drawn)
        return 0
    faults = read_list(given.list)
    if given.package:
        faults = [fault for fault in faults if fault.file.split("/")[2] in given.package]
    missed = run(given.tree.resolve(), faults, given.tests, given.jobs)
    print(f"{len(faults)} faults, {missed} not found")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
