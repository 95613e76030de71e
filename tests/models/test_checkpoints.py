import shutil
import sys
from types import SimpleNamespace

import pytest
from tiny_checkpoints import save_bert

from psibench.errors import InputError, missing_extra
from psibench.models import checkpoints
from psibench.models.checkpoints import checkpoint_identity, loading, resolve_checkpoint


def test_unknown_embedded_checkpoint_lists_the_supported_ones():
    with pytest.raises(InputError, match="Supported: embedded:all-MiniLM-L6-v2"):
        resolve_checkpoint("embedded:other")


def test_missing_package_of_embedded_checkpoint_is_reported_as_missing(monkeypatch):
    monkeypatch.setitem(checkpoints.EMBEDDED_PACKAGES, "all-MiniLM-L6-v2", "no_such_package_here")
    with pytest.raises(ModuleNotFoundError, match="no_such_package_here"):
        resolve_checkpoint("embedded:all-MiniLM-L6-v2")


def test_missing_library_is_not_reported_as_a_bad_checkpoint(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    entry = SimpleNamespace(checkpoint="some/checkpoint", revision=None)
    with pytest.raises(ModuleNotFoundError) as raised, loading(entry):
        pass
    assert "psibench-ir[models]" in (missing_extra(raised.value) or "")


@pytest.mark.parametrize("name", ["./nowhere", "~/nowhere-at-all", "a/b/c", ""])
def test_path_that_does_not_exist_is_refused(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        resolve_checkpoint(name)


def test_identity_changes_with_files_that_decide_vectors(tiny_bert, tmp_path):
    copy = shutil.copytree(tiny_bert, tmp_path / "copy")
    (copy / "README.md").write_text("words")
    found = [checkpoint_identity(str(copy), None)]
    assert found == [checkpoint_identity(str(tiny_bert), None)]
    save_bert(copy, seed=7)  # trained in place
    found.append(checkpoint_identity(str(copy), None))
    (copy / "1_Pooling").mkdir()
    (copy / "1_Pooling" / "config.json").write_text("{}")
    found.append(checkpoint_identity(str(copy), None))
    assert len(set(found)) == 3
