from psibench.config.rerankers import (
    CheckpointReranker,
    CrossEncoderReranker,
    load_rerankers,
)

# The rerankers of the papers' protocols: FineWeb-PosQ, PosIR, Controlled, and those evaluated.
CHECKPOINTS = {
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
    # By users, beside them.
    "mixedbread-ai/mxbai-rerank-base-v2",
    "mixedbread-ai/mxbai-rerank-large-v2",
    "jinaai/jina-reranker-m0",
}


def test_registry_has_the_rerankers_of_the_protocols_and_three_embedded_ones():
    found = load_rerankers()
    hub = {e.checkpoint for e in found.values() if isinstance(e, CheckpointReranker)}
    assert hub == CHECKPOINTS
    embedded = {name for name in found if name.startswith("embedded-")}
    assert embedded == {"embedded-bm25", "embedded-minilm-cosine", "embedded-minilm-maxsim"}


def test_every_hub_checkpoint_is_pinned_to_a_commit_and_runs_no_remote_code():
    for name, entry in load_rerankers().items():
        if isinstance(entry, CheckpointReranker):
            assert entry.revision is not None, name
        if isinstance(entry, CrossEncoderReranker):
            assert not entry.trust_remote_code, name
