"""Stages: declared beside their functions, read without an import, called by their rules' names."""

import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import polars as pl
import pytest
from pydantic import ValidationError

from psibench.config.base import Section
from psibench.tables import Provenance, read_table, write_table
from psibench.tables.domains import OfDomain, OutputPath, TablePath
from psibench.tables.spec import STRING, Column, TableSpec
from psibench.tables.stage import DECLARED, PACKAGE, call, read_stages, stage

WORDS = TableSpec("words", (Column("word", STRING, "a word"),), key=("word",))
SOURCE = Provenance("test", 1)


@dataclass
class Given:
    """What a script is given of its rule."""

    input: dict[str, Any] = field(default_factory=dict)
    output: dict[str, Any] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)
    wildcards: dict[str, str] = field(default_factory=dict)
    resources: dict[str, Any] = field(default_factory=dict)
    log: tuple[str, ...] = ()
    threads: int = 1
    config: dict[str, Any] = field(default_factory=dict)
    rule: str = "a_rule"


def declared(function, **how):
    """A function as a stage."""
    stage("tried", version=1, **how)(function)
    return DECLARED.pop("tried")


def package(folder: Path, **modules: str) -> Path:
    made = folder / "pack"
    made.mkdir()
    for name, text in modules.items():
        (made / f"{name}.py").write_text(text)
    return made


def test_declarations_are_read_without_an_import(tmp_path):
    text = 'raise SystemExit("imported")\n@stage("one_two", version=3, each="domains")\n'
    text += '@stage(\n    "three",\n    version=12,\n)\ndef f(): ...\n'
    found = read_stages(package(tmp_path, part=text))
    assert found == {"one_two": 3, "three": 12}
    assert (found["three"].stage, found["three"].module) == ("three", "pack.part")


def test_two_stages_of_one_name_are_refused(tmp_path):
    one = '@stage("same", version=1)\n'
    with pytest.raises(ValueError, match=r"'same' is in pack\.a and pack\.b"):
        read_stages(package(tmp_path, a=one, b=one))


def test_every_stage_of_the_package_is_found_where_it_is_declared():
    found = read_stages()
    texts = [path.read_text() for path in PACKAGE.rglob("*.py")]
    assert len(found) == sum(len(re.findall(r"(?m)^\s*@stage\(", text)) for text in texts)
    for name, version in found.items():
        import_module(version.module)
        assert DECLARED[name].version == version
        assert DECLARED[name].function.__module__ == version.module


def test_a_stage_is_given_what_its_rule_has_under_its_names():
    seen: dict[str, Any] = {}

    def work(
        documents: str,
        runs: list,
        lang: str,
        language: str,
        number: int,
        pairs: tuple[tuple[str, str], ...],
        threads: int,
        output: str,
        first: str | None,
        depth: int = 7,
    ) -> None:
        seen.update(locals())

    call(
        declared(work),
        Given(
            input={"documents": "d.parquet", "runs": ["a", "b"], "first": [], "tokenizer": ["t"]},
            output={"table": "t.parquet"},
            params={"pairs": [["a", "b"]], "unused": 1},
            wildcards={"lang": "eng-Latn", "number": "2"},
            threads=3,
        ),
    )
    seen.pop("seen")
    assert seen == {
        "documents": "d.parquet",
        "runs": ["a", "b"],
        "lang": "eng-Latn",
        "language": "eng-Latn",
        "number": 2,
        "pairs": (("a", "b"),),
        "threads": 3,
        "output": "t.parquet",
        "first": None,
        "depth": 7,
    }


class Rule(Section):
    """A config section."""

    kind: Literal["a", "b"]
    depth: int = 3


@dataclass(frozen=True)
class Place:
    """Where something is."""

    step: int
    language: str
    device: str = "cpu"


def test_sections_and_dataclasses_are_made_and_validated():
    seen: list[Any] = []

    def work(section: Rule, place: Place, settings: Rule) -> None:
        seen.extend((section, place, settings))

    given = Given(
        params={"section": {"kind": "a"}, "place": {"step": 4}, "kind": "b"},
        wildcards={"lang": "eng-Latn"},
        resources={"depth": 9, "device": "cuda"},
    )
    call(declared(work), given)
    # A section given under its own name takes nothing else; one that is not, what its fields name.
    assert seen == [Rule(kind="a"), Place(4, "eng-Latn", "cuda"), Rule(kind="b", depth=9)]
    given.params["section"] = {"kind": "c"}
    with pytest.raises(ValidationError, match="'a' or 'b'"):
        call(declared(work), given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (Given(params={"other": 1}), r"stage tried: its rule gives no 'corpus'; it has .*'other'"),
        (Given(params={"corpus": "a"}, wildcards={"corpus": "b"}), "two things named 'corpus'"),
    ],
)
def test_a_rule_whose_names_do_not_fit_is_a_bug(given, message):
    def work(corpus: str) -> None: ...

    with pytest.raises(TypeError, match=message):
        call(declared(work), given)


def copy_words(
    domain: str, words: TablePath, raw: str | Path, more: list[TablePath], copied: OutputPath
) -> None:
    """Copy a domain's rows, and say in them what else was given."""
    rows = read_table(words, WORDS)
    others = [read_table(one, WORDS)["word"].to_list() for one in more]
    said = pl.DataFrame({"word": [f"{domain} {rows['word'].to_list()} {others} {raw}"]})
    write_table(said, copied, WORDS, provenance=SOURCE)


def test_a_stage_goes_through_the_domains_and_its_tables_are_of_all_of_them(tmp_path):
    seen: list[tuple[str, bool]] = []

    def write(domain: str, section: int, copied: OutputPath) -> Callable[[], None]:
        frame = pl.DataFrame({"word": [f"of {domain} {section}"]})
        write_table(frame, copied, WORDS, provenance=SOURCE)
        return lambda: seen.append((domain, Path(table).exists()))

    table, copied = str(tmp_path / "table.parquet"), str(tmp_path / "copied.parquet")
    # A mapping gives each domain its own value.
    sections = {"sections": {"law": 1, "arts": 2}}
    call(declared(write, each="sections"), Given(output={"copied": table}, params=sections))
    # What a stage returns is called once all tables of the job are there.
    assert seen == [("law", True), ("arts", True)]
    domains = {"domains": ["law", "arts"]}
    own = [str(tmp_path / f"{name}.parquet") for name in ("law", "arts")]
    for path in own:
        frame = pl.DataFrame({"word": [f"file {Path(path).stem}"]})
        write_table(frame, path, WORDS, provenance=SOURCE)
    given = Given({"words": own, "raw": "x", "more": [table]}, {"copied": copied}, domains)
    call(declared(copy_words, each="domains"), given)
    # A list of tables has one of each domain; of a table of all domains it is given its own rows.
    assert [
        read_table(OfDomain(copied, name), WORDS)["word"].item() for name in ("law", "arts")
    ] == [
        "law ['file law'] [['of law 1']] x",
        "arts ['file arts'] [['of arts 2']] x",
    ]
    # A job of one domain reads its own rows, too.
    one = Given({"words": table, "raw": "x", "more": []}, {"copied": copied})
    one.wildcards["domain"] = "arts"
    call(declared(copy_words), one)
    assert read_table(copied, WORDS)["word"].to_list() == ["arts ['of arts 2'] [] x"]


def test_the_version_is_what_the_script_finds_the_stage_by(tmp_path, monkeypatch):
    from psibench.cluster.job import run_stage

    written = package(
        tmp_path,
        tried_module=(
            "from pathlib import Path\n"
            "from psibench.errors import InputError\n"
            "from psibench.tables.stage import stage\n\n\n"
            '@stage("greet", version=5)\n'
            "def greet(name: str, output: str) -> None:\n"
            "    if not name:\n"
            '        raise InputError("no name; give one")\n'
            "    Path(output).write_text(name)\n"
        ),
    )
    monkeypatch.syspath_prepend(tmp_path)
    (written / "__init__.py").touch()
    version = read_stages(written)["greet"]
    # Snakemake records it as a number, and sends it to the script.
    assert repr(version) == "5"
    version = pickle.loads(pickle.dumps(version, protocol=4))
    log, out = tmp_path / "job.log", tmp_path / "out"
    given = Given(params={"name": "Ada"}, output={"text": str(out)}, log=(str(log),))
    given.resources["mem_mb"] = 400
    run_stage(version, given)
    assert out.read_text() == "Ada"
    given.params["name"] = ""
    with pytest.raises(SystemExit) as stopped:
        run_stage(version, given)
    assert stopped.value.code == 2
    assert "no name; give one" in log.read_text()
