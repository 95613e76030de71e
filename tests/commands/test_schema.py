import pytest

from psibench.cli import main
from psibench.commands import schema
from psibench.plan.reference import reference_text, schema_text


@pytest.fixture
def files(tmp_path, monkeypatch):
    found = tmp_path / "schema.json", tmp_path / "docs" / "config.md"
    monkeypatch.setattr(schema, "SCHEMA_FILE", found[0])
    monkeypatch.setattr(schema, "REFERENCE_FILE", found[1])
    return found


def test_schema_writes_both_files_and_then_finds_them_up_to_date(files, capsys):
    assert main(["schema"]) == 0
    assert [f.read_text(encoding="utf-8") for f in files] == [schema_text(), reference_text()]
    assert main(["schema", "--check"]) == 0
    assert "up to date" in capsys.readouterr().out


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("state", ["missing", "old"])
def test_a_file_out_of_date_is_named_with_the_command_that_mends_it(files, capsys, place, state):
    main(["schema"])
    files[place].unlink()
    if state == "old":
        files[place].write_text("old")
    assert main(["schema", "--check"]) == 2
    message = capsys.readouterr().err
    assert f"{files[place]} is not what the typed config gives; run `psibench schema`" in message
    assert files[place].exists() is (state == "old")
