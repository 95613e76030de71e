"""Questions that refer to their document, which a reader without the document cannot understand.

PosIR (appendix C.1) forbids questions that mention their source document or the position of the
answer in it. The phrases cover English and Chinese; questions in other languages pass.
"""

import re
from functools import cache

# "The passage" in a question nearly always refers to the prompt's text. A document, text or article
# may also be the topic of the question ("the text argument", "who signed the document").
_READ = "(?:passage|excerpt|paragraph|snippet)"
_NAMED = "(?:document|text|article)"
_VERBS = "says|mentions|describes|states|explains|discusses|suggests|claims|lists"
_PIECES = "author|beginning|start|middle|end|part|third|section|rest"
_SUBJECTS = "idea|point|topic|theme|purpose"
_ENGLISH = (
    f"(?:this|the|the above|the given|the provided) {_READ}",
    f"(?:this|the above|the given|the provided) {_NAMED}",
    f"(?:according to|based on|in|by|from|does) the {_NAMED}",
    f"is the {_NAMED} about",
    f"the {_NAMED} (?:above|below|{_VERBS})",
    f"(?:{_PIECES}|{_SUBJECTS}) of the {_NAMED}",
    "mentioned earlier",
    "(?:mentioned|described|listed) above",
    "does the author",
    "the author (?:says|mentions|describes|argues)",
    "the (?:first|middle|final|last) third",
)
# "The passage of the act", "the article on free speech": the question itself names the document.
_UNLESS_FOLLOWED_BY = "of|on|about|for|by|that|which|named|called"

# Chinese has no word borders: 本文 also occurs in 日本文化, 上文 in 历史上文献, 文中 in 英文中.
# Each phrase therefore includes some context.
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
    """Return the first phrase that refers to a document, or None if the question has none."""
    for pattern in _patterns():
        found = pattern.search(question)
        if found:
            return found.group()
    return None


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    phrases = "|".join(_ENGLISH).replace(" ", r"\s+")
    english = rf"\b(?:{phrases})\b(?!\s+(?:{_UNLESS_FOLLOWED_BY})\b)"
    return (
        re.compile(english, re.IGNORECASE),
        re.compile("|".join(map(re.escape, _CHINESE.split()))),
    )
