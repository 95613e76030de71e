"""Every entry of config/models.yaml: that it is complete, and that its class loads and encodes.

Checkpoints are tiny and random, in the layout of the entry's own; nothing is downloaded.
"""

import re
from functools import partial
from pathlib import Path
from typing import get_args

import numpy as np
import polars as pl
import pytest
import tiny_architectures as tiny
import tiny_late_checkpoints as late
import tiny_sparse as sparse
import yaml
from encoder_references import vectors_of
from tiny_checkpoints import save_bert, save_dense

from psibench.config.model_params import retrieval_params
from psibench.config.models import (
    Bm25Model,
    EmbeddingApiModel,
    EncoderModel,
    FusionModel,
    Model,
    RerankModel,
)
from psibench.config.paths import CONFIG_FOLDER
from psibench.config.registry import load_registry, parse_model
from psibench.config.rerankers import load_rerankers
from psibench.models.load import load_encoder

REPOSITORY = CONFIG_FOLDER.parent
KNOWN = load_registry()
CLASSES = get_args(get_args(Model)[0])
TEXTS = ["w1 w2 w3", "w4 w5"]
TINY_TOKENS = 48  # of the 64 positions of the tiny checkpoints; the longest prompt takes 22


def save_stella(folder: Path) -> Path:
    """Save model type `new` with a projection to 16 dimensions, named as the entry names it."""
    tiny.save_new_type_gte(folder, prefix="", pooling="mean")
    save_dense(folder / "2_Dense_1024", 32, 16)
    return folder


TINY = {
    "bge-m3": late.save_bge_m3,
    "stella-en-400m-v5": save_stella,
    "gte-multilingual-base": tiny.save_new_type_gte,
    "qwen3-embedding-0.6b": tiny.save_qwen3_embedding,
    "qwen3-embedding-4b": tiny.save_qwen3_embedding,
    "qwen3-embedding-8b": tiny.save_qwen3_embedding,
    "gte-qwen2-7b-instruct": tiny.save_bidirectional_qwen2,
    "inf-retriever-v1-1.5b": tiny.save_bidirectional_qwen2,
    "inf-retriever-v1": tiny.save_bidirectional_qwen2,
    "nv-embed-v2": tiny.save_nv_embed,
    "llama-embed-nemotron-8b": tiny.save_bidirectional_llama,
    "kalm-embedding-gemma3-12b-2511": tiny.save_gemma3,
    "jina-embeddings-v3": tiny.save_jina_v3,
    "jina-embeddings-v4": tiny.save_jina_v4,
    "jina-embeddings-v2-base-en": tiny.save_jina_bert,
    "bge-small-en-v1.5": partial(save_bert, spread=0.4),  # so that the first token tells texts
    "e5-large-v2": save_bert,
    "multilingual-e5-large": late.save_bge_m3,
    "nomic-embed-v1.5": tiny.save_nomic,
    "nomic-embed-v1.5-8192": tiny.save_nomic,
    "embeddinggemma-300m": tiny.save_embeddinggemma,
    "colbertv2.0": late.save_colbert,
    "colbertv2.0-512": late.save_colbert,
    "jina-colbert-v2": late.save_jina_colbert,
    "bge-m3-multi-vector": late.save_bge_m3,
    "bge-m3-sparse": late.save_bge_m3,
    "splade-v3": sparse.save_splade,
    "opensearch-sparse-v2-distill": sparse.save_splade,
    "opensearch-sparse-doc-v3": sparse.save_inference_free,
}
"""Id -> what saves a checkpoint of its architecture. Every entry of a hub checkpoint needs one."""


def of(*classes: type) -> list[str]:
    return [name for name, entry in KNOWN.items() if isinstance(entry, classes)]


LOCAL = of(EncoderModel)
ON_THE_HUB = [name for name in of(EncoderModel) if not KNOWN[name].checkpoint.startswith("embed")]


def test_each_entry_of_a_hub_checkpoint_has_a_tiny_one_to_be_tried_on():
    assert set(TINY) == set(ON_THE_HUB)


@pytest.fixture
def tiny_entry(tmp_path):
    """Return an entry over a tiny checkpoint of its architecture (embedded ones over their own)."""

    def entry_of(name: str):
        entry = KNOWN[name]
        if name not in TINY:
            assert entry.checkpoint == "embedded:all-MiniLM-L6-v2"
            return entry
        TINY[name](tmp_path)
        own = {"checkpoint": str(tmp_path), "revision": None, "dim": None}
        return entry.model_copy(update=own | {"max_tokens": min(entry.max_tokens, TINY_TOKENS)})

    return entry_of


@pytest.mark.parametrize("name", LOCAL)
def test_each_local_entry_loads_and_encodes_queries_and_documents(name, tiny_entry):
    entry = tiny_entry(name)
    encoder = load_encoder(entry, device="cpu")
    for role in ("query", "document"):
        vectors = vectors_of(encoder, TEXTS, role)
        assert [found.dtype for found in vectors] == [np.float32, np.float32]
        if entry.scores_by == "sparse":
            assert all(found.shape[1] == 3 and (found[:, 2] > 0).all() for found in vectors)
            assert sparse.weights_of(vectors[0]) != sparse.weights_of(vectors[1])
            continue
        norms = [np.linalg.norm(found, axis=1) for found in vectors]
        np.testing.assert_allclose(np.concatenate(norms), 1, atol=1e-5)
        many = entry.kind == "late-interaction"
        assert all((len(found) > 1) is many for found in vectors)
        assert not np.allclose(vectors[0][0], vectors[1][0], atol=1e-3)


@pytest.mark.parametrize("name", ON_THE_HUB)
def test_each_hub_checkpoint_is_pinned_to_a_commit_and_runs_no_code_of_its_own(name):
    entry = KNOWN[name]
    assert re.fullmatch(r"[\w.-]+/[\w.-]+", entry.checkpoint)
    assert re.fullmatch(r"[0-9a-f]{40}", entry.revision or "")
    assert not entry.trust_remote_code


@pytest.mark.parametrize("name", KNOWN)
def test_each_entry_says_licence_size_and_what_it_is(name):
    entry = KNOWN[name]
    assert entry.licence
    assert entry.description
    if isinstance(entry, EncoderModel):
        assert entry.parameters_m


def test_entries_of_one_checkpoint_agree_on_its_commit_size_and_licence():
    told: dict[str, set] = {}
    for name in of(EncoderModel):
        entry = KNOWN[name]
        facts = (entry.revision, entry.parameters_m, entry.licence)
        told.setdefault(entry.checkpoint, set()).add(facts)
    assert [checkpoint for checkpoint, facts in told.items() if len(facts) > 1] == []


def test_every_retriever_of_the_papers_tables_has_an_entry():
    """Of `Controlled` there are bases, which are trained first: no retrievers to download."""
    names = pl.read_csv(CONFIG_FOLDER / "published" / "models.csv")
    retrievers = names.filter(~pl.col("source").str.starts_with("Controlled"))
    assert retrievers.height == 29
    assert set(retrievers.get_column("model")) - set(KNOWN) == set()


@pytest.mark.parametrize("name", of(RerankModel))
def test_each_second_stage_names_a_reranker_that_there_is(name):
    assert KNOWN[name].reranker in load_rerankers()
    assert KNOWN[name].first_stage == KNOWN[name].mitigates  # None: search.first_stage
    assert KNOWN[name].depth == 100  # the papers'


@pytest.mark.parametrize("name", of(FusionModel))
def test_each_fused_model_names_models_that_search(name):
    assert set(KNOWN[name].of) <= set(of(EncoderModel, EmbeddingApiModel, Bm25Model))
    assert KNOWN[name].mitigates in {None, *KNOWN[name].of}


MITIGATIONS = [name for name in of(EncoderModel) if KNOWN[name].mitigates is not None]


@pytest.mark.parametrize("name", MITIGATIONS)
def test_each_mitigation_differs_from_what_it_mitigates_in_one_setting(name):
    mine, base = (retrieval_params(KNOWN[one]) for one in (name, KNOWN[name].mitigates))
    differing = {key for key in mine.keys() | base.keys() if mine.get(key) != base.get(key)}
    assert len(differing) == 1
    assert differing <= {"windows", "late_chunking", "calibrate"}


def test_the_documented_examples_are_valid_one_of_each_backend_and_cover_them_all():
    text = (REPOSITORY / "docs" / "models.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```yaml\n(registry:.*?)```", text, flags=re.DOTALL)
    entries = yaml.safe_load(example)["registry"].values()
    found = [parse_model(entry).backend for entry in entries]
    others = {"bm25s", "static-embeddings"}  # no checkpoint to choose
    backends = {get_args(cls.model_fields["backend"].annotation)[0] for cls in CLASSES}
    assert set(found) == backends - others


def test_the_documented_table_has_every_model_and_the_commit_it_is_pinned_to():
    text = (REPOSITORY / "docs" / "models.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    for name in ON_THE_HUB + of(EmbeddingApiModel):
        cells = [
            re.split(r"(?<!\\)\|", row) for row in rows if re.search(rf"(?<![\w.-]){name}[ ,]", row)
        ]
        (row,) = [found for found in cells if len(found) > 8]
        assert row[2].strip() == (getattr(KNOWN[name], "revision", "") or "")[:7]
        assert row[5].strip().replace(",", "") in (str(KNOWN[name].max_tokens), "180 512")


@pytest.mark.parametrize("name", of(EmbeddingApiModel))
def test_each_service_takes_its_key_from_the_environment_over_https(name):
    entry = KNOWN[name]
    assert entry.url.startswith("https://")
    assert re.fullmatch(r"[A-Z]+_API_KEY", entry.key_env or "")
    assert entry.tokens_per_request >= entry.max_tokens


def test_an_entry_of_the_embedded_checkpoint_says_that_it_has_no_prompt_and_reruns_nothing():
    entry = {"backend": "sentence-transformers", "max_tokens": 64}
    told = {
        checkpoint: retrieval_params(parse_model(entry | {"checkpoint": checkpoint}))
        for checkpoint in ("embedded:all-MiniLM-L6-v2", "owner/name")
    }
    assert [found["query_prompt"] for found in told.values()] == ["", None]
