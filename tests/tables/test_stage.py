"""Stages: declared beside their functions, read without an import, called by their rules' names."""

import pickle
import re
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import polars as pl
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from psibench.config.base import Section
from psibench.errors import InputError
from psibench.tables import read_provenance
from psibench.tables.job import Job
from psibench.tables.spec import STRING, Column, TableSpec
from psibench.tables.stage import DECLARED, PACKAGE, call, read_stages, stage

WORDS = TableSpec("words", (Column("word", STRING, "a word"),), key=("word",))


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
    text = 'raise SystemExit("imported")\n@stage("one_two", version=3, offline=True)\n'
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


class Rule(Section):
    """A config section."""

    kind: Literal["a", "b"]
    depth: int = 3


def test_a_job_has_what_its_rule_has_and_checks_it():
    seen: list[Any] = []

    def work(job: Job) -> None:
        seen.append((job.value("number", int), job.value("lang"), job.value("threads")))
        seen.append((job.section(Rule), job.settings(Rule), job.value("other", default=7)))
        seen.append((job.paths("runs"), job.path("documents"), job.has("first"), job.config))

    given = Given(
        input={"documents": "d.parquet", "runs": ["a", "b"], "first": []},
        output={"table": "t.parquet"},
        params={"section": {"kind": "a"}, "kind": "b"},
        wildcards={"lang": "eng-Latn", "number": "2"},
        resources={"depth": 9},
        threads=3,
        config={"store": "s"},
    )
    call(declared(work), given)
    assert seen == [
        (2, "eng-Latn", 3),
        (Rule(kind="a"), Rule(kind="b", depth=9), 7),
        (["a", "b"], "d.parquet", False, {"store": "s"}),
    ]
    given.params["section"] = {"kind": "c"}
    with pytest.raises(ValidationError, match="'a' or 'b'"):
        call(declared(work), given)


def test_a_name_that_a_rule_lacks_or_has_twice_is_a_bug():
    def work(job: Job) -> None:
        job.value("corpus")

    with pytest.raises(KeyError, match=r"stage tried: its rule gives no 'corpus'; it has.*'other'"):
        call(declared(work), Given(params={"other": 1}))
    with pytest.raises(TypeError, match="two things named 'corpus'"):
        call(declared(work), Given(params={"corpus": "a"}, wildcards={"corpus": "b"}))


def write_words(path: Path, *words: str, domains: bool = False) -> str:
    frame = pl.DataFrame({"word": words})
    made = Job(
        "words",
        1,
        outputs={"words": str(path)},
        values={"lang": "eng-Latn", "domains": ["law", "arts"]},
    )
    if not domains:
        made.write("words", frame, WORDS, queries_by="people")
    else:
        for domain in made.domains():
            domain.write("words", frame.with_columns(pl.col("word") + f" of {domain.name}"), WORDS)
    return str(path)


def test_provenance_has_what_was_read_and_the_parameters_that_decide(tmp_path):
    one, two = (write_words(tmp_path / name, name) for name in ("one.parquet", "two.parquet"))
    table = str(tmp_path / "t.parquet")

    def work(job: Job) -> None:
        rows = job.read("words", WORDS)
        assert rows["word"].to_list() == ["one.parquet", "two.parquet"]
        job.write("table", rows, WORDS, revisions={"model:m": "3"})

    params = {"seed": 3, "store": "store", "stage": 1, "on_empty": "drop"}
    given = Given({"words": [one, two], "unread": one}, {"table": table}, params)
    call(declared(work), given)
    record = read_provenance(table)
    assert (record["stage"], record["params"], record["queries_by"]) == (
        "tried",
        {"seed": 3},
        "people",
    )
    assert list(record["inputs"]) == [one, two]
    assert record["revisions"] == {"model:m": "3"}


def test_a_job_goes_through_domains_and_its_tables_have_all_of_them(tmp_path):
    words = write_words(tmp_path / "words.parquet", "a", domains=True)
    plain = [write_words(tmp_path / f"{name}.parquet", name) for name in ("x", "y")]
    table = str(tmp_path / "t.parquet")

    def work(job: Job) -> None:
        for domain in job.domains():
            rows = [*domain.read("words", WORDS)["word"], *domain.read("plain", WORDS)["word"]]
            said = pl.DataFrame({"word": [f"{domain.name} {domain.own} {rows}"]})
            assert not Path(table).exists()
            domain.write("table", said, WORDS)
        assert Path(table).exists()

    given = Given({"words": words, "plain": plain}, {"table": table})
    given.params["domains"] = {"law": 1, "arts": 2}  # each domain has a separate value
    given.wildcards["lang"] = "eng-Latn"
    call(declared(work), given)
    assert pl.read_parquet(table).rows() == [
        ("eng-Latn", "law", "law 1 ['a of law', 'x']"),
        ("eng-Latn", "arts", "arts 2 ['a of arts', 'y']"),
    ]
    assert pq.ParquetFile(table).num_row_groups == 2


def test_a_job_that_fails_between_domains_leaves_nothing(tmp_path):
    def work(job: Job) -> None:
        for domain in job.domains():
            domain.write("table", pl.DataFrame({"word": ["a"]}), WORDS)
            if domain.number == 1:
                raise InputError("no")

    given = Given(output={"table": str(tmp_path / "t.parquet")})
    given.params["domains"], given.wildcards["lang"] = ["law", "arts", "game"], "eng-Latn"
    with pytest.raises(InputError):
        call(declared(work), given)
    assert list(tmp_path.iterdir()) == []


def test_the_version_is_what_the_script_finds_the_stage_by(tmp_path, monkeypatch):
    from psibench.cluster.job import run_stage

    written = package(
        tmp_path,
        tried_module=(
            "from pathlib import Path\n"
            "from psibench.errors import InputError\n"
            "from psibench.tables.stage import stage\n\n\n"
            '@stage("greet", version=5)\n'
            "def greet(job) -> None:\n"
            "    if not job.value('name'):\n"
            '        raise InputError("no name; give one")\n'
            "    Path(job.outputs['text']).write_text(job.value('name'))\n"
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
