"""Version of what each model backend computes.

A part of the vectors' fingerprint and of the rules' parameters: bump it when the same registry
entry gives other vectors or scores.
"""

MODEL_VERSIONS: dict[str, int] = {
    "bm25s": 2,
    "colbert": 1,
    "embedding-api": 1,
    "flag-embedding": 1,
    "sentence-transformers": 2,
    "static-embeddings": 2,
    "vllm": 1,
}
