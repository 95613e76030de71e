"""Language codes such as ``eng-Latn``: their English names, shorter codes, and spacing.

A code is ISO 639-3, a hyphen, and the script in ISO 15924. ``qps`` is the pseudo-locale: text that
a program made look like another language, for tests. Every function raises InputError if a code
does not have this form.
"""

import re
from functools import cache
from typing import TYPE_CHECKING

from psibench.errors import InputError

if TYPE_CHECKING:
    from langcodes import Language

PSEUDO = "qps"

PRIVATE = ("qaa", "qtz")
"""The first and the last code that ISO 639-3 reserves for private use."""

UNSPACED_SCRIPTS = frozenset("Bopo Hani Hans Hant Hira Hrkt Jpan Kana Khmr Laoo Mymr Thai".split())
"""Scripts written without spaces between words."""
SPACED_SENTENCES = frozenset("Khmr Laoo Mymr Thai".split())
"""Unspaced scripts with a space between sentences; Chinese and Japanese have none."""
UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}ー\p{Bopomofo}\p{Khmer}\p{Lao}\p{Myanmar}\p{Thai}"
"""Characters of the unspaced scripts, for a character class of the `regex` module."""

_CODE = re.compile(r"([a-z]{3})-([A-Z][a-z]{3})")


def english_name(code: str) -> str:
    """Return the English name of a language, with its script in brackets if it is ambiguous.

    ``ara-Arab`` is Arabic, ``cmn-Hans`` Chinese (Simplified), ``srp-Cyrl`` Serbian (Cyrillic),
    ``qps-Latn`` pseudo-locale (Latin). Raises InputError if language or script do not exist.
    """
    (name, _), script = split_code(code), script_name(code)
    if name == PSEUDO:
        return f"pseudo-locale ({script})"
    language = _language(code)
    if not language.is_valid() or PRIVATE[0] <= name <= PRIVATE[1]:
        raise InputError(f"language {code!r}: {name!r} is not a language; {_FORM}")
    return language.display_name("en")


def language_name(code: str) -> str:
    """Return the English name of a language, without its script."""
    return _language(code).language_name("en")


def script_name(code: str) -> str:
    """Return the English name of a language's script: Latin, Arabic, Simplified, Han."""
    from langcodes import Language

    _, script = split_code(code)
    if not Language.make(language="und", script=script).is_valid():
        raise InputError(f"language {code!r}: {script!r} is not a script; {_FORM}")
    return Language.make(script=script).script_name("en")


def iso639_1(code: str) -> str | None:
    """Return the two-letter code of ISO 639-1, e.g. ``de`` for ``deu-Latn``; None if it has none.

    A language of a macrolanguage gets the code of the macrolanguage: ``cmn-Hans`` gives ``zh``.
    """
    short = _language(code).language or ""
    return short if len(short) == 2 else None


def html_lang(code: str) -> str:
    """Return the shortest BCP 47 tag, as for HTML's ``lang``: ``zh-Hans``, ``ar``."""
    return _language(code).to_tag()


def spaces_sentences(code: str) -> bool:
    """Return whether a language puts a space between sentences: all but Chinese and Japanese do."""
    return split_code(code)[1] not in UNSPACED_SCRIPTS - SPACED_SENTENCES


def split_code(code: str) -> tuple[str, str]:
    """Return language and script of a code."""
    found = _CODE.fullmatch(code)
    if not found:
        raise InputError(f"language {code!r}: does not have the form eng-Latn; {_FORM}")
    return found[1], found[2]


def split_pair(pair: str) -> tuple[str, str]:
    """Return the languages of queries and documents, e.g. of ``qps-Latn-eng-Latn``."""
    parts = pair.split("-")
    middle = len(parts) // 2
    return "-".join(parts[:middle]), "-".join(parts[middle:])


@cache
def _language(code: str) -> "Language":
    """Parse a code, in the form that Unicode's locale data (CLDR) prefers."""
    from langcodes import Language, standardize_tag

    split_code(code)
    return Language.get(standardize_tag(code, macro=True), normalize=False)


_FORM = "write the language in ISO 639-3 and its script in ISO 15924, e.g. eng-Latn or cmn-Hans"
