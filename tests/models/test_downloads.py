import json
import os
from pathlib import Path

import pytest
from fake_hub import FakeHub, commit_of, running
from tiny_checkpoints import entry_of

from psibench.errors import InputError
from psibench.models.checkpoints import checkpoint_identity, resolve_checkpoint, run_offline
from psibench.models.load import load_encoder
from psibench.models.manifests import Manifest, manifest_name, read_manifest

UNREAD = {
    "onnx/model.onnx": b"o" * 50,
    "pytorch_model.bin": b"p" * 50,
    "openvino/openvino_model.xml": b"v",
    "model-q4.gguf": b"q",
}


@pytest.fixture(scope="module")
def hub(tiny_bert):
    files = {path.name: path.read_bytes() for path in tiny_bert.iterdir()}
    hub = FakeHub()
    hub.push("owner/tiny", "one", files | UNREAD)
    hub.push("owner/gated", "one", files)
    hub.push("owner/broken", "one", files)
    hub.push("owner/pictures", "one", {"picture.png": b"g", "onnx/model.onnx": b"o"})
    hub.gated.add("owner/gated")
    hub.broken.add("owner/broken")
    with running(hub):
        yield hub


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of manifests, known to this process."""
    folder = tmp_path / "checkpoints"
    monkeypatch.setenv("PSIBENCH_CHECKPOINTS", str(folder))
    return folder


def test_a_downloaded_checkpoint_loads_when_the_hub_is_gone(
    tiny_bert, tmp_path, folder, monkeypatch
):
    files = {path.name: path.read_bytes() for path in tiny_bert.iterdir()}
    with running(FakeHub()) as hub:
        commit = hub.push("owner/tiny", "one", files | UNREAD)
        (done,) = hub.download(tmp_path / "hf", folder, [{"repo": "owner/tiny"}])
    assert done == {"manifest": "owner--tiny@main.json"}
    path = folder / done["manifest"]
    manifest = read_manifest(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"code": {}}))  # as 0.1.0 did
    assert (manifest.repo, manifest.revision, manifest.commit) == ("owner/tiny", None, commit)
    assert manifest.files == {name: len(data) for name, data in sorted(files.items())}
    there = {p.relative_to(manifest.folder).as_posix() for p in Path(manifest.folder).rglob("*")}
    assert there == set(files)
    assert not [path for path in hub.asked if "onnx" in path or "pytorch_model" in path]

    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    run_offline()
    assert os.environ["HF_HUB_OFFLINE"] == "1"
    encoder = load_encoder(entry_of("owner/tiny"), device="cpu")
    assert encoder.tokenize(["w1 w2"], "document")[0].n_tokens == 4  # [CLS] w1 w2 [SEP]
    assert encoder.identity == f"owner/tiny@{commit}"


def test_failed_downloads_are_explained(hub, tmp_path, folder):
    expected = {
        "owner/none": "no such repository owner/name, or a private one",
        "owner/tiny": "'owner/tiny', revision 'v9': no such commit, branch or tag",
        "owner/gated": "gated. Accept its conditions on 127.0.0.1/owner/gated, and log in",
        "owner/pictures": "found no file that psibench reads",
        "not a name": "no such repository owner/name, or a private one",
        "owner/broken": "'owner/broken', revision 'main': the hub does not answer",
    }
    calls = [{"repo": repo} for repo in expected]
    calls[1]["revision"] = "v9"
    found = hub.download(tmp_path / "hf", folder, calls)
    for row, words in zip(found, expected.values(), strict=True):
        assert words in row["error"]
    assert not folder.exists()


def test_without_network_the_cache_is_used_if_complete(hub, tmp_path, folder):
    home = tmp_path / "hf"
    call = {"repo": "owner/tiny"}
    hub.download(home, folder, [call])
    first = (folder / "owner--tiny@main.json").read_bytes()
    (folder / "owner--tiny@main.json").unlink()
    n_before = len(hub.asked)
    nobody = {"HF_ENDPOINT": "http://127.0.0.1:9"}  # the port of discard: nobody listens
    again, lacking = hub.download(home, folder, [call, {"repo": "owner/gated"}], **nobody)
    assert again == {"manifest": "owner--tiny@main.json"}
    assert (folder / "owner--tiny@main.json").read_bytes() == first
    assert "'owner/gated', revision 'main': the hub does not answer" in lacking["error"]
    (offline,) = hub.download(home, folder, [{"repo": "owner/gated"}], HF_HUB_OFFLINE="1")
    assert "HF_HUB_OFFLINE must be unset" in offline["error"]
    assert len(hub.asked) == n_before


def test_a_tokenizer_comes_without_weights(hub, tmp_path, folder):
    call = {"repo": "owner/tiny", "part": "tokenizer"}
    (done,) = hub.download(tmp_path / "hf", folder, [call])
    assert done["manifest"] == "owner--tiny@main.tokenizer.json"
    manifest = read_manifest(folder / done["manifest"])
    assert "tokenizer.json" in manifest.files
    assert not [name for name in manifest.files if name.endswith((".safetensors", ".bin"))]
    assert resolve_checkpoint("owner/tiny", part="tokenizer") == manifest.folder
    identity = checkpoint_identity("owner/tiny", None, part="tokenizer")
    assert identity == f"owner/tiny@{manifest.commit}"
    assert resolve_checkpoint("owner/tiny") == "owner/tiny"  # of the weights nothing is here


def test_a_moved_branch_is_another_checkpoint(tmp_path, folder):
    weights = {"config.json": b"{}", "model.safetensors": b"one"}
    with running(FakeHub()) as hub:
        hub.push("owner/moving", "first", weights)
        hub.download(tmp_path / "hf", folder, [{"repo": "owner/moving"}])
        before = checkpoint_identity("owner/moving", None)
        hub.push("owner/moving", "second", weights | {"model.safetensors": b"two"})
        pinned = {"repo": "owner/moving", "revision": commit_of("first")}
        hub.download(tmp_path / "hf", folder, [{"repo": "owner/moving"}, pinned])
    assert before == f"owner/moving@{commit_of('first')}"
    assert checkpoint_identity("owner/moving", None) == f"owner/moving@{commit_of('second')}"
    moved = Path(resolve_checkpoint("owner/moving"))
    assert (moved / "model.safetensors").read_bytes() == b"two"
    old = Path(resolve_checkpoint("owner/moving", commit_of("first")))
    assert (old / "model.safetensors").read_bytes() == b"one"


def test_deleted_download_is_reported(tmp_path, folder):
    (tmp_path / "model.safetensors").write_bytes(b"123")
    (tmp_path / "config.json").write_text("{}")
    files = {"config.json": 2, "model.safetensors": 5}
    manifest = Manifest("owner/name", None, commit_of("x"), str(tmp_path), files)
    manifest.write(folder / manifest_name("owner/name", None))
    with pytest.raises(InputError, match=r"1 of 2 downloaded files .*model\.safetensors.*Delete"):
        resolve_checkpoint("owner/name")


WEIGHTS = [
    (["model.safetensors", "pytorch_model.bin", "a.bin"], ["a.bin", "model.safetensors"]),
    (["2_Dense/model.safetensors", "pytorch_model.bin"],) * 2,
    (["2_Dense/pytorch_model.bin", "consolidated.safetensors", "model.safetensors"],
     ["2_Dense/pytorch_model.bin", "model.safetensors"]),
    (["config.json", "openvino/openvino_model.bin", "optimizer.pt"], ["config.json"]),
]  # fmt: skip
"""Files of a repository, and the downloaded ones."""


def test_duplicate_weights_are_not_downloaded(tmp_path, folder):
    repositories = [f"owner/name{number}" for number in range(len(WEIGHTS))]
    with running(FakeHub()) as hub:
        for repo, (names, _) in zip(repositories, WEIGHTS, strict=True):
            hub.push(repo, "one", dict.fromkeys(names, b"1"))
        done = hub.download(tmp_path / "hf", folder, [{"repo": repo} for repo in repositories])
    found = [list(read_manifest(folder / made["manifest"]).files) for made in done]
    assert found == [wanted for _, wanted in WEIGHTS]


def test_interrupted_download_is_not_used(tmp_path, folder):
    home, weights = tmp_path / "hf", {"config.json": b"{}", "model.safetensors": b"one"}
    with running(FakeHub()) as hub:
        commit = hub.push("owner/name", "one", weights)
        pinned = {"repo": "owner/name", "revision": commit}
        hub.download(home, folder, [pinned])
        hub.broken.add("owner/name")
        (again,) = hub.download(home, folder, [pinned])
        assert again == {"manifest": f"owner--name@{commit}.json"}
        (snapshot,) = (home / "hub" / "models--owner--name" / "snapshots").iterdir()
        (snapshot / "model.safetensors").unlink()
        (lacking,) = hub.download(home, folder, [pinned])
    assert "owner/name" in lacking["error"]
