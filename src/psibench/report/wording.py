"""Text of numbers, p-values, intervals and names for pages and terminals."""

import math
from collections.abc import Callable

from psibench.metrics.constants import SIGNIFICANCE_LEVEL

MISSING = "–"
ENDS = ("", "_low", "_high")
"""Suffixes of the columns of a number and of its interval."""
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


def number_text(value: float | None) -> str:
    """Return a number with three decimals: a true minus sign, ∞ if infinite, a dash for None."""
    if value is None or math.isnan(value):
        return MISSING
    text = f"{abs(value):.3f}" if math.isfinite(value) else "\N{INFINITY}"
    return f"\N{MINUS SIGN}{text}" if value < 0 and text != "0.000" else text


def p_value(value: float | None) -> str:
    """Return a p-value with three decimals.

    A smaller one is ``<0.001``; one just above .05 that rounds to it is ``>0.050``.
    """
    if value is None or not math.isfinite(value):
        return MISSING
    if value < 0.0005:
        return "<0.001"
    text = f"{value:.3f}"
    return f">{text}" if float(text) == SIGNIFICANCE_LEVEL < value else text


def p_text(value: float | None) -> str:
    """Return a p-value as an equation: ``p = 0.012`` or ``p < 0.001``."""
    text = p_value(value)
    return f"p {text[0]} {text[1:]}" if text[0] in "<>" else f"p = {text}"


def percent(share: float | None, decimals: int = 1) -> str:
    """Return a share as a percentage, or a dash for None."""
    if share is None or not math.isfinite(share):
        return MISSING
    return f"{100 * share:.{decimals}f} %"


def change(value: float | None) -> str:
    """Return a difference with its sign (none for 0), or a dash for None."""
    if value is None or not math.isfinite(value):
        return MISSING
    text = f"{abs(value):.3f}"
    if not float(text):
        return text
    return f"{'+' if value > 0 else '−'}{text}"


def interval(low: float | None, high: float | None) -> str:
    """Return ``[low, high]``, or an empty text if an end is missing."""
    ends = [number_text(low), number_text(high)]
    return "" if MISSING in ends else f"[{', '.join(ends)}]"


def estimate(
    value: float | None,
    low: float | None,
    high: float | None,
    *,
    shown: Callable[[float | None], str] = number_text,
    separator: str = " ",
) -> str:
    """Return a value, followed by its interval if it has one."""
    ends = interval(low, high)
    return f"{shown(value)}{separator}{ends}" if ends else shown(value)


def count(value: float) -> str:
    """Return a number with thousands separators; with two decimals unless it is whole."""
    if not math.isfinite(value):
        return MISSING
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.2f}"


def cut(text: str, most: int) -> str:
    """Shorten a text to ``most`` characters, with an ellipsis at its end."""
    return text if len(text) <= most else f"{text[: most - 1]}\u2026"


def isolate(text: str) -> str:
    """Return an id between Unicode isolates, so that right-to-left ids keep the sentence order."""
    return f"\u2068{text}\u2069"


def pair_text(query_lang: str, corpus_lang: str) -> str:
    """Return the text of a language pair: one name if both sides are the same."""
    return query_lang if query_lang == corpus_lang else f"{query_lang} → {corpus_lang}"
