"""A ramp of colours from light to dark, and the text that can be read on each."""

RAMP = ("#f3f7fb", "#d3e3f1", "#a5c8e3", "#6ba6d0", "#3a80b6", "#1d5a91", "#0a3365")
"""Lightness falls from step to step, so order shows without colour vision."""
WHITE, BLACK = "#ffffff", "#000000"


def colour(share: float) -> str:
    """Return the colour at a share of the ramp, in [0, 1]; beyond it, that of its end."""
    place = min(max(share, 0.0), 1.0) * (len(RAMP) - 1)
    first = min(int(place), len(RAMP) - 2)
    low, high = _channels(RAMP[first]), _channels(RAMP[first + 1])
    mixed = [round(a + (b - a) * (place - first)) for a, b in zip(low, high, strict=True)]
    return "#" + "".join(f"{value:02x}" for value in mixed)


def text_colour(background: str) -> str:
    """Return white or black, whichever stands out more; the contrast is at least 4.5."""
    return max((WHITE, BLACK), key=lambda text: contrast(text, background))


def contrast(first: str, second: str) -> float:
    """Return the contrast ratio of two colours, 1 to 21 (WCAG 2, relative luminance)."""
    low, high = sorted((_luminance(first), _luminance(second)))
    return (high + 0.05) / (low + 0.05)


def _luminance(code: str) -> float:
    parts = [value / 255 for value in _channels(code)]
    linear = [v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
    return sum(weight * v for weight, v in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def _channels(code: str) -> list[int]:
    return [int(code[start : start + 2], 16) for start in (1, 3, 5)]
