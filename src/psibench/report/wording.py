"""Numbers and names as a reader sees them."""

import math
from collections.abc import Callable

ALPHA = 0.05
MISSING = "–"
ENDS = ("", "_low", "_high")
"""What stands behind a figure's name in its column and in those of its interval."""
SCHEME_TEXTS = {
    "squad": "characters from the start of the passage",
    "thirds": "third of the passage",
    "thirds-every-tag": "third of the passage, a query of two tags in both",
    "relative-20": "relative position in the passage, 20 bins",
}
STATISTIC_TEXTS = {
    "n_queries": "queries",
    "query_words_mean": "words per query, mean",
    "query_words_std": "words per query, std",
    "n_passages": "passages",
    "passage_words_min": "words per passage, min",
    "passage_words_mean": "words per passage, mean",
    "passage_words_max": "words per passage, max",
    "passage_words_std": "words per passage, std",
    "passage_tokens_mean": "tokens per passage, mean",
    "passage_tokens_max": "tokens per passage, max",
    "positives_per_query_mean": "positives per query, mean",
}


def number(value: float | None) -> str:
    """Return three decimals with a true minus, ∞ for an end without bound, a dash for nothing."""
    if value is None or math.isnan(value):
        return MISSING
    text = f"{abs(value):.3f}" if math.isfinite(value) else "\N{INFINITY}"
    return f"\N{MINUS SIGN}{text}" if value < 0 and text != "0.000" else text


def p_value(value: float | None) -> str:
    """Return a p-value with three decimals, never as zero, nor as `ALPHA` where it is above it."""
    if value is None or not math.isfinite(value):
        return MISSING
    if value < 0.0005:
        return "<0.001"
    text = f"{value:.3f}"
    return f">{text}" if float(text) == ALPHA < value else text


def p_text(value: float | None) -> str:
    """Return a p-value as an equation: ``p = 0.012`` or ``p < 0.001``."""
    text = p_value(value)
    return f"p {text[0]} {text[1:]}" if text[0] in "<>" else f"p = {text}"


def percent(share: float | None, decimals: int = 1) -> str:
    """Return a share as a percentage, or a dash for nothing."""
    if share is None or not math.isfinite(share):
        return MISSING
    return f"{100 * share:.{decimals}f} %"


def change(value: float | None) -> str:
    """Return a difference with its sign (0 has none), or a dash for nothing."""
    if value is None or not math.isfinite(value):
        return MISSING
    text = f"{abs(value):.3f}"
    if not float(text):
        return text
    return f"{'+' if value > 0 else '−'}{text}"


def interval(low: float | None, high: float | None) -> str:
    """Return ``[low, high]``, or nothing if an end is missing."""
    ends = [number(low), number(high)]
    return "" if MISSING in ends else f"[{', '.join(ends)}]"


def estimate(
    value: float | None,
    low: float | None,
    high: float | None,
    *,
    shown: Callable[[float | None], str] = number,
    separator: str = " ",
) -> str:
    """Return a value and, where it has one, its interval."""
    ends = interval(low, high)
    return f"{shown(value)}{separator}{ends}" if ends else shown(value)


def count(value: float) -> str:
    """Return a whole number with thousands separated, another one with up to two decimals."""
    if not math.isfinite(value):
        return MISSING
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.2f}"


def cut(text: str, most: int) -> str:
    """Return a text of at most ``most`` characters, an ellipsis at its end if it was longer."""
    return text if len(text) <= most else f"{text[: most - 1]}\u2026"


def isolate(text: str) -> str:
    """Return an id between Unicode isolates: right-to-left ids leave the sentence in order."""
    return f"\u2068{text}\u2069"


def pair_text(query_lang: str, corpus_lang: str) -> str:
    """Return a language pair as shown: one name if both sides are the same."""
    return query_lang if query_lang == corpus_lang else f"{query_lang} → {corpus_lang}"
