"""QUERY_SCORES rows of small systems, for tests of `psibench compare` and its gates."""

from typing import Any

import numpy as np
import polars as pl

THIRDS = ("beginning", "middle", "end")


def table(scores: np.ndarray, *, cut: bool = False, **columns: Any) -> pl.DataFrame:
    """QUERY_SCORES of a query per third of each document; ``cut``: the last third was not read."""
    n = len(scores)
    seen = [1.0, 1.0, 0.0] if cut else [1.0, 1.0, 1.0]
    rows = {
        "model": "system",
        "query_id": [f"q{d:03d}-{third}" for d in range(n) for third in range(3)],
        "domain": "general",
        "document_id": [f"d{d:03d}" for d in range(n) for _ in range(3)],
        "cluster": None,
        "span_start_char": pl.Series([100, 450, 800] * n, dtype=pl.Int32),
        "span_mid_char": [110.0, 460.0, 810.0] * n,
        "pos_char_length": pl.Series([900] * 3 * n, dtype=pl.Int32),
        "relative_position": [110 / 900, 460 / 900, 810 / 900] * n,
        "target_position": list(THIRDS) * n,
        "target_positions": list(THIRDS) * n,
        "length_bucket": pl.Series([None] * 3 * n, dtype=pl.String),
        "visible": seen * n,
        "pos_visible": (0.7 if cut else 1.0),
        "ndcg@10": np.asarray(scores, dtype=float).ravel(),
    }
    return pl.DataFrame(rows).with_columns(**columns)
