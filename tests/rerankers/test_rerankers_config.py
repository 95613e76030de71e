from psibench.config.rerankers import (
    CheckpointReranker,
    CrossEncoderReranker,
    load_rerankers,
)


def test_every_hub_checkpoint_is_pinned_to_a_commit_and_runs_no_remote_code():
    for name, entry in load_rerankers().items():
        if isinstance(entry, CheckpointReranker):
            assert entry.revision is not None, name
        if isinstance(entry, CrossEncoderReranker):
            assert not entry.trust_remote_code, name
