"""Texts with known words."""

import numpy as np

WORDS = (
    "river stone engine market winter letter garden copper window bridge forest signal "
    "harbour violin planet kitchen doctor history thunder paper silver castle ocean village"
).split()


def document(number: int, n_sentences: int = 12) -> str:
    """Return sentences of four random words; each number gives another document."""
    rng = np.random.default_rng(number)
    return " ".join(f"{' '.join(rng.choice(WORDS, 4)).capitalize()}." for _ in range(n_sentences))
