"""Help is there at once, and of every command."""

import subprocess
import sys

import pytest

from psibench.cli import build_parser, main
from psibench.commands import COMMANDS, EXAMPLES

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
        (["publish", "leaderboard", "--out", "x", "--exam"], "unrecognized arguments: --exam"),
        (["plan", "my.yaml"], "usage: psibench plan [-h] [--config FILE"),  # what it takes
    ],
)
def test_what_is_no_command_or_the_beginning_of_an_option_is_refused(given, said, capsys):
    with pytest.raises(SystemExit) as ended:
        main(given)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("number", ["0", "-1", "many"])
def test_a_number_of_cores_on_which_a_run_would_never_end_is_refused(number, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["run", "--cores", number, "nope.yaml"])
    assert ended.value.code == 2
    assert f"--cores: '{number}': give a number from 1, or all" in capsys.readouterr().err


@pytest.mark.parametrize("given", [("--directory", "elsewhere"), ("--cores", "0"), ("-c", "0")])
def test_options_that_psibench_gives_snakemake_are_refused_behind_those_of_run(given, capsys):
    assert main(["run", "my.yaml", "--dry-run", "--", *given]) == 2
    assert f"{given[0]} cannot be passed to Snakemake here" in capsys.readouterr().err
