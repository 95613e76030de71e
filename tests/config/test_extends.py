"""A config that lies over shipped ones."""

import pytest

from psibench.config import files
from psibench.config.files import composed
from psibench.errors import InputError


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """Write configs into a folder of presets in place of the shipped one."""
    (tmp_path / "presets").mkdir()
    monkeypatch.setattr(files, "CONFIG_FOLDER", tmp_path)

    def write(name, text):
        (tmp_path / "presets" / name).write_text(text)

    return write


def test_benchmarks_are_merged_with_those_of_the_extended_and_lists_replaced(shipped):
    shipped("a.yaml", "benchmarks: {x: {recipe: a, domain: d}}\nmodels: [m, n]\nsearch: {top_k: 7}")
    shipped("b.yaml", "extends: [presets/a.yaml]\nbenchmarks: {x: {recipe: b}}")
    got = composed(
        {"extends": ["presets/b.yaml"], "benchmarks": {"y": {"recipe": "c"}}, "models": ["o"]}
    )

    assert got["benchmarks"] == {"x": {"recipe": "b", "domain": "d"}, "y": {"recipe": "c"}}
    assert got["models"] == ["o"]
    assert got["search"] == {"top_k": 7}
    assert "extends" not in got


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("presets/squad_posq.yaml", "extends: found .* use a list of names"),
        ([3], "extends: found .* use a list of names"),
        (["presets/sqad_posq.yaml"], "no shipped config 'presets/sqad_posq.yaml'.*squad_posq"),
        (["../secret.yaml"], "no shipped config"),
    ],
)
def test_what_is_no_shipped_config_is_refused(given, said):
    with pytest.raises(InputError, match=said):
        composed({"extends": given})


def test_a_circle_is_refused(shipped):
    shipped("a.yaml", "extends: [presets/b.yaml]")
    shipped("b.yaml", "extends: [presets/a.yaml]")

    with pytest.raises(
        InputError, match=r"presets/a.yaml -> presets/b.yaml -> presets/a.yaml is a circle"
    ):
        composed({"extends": ["presets/a.yaml"]})
