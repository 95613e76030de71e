"""Questions that point at a document, which only someone who has it before them understands.

PosIR (appendix C.1) forbids questions that mention their source document or the position of the
answer in it. The phrases cover English and Chinese; a question in another language passes.
"""

import re
from functools import cache

# "The passage" in a question is nearly always the one being read.
_PLAIN_NOUNS = "passage excerpt paragraph snippet"
_PLAIN_FRAMES = """
    this {}
    the {}
    the above {}
    the given {}
    the provided {}
"""
# These may also be what is searched for ("the text argument", "who signed the document").
_FRAMED_NOUNS = "document text article"
_FRAMES = """
    this {}
    the above {}
    the given {}
    the provided {}
    the {} above
    the {} below
    according to the {}
    based on the {}
    in the {}
    by the {}
    from the {}
    does the {}
    is the {} about
    the {} says
    the {} mentions
    the {} describes
    the {} states
    the {} explains
    the {} discusses
    the {} suggests
    the {} claims
    the {} lists
    author of the {}
    beginning of the {}
    start of the {}
    middle of the {}
    end of the {}
    part of the {}
    third of the {}
    section of the {}
    rest of the {}
    idea of the {}
    point of the {}
    topic of the {}
    theme of the {}
    purpose of the {}
"""
_OTHERS = """
    mentioned above
    mentioned earlier
    described above
    listed above
    does the author
    the author says
    the author mentions
    the author describes
    the author argues
    the first third
    the middle third
    the final third
    the last third
"""
# "The passage of the act", "the article on free speech": a document that the question names.
_UNLESS_FOLLOWED_BY = "of on about for by that which named called"

# Chinese has no word borders: 本文 also stands in 日本文化, 上文 in 历史上文献, 文中 in 英文中. So
# each phrase brings context of its own.
_CHINESE = """
    根据本文 根據本文 在本文 本文中 本文所 本文提 本文作者 本文认为 本文認為 本文介绍 本文介紹
    本文讨论 本文討論 本文描述 本文主要 本文主题 本文主題 本文指出 本文标题 本文標題
    根据上文 根據上文 上文提 上文中 上文所 如上文 根据下文 根據下文 下文提 下文中
    根据文中 根據文中 文中提 文中所述 文中所提 文中指出 文中描述
    根据文章 根據文章 文章中 文章提 文章说 文章說 文章指出 文章认为 文章認為 文章主要
    文章的标题 文章的標題 这篇文章 這篇文章 该文章 該文章 此文章 本篇文章 该文中 該文中
    根据文本 根據文本 根据该文本 该段落 該段落 本段落 这一段落 上述段落 上述文字 上述文本
    这段文字 這段文字 这段文本 這段文本 这段话 這段話
    根据文档 根據文檔 本文档 本文檔 该文档 該文檔 这份文档 這份文檔 此文档 文档中提 文檔中提
    根据原文 根據原文 原文中提 根据材料 根據材料 材料中提 根据短文 这篇短文 這篇短文
    文章开头 文章開頭 文章结尾 文章結尾 文章末尾 文章的开头 文章的结尾
    前三分之一部分 中间三分之一部分 最后三分之一部分 后三分之一部分
"""


def mentions_document(question: str) -> str | None:
    """Return the first phrase that points at a document, or None if the question has none."""
    for pattern in _patterns():
        found = pattern.search(question)
        if found:
            return found.group()
    return None


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    return _english(), re.compile("|".join(map(re.escape, _CHINESE.split())))


def _english() -> re.Pattern[str]:
    framed = [
        frame.format(noun)
        for frames, nouns in ((_PLAIN_FRAMES, _PLAIN_NOUNS), (_FRAMES, _FRAMED_NOUNS))
        for frame in _lines(frames)
        for noun in nouns.split()
    ]
    phrases = "|".join(phrase.replace(" ", r"\s+") for phrase in [*framed, *_lines(_OTHERS)])
    followers = "|".join(_UNLESS_FOLLOWED_BY.split())
    return re.compile(rf"\b(?:{phrases})\b(?!\s+(?:{followers})\b)", re.IGNORECASE)
