"""Version of what each model backend computes.

A part of the vectors' fingerprint and of the rules' parameters: bump it when the same registry
entry gives other vectors or scores.
"""

MODEL_VERSIONS: dict[str, int] = {
    "bm25s": 2,
    "sentence-transformers": 1,
    "static-embeddings": 1,
}
