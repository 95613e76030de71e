"""Types of English and Chinese queries by their interrogatives.

The types are PosIR's (Table 6). Its keyword lists are not published, so this module has other
lists. An English query gets its type from the interrogative that opens it or a later clause; a
Chinese query from its first interrogative, which seldom opens the sentence.
"""

import re
from collections.abc import Callable, Sequence

QUERY_TYPES = ("WHAT", "HOW", "WHY", "WHICH", "WHEN", "WHERE", "WHO", "CLAIM", "OTHERS")
CLAIM, OTHERS = "CLAIM", "OTHERS"

_ENGLISH_TYPES = {
    "what": "WHAT",
    "whats": "WHAT",
    "how": "HOW",
    "hows": "HOW",
    "why": "WHY",
    "which": "WHICH",
    "when": "WHEN",
    "where": "WHERE",
    "wheres": "WHERE",
    "who": "WHO",
    "whos": "WHO",
    "whom": "WHO",
    "whose": "WHO",
}
PREPOSITIONS = frozenset(
    "about after against among as at before between beyond by despite during for from in into of "
    "on over since through throughout to toward towards under until up upon with within without "
    "and but or so then also".split()
)
"""Words that may precede the interrogative: in which year, and why."""
YES_NO = frozenset(
    "is are was were am be do does did has have had can could will would shall should may might "
    "must isnt arent wasnt werent dont doesnt didnt hasnt havent hadnt cant couldnt wont wouldnt "
    "shouldnt".split()
)
REQUESTS = frozenset(
    "analyse analyze compare define describe discuss elaborate explain find give identify list "
    "name outline please provide show specify state summarise summarize tell".split()
)
LEADING_WORDS = 4
"""Number of words at the start of a clause among which its interrogative is searched."""

CHINESE = {
    "WHY": "为什么 为啥 为何 缘何 何故 何以 凭什么 怎么会",
    "HOW": "怎么 怎样 如何 多少 多大 多长 多久 多高 多远 多深 多重 多快 多宽 多厚 几成 咋",
    "WHEN": "什么时候 什么时间 什么年代 什么时期 何时 何年 何月 何日 哪年 哪一年 哪天 哪一天 "
    "哪个月 哪个时期 哪个世纪 哪月 几时 几月 几点 几几年",
    "WHERE": "什么地方 哪里 哪儿 何处 何地 何方 哪个地方 哪个国家 哪个城市",
    "WHO": "谁 何人 什么人 哪位",
    "WHICH": "哪个 哪些 哪种 哪类 哪项 哪几 哪一 哪两 哪三 哪家 哪本 哪条 哪座 哪款 哪部 哪",
    "WHAT": "什么 何为 何谓 何种 是何 有何 啥",
}
TRADITIONAL = str.maketrans(
    "為麼麽樣時裡裏兒處誰個種幾項類長遠間點國條緣嗎還請說釋紹說過難會沒否於後",
    "为么么样时里里儿处谁个种几项类长远间点国条缘吗还请说释绍说过难会没否于后",
)
HOW_MANY = re.compile(r"几(?![乎何率维内丁])")
"""How many, in a question; not as part of almost, geometry or Guinea."""
CHINESE_YES_NO = re.compile(
    r"吗|是否|能否|可否|会否|有无|难道|有没有|还是|(?P<verb>[是能会要可有对应])不(?P=verb)"
)
CHINESE_REQUESTS = tuple(
    "请 列出 列举 说出 说明 解释 描述 介绍 简述 阐述 分析 比较 指出 写出 给出".split()
)

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_CLAUSE = re.compile(r"[,;:，；：\n]|\s[-–—]+\s")
_QUESTION_END = re.compile(r"[?？][\s\"'”’」』)）\]]*$")
_STATEMENT_END = re.compile(r"[.!。！…][\s\"'”’」』)）\]]*$")
_KINDS = {word: kind for kind, words in CHINESE.items() for word in words.split()}
_LONGEST_FIRST = sorted(_KINDS, key=lambda word: (-len(word), word))
_CHINESE = re.compile(
    r"(?P<where>在哪(?![些个种类项一几两三家本条座款部年天位国届份段支场]))|"
    r"(?<=[称名改叫作变译定选视成])为(?P<what>什么)|" + "|".join(_LONGEST_FIRST)
)
"""Interrogatives, the longest first; 称为什么 asks what something is called, not why."""


def query_types(texts: Sequence[str], *, language: str) -> list[str] | None:
    """Return the type of each query, one of `QUERY_TYPES`; None if the language has no rules.

    ``CLAIM`` is a statement or a list of keywords. ``OTHERS`` are yes/no questions, requests
    (explain, list, ...) and questions without an interrogative.
    """
    rule = _TYPING.get(language.partition("-")[0])
    return None if rule is None else [rule(text) for text in texts]


def _english(text: str) -> str:
    """Return the type of an English query; case and apostrophes are ignored."""
    asks = _QUESTION_END.search(text) is not None
    if _STATEMENT_END.search(text) and not _is_request(_words(text)):
        return CLAIM
    clauses = [words for part in _CLAUSE.split(text) if (words := _words(part))]
    if not clauses:
        return CLAIM
    first = clauses[0]
    if first[0] in YES_NO or _is_request(first):
        return OTHERS
    for words in clauses if asks else clauses[:1]:
        kind = _leading(words)
        if kind is not None:
            return kind
        if words[0] in YES_NO:
            return OTHERS
    return OTHERS if asks else CLAIM


def _words(text: str) -> list[str]:
    found = (word.lower().replace("’", "'") for word in _WORD.findall(text))
    return [_without_clitic(word) for word in found]


def _without_clitic(word: str) -> str:
    """Return what, who and isnt for what's, who're and isn't."""
    stem = word.partition("'")[0]
    return stem if stem in _ENGLISH_TYPES else word.replace("'", "")


def _is_request(words: Sequence[str]) -> bool:
    return bool(words) and words[0] in REQUESTS


def _leading(words: Sequence[str]) -> str | None:
    """Return the type of the interrogative that opens a clause, after optional prepositions."""
    for index, word in enumerate(words[:LEADING_WORDS]):
        if word in _ENGLISH_TYPES:
            is_reason = word == "how" and words[index + 1 : index + 2] == ["come"]
            return "WHY" if is_reason else _ENGLISH_TYPES[word]
        if word not in PREPOSITIONS:
            return None
    return None


def _chinese(text: str) -> str:
    """Return the type of a Chinese query, in simplified or traditional characters."""
    plain = text.translate(TRADITIONAL).replace("甚么", "什么")
    if plain.startswith(CHINESE_REQUESTS):
        return OTHERS
    if _STATEMENT_END.search(plain):
        return CLAIM
    found = _CHINESE.search(plain)
    asks = _QUESTION_END.search(plain) is not None
    if found is not None:
        return {"where": "WHERE", "what": "WHAT"}.get(found.lastgroup or "") or _KINDS[found[0]]
    if asks and HOW_MANY.search(plain):
        return "HOW"
    if asks or CHINESE_YES_NO.search(plain) or plain.endswith("呢"):
        return OTHERS
    return CLAIM


_TYPING: dict[str, Callable[[str], str]] = {"eng": _english, "cmn": _chinese, "zho": _chinese}
