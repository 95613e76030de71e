import logging
import os
import shutil
import subprocess
import sys
import time
from collections import namedtuple
from pathlib import Path

import pytest

from psibench.models import manifests
from psibench.models.checkpoints import checkpoint_identity, resolve_checkpoint
from psibench.models.manifests import Manifest, cached_on_node, manifest_name

DiskUsage = namedtuple("DiskUsage", "total used free")


@pytest.fixture
def snapshot(tmp_path):
    """A snapshot as the hub's cache has it: links to blobs, one file beside the checkpoint's."""
    repo = tmp_path / "hub" / "models--owner--name"
    folder = repo / "snapshots" / "0123abc"
    (folder / "1_Pooling").mkdir(parents=True)
    (repo / "blobs").mkdir()
    for name, data in {"model.safetensors": b"12345", "1_Pooling/config.json": b"{}"}.items():
        blob = repo / "blobs" / name.replace("/", "-")
        blob.write_bytes(data)
        (folder / name).symlink_to(blob)
    (folder / "unread.onnx").write_bytes(b"0" * 100)
    return folder


FILES = {"model.safetensors": 5, "1_Pooling/config.json": 2}


@pytest.fixture
def node(tmp_path, monkeypatch):
    """The node's own disk, its variable set."""
    monkeypatch.setenv("NODE_DISK", str(tmp_path / "node"))
    monkeypatch.setenv("PSIBENCH_NODE_CACHE", "$NODE_DISK/checkpoints")
    return tmp_path / "node" / "checkpoints"


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_without_the_variable_a_checkpoint_stays_where_it_lies(snapshot, monkeypatch):
    monkeypatch.delenv("PSIBENCH_NODE_CACHE", raising=False)
    assert cached_on_node(snapshot, FILES) == snapshot


def test_the_copy_has_plain_files_and_no_others(snapshot, node):
    copy = cached_on_node(snapshot, FILES)
    assert copy.parent == node
    assert copy.name.startswith("owner--name-")
    assert contents(copy) == {"model.safetensors": b"12345", "1_Pooling/config.json": b"{}"}
    assert not [path for path in copy.rglob("*") if path.is_symlink()]


def test_a_hub_checkpoint_is_loaded_from_the_copy(snapshot, node, tmp_path, monkeypatch):
    monkeypatch.setenv("PSIBENCH_CHECKPOINTS", str(tmp_path / "manifests"))
    manifest = Manifest("owner/name", None, "0123abc", str(snapshot), FILES)
    manifest.write(tmp_path / "manifests" / manifest_name("owner/name", None))
    assert contents(Path(resolve_checkpoint("owner/name"))).keys() == FILES.keys()
    assert resolve_checkpoint("owner/name").startswith(str(node))
    assert checkpoint_identity("owner/name", None) == "owner/name@0123abc"


def test_a_damaged_copy_is_made_again(snapshot, node):
    copy = cached_on_node(snapshot, FILES)
    (copy / "model.safetensors").unlink()
    assert contents(cached_on_node(snapshot, FILES))["model.safetensors"] == b"12345"


def test_other_weights_in_the_same_place_are_another_copy(snapshot, node):
    copy = cached_on_node(snapshot, FILES)
    blob = (snapshot / "model.safetensors").resolve()
    blob.write_bytes(b"54321")
    os.utime(blob, ns=(1, 1))
    again = cached_on_node(snapshot, FILES)
    assert again != copy
    assert contents(again)["model.safetensors"] == b"54321"


def test_without_room_the_shared_folder_is_read(snapshot, node, monkeypatch, caplog):
    needed = 7 + manifests.SPARE_BYTES
    monkeypatch.setattr(shutil, "disk_usage", lambda _: DiskUsage(0, 0, needed - 1))
    with caplog.at_level(logging.WARNING):
        assert cached_on_node(snapshot, FILES) == snapshot
    assert "no room for" in caplog.text
    monkeypatch.setattr(shutil, "disk_usage", lambda _: DiskUsage(0, 0, needed))
    assert cached_on_node(snapshot, FILES).parent == node


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("$NO_SUCH_VARIABLE/x", "not an absolute path"),
        ("relative", "not an absolute path"),
        ("/dev/null/x", "Not a directory"),
    ],
)
def test_a_useless_place_is_said_and_left(snapshot, monkeypatch, caplog, given, words):
    monkeypatch.setenv("PSIBENCH_NODE_CACHE", given)
    with caplog.at_level(logging.WARNING):
        assert cached_on_node(snapshot, FILES) == snapshot
    assert words in caplog.text


def test_a_disk_that_fills_meanwhile_leaves_nothing(snapshot, node, monkeypatch, caplog):
    def full(source, target):
        Path(target).write_bytes(b"1")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", full)
    with caplog.at_level(logging.WARNING):
        assert cached_on_node(snapshot, FILES) == snapshot
    assert "No space left on device" in caplog.text
    assert [path.suffix for path in node.iterdir()] == [".lock"]


SLOW = """
import shutil, sys, time
from pathlib import Path
real = shutil.copyfile
def slow(source, target):
    with open(sys.argv[2], "a") as log:
        log.write("copied\\n")
    time.sleep(0.3)
    return real(source, target)
shutil.copyfile = slow
from psibench.models.manifests import cached_on_node
print(cached_on_node(sys.argv[1], {"model.safetensors": 5, "1_Pooling/config.json": 2}))
"""


def test_jobs_that_start_together_copy_once(snapshot, node, tmp_path):
    log = tmp_path / "copied.txt"
    command = [sys.executable, "-c", SLOW, str(snapshot), str(log)]
    jobs = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    found = {job.communicate(timeout=300)[0] for job in jobs}
    assert len(found) == 1
    assert len(log.read_text().splitlines()) == 2  # of two files, once each
    assert contents(Path(found.pop().strip())).keys() == FILES.keys()


def test_a_killed_copy_does_not_lock_the_others_out(snapshot, node, tmp_path):
    log = tmp_path / "copied.txt"
    killed = subprocess.Popen([sys.executable, "-c", SLOW, str(snapshot), str(log)])
    while not log.exists():
        time.sleep(0.01)
    killed.kill()
    killed.wait()
    assert contents(cached_on_node(snapshot, FILES)).keys() == FILES.keys()
    assert not list(node.glob(".*.tmp"))
