"""Without a config, commands take ./psibench.yaml where it exists."""

import logging
from pathlib import Path

import pytest
import yaml

from psibench.cli import main


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("A text of some words about nothing much, which is long enough. " * 9)
    source = {"kind": "files", "paths": ["a.txt"]}
    config = {"benchmarks": {"own": {"recipe": "known_item", "source": source}}, "models": ["bm25"]}
    Path("psibench.yaml").write_text(yaml.safe_dump(config))
    return tmp_path


@pytest.mark.parametrize("command", ["plan", "estimate"])
def test_the_config_of_this_folder_is_planned(
    here: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command]) == 0
    said = capsys.readouterr()
    assert "Config: psibench.yaml, in this folder" in said.err
    assert "choose_configuration" not in said.out, "a task of the embedded default"


def test_check_without_files_reads_the_config_of_this_folder(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check"]) == 0
    assert "psibench.yaml: valid" in capsys.readouterr().out
    Path("psibench.yaml").unlink()
    assert main(["check"]) == 2
    assert "no psibench.yaml in" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "config"),
    [([], "psibench.yaml"), (["results/psi_table.csv"], "psibench.yaml"), (["o.yaml"], "o.yaml")],
)
def test_run_uses_the_config_of_this_folder_by_default(
    here: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], config: str
) -> None:
    Path("o.yaml").write_text(Path("psibench.yaml").read_text())
    given: list[str] = []

    def snakemake(arguments: list[str], _failed: logging.Handler) -> int:
        given.extend(arguments)
        return 0

    monkeypatch.setattr("psibench.commands.run.run_snakemake", snakemake)
    assert main(["run", "--dry-run", *words]) == 0
    assert given[given.index("--configfile") + 1] == config


def test_run_without_a_config_here_takes_the_embedded_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given: list[str] = []
    monkeypatch.setattr(
        "psibench.commands.run.run_snakemake", lambda arguments, _: given.extend(arguments) or 0
    )
    assert main(["run", "--dry-run"]) == 0
    assert "--configfile" not in given


WRONG = [
    ("modls: [bm25]", "b.yaml: modls: unknown key. Did you mean models?"),
    ("models: [bm25x]", "b.yaml: config key models: unknown model 'bm25x'"),
    (
        "benchmarks: {own: {souce: {}}}",
        "b.yaml: benchmarks.own.souce: unknown key. Did you mean source?",
    ),
    (
        "benchmarks: {own: {recipe: known_itm}}",
        "b.yaml: benchmarks.own.recipe: found 'known_itm'. Did you mean known_item?",
    ),
    (
        "benchmarks: {own: {source: {pahts: []}}}",
        "b.yaml: benchmarks.own.source.pahts: unknown key. Did you mean paths?",
    ),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
@pytest.mark.parametrize("command", ["check", "plan"])
def test_a_wrong_key_is_named_with_file_and_spelling(command, text, message, here, capsys):
    (here / "b.yaml").write_text(text)
    assert main([command, "psibench.yaml", "b.yaml"]) == 2
    assert message in capsys.readouterr().err


def test_a_single_config_is_named_once(here, capsys):
    (here / "b.yaml").write_text("modls: [bm25]")
    assert main(["check", "b.yaml"]) == 2
    assert "b.yaml is not valid:\n  modls: unknown key" in capsys.readouterr().err


def test_run_says_that_slurm_is_not_installed(here, capsys, monkeypatch):
    monkeypatch.setenv("PATH", str(here))
    assert main(["run", "--profile", "slurm", "psibench.yaml"]) == 2
    assert "SLURM is not installed: there is no `sbatch`" in capsys.readouterr().err
