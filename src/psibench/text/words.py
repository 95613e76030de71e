"""Words of a text with exact offsets and stems, and a test for content words.

A word has at least two letters or digits, as BM25 indexes them. Combining marks belong to words
(vowel signs of Hindi, points of Hebrew and Arabic), and so do format characters between letters
(joiners of Persian and of Indian scripts, marks of direction, soft hyphens), as in Unicode's word
boundaries (UAX 29, rule WB4).
"""

import unicodedata
from dataclasses import dataclass
from functools import cache

import regex
import Stemmer

LETTER = r"[\p{L}\p{N}\p{M}_]"
FORMAT = r"[\p{Cf}--\u200b]"  # without the zero-width space
_WORD = regex.compile(rf"(?V1)[\p{{L}}\p{{N}}_](?:{LETTER}|{FORMAT}+(?={LETTER}))+")
_CONTENT = regex.compile(r"[\p{L}\p{M}\p{Cf}]{3,}")
_FORMAT = regex.compile(rf"(?V1){FORMAT}+")
_INVISIBLE = regex.compile(r"(?V1)[\p{DI}--[\u200b\u200c]]|(?<!\p{Arabic})\u200c")
_SYMBOL = regex.compile(r"\p{S}")

# English words without a topic: articles, pronouns, prepositions, conjunctions, auxiliaries, and
# adverbs of degree, time and manner.
STOP_WORDS = frozenset(
    """
    a an the this that these those such same other another each every either neither both all any
    some many much more most few fewer less least several own no none nothing something anything
    everything one ones i me my mine myself you your yours yourself yourselves he him his himself
    she her hers herself it its itself we us our ours ourselves they them their theirs themselves
    who whom whose which what when where why how whether while until unless because since although
    though if then else than as and or nor but not only also too very just even still already yet
    again once here there now always never often usually sometimes of at by for with without within
    about against between among into onto through during before after above below over under up
    down in out on off from to toward towards upon along across behind beyond per via instead
    be am is are was were been being have has had having do does did doing done can cannot could
    may might must shall should will would ought need let get gets got make makes made so thus
    hence therefore however otherwise rather quite perhaps likely don doesn didn isn aren wasn
    weren hasn haven hadn won wouldn shouldn couldn ll ve re ain ie eg etc see example
    examples
    """.split()
)


@dataclass(frozen=True)
class Words:
    """The words of one text, in order; all three tuples have the same length.

    ``text[starts[i]:ends[i]]`` is word i; ``stems[i]`` is its lower-cased stem.
    """

    starts: tuple[int, ...]
    ends: tuple[int, ...]
    stems: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.stems)


@cache
def stemmer() -> Stemmer.Stemmer:
    """Return the Snowball stemmer of English."""
    return Stemmer.Stemmer("english")


def tokenise(text: str) -> Words:
    """Return the words of ``text`` with their offsets and stems.

    Each word is lower-cased separately, so offsets stay exact even if lower-casing changes its
    length. Words that look the same, with combining accents or with joiners, have the same stem. An
    empty text has no words.
    """
    matches = list(_WORD.finditer(text))
    stems = stemmer().stemWords([_folded(match.group()) for match in matches])
    return Words(
        tuple(match.start() for match in matches),
        tuple(match.end() for match in matches),
        tuple(stems),
    )


def _folded(word: str) -> str:
    if not word.isascii():
        word = _FORMAT.sub("", unicodedata.normalize("NFC", word))
    return word.lower()


def without_invisible(text: str) -> str:
    """Remove characters that Unicode calls default ignorable.

    These are the soft hyphen, the word joiner, the byte order mark, variation selectors and marks
    of direction. Two characters are kept, since they end a word: the zero-width space (U+200B), and
    the non-joiner (U+200C) after an Arabic letter, where Persian uses it before endings.
    """
    if text.isascii():
        return text
    visible: str = _INVISIBLE.sub("", text)
    return visible


def one_form(text: str) -> str:
    """Return the form of a text that is indexed, the same for texts that look the same.

    It has no invisible characters (`without_invisible`) and is in NFKC, as in Lucene's
    ICUFoldingFilter. A symbol that NFKC turns into letters becomes a separate word: ``Widget™`` is
    widget and tm.
    """
    visible = without_invisible(text)
    if unicodedata.is_normalized("NFKC", visible):
        return visible
    return unicodedata.normalize("NFKC", _SYMBOL.sub(r" \g<0> ", visible))


def is_content_word(word: str) -> bool:
    """Return whether a word has three or more characters, all letters, and is no stop word."""
    return _CONTENT.fullmatch(word) is not None and word.lower() not in STOP_WORDS
