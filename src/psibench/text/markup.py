"""Parts of a Markdown text that are no prose: fenced code, pictures, badges and link targets."""

import re

_FENCE = re.compile(r"^ {0,3}(?:> ?)*(?P<mark>`{3,}|~{3,})(?P<info>[^\n]*)$", re.MULTILINE)
_ADDRESS = r"\((?:[^()\s]|\([^()\s]*\))+(?:\s+(?:\"[^\"\n]*\"|'[^'\n]*'))?\)"
_PICTURE = rf"!\[[^\]\n]*\](?:{_ADDRESS}|\[[^\]\n]*\])"
_INLINE = re.compile(
    # A picture, also inside a link; the target of a link; the line that defines a reference.
    rf"\[\s*{_PICTURE}\s*\](?:{_ADDRESS}|\[[^\]\n]*\])|{_PICTURE}|(?<=\]){_ADDRESS}"
    r"|^ {0,3}\[[^\]\n]+\]:[^\n]*$",
    re.MULTILINE,
)


def code_blocks(text: str) -> list[tuple[int, int]]:
    """Return the spans of fenced code blocks, with their fences, in characters, ascending.

    As in CommonMark (section 4.5), a fence has three or more backticks or tildes, and a fence of at
    least as many of the same characters closes it; without one, the block ends with the text. A
    passage may begin inside a block: if a fence without a language is followed by one with a
    language, or by none, then everything before it counts as code, too.
    """
    blocks, opened = list[tuple[int, int]](), None
    for fence in _FENCE.finditer(text):
        mark, info = fence["mark"], fence["info"].strip()
        if mark[0] == "`" and "`" in info:
            continue  # inline code
        if opened is None:
            opened = fence
        elif mark[0] == opened["mark"][0] and len(mark) >= len(opened["mark"]):
            if not info:
                blocks.append((opened.start(), fence.end()))
                opened = None
            elif not opened["info"].strip():  # `opened` closed a block of the passage before
                blocks, opened = [(0, opened.end())], fence
    if opened is not None and opened["info"].strip():
        blocks.append((opened.start(), len(text)))
    elif opened is not None:
        blocks = [(0, len(text))]
    return blocks


def pictures_and_addresses(text: str) -> list[tuple[int, int]]:
    """Return the spans of pictures, badges, link targets and link definitions, in characters."""
    return [match.span() for match in _INLINE.finditer(text)]
