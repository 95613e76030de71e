import shutil

import pytest
from tiny_checkpoints import save_bert

from psibench.errors import InputError
from psibench.models import checkpoints
from psibench.models.checkpoints import checkpoint_identity, is_local, resolve_checkpoint


def test_embedded_checkpoint_is_a_folder_with_weights():
    folder = resolve_checkpoint("embedded:all-MiniLM-L6-v2")
    assert is_local("embedded:all-MiniLM-L6-v2")
    assert folder.endswith("model")


def test_unknown_embedded_checkpoint_lists_the_supported_ones():
    with pytest.raises(InputError, match="Supported: embedded:all-MiniLM-L6-v2"):
        resolve_checkpoint("embedded:other")


def test_embedded_checkpoint_without_its_package_is_a_missing_extra_and_no_bad_name(monkeypatch):
    monkeypatch.setitem(checkpoints.EMBEDDED, "all-MiniLM-L6-v2", "no_such_package_here")
    with pytest.raises(ModuleNotFoundError, match="no_such_package_here"):
        resolve_checkpoint("embedded:all-MiniLM-L6-v2")


def test_hub_name_stays_as_it_is():
    assert resolve_checkpoint("owner/name") == "owner/name"
    assert not is_local("owner/name")
    assert checkpoint_identity("owner/name", "abc") == "owner/name@abc"
    assert checkpoint_identity("owner/name", None) == "owner/name@main"


@pytest.mark.parametrize("name", ["./nowhere", "/nowhere", "~/nowhere-at-all", "a/b/c", "../x", ""])
def test_path_that_does_not_exist_is_refused(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        resolve_checkpoint(name)


def test_home_folder_is_expanded(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "model").mkdir()
    assert resolve_checkpoint("~/model") == str(tmp_path / "model")


@pytest.fixture
def copy(tiny_bert, tmp_path):
    return shutil.copytree(tiny_bert, tmp_path / "copy")


def test_identity_is_that_of_the_content_not_of_the_place(tiny_bert, copy):
    identity = checkpoint_identity(str(copy), None)
    assert identity == checkpoint_identity(str(tiny_bert), None)
    assert identity.startswith("sha256:")


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_identity_changes_when_a_file_changes(tiny_bert, copy, name):
    data = bytearray((copy / name).read_bytes())
    data[-1] ^= 1
    (copy / name).write_bytes(data)
    assert checkpoint_identity(str(copy), None) != checkpoint_identity(str(tiny_bert), None)


def test_identity_changes_with_a_new_file_in_a_subfolder(tiny_bert, copy):
    (copy / "1_Pooling").mkdir()
    (copy / "1_Pooling" / "config.json").write_text("{}")
    assert checkpoint_identity(str(copy), None) != checkpoint_identity(str(tiny_bert), None)


def test_identity_changes_after_training_in_place(tiny_bert, copy):
    save_bert(copy, seed=7)
    assert checkpoint_identity(str(copy), None) != checkpoint_identity(str(tiny_bert), None)


def test_identity_does_not_change_with_a_readme(tiny_bert, copy):
    (copy / "README.md").write_text("words")
    assert checkpoint_identity(str(copy), None) == checkpoint_identity(str(tiny_bert), None)
