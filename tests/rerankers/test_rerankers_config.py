import yaml
from pydantic import TypeAdapter

from psibench.config.base import Id
from psibench.config.paths import CONFIG_FOLDER
from psibench.config.rerankers import CheckpointReranker, CrossEncoderReranker, RerankerModel
from psibench.rerankers.protocols import RERANKER_VERSIONS

# The rerankers of the papers' protocols: FineWeb-PosQ, PosIR, Controlled, and those evaluated.
PROTOCOL = {
    "maidalun1020/bce-reranker-base_v1",
    "cross-encoder/mmarco-mMiniLMv2-L12-H384-v1",
    "jinaai/jina-reranker-v1-turbo-en",
    "BAAI/bge-reranker-v2-minicpm-layerwise",
    "Alibaba-NLP/gte-reranker-modernbert-base",
    "Qwen/Qwen3-Reranker-0.6B",
    "Qwen/Qwen3-Reranker-4B",
    "Qwen/Qwen3-Reranker-8B",
    "BAAI/bge-reranker-v2-m3",
    "Alibaba-NLP/gte-multilingual-reranker-base",
    "jinaai/jina-reranker-v2-base-multilingual",
    "BAAI/bge-reranker-v2-gemma",
}
EXPECTED = {
    "mixedbread-ai/mxbai-rerank-base-v2",
    "mixedbread-ai/mxbai-rerank-large-v2",
    "jinaai/jina-reranker-m0",
}
"""By users, beside them."""


def entries() -> dict[str, RerankerModel]:
    raw = yaml.safe_load((CONFIG_FOLDER / "rerankers.yaml").read_text())
    return TypeAdapter(dict[Id, RerankerModel]).validate_python(raw)


def test_registry_has_the_rerankers_of_the_protocols_and_three_embedded_ones():
    found = entries()
    hub = {e.checkpoint for e in found.values() if isinstance(e, CheckpointReranker)}
    assert hub == PROTOCOL | EXPECTED
    embedded = {name for name in found if name.startswith("embedded-")}
    assert embedded == {"embedded-bm25", "embedded-minilm-cosine", "embedded-minilm-maxsim"}


def test_every_hub_checkpoint_is_pinned_to_a_commit_and_runs_no_remote_code():
    for name, entry in entries().items():
        if isinstance(entry, CheckpointReranker):
            assert entry.revision is not None, name
            assert len(entry.revision) == 40, name
            assert set(entry.revision) <= set("0123456789abcdef"), name
        if isinstance(entry, CrossEncoderReranker):
            assert not entry.trust_remote_code, name


def test_every_entry_says_under_which_licence_its_weights_are():
    for name, entry in entries().items():
        assert (
            "Apache-2.0" in entry.description
            or "CC BY" in entry.description
            or (name == "embedded-bm25")
        ), name


def test_every_backend_has_a_version():
    backends = {kind.model_fields["backend"].annotation.__args__[0] for kind in kinds()}
    assert backends == set(RERANKER_VERSIONS)


def kinds() -> tuple[type, ...]:
    return RerankerModel.__origin__.__args__
