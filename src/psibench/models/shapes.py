"""The few lengths that texts are padded to: those of like length share a batch."""

LADDER = ((128, 8), (256, 16), (512, 32), (1024, 64), (2048, 128))
"""Up to so many tokens, padded lengths are multiples of so many; above, of ``LAST_STEP``.

A step is 1/16 to 1/8 of the length above 64 tokens, so that padding takes 3 to 6 % where lengths
are spread evenly, in 48 shapes up to 2,048 tokens.
"""
LAST_STEP = 256


def padded_length(n_tokens: int, longest: int | None = None) -> int:
    """Return the length that a window of ``n_tokens`` is always padded to.

    Parameters
    ----------
    longest
        Most tokens the model takes; padding does not go beyond. None: any number.
    """
    step = next((step for limit, step in LADDER if n_tokens <= limit), LAST_STEP)
    length = max(step, -(-n_tokens // step) * step)
    return length if longest is None else max(n_tokens, min(length, longest))
