"""The embedded checkpoint without torch: the vectors of its library, and what its jobs import."""

import subprocess
import sys

import numpy as np
import pytest

from psibench.config.encoders import SentenceTransformerModel, StaticModel
from psibench.models.embedded import EmbeddedEncoder, load_embedded
from psibench.models.load import load_encoder
from psibench.models.protocols import ROLES, VECTOR_BOUND
from psibench.models.transformer import TransformerEncoder

MINILM = "embedded:all-MiniLM-L6-v2"
TEXTS = [
    "one",
    "",
    "Zwölf Boxkämpfer 漢字 👍 don't U.S.A. [SEP] ##x \u202bمرحبا\u202c ĥéļļö",
    "evidence late in a long document is what many retrievers miss " * 20,
]
LIBRARIES = ("torch", "sentence_transformers", "sklearn", "scipy", "pandas", "datasets", "peft")


def transformer(**fields) -> SentenceTransformerModel:
    values = {"backend": "sentence-transformers", "checkpoint": MINILM, "max_tokens": 64}
    return SentenceTransformerModel(**values | fields)


@pytest.fixture(scope="module", autouse=True)
def converted(tmp_path_factory):
    """Keep the converted network, as the first job of a run does, on one thread."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("PSIBENCH_ENGINE", "auto")
        load_encoder(transformer(), device="cpu", needs_torch=True)
        yield


def encoded(encoder, role):
    items = encoder.tokenize(TEXTS, role)
    windows, content = zip(
        *(pair for item in items for pair in zip(item.windows, item.content, strict=True)),
        strict=True,
    )
    return items, encoder.forward(windows, content)


@pytest.mark.parametrize(
    "entry",
    [
        transformer(),
        transformer(scoring="maxsim", kind="late-interaction"),
        transformer(windows={"tokens": 32, "overlap": 8}),
        transformer(windows={"tokens": 32, "overlap": 8, "keep": "head-and-tail"}),
        transformer(query_prompt="query: "),
        StaticModel(backend="static-embeddings", checkpoint=MINILM),
    ],
    ids=["cosine", "maxsim", "windows", "head-and-tail", "prompt", "static"],
)
def test_light_encoder_equals_the_librarys(entry):
    light = load_encoder(entry, device="cpu")
    whole = load_encoder(entry, device="cpu", needs_torch=True)
    assert not isinstance(light, TransformerEncoder)
    assert light.fingerprint == whole.fingerprint
    for role in ROLES:
        assert light.salt(role) == whole.salt(role)
        (ours, found), (theirs, wanted) = encoded(light, role), encoded(whole, role)
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_equal(
                (one.windows, one.content, one.visible_char_end),
                (other.windows, other.content, other.visible_char_end),
            )
        for one, other in zip(found, wanted, strict=True):
            assert (one.shape, one.dtype) == (other.shape, other.dtype)
            np.testing.assert_allclose(one, other, atol=VECTOR_BOUND["float32"])


@pytest.mark.parametrize(
    "fields",
    [
        {"pooling": "cls"},
        {"late_chunking": {"tokens": 32, "overlap": 8}},
        {"max_tokens": 513},
        {"dimensions": 8},
        {"append": "[SEP]"},
        {"architecture": "gte"},
    ],
)
def test_other_entries_are_left_to_the_library(fields, tmp_path):
    entry = transformer(**fields)
    assert load_embedded(entry, tmp_path, device="cpu", dtype="float32") is None


def test_library_loads_it_without_a_kept_network(monkeypatch, tmp_path):
    entry = transformer()
    assert isinstance(load_encoder(entry, device="cpu"), EmbeddedEncoder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert load_embedded(entry, tmp_path, device="cpu", dtype="float32") is None


def test_engine_torch_leaves_it_to_the_library(monkeypatch, tmp_path):
    monkeypatch.setenv("PSIBENCH_ENGINE", "torch")
    assert load_embedded(transformer(), tmp_path, device="cpu", dtype="float32") is None


@pytest.mark.processes
@pytest.mark.parametrize("entry", [transformer(), transformer(scoring="maxsim")])
def test_encoding_with_it_imports_no_large_library(entry):
    code = f"""
import sys
from psibench.config.encoders import SentenceTransformerModel
from psibench.encode.batches import encode_texts
from psibench.encode.job import open_encoder
from psibench.config.sections import Encoding
entry = SentenceTransformerModel.model_validate_json({entry.model_dump_json()!r})
encoder, _ = open_encoder(entry, Encoding(device="cpu"))
(item,) = encoder.tokenize(["a text"], "document")
encoder.forward(item.windows, item.content)
print(*sorted(set({LIBRARIES}) & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
