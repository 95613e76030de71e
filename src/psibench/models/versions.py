"""Version of what each model backend computes.

A part of the vectors' fingerprint and of the rules' parameters: bump it when the same registry
entry gives other vectors or scores.
"""

from psibench.models.backends import own_backends

MODEL_VERSIONS: dict[str, int] = {
    "bm25s": 2,
    "colbert": 2,
    "embedding-api": 1,
    "flag-embedding": 1,
    "sentence-transformers": 2,
    "vllm": 1,
} | {name: section.version for name, section in own_backends().items()}
