"""What the stand-in reads out of a prompt: the texts between tags, and numbers it was given."""

import re
from collections.abc import Sequence

from psibench.text.words import is_content_word, tokenise

_SENTENCE = re.compile(r"\S(?:.*?)(?:[.!?…][\"')\]]*(?=\s|$)|(?=\n\s*\n)|$)", re.DOTALL)
_CJK_SENTENCE = re.compile(r"\S[^。！？]*[。！？]?", re.DOTALL)
_TOKEN = re.compile(r"\w+|[^\w\s]")


def tagged(prompt: str, tag: str) -> str:
    """Return the text between ``<tag>`` and the last ``</tag>``, without outer line feeds."""
    opener, closer = f"<{tag}>", f"</{tag}>"
    start = prompt.find(opener)
    end = prompt.rfind(closer)
    return "" if start < 0 or end < start else prompt[start + len(opener) : end].strip("\n")


def tagged_number(prompt: str, tag: str, default: int) -> int:
    """Return the number between ``<tag>`` and ``</tag>``."""
    text = tagged(prompt, tag).strip()
    return int(text) if text.isdigit() else default


def sentences(text: str) -> list[tuple[int, int]]:
    """Return the [start, end) of sentences in characters; paragraphs end a sentence too."""
    pattern = _CJK_SENTENCE if "。" in text else _SENTENCE
    return [match.span() for match in pattern.finditer(text)]


def count_tokens(text: str) -> int:
    """Count tokens as the stand-in bills them: words and single marks."""
    return len(_TOKEN.findall(text))


def content_stems(text: str) -> list[str]:
    """Return the stems of the words that carry meaning, once each, in order."""
    words = tokenise(text)
    spans = zip(words.starts, words.ends, words.stems, strict=True)
    return list(dict.fromkeys(s for a, b, s in spans if is_content_word(text[a:b])))


def own_terms(sentence: str, elsewhere: str, *, most: int) -> list[str]:
    """Return up to ``most`` words of a sentence, in order, those not found ``elsewhere`` first."""
    other = set(tokenise(elsewhere).stems)
    words = tokenise(sentence)
    found: dict[str, tuple[bool, int, str]] = {}
    for number, stem in enumerate(words.stems):
        surface = sentence[words.starts[number] : words.ends[number]]
        if stem not in found and is_content_word(surface):
            found[stem] = (stem in other, number, surface)
    chosen: Sequence[tuple[bool, int, str]] = sorted(found.values())[:most]
    return [surface for _, _, surface in sorted(chosen, key=lambda entry: entry[1])]
