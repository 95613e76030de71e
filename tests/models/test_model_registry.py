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
from tiny_checkpoints import save_bert, save_dense, save_model2vec, save_static

from psibench.config.model_params import retrieval_params
from psibench.config.models import EmbeddingApiModel, EncoderModel, Model, RerankModel
from psibench.config.paths import CONFIG_FOLDER
from psibench.config.registry import load_registry, parse_model
from psibench.config.rerankers import CheckpointReranker, load_rerankers
from psibench.models.load import load_encoder

REPOSITORY = CONFIG_FOLDER.parent
KNOWN = load_registry()
CLASSES = get_args(get_args(Model)[0])
TEXTS = ["w1 w2 w3", "w4 w5"]
TINY_TOKENS = 48  # of the 64 positions of the tiny checkpoints; the longest prompt takes 22


SHARP_BERT = partial(save_bert, spread=0.4)  # so that the first token's state differs between texts


def save_stella(folder: Path) -> Path:
    """Save model type `new` with a projection to 16 dimensions, named as the entry names it."""
    tiny.save_new_type_gte(folder, prefix="", pooling="mean")
    save_dense(folder / "2_Dense_1024", 32, 16)
    return folder


TINY = {
    "stella-en-400m-v5": save_stella,
    "potion-retrieval-32m": save_model2vec,
    "static-embeddings": save_static,
    "opensearch-sparse-doc-v3": sparse.save_inference_free,
    "gte": tiny.save_new_type_gte,
    "bidirectional": tiny.save_bidirectional_qwen2,
    "nv-embed": tiny.save_nv_embed,
    "jina-v3": tiny.save_jina_v3,
    "jina-v4": tiny.save_jina_v4,
    "jina-bert": tiny.save_jina_bert,
    "nomic-long": tiny.save_nomic,
    "flash-xlm-roberta": late.save_jina_colbert,
    "colbert": late.save_colbert,
    "flag-embedding": late.save_bge_m3,
    "sparse-encoder": sparse.save_splade,
}
"""Id, architecture or backend -> what saves such a checkpoint; others are a BERT."""


def of(*classes: type) -> list[str]:
    return [name for name, entry in KNOWN.items() if isinstance(entry, classes)]


LOCAL = of(EncoderModel)
ON_THE_HUB = [name for name in of(EncoderModel) if not KNOWN[name].checkpoint.startswith("embed")]


@pytest.fixture
def tiny_entry(tmp_path):
    """Return an entry over a tiny checkpoint of its architecture (embedded ones over their own)."""

    def entry_of(name: str):
        entry = KNOWN[name]
        if name not in ON_THE_HUB:
            return entry
        kinds = (name, getattr(entry, "architecture", ""), entry.backend)
        if getattr(entry, "append", "") and entry.architecture == "auto":
            save = tiny.save_qwen3_embedding
        else:
            save = next((TINY[kind] for kind in kinds if kind in TINY), SHARP_BERT)
        save(tmp_path)
        own = {"checkpoint": str(tmp_path), "revision": None, "dim": None}
        if hasattr(entry, "max_tokens"):
            own["max_tokens"] = min(entry.max_tokens, TINY_TOKENS)
        return entry.model_copy(update=own)

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


@pytest.mark.parametrize("name", KNOWN)
def test_each_entry_is_described_pinned_and_without_custom_code(name):
    entry = KNOWN[name]
    assert entry.licence
    assert entry.description
    if isinstance(entry, EncoderModel):
        assert entry.parameters_m
        assert not entry.trust_remote_code
    if name in ON_THE_HUB:
        assert re.fullmatch(r"[0-9a-f]{40}", entry.revision or "")


def test_every_retriever_of_the_papers_tables_has_an_entry():
    """Of `Controlled` there are bases, which are trained first: no retrievers to download."""
    names = pl.read_csv(CONFIG_FOLDER / "published" / "models.csv")
    retrievers = names.filter(~pl.col("source").str.starts_with("Controlled"))
    assert retrievers.height == 29
    assert set(retrievers.get_column("model")) - set(KNOWN) == set()


@pytest.mark.parametrize("name", of(RerankModel))
def test_each_second_stage_names_an_existing_reranker(name):
    assert KNOWN[name].reranker in load_rerankers()
    assert KNOWN[name].depth == 100  # the papers'


def test_hub_rerankers_are_pinned_and_run_no_custom_code():
    for name, entry in load_rerankers().items():
        if isinstance(entry, CheckpointReranker):
            assert entry.revision, name
        assert not getattr(entry, "trust_remote_code", False), name


BASE = "all-minilm-l6-v2-512"
VARIANTS = ["minilm-windows-max", "minilm-windows-mean", "minilm-head-tail", "minilm-late-chunking"]


@pytest.mark.parametrize("name", VARIANTS)
def test_each_variant_differs_from_its_base_in_one_setting(name):
    mine, base = (retrieval_params(KNOWN[one]) for one in (name, BASE))
    differing = {key for key in mine.keys() | base.keys() if mine.get(key) != base.get(key)}
    assert len(differing) == 1
    assert differing <= {"windows", "late_chunking"}


def test_documented_examples_are_valid_and_cover_all_backends():
    text = (REPOSITORY / "docs" / "models.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```yaml\n(registry:.*?)```", text, flags=re.DOTALL)
    entries = yaml.safe_load(example)["registry"].values()
    found = [parse_model(entry).backend for entry in entries]
    others = {"bm25s"}  # no checkpoint to choose
    backends = {get_args(cls.model_fields["backend"].annotation)[0] for cls in CLASSES}
    assert set(found) == backends - others


def test_documented_table_has_the_sources_of_every_model():
    text = (REPOSITORY / "docs" / "models.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    for name in ON_THE_HUB + of(EmbeddingApiModel):
        (row,) = [row for row in rows if re.search(rf"(?<![\w.-]){name}[ ,]", row)]
        _, _, licence, source, _ = (cell.strip() for cell in row.split("|"))
        assert licence
        assert source
