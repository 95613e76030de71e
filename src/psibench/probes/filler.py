"""Text about nothing in particular, in sentences and paragraphs: what the insertion probe puts in.

In place of the extended Lorem ipsum of Needles (section 3.1.1): English, so that a model reads it
as text, with words and sentence patterns of our own. Nothing of it depends on the document.
"""

import hashlib
import random
from collections.abc import Iterator

from psibench.text.lengths import TokenCounter

_WORDS = {
    "thing": "bench basket ladder kettle lantern pebble ribbon shelf stool curtain bottle blanket "
    "button drawer feather fence gate jar mirror parcel pillow saucer thread tray wheel",
    "which": "brown small quiet plain heavy narrow round pale warm wooden broken hollow folded "
    "grey light loose square rough short smooth thin wide wet dusty faded",
    "who": "neighbour visitor child gardener stranger baker sailor painter cousin driver guest "
    "shepherd",
    "where": "beside the window|under the stairs|behind the shed|near the bridge|in the hall|"
    "on the lower step|by the pond|against the wall|along the lane|outside the kitchen",
    "when": "in the morning|after lunch|before the rain|at noon|late in the day|all summer|"
    "once a week|for a while|now and then|on most evenings",
    "does": "rests|stays|waits|leans|hangs|lies|turns|fades|dries|settles",
    "handles": "carries|mends|moves|lifts|forgets|borrows|counts|covers|paints|returns",
}
LISTS = {key: words.split("|" if "|" in words else " ") for key, words in _WORDS.items()}
PATTERNS = (
    "the {which} {thing} {does} {where}",
    "a {who} {handles} the {which} {thing} {when}",
    "{when} the {thing} {does} {where}",
    "the {who} {handles} a {thing} and a {which} {thing}",
    "every {thing} {where} is {which} or {which}",
    "no {who} {handles} the {thing} that {does} {where}",
    "if the {thing} is {which}, the {who} {handles} it {when}",
    "one {thing} {does} {where} while another {does} {where}",
    "there is a {which} {thing} {where}, and a {who} {handles} it",
    "some of the {which} ones lie {where} {when}",
)
SENTENCES = (3, 6)
"""Fewest and most sentences of a paragraph."""


def filler(n_tokens: int, *, key: str, count_tokens: TokenCounter) -> str:
    """Write a text of about so many tokens.

    Parameters
    ----------
    n_tokens
        Length to come near to, at least 1: to half a word, as words are not cut.
    key
        What decides the text. The text of fewer tokens is the beginning of that of more.
    count_tokens
        Tokens of texts, special ones left out.
    """
    seed = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest())
    pieces, lengths, total = _pieces(random.Random(seed)), dict[str, int](), 0
    text = ""
    while True:
        piece = next(pieces)
        word = piece.strip()
        if word not in lengths:
            lengths[word] = int(count_tokens([word])[0])
        over = total + lengths[word] - n_tokens
        if text and over >= n_tokens - total:
            return text
        text += piece
        total += lengths[word]
        if over >= 0:
            return text.lstrip()


def _pieces(rng: random.Random) -> Iterator[str]:
    """Yield words with what is before them, endlessly."""
    while True:
        space = "\n\n"
        for _ in range(rng.randint(*SENTENCES)):
            parts = rng.choice(PATTERNS).replace("{", "\0{").replace("}", "}\0").split("\0")
            filled = [rng.choice(LISTS[part[1:-1]]) if part[:1] == "{" else part for part in parts]
            sentence = "".join(filled)
            for word in f"{sentence[0].upper()}{sentence[1:]}.".split():
                yield space + word
                space = " "
