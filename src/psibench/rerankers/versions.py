"""Version of what each reranker backend computes.

A part of the fingerprint that scores are stored under: bump it when the same registry entry gives
other scores.
"""

RERANKER_VERSIONS: dict[str, int] = {
    "cross-encoder": 2,
    "flag": 2,
    "flag-llm": 2,
    "flag-layerwise": 2,
    "qwen3": 2,
    "bm25": 1,
    "bi-encoder": 1,
}
