"""Languages written as ``eng-Latn``: their English names, shorter codes, and how they are written.

A language is its code of ISO 639-3, a hyphen, and its script's code of ISO 15924. ``qps`` is the
pseudo-locale: text that a program has made look like another language, for tests. Every function
raises InputError if a code is not of this form.
"""

import re
from functools import cache
from typing import TYPE_CHECKING

from psibench.errors import InputError

if TYPE_CHECKING:
    from langcodes import Language

PSEUDO = "qps"

PRIVATE = ("qaa", "qtz")
"""The first and the last of the codes that ISO 639-3 keeps free for private use."""

UNSPACED_SCRIPTS = frozenset("Bopo Hani Hans Hant Hira Hrkt Jpan Kana Khmr Laoo Mymr Thai".split())
"""Scripts written without spaces between words."""
SPACED_SENTENCES = frozenset("Khmr Laoo Mymr Thai".split())
"""Of them those that put a space between sentences; Chinese and Japanese do not."""
UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}ー\p{Bopomofo}\p{Khmer}\p{Lao}\p{Myanmar}\p{Thai}"
"""Their characters, as the inside of a class of the `regex` module."""

_CODE = re.compile(r"([a-z]{3})-([A-Z][a-z]{3})")


def english_name(code: str) -> str:
    """Give the English name of a language, its script in brackets where that is not understood.

    ``ara-Arab`` is Arabic, ``cmn-Hans`` Chinese (Simplified), ``srp-Cyrl`` Serbian (Cyrillic),
    ``qps-Latn`` pseudo-locale (Latin). Raises InputError also if language or script do not exist.
    """
    (name, _), script = split_code(code), script_name(code)
    if name == PSEUDO:
        return f"pseudo-locale ({script})"
    language = _language(code)
    if not language.is_valid() or PRIVATE[0] <= name <= PRIVATE[1]:
        raise InputError(f"language {code!r}: there is no language {name!r}; {_FORM}")
    return language.display_name("en")


def language_name(code: str) -> str:
    """Give the English name of a language, without its script."""
    return _language(code).language_name("en")


def script_name(code: str) -> str:
    """Give the English name of a language's script: Latin, Arabic, Simplified, Han."""
    from langcodes import Language

    _, script = split_code(code)
    if not Language.make(language="und", script=script).is_valid():
        raise InputError(f"language {code!r}: there is no script {script!r}; {_FORM}")
    return Language.make(script=script).script_name("en")


def iso639_1(code: str) -> str | None:
    """Give the two-letter code of ISO 639-1: ``de`` of ``deu-Latn``; None where there is none.

    A language that ISO 639-3 counts to a macrolanguage has the latter's: ``cmn-Hans`` is ``zh``.
    """
    short = _language(code).language or ""
    return short if len(short) == 2 else None


def html_lang(code: str) -> str:
    """Give the tag of BCP 47, shortest form, as HTML's ``lang`` wants it: ``zh-Hans``, ``ar``."""
    return _language(code).to_tag()


def spaces_sentences(code: str) -> bool:
    """Say whether a language puts a space between sentences: all do but Chinese and Japanese."""
    return split_code(code)[1] not in UNSPACED_SCRIPTS - SPACED_SENTENCES


def split_code(code: str) -> tuple[str, str]:
    """Return language and script of a code."""
    found = _CODE.fullmatch(code)
    if not found:
        raise InputError(f"language {code!r}: not of the form of eng-Latn; {_FORM}")
    return found[1], found[2]


def split_pair(pair: str) -> tuple[str, str]:
    """Return the two languages of ``qps-Latn-eng-Latn``: of the queries and of the documents."""
    parts = pair.split("-")
    middle = len(parts) // 2
    return "-".join(parts[:middle]), "-".join(parts[middle:])


@cache
def _language(code: str) -> "Language":
    """Read a code, in the form that Unicode's locale data (CLDR) prefers."""
    from langcodes import Language, standardize_tag

    split_code(code)
    return Language.get(standardize_tag(code, macro=True), normalize=False)


_FORM = "write the language as in ISO 639-3 and its script as in ISO 15924, as eng-Latn or cmn-Hans"
