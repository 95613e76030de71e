"""Help is there at once, and of every command."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from psibench.cli import build_parser, main
from psibench.commands import COMMANDS, EXAMPLES
from psibench.commands.run import _provide_home

HEAVY = ("polars", "numpy", "pyarrow", "pydantic", "torch", "snakemake", "openai")


def test_the_list_of_commands_imports_nothing_heavy():
    code = "import sys; from psibench.cli import main\ntry: main(['--help'])\nexcept SystemExit: "
    code += f"print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert all(f"\n    {name}" in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_says_what_it_is_for(name, capsys):
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert f"usage: psibench {name}" in printed
    assert f"example: {EXAMPLES[name]}" in printed
    words = EXAMPLES[name].split()[1:]
    assert build_parser(name).parse_args(words).command == name


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "COMMAND"),
        (["nope"], "COMMAND"),
        (["run", "--smal"], "unrecognized arguments: --smal"),
        (["prompts", "render", "x", "--row", "y", "--conf", "z"], "unrecognized arguments: --conf"),
        (
            ["plan", "--nope"],
            "usage: psibench plan [-h] [--config FILE",
        ),  # the arguments that it takes
    ],
)
def test_unknown_commands_and_abbreviated_options_are_refused(given, said, capsys):
    with pytest.raises(SystemExit) as ended:
        main(given)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("number", ["0", "-1", "many"])
def test_an_impossible_number_of_cores_is_refused(number, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["run", "--cores", number, "nope.yaml"])
    assert ended.value.code == 2
    assert f"--cores: '{number}': give a number from 1 on, or all" in capsys.readouterr().err


@pytest.mark.parametrize("given", [("--directory", "elsewhere"), ("--cores", "0"), ("-c", "0")])
def test_reserved_snakemake_options_are_refused(given, capsys):
    assert main(["run", "my.yaml", "--dry-run", "--", *given]) == 2
    assert f"{given[0]} cannot be passed to Snakemake here" in capsys.readouterr().err


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_output_that_is_not_utf8_is_escaped(encoding, monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, encoding=encoding))
    assert main(["score", "--example"]) == 0
    sys.stdout.flush()
    said = written.getvalue().decode(encoding)
    assert "all-minilm-l6-v2" in said
    assert ("\u2013" in said) == (encoding == "cp1252")  # a dash, for a value that is not defined
    assert ("\\u2013" in said) == (encoding != "cp1252")


@pytest.fixture
def environment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    os.environ.pop("XDG_CACHE_HOME", None)
    return os.environ


@pytest.mark.parametrize("home", ["file", "sealed"])
def test_caches_are_here_where_home_cannot_be_written(home, tmp_path, environment, capsys):
    (tmp_path / "file").write_text("")
    environment["HOME"] = {"file": str(tmp_path / "file"), "sealed": "/proc/none"}[home]
    _provide_home()
    assert environment["XDG_CACHE_HOME"] == str(tmp_path / ".snakemake" / "cache")
    assert "is not writable; using caches in" in capsys.readouterr().err


def test_downloads_in_a_read_only_home_are_found(tmp_path, environment, monkeypatch):
    environment["HOME"] = str(tmp_path / "home")
    snapshot = Path("huggingface", "hub", "models--a--b", "snapshots", "1", "config.json")
    (tmp_path / "home" / ".cache" / snapshot).parent.mkdir(parents=True)
    (tmp_path / "home" / ".cache" / snapshot).write_text("{}")
    monkeypatch.setattr(os, "access", lambda *_: False)  # as root nothing is sealed
    for _ in range(2):
        environment.pop("XDG_CACHE_HOME", None)
        _provide_home()
        assert (Path(environment["XDG_CACHE_HOME"]) / snapshot).read_text() == "{}"


def test_a_user_without_passwd_entry_gets_a_home(tmp_path, environment):
    for name in ("HOME", "LOGNAME", "USER", "LNAME", "USERNAME"):
        environment.pop(name, None)
    script = (
        "import os, pwd; from psibench.commands.run import _provide_home\n"
        "def missing(uid): raise KeyError(uid)\n"
        "pwd.getpwuid = missing\n"
        "_provide_home(); import getpass\n"
        "print(getpass.getuser(), os.path.expanduser('~'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [f"uid{os.getuid()}", str(tmp_path / ".snakemake" / "home")]
