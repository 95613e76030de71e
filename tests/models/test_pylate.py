"""The encoder over PyLate: over PyLate itself where it is installed, else over a stand-in."""

import importlib.util
import json
import sys
import types
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from closeness import assert_vectors_close
from late_vectors import maxsim, maxsim_search, vectors_of
from tiny_late_checkpoints import save_colbert, save_pylate

from psibench.config.models import ColbertModel, PyLateModel
from psibench.errors import InputError
from psibench.models.colbert import load_colbert
from psibench.models.pylate_encoder import load_pylate

IS_INSTALLED = importlib.util.find_spec("pylate") is not None
CLS, Q, D, SEP, MASK, W0 = 4, 1, 2, 5, 6, 7
TEXTS = [
    "w1",
    "w2 w3 w4 w5 w6 w7 w8 w9 w10 w11 w12 w13 w14 w15 w16 w17 w18",
    "",
    "w40, w41 (w43).",
    " ".join(f"w{i}" for i in range(59)),
]
LAYOUTS = {"colbert": save_colbert, "pylate": save_pylate}


@pytest.fixture(autouse=True)
def _pylate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the stand-in where PyLate would be imported from."""
    if IS_INSTALLED:
        return
    import fake_pylate

    package = types.ModuleType("pylate")
    package.models = types.ModuleType("pylate.models")
    package.models.ColBERT = fake_pylate.ColBERT
    monkeypatch.setitem(sys.modules, "pylate", package)
    monkeypatch.setitem(sys.modules, "pylate.models", package.models)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {name: save(tmp_path_factory.mktemp(name)) for name, save in LAYOUTS.items()}


@pytest.fixture
def load(folders):
    def load(checkpoint=None, dtype="float32", **fields):
        folder = checkpoint or folders["pylate"]
        values = {"backend": "pylate", "max_tokens": 32} | fields
        entry = PyLateModel(checkpoint=str(folder), **values)
        return load_pylate(entry, device="cpu", dtype=dtype)

    return load


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("role", ["query", "document"])
def test_vectors_are_those_of_the_colbert_backend(load, folders, layout, role):
    entry = ColbertModel(backend="colbert", checkpoint=str(folders[layout]), max_tokens=32)
    native = load_colbert(entry, device="cpu", dtype="float32")
    encoder = load(folders[layout])
    items, theirs = (each.tokenize(TEXTS, role) for each in (encoder, native))
    for ours, expected in zip(items, theirs, strict=True):
        np.testing.assert_array_equal(ours.windows[0], expected.windows[0])
        np.testing.assert_array_equal(ours.content[0], expected.content[0])
        assert ours.visible_char_end == expected.visible_char_end
        assert ours.windows[0].dtype == np.int32
    pairs = zip(*(vectors_of(each, TEXTS, role=role) for each in (encoder, native)), strict=True)
    for ours, expected in pairs:
        assert ours.dtype == np.float32
        np.testing.assert_allclose(ours, expected, atol=1e-6)


@pytest.mark.skipif(not IS_INSTALLED, reason="the stand-in has no encode of its own")
@pytest.mark.parametrize("role", ["query", "document"])
@pytest.mark.parametrize(
    "declared", [{}, {"attend_to_expansion_tokens": True}, {"do_query_expansion": False}], ids=str
)
def test_vectors_are_those_of_pylate_s_own_encode(load, tmp_path, role, declared):
    encoder = load(save_pylate(tmp_path, **declared), query_prompt="w7 ", document_prompt="w8 ")
    prompt = encoder.prompt(role)
    expected = encoder.model.encode(TEXTS, is_query=role == "query", prompt=prompt)
    for ours, theirs in zip(vectors_of(encoder, TEXTS, role=role), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_queries_and_documents_are_marked_and_cut(load):
    encoder = load(query_tokens=8, max_tokens=9)
    (query,) = encoder.tokenize(["w0 w1"], "query")
    assert query.windows[0].tolist() == [CLS, Q, W0, W0 + 1, SEP, MASK, MASK, MASK]
    read, empty = encoder.tokenize(["w0, w1. w2 w3 w4", ""], "document")
    assert read.windows[0][[0, 1, 2, 4, 8]].tolist() == [CLS, D, W0, W0 + 1, SEP]
    assert read.content[0].tolist() == [True, True, True, False, True, False, True, True, True]
    assert read.visible_char_end == len("w0, w1. w2 w3")
    assert empty.windows[0].tolist() == [CLS, D, SEP]


def test_what_the_checkpoint_declares_is_kept(load, tmp_path):
    folder = save_pylate(tmp_path, do_query_expansion=False, skiplist_words=[])
    encoder = load(folder)
    long, short = encoder.tokenize(["w0 w1 w2", "w0"], "query")
    assert short.windows[0].tolist() == [CLS, Q, W0, SEP]
    assert long.n_tokens == 6
    assert encoder.tokenize(["w0, w1."], "document")[0].content[0].all()
    assert encoder.fingerprint != load().fingerprint


@pytest.mark.parametrize("attends", [True, False])
def test_masks_are_attended_to_where_the_checkpoint_says_so(load, tmp_path, attends):
    encoder = load(save_pylate(tmp_path, attend_to_expansion_tokens=attends))
    (short,), (filled,) = (
        vectors_of(replace(encoder), ["w0 w1"], role=role) for role in ("document", "query")
    )
    fields = {"backend": "colbert", "max_tokens": 32, "attend_to_expansion": attends}
    entry = ColbertModel(checkpoint=str(tmp_path), **fields)
    native = load_colbert(entry, device="cpu", dtype="float32")
    (expected,) = vectors_of(native, ["w0 w1"], role="query")
    assert (short.shape, filled.shape) == ((5, 16), (32, 16))
    np.testing.assert_allclose(filled, expected, atol=1e-6)


@pytest.mark.parametrize("role", ["query", "document"])
def test_what_is_in_a_batch_changes_its_vectors_by_rounding_only(load, role):
    encoder = load()
    shape = {
        "role": role,
    }
    together = vectors_of(encoder, TEXTS, **shape)
    backwards = vectors_of(encoder, TEXTS[::-1], **shape)[::-1]
    alone = [vectors_of(encoder, [text], **shape)[0] for text in TEXTS]
    assert_vectors_close(together, alone)
    assert_vectors_close(backwards, alone)


def test_search_scores_by_the_formula(load):
    encoder = load()
    assert encoder.entry.scores_by == "maxsim"
    asked, read = vectors_of(encoder, TEXTS[:3], role="query"), vectors_of(encoder, TEXTS)
    expected = [[maxsim(query, text) for text in read] for query in asked]
    np.testing.assert_allclose(maxsim_search(asked, read), expected, atol=1e-4)


def test_more_texts_than_a_call_of_the_tokenizer_takes_are_read(load):
    texts = [f"w{i % 60}" for i in range(1100)]
    items = load().tokenize(texts, "document")
    assert [item.windows[0][2] for item in items] == [W0 + i % 60 for i in range(1100)]


def test_a_prompt_is_read_and_not_counted_as_visible(load):
    (item,) = load(query_prompt="w7 w8 ", query_tokens=8).tokenize(["w0 w1 w2 w3"], "query")
    assert item.windows[0].tolist() == [CLS, Q, W0 + 7, W0 + 8, W0, W0 + 1, W0 + 2, SEP]
    assert item.visible_char_end == len("w0 w1 w2")


def test_fingerprint_and_salt_say_what_decides_the_vectors(load, folders):
    base = load()
    others = [
        load(max_tokens=16),
        load(query_tokens=16),
        load(dtype="bfloat16"),
        load(folders["colbert"]),
    ]
    assert len({base.fingerprint, *(other.fingerprint for other in others)}) == 5
    assert load(query_prompt="w1 ", description="x").fingerprint == base.fingerprint
    assert load(query_prompt="w1 ").salt("query") == "w1 \0query"
    assert base.salt("document") == "\0document"


def test_a_checkpoint_without_projection_is_refused(load, tmp_path):
    folder = save_pylate(tmp_path)
    modules = json.loads((folder / "modules.json").read_text())
    (folder / "modules.json").write_text(json.dumps(modules[:1]))
    (folder / "1_Dense" / "model.safetensors").unlink()
    with pytest.raises(InputError, match="no projection of its tokens"):
        load(folder)


def test_what_is_missing_is_named(load, tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"nowhere.*no such folder"):
        load(tmp_path / "nowhere")
    monkeypatch.setitem(sys.modules, "pylate", None)  # as if it were not installed
    with pytest.raises(InputError, match=r"environment of its own, envs/pylate.txt: docs/mod"):
        load()
