"""The stand-in's rules about translations: into a pseudo-locale, and judged against it.

Of the translations a small share is spoilt as real ones are, so that cleaning has something to
find: by a sentence before the text, a refusal, the text given twice, or left as it was. The hash
of text and language decides which, whoever asks and however.
"""

import hashlib
import re
from collections import Counter
from typing import Any

from psibench.llm.standin.locales import LOCALES, locale_of
from psibench.llm.standin.prompt import sentences, tagged
from psibench.llm.standin.task import Handler, Task

FAULTS = {"prefix": 0.02, "refusal": 0.01, "repeated": 0.01, "untranslated": 0.01}
"""Fault -> share of the texts that have it."""
PREFIXES = (
    "Here is the translation:\n\n",
    "Here is the {kind} translated into {language}:\n\n",
    "Sure! Below is the translation into {language}:\n\n",
    "Translation:\n",
)
REFUSALS = (
    "I'm sorry, but I cannot translate this {kind}.",
    "I cannot assist with translating this {kind} into {language}.",
    "As an AI language model, I am unable to translate this {kind}.",
)
REFUSING = (
    "i'm sorry",
    "i am sorry",
    "i cannot",
    "i can't",
    "as an ai",
    "i am unable",
    "i'm unable",
)
BEGINNING = 200
"""Characters of a text in which the words of a refusal are looked for."""

_WORD = re.compile(r"\w+")


def translate(task: Task) -> dict[str, Any]:
    """Translate into the language's pseudo-locale; a few texts come out spoilt."""
    text, kind = tagged(task.prompt, "text"), tagged(task.prompt, "kind")
    language = tagged(task.prompt, "target_language")
    number, fault = fault_of(text, language)
    made = locale_of(language).translate(text)
    if fault == "prefix":
        made = PREFIXES[number % len(PREFIXES)].format(kind=kind, language=language) + made
    elif fault == "refusal":
        made = REFUSALS[number % len(REFUSALS)].format(kind=kind, language=language)
    elif fault == "repeated":
        made = f"{made}\n\n{made}"
    elif fault == "untranslated":
        made = text
    return {"translation": made}


def fault_of(text: str, language: str) -> tuple[int, str | None]:
    """Return a number of a text and a language, and the fault it has in it, if any."""
    digest = hashlib.sha256(f"{language}\0{text}".encode()).digest()
    place = int.from_bytes(digest[:8]) / 2**64
    for fault, share in FAULTS.items():
        place -= share
        if place < 0:
            return digest[8], fault
    return digest[8], None


def judge_refusal(task: Task) -> dict[str, Any]:
    """Say what a text is by its beginning: in the language's locale it is a translation.

    Else it is a refusal if it has the words of one, and untranslated without.
    """
    beginning = tagged(task.prompt, "text")[:BEGINNING]
    if locale_of(tagged(task.prompt, "target_language")).share(beginning) >= 0.5:
        return {"verdict": "translation"}
    plain = beginning.lower().replace("’", "'")
    is_refusal = any(phrase in plain for phrase in REFUSING)
    return {"verdict": "refusal" if is_refusal else "untranslated"}


def relocate_span(task: Task) -> dict[str, Any]:
    """Quote the evidence as the locale has it, or as it was left; nothing if it is not there.

    Erring, it quotes any other sentence.
    """
    document, evidence = tagged(task.prompt, "document"), tagged(task.prompt, "evidence")
    locale = locale_of(tagged(task.prompt, "target_language"))
    forms = (locale.translate(evidence), evidence)
    quote = next((form for form in forms if form in document), "")
    if task.is_wrong:
        texts = [document[start:end] for start, end in sentences(document)]
        others = [text for text in texts if text not in quote]
        quote = task.rng.choice(others) if others else quote
    return {"quote": quote}


def judge_translation(task: Task) -> dict[str, Any]:
    """Compare a translation with what the locale makes of the source: 1 + 4 times each share.

    fluency: letters of the locale among the letters. accuracy: words that the locale's version
    has, too. completeness: sentences of that version that stand in the translation. style: its
    length and number of lines against those of that version, the worse of both.
    """
    source, found = tagged(task.prompt, "source"), tagged(task.prompt, "translation")
    around = task.prompt.partition("<source>")[0] + task.prompt.rpartition("</translation>")[2]
    locale = locale_of(next((name for name in LOCALES if name in around), ""))
    wanted = locale.translate(source)
    words, right = (Counter(_WORD.findall(text)) for text in (found, wanted))
    pieces = [wanted[start:end] for start, end in sentences(wanted)]
    shares = {
        "fluency": locale.share(found) if found else 0.0,
        "accuracy": _ratio((words & right).total(), words.total()),
        "completeness": _ratio(sum(piece in found for piece in pieces), len(pieces)),
        "style": min(_alike(len(found), len(wanted)), _alike(_lines(found), _lines(wanted))),
    }
    return {name: 1 + round(4 * share) for name, share in shares.items()}


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _alike(one: int, other: int) -> float:
    return _ratio(min(one, other), max(one, other))


def _lines(text: str) -> int:
    return sum(bool(line.strip()) for line in text.split("\n"))


TRANSLATING: tuple[Handler, ...] = (translate, judge_refusal, relocate_span, judge_translation)
